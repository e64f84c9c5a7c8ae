//! Preparation of a batch in page-locked memory, and emulation of slower drives.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use crate::data::chunks::Chunk;
use crate::data::decoding::Decoding;
use crate::data::slot::Part;
use crate::data::store::Store;
use crate::memory::error::Result;
use crate::memory::regions::padded;
use crate::run::copies::Ready;

/// Limits the rate of reads, to emulate slower drives.
pub(super) struct Throttle {
    /// Bytes per second; 0: unlimited.
    pub limit: u64,
    pub started: Instant,
    pub bytes: u64,
}

impl Throttle {
    /// Waits after `bytes` more bytes were read, as slower drives would have taken.
    pub fn wait(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.limit > 0 {
            let due = Duration::from_secs_f64(self.bytes as f64 / self.limit as f64);
            std::thread::sleep(due.saturating_sub(self.started.elapsed()));
        }
    }
}

/// Writes the bytes of chunks into the image of a slot, in parallel.
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

/// The page-locked copies of chunks, and whether some were made now. `None` if all copies together would exceed `limit` bytes, or, without a limit,
/// some would have to be made.
pub(super) fn pinned(
    store: &Store,
    parts: &[Part],
    decoding: &Decoding,
    limit: Option<u64>,
) -> Result<Option<(Ready, bool)>> {
    let chunks: Vec<Arc<Chunk>> = parts.iter().map(|part| part.chunk.clone()).collect();
    let found = store.pinned.copies(&*store.device, &chunks, decoding, limit)?;
    let offsets = parts.iter().map(|part| part.offset);
    Ok(found.map(|(copies, made)| (Ready::Pinned(copies.into_iter().zip(offsets).collect()), made)))
}
