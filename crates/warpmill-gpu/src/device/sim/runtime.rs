//! Rust interface of the compiled runtime (`kernels/sim/runtime.cpp`).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::AtomicU32;

use libloading::Library;

use super::super::{DeviceError, LaunchShape, Result};
use super::module::{Entry, symbol};

/// Calls a kernel function, in a fiber, with the address of its parameter.
pub(super) type RunFn = unsafe extern "C" fn(*const c_void);

/// Sets a module's pointer to the running block; returns the address of that pointer in the calling thread.
pub(super) type BindFn = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// Largest number of bytes of a defect's description.
const MESSAGE_BYTES: usize = 2048;

/// Seconds after which a block whose threads only spin counts as hung.
const SPIN_SECONDS: u32 = if cfg!(test) { 3 } else { 60 };

/// `Launch` of `runtime.cpp`.
#[repr(C)]
struct RawLaunch {
    run: RunFn,
    bind: BindFn,
    parameters: *const c_void,
    shared_before: u64,
    shared_bytes: u64,
    blocks: u32,
    threads: u32,
    dynamic_shared: u32,
    reverse: u32,
    spin_seconds: u32,
    next_block: AtomicU32,
    stop: AtomicU32,
}

// SAFETY: workers only read it, except for the two atomics.
unsafe impl Sync for RawLaunch {}

/// Parameters, aligned for any C++ type with an alignment up to a cache line.
#[repr(C, align(64))]
struct Parameters([u8; 4096]);

/// The shared object that runs blocks.
pub(super) struct Runtime {
    work: unsafe extern "C" fn(*const RawLaunch, *mut c_char, usize) -> c_int,
    measure: unsafe extern "C" fn(BindFn, *mut u64, *mut u64) -> c_int,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Runtime")
    }
}

impl Runtime {
    pub(super) fn new(library: Library) -> Result<Self> {
        let work = symbol(&library, "warpmill_sim_work")?;
        let measure = symbol(&library, "warpmill_sim_measure")?;
        // Not unloaded, like modules.
        std::mem::forget(library);
        Ok(Self { work, measure })
    }

    /// The thread-local memory of the module of `bind`: bytes before the pointer that `bind` returns, and bytes in total.
    pub(super) fn measure(&self, bind: BindFn) -> Result<(u64, u64)> {
        let (mut before, mut bytes) = (0, 0);
        // SAFETY: `bind` is a loaded module's; the results outlive the call.
        match unsafe { (self.measure)(bind, &mut before, &mut bytes) } {
            0 => Ok((before, bytes)),
            _ => Err(DeviceError::Call { call: "load kernel", detail: "its thread-local memory was not found".into() }),
        }
    }

    /// Runs all blocks of a launch over up to `workers` host threads, including the calling one.
    ///
    /// # Safety
    /// `params` has the layout that the kernel expects, `shape` is valid, and the addresses in `params` are valid for the kernel's accesses.
    pub(super) unsafe fn launch(
        &self,
        entry: &Entry,
        shape: LaunchShape,
        params: &[u8],
        workers: usize,
        reverse: bool,
    ) -> Result<()> {
        let mut parameters = Parameters([0; 4096]);
        parameters.0[..params.len()].copy_from_slice(params);
        let launch = RawLaunch {
            run: entry.run,
            bind: entry.bind,
            parameters: parameters.0.as_ptr().cast(),
            shared_before: entry.shared.0,
            shared_bytes: entry.shared.1,
            blocks: shape.blocks,
            threads: shape.threads,
            dynamic_shared: shape.shared,
            reverse: u32::from(reverse),
            spin_seconds: SPIN_SECONDS,
            next_block: AtomicU32::new(0),
            stop: AtomicU32::new(0),
        };
        let launch = &launch;
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..workers.min(shape.blocks as usize))
                .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, || self.work(entry, launch)).ok())
                .collect();
            let own = self.work(entry, launch);
            let others = helpers.into_iter().map(|helper| helper.join().expect("a worker does not panic"));
            others.fold(own, |first, other| first.and(other))
        })
    }

    /// Runs blocks until none is left.
    fn work(&self, entry: &Entry, launch: &RawLaunch) -> Result<()> {
        let mut message = [0 as c_char; MESSAGE_BYTES];
        // SAFETY: `launch` is complete and outlives the call; the message is terminated by the callee.
        match unsafe { (self.work)(launch, message.as_mut_ptr(), MESSAGE_BYTES) } {
            0 => Ok(()),
            1 => {
                // SAFETY: the callee has written a terminated string.
                let detail = unsafe { CStr::from_ptr(message.as_ptr()) }.to_string_lossy().into_owned();
                Err(DeviceError::KernelDefect { kernel: entry.name.to_string(), detail })
            }
            _ => Err(DeviceError::Call { call: "launch", detail: "no memory for the threads' stacks".into() }),
        }
    }
}
