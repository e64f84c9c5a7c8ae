//! Asking a query to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{ExecError, Result};

/// A flag that asks a query to stop.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Asks the query to stop; it does so at its next chunk.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// `Err(Cancelled)` once [`CancelToken::cancel`] was called.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(ExecError::Cancelled) } else { Ok(()) }
    }
}
