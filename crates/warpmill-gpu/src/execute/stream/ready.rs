//! Bytes of a batch in page-locked memory, and how fast they may come.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use crate::device::{Device, DevicePtr, PinnedBuffer, Stream};
use crate::execute::chunks::Chunk;
use crate::execute::decoding::Decoding;
use crate::execute::error::Result;
use crate::execute::executor::Executor;
use crate::execute::memory::{aligned, padded};
use crate::execute::source::PinnedCopy;

use super::Part;

/// Keeps reads at the speed of slower drives.
pub(super) struct Throttle {
    /// Bytes per second; 0: as fast as they are.
    pub limit: u64,
    pub started: Instant,
    pub bytes: u64,
}

impl Throttle {
    /// `bytes` more were read: waits until slower drives would have, too.
    pub fn wait(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.limit > 0 {
            let due = Duration::from_secs_f64(self.bytes as f64 / self.limit as f64);
            std::thread::sleep(due.saturating_sub(self.started.elapsed()));
        }
    }
}

/// Bytes in page-locked memory that are copied to a slot.
pub(in crate::execute) enum Ready {
    /// The slot's image.
    Whole,
    /// Ranges of the staging memory, and where in the slot each goes.
    Pieces(Vec<(Range<usize>, u64)>),
    /// Copies that stay in page-locked memory.
    Pinned(Vec<(PinnedCopy, u64)>),
}

impl Ready {
    /// Queues the copies to the slot at `at`, of whose image the first `head` bytes are descriptors; gives their number.
    pub fn queue(
        self,
        device: &dyn Device,
        staging: &PinnedBuffer,
        (at, head, bytes): (DevicePtr, u64, u64),
        stream: Stream,
    ) -> Result<u64> {
        // SAFETY (all copies): the slot was allocated with `slot_bytes` bytes, of which the batch takes `bytes`; what is read is
        // page-locked memory that is not written to before its copy is done: the staging memory waits for the slot's
        // event, the rest does not change and is kept by the executor.
        let to_device = |to: u64, from: &[u8]| unsafe { device.copy_to_device(at + to, from, stream) };
        match self {
            Ready::Whole => {
                to_device(0, &staging[..bytes as usize])?;
                Ok(1)
            }
            Ready::Pieces(pieces) => {
                to_device(0, &staging[..head as usize])?;
                let mut count = 0;
                let mut next = pieces.iter().peekable();
                while let Some((from, to)) = next.next() {
                    // Bytes that lie behind each other in both memories, with nothing between, are one copy.
                    let mut end = from.end;
                    let near = |end: usize, other: usize| other >= end && other as u64 <= aligned(end as u64);
                    while let Some((other, _)) = next.next_if(|(other, there)| {
                        near(end - from.start, other.start.wrapping_sub(from.start))
                            && (other.start - from.start) as u64 == there.wrapping_sub(*to)
                    }) {
                        end = other.end;
                    }
                    to_device(*to, &staging[from.start..end])?;
                    count += 1;
                }
                Ok(count)
            }
            Ready::Pinned(copies) => {
                to_device(0, &staging[..head as usize])?;
                let mut count = 0;
                let mut next = copies.iter().peekable();
                while let Some((copy, to)) = next.next() {
                    // Segments that lie behind each other in both memories are one copy.
                    let mut last = copy;
                    while let Some((_, _)) = next.peek().filter(|(other, there)| {
                        other.offset_from(copy).is_some_and(|distance| to + distance == *there)
                    }) {
                        last = &next.next().expect("peeked").0;
                    }
                    to_device(*to, copy.through(last))?;
                    count += 1;
                }
                Ok(count)
            }
        }
    }
}

/// Writes what travels of chunks into the image of a slot, several at a time.
pub(super) fn fill(staging: &mut [u8], parts: &[Part], decoding: &Decoding) -> Result<Ready> {
    let mut rest = staging;
    let mut done = 0;
    let mut rooms = vec![];
    for part in parts {
        let (_, tail) = rest.split_at_mut(part.offset as usize - done);
        let (room, tail) = tail.split_at_mut(padded(part.chunk.copied_bytes()) as usize);
        done = part.offset as usize + room.len();
        rooms.push((room, &part.chunk));
        rest = tail;
    }
    rooms.into_par_iter().try_for_each(|(room, chunk)| {
        let (room, padding) = room.split_at_mut(chunk.copied_bytes() as usize);
        padding.fill(0);
        chunk.write(None, room, decoding)
    })?;
    Ok(Ready::Whole)
}

/// The copies of chunks that stay in page-locked memory, and whether some were made now; none where all that do would take more
/// than `limit` bytes, or, without a limit, some would have to be made.
pub(super) fn pinned(
    executor: &Executor,
    parts: &[Part],
    decoding: &Decoding,
    limit: Option<u64>,
) -> Result<Option<(Ready, bool)>> {
    let chunks: Vec<Arc<Chunk>> = parts.iter().map(|part| part.chunk.clone()).collect();
    let found = executor.pinned.copies(&*executor.device, &chunks, decoding, limit)?;
    let offsets = parts.iter().map(|part| part.offset);
    Ok(found.map(|(copies, made)| (Ready::Pinned(copies.into_iter().zip(offsets).collect()), made)))
}
