//! Access of simulated devices to each other's memory, and accounting of copies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::super::{Device, DeviceError, DevicePtr, Event, Reach, Result, Stream};
use super::SimDevice;

/// How a simulated device accesses the memory of others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SimPeers {
    /// Reads it, after permission.
    #[default]
    Reachable,
    /// Cannot read it, like a GPU behind another bridge.
    Unreachable,
    /// Copies succeed, but no data arrives, as on machines whose IOMMU drops writes.
    Lossy,
}

/// State about other devices.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// Identities of the devices whose memory may be read.
    permitted: Mutex<BTreeSet<usize>>,
    /// Bytes copied from each, by ordinal.
    arrived: Mutex<BTreeMap<usize, u64>>,
}

fn simulated<'a>(device: &'a dyn Device, call: &'static str) -> Result<&'a SimDevice> {
    let other = || DeviceError::Call { call, detail: "devices of different kinds have no link".into() };
    device.as_any().downcast_ref().ok_or_else(other)
}

impl SimDevice {
    /// The address of the device's memory, unique in the process.
    fn identity(&self) -> usize {
        Arc::as_ptr(&self.memory) as usize
    }

    /// Bytes copied to this device from each other device, by ordinal.
    pub fn arrived(&self) -> BTreeMap<usize, u64> {
        self.peers.arrived.lock().clone()
    }

    pub(super) fn reach_peer(&self, source: &dyn Device) -> std::result::Result<Reach, String> {
        let source = simulated(source, "reach a peer").map_err(|error| error.to_string())?;
        if source.identity() == self.identity() {
            return Ok(Reach::Own);
        }
        match self.options.peers {
            SimPeers::Unreachable => Err("the simulated device has no access to others".into()),
            SimPeers::Reachable | SimPeers::Lossy => {
                self.peers.permitted.lock().insert(source.identity());
                Ok(Reach::Peer)
            }
        }
    }

    /// Copies from the memory of another device.
    ///
    /// # Safety
    /// As for [`Device::copy_from_peer`].
    pub(super) unsafe fn copy_from(
        &self,
        dst: DevicePtr,
        (source, src): (&dyn Device, DevicePtr),
        bytes: u64,
        stream: Stream,
    ) -> Result<()> {
        const CALL: &str = "copy from a peer";
        let source = simulated(source, CALL)?;
        if source.identity() == self.identity() {
            // SAFETY: the caller's contract: both ranges are of this device.
            return unsafe { self.copy_on_device(dst, src, bytes, stream) };
        }
        if !self.peers.permitted.lock().contains(&source.identity()) {
            let (own, other) = (self.options.ordinal, source.options.ordinal);
            let detail = format!("device {own} is not permitted to read the memory of device {other}");
            return Err(DeviceError::Call { call: CALL, detail });
        }
        self.check_range(dst, bytes, CALL)?;
        source.check_range(src, bytes, CALL)?;
        if !self.is_healthy(stream, CALL)? {
            return Ok(());
        }
        if self.options.peers != SimPeers::Lossy {
            // SAFETY: both ranges were checked to be allocated; allocations of two devices do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(src as *const u8, dst as *mut u8, bytes as usize) };
        }
        *self.peers.arrived.lock().entry(source.options.ordinal).or_default() += bytes;
        Ok(())
    }

    pub(super) fn wait_for(&self, stream: Stream, other: &dyn Device, event: Event) -> Result<()> {
        self.is_healthy(stream, "wait for a peer")?;
        // Work completes when it is queued.
        simulated(other, "wait for a peer")?.instant(event, "wait for a peer").map(drop)
    }
}
