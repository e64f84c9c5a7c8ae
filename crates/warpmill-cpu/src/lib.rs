//! The vectorized CPU back end: push-based pipelines over chunks of up to 2048 rows.
//!
//! - [`vector`], [`chunk`]: values, and rows as columns under *extended selection vectors*, one per column group
//!   (chunk compaction paper, section 5): filters and joins never copy values, they compose selections;
//! - [`source`], [`scan`]: chunks from rows in memory, Arrow batches, and encoded segments, decoded late; predicates on
//!   encoded values; pruning;
//! - [`expr`]: expressions over chunks, evaluated once per dictionary entry where that suffices;
//! - [`operator`]: the interfaces of streaming operators and sinks; [`stream`]: filter, project, limit;
//! - [`compaction`]: when to copy small chunks together: none, full, binary, learning;
//! - [`join`]: hash builds and probes of every kind, with logical compaction;
//! - [`aggregate`], [`sort`], [`collect`]: the other pipeline breakers;
//! - [`spill`]: temporary files for what exceeds the memory limit;
//! - [`pipeline`]: runs a program's pipelines on a pool of workers; [`profile`]: what they did;
//! - [`mod@arrow`]: rows to and from Arrow; [`mod@bench`]: the compaction benchmark of the paper.

pub mod aggregate;
pub mod arrow;
pub mod bench;
pub mod chunk;
pub mod collect;
pub mod compaction;
pub mod context;
pub mod expr;
pub mod join;
mod machine;
pub mod operator;
pub mod pipeline;
pub mod profile;
pub mod scan;
pub mod sort;
pub mod source;
pub mod spill;
pub mod stream;
pub mod vector;

pub use chunk::{Chunk, Column, Selection};
pub use context::{ExecError, QueryContext, Result};
pub use machine::free_memory;
pub use vector::{Data, Vector};

/// Rows of a full chunk (a setting for tests: [`context::Settings::chunk_rows`]).
pub const CHUNK_ROWS: usize = 2048;
