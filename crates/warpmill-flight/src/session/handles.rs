//! Prepared statements, unread results and running statements, by their handles.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::Status;
use warpmill::{PlannedStatement, ScalarValue};

use super::ClientSession;
use crate::auth::secret;
use crate::service::held::Bound;
use crate::statement::Statement;

/// 256 random bits, as text.
pub(crate) type Handle = String;

/// A prepared statement with its bound parameters.
pub(crate) struct Prepared {
    /// The statement.
    pub statement: Statement,
    /// The bound rows; empty: none.
    pub bound: Mutex<Arc<Bound>>,
}

/// A result that waits to be read.
pub(crate) struct Ticket {
    /// The schema announced to the client.
    pub schema: SchemaRef,
    /// The work that makes its rows.
    pub work: Work,
    /// The statement, for logs and limits.
    pub statement: Statement,
}

/// How the rows of a result are computed.
pub(crate) enum Work {
    /// By plans that run in sequence.
    Plans(Vec<PlannedStatement>),
    /// By a statement that is run when its rows are requested.
    Deferred(Vec<ScalarValue>),
    /// The rows of a statement that has been run.
    Done(Vec<RecordBatch>),
}

/// The object that a handle identifies.
#[derive(Clone)]
pub(crate) enum Item {
    Prepared(Arc<Prepared>),
    /// Taken by its first reader.
    Ticket(Arc<Mutex<Option<Ticket>>>),
}

struct Held {
    session: Arc<ClientSession>,
    item: Item,
    since: Instant,
}

struct Stop {
    session: Arc<ClientSession>,
    stopped: watch::Sender<bool>,
}

impl Stop {
    fn stop(&self) {
        self.stopped.send_replace(true);
    }
}

/// All handles.
#[derive(Default)]
pub(crate) struct Handles {
    held: Mutex<HashMap<Handle, Held>>,
    running: Arc<Mutex<HashMap<Handle, Stop>>>,
}

/// A statement that runs, until dropped.
pub(crate) struct Running {
    handle: Handle,
    all: Arc<Mutex<HashMap<Handle, Stop>>>,
    stopped: watch::Receiver<bool>,
}

impl Handles {
    /// Keeps an item for a session.
    pub(crate) fn put(&self, session: &Arc<ClientSession>, item: Item, limit: usize) -> Result<Handle, Status> {
        if session.handles.fetch_add(1, Ordering::AcqRel) >= limit {
            session.handles.fetch_sub(1, Ordering::AcqRel);
            return Err(Status::resource_exhausted(format!(
                "the session has {limit} prepared statements and unread results, which is the limit: close or read some"
            )));
        }
        let handle = secret();
        let held = Held { session: Arc::clone(session), item, since: Instant::now() };
        self.held.lock().insert(handle.clone(), held);
        Ok(handle)
    }

    fn get(&self, user: &str, handle: &[u8]) -> Option<(Arc<ClientSession>, Item)> {
        let handle = std::str::from_utf8(handle).ok()?;
        let mut held = self.held.lock();
        let found = held.get_mut(handle).filter(|held| &*held.session.user == user)?;
        found.since = Instant::now();
        Some((Arc::clone(&found.session), found.item.clone()))
    }

    /// Finds a prepared statement of `user`, and its session.
    pub(crate) fn prepared(&self, user: &str, handle: &[u8]) -> Result<(Arc<ClientSession>, Arc<Prepared>), Status> {
        match self.get(user, handle) {
            Some((session, Item::Prepared(prepared))) => Ok((session, prepared)),
            _ => Err(Status::not_found("there is no such prepared statement, or it is closed")),
        }
    }

    /// Takes a result of `user`: each is read once.
    pub(crate) fn take_ticket(&self, user: &str, handle: &[u8]) -> Result<(Arc<ClientSession>, Ticket), Status> {
        let gone = || Status::not_found("there is no such result: it was read, cancelled, or not asked for in time");
        let Some((session, Item::Ticket(ticket))) = self.get(user, handle) else { return Err(gone()) };
        let ticket = ticket.lock().take().ok_or_else(gone)?;
        self.remove(user, handle);
        Ok((session, ticket))
    }

    /// Removes a handle. Returns whether it existed.
    pub(crate) fn remove(&self, user: &str, handle: &[u8]) -> bool {
        let Ok(handle) = std::str::from_utf8(handle) else { return false };
        let mut held = self.held.lock();
        if held.get(handle).is_none_or(|held| &*held.session.user != user) {
            return false;
        }
        if let Some(removed) = held.remove(handle) {
            removed.session.handles.fetch_sub(1, Ordering::AcqRel);
        }
        true
    }

    /// Records that the statement of a handle runs, so that it can be cancelled.
    pub(crate) fn run(&self, session: &Arc<ClientSession>, handle: Option<Handle>) -> Running {
        let handle = handle.unwrap_or_else(secret);
        let (sender, stopped) = watch::channel(false);
        let stop = Stop { session: Arc::clone(session), stopped: sender };
        self.running.lock().insert(handle.clone(), stop);
        Running { handle, all: Arc::clone(&self.running), stopped }
    }

    /// Cancels the running statement of a handle of `user`. Returns whether there was one.
    pub(crate) fn cancel(&self, user: &str, handle: &[u8]) -> bool {
        let Ok(handle) = std::str::from_utf8(handle) else { return false };
        let running = self.running.lock();
        let found = running.get(handle).filter(|stop| &*stop.session.user == user);
        found.map(Stop::stop).is_some()
    }

    /// Cancels all that runs.
    pub(crate) fn cancel_all(&self) {
        self.running.lock().values().for_each(Stop::stop);
    }

    /// Statements that run or wait for room.
    pub(crate) fn running(&self) -> usize {
        self.running.lock().len()
    }

    pub(super) fn is_running(&self, session: &ClientSession) -> bool {
        self.running.lock().values().any(|stop| std::ptr::eq(&*stop.session, session))
    }

    /// Cancels and removes all handles of a session.
    pub(super) fn forget(&self, session: &Arc<ClientSession>) {
        self.held.lock().retain(|_, held| !Arc::ptr_eq(&held.session, session));
        session.handles.store(0, Ordering::Release);
        let running = self.running.lock();
        let of_session = running.values().filter(|stop| Arc::ptr_eq(&stop.session, session));
        of_session.for_each(Stop::stop);
    }

    /// Forgets results that were not read and statements that were not used in time.
    pub(super) fn expire(&self, tickets: Duration, prepared: Duration) {
        self.held.lock().retain(|_, held| {
            let age = held.since.elapsed();
            let keep = match held.item {
                Item::Ticket(_) => age < tickets,
                Item::Prepared(_) => age < prepared,
            };
            if !keep {
                held.session.handles.fetch_sub(1, Ordering::AcqRel);
            }
            keep
        });
    }
}

impl Running {
    /// Ends when the statement is cancelled.
    pub(crate) async fn stopped(&self) {
        let mut stopped = self.stopped.clone();
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.all.lock().remove(&self.handle);
    }
}
