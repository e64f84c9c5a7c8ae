//! warpmill
