//! Sources of pipelines other than tables (see [`crate::scan`]).

mod build;
mod input;
mod rows;

use std::sync::Arc;

use warpmill_eval::progress::ScanProgress;

use crate::context::{QueryContext, Result};
use crate::operator::Emit;

pub use build::BuildSource;
pub use input::{InputSource, InputStream};
pub use rows::RowsSource;

/// A source, shared by all workers of a pipeline.
pub trait ChunkSource: Send + Sync {
    /// Name in EXPLAIN ANALYZE.
    fn name(&self) -> String;
    /// Number of workers that the source can feed.
    fn parallelism(&self) -> usize;
    /// Whether claiming a morsel may wait for something outside of this program. Its workers then do not use the pool's threads.
    fn waits(&self) -> bool {
        false
    }
    /// Connects `progress` to the counter of rows read, for scans.
    fn begin(&self, _progress: &ScanProgress) {}
    /// Makes the state of one worker.
    fn local<'a>(&'a self, query: &Arc<QueryContext>) -> Box<dyn LocalSource + 'a>;
    /// Counters that EXPLAIN ANALYZE shows beside rows and time: name and value.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![]
    }
}

/// One worker's instance of a source.
pub trait LocalSource {
    /// Claims the next unit of work (a morsel) and emits its chunks; `false` when none is left.
    fn next_morsel(&mut self, emit: Emit<'_>) -> Result<bool>;

    /// Allows the source to free a chunk's strings once `emit` has returned. Returns whether it makes use of that.
    fn lend_strings(&mut self) -> bool {
        false
    }
}
