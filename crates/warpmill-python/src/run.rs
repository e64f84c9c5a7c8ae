//! Long work off the interpreter's thread: Ctrl-C stops it, progress is reported while it goes on.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// How often signals are looked at and progress is told.
const POLL: Duration = Duration::from_millis(50);

/// What a worker has done so far, and of how much (0: unknown).
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) done: AtomicU64,
    pub(crate) total: AtomicU64,
}

/// A Python callable `f(done, total)` and the counters that it is told.
pub(crate) struct Reporter {
    pub(crate) progress: Arc<Progress>,
    callback: Option<Py<PyAny>>,
}

impl Reporter {
    pub(crate) fn new(callback: Option<Py<PyAny>>) -> Self {
        Self { progress: Arc::default(), callback }
    }

    fn tell(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(callback) = &self.callback {
            let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            callback.call1(py, (value(&self.progress.done), value(&self.progress.total)))?;
        }
        Ok(())
    }
}

/// Runs `work` on a new thread and waits for it with the interpreter lock released.
///
/// A signal handler's exception (Ctrl-C) or one of the progress callback calls `cancel`, waits for `work` to stop, and
/// is raised whatever `work` returned.
pub(crate) fn run<T, E>(
    py: Python<'_>,
    reporter: &Reporter,
    cancel: impl Fn(),
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> PyResult<T>
where
    T: Send + 'static,
    E: Into<PyErr> + Send + 'static,
{
    let (sender, mut receiver) = sync_channel(1);
    let worker = thread::spawn(move || {
        // The receiver outlives the worker: it is dropped after the result has come.
        let _ = sender.send(work());
    });
    let mut interrupted: Option<PyErr> = None;
    loop {
        let outcome;
        (receiver, outcome) = py.detach(move || {
            let outcome = receiver.recv_timeout(POLL);
            (receiver, outcome)
        });
        match outcome {
            Ok(result) => {
                reporter.tell(py)?;
                return match interrupted {
                    Some(error) => Err(error),
                    None => result.map_err(Into::into),
                };
            }
            Err(RecvTimeoutError::Timeout) => {
                if interrupted.is_none()
                    && let Err(error) = py.check_signals().and_then(|()| reporter.tell(py))
                {
                    cancel();
                    interrupted = Some(error);
                }
            }
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => unreachable!("a worker sends its result before it ends"),
            },
        }
    }
}
