//! The queries whose tasks a worker runs: what stops them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use warpmill::offload::QueryHandle;

/// The queries that somebody waits for, by their numbers.
#[derive(Clone, Default)]
pub(super) struct Queries {
    running: Arc<Mutex<HashMap<String, Running>>>,
}

/// A query, and for how many of its tasks the asking process is still connected.
#[derive(Default)]
struct Running {
    handle: Arc<QueryHandle>,
    tasks: usize,
}

/// A task that somebody waits for, until dropped.
pub(super) struct Task {
    queries: Queries,
    query: String,
}

impl Queries {
    /// Notes that somebody waits for a task of `query`.
    pub fn begin(&self, query: &str) -> Task {
        self.running.lock().entry(query.to_string()).or_default().tasks += 1;
        Task { queries: self.clone(), query: query.to_string() }
    }

    /// The handle that all operators of `query` share.
    pub fn handle(&self, query: &str) -> Arc<QueryHandle> {
        // A query that nobody waits for any more gets one that nobody stops, and its rows are nobody's.
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
