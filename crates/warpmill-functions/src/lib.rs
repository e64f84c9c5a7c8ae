//! Descriptions of functions that sites share, so that they can merge each other's results.
//!
//! - [`aggregate`]: aggregations as accumulators with mergeable states;
//! - [`partial`]: those states as columns, in which a site passes its part of an aggregation to another.

pub mod aggregate;
pub mod partial;

pub use aggregate::Aggregation;
pub use partial::Partial;
