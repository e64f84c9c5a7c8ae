//! Copies of data in page-locked host memory.

use std::collections::HashMap;
use std::sync::Arc;

use super::decoding::Decoding;
use crate::device::{Device, PinnedBuffer};
use crate::memory::error::Result;
use parking_lot::Mutex;

use super::chunks::Chunk;
use crate::memory::regions::{KeyMap, aligned, padded};

/// Page-locked copies of the bytes that are transferred to the device, kept until [`PinnedCopies::clear`].
#[derive(Debug, Default)]
pub(crate) struct PinnedCopies(Mutex<Copies>);

/// Copies by chunk key, and the bytes of their allocations.
#[derive(Debug, Default)]
struct Copies {
    by_key: KeyMap<PinnedCopy>,
    bytes: u64,
}

impl Copies {
    /// Makes `wanted` bytes of room under `limit` by dropping copies of chunks that nothing else holds. Returns whether there is room.
    fn room(&mut self, wanted: u64, limit: u64) -> bool {
        if self.bytes + wanted <= limit {
            return true;
        }
        self.by_key.retain(|_, copy| Arc::strong_count(&copy.owner) > 1);
        let kept: HashMap<*const PinnedBuffer, u64> =
            self.by_key.values().map(|copy| (Arc::as_ptr(&copy.memory), copy.memory.len() as u64)).collect();
        self.bytes = kept.values().sum();
        self.bytes + wanted <= limit
    }
}

/// A chunk's copy.
#[derive(Debug, Clone)]
pub(crate) struct PinnedCopy {
    memory: Arc<PinnedBuffer>,
    offset: usize,
    bytes: usize,
    /// Keeps the address in the key unique.
    owner: Arc<Chunk>,
}

impl PinnedCopy {
    /// Offset from `other`; `None` if it lies before `other`, or in another allocation.
    pub(crate) fn offset_from(&self, other: &PinnedCopy) -> Option<u64> {
        let same = Arc::ptr_eq(&self.memory, &other.memory);
        same.then(|| self.offset.checked_sub(other.offset).map(|distance| distance as u64)).flatten()
    }

    /// The bytes from the start of this copy to the padded end of `last`, in the same allocation.
    pub(crate) fn through(&self, last: &PinnedCopy) -> &[u8] {
        &self.memory[self.offset..last.offset + padded(last.bytes as u64) as usize]
    }
}

impl PinnedCopies {
    /// The copies of `chunks`, and whether some were made now. `None` if they would exceed `limit` bytes in total; without a limit no copy is made.
    ///
    /// # Errors
    /// A device without page-locked memory; damaged data.
    pub(crate) fn copies(
        &self,
        device: &dyn Device,
        chunks: &[Arc<Chunk>],
        decoding: &Decoding,
        limit: Option<u64>,
    ) -> Result<Option<(Vec<PinnedCopy>, bool)>> {
        let mut copies = self.0.lock();
        let is_missing = |chunk: &&Arc<Chunk>| !copies.by_key.contains_key(&chunk.key());
        let missing: Vec<&Arc<Chunk>> = chunks.iter().filter(is_missing).collect();
        let made = !missing.is_empty();
        if made {
            // One allocation for all: each takes the driver long.
            let room = |chunk: &Arc<Chunk>| aligned(padded(chunk.copied_bytes())) as usize;
            let bytes = missing.iter().map(|chunk| room(chunk)).sum();
            if !limit.is_some_and(|limit| copies.room(bytes as u64, limit)) {
                return Ok(None);
            }
            let mut memory = device.pinned(bytes)?;
            let mut offset = 0;
            let mut places = vec![];
            for &chunk in &missing {
                let bytes = chunk.copied_bytes() as usize;
                chunk.write(None, &mut memory[offset..offset + bytes], decoding)?;
                places.push((chunk.clone(), offset, bytes));
                offset += room(chunk);
            }
            let memory = Arc::new(memory);
            copies.bytes += memory.len() as u64;
            for (owner, offset, bytes) in places {
                let key = owner.key();
                copies.by_key.insert(key, PinnedCopy { memory: memory.clone(), offset, bytes, owner });
            }
        }
        Ok(Some((chunks.iter().map(|chunk| copies.by_key[&chunk.key()].clone()).collect(), made)))
    }

    /// Bytes of all allocations.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.lock().bytes
    }

    /// Forgets all copies.
    pub(crate) fn clear(&self) {
        *self.0.lock() = Copies::default();
    }
}
