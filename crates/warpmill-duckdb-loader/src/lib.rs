//! The first stage of the DuckDB extension: loads in every DuckDB version through the stable C interface, and loads the other parts.
//!
//! `LOAD warpmill` calls [`warpmill_init_c_api`]. It looks for three libraries: the one that contains DuckDB itself, whose C++ symbols the shim
//! needs; the shim that was compiled for exactly this DuckDB version, beside this file; and the one with the engine. With a shim, plain SELECTs are
//! accelerated. The explicit door (`door`) works in every DuckDB. Without the engine `LOAD` is an error, and DuckDB continues without acceleration.

mod door;
mod engine;

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libduckdb_sys as ffi;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW, Symbol};

/// The required version of DuckDB's C interface: the first stable one.
const C_API: &str = "v1.2.0";
/// Find a library only if it is loaded already (`dlfcn.h`, Linux).
const RTLD_NOLOAD: c_int = 4;

/// Loads the extension into a database. False: not loaded, the reason has been reported.
///
/// # Safety
/// Called by DuckDB's extension loader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpmill_init_c_api(
    info: ffi::duckdb_extension_info,
    access: *const ffi::duckdb_extension_access,
) -> bool {
    // SAFETY: DuckDB's own pointers, for the time of the call.
    let result = unsafe { load(info, access) };
    if let Err(error) = &result {
        let text = CString::new(format!("Warpmill cannot run in this DuckDB: {error}")).unwrap_or_default();
        // SAFETY: see above; DuckDB copies the text.
        if let Some(set_error) = unsafe { (*access).set_error } {
            unsafe { set_error(info, text.as_ptr()) };
        }
    }
    result.is_ok()
}

type ShimLoad = unsafe extern "C" fn(*mut c_void, *const c_void) -> *const c_char;
type EngineOf = unsafe extern "C" fn() -> *const c_void;

/// SAFETY: as [`warpmill_init_c_api`].
unsafe fn load(info: ffi::duckdb_extension_info, access: *const ffi::duckdb_extension_access) -> Result<(), String> {
    // SAFETY: `access` is DuckDB's; versions of the C interface are checked by it.
    let (database, get_database) = unsafe {
        match ffi::duckdb_rs_extension_api_init(info, access, C_API) {
            Ok(true) => {}
            Ok(false) => return Err(format!("it does not offer the C interface {C_API}")),
            Err(error) => return Err(error.to_string()),
        }
        let get_database = (*access).get_database.ok_or("it does not name the database")?;
        (get_database(info), get_database)
    };
    let folder = path_of(warpmill_init_c_api as *const c_void).and_then(|path| Some(path.parent()?.to_path_buf()));
    let folder = folder.ok_or("the extension's own file is not known")?;
    let engine = engine(&folder)?;
    // SAFETY: the engine's own interface, and the database of this call.
    unsafe {
        engine::set(engine)?;
        let transparent = transparent(&folder, engine, *database.cast(), get_database as *const c_void)?;
        door::register(*database, transparent)
    }
}

/// Loads the shim for this DuckDB version. False: there is no shim, or DuckDB's C++ symbols are hidden; only the explicit door is available.
///
/// SAFETY: the database and a function are DuckDB's.
unsafe fn transparent(
    folder: &Path,
    engine: *const c_void,
    database: *mut c_void,
    inside: *const c_void,
) -> Result<bool, String> {
    // SAFETY: a static string of DuckDB's.
    let version = unsafe { CStr::from_ptr(ffi::duckdb_library_version()) }.to_string_lossy().into_owned();
    let shim = folder.join(format!("warpmill_shim-{version}.so"));
    if !shim.exists() {
        return Ok(false);
    }
    export_symbols(inside)?;
    // SAFETY: loading runs the initializers of our own library.
    let Ok(library) = (unsafe { Library::open(Some(&shim), RTLD_NOW | RTLD_LOCAL) }) else { return Ok(false) };
    // SAFETY: the signatures are those of `duckdb/src/shim.cpp` and `duckdb/src/engine.h`; the database is DuckDB's.
    unsafe {
        let start: Symbol<ShimLoad> = library.get(b"warpmill_shim_load\0").map_err(|error| error.to_string())?;
        let error = start(database, engine);
        if !error.is_null() {
            return Err(CStr::from_ptr(error).to_string_lossy().into_owned());
        }
    }
    // DuckDB calls into both for the rest of the process's life.
    std::mem::forget(library);
    Ok(true)
}

/// Makes the symbols of the library that contains DuckDB visible to the shim: Python loads it with local symbols.
fn export_symbols(inside: *const c_void) -> Result<(), String> {
    let host = path_of(inside).ok_or("the library that DuckDB is in is not known")?;
    // SAFETY: the library is loaded already; nothing is initialized.
    let opened = unsafe { Library::open(Some(&host), RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) };
    // A program itself cannot be opened; its exported symbols are visible already.
    if let Ok(library) = opened {
        std::mem::forget(library);
    }
    Ok(())
}

/// The engine's interface, from the first library that provides it.
fn engine(folder: &Path) -> Result<*const c_void, String> {
    let mut candidates: Vec<PathBuf> = std::env::var_os("WARPMILL_ENGINE").map(PathBuf::from).into_iter().collect();
    for folder in [Some(folder), folder.parent(), folder.parent().and_then(Path::parent)].into_iter().flatten() {
        candidates.push(folder.join("_warpmill.abi3.so"));
    }
    let mut reasons = Vec::new();
    for path in candidates.iter().filter(|path| path.exists()) {
        match open_engine(path, folder) {
            Ok(engine) => return Ok(engine),
            Err(error) => reasons.push(error),
        }
    }
    if reasons.is_empty() {
        reasons.push(format!("_warpmill.abi3.so is not in or above {}; WARPMILL_ENGINE can name it", folder.display()));
    }
    Err(format!("the engine's library was not found: {}", reasons.join("; ")))
}

fn open_engine(path: &Path, folder: &Path) -> Result<*const c_void, String> {
    // The engine's library is a Python module: in other programs the Python symbols that it refers to must exist, too. A small library provides them
    // for the engine alone, which depends on it: Python may be loaded later.
    let python = Library::this();
    // SAFETY: only the existence of the symbol is tested.
    let in_python = unsafe { python.get::<*const c_void>(b"Py_GetVersion\0") }.is_ok();
    let (bound, names) = (folder.join("warpmill_nopython.so"), folder.join("warpmill_nopython_names.so"));
    // SAFETY: loading runs the initializers of our own library, which do not depend on the order.
    let library = unsafe {
        if in_python || !names.exists() {
            Library::open(Some(path), RTLD_NOW | RTLD_LOCAL)
        } else if std::env::var_os("WARPMILL_ENGINE").is_none() && bound.exists() {
            Library::open(Some(&bound), RTLD_NOW | RTLD_LOCAL)
        } else {
            // An engine from another folder finds the symbols only if they are global.
            Library::open(Some(&names), RTLD_NOW | RTLD_GLOBAL).and_then(|names| {
                std::mem::forget(names);
                Library::open(Some(path), RTLD_NOW | RTLD_LOCAL)
            })
        }
    };
    let library = library.map_err(|error| error.to_string())?;
    // SAFETY: the signature is that of `duckdb/src/engine.h`.
    let engine = unsafe {
        let engine: Symbol<EngineOf> =
            library.get(b"warpmill_duckdb_engine\0").map_err(|error| format!("{}: {error}", path.display()))?;
        engine()
    };
    std::mem::forget(library);
    Ok(engine)
}

/// `Dl_info` of `dlfcn.h`.
#[repr(C)]
struct DlInfo {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
}

/// The file of the library that an address is in.
fn path_of(address: *const c_void) -> Option<PathBuf> {
    let mut info = DlInfo {
        file: std::ptr::null(),
        base: std::ptr::null_mut(),
        symbol: std::ptr::null(),
        address: std::ptr::null_mut(),
    };
    // SAFETY: `info` is a place for the answer; the text in it lives as long as the library.
    let file = unsafe {
        if dladdr(address, &raw mut info) == 0 || info.file.is_null() {
            return None;
        }
        CStr::from_ptr(info.file)
    };
    Some(PathBuf::from(OsStr::from_bytes(file.to_bytes())))
}
