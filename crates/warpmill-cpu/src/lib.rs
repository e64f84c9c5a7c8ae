//! The vectorized CPU back end: push-based pipelines over chunks of up to 2048 rows.
//!
//! - [`context`]: state shared by all operators of a query; vectors, chunks and expressions come from [`warpmill_eval`];
//! - [`source`], [`scan`]: chunks from rows in memory, Arrow batches, and encoded segments, which are decoded late; predicates on encoded values;
//!   pruning;
//! - [`operator`]: the interfaces of streaming operators and sinks; [`stream`]: filter, project, limit;
//! - [`compaction`]: the strategies for copying small chunks together: none, full, binary, learning;
//! - [`join`]: hash builds and probes of every kind, with logical compaction;
//! - [`aggregate`], [`sort`], [`window`], [`collect`]: the other pipeline breakers; [`functions`]: one that only devices implement;
//! - [`spill`]: temporary files for data beyond the memory limit;
//! - [`pipeline`]: runs a program's pipelines on a pool of workers; [`profile`]: their measurements.

pub mod aggregate;
pub mod collect;
pub mod compaction;
pub mod context;
pub mod functions;
pub mod join;
pub mod operator;
pub mod pipeline;
pub mod profile;
pub mod scan;
pub mod sort;
pub mod source;
pub mod spill;
pub mod stream;
pub mod window;

pub use context::QueryContext;
pub(crate) use warpmill_eval::{arrow, chunk, expr, map_data, rows, vector, with_data};

/// Number of rows of a full chunk (tests change it: [`context::Settings::chunk_rows`]).
pub const CHUNK_ROWS: usize = 2048;
