//! A pool of device memory whose pieces are freed one by one, for a cache with eviction.
//!
//! On a GPU pieces are cut from a few large allocations, first fit, and adjacent free pieces are merged. On the simulated device each piece is its
//! own allocation, so that sanitizers see its bounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::Result;
use super::regions::aligned;
use crate::device::{Device, DeviceKind, DevicePtr};

/// Bytes of an allocation that pieces are cut from.
const SLAB: u64 = 8 << 30;

/// A pool of device memory.
#[derive(Debug)]
pub struct Pool {
    device: Arc<dyn Device>,
    limit: u64,
    used: u64,
    /// Allocations that pieces are cut from: bytes by address.
    slabs: BTreeMap<DevicePtr, u64>,
    /// Free pieces of them: bytes by address.
    free: BTreeMap<DevicePtr, u64>,
    /// Pieces that are their own allocations: bytes by address.
    single: BTreeMap<DevicePtr, u64>,
}

impl Pool {
    /// An empty pool of at most `limit` bytes.
    pub fn new(device: Arc<dyn Device>, limit: u64) -> Self {
        let (slabs, free, single) = Default::default();
        Self { device, limit, used: 0, slabs, free, single }
    }

    /// Byte limit.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes handed out.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes of device memory held.
    pub fn held(&self) -> u64 {
        self.slabs.values().chain(self.single.values()).sum()
    }

    /// Allocates `bytes` bytes; `None` if no free piece is large enough within the limit.
    ///
    /// # Errors
    /// The device's.
    pub fn allocate(&mut self, bytes: u64) -> Result<Option<DevicePtr>> {
        let bytes = aligned(bytes);
        if self.used + bytes > self.limit {
            return Ok(None);
        }
        let at = match self.device.properties().kind {
            DeviceKind::Sim => {
                let at = self.device.allocate(bytes)?;
                self.single.insert(at, bytes);
                Some(at)
            }
            DeviceKind::Cuda => self.cut(bytes)?,
        };
        self.used += if at.is_some() { bytes } else { 0 };
        Ok(at)
    }

    fn cut(&mut self, bytes: u64) -> Result<Option<DevicePtr>> {
        let mut place = self.free.iter().find(|(_, room)| **room >= bytes).map(|(&at, &room)| (at, room));
        if place.is_none() {
            place = self.grow(bytes)?;
        }
        let Some((at, room)) = place else { return Ok(None) };
        self.free.remove(&at);
        if room > bytes {
            self.free.insert(at + bytes, room - bytes);
        }
        Ok(Some(at))
    }

    /// Makes a further allocation of at least `bytes` bytes; `None` if the limit does not allow it.
    fn grow(&mut self, bytes: u64) -> Result<Option<(DevicePtr, u64)>> {
        let size = aligned(self.limit).saturating_sub(self.held()).min(SLAB.max(bytes));
        if size < bytes {
            return Ok(None);
        }
        let base = self.device.allocate(size)?;
        self.slabs.insert(base, size);
        self.free.insert(base, size);
        Ok(Some((base, size)))
    }

    /// Frees the piece at `at`, which was allocated with `bytes` bytes. No queued work may use it.
    pub fn free(&mut self, at: DevicePtr, bytes: u64) {
        let bytes = aligned(bytes);
        self.used -= bytes;
        if self.single.remove(&at).is_some() {
            // SAFETY: allocated by this device; the caller promises that no queued work uses it.
            unsafe { self.device.free(at) };
            return;
        }
        let (mut begin, mut size) = (at, bytes);
        // Allocations may be adjacent by chance: pieces are not merged across them.
        if let Some((&before, &room)) = self.free.range(..at).next_back()
            && before + room == at
            && !self.slabs.contains_key(&at)
        {
            self.free.remove(&before);
            (begin, size) = (before, room + size);
        }
        let after = at + bytes;
        if !self.slabs.contains_key(&after)
            && let Some(room) = self.free.remove(&after)
        {
            size += room;
        }
        self.free.insert(begin, size);
    }

    /// Frees everything, and sets the byte limit. No queued work may use any piece.
    pub fn clear(&mut self, limit: u64) {
        for at in std::mem::take(&mut self.single).into_keys().chain(std::mem::take(&mut self.slabs).into_keys()) {
            // SAFETY: allocated by this device; the caller promises that no queued work uses it.
            unsafe { self.device.free(at) };
        }
        self.free.clear();
        (self.used, self.limit) = (0, limit);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.clear(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::{SimDevice, SimOptions};

    fn device() -> Arc<dyn Device> {
        Arc::new(SimDevice::new(SimOptions { memory_bytes: 1 << 20, ..SimOptions::default() }).unwrap())
    }

    #[test]
    fn single_pieces_are_given_back() {
        let mut pool = Pool::new(device(), 4096);
        let pieces: Vec<_> = (0..4).map(|_| pool.allocate(1000).unwrap().unwrap()).collect();
        assert_eq!((pool.used(), pool.allocate(1).unwrap()), (4096, None));
        pool.free(pieces[2], 1000);
        assert_eq!(pool.used(), 3072);
        assert!(pool.allocate(1024).unwrap().is_some());
    }

    #[test]
    fn neighbours_that_are_free_become_one() {
        let device = device();
        let base = device.allocate(4096).unwrap();
        let mut pool = Pool::new(device, 4096);
        // As on a GPU: pieces of one allocation.
        pool.slabs.insert(base, 4096);
        pool.free.insert(base, 4096);
        let cut = |pool: &mut Pool, bytes| {
            let at = pool.cut(bytes).unwrap();
            pool.used += if at.is_some() { bytes } else { 0 };
            at
        };
        let pieces: Vec<_> = (0..4).map(|_| cut(&mut pool, 1024).unwrap()).collect();
        assert_eq!(cut(&mut pool, 256), None);
        for (piece, largest) in [(1, 1024), (3, 1024), (2, 3072), (0, 4096)] {
            pool.free(pieces[piece], 1024);
            assert_eq!(pool.free.values().max(), Some(&largest));
        }
        assert_eq!((pool.used(), cut(&mut pool, 4096)), (0, Some(base)));
    }

    #[test]
    fn no_piece_is_of_two_allocations() {
        let device = device();
        let base = device.allocate(4096).unwrap();
        let mut pool = Pool::new(device, 4096);
        // As if the device had put two allocations side by side.
        for at in [base, base + 2048] {
            pool.slabs.insert(at, 2048);
            pool.free.insert(at, 2048);
        }
        let pieces: Vec<_> = (0..4).map(|_| pool.cut(1024).unwrap().unwrap()).collect();
        pool.used = 4096;
        for piece in [1, 2, 0, 3] {
            pool.free(pieces[piece], 1024);
        }
        assert_eq!(
            pool.free.iter().map(|(&at, &room)| (at, room)).collect::<Vec<_>>(),
            [(base, 2048), (base + 2048, 2048)]
        );
        // As if they were one allocation.
        pool.slabs.remove(&(base + 2048));
    }
}
