//! The memory of a device, and the data in it.

use std::sync::Arc;

use parking_lot::Mutex;

use super::kept::Kept;
use super::mirror::Mirror;
use super::segments::Recoded;
use super::source::PinnedCopies;
use super::undone::Undone;
use crate::device::Device;
use crate::memory::error::Result;
use crate::memory::mapped::MappedPool;
use crate::memory::regions::{Cache, Region};

/// A device with all data in its memory and in page-locked host memory.
pub struct Store {
    pub(crate) device: Arc<dyn Device>,
    /// Bytes of device memory, both regions together.
    pub(crate) memory: u64,
    pub(crate) cache: Mutex<Cache>,
    /// Kept chunks of streamed data.
    pub(crate) kept: Mutex<Kept>,
    /// Copies of mirrored data.
    pub(crate) mirror: Mutex<Mirror>,
    /// Lock held while data is copied into the caching region.
    pub(crate) loading: Mutex<()>,
    pub(crate) pinned: PinnedCopies,
    /// Page-locked memory for rows of hash builds that do not fit the device.
    pub(crate) mapped: MappedPool,
    pub(crate) recoded: Recoded,
}

impl Store {
    /// An empty store of at most `memory` bytes of `device`.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn new(device: Arc<dyn Device>, memory: u64) -> Result<Self> {
        let memory = memory.min(device.free_memory()?);
        let region = || Region::new(device.clone(), "the caching region", memory / 4 * 3);
        let (cache, kept) = (Cache::new(region()), Kept::new(region()));
        let mirror = Mirror::new(device.clone(), memory / 4 * 3);
        let recoded = Recoded::new(Undone::of(&*device));
        Ok(Self {
            device,
            memory,
            cache: Mutex::new(cache),
            kept: Mutex::new(kept),
            mirror: Mutex::new(mirror),
            loading: Mutex::default(),
            pinned: PinnedCopies::default(),
            mapped: MappedPool::default(),
            recoded,
        })
    }
}
