//! Measurements of the back end itself, without SQL around it.
//!
//! [`compaction`] repeats the micro-benchmarks of the chunk compaction paper (section 6) on this engine's own operators.

mod compaction;
mod run;
mod workload;

pub use compaction::{CompactionOptions, CompactionRow, Experiment, ThresholdShare, compaction};
