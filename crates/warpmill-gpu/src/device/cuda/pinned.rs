//! Page-locked memory.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};

use super::context::Context;
use crate::device::{DeviceError, PinnedBuffer, Result};

/// Allocates page-locked memory that every device of the process can access.
pub(super) fn pinned(context: &Arc<Context>, bytes: usize) -> Result<PinnedBuffer> {
    if bytes == 0 {
        // SAFETY: no bytes at a well-aligned address.
        return Ok(unsafe { PinnedBuffer::from_raw(std::ptr::dangling_mut(), 0, Box::new(|_| ())) });
    }
    let mut ptr: *mut c_void = std::ptr::null_mut();
    let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
    // SAFETY: valid pointer.
    let result = context.try_call("cuMemHostAlloc", || unsafe { sys::cuMemHostAlloc(&mut ptr, bytes, flags) })?;
    if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        let available = available_host_memory().unwrap_or(0);
        return Err(DeviceError::OutOfMemory { what: "pinned host", requested: bytes as u64, available });
    }
    context.call("cuMemHostAlloc", || result)?;
    // SAFETY: `bytes` bytes were allocated.
    unsafe { ptr.cast::<u8>().write_bytes(0, bytes) };
    let context = Arc::clone(context);
    let free = move |ptr: *mut u8| {
        // SAFETY: allocated above, freed once.
        if let Err(error) = context.call("cuMemFreeHost", || unsafe { sys::cuMemFreeHost(ptr.cast()) }) {
            tracing::debug!(%error, "pinned memory cannot be freed");
        }
    };
    // SAFETY: allocated and zeroed above.
    Ok(unsafe { PinnedBuffer::from_raw(ptr.cast(), bytes, Box::new(free)) })
}

/// Available host memory in bytes.
pub(crate) fn available_host_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}
