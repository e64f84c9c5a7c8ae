//! A compressed chunk shared by its readers: decompressed once, by all threads that wait for it, and kept while in use.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex};

use super::CompressedChunk;
use crate::guard::caught;
use crate::segment::SegmentBytes;
use crate::segment::bytes::{BufferWriter, corrupt};
use crate::{Result, Segment};

/// The segment of a compressed chunk while a reader holds it, and its decompression in progress.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    made: Weak<Segment>,
    /// Whether the bytes have been validated as a segment before: codes, which take long to check, need not be checked again.
    known: bool,
    work: Option<Arc<Work>>,
}

impl Shared {
    /// Returns the segment: a live one, or else `read` and decompressed now. Concurrent callers help to decompress blocks. `open` makes the segment
    /// from the bytes; its argument tells whether they have been validated before.
    pub fn get(
        &self,
        read: impl FnOnce() -> Result<CompressedChunk>,
        open: impl FnOnce(SegmentBytes, bool) -> Result<Segment>,
    ) -> Result<Arc<Segment>> {
        let (work, known) = {
            let mut state = self.0.lock();
            if let Some(segment) = state.made.upgrade() {
                return Ok(segment);
            }
            let work = match &state.work {
                Some(work) => work.clone(),
                // Concurrent readers wait for the same bytes.
                None => state.work.insert(Arc::new(Work::new(read()?))).clone(),
            };
            (work, state.known)
        };
        let Some(bytes) = work.help() else {
            // Another thread opens the segment, or has failed to: in that case this thread repeats the work to get its own error.
            return work.wait().map_or_else(|| self.alone(&work.chunk, open, known), Ok);
        };
        // Notifies waiting threads in any case.
        let mut opening = Opening { shared: self, work: &work, segment: None };
        let segment = bytes.and_then(|bytes| open(bytes, known)).map(Arc::new)?;
        opening.segment = Some(segment.clone());
        Ok(segment)
    }

    /// Repeats the work for a chunk that another thread has found damaged, to get the error: errors cannot be shared.
    fn alone(
        &self,
        chunk: &CompressedChunk,
        open: impl FnOnce(SegmentBytes, bool) -> Result<Segment>,
        known: bool,
    ) -> Result<Arc<Segment>> {
        open(chunk.decompress()?, known).map(Arc::new)
    }
}

/// Notifies all waiting threads of the outcome when dropped.
struct Opening<'a> {
    shared: &'a Shared,
    work: &'a Work,
    segment: Option<Arc<Segment>>,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.0.lock();
        state.work = None;
        if let Some(segment) = &self.segment {
            state.made = Arc::downgrade(segment);
            state.known = true;
        }
        drop(state);
        self.work.finish(self.segment.take());
    }
}

/// The decompression of a chunk's blocks into one buffer.
#[derive(Debug)]
struct Work {
    chunk: CompressedChunk,
    buffer: Mutex<Option<BufferWriter>>,
    /// First byte of the buffer.
    target: *mut u8,
    next: AtomicUsize,
    done: AtomicUsize,
    failed: AtomicBool,
    outcome: Mutex<Option<Option<Arc<Segment>>>>,
    finished: Condvar,
}

// SAFETY: `target` points into `buffer`, which moves its bytes nowhere; each block's range is written by the one thread that
// claimed the block from `next`, and read only when `done` says that all are complete.
unsafe impl Send for Work {}
// SAFETY: as above.
unsafe impl Sync for Work {}

impl Work {
    fn new(chunk: CompressedChunk) -> Self {
        let mut buffer = BufferWriter::new(chunk.uncompressed_bytes());
        let target = buffer.as_mut_slice().as_mut_ptr();
        Self {
            chunk,
            buffer: Mutex::new(Some(buffer)),
            target,
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            outcome: Mutex::new(None),
            finished: Condvar::new(),
        }
    }

    /// Decompresses blocks until none is left. The thread that completes the last one gets all bytes, or the error.
    fn help(&self) -> Option<Result<SegmentBytes>> {
        let chunk = &self.chunk;
        loop {
            let i = self.next.fetch_add(1, Ordering::Relaxed);
            if i >= chunk.blocks() {
                return None;
            }
            if !self.failed.load(Ordering::Relaxed) {
                let range = chunk.block_target(i);
                // SAFETY: inside the buffer, which lives as long as `self` until all blocks are done; `fetch_add` gave block
                // `i` to this thread alone, and blocks do not overlap.
                let out = unsafe { std::slice::from_raw_parts_mut(self.target.add(range.start), range.len()) };
                // Threads wait for all blocks including this one, so a panic becomes an error.
                if !matches!(caught(|| chunk.decompress_block(i, out)), Ok(Ok(()))) {
                    self.failed.store(true, Ordering::Relaxed);
                }
            }
            if self.done.fetch_add(1, Ordering::AcqRel) + 1 == chunk.blocks() {
                if self.failed.load(Ordering::Relaxed) {
                    // Repeats the decompression in order: the error names the first damaged block.
                    return Some(caught(|| chunk.decompress()).unwrap_or_else(|panic| Err(corrupt(panic))));
                }
                return self.buffer.lock().take().map(|buffer| Ok(buffer.finish()));
            }
        }
    }

    fn finish(&self, segment: Option<Arc<Segment>>) {
        *self.outcome.lock() = Some(segment);
        self.finished.notify_all();
    }

    /// Waits for the thread that has all bytes.
    fn wait(&self) -> Option<Arc<Segment>> {
        let mut outcome = self.outcome.lock();
        while outcome.is_none() {
            self.finished.wait(&mut outcome);
        }
        outcome.clone().flatten()
    }
}
