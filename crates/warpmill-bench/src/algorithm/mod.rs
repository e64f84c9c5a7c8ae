//! Device algorithms with host code: they own their kernels, take device addresses and queue their work on a stream.
//!
//! - [`sort`]: stable radix sort of integer keys with optional payloads, partitioning;
//! - [`prefix_sum`]: exclusive prefix sums;
//! - [`substring`]: rows whose string contains given pieces in order.
//!
//! None of them allocates: callers pass scratch memory of the size that the algorithm reports.

pub mod prefix_sum;
pub mod sort;
pub mod substring;

#[cfg(test)]
mod tests;
