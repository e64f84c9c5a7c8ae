//! Functions as data: what sites must agree on to merge what each has computed.
//!
//! - [`aggregate`]: aggregations as accumulators with mergeable states;
//! - [`partial`]: those states as columns, in which one site hands its part of an aggregation to another.

pub mod aggregate;
pub mod partial;

pub use aggregate::Aggregation;
pub use partial::Partial;
