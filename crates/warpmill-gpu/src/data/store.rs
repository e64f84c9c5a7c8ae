//! The memory of a device, and the data that is in it.

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

/// A device, and the data in its memory and in what memory of the host it reaches.
pub struct Store {
    pub(crate) device: Arc<dyn Device>,
    /// Bytes of device memory, of both regions together.
    pub(crate) memory: u64,
    pub(crate) cache: Mutex<Cache>,
    /// The part of data that passes through which stays.
    pub(crate) kept: Mutex<Kept>,
    /// Copies of segments of mirrored data.
    pub(crate) mirror: Mutex<Mirror>,
    /// Held while data is copied into the caching region.
    pub(crate) loading: Mutex<()>,
    pub(crate) pinned: PinnedCopies,
    /// The place where rows of hash builds are that do not fit.
    pub(crate) mapped: MappedPool,
    pub(crate) recoded: Recoded,
}

impl Store {
    /// At most `memory` bytes of `device`, without data.
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
