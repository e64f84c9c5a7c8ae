//! The threads of a writer, which are started when there are many rows to encode.

use std::sync::Arc;

use parking_lot::Mutex;
use rayon::ThreadPool;

use crate::{FormatError, Result};

/// A number of threads, or those of the process.
#[derive(Debug)]
pub(super) struct Threads {
    /// 0: those of the process.
    number: usize,
    started: Mutex<Option<Arc<ThreadPool>>>,
}

impl Threads {
    /// That many threads; 0: those of the process.
    pub fn new(number: usize) -> Self {
        Self { number, started: Mutex::default() }
    }

    /// Their number.
    pub fn number(&self) -> usize {
        if self.number == 0 { rayon::current_num_threads() } else { self.number }
    }

    /// Runs `work`, whose parallel parts run on these threads.
    ///
    /// Errors: those of `work`; [`FormatError::Catalog`] if they cannot be started.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        if self.number == 0 {
            return work();
        }
        let pool = {
            let mut started = self.started.lock();
            match &*started {
                Some(pool) => Arc::clone(pool),
                None => {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(self.number).build();
                    let failed = |e| FormatError::Catalog(format!("cannot start {} threads: {e}", self.number));
                    Arc::clone(started.insert(Arc::new(pool.map_err(failed)?)))
                }
            }
        };
        pool.install(work)
    }
}
