//! Resources of a running program.

use std::sync::Arc;

use super::error::Result;
use super::mapped::{Mapped, MappedPool};
use super::regions::Region;
use crate::device::{Device, DevicePtr, PinnedBuffer, Stream};

/// The stream and memory that a running program has to itself.
pub struct Lane {
    device: Arc<dyn Device>,
    /// The stream of its kernels.
    pub stream: Stream,
    /// Its part of the processing region.
    pub region: Region,
    /// Page-locked memory that results are copied to.
    pub host: Option<PinnedBuffer>,
    /// Page-locked memory for data on its way to the device.
    pub staging: Vec<PinnedBuffer>,
    /// Page-locked memory that kernels of the program access over the link.
    pub(crate) mapped: Option<Mapped>,
    /// The stream for copies that overlap with kernels.
    copies: Option<Stream>,
}

impl Lane {
    pub(crate) fn new(device: &Arc<dyn Device>) -> Result<Self> {
        let region = Region::new(device.clone(), "the processing region", 0);
        let stream = device.stream()?;
        Ok(Self { device: device.clone(), stream, region, host: None, staging: vec![], mapped: None, copies: None })
    }

    /// The stream for copies that overlap with kernels.
    ///
    /// # Errors
    /// The device's.
    pub fn copies(&mut self) -> Result<Stream> {
        if self.copies.is_none() {
            self.copies = Some(self.device.stream()?);
        }
        Ok(self.copies.expect("made above"))
    }

    /// Provides `count` pieces of staging memory of at least `bytes` bytes each.
    ///
    /// # Errors
    /// The device's, if it has no page-locked memory left.
    pub fn staging(&mut self, count: usize, bytes: usize) -> Result<()> {
        self.staging.retain(|memory| memory.len() >= bytes);
        while self.staging.len() < count {
            self.staging.push(self.device.pinned(bytes.max(1))?);
        }
        Ok(())
    }

    /// Takes `bytes` bytes of page-locked memory from `pool`, which may have `room` bytes, until the turn ends. Returns their address for kernels.
    ///
    /// # Errors
    /// [`Failure::HostMemory`] if there is not as much.
    pub fn map(&mut self, pool: &MappedPool, bytes: u64, room: u64) -> Result<DevicePtr> {
        self.mapped = None;
        let memory = pool.take(&*self.device, bytes, room)?;
        let at = self.device.mapped(&memory)?;
        self.mapped = Some(memory);
        Ok(at)
    }

    /// Waits for all queued work.
    ///
    /// # Errors
    /// Errors of the queued work.
    pub fn synchronize(&self) -> crate::device::Result<()> {
        let copies = self.copies.map_or(Ok(()), |copies| self.device.synchronize(copies));
        self.device.synchronize(self.stream).and(copies)
    }

    /// Page-locked memory of at least `bytes` bytes for results.
    ///
    /// # Errors
    /// The device's, if it has no page-locked memory left.
    pub fn host(&mut self, bytes: usize) -> Result<&mut PinnedBuffer> {
        if self.host.as_ref().is_none_or(|host| host.len() < bytes) {
            self.host = Some(self.device.pinned(bytes.next_power_of_two())?);
        }
        Ok(self.host.as_mut().expect("made above"))
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // The region goes back to the device: no queued work may use it.
        let _ = self.synchronize();
        self.device.destroy_stream(self.stream);
        if let Some(copies) = self.copies {
            self.device.destroy_stream(copies);
        }
    }
}
