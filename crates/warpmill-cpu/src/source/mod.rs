//! The place where a pipeline's chunks come from, other than tables (see [`crate::scan`]).

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
    /// As EXPLAIN ANALYZE shows it.
    fn name(&self) -> String;
    /// The number of workers that can be of use.
    fn parallelism(&self) -> usize;
    /// Whether claiming a morsel may wait for something outside of this program. Its workers then keep off the pool's
    /// threads.
    fn waits(&self) -> bool {
        false
    }
    /// Tells `progress`, of a scan, where the rows are counted that it reads.
    fn begin(&self, _progress: &ScanProgress) {}
    /// The state of one worker.
    fn local<'a>(&'a self, query: &Arc<QueryContext>) -> Box<dyn LocalSource + 'a>;
    /// The counts that EXPLAIN ANALYZE shows beside rows and time: name and count.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![]
    }
}

/// One worker's instance of a source.
pub trait LocalSource {
    /// Claims the next unit of work (a morsel) and emits its chunks; `false` when none is left.
    fn next_morsel(&mut self, emit: Emit<'_>) -> Result<bool>;

    /// Told that nobody holds strings of a chunk when `emit` has returned; whether this makes a difference.
    fn lend_strings(&mut self) -> bool {
        false
    }
}
