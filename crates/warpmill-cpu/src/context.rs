//! State shared by all operators of a query: settings, temporary files, memory accounting and cancellation.

use std::ops::Deref;
use std::sync::Arc;

use warpmill_eval::memory::QueryMemory;
use warpmill_eval::progress::QueryProgress;

pub(crate) use warpmill_eval::cancel::CancelToken;
pub(crate) use warpmill_eval::error::{ExecError, Result};
pub(crate) use warpmill_eval::memory::{Reservation, Share, Worker};

use crate::compaction::Compaction;
use crate::spill::{SpillArea, SpillSettings};

/// Settings of a query's execution.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Worker threads (at least 1).
    pub threads: usize,
    /// Bytes the query may hold in pipeline breakers.
    pub memory_limit: usize,
    /// Rows of a full chunk: a power of two from 2 to 2048 (small values are for tests).
    pub chunk_rows: usize,
    /// The compaction strategy.
    pub compaction: Compaction,
    /// Whether joins and aggregations always use hash tables, with all hashes equal (for tests of collisions).
    pub equal_hashes: bool,
    /// The policy at the memory limit.
    pub spill: SpillSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            threads: 1,
            memory_limit: usize::MAX,
            chunk_rows: crate::CHUNK_ROWS,
            compaction: Compaction::Smart,
            equal_hashes: false,
            spill: SpillSettings::default(),
        }
    }
}

/// State shared by all operators of a running query.
#[derive(Debug)]
pub struct QueryContext {
    /// Execution settings.
    pub settings: Settings,
    /// Temporary files.
    pub spill: SpillArea,
    /// Memory accounting and cancellation.
    pub memory: Arc<QueryMemory>,
    /// Progress of the query's scans.
    pub progress: QueryProgress,
}

impl Default for QueryContext {
    fn default() -> Self {
        Self::new(Settings::default(), CancelToken::default())
    }
}

impl Deref for QueryContext {
    type Target = QueryMemory;

    #[inline]
    fn deref(&self) -> &QueryMemory {
        &self.memory
    }
}

impl QueryContext {
    /// A context with the given settings.
    pub fn new(settings: Settings, cancel: CancelToken) -> Self {
        let spill = SpillArea::new(settings.spill.clone());
        let memory = QueryMemory::new(settings.memory_limit, settings.spill.enabled, cancel);
        let memory = Arc::new(memory.with_texts(Box::new(spill.texts())));
        Self { settings, spill, memory, progress: QueryProgress::default() }
    }

    /// The same context, with scans that report to `progress`.
    #[must_use]
    pub fn with_progress(self, progress: QueryProgress) -> Self {
        Self { progress, ..self }
    }

    /// Bytes that a worker's part of an operator may hold in any case: with less, spilling frees too little memory for its cost. Operators can exceed
    /// the memory limit by this amount per worker.
    pub fn working_memory(&self) -> usize {
        let part = self.settings.memory_limit / (16 * self.settings.threads.max(1));
        self.settings.spill.working_memory.unwrap_or(part.clamp(1 << 10, 4 << 20))
    }
}
