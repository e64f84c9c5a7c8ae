//! Panics at the boundaries of the API: callers get an ordinary error, and may continue.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt;
use warpmill_eval::memory::NoMemory;

use crate::{Error, Result};

/// Runs `work`; a panic becomes [`Error::Internal`], or [`Error::OutOfMemory`] where the system had no memory for code.
///
/// The state of `work` is dropped with its statement: locks do not poison, and tables change by whole versions only.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| error(&*panic))
}

/// The outcome of `work`; a panic is an error as in [`caught`].
pub async fn caught_async<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| Err(error(&*panic)))
}

/// [`Error::OutOfMemory`] for the panic of a thread that the system had no memory for; `None` for any other.
pub fn out_of_memory(panic: &(dyn Any + Send)) -> Option<Error> {
    panic.downcast_ref::<NoMemory>().map(|error| Error::OutOfMemory(error.to_string()))
}

/// The error of a panic.
fn error(panic: &(dyn Any + Send)) -> Error {
    if let Some(error) = out_of_memory(panic) {
        return error;
    }
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::Internal(text.unwrap_or("a panic without a message").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_errors_with_their_text() {
        let number = 7;
        let found = caught(|| {
            if number == 7 {
                panic!("no {number}")
            }
        });
        assert_eq!(found.unwrap_err().to_string(), "internal error: no 7");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found: Result<()> = runtime.block_on(caught_async(async { panic!("nothing") }));
        assert!(matches!(found, Err(Error::Internal(text)) if text == "nothing"));
        assert_eq!(runtime.block_on(caught_async(async { Ok(1) })).unwrap(), 1);
    }

    #[test]
    fn texts_without_memory_are_out_of_memory() {
        let work = || std::panic::panic_any(NoMemory { bytes: 7, error: std::io::ErrorKind::OutOfMemory.into() });
        let found: Result<()> = caught(work);
        assert!(matches!(found, Err(Error::OutOfMemory(text)) if text.contains("7 bytes")));
    }
}
