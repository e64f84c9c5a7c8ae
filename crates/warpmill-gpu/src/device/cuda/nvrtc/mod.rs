//! NVRTC: compiles CUDA C++ to machine code, with or without a GPU.
//!
//! The library is searched for once, in this order: `WARPMILL_NVRTC` (a path or folder, without fallback), the loader's path, `$CUDA_PATH/lib64` and
//! `$CUDA_HOME/lib64`, `/usr/local/cuda*/lib64`, and the wheel `nvidia-cuda-nvrtc` in the folders of `WARPMILL_PYTHON_PATH` (the Python package sets
//! it to `sys.path`).
//!
//! The output is machine code (cubins), never PTX: a driver loads cubins of every CUDA release of its major version, but PTX only of releases not
//! newer than itself.

mod library;

use std::ffi::{CString, c_char, c_int};
use std::path::PathBuf;

use self::library::{Nvrtc, Program};
use crate::device::kernel_cache::Key;
use crate::device::{DeviceError, KernelSource, Result};

/// The text in front of every kernel.
const PRELUDE: &str = include_str!("../../../../kernels/prelude.cuh");

/// Options of every compilation, except the architecture. Contracted multiply-adds would round once where the CPU back end rounds twice, and answers
/// must not depend on the back end. NVRTC 12 needs an option to treat nested lambdas as device code.
const OPTIONS: [&str; 5] =
    ["--std=c++17", "--device-int128", "--fmad=false", "--disable-warnings", "--device-as-default-execution-space"];

const ERROR_INVALID_OPTION: c_int = 5;
const ERROR_COMPILATION: c_int = 6;
/// NVRTC's second library is missing.
const ERROR_BUILTIN_OPERATION_FAILURE: c_int = 7;

/// The version of the NVRTC in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvrtcVersion {
    /// The CUDA release's major number.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// The library's file, if known.
    pub path: Option<PathBuf>,
}

impl std::fmt::Display for NvrtcVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The NVRTC that kernels are compiled with, or the reason why there is none ([`DeviceError::NoCompiler`]).
pub fn available() -> Result<NvrtcVersion> {
    let nvrtc = Nvrtc::get()?;
    Ok(NvrtcVersion { major: nvrtc.major, minor: nvrtc.minor, path: nvrtc.path.clone() })
}

/// The architectures that NVRTC compiles for, ascending: 90 is `sm_90`.
pub fn supported_archs() -> Result<Vec<u32>> {
    Ok(Nvrtc::get()?.archs.clone())
}

/// Compiles `source` for `arch` (`sm_90`) to a cubin. Needs no GPU.
///
/// Fails with [`DeviceError::NoCompiler`] if NVRTC is missing or does not know `arch`, and with [`DeviceError::Compile`] if the source is invalid;
/// line numbers count from the first line of `source.text`.
pub fn compile_cubin(source: &KernelSource, arch: &str) -> Result<Vec<u8>> {
    let nvrtc = Nvrtc::get()?;
    let text = format!("{PRELUDE}#line 1 \"kernel.cu\"\n{}", source.text);
    let text = CString::new(text).map_err(|_| DeviceError::Compile { log: "a zero byte in the source".into() })?;
    let options = options(arch).map_err(|_| DeviceError::NoCompiler(format!("no architecture {arch:?}")))?;
    let program = Compilation::new(nvrtc, &text)?;
    program.compile(&options, arch)?;
    program.cubin()
}

/// The architecture to compile for on a GPU of compute capability `arch` (90 is 9.0): its own if NVRTC knows it, otherwise the newest earlier one of
/// the same generation.
pub(super) fn arch_for(arch: u32) -> Result<String> {
    let nvrtc = Nvrtc::get()?;
    newest_before(&nvrtc.archs, arch).map(|arch| format!("sm_{arch}")).ok_or_else(|| {
        DeviceError::NoCompiler(format!("NVRTC {}.{} knows no code for sm_{arch}", nvrtc.major, nvrtc.minor))
    })
}

fn newest_before(known: &[u32], arch: u32) -> Option<u32> {
    known.iter().copied().filter(|&other| other <= arch && other / 10 == arch / 10).max()
}

/// The cache key of the cubin of `source`; `None` if the compiler cannot be identified, so that its output must not be kept.
pub(super) fn cache_key(source: &KernelSource, arch: &str) -> Result<Option<Key>> {
    let Some(identity) = Nvrtc::get()?.identity() else { return Ok(None) };
    let fields = [PRELUDE, &source.text, arch, &identity].into_iter();
    // The lists are preceded by their lengths, so that entries of one cannot be taken for those of the other.
    let lengths = [source.entries.len(), OPTIONS.len()].map(|length| length.to_string());
    let entries = std::iter::once(lengths[0].as_str()).chain(source.entries.iter().map(String::as_str));
    let options = std::iter::once(lengths[1].as_str()).chain(OPTIONS);
    Ok(Some(Key::of(fields.chain(entries).chain(options).map(str::as_bytes))))
}

fn options(arch: &str) -> Result<Vec<CString>, std::ffi::NulError> {
    let arch = format!("--gpu-architecture={arch}");
    std::iter::once(arch.as_str()).chain(OPTIONS).map(CString::new).collect()
}

/// One run of the compiler.
struct Compilation {
    nvrtc: &'static Nvrtc,
    program: Program,
}

impl Compilation {
    fn new(nvrtc: &'static Nvrtc, text: &CString) -> Result<Self> {
        let mut program = std::ptr::null_mut();
        // SAFETY: the text ends with a zero byte and is copied; there are no headers.
        let code = unsafe {
            (nvrtc.functions.create)(
                &mut program,
                text.as_ptr(),
                c"kernel.cu".as_ptr(),
                0,
                std::ptr::null(),
                std::ptr::null(),
            )
        };
        check(nvrtc, "nvrtcCreateProgram", code)?;
        Ok(Self { nvrtc, program })
    }

    fn compile(&self, options: &[CString], arch: &str) -> Result<()> {
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program is alive, and so are the options.
        let code = unsafe { (self.nvrtc.functions.compile)(self.program, pointers.len() as c_int, pointers.as_ptr()) };
        match code {
            0 => Ok(()),
            ERROR_COMPILATION => Err(DeviceError::Compile { log: self.log()? }),
            ERROR_INVALID_OPTION | ERROR_BUILTIN_OPERATION_FAILURE => {
                let (nvrtc, log) = (self.nvrtc, self.log()?);
                let reason = if log.is_empty() { nvrtc.describe(code) } else { log };
                Err(DeviceError::NoCompiler(format!(
                    "NVRTC {}.{} cannot compile for {arch}: {reason}",
                    nvrtc.major, nvrtc.minor
                )))
            }
            _ => check(self.nvrtc, "nvrtcCompileProgram", code),
        }
    }

    fn cubin(&self) -> Result<Vec<u8>> {
        let functions = &self.nvrtc.functions;
        self.output(("nvrtcGetCUBINSize", functions.cubin_size), ("nvrtcGetCUBIN", functions.cubin))
    }

    fn log(&self) -> Result<String> {
        let functions = &self.nvrtc.functions;
        let bytes =
            self.output(("nvrtcGetProgramLogSize", functions.log_size), ("nvrtcGetProgramLog", functions.log))?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim_end().to_string())
    }

    fn output(
        &self,
        (size_call, size): (&'static str, unsafe extern "C" fn(Program, *mut usize) -> c_int),
        (call, get): (&'static str, unsafe extern "C" fn(Program, *mut c_char) -> c_int),
    ) -> Result<Vec<u8>> {
        let mut length = 0;
        // SAFETY: the program is alive.
        check(self.nvrtc, size_call, unsafe { size(self.program, &mut length) })?;
        let mut bytes = vec![0u8; length];
        // SAFETY: the buffer has the size that was asked for.
        check(self.nvrtc, call, unsafe { get(self.program, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

impl Drop for Compilation {
    fn drop(&mut self) {
        // SAFETY: the program is alive and not used again.
        unsafe { (self.nvrtc.functions.destroy)(&mut self.program) };
    }
}

fn check(nvrtc: &Nvrtc, call: &'static str, code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(DeviceError::Call { call, detail: nvrtc.describe(code) }) }
}

#[cfg(test)]
mod tests;
