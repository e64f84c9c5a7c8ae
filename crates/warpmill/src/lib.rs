//! warpmill
pub mod join_order;
