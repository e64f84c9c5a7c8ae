//! Device memory of the simulated device: a host allocation per allocation, so that AddressSanitizer sees its bounds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::super::{DeviceError, DevicePtr, PinnedBuffer, Result};

/// Alignment of allocations, as promised by `Device::allocate`.
const ALIGN: usize = 256;

/// Fill of fresh memory, which exposes reads of unwritten bytes.
const POISON: u8 = 0xcd;

/// The allocations of one device.
#[derive(Debug)]
pub(super) struct Memory {
    limit: u64,
    used: u64,
    /// Bytes of each allocation by its address.
    blocks: BTreeMap<DevicePtr, u64>,
}

impl Memory {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, used: 0, blocks: BTreeMap::new() }
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.limit - self.used
    }

    pub(super) fn allocate(&mut self, bytes: u64) -> Result<DevicePtr> {
        let available = self.free_bytes();
        let exhausted = || DeviceError::OutOfMemory { what: "device", requested: bytes, available };
        if bytes > available {
            return Err(exhausted());
        }
        let layout = layout(bytes).ok_or_else(exhausted)?;
        // SAFETY: the layout's size is not zero.
        let ptr = unsafe { System.alloc(layout) };
        if ptr.is_null() {
            return Err(exhausted());
        }
        // SAFETY: `ptr` points to the layout's bytes.
        unsafe { ptr.write_bytes(POISON, layout.size()) };
        self.used += bytes;
        self.blocks.insert(ptr as u64, bytes);
        Ok(ptr as u64)
    }

    /// Frees an allocation; panics for any other address, a defect of the caller.
    pub(super) fn free(&mut self, ptr: DevicePtr) {
        let bytes = self.blocks.remove(&ptr).expect("freed device memory was allocated");
        self.used -= bytes;
        release(ptr, bytes);
    }

    /// Fails, with the reason, unless the range lies in one allocation.
    pub(super) fn check(&self, ptr: DevicePtr, bytes: u64) -> Result<(), String> {
        if bytes == 0 {
            return Ok(());
        }
        match self.blocks.range(..=ptr).next_back() {
            Some((&start, &size)) if ptr - start < size && bytes <= size - (ptr - start) => Ok(()),
            Some((&start, &size)) if ptr - start < size => {
                Err(format!("{bytes} bytes from byte {} of an allocation of {size} bytes", ptr - start))
            }
            _ => Err(format!("address {ptr:#x} is not allocated")),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for (&ptr, &bytes) in &self.blocks {
            release(ptr, bytes);
        }
    }
}

fn release(ptr: DevicePtr, bytes: u64) {
    let layout = layout(bytes).expect("the layout was valid when the memory was allocated");
    // SAFETY: `ptr` came from `System.alloc` with this layout and is released once.
    unsafe { System.dealloc(ptr as *mut u8, layout) };
}

fn layout(bytes: u64) -> Option<Layout> {
    let bytes = usize::try_from(bytes).ok()?;
    Layout::from_size_align(bytes.max(1), ALIGN).ok()
}

/// Host memory of one device that its kernels may access: bytes of each piece by address.
pub(super) type Reachable = Arc<Mutex<BTreeMap<DevicePtr, usize>>>;

/// Allocates zeroed host memory, registered in `reachable` as long as it lives. It is not page-locked: copies are synchronous here.
pub(super) fn pinned(bytes: usize, reachable: &Reachable) -> Result<PinnedBuffer> {
    let exhausted = || DeviceError::OutOfMemory { what: "pinned host", requested: bytes as u64, available: 0 };
    let layout = layout(bytes as u64).ok_or_else(exhausted)?;
    // SAFETY: the layout's size is not zero.
    let ptr = unsafe { System.alloc_zeroed(layout) };
    if ptr.is_null() {
        return Err(exhausted());
    }
    reachable.lock().insert(ptr as DevicePtr, bytes);
    let reachable = reachable.clone();
    let free = Box::new(move |ptr: *mut u8| {
        reachable.lock().remove(&(ptr as DevicePtr));
        // SAFETY: `ptr` came from `System.alloc_zeroed` with this layout; the buffer calls this once.
        unsafe { System.dealloc(ptr, layout) };
    });
    // SAFETY: `bytes` initialized bytes that only the buffer knows.
    Ok(unsafe { PinnedBuffer::from_raw(ptr, bytes, free) })
}
