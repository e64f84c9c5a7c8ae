//! Panics of libraries that read files which may be damaged, as errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `f` gives; where it panics, what it said. For decoders of other people, which trust what damaged files claim: they change
/// nothing that outlives the panic.
///
/// # Errors
/// The panic's message.
pub fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| panic_text(&*panic))
}

/// What a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    format!("the decoder failed on it: {text}")
}
