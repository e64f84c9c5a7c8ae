//! Loads nvCOMP: its functions, with their C signatures.

use std::ffi::{CStr, OsString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use libloading::Library;

use super::version::{MAJOR, NvcompVersion, is_off};
use crate::device::batch::BatchFormat;
use crate::device::cuda::files::{mapped_file, subfolders};

/// File name that is searched for in folders and on the loader's path.
const SONAME: &str = "libnvcomp.so.6";

/// Alignment of all buffers passed to nvCOMP, except inputs.
const BUFFER_ALIGN: usize = 16;

/// `nvcompBatched*DecompressOpts_t`, which all formats take by value: the backend, then members specific to the format and reserved ones, all zero,
/// which is each format's default.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Options {
    backend: c_int,
    others: [c_int; 15],
}

impl Options {
    /// Decompression by CUDA kernels: the hardware engine of some chips has requirements on memory, and undefined behaviour on invalid input.
    pub const DECOMPRESS: Self = Self { backend: 2, others: [0; 15] };
}

/// `nvcompAlignmentRequirements_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Alignments {
    pub input: usize,
    pub output: usize,
    pub temp: usize,
}

/// `nvcompProperties_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Properties {
    version: u32,
    cudart_version: u32,
}

type GetAlignments = unsafe extern "C" fn(Options, *mut Alignments) -> c_int;
type GetTempBytes = unsafe extern "C" fn(usize, usize, Options, *mut usize, usize, *mut c_void) -> c_int;
type Decompress = unsafe extern "C" fn(
    *const *const c_void,
    *const usize,
    *const usize,
    *mut usize,
    usize,
    *mut c_void,
    usize,
    *const *mut c_void,
    Options,
    *mut c_int,
    *mut c_void,
) -> c_int;

/// The functions of a format.
pub(super) struct Format {
    format: BatchFormat,
    /// Name in error messages.
    pub name: Arc<str>,
    pub alignments: Alignments,
    pub temp_bytes: GetTempBytes,
    pub decompress: Decompress,
}

/// A loaded nvCOMP. Never unloaded.
pub(super) struct Nvcomp {
    formats: Vec<Format>,
    status_string: unsafe extern "C" fn(c_int) -> *const c_char,
    properties: Properties,
    path: Option<PathBuf>,
}

impl Nvcomp {
    /// The process's nvCOMP, loaded at the first call; the error is the reason why there is none.
    pub fn get() -> Result<&'static Self, String> {
        static FOUND: OnceLock<Result<Nvcomp, String>> = OnceLock::new();
        FOUND.get_or_init(find).as_ref().map_err(Clone::clone)
    }

    /// Its version.
    pub fn version(&self) -> NvcompVersion {
        let Properties { version, cudart_version } = self.properties;
        NvcompVersion {
            version: format!("{}.{}.{}", version / 1000, version / 100 % 10, version % 100),
            path: self.path.clone(),
            cuda: format!("{}.{}", cudart_version / 1000, cudart_version % 1000 / 10),
        }
    }

    /// The functions of `format`, if the library has them.
    pub fn format(&self, format: BatchFormat) -> Option<&Format> {
        self.formats.iter().find(|own| own.format == format)
    }

    /// The meaning of a status.
    pub fn describe(&self, status: c_int) -> String {
        // SAFETY: gives a static string for every number, or none.
        unsafe {
            let text = (self.status_string)(status);
            if text.is_null() {
                format!("status {status}")
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        }
    }

    /// Loads `candidate`.
    ///
    /// Errors: no such library, or another major version.
    pub fn load(candidate: &Path) -> Result<Self, String> {
        // SAFETY: nvCOMP's initializers have no preconditions.
        let library = unsafe { Library::new(candidate) }.map_err(|error| explain(&error))?;
        let properties = properties(&library).map_err(|error| format!("{}: {error}", candidate.display()))?;
        let found = properties.version / 1000;
        if found != MAJOR {
            return Err(format!("{} is of version {found}, not {MAJOR}", candidate.display()));
        }
        // SAFETY: the type is the function's C signature.
        let status_string = *unsafe { library.get(b"nvcompGetStatusString\0") }.map_err(|error| explain(&error))?;
        let formats = BatchFormat::ALL.into_iter().filter_map(|format| Format::of(&library, format)).collect();
        let path = mapped_file(status_string as usize);
        // Not unloaded: its kernels may be running when the process ends.
        std::mem::forget(library);
        Ok(Self { formats, status_string, properties, path })
    }
}

impl Format {
    /// The functions of `format` in `library`; `None` if one is missing, or larger alignments are required.
    fn of(library: &Library, format: BatchFormat) -> Option<Self> {
        let symbol = match format {
            BatchFormat::Lz4 => "LZ4",
            BatchFormat::Snappy => "Snappy",
            BatchFormat::Zstd => "Zstd",
            BatchFormat::Deflate => "Deflate",
            BatchFormat::Gdeflate => "Gdeflate",
            BatchFormat::Gzip => "Gzip",
        };
        let name = |function: &str| format!("nvcompBatched{symbol}Decompress{function}\0").into_bytes();
        // SAFETY: the types are the functions' C signatures, the same for all formats but for the names of options.
        let (decompress, temp_bytes, get): (Decompress, GetTempBytes, GetAlignments) = unsafe {
            (
                *library.get(&name("Async")[..]).ok()?,
                *library.get(&name("GetTempSize")[..]).ok()?,
                *library.get(&name("GetRequiredAlignments")[..]).ok()?,
            )
        };
        let mut alignments = Alignments::default();
        // SAFETY: valid pointer.
        let status = unsafe { get(Options::DECOMPRESS, &mut alignments) };
        let fits = status == 0 && alignments.output.max(alignments.temp) <= BUFFER_ALIGN;
        fits.then(|| Self { format, name: format!("nvCOMP's {symbol}").into(), alignments, temp_bytes, decompress })
    }
}

fn properties(library: &Library) -> Result<Properties, String> {
    // SAFETY: the type is the function's C signature, of all versions that have it.
    let get = unsafe { library.get::<unsafe extern "C" fn(*mut Properties) -> c_int>(b"nvcompGetProperties\0") };
    let get = get.map_err(|error| explain(&error))?;
    let mut properties = Properties::default();
    // SAFETY: valid pointer; needs no device.
    match unsafe { get(&mut properties) } {
        0 => Ok(properties),
        status => Err(format!("nvcompGetProperties gives status {status}")),
    }
}

/// The loader's message; the error itself only says that loading failed.
fn explain(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// The first library that loads and has the right version.
fn find() -> Result<Nvcomp, String> {
    if is_off() {
        return Err("nvCOMP is switched off by WARPMILL_NVCOMP".into());
    }
    let mut failures = vec![];
    for candidate in candidates(&|name| std::env::var_os(name).filter(|value| !value.is_empty())) {
        match Nvcomp::load(&candidate) {
            Ok(library) => return Ok(library),
            Err(reason) => failures.push(reason),
        }
    }
    let reason = failures.first().map_or("no library was found", String::as_str);
    Err(format!(
        "nvCOMP {MAJOR} cannot be loaded ({reason}): install it with `pip install 'nvidia-libnvcomp-cu13=={MAJOR}.*'`, or name \
         the library in WARPMILL_NVCOMP"
    ))
}

/// Possible locations of nvCOMP, in order of preference. Bare names are resolved on the loader's path.
pub(super) fn candidates(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    if let Some(chosen) = variable("WARPMILL_NVCOMP").map(PathBuf::from) {
        // No fallback: a chosen library that does not work must be reported.
        return vec![if chosen.is_dir() { chosen.join(SONAME) } else { chosen }];
    }
    let mut found = vec![PathBuf::from(SONAME)];
    let toolkits = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(variable).map(PathBuf::from);
    let toolkits = toolkits.chain(subfolders(Path::new("/usr/local"), "cuda")).map(|toolkit| toolkit.join("lib64"));
    let python = variable("WARPMILL_PYTHON_PATH").unwrap_or_default();
    let sites: Vec<PathBuf> = std::env::split_paths(&python).filter(|site| site.is_absolute()).collect();
    let wheels = sites.into_iter().map(|site| site.join("nvidia/libnvcomp/lib64"));
    found.extend(toolkits.chain(wheels).map(|folder| folder.join(SONAME)).filter(|path| path.exists()));
    found
}
