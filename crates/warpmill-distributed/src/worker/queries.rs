//! The queries whose tasks a worker runs, and their cancellation.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use warpmill::offload::QueryHandle;

/// The running queries by id.
#[derive(Clone, Default)]
pub(super) struct Queries {
    running: Arc<Mutex<HashMap<String, Running>>>,
}

/// A query, and the number of its tasks to which the query's process is still connected.
#[derive(Default)]
struct Running {
    handle: Arc<QueryHandle>,
    tasks: usize,
}

/// A running task of a query, until dropped.
pub(super) struct Task {
    queries: Queries,
    query: String,
}

impl Queries {
    /// Records that a task of `query` runs.
    pub fn begin(&self, query: &str) -> Task {
        self.running.lock().entry(query.to_string()).or_default().tasks += 1;
        Task { queries: self.clone(), query: query.to_string() }
    }

    /// The handle that all operators of `query` share.
    pub fn handle(&self, query: &str) -> Arc<QueryHandle> {
        // If the query's process has left already, returns a new handle that is never cancelled; the rows are discarded.
        self.running.lock().get(query).map(|running| Arc::clone(&running.handle)).unwrap_or_default()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let mut running = self.queries.running.lock();
        let Some(query) = running.get_mut(&self.query) else { return };
        query.tasks -= 1;
        if query.tasks == 0 {
            query.handle.cancel.cancel();
            running.remove(&self.query);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_stops_with_its_last_task() {
        let queries = Queries::default();
        let (first, second) = (queries.begin("a"), queries.begin("a"));
        let handle = queries.handle("a");
        drop(first);
        assert!(handle.cancel.check().is_ok());
        drop(second);
        assert!(handle.cancel.check().is_err());
        assert!(queries.running.lock().is_empty());
    }
}
