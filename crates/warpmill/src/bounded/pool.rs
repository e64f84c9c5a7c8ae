//! The memory pool of DataFusion's operators for a session.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};

/// Smallest limit of DataFusion's operators: its sorts reserve some memory before they begin.
const LEAST: usize = 64 << 20;

/// A session's share of a pool: the statements of a session together may not use more than `warpmill.memory_limit` of it.
#[derive(Debug)]
pub(crate) struct SessionPool {
    all: Arc<dyn MemoryPool>,
    limit: AtomicUsize,
    used: AtomicUsize,
}

impl SessionPool {
    /// A share of `all` without a separate limit.
    pub(crate) fn new(all: Arc<dyn MemoryPool>) -> Self {
        Self { all, limit: AtomicUsize::new(usize::MAX), used: AtomicUsize::new(0) }
    }

    /// Limits the share, to at least [`LEAST`] bytes.
    pub(crate) fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes.max(LEAST), Ordering::Relaxed);
    }
}

impl MemoryPool for SessionPool {
    fn name(&self) -> &str {
        "session"
    }

    fn grow(&self, reservation: &MemoryReservation, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.all.grow(reservation, bytes);
    }

    fn shrink(&self, reservation: &MemoryReservation, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.all.shrink(reservation, bytes);
    }

    fn try_grow(&self, reservation: &MemoryReservation, bytes: usize) -> Result<()> {
        let limit = self.limit.load(Ordering::Relaxed);
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        let granted = match used.saturating_add(bytes) <= limit {
            true => self.all.try_grow(reservation, bytes),
            false => Err(DataFusionError::ResourcesExhausted(format!(
                "out of memory: {} needs {bytes} more bytes, {used} of {limit} in use (raise warpmill.memory_limit)",
                reservation.consumer().name()
            ))),
        };
        granted.inspect_err(|_| {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        })
    }

    fn reserved(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        match self.limit.load(Ordering::Relaxed) {
            usize::MAX => self.all.memory_limit(),
            limit => MemoryLimit::Finite(limit),
        }
    }
}

impl fmt::Display for SessionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {}", self.reserved(), self.all)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer};

    use super::*;

    #[test]
    fn sessions_have_limits_within_the_pool() {
        let all: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100 << 20));
        let own = Arc::new(SessionPool::new(Arc::clone(&all)));
        let pool: Arc<dyn MemoryPool> = Arc::clone(&own) as _;
        let mine = MemoryConsumer::new("mine").register(&pool);
        own.set_limit(1);
        assert!(mine.try_grow(LEAST).is_ok() && mine.try_grow(1).is_err());
        own.set_limit(usize::MAX);
        let other = MemoryConsumer::new("other").register(&all);
        assert!(other.try_grow(40 << 20).is_err() && other.try_grow(30 << 20).is_ok());
        assert!(mine.try_grow(10 << 20).is_err());
        assert_eq!((own.reserved(), all.reserved()), (LEAST, LEAST + (30 << 20)));
        mine.free();
        assert_eq!((own.reserved(), all.reserved()), (0, 30 << 20));
    }
}
