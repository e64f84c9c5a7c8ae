//! Spilling: what pipeline breakers put aside in temporary files when a query reaches its memory limit.
//!
//! - `file`: a temporary file of checksummed blocks. It has no name from the moment it is open, so that nothing is left
//!   behind however the query ends;
//! - `codec`: columns to bytes and back;
//! - `partition`: rows divided by key hash (16 ways, with other hash bits at every depth);
//! - `texts`: decoded strings, in files that are mapped.
//!
//! A block is read by the query that wrote it and nobody else. Strings are written as the views that they are: their bytes stay where
//! they were (mapped segments, dictionaries, the query's arenas, mapped files of decoded texts), which outlive the query by the contract of
//! [`warpmill_format::StrView`]. Checksums of blocks are kept in memory: what comes back is what was written, or the query fails.

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

/// Rows of a block at most: a reader holds few blocks at a time.
pub(crate) const BLOCK_ROWS: usize = 8192;

/// Whether and where queries put aside what exceeds their memory limit.
#[derive(Debug, Clone)]
pub struct SpillSettings {
    /// Otherwise a query that reaches its memory limit fails.
    pub enabled: bool,
    /// The place where temporary files are made; `None`: the system's directory for them. Made if it does not exist.
    pub directory: Option<PathBuf>,
    /// Bytes that a query's temporary files may take together.
    pub limit: u64,
    /// Bytes that a worker's part of an operator may hold in any case (see [`crate::QueryContext::working_memory`]); `None`: by the
    /// memory limit. For tests.
    pub working_memory: Option<usize>,
    /// The fault to inject, for tests.
    pub fault: Option<Fault>,
}

impl Default for SpillSettings {
    /// Off.
    fn default() -> Self {
        Self { enabled: false, directory: None, limit: u64::MAX, working_memory: None, fault: None }
    }
}

/// A defect of a temporary file, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The device is full when a file reaches this many bytes.
    FullAt(u64),
    /// A file turns out to end after this many bytes.
    EndsAt(u64),
    /// The byte at this place is read with other bits than it was written with.
    FlippedAt(u64),
}

/// A query's temporary files.
#[derive(Debug)]
pub struct SpillArea {
    settings: SpillSettings,
    /// Bytes of all files that there are.
    used: Arc<AtomicU64>,
    /// Bytes ever written.
    written: Arc<AtomicU64>,
}

impl SpillArea {
    /// No files yet.
    pub fn new(settings: SpillSettings) -> Self {
        Self { settings, used: Arc::default(), written: Arc::default() }
    }

    /// Texts in further files.
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

    /// Bytes of the files that there are at present.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }
}

/// The amount that an operator has put aside, for EXPLAIN ANALYZE.
#[derive(Debug, Default)]
pub(crate) struct SpillStats {
    /// Bytes written.
    pub bytes: AtomicU64,
    /// Partitions or sorted runs.
    pub pieces: AtomicU64,
    /// The number of times that rows were divided again, or partitions worked off in blocks.
    pub again: AtomicU64,
}

impl SpillStats {
    /// Adds `bytes` that were written.
    pub fn wrote(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Whether anything was written.
    pub fn any(&self) -> bool {
        self.bytes.load(Relaxed) > 0
    }

    /// As counters: bytes, then pieces as `pieces` and repetitions as `again`; nothing if nothing was written.
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
