//! Admission of statements: limits of the server, the session, and memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tonic::Status;
use warpmill::WarpmillOptions;

use crate::config::Limits;
use crate::session::ClientSession;

/// The unit in which memory is reserved, in bytes.
const UNIT: usize = 1 << 20;

/// Room for statements.
pub(crate) struct Admission {
    queries: Arc<Semaphore>,
    planning: Semaphore,
    memory: Arc<Semaphore>,
    units: u32,
    waiting: AtomicUsize,
    queue: usize,
    patience: Duration,
    draining: AtomicBool,
}

/// The room that a statement has, until dropped.
pub(crate) struct Room {
    _parts: [OwnedSemaphorePermit; 3],
}

impl Admission {
    pub(crate) fn new(limits: &Limits) -> Self {
        let units = u32::try_from(limits.memory.div_ceil(UNIT)).unwrap_or(u32::MAX);
        Self {
            queries: Arc::new(Semaphore::new(limits.queries)),
            planning: Semaphore::new(limits.queries.saturating_mul(2).min(Semaphore::MAX_PERMITS)),
            memory: Arc::new(Semaphore::new(units as usize)),
            units,
            waiting: AtomicUsize::new(0),
            queue: limits.queue,
            patience: Duration::from_secs(limits.queue_seconds),
            draining: AtomicBool::new(false),
        }
    }

    /// Waits for room: a place in the session, the session's memory limit for statements, and a place on the server, in this order, each first come
    /// first served.
    pub(crate) async fn admit(&self, session: &ClientSession) -> Result<Room, Status> {
        if self.draining.load(Ordering::Acquire) {
            return Err(Status::unavailable("the server is shutting down"));
        }
        let units = self.units_of(session);
        if let Some(room) = self.try_now(session, units) {
            return Ok(room);
        }
        let _place = Waiting::enter(&self.waiting, self.queue)?;
        let all = async {
            let place = Arc::clone(&session.room).acquire_owned().await?;
            let memory = Arc::clone(&self.memory).acquire_many_owned(units).await?;
            let query = Arc::clone(&self.queries).acquire_owned().await?;
            Ok::<_, tokio::sync::AcquireError>(Room { _parts: [place, memory, query] })
        };
        match tokio::time::timeout(self.patience, all).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) => Err(Status::unavailable("the server is shutting down")),
            Err(_) => Err(Status::resource_exhausted(format!(
                "there was no room for the statement for {} seconds: too many statements, or too much memory asked for",
                self.patience.as_secs()
            ))),
        }
    }

    /// Waits until fewer than twice as many statements are planned as may run.
    pub(crate) async fn plan(&self) -> Result<SemaphorePermit<'_>, Status> {
        self.planning.acquire().await.map_err(|_| Status::unavailable("the server is shutting down"))
    }

    fn try_now(&self, session: &ClientSession, units: u32) -> Option<Room> {
        let place = Arc::clone(&session.room).try_acquire_owned().ok()?;
        let memory = Arc::clone(&self.memory).try_acquire_many_owned(units).ok()?;
        let query = Arc::clone(&self.queries).try_acquire_owned().ok()?;
        Some(Room { _parts: [place, memory, query] })
    }

    fn units_of(&self, session: &ClientSession) -> u32 {
        let state = session.engine.context().state_ref();
        let limit = WarpmillOptions::of(state.read().config().options()).memory_limit;
        u32::try_from(limit.div_ceil(UNIT)).unwrap_or(u32::MAX).clamp(1, self.units)
    }

    /// Statements that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Refuses new statements; running ones continue.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether [`Admission::drain`] was called.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}

/// A place in the queue, until dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize, most: usize) -> Result<Self, Status> {
        let place = Self(count);
        match count.fetch_add(1, Ordering::AcqRel) {
            before if before < most => Ok(place),
            _ => Err(Status::resource_exhausted(format!(
                "{most} statements wait already, which is the limit: try later"
            ))),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
