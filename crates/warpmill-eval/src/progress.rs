//! The progress of a query: rows that its scans have processed, out of their total.
//!
//! It costs nothing during scans: it reads the counters that scans maintain for the profile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The scans of a running query; clones share them.
#[derive(Debug, Clone, Default)]
pub struct QueryProgress {
    scans: Arc<Mutex<Vec<Arc<Part>>>>,
}

#[derive(Debug, Default)]
struct Part {
    total: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Rows that metadata has ruled out.
    skipped: u64,
    /// Rows that were read.
    read: Option<Arc<AtomicU64>>,
    is_over: bool,
}

/// One scan, which is over when this is dropped.
#[derive(Debug)]
pub struct ScanProgress {
    part: Arc<Part>,
}

impl QueryProgress {
    /// Adds a scan of `total` rows (0 if unknown) that may not have begun.
    pub fn scan(&self, total: u64) -> ScanProgress {
        let part = Arc::new(Part { total, state: Mutex::default() });
        self.scans.lock().push(Arc::clone(&part));
        ScanProgress { part }
    }

    /// Rows that scans have processed, and the total of all known scans.
    pub fn rows(&self) -> (u64, u64) {
        let scans = self.scans.lock();
        scans.iter().fold((0, 0), |(done, total), part| (done + part.done(), total + part.total))
    }
}

impl Part {
    fn done(&self) -> u64 {
        let state = self.state.lock();
        let read = state.read.as_ref().map_or(0, |read| read.load(Ordering::Relaxed));
        if state.is_over { self.total } else { (state.skipped + read).min(self.total) }
    }
}

impl ScanProgress {
    /// Records that the scan has begun: it skips `skipped` rows and counts the others in `read`.
    pub fn begin(&self, skipped: u64, read: Arc<AtomicU64>) {
        let mut state = self.part.state.lock();
        (state.skipped, state.read) = (skipped, Some(read));
    }
}

impl Drop for ScanProgress {
    fn drop(&mut self) {
        self.part.state.lock().is_over = true;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::QueryProgress;

    #[test]
    fn rows_are_those_of_all_scans() {
        let progress = QueryProgress::default();
        assert_eq!(progress.rows(), (0, 0));
        let (one, other) = (progress.scan(100), progress.scan(50));
        let read = Arc::new(AtomicU64::new(0));
        one.begin(30, Arc::clone(&read));
        assert_eq!(progress.clone().rows(), (30, 150));
        read.store(20, Ordering::Relaxed);
        assert_eq!(progress.rows(), (50, 150));
        read.store(1000, Ordering::Relaxed);
        assert_eq!(progress.rows(), (100, 150), "never more than all");
        drop(other);
        assert_eq!(progress.rows(), (150, 150), "what is over has no rows left");
    }
}
