//! Loads NVRTC.
//!
//! The functions are looked up here rather than through cudarc, which knows the library by its soname only, takes the first one on the loader's path
//! whatever its version, panics if a symbol is missing, and has a result type that cannot hold the codes of newer NVRTCs.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use libloading::Library;

use crate::device::cuda::context::driver_version;
use crate::device::cuda::files::{mapped_file, subfolders};
use crate::device::{DeviceError, Result};

/// Names on the loader's path, the newest first.
const SONAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// A program being compiled.
pub(super) type Program = *mut c_void;

/// The functions used of NVRTC, with their C signatures. The result is 0 or an error code.
pub(super) struct Functions {
    pub error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    pub version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    pub num_supported_archs: unsafe extern "C" fn(*mut c_int) -> c_int,
    pub supported_archs: unsafe extern "C" fn(*mut c_int) -> c_int,
    pub create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    pub destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    pub compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    pub cubin_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    pub cubin: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    pub log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    pub log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
}

impl Functions {
    fn of(library: &Library) -> Result<Self, libloading::Error> {
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the member's type is the function's C signature.
                *unsafe { library.get($name)? }
            };
        }
        Ok(Self {
            error_string: symbol!(b"nvrtcGetErrorString\0"),
            version: symbol!(b"nvrtcVersion\0"),
            num_supported_archs: symbol!(b"nvrtcGetNumSupportedArchs\0"),
            supported_archs: symbol!(b"nvrtcGetSupportedArchs\0"),
            create: symbol!(b"nvrtcCreateProgram\0"),
            destroy: symbol!(b"nvrtcDestroyProgram\0"),
            compile: symbol!(b"nvrtcCompileProgram\0"),
            cubin_size: symbol!(b"nvrtcGetCUBINSize\0"),
            cubin: symbol!(b"nvrtcGetCUBIN\0"),
            log_size: symbol!(b"nvrtcGetProgramLogSize\0"),
            log: symbol!(b"nvrtcGetProgramLog\0"),
        })
    }
}

/// A loaded NVRTC. Never unloaded.
pub(super) struct Nvrtc {
    pub functions: Functions,
    pub major: u32,
    pub minor: u32,
    /// The architectures that it compiles for (90 is `sm_90`), ascending.
    pub archs: Vec<u32>,
    /// The library's file, if known.
    pub path: Option<PathBuf>,
}

impl Nvrtc {
    /// The process's NVRTC, loaded at the first call.
    pub(super) fn get() -> Result<&'static Self> {
        static FOUND: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
        FOUND.get_or_init(find).as_ref().map_err(|reason| DeviceError::NoCompiler(reason.clone()))
    }

    /// Identifies a build of the compiler: patch releases with the same version number differ in their file.
    pub(super) fn identity(&self) -> Option<String> {
        let metadata = std::fs::metadata(self.path.as_ref()?).ok()?;
        let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(format!("{}.{} {} {}", self.major, self.minor, metadata.len(), modified.as_nanos()))
    }

    /// The message for an error code.
    pub(super) fn describe(&self, code: c_int) -> String {
        // SAFETY: NVRTC gives a static string for every code, unknown ones included.
        unsafe {
            let text = (self.functions.error_string)(code);
            if text.is_null() { format!("error {code}") } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        }
    }

    fn load(candidate: &Path) -> Result<Self, String> {
        if let Some(folder) = candidate.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            preload_builtins(folder);
        }
        // SAFETY: NVRTC's initializers have no preconditions.
        let library = unsafe { Library::new(candidate) }.map_err(|error| explain(&error))?;
        let functions = Functions::of(&library).map_err(|error| explain(&error))?;
        // Not unloaded: other libraries of the process may use it.
        std::mem::forget(library);
        Self::query(functions).map_err(|code| format!("{}: it fails with error {code}", candidate.display()))
    }

    fn query(functions: Functions) -> Result<Self, c_int> {
        let check = |code| if code == 0 { Ok(()) } else { Err(code) };
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: the pointers are valid for the calls; `archs` has the room that the library asked for.
        let archs = unsafe {
            check((functions.version)(&mut major, &mut minor))?;
            check((functions.num_supported_archs)(&mut count))?;
            let mut archs = vec![0; count.max(0) as usize];
            check((functions.supported_archs)(archs.as_mut_ptr()))?;
            archs.sort_unstable();
            archs.into_iter().map(|arch: c_int| arch as u32).collect()
        };
        let path = mapped_file(functions.version as usize);
        Ok(Self { functions, major: major as u32, minor: minor as u32, archs, path })
    }
}

/// The loader's message; the error itself only says that loading failed.
fn explain(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Loads NVRTC's second library by path. NVRTC opens it by its soname, which fails if its own folder is not on the loader's path (the wheels of CUDA
/// 13.0 have no run path) unless it is loaded already.
fn preload_builtins(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with("libnvrtc-builtins.so.") {
            // SAFETY: the library holds data and has no initializers with preconditions.
            match unsafe { Library::new(entry.path()) } {
                Ok(library) => std::mem::forget(library),
                Err(error) => tracing::debug!(path = %entry.path().display(), %error, "cannot load"),
            }
        }
    }
}

/// The first library that loads and whose cubins the driver accepts, if there is one; otherwise the first that loads.
fn find() -> Result<Nvrtc, String> {
    let driver = driver_version().ok().map(|version| version.major());
    let mut too_new = None;
    let mut failures = Vec::new();
    for candidate in candidates(&|name| std::env::var_os(name).filter(|value| !value.is_empty())) {
        match Nvrtc::load(&candidate) {
            Ok(nvrtc) if driver.is_none_or(|driver| nvrtc.major <= driver) => return Ok(nvrtc),
            Ok(nvrtc) => too_new = too_new.or(Some(nvrtc)),
            Err(reason) => failures.push(reason),
        }
    }
    too_new.ok_or_else(|| {
        // The first failure is of the library that the user chose, or shows that the loader's path has none.
        let reason = failures.first().map_or("no library was found", String::as_str);
        format!(
            "NVRTC cannot be loaded ({reason}): install it with `pip install 'warpmill[gpu]'`, or name the library in \
             WARPMILL_NVRTC"
        )
    })
}

/// Possible locations of NVRTC, in order of preference. Bare names are resolved on the loader's path.
pub(super) fn candidates(variable: &dyn Fn(&str) -> Option<std::ffi::OsString>) -> Vec<PathBuf> {
    if let Some(chosen) = variable("WARPMILL_NVRTC").map(PathBuf::from) {
        // No fallback: a chosen library that does not work must be reported.
        return if chosen.is_dir() { in_folder(&chosen, true) } else { vec![chosen] };
    }
    let mut found: Vec<PathBuf> = SONAMES.iter().map(PathBuf::from).collect();
    let toolkits = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(variable).map(PathBuf::from);
    for toolkit in toolkits.chain(subfolders(Path::new("/usr/local"), "cuda")) {
        found.extend(in_folder(&toolkit.join("lib64"), false));
    }
    let python = variable("WARPMILL_PYTHON_PATH").unwrap_or_default();
    for site in std::env::split_paths(&python).filter(|site| site.is_absolute()) {
        // `nvidia/cu13/lib` since CUDA 13, `nvidia/cuda_nvrtc/lib` before.
        for package in subfolders(&site.join("nvidia"), "cu") {
            found.extend(in_folder(&package.join("lib"), false));
        }
    }
    found
}

/// The NVRTC libraries of a folder, the newest first. For `named` folders without one, a path for the error message.
fn in_folder(folder: &Path, named: bool) -> Vec<PathBuf> {
    let present: Vec<_> = SONAMES.iter().map(|name| folder.join(name)).filter(|path| path.exists()).collect();
    if present.is_empty() && named { vec![folder.join(SONAMES[0])] } else { present }
}
