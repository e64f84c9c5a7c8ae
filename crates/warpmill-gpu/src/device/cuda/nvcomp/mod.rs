//! nvCOMP, NVIDIA's library of codecs for GPUs: optional, proprietary, loaded at run time if installed, never shipped.
//!
//! It is searched for once, in this order: `WARPMILL_NVCOMP` (a path or folder, without fallback; `off`: not used), the loader's path,
//! `$CUDA_PATH/lib64` and `$CUDA_HOME/lib64`, `/usr/local/cuda*/lib64`, and the wheels `nvidia-libnvcomp-cu13` and `-cu12` in the folders of
//! `WARPMILL_PYTHON_PATH` (the Python package sets it to `sys.path`).
//!
//! Major versions of nvCOMP differ in the structures that they take by value: only [`MAJOR`](version::MAJOR) is used, whichever others are installed.
//!
//! nvCOMP calls the CUDA runtime, which uses the calling thread's current context: while a [`Batches`] runs, the device's primary context, which
//! [`CudaDevice`](super::CudaDevice) uses as well.

mod library;
pub mod version;

use std::sync::Arc;

use self::version::NvcompVersion;
use super::context::Context;
use crate::device::batch::{Batch, BatchCodec, BatchFormat};
use crate::device::{DeviceError, Result, Stream};
use library::{Format, Nvcomp, Options};

/// The version of this process's nvCOMP; the error is the reason why there is none.
///
/// # Errors
/// The files that were tried, and the remedy.
pub fn available() -> std::result::Result<NvcompVersion, String> {
    Nvcomp::get().map(Nvcomp::version)
}

/// nvCOMP on one device.
pub struct Batches {
    library: &'static Nvcomp,
    context: Arc<Context>,
}

impl Batches {
    /// For the device of `context`; the error is the reason why there is no nvCOMP.
    pub(super) fn new(context: Arc<Context>) -> std::result::Result<Self, String> {
        Ok(Self { library: Nvcomp::get()?, context })
    }

    fn format(&self, format: BatchFormat) -> Result<&'static Format> {
        self.library.format(format).ok_or_else(|| DeviceError::Call {
            call: "nvCOMP",
            detail: format!("this one does not decompress {}", format.name()),
        })
    }

    fn check(&self, call: &'static str, status: i32) -> Result<()> {
        match status {
            0 => Ok(()),
            status => Err(DeviceError::Call { call, detail: self.library.describe(status) }),
        }
    }
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("library", &self.library.version()).finish_non_exhaustive()
    }
}

impl BatchCodec for Batches {
    fn name(&self) -> String {
        format!("nvCOMP {}", self.library.version().version)
    }

    fn input_alignment(&self, format: BatchFormat) -> Option<u64> {
        // Outputs and scratch memory are aligned to at least 16, and the library was checked to require no more.
        self.library.format(format).map(|format| format.alignments.input as u64)
    }

    fn temp_bytes(&self, format: BatchFormat, count: u64, largest: u64) -> Result<u64> {
        const CALL: &str = "nvcompBatched...DecompressGetTempSize";
        let (functions, mut bytes) = (self.format(format)?, 0);
        let (chunks, most, total) = (count as usize, largest as usize, (count * largest) as usize);
        // SAFETY: the type is the function's C signature; the pointer is valid; no work is queued, the stream is the default one.
        let ask = || unsafe {
            (functions.temp_bytes)(chunks, most, Options::DECOMPRESS, &mut bytes, total, std::ptr::null_mut())
        };
        let status = self.context.with_current(ask)?;
        self.check(CALL, status)?;
        Ok(bytes as u64)
    }

    unsafe fn decompress(&self, format: BatchFormat, batch: &Batch, stream: Stream) -> Result<()> {
        const CALL: &str = "nvcompBatched...DecompressAsync";
        let functions = self.format(format)?;
        self.context.launched(&functions.name);
        let address = |at: u64| at as *mut std::ffi::c_void;
        // SAFETY: the type is the function's C signature; the arrays' contents are the caller's promise. Driver streams are runtime streams.
        let queue = || unsafe {
            (functions.decompress)(
                address(batch.stored).cast(),
                address(batch.stored_bytes).cast(),
                address(batch.room).cast(),
                address(batch.written).cast(),
                batch.count as usize,
                address(batch.temp.0),
                batch.temp.1 as usize,
                address(batch.out).cast(),
                Options::DECOMPRESS,
                address(batch.statuses).cast(),
                address(stream.0),
            )
        };
        let status = self.context.with_current(queue)?;
        self.check(CALL, status)
    }
}

#[cfg(test)]
mod tests;
