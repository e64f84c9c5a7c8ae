//! The part of the engine's C interface (`duckdb/src/engine.h`) that the loader uses.

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::OnceLock;

#[path = "../../../duckdb/src/interface.rs"]
mod interface;

use interface::ABI;

/// A column of a chunk.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Source {
    pub values: *const c_void,
    pub validity: *const u64,
}

/// A column of a result.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Column {
    pub values: *const c_void,
    pub validity: *const u8,
    pub offsets: *const i32,
}

/// The arguments of a call of `warpmill_plan`.
#[repr(C)]
pub struct Request {
    pub query: *const c_char,
    pub plan: *const c_char,
    pub fallback: *const c_char,
    pub values: *const c_char,
    pub version: u32,
    pub ieee: bool,
}

/// The functions; those that only the shim uses are untyped.
#[repr(C)]
pub struct Engine {
    pub abi: u32,
    version: *const c_void,
    plans: [*const c_void; 5],
    inputs: [*const c_void; 8],
    runs: [*const c_void; 6],
    pub cache_text: unsafe extern "C" fn() -> *mut c_char,
    pub cache_clear: unsafe extern "C" fn(),
    cache_limit: *const c_void,
    pub text_free: unsafe extern "C" fn(*mut c_char),
    pub door_first: unsafe extern "C" fn(*const c_char, *const c_char) -> *mut c_char,
    pub door_rewrite: unsafe extern "C" fn(*const Request, *mut *mut c_char) -> *mut c_char,
    pub rows_new: unsafe extern "C" fn(*const c_char) -> *mut c_void,
    pub rows_push: unsafe extern "C" fn(*mut c_void, u64, *const Source) -> bool,
    pub rows_merge: unsafe extern "C" fn(*mut c_void, *mut c_void),
    pub rows_error: unsafe extern "C" fn(*const c_void) -> *const c_char,
    pub rows_free: unsafe extern "C" fn(*mut c_void),
    pub answer_new: unsafe extern "C" fn(*const c_char, u64, *const *mut c_void, usize) -> *mut c_void,
    pub answer_error: unsafe extern "C" fn(*const c_void) -> *const c_char,
    pub answer_rows: unsafe extern "C" fn(*const c_void) -> u64,
    pub answer_column: unsafe extern "C" fn(*const c_void, u64, *mut Column) -> bool,
    pub answer_profile: unsafe extern "C" fn(*const c_void) -> *const c_char,
    pub answer_free: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: functions, which any thread may call.
unsafe impl Send for Engine {}
// SAFETY: see above.
unsafe impl Sync for Engine {}

static ENGINE: OnceLock<&'static Engine> = OnceLock::new();

/// Sets the engine of this process.
///
/// SAFETY: the pointer comes from the engine's library, which stays loaded.
pub unsafe fn set(engine: *const c_void) -> Result<(), String> {
    // SAFETY: in every version, the first field is the version number of the interface.
    let engine: &'static Engine = unsafe { &*engine.cast() };
    if engine.abi != ABI {
        return Err(format!("the engine has interface {}, and {ABI} is needed", engine.abi));
    }
    ENGINE.get_or_init(|| engine);
    Ok(())
}

/// The engine, which is there before any function of ours is registered.
pub fn engine() -> &'static Engine {
    ENGINE.get().expect("functions are registered after the engine has been found")
}

/// A text whose ownership the engine passes to the caller.
///
/// SAFETY: it is one, or null.
pub unsafe fn owned(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        (engine().text_free)(text);
        Some(copy)
    }
}

/// A text that the engine owns.
///
/// SAFETY: it is one, or null.
pub unsafe fn borrowed(text: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// A text for C, without zero bytes.
pub fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}
