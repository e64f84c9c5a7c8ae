//! Asking a query to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{ExecError, Result};

/// A flag that requests a query to stop.
#[derive(Debug, Clone, Default)]
pub struct CancelToken {
    own: Arc<AtomicBool>,
    /// The flag of the whole query, if this token is for a part of it.
    whole: Option<Arc<AtomicBool>>,
}

impl CancelToken {
    /// Requests the query to stop; it does so at its next chunk.
    pub fn cancel(&self) {
        self.own.store(true, Ordering::Relaxed);
    }

    /// A token for a part of the query's work: it is cancelled alone, or with the query. A part of a part depends on the query only.
    pub fn part(&self) -> Self {
        Self { own: Arc::default(), whole: Some(self.whole.as_ref().unwrap_or(&self.own).clone()) }
    }

    /// `Err(Cancelled)` once [`CancelToken::cancel`] was called.
    #[inline]
    pub fn check(&self) -> Result<()> {
        let is_set = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        if is_set(&self.own) || self.whole.as_ref().is_some_and(is_set) { Err(ExecError::Cancelled) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::CancelToken;

    #[test]
    fn a_part_stops_with_the_query_but_not_the_other_way() {
        let query = CancelToken::default();
        let (one, other) = (query.part(), query.part());
        one.cancel();
        assert!(one.check().is_err() && other.check().is_ok() && query.check().is_ok());
        query.cancel();
        assert!(other.check().is_err());
    }
}
