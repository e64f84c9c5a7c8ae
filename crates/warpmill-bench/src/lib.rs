//! Benchmarks of the engine's parts, and code that only they use. No query uses this crate.
//!
//! - [`device`]: micro-benchmarks of device functions, with their own data and a check of every answer (`gpu_bench`, `warpmill bench decode`);
//! - [`links`]: the links between devices of one host, and exchanges over them (`gpu_bench links`);
//! - [`algorithm`]: sort, prefix sums and search with host code, measured by these;
//! - [`kernels`]: the texts of device functions that no query uses;
//! - [`compaction`]: the chunk compaction paper's experiments (`warpmill bench compaction`);
//! - [`codecs`]: the speed of reading columns through codecs (`warpmill bench scan`).

pub mod algorithm;
pub mod codecs;
pub mod compaction;
pub mod device;
pub mod kernels;
pub mod links;
