//! Device memory in two regions: cached data, which outlives queries, and the working memory of queries.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::error::{Failure, Result};
use crate::device::{Device, DeviceKind, DevicePtr};

/// Alignment of everything in device memory.
const ALIGN: u64 = 256;

/// Least bytes by which the caching region grows.
const CHUNK: u64 = 256 << 20;

/// The allocation of a processing region is rounded up to a multiple of `GRAIN` and of a `PART`th of its power of two: similar queries reuse it
/// instead of making a new one, which takes ten milliseconds or more.
const GRAIN: u64 = 16 << 20;
const PART: u64 = 8;

/// Bytes of a region for `bytes` bytes of data.
pub fn aligned(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(ALIGN)
}

/// Memory that is allocated piece by piece and freed all at once.
///
/// On a GPU pieces are cut from large allocations. On the simulated device each piece is its own allocation, so that sanitizers see its bounds.
#[derive(Debug)]
pub struct Region {
    device: Arc<dyn Device>,
    what: &'static str,
    limit: u64,
    used: u64,
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    base: DevicePtr,
    size: u64,
    used: u64,
}

impl Region {
    /// An empty region of at most `limit` bytes.
    pub fn new(device: Arc<dyn Device>, what: &'static str, limit: u64) -> Self {
        Self { device, what, limit, used: 0, chunks: vec![] }
    }

    /// Allocates `bytes` bytes.
    ///
    /// # Errors
    /// [`Failure::Memory`] beyond the region's limit or the device's memory.
    pub fn allocate(&mut self, bytes: u64) -> Result<DevicePtr> {
        let bytes = aligned(bytes);
        if self.used + bytes > self.limit {
            return Err(self.full(bytes));
        }
        self.used += bytes;
        if let Some(chunk) = self.chunks.iter_mut().find(|chunk| chunk.size - chunk.used >= bytes) {
            chunk.used += bytes;
            return Ok(chunk.base + chunk.used - bytes);
        }
        let size = self.new_chunk(bytes);
        let base = match self.device.allocate(size) {
            Ok(base) => base,
            Err(crate::device::DeviceError::OutOfMemory { .. }) => {
                self.used -= bytes;
                return Err(self.full(bytes));
            }
            Err(error) => return Err(error.into()),
        };
        self.chunks.push(Chunk { base, size, used: bytes });
        Ok(base)
    }

    fn full(&self, requested: u64) -> Failure {
        Failure::Memory { what: self.what.into(), requested, available: self.limit - self.used }
    }

    /// Frees all pieces. No queued work may use them. On a GPU the large allocations are kept for the next query.
    pub fn reset(&mut self) {
        self.used = 0;
        match self.device.properties().kind {
            DeviceKind::Sim => self.release(),
            DeviceKind::Cuda => self.chunks.iter_mut().for_each(|chunk| chunk.used = 0),
        }
    }

    /// Gives all allocations back to the device.
    pub fn release(&mut self) {
        self.used = 0;
        for chunk in self.chunks.drain(..) {
            // SAFETY: allocated by this device, and the caller has waited for all work that uses the region.
            unsafe { self.device.free(chunk.base) };
        }
    }

    /// Whether two pieces were cut from one allocation; pieces of others are adjacent only by chance.
    pub fn together(&self, a: DevicePtr, b: DevicePtr) -> bool {
        let inside = |chunk: &Chunk, at: DevicePtr| (chunk.base..chunk.base + chunk.size).contains(&at);
        self.chunks.iter().any(|chunk| inside(chunk, a) && inside(chunk, b))
    }

    /// Bytes handed out.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes of device memory that the region must add to allocate `bytes`.
    pub fn growth(&self, bytes: u64) -> u64 {
        let bytes = aligned(bytes);
        match self.chunks.iter().any(|chunk| chunk.size - chunk.used >= bytes) {
            true => 0,
            false => self.new_chunk(bytes),
        }
    }

    fn new_chunk(&self, bytes: u64) -> u64 {
        match self.device.properties().kind {
            DeviceKind::Sim => bytes,
            DeviceKind::Cuda => bytes.max(CHUNK.min(self.limit)),
        }
    }

    /// Sets the limit to `bytes` bytes; no piece may be allocated. On a GPU they are one allocation: the current one if it is large enough, or a new,
    /// somewhat larger one of at most `most` bytes.
    ///
    /// # Errors
    /// [`Failure::Memory`] if the device has less.
    pub fn provide(&mut self, bytes: u64, most: u64) -> Result<()> {
        self.limit = bytes;
        if self.device.properties().kind == DeviceKind::Sim || self.chunks.iter().any(|chunk| chunk.size >= bytes) {
            return Ok(());
        }
        self.release();
        let size = bytes.next_multiple_of((bytes.next_power_of_two() / PART).max(GRAIN)).min(most).max(bytes);
        match self.device.allocate(size) {
            Ok(base) => self.chunks.push(Chunk { base, size, used: 0 }),
            Err(crate::device::DeviceError::OutOfMemory { requested, available, .. }) => {
                return Err(Failure::Memory { what: self.what.into(), requested, available });
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Bytes of device memory held, allocated or not.
    pub fn held(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.size).sum()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.release();
    }
}

/// An owner of shared memory of any type.
pub type Owner = Arc<dyn std::any::Any + Send + Sync>;

/// Key of data in device memory: the address of the host object it was made from, and the kind of data.
pub type Key = (usize, u8);

/// Values by keys.
pub type KeyMap<V> = HashMap<Key, V, BuildHasherDefault<KeyHasher>>;

/// A cheap hash of keys. The addresses are not chosen by users, so collisions cannot be provoked.
#[derive(Debug, Default, Clone, Copy)]
pub struct KeyHasher(u64);

impl KeyHasher {
    fn mix(&mut self, word: u64) {
        let product = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.mix(byte.into()));
    }

    fn write_u8(&mut self, byte: u8) {
        self.mix(byte.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }
}

/// Data that stays in device memory between queries, by the address of the host object it was made from.
#[derive(Debug)]
pub struct Cache {
    region: Region,
    /// Number of times that everything was dropped: an address is valid in its own generation only.
    generation: u64,
    entries: KeyMap<(DevicePtr, Owner)>,
}

impl Cache {
    /// An empty cache.
    pub fn new(region: Region) -> Self {
        Self { region, generation: 0, entries: KeyMap::default() }
    }

    /// The address of the data of `key`, and the object that it is a copy of.
    pub fn get(&self, key: &Key) -> Option<&(DevicePtr, Owner)> {
        self.entries.get(key)
    }

    /// Reserves `bytes` bytes, until everything is dropped.
    ///
    /// # Errors
    /// [`Failure::Memory`] when the region is full.
    pub fn reserve(&mut self, bytes: u64) -> Result<DevicePtr> {
        self.region.allocate(padded(bytes))
    }

    /// Makes the data of `key` available at `at`, which was reserved and filled; `owner` keeps the key unique.
    pub fn insert(&mut self, key: Key, at: DevicePtr, owner: Owner) {
        self.entries.insert(key, (at, owner));
    }

    /// Drops everything. No queued work may use it.
    pub fn clear(&mut self) {
        self.generation += 1;
        self.entries.clear();
        self.region.release();
    }

    /// The generation, which changes whenever everything is dropped.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Bytes handed out.
    pub fn used(&self) -> u64 {
        self.region.used()
    }

    /// Byte limit.
    pub fn limit(&self) -> u64 {
        self.region.limit
    }

    /// Bytes of device memory held.
    pub fn held(&self) -> u64 {
        self.region.held()
    }

    /// Bytes of device memory to add for `bytes` bytes of data.
    pub fn growth(&self, bytes: u64) -> u64 {
        self.region.growth(padded(bytes))
    }
}

/// Allocated bytes for data of `bytes` bytes: kernels may read whole words past the last byte.
pub fn padded(bytes: u64) -> u64 {
    bytes + 16
}
