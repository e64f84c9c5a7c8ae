//! The resources of a running program.

use std::sync::Arc;

use super::error::Result;
use super::mapped::{Mapped, MappedPool};
use super::regions::Region;
use crate::device::{Device, DevicePtr, PinnedBuffer, Stream};

/// The resources that a running program has for itself.
pub struct Lane {
    device: Arc<dyn Device>,
    /// Its work.
    pub stream: Stream,
    /// Its part of the processing region.
    pub region: Region,
    /// Page-locked memory that results are copied to.
    pub host: Option<PinnedBuffer>,
    /// Page-locked memory that segments pass through on their way to the device.
    pub staging: Vec<PinnedBuffer>,
    /// Page-locked memory that kernels of the program that runs reach over the link.
    pub(crate) mapped: Option<Mapped>,
    /// The stream of their copies.
    copies: Option<Stream>,
}

impl Lane {
    pub(crate) fn new(device: &Arc<dyn Device>) -> Result<Self> {
        let region = Region::new(device.clone(), "the processing region", 0);
        let stream = device.stream()?;
        Ok(Self { device: device.clone(), stream, region, host: None, staging: vec![], mapped: None, copies: None })
    }

    /// The stream for copies that overlap with other work.
    ///
    /// # Errors
    /// The device's.
    pub fn copies(&mut self) -> Result<Stream> {
        if self.copies.is_none() {
            self.copies = Some(self.device.stream()?);
        }
        Ok(self.copies.expect("made above"))
    }

    /// Lets there be `count` pieces of staging memory of at least `bytes` bytes each.
    ///
    /// # Errors
    /// The device's, where it cannot be had.
    pub fn staging(&mut self, count: usize, bytes: usize) -> Result<()> {
        self.staging.retain(|memory| memory.len() >= bytes);
        while self.staging.len() < count {
            self.staging.push(self.device.pinned(bytes.max(1))?);
        }
        Ok(())
    }

    /// The place where kernels find `bytes` bytes of page-locked memory of the host until the program's turn ends, from `pool`, which may have `room`
    /// bytes.
    ///
    /// # Errors
    /// [`Failure::HostMemory`] where there is not as much.
    pub fn map(&mut self, pool: &MappedPool, bytes: u64, room: u64) -> Result<DevicePtr> {
        self.mapped = None;
        let memory = pool.take(&*self.device, bytes, room)?;
        let at = self.device.mapped(&memory)?;
        self.mapped = Some(memory);
        Ok(at)
    }

    /// Waits for all of its work.
    ///
    /// # Errors
    /// The errors of its work.
    pub fn synchronize(&self) -> crate::device::Result<()> {
        let copies = self.copies.map_or(Ok(()), |copies| self.device.synchronize(copies));
        self.device.synchronize(self.stream).and(copies)
    }

    /// Page-locked memory of at least `bytes` bytes.
    ///
    /// # Errors
    /// The device's, where it cannot be had.
    pub fn host(&mut self, bytes: usize) -> Result<&mut PinnedBuffer> {
        if self.host.as_ref().is_none_or(|host| host.len() < bytes) {
            self.host = Some(self.device.pinned(bytes.next_power_of_two())?);
        }
        Ok(self.host.as_mut().expect("made above"))
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // The region goes back to the device: nothing queued may use it.
        let _ = self.synchronize();
        self.device.destroy_stream(self.stream);
        if let Some(copies) = self.copies {
            self.device.destroy_stream(copies);
        }
    }
}
