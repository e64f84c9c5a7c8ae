//! Vectors of values, rows as chunks of them, and expressions over chunks: what the CPU runs on, and what the device back end computes on
//! the host.
//!
//! - [`vector`], [`chunk`]: values, and rows as columns under *extended selection vectors*, one per column group
//!   (chunk compaction paper, section 5): filters and joins never copy values, they compose selections;
//! - [`decode`]: values of encoded segments;
//! - [`expr`]: expressions over chunks, evaluated once per dictionary entry where that suffices;
//! - [`pruning`]: the rows of a scan that metadata does not rule out;
//! - [`queue`]: scans that several sites go through together;
//! - [`rows`]: rows in memory, between pipelines and between back ends;
//! - [`mod@arrow`]: rows to and from Arrow;
//! - [`memory`], [`cancel`], [`error`]: the limits of a running query, and how it fails;
//! - [`progress`]: how far its scans are.

pub mod arrow;
pub mod cancel;
pub mod chunk;
pub mod decode;
pub mod error;
pub mod expr;
mod machine;
pub mod memory;
pub mod progress;
pub mod pruning;
pub mod queue;
pub mod rows;
pub mod vector;

pub use chunk::{Chunk, Column, Selection};
pub use error::{ExecError, Result};
pub use machine::free_memory;
pub use vector::{Data, Vector};
