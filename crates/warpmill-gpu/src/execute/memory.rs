//! Device memory in two regions: cached data that outlives queries, and what a query uses while it runs.

use std::collections::HashMap;
use std::sync::Arc;

use crate::device::{Device, DeviceKind, DevicePtr, Stream};

use super::{Failure, Result};

/// Alignment of everything in device memory.
const ALIGN: u64 = 256;

/// Bytes that a region grows by at least.
const CHUNK: u64 = 256 << 20;

/// Memory that is handed out piece by piece and taken back all at once.
///
/// On a GPU pieces are cut from large allocations; on the simulated device each is an allocation of its own, so that
/// sanitizers see where it ends.
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

    /// `bytes` bytes.
    ///
    /// # Errors
    /// [`Failure::Memory`] beyond the region's limit or the device's memory.
    pub fn allocate(&mut self, bytes: u64) -> Result<DevicePtr> {
        let bytes = bytes.max(1).next_multiple_of(ALIGN);
        if self.used + bytes > self.limit {
            return Err(self.full(bytes));
        }
        self.used += bytes;
        if let Some(chunk) = self.chunks.iter_mut().find(|chunk| chunk.size - chunk.used >= bytes) {
            chunk.used += bytes;
            return Ok(chunk.base + chunk.used - bytes);
        }
        let size = match self.device.properties().kind {
            DeviceKind::Sim => bytes,
            DeviceKind::Cuda => bytes.max(CHUNK),
        };
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

    /// Takes everything back. No queued work may use it any more. Large allocations are kept for the next query.
    pub fn reset(&mut self) {
        self.used = 0;
        match self.device.properties().kind {
            DeviceKind::Sim => self.release(),
            DeviceKind::Cuda => self.chunks.iter_mut().for_each(|chunk| chunk.used = 0),
        }
    }

    /// Gives everything back to the device.
    pub fn release(&mut self) {
        self.used = 0;
        for chunk in self.chunks.drain(..) {
            // SAFETY: allocated by this device, and the caller has waited for all work that uses the region.
            unsafe { self.device.free(chunk.base) };
        }
    }

    /// Bytes handed out.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Lets the region have at most `limit` bytes from now on; nothing must be handed out. What it holds beyond that goes
    /// back to the device.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
        if self.chunks.iter().map(|chunk| chunk.size).sum::<u64>() > limit {
            self.release();
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.release();
    }
}

/// Anything shared.
pub type Owner = Arc<dyn std::any::Any + Send + Sync>;

/// Data that stays in device memory between queries, found by the address of the host object it was made from.
#[derive(Debug)]
pub struct Cache {
    region: Region,
    /// How often everything was dropped: what was put in before is gone when this has changed.
    generation: u64,
    entries: HashMap<(usize, u8), (DevicePtr, u64, Owner)>,
}

impl Cache {
    /// An empty cache.
    pub fn new(region: Region) -> Self {
        Self { region, generation: 0, entries: HashMap::new() }
    }

    /// Where the data of `owner` and `kind` is, if it is here.
    pub fn get(&self, owner: usize, kind: u8) -> Option<DevicePtr> {
        self.entries.get(&(owner, kind)).map(|(at, ..)| *at)
    }

    /// Keeps `bytes` under the address `key` and `kind`; `owner` keeps `key` from being the address of anything else.
    pub fn insert(&mut self, key: usize, kind: u8, owner: Owner, bytes: &[u8], stream: Stream) -> Result<DevicePtr> {
        let at = self.reserve(bytes.len() as u64)?;
        self.fill(at, key, kind, owner, bytes, stream)?;
        Ok(at)
    }

    /// Room for `bytes` bytes, which [`Cache::fill`] fills.
    pub fn reserve(&mut self, bytes: u64) -> Result<DevicePtr> {
        // Kernels may read whole words past the last byte.
        self.region.allocate(bytes + 16)
    }

    /// As [`Cache::insert`], at a place that was reserved.
    pub fn fill(
        &mut self,
        at: DevicePtr,
        key: usize,
        kind: u8,
        owner: Owner,
        bytes: &[u8],
        stream: Stream,
    ) -> Result<()> {
        // SAFETY: reserved with this size.
        unsafe { self.region.device.copy_to_device(at, bytes, stream)? };
        self.entries.insert((key, kind), (at, bytes.len() as u64, owner));
        Ok(())
    }

    /// Drops everything. No queued work may use it.
    pub fn clear(&mut self) {
        self.generation += 1;
        self.entries.clear();
        self.region.release();
    }

    /// Changes whenever everything was dropped.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// A copy of `bytes` that stays until everything is dropped.
    pub fn keep(&mut self, bytes: &[u8], stream: Stream) -> Result<DevicePtr> {
        let at = self.reserve(bytes.len() as u64)?;
        // SAFETY: just reserved with this size.
        unsafe { self.region.device.copy_to_device(at, bytes, stream)? };
        Ok(at)
    }

    /// Bytes held.
    pub fn used(&self) -> u64 {
        self.region.used()
    }

    /// All entries: where each is, how long, and what it was made from.
    pub fn entries(&self) -> impl Iterator<Item = (DevicePtr, u64, u8, &Owner)> {
        self.entries.iter().map(|((_, kind), (at, bytes, owner))| (*at, *bytes, *kind, owner))
    }
}
