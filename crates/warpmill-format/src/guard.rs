//! Panics of libraries that read files which may be damaged, as errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of `f`; where it panics, the text of the panic. For decoders of other people, which trust what damaged files claim: they change
/// nothing that outlives the panic.
///
/// # Errors
/// The detail of an error about the file.
pub fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| decoder_failed(&*panic))
}

/// The detail of an error about a file on which a decoder panicked.
pub fn decoder_failed(panic: &(dyn Any + Send)) -> String {
    format!("the decoder failed on it: {}", panic_text(panic))
}

/// The text of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}
