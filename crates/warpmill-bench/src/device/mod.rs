//! Micro-benchmarks of device functions and algorithms, with their own data and an independent check of every answer.
//!
//! Times are measured by device events around the work: the median of several runs after a warm-up, with the L2 cache flushed before each. Every
//! result states the minimum number of bytes to move and the ratio of the time at [`FLOOR_BYTES_PER_SECOND`] to the measured time. On the simulated
//! device suites run small, as tests; its times are meaningless.

mod decode;
mod encode;
mod group_by;
mod harness;
mod join;
mod like;
mod report;
mod sort;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use harness::{FLOOR_BYTES_PER_SECOND, Options};
pub use report::{Measurement, Report};

use harness::Bench;
use warpmill_gpu::device::{Device, Result};

/// The benchmarks to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// Decoding of every encoding, fused with a sum or written out.
    Decode,
    /// Hash and direct-address joins.
    Join,
    /// Grouping with one sum.
    GroupBy,
    /// Radix sort and prefix sums.
    Sort,
    /// Substring search.
    Like,
}

impl Suite {
    /// All suites.
    pub const ALL: [Suite; 5] = [Suite::Decode, Suite::Join, Suite::GroupBy, Suite::Sort, Suite::Like];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Suite::Decode => "decode",
            Suite::Join => "join",
            Suite::GroupBy => "groupby",
            Suite::Sort => "sort",
            Suite::Like => "like",
        }
    }

    /// The suite called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.name() == name)
    }
}

/// Runs `suite` on `device`.
pub fn run(device: &Arc<dyn Device>, suite: Suite, options: &Options, report: &mut Report) -> Result<()> {
    let mut bench = Bench::new(device, options)?;
    match suite {
        Suite::Decode => decode::run(&mut bench, report),
        Suite::Join => join::run(&mut bench, report),
        Suite::GroupBy => group_by::run(&mut bench, report),
        Suite::Sort => sort::run(&mut bench, report),
        Suite::Like => like::run(&mut bench, report),
    }
}
