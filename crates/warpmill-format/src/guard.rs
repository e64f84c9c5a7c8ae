//! Converts panics of libraries that read possibly damaged files to errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of `f`; if it panics, the text of the panic. For third-party decoders that trust the claims of damaged files: they must not change
/// anything that outlives the panic.
///
/// # Errors
/// The detail of an error about the file.
pub fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| decoder_failed(&*panic))
}

/// The detail of an error about a file for which a decoder panicked.
pub fn decoder_failed(panic: &(dyn Any + Send)) -> String {
    format!("the decoder failed on it: {}", panic_text(panic))
}

/// The text of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}
