//! LIMIT and OFFSET inside a pipeline.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::chunk::Chunk;
use crate::context::{QueryContext, Result};
use crate::operator::{Emit, LocalOperator, Operator};

/// Passes `fetch` rows after the first `skip`. Sets `done` when no further row can pass, so that the pipeline stops reading. A pipeline with a limit
/// runs on one worker: the source's order decides which rows pass.
pub struct LimitOperator {
    state: Arc<Mutex<State>>,
    done: Arc<AtomicBool>,
}

struct State {
    skip: u64,
    fetch: u64,
}

impl LimitOperator {
    /// A limit; with a `fetch` of `None` all rows after `skip` pass.
    pub fn new(skip: u64, fetch: Option<u64>, done: Arc<AtomicBool>) -> Self {
        let fetch = fetch.unwrap_or(u64::MAX);
        done.fetch_or(fetch == 0, Ordering::Relaxed);
        Self { state: Arc::new(Mutex::new(State { skip, fetch })), done }
    }
}

impl Operator for LimitOperator {
    fn into_kept(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }

    fn name(&self) -> String {
        "Limit".into()
    }

    fn local(&self, _query: &Arc<QueryContext>) -> Box<dyn LocalOperator> {
        Box::new(LocalLimit { state: self.state.clone(), done: self.done.clone() })
    }
}

struct LocalLimit {
    state: Arc<Mutex<State>>,
    done: Arc<AtomicBool>,
}

impl LocalOperator for LocalLimit {
    fn process(&mut self, mut chunk: Chunk, emit: Emit<'_>) -> Result<()> {
        let (start, len) = {
            let mut state = self.state.lock();
            let start = state.skip.min(chunk.len() as u64);
            let len = (chunk.len() as u64 - start).min(state.fetch);
            state.skip -= start;
            state.fetch -= len;
            if state.fetch == 0 {
                self.done.store(true, Ordering::Relaxed);
            }
            (start as u32, len as u32)
        };
        if len == 0 {
            return Ok(());
        }
        if len as usize != chunk.len() {
            chunk.select(&(start..start + len).collect::<Vec<_>>());
        }
        emit(chunk)
    }

    fn holds_rows(&self) -> bool {
        false
    }
}
