//! Copies from pageable memory, through page-locked buffers filled by several threads.
//!
//! The driver copies pageable memory with one thread. Large copies are split into pieces instead; all threads of the pool copy a piece into a
//! page-locked buffer while earlier pieces are transferred.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUpointer_attribute, CUresult};
use parking_lot::Mutex;
use rayon::prelude::*;

use super::context::Context;
use super::pinned::pinned;
use crate::device::{DevicePtr, PinnedBuffer, Result, Stream, priority};

/// Bytes from which a copy uses several threads.
const STAGED_BYTES: usize = 1 << 20;
const BUFFER_BYTES: usize = 4 << 20;
const BUFFERS: usize = 4;
/// Bytes that one thread copies at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The page-locked buffers of a device.
#[derive(Debug)]
pub(super) struct Staging {
    context: Arc<Context>,
    /// Buffers that are not being filled, the least recently used first. `None` before the first large copy.
    free: Mutex<Option<VecDeque<Buffer>>>,
}

#[derive(Debug)]
struct Buffer {
    bytes: PinnedBuffer,
    /// Event after the buffer's last copy.
    sent: u64,
}

impl Staging {
    pub(super) fn new(context: &Arc<Context>) -> Self {
        Self { context: Arc::clone(context), free: Mutex::new(None) }
    }

    /// Copies `src` to the device. On return `src` has been read, unless it is page-locked.
    ///
    /// # Safety
    /// As [`crate::device::Device::copy_to_device`].
    pub(super) unsafe fn copy(&self, dst: DevicePtr, src: &[u8], stream: Stream) -> Result<()> {
        if src.len() < STAGED_BYTES || self.is_pinned(src.as_ptr())? {
            // SAFETY: the caller's contract.
            return unsafe { send(&self.context, dst, src, stream) };
        }
        for (number, piece) in src.chunks(BUFFER_BYTES).enumerate() {
            let dst = dst + (number * BUFFER_BYTES) as u64;
            // A thread that helps with another copy while it waits for its own may get here while all buffers are being filled, perhaps by itself: it
            // must not wait for one.
            let Some(mut buffer) = self.take()? else {
                // SAFETY: the caller's contract; the driver has read pageable memory when the call returns.
                unsafe { send(&self.context, dst, piece, stream)? };
                continue;
            };
            // SAFETY: the caller's contract.
            let sent = unsafe { self.send_through(&mut buffer, dst, piece, stream) };
            self.free.lock().get_or_insert_default().push_back(buffer);
            sent?;
        }
        Ok(())
    }

    unsafe fn send_through(&self, buffer: &mut Buffer, dst: DevicePtr, piece: &[u8], stream: Stream) -> Result<()> {
        let event = buffer.sent as sys::CUevent;
        // SAFETY: an event of this context.
        self.context.call("cuEventSynchronize", || unsafe { sys::cuEventSynchronize(event) })?;
        let staged = &mut buffer.bytes[..piece.len()];
        priority::in_parallel(|| {
            let pieces = staged.par_chunks_mut(PIECE_BYTES).zip(piece.par_chunks(PIECE_BYTES));
            pieces.for_each(|(to, from)| to.copy_from_slice(from));
        });
        // SAFETY: the caller's contract; the buffer is not written before the event is reached.
        unsafe { send(&self.context, dst, staged, stream)? };
        // SAFETY: an event and a stream of this context.
        self.context.call("cuEventRecord", || unsafe { sys::cuEventRecord(event, stream.0 as sys::CUstream) })
    }

    /// Takes a buffer that is not being filled. `None` if all are, or there is no memory for them.
    fn take(&self) -> Result<Option<Buffer>> {
        let mut free = self.free.lock();
        if free.is_none() {
            let buffers = (0..BUFFERS).map(|_| self.make_buffer()).collect::<Result<VecDeque<_>>>();
            *free =
                Some(buffers.inspect_err(|error| tracing::debug!(%error, "no staging buffers")).unwrap_or_default());
        }
        Ok(free.as_mut().and_then(VecDeque::pop_front))
    }

    fn make_buffer(&self) -> Result<Buffer> {
        let bytes = pinned(&self.context, BUFFER_BYTES)?;
        let mut event: sys::CUevent = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: valid pointer.
        self.context.call("cuEventCreate", || unsafe { sys::cuEventCreate(&mut event, flags) })?;
        Ok(Buffer { bytes, sent: event as u64 })
    }

    /// Whether `ptr` is page-locked memory known to the driver.
    fn is_pinned(&self, ptr: *const u8) -> Result<bool> {
        let mut kind = 0u32;
        let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        // SAFETY: the attribute is an unsigned int; any address may be asked about.
        let result = self.context.try_call("cuPointerGetAttribute", || unsafe {
            sys::cuPointerGetAttribute((&raw mut kind).cast::<c_void>(), attribute, ptr as u64)
        })?;
        Ok(result == CUresult::CUDA_SUCCESS && kind == sys::CUmemorytype::CU_MEMORYTYPE_HOST as u32)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        for buffer in self.free.get_mut().iter_mut().flatten() {
            // SAFETY: an event of this context; the driver keeps it until it is reached.
            let destroy = || unsafe { sys::cuEventDestroy_v2(buffer.sent as sys::CUevent) };
            if let Err(error) = self.context.call("cuEventDestroy", destroy) {
                tracing::debug!(%error, "an event cannot be destroyed");
            }
        }
    }
}

/// One copy by the driver: asynchronous from page-locked memory; pageable memory has been read on return.
///
/// # Safety
/// As [`crate::device::Device::copy_to_device`].
unsafe fn send(context: &Context, dst: DevicePtr, src: &[u8], stream: Stream) -> Result<()> {
    // SAFETY: the caller's contract.
    context.call("cuMemcpyHtoDAsync", || unsafe {
        sys::cuMemcpyHtoDAsync_v2(dst, src.as_ptr().cast(), src.len(), stream.0 as sys::CUstream)
    })
}
