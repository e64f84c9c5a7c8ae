//! Access to the memory of other GPUs of the process.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};

use super::CudaDevice;
use super::context::{Context, describe};
use crate::device::{Device, DeviceError, DevicePtr, Reach, Result};

/// The context of another GPU.
///
/// # Errors
/// The device is not a GPU.
pub(super) fn context_of(device: &dyn Device) -> std::result::Result<Arc<Context>, String> {
    match device.as_any().downcast_ref::<CudaDevice>() {
        Some(device) => Ok(device.context.clone()),
        None => Err("devices of different kinds have no link".into()),
    }
}

/// Lets the device of `own` read all memory of the device of `source` that was allocated by `cuMemAlloc`.
///
/// # Errors
/// The reason why that is impossible.
pub(super) fn reach(own: &Context, source: &Context) -> std::result::Result<Reach, String> {
    if own.device() == source.device() {
        // Both use the device's only primary context.
        return Ok(Reach::Own);
    }
    let mut permitted = 0;
    // SAFETY: valid pointer, two devices of the driver.
    let ask = || unsafe { sys::cuDeviceCanAccessPeer(&mut permitted, own.device(), source.device()) };
    own.call("cuDeviceCanAccessPeer", ask).map_err(|error| error.to_string())?;
    if permitted == 0 {
        return Err("the driver knows no peer access between them".into());
    }
    // SAFETY: a retained context, which the source's device keeps for as long as it is open. Access is for one direction.
    let enable = || unsafe { sys::cuCtxEnablePeerAccess(source.handle(), 0) };
    match own.try_call("cuCtxEnablePeerAccess", enable).map_err(|error| error.to_string())? {
        CUresult::CUDA_SUCCESS | CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(Reach::Peer),
        error => Err(format!("cuCtxEnablePeerAccess failed: {}", describe(error))),
    }
}

/// Copies from the memory of one device to that of another, on a stream of the latter.
///
/// # Errors
/// The destination's; a lost source, whose error the driver would report as the destination's.
///
/// # Safety
/// Both ranges are allocated on their devices until the stream is synchronized.
pub(super) unsafe fn copy(
    (own, dst): (&Context, DevicePtr),
    (source, src): (&Context, DevicePtr),
    bytes: u64,
    stream: sys::CUstream,
) -> Result<()> {
    const CALL: &str = "cuMemcpyPeerAsync";
    if bytes == 0 {
        return Ok(());
    }
    if own.device() == source.device() {
        // SAFETY: the caller's contract; both ranges are of one context.
        let copy = || unsafe { sys::cuMemcpyDtoDAsync_v2(dst, src, bytes as usize, stream) };
        return own.call("cuMemcpyDtoDAsync", copy);
    }
    let lost = |error| DeviceError::Call { call: CALL, detail: format!("its source: {error}") };
    source.check().map_err(lost)?;
    // SAFETY: the caller's contract; both contexts are retained by their devices.
    let copy = || unsafe { sys::cuMemcpyPeerAsync(dst, own.handle(), src, source.handle(), bytes as usize, stream) };
    own.call(CALL, copy)
}

#[cfg(test)]
mod tests;
