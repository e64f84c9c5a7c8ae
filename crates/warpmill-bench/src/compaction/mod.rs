//! The micro-benchmarks of the chunk compaction paper (section 6) on the CPU back end's own operators, without SQL around them.

mod experiments;
mod run;
mod workload;

pub use experiments::{CompactionOptions, CompactionRow, Experiment, ThresholdShare, compaction};
