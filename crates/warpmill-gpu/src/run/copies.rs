//! Copies from page-locked memory to a slot.

use std::ops::Range;

use crate::data::source::PinnedCopy;
use crate::device::{Device, DevicePtr, PinnedBuffer, Stream};
use crate::memory::error::Result;
use crate::memory::regions::aligned;

/// Bytes in page-locked memory that are copied to a slot.
pub(crate) enum Ready {
    /// The image of the whole slot.
    Whole,
    /// Ranges of the staging memory, and their offsets in the slot.
    Pieces(Vec<(Range<usize>, u64)>),
    /// Page-locked copies, and their offsets in the slot.
    Pinned(Vec<(PinnedCopy, u64)>),
}

impl Ready {
    /// Queues the copies to the slot at `at`, whose image has `head` bytes of descriptors and `bytes` bytes in total. Returns the number of copies.
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
                    // Adjacent ranges, in both memories, are one copy.
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
                    // Adjacent segments, in both memories, are one copy.
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
