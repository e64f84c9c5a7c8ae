//! The driver, and a device's context: all driver calls are made, and their results checked, here.

use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{self, CUresult};
use parking_lot::Mutex;

use crate::device::{DeviceError, Result};

/// The oldest release with all calls used, except [`EXACT_PARAMETERS`].
const OLDEST_DRIVER: DriverVersion = DriverVersion(12_000);
/// The first release that reports the size of a kernel's parameter.
pub(super) const EXACT_PARAMETERS: DriverVersion = DriverVersion(12_040);

/// The CUDA release that the driver supports, as CUDA writes it: 13000 is 13.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DriverVersion(u32);

impl DriverVersion {
    pub(super) fn major(self) -> u32 {
        self.0 / 1000
    }
}

impl std::fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major(), self.0 % 1000 / 10)
    }
}

/// The version of the driver. Fails if there is none.
pub(super) fn driver_version() -> Result<DriverVersion> {
    // cudarc panics in any call when the library is missing.
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: loads the driver's library, whose initializers have no preconditions.
    if !PRESENT.get_or_init(|| unsafe { sys::is_culib_present() }) {
        return Err(DeviceError::Absent("the NVIDIA driver (libcuda.so.1) is not installed".into()));
    }
    let mut version = 0;
    // SAFETY: valid pointer; the call needs no initialization.
    absent("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
    Ok(DriverVersion(version as u32))
}

/// Initializes the driver.
fn initialize() -> Result<DriverVersion> {
    let version = driver_version()?;
    if version < OLDEST_DRIVER {
        return Err(DeviceError::DriverTooOld { found: version.to_string(), needed: OLDEST_DRIVER.to_string() });
    }
    // SAFETY: no preconditions; may be called again.
    absent("cuInit", unsafe { sys::cuInit(0) })?;
    Ok(version)
}

/// GPUs of the machine.
pub(super) fn device_count() -> Result<usize> {
    initialize()?;
    let mut count = 0;
    // SAFETY: valid pointer, initialized driver.
    absent("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(DeviceError::Absent("the driver finds no device".into())),
    }
}

/// Calls cuEventElapsedTime. cudarc binds only its second version, which drivers before CUDA 12.8 lack; this one exists in all.
///
/// # Safety
/// Two events of the current context.
pub(super) unsafe fn event_elapsed_time(milliseconds: &mut f32, start: sys::CUevent, end: sys::CUevent) -> CUresult {
    type ElapsedTime = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> CUresult;
    static SYMBOL: OnceLock<Option<ElapsedTime>> = OnceLock::new();
    // SAFETY: the library is present, there is a context; the type is the function's C signature.
    let symbol = SYMBOL.get_or_init(|| unsafe { sys::culib().get(b"cuEventElapsedTime\0").ok().map(|symbol| *symbol) });
    // SAFETY: the caller's contract.
    symbol.map_or(CUresult::CUDA_ERROR_NOT_FOUND, |elapsed| unsafe { elapsed(milliseconds, start, end) })
}

/// Maps any failure of a call made before a device is opened to `DeviceError::Absent`.
fn absent(call: &str, result: CUresult) -> Result<()> {
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        error => Err(DeviceError::Absent(format!("{call} failed: {}", describe(error)))),
    }
}

/// CUDA's name and text for an error.
pub(super) fn describe(error: CUresult) -> String {
    let text = |get: unsafe fn(CUresult, *mut *const c_char) -> CUresult| {
        let mut text = std::ptr::null();
        // SAFETY: on success `text` is a static string.
        unsafe {
            let found = get(error, &mut text) == CUresult::CUDA_SUCCESS && !text.is_null();
            found.then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    };
    match (text(sys::cuGetErrorName), text(sys::cuGetErrorString)) {
        (Some(name), Some(text)) => format!("{name}: {text}"),
        _ => format!("error {}", error as u32),
    }
}

/// Errors after which no call on the context succeeds.
fn is_fatal(error: CUresult) -> bool {
    use CUresult::*;
    matches!(
        error,
        CUDA_ERROR_DEINITIALIZED
            | CUDA_ERROR_DEVICE_UNAVAILABLE
            | CUDA_ERROR_INVALID_CONTEXT
            | CUDA_ERROR_ECC_UNCORRECTABLE
            | CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUDA_ERROR_CONTAINED
            | CUDA_ERROR_ILLEGAL_ADDRESS
            | CUDA_ERROR_LAUNCH_TIMEOUT
            | CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUDA_ERROR_ASSERT
            | CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUDA_ERROR_MISALIGNED_ADDRESS
            | CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUDA_ERROR_INVALID_PC
            | CUDA_ERROR_LAUNCH_FAILED
            | CUDA_ERROR_TENSOR_MEMORY_LEAK
            | CUDA_ERROR_MPS_CLIENT_TERMINATED
            | CUDA_ERROR_EXTERNAL_DEVICE
            | CUDA_ERROR_UNKNOWN
    )
}

/// A device's primary context, shared with every other CUDA user of the process (PyTorch, cuDF).
pub(super) struct Context {
    device: sys::CUdevice,
    handle: sys::CUcontext,
    pub(super) driver: DriverVersion,
    /// The failed call and the reason, once the device is lost.
    lost: OnceLock<(String, String)>,
    /// The kernel launched last: asynchronous errors do not name theirs.
    last_kernel: Mutex<Option<Arc<str>>>,
}

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Context {}
// SAFETY: the driver is thread-safe.
unsafe impl Sync for Context {}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("device", &self.device).field("lost", &self.lost.get()).finish_non_exhaustive()
    }
}

impl Context {
    /// Retains the primary context of GPU `ordinal`.
    pub(super) fn open(ordinal: usize) -> Result<Arc<Self>> {
        let count = device_count()?;
        if ordinal >= count {
            return Err(DeviceError::Absent(format!("there is no device {ordinal}, the driver finds {count}")));
        }
        let driver = initialize()?;
        let (mut device, mut handle) = (0, std::ptr::null_mut());
        // SAFETY: valid pointers, initialized driver.
        absent("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, ordinal as c_int) })?;
        // SAFETY: as above; released when dropped.
        let result = unsafe { sys::cuDevicePrimaryCtxRetain(&mut handle, device) };
        if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(DeviceError::OutOfMemory { what: "device", requested: 0, available: 0 });
        }
        absent("cuDevicePrimaryCtxRetain", result)?;
        Ok(Arc::new(Self { device, handle, driver, lost: OnceLock::new(), last_kernel: Mutex::new(None) }))
    }

    pub(super) fn device(&self) -> sys::CUdevice {
        self.device
    }

    /// The context, for calls that name another device's.
    pub(super) fn handle(&self) -> sys::CUcontext {
        self.handle
    }

    /// Fails if the device is known to be lost.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    pub(super) fn check(&self) -> Result<()> {
        match self.lost.get() {
            Some((what, detail)) => Err(DeviceError::Lost { what: what.clone(), detail: detail.clone() }),
            None => Ok(()),
        }
    }

    /// Makes one driver call with the context current, and converts its result.
    pub(super) fn call(&self, call: &'static str, run: impl FnOnce() -> CUresult) -> Result<()> {
        match self.try_call(call, run)? {
            CUresult::CUDA_SUCCESS => Ok(()),
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Err(self.out_of_memory("device", 0)),
            error => Err(DeviceError::Call { call, detail: describe(error) }),
        }
    }

    /// Like [`Self::call`], but returns errors that leave the device usable to the caller.
    pub(super) fn try_call(&self, call: &'static str, run: impl FnOnce() -> CUresult) -> Result<CUresult> {
        self.check()?;
        let _current = Current::enter(self.handle).map_err(|(call, error)| self.judge_fatal(call, error))?;
        let result = run();
        if is_fatal(result) { Err(self.judge_fatal(call, result)) } else { Ok(result) }
    }

    /// Runs a call of a library other than the driver (which uses the thread's current context) with the context current.
    pub(super) fn with_current<T>(&self, run: impl FnOnce() -> T) -> Result<T> {
        self.check()?;
        let _current = Current::enter(self.handle).map_err(|(call, error)| self.judge_fatal(call, error))?;
        Ok(run())
    }

    /// The error for `requested` bytes that do not fit the memory.
    pub(super) fn out_of_memory(&self, what: &'static str, requested: u64) -> DeviceError {
        DeviceError::OutOfMemory { what, requested, available: self.free_memory().unwrap_or(0) }
    }

    /// Bytes that can be allocated.
    pub(super) fn free_memory(&self) -> Result<u64> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: valid pointers.
        let result = self.try_call("cuMemGetInfo", || unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        match result {
            CUresult::CUDA_SUCCESS => Ok(free as u64),
            error => Err(DeviceError::Call { call: "cuMemGetInfo", detail: describe(error) }),
        }
    }

    /// Records the kernel that later asynchronous errors probably come from.
    pub(super) fn launched(&self, kernel: &Arc<str>) {
        *self.last_kernel.lock() = Some(Arc::clone(kernel));
    }

    fn judge_fatal(&self, call: &'static str, error: CUresult) -> DeviceError {
        if !is_fatal(error) {
            return DeviceError::Call { call, detail: describe(error) };
        }
        let (what, detail) = self.lost.get_or_init(|| {
            let kernel = self.last_kernel.lock().clone();
            let what = kernel.map_or(call.to_string(), |kernel| format!("{call} (last kernel launched: {kernel})"));
            (what, describe(error))
        });
        DeviceError::Lost { what: what.clone(), detail: detail.clone() }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained in `open`; everything that uses it holds the context alive.
        let result = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
        if result != CUresult::CUDA_SUCCESS {
            tracing::debug!(error = describe(result), "the device's context cannot be released");
        }
    }
}

/// A guard that makes a context current for this thread. Drop restores the previous one: other users of CUDA in the process keep their choice of
/// device.
struct Current {
    pushed: bool,
    /// Not `Send`: belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Current {
    fn enter(context: sys::CUcontext) -> std::result::Result<Self, (&'static str, CUresult)> {
        let check = |call, result| if result == CUresult::CUDA_SUCCESS { Ok(()) } else { Err((call, result)) };
        let mut current = std::ptr::null_mut();
        // SAFETY: valid pointer.
        check("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&mut current) })?;
        let pushed = current != context;
        if pushed {
            // SAFETY: a retained context.
            check("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(context) })?;
        }
        Ok(Self { pushed, _thread: PhantomData })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        if self.pushed {
            let mut context = std::ptr::null_mut();
            // SAFETY: valid pointer; pops what `enter` pushed.
            let result = unsafe { sys::cuCtxPopCurrent_v2(&mut context) };
            if result != CUresult::CUDA_SUCCESS {
                tracing::debug!(error = describe(result), "the thread's context cannot be restored");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_written_as_people_do() {
        assert_eq!(DriverVersion(13_000).to_string(), "13.0");
        assert_eq!(DriverVersion(12_040).to_string(), "12.4");
        assert_eq!(DriverVersion(12_040).major(), 12);
        assert!(DriverVersion(11_080) < OLDEST_DRIVER);
    }

    #[test]
    fn errors_that_end_a_context_are_told_apart() {
        for error in [CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, CUresult::CUDA_ERROR_LAUNCH_FAILED] {
            assert!(is_fatal(error));
        }
        for error in [
            CUresult::CUDA_SUCCESS,
            CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            CUresult::CUDA_ERROR_INVALID_VALUE,
            CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
            CUresult::CUDA_ERROR_NOT_READY,
        ] {
            assert!(!is_fatal(error));
        }
    }
}
