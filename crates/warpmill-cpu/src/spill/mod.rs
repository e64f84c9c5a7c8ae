//! Spilling: data that pipeline breakers write to temporary files when a query reaches its memory limit.
//!
//! - `file`: a temporary file of checksummed blocks. It is unlinked as soon as it is open, so that nothing is left behind however the query ends;
//! - `codec`: columns to bytes and back;
//! - `partition`: rows partitioned by key hash (16 ways, with other hash bits at each depth);
//! - `texts`: decoded strings in mapped files.
//!
//! Only the query that wrote a block reads it. Strings are written as views: their bytes stay in place (mapped segments, dictionaries, the query's
//! arenas, mapped files of decoded texts) and outlive the query by the contract of [`warpmill_format::StrView`]. Checksums of blocks are kept in
//! memory: a block is read as it was written, or the query fails.

mod codec;
mod file;
pub(crate) mod partition;
#[cfg(test)]
mod tests;
mod texts;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::context::Result;

pub(crate) use file::{Block, SpillFile};
pub(crate) use texts::SpillTexts;

/// Largest number of rows of a block: a reader holds few blocks at a time.
pub(crate) const BLOCK_ROWS: usize = 8192;

/// Whether and where queries spill data beyond their memory limit.
#[derive(Debug, Clone)]
pub struct SpillSettings {
    /// Whether to spill; otherwise a query that reaches its memory limit fails.
    pub enabled: bool,
    /// Directory of temporary files, created if it does not exist; `None`: the system's temporary directory.
    pub directory: Option<PathBuf>,
    /// Largest total size of a query's temporary files, in bytes.
    pub limit: u64,
    /// Bytes that a worker's part of an operator may hold in any case (see [`crate::QueryContext::working_memory`]); `None`: derived from the memory
    /// limit. For tests.
    pub working_memory: Option<usize>,
    /// A fault to inject, for tests.
    pub fault: Option<Fault>,
}

impl Default for SpillSettings {
    /// Spilling disabled.
    fn default() -> Self {
        Self { enabled: false, directory: None, limit: u64::MAX, working_memory: None, fault: None }
    }
}

/// A fault of a temporary file, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The device is full when a file reaches this many bytes.
    FullAt(u64),
    /// Reads find that a file ends after this many bytes.
    EndsAt(u64),
    /// Reads flip a bit of the byte at this offset.
    FlippedAt(u64),
}

/// A query's temporary files.
#[derive(Debug)]
pub struct SpillArea {
    settings: SpillSettings,
    /// Total size of the existing files, in bytes.
    used: Arc<AtomicU64>,
    /// Bytes written so far.
    written: Arc<AtomicU64>,
}

impl SpillArea {
    /// No files yet.
    pub fn new(settings: SpillSettings) -> Self {
        Self { settings, used: Arc::default(), written: Arc::default() }
    }

    /// An empty store of texts in further files.
    pub(crate) fn texts(&self) -> SpillTexts {
        SpillTexts::new(self.settings.clone(), self.used.clone(), self.written.clone())
    }

    /// A new file.
    pub(crate) fn create(&self) -> Result<SpillFile> {
        SpillFile::create(&self.settings, self.used.clone(), self.written.clone())
    }

    /// Bytes written so far by the whole query.
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Total size of the existing files, in bytes.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }
}

/// Amount of data that an operator has spilled, for EXPLAIN ANALYZE.
#[derive(Debug, Default)]
pub(crate) struct SpillStats {
    /// Bytes written.
    pub bytes: AtomicU64,
    /// Number of partitions or sorted runs.
    pub pieces: AtomicU64,
    /// Number of times that rows were divided again, or partitions processed in blocks.
    pub again: AtomicU64,
}

impl SpillStats {
    /// Records that `bytes` were written.
    pub fn wrote(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Whether anything was written.
    pub fn any(&self) -> bool {
        self.bytes.load(Relaxed) > 0
    }

    /// Counters: bytes, then the number of pieces named `pieces` and of repetitions named `again`; empty if nothing was written.
    pub fn counters(&self, pieces: &str, again: &str) -> Vec<(String, u64)> {
        if !self.any() {
            return vec![];
        }
        let mut counters = vec![
            ("spilled_bytes".to_string(), self.bytes.load(Relaxed)),
            (pieces.to_string(), self.pieces.load(Relaxed)),
        ];
        match self.again.load(Relaxed) {
            0 => {}
            count => counters.push((again.to_string(), count)),
        }
        counters
    }
}
