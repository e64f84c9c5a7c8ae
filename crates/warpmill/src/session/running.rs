//! The running statements of a session, and their cancellation.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::offload::QueryHandle;
use crate::udf::Runs;
use crate::{CommitGate, Error, Result, caught_async};

#[derive(Default)]
pub(super) struct Running {
    queries: Arc<Mutex<HashMap<u64, Stop>>>,
    next: AtomicU64,
}

struct Stop {
    handle: Arc<QueryHandle>,
    stopped: watch::Sender<bool>,
}

impl Stop {
    /// Stops the statement, unless it is already committing.
    fn stop(&self) {
        if self.handle.commit.cancel() {
            self.handle.cancel.cancel();
            self.stopped.send_replace(true);
        }
    }
}

/// Cancels the statements that run at the time of the call, from any thread.
#[derive(Clone)]
pub struct CancelHandle {
    queries: Arc<Mutex<HashMap<u64, Stop>>>,
    functions: Arc<Runs>,
}

impl CancelHandle {
    /// Cancels all running statements; they end with [`Error::Cancelled`], except those that are already committing, which succeed. Later statements
    /// are not affected.
    pub fn cancel(&self) {
        self.queries.lock().values().for_each(Stop::stop);
        self.functions.stop();
    }
}

/// A running statement, until dropped.
pub(super) struct Query {
    id: u64,
    queries: Arc<Mutex<HashMap<u64, Stop>>>,
    stopped: watch::Receiver<bool>,
    /// The state that its operators share.
    pub(super) handle: Arc<QueryHandle>,
    /// Whether a thread does nothing but wait for it.
    pub(super) waited_for: bool,
}

impl Running {
    pub(super) fn start(&self) -> Query {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let handle = Arc::new(QueryHandle { commit: CommitGate::current(), ..QueryHandle::default() });
        let may_run = handle.commit.reopen();
        if !may_run {
            handle.cancel.cancel();
        }
        let (sender, stopped) = watch::channel(!may_run);
        self.queries.lock().insert(id, Stop { handle: Arc::clone(&handle), stopped: sender });
        Query { id, queries: Arc::clone(&self.queries), stopped, handle, waited_for: false }
    }

    /// Rows scanned so far by all statements, and the total rows of their scans.
    pub(super) fn progress(&self) -> (u64, u64) {
        let queries = self.queries.lock();
        let rows = queries.values().map(|stop| stop.handle.progress.rows());
        rows.fold((0, 0), |sum, rows| (sum.0 + rows.0, sum.1 + rows.1))
    }

    pub(super) fn handle(&self, functions: &Arc<Runs>) -> CancelHandle {
        CancelHandle { queries: Arc::clone(&self.queries), functions: Arc::clone(functions) }
    }
}

impl Query {
    /// The outcome of `work`, or [`Error::Cancelled`] as soon as the statement is cancelled. A panic becomes an error.
    pub(super) async fn until_cancelled<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut stopped = self.stopped.clone();
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => Err(Error::Cancelled),
            result = caught_async(work) => result,
        }
    }
}

impl Query {
    /// Ends when the statement is cancelled.
    pub(super) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopped = self.stopped.clone();
        async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        }
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        // Workers of a statement that is dropped before its end stop at their next chunk.
        if let Some(stop) = self.queries.lock().remove(&self.id) {
            stop.handle.cancel.cancel();
            stop.stopped.send_replace(true);
        }
    }
}
