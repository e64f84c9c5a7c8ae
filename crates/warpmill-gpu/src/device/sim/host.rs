//! Functions of the host's language as machine code of the host: compiled by the simulated device's compiler and kept in its cache, or by another
//! compiler.

use std::any::Any;
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::time::Duration;

use libloading::Library;

use super::super::{BuildInfo, BuildOrigin, Result};
use super::compiler::Toolchain;
use super::module::symbol;

/// Arguments for processing groups, with the memory layout of `Launch` in `kernels/udf/rows.cuh`.
#[derive(Debug)]
#[repr(C)]
pub struct HostLaunch {
    /// Values of each column: f64, i64, or u8 for truth values.
    pub values: *const *const c_void,
    /// For each column, 1 per non-NULL row; null if the column has no NULLs.
    pub present: *const *const u8,
    /// The rows of group g are `offsets[g]` to `offsets[g + 1]` (exclusive).
    pub offsets: *const i64,
    /// Integer and boolean constants.
    pub whole: *const i64,
    /// Float constants.
    pub floats: *const f64,
    /// Result of each group: f64 or i64.
    pub results: *mut c_void,
    /// For each group, 0 if the result is NULL.
    pub known: *mut u8,
    /// For each group 0, or the code of a failure: place * 16 + reason.
    pub status: *mut i32,
    /// Nonzero once the results are no longer needed.
    pub cancelled: *const AtomicI32,
    /// Number of groups.
    pub groups: i64,
}

// SAFETY: threads read the memory that it points to, and each writes results of its own groups.
unsafe impl Sync for HostLaunch {}

type Run = unsafe extern "C" fn(*const HostLaunch, i64, i64);

/// A compiled function.
#[derive(Debug, Clone)]
pub struct HostFunction {
    run: Run,
    /// Its origin.
    pub build: BuildInfo,
    /// The owner of the code, such as its library.
    _owner: Arc<dyn Any + Send + Sync>,
}

impl HostFunction {
    pub(super) fn new(library: Library, entry: &str, build: BuildInfo) -> Result<Self> {
        let run: Run = symbol(&library, entry)?;
        Ok(Self { run, build, _owner: Arc::new(library) })
    }

    /// The function at `address`, which `owner` holds.
    ///
    /// # Safety
    /// There is a function `void(const HostLaunch*, i64 first, i64 last)` at the address for as long as `owner` lives, which may run on several
    /// threads at once and does not unwind.
    pub unsafe fn at(address: NonZeroUsize, owner: Arc<dyn Any + Send + Sync>) -> Self {
        // SAFETY: the caller's promise.
        let run =
            unsafe { std::mem::transmute::<*const c_void, Run>(std::ptr::with_exposed_provenance(address.get())) };
        Self { run, build: BuildInfo { origin: BuildOrigin::Memory, nanos: 0, code_bytes: 0 }, _owner: owner }
    }

    /// The same function, found in memory.
    pub(super) fn again(&self, time: Duration) -> Self {
        let build = BuildInfo { origin: BuildOrigin::Memory, nanos: time.as_nanos() as u64, ..self.build };
        Self { build, ..self.clone() }
    }

    /// Runs groups `first..last`.
    ///
    /// # Safety
    /// `launch` points to as many columns and constants as the function's text names, of the types that it was made for; to `last + 1` non-decreasing
    /// offsets within the columns; and to `last` results, of which no other thread writes these.
    pub unsafe fn run(&self, launch: &HostLaunch, first: i64, last: i64) {
        // SAFETY: the caller's promise.
        unsafe { (self.run)(launch, first, last) }
    }
}

/// The function `entry` of `text`, compiled, or found in memory or on disk.
pub fn host_function(text: &str, entry: &str) -> Result<HostFunction> {
    Toolchain::shared(false)?.host_function(text, entry)
}

/// Checks that there is a compiler for functions; the error is the reason why not.
pub fn host_compiler() -> Result<()> {
    Toolchain::shared(false).map(drop)
}
