//! Functions of the host's language as machine code of the host, made by the compiler of the simulated device and kept in its cache.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::time::Duration;

use libloading::Library;

use super::super::{BuildInfo, BuildOrigin, Result};
use super::compiler::Toolchain;
use super::module::symbol;

/// The arguments of a run of groups, as `Launch` of `kernels/udf/rows.cuh` lies in memory.
#[derive(Debug)]
#[repr(C)]
pub struct HostLaunch {
    /// Of each column its values: f64, i64, or u8 for truth values.
    pub values: *const *const c_void,
    /// Of each column 1 where it is not NULL; null where no row is.
    pub present: *const *const u8,
    /// The rows of group g are `offsets[g]` to `offsets[g + 1]`.
    pub offsets: *const i64,
    /// Constants that are whole numbers or truth values.
    pub whole: *const i64,
    /// Constants that are floats.
    pub floats: *const f64,
    /// Of each group its result: f64 or i64.
    pub results: *mut c_void,
    /// Of each group 0 where the result is NULL.
    pub known: *mut u8,
    /// Of each group 0, or where and why there is no result: place * 16 + reason.
    pub status: *mut i32,
    /// Not 0 when nobody waits for the results any more.
    pub cancelled: *const AtomicI32,
    /// The number of groups.
    pub groups: i64,
}

// SAFETY: threads read what it points to, and each writes results of groups of its own.
unsafe impl Sync for HostLaunch {}

type Run = unsafe extern "C" fn(*const HostLaunch, i64, i64);

/// A compiled function.
#[derive(Debug, Clone)]
pub struct HostFunction {
    run: Run,
    /// Where it came from.
    pub build: BuildInfo,
    /// The library that `run` is in.
    _library: Arc<Library>,
}

impl HostFunction {
    pub(super) fn new(library: Library, entry: &str, build: BuildInfo) -> Result<Self> {
        let run: Run = symbol(&library, entry)?;
        Ok(Self { run, build, _library: Arc::new(library) })
    }

    /// The same, as it is found in memory.
    pub(super) fn again(&self, time: Duration) -> Self {
        let build = BuildInfo { origin: BuildOrigin::Memory, nanos: time.as_nanos() as u64, ..self.build };
        Self { build, ..self.clone() }
    }

    /// Runs groups `first..last`.
    ///
    /// # Safety
    /// `launch` points to as many columns and constants as the function's text names, of the types that it was made for, to
    /// `last + 1` offsets that do not decrease and stay within the columns, and to `last` results, of which no other thread has these.
    pub unsafe fn run(&self, launch: &HostLaunch, first: i64, last: i64) {
        // SAFETY: the caller's promise.
        unsafe { (self.run)(launch, first, last) }
    }
}

/// The function called `entry` of `text`, compiled, or found in memory or on disk.
pub fn host_function(text: &str, entry: &str) -> Result<HostFunction> {
    Toolchain::shared(false)?.host_function(text, entry)
}

/// Whether there is a compiler for functions, or why not.
pub fn host_compiler() -> Result<()> {
    Toolchain::shared(false).map(drop)
}
