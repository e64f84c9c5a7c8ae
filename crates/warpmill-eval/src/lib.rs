//! Vectors of values, chunks of rows, and expressions over chunks: the CPU back end is based on them, and the device back end uses them for
//! computations on the host.
//!
//! - [`vector`], [`chunk`]: values, and rows as columns under *extended selection vectors*, one per column group
//!   (chunk compaction paper, section 5): filters and joins never copy values, they compose selections;
//! - [`decode`]: values of encoded segments;
//! - [`expr`]: expressions over chunks, evaluated once per dictionary entry where that suffices;
//! - [`pruning`]: selection of a scan's rows by metadata;
//! - [`queue`]: scans that several sites share;
//! - [`rows`]: rows in memory, between pipelines and between back ends;
//! - [`mod@arrow`]: rows to and from Arrow;
//! - [`memory`], [`cancel`], [`error`]: limits, cancellation and errors of a running query;
//! - [`progress`]: progress of its scans.

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
