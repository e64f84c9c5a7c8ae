//! Runs long work on other threads: Ctrl-C stops it, progress is reported during it.

use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use warpmill::planning::WORKER_STACK;

use crate::errors::EngineError;

/// The interval at which signals are checked and progress is reported.
const POLL: Duration = Duration::from_millis(50);

/// Workers that are kept for the next work: a new thread takes longer than a short query.
const MOST_IDLE: usize = 16;

/// A job for a worker.
type Job = Box<dyn FnOnce() + Send>;

/// Idle workers, and the id of their process: a forked process has none.
static IDLE: Mutex<(u32, Vec<Sender<Job>>)> = Mutex::new((0, Vec::new()));

/// The progress of a worker, and its goal (0: unknown).
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) done: AtomicU64,
    pub(crate) total: AtomicU64,
}

/// An alternative source of progress numbers for a [`Reporter`].
type Look = Box<dyn Fn() -> (u64, u64)>;

/// A Python callable `f(done, total)` and the counters that it reports.
pub(crate) struct Reporter {
    pub(crate) progress: Arc<Progress>,
    callback: Option<Py<PyAny>>,
    look: Option<Look>,
}

impl Reporter {
    pub(crate) fn new(callback: Option<Py<PyAny>>) -> Self {
        Self { progress: Arc::default(), callback, look: None }
    }

    /// A reporter of the numbers that `look` returns.
    pub(crate) fn looking(callback: Option<Py<PyAny>>, look: impl Fn() -> (u64, u64) + 'static) -> Self {
        Self { look: Some(Box::new(look)), ..Self::new(callback) }
    }

    fn tell(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(callback) = &self.callback {
            let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let (done, total) = match &self.look {
                Some(look) => look(),
                None => (value(&self.progress.done), value(&self.progress.total)),
            };
            callback.call1(py, (done, total))?;
        }
        Ok(())
    }
}

/// An idle worker, or a new one if the system can start a thread.
fn worker() -> Result<Sender<Job>, EngineError> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if idle.0 != process::id() {
        *idle = (process::id(), Vec::new());
    }
    if let Some(worker) = idle.1.pop() {
        return Ok(worker);
    }
    let (jobs, queue) = channel::<Job>();
    let thread = thread::Builder::new().stack_size(WORKER_STACK);
    let refused = |error| warpmill::Error::OutOfMemory(format!("no thread to run on: {error}"));
    thread.spawn(move || queue.into_iter().for_each(|job| job())).map_err(refused)?;
    Ok(jobs)
}

/// `worker` is free again; one too many ends with its sender.
fn is_idle(worker: Sender<Job>) {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if idle.1.len() < MOST_IDLE {
        idle.1.push(worker);
    }
}

/// The `interrupt` argument for work that can be stopped at any time by `cancel`.
pub(crate) fn at_once(cancel: impl Fn()) -> impl Fn(&mut dyn FnMut() -> PyResult<()>) -> PyResult<()> {
    move |look| look().inspect_err(|_| cancel())
}

/// Runs `work` on a separate thread and waits for it with the interpreter lock released.
///
/// `interrupt` gets a function that checks for an exception of a signal handler (Ctrl-C) or of the progress callback: if there is one, and `work` can
/// still be stopped, `interrupt` stops it. Then this waits for `work` to end, and raises the exception whatever `work` returned. A panic of `work`
/// becomes an `InternalError`.
pub(crate) fn run<T, E>(
    py: Python<'_>,
    reporter: &Reporter,
    interrupt: impl Fn(&mut dyn FnMut() -> PyResult<()>) -> PyResult<()>,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> PyResult<T>
where
    T: Send + 'static,
    E: Into<PyErr> + Send + 'static,
{
    let (sender, mut receiver) = sync_channel(1);
    let worker = worker()?;
    let own = worker.clone();
    let job = move || {
        let done = warpmill::caught(work);
        // Before the result is sent, so that consecutive statements use the same worker.
        is_idle(own);
        // The receiver outlives the work: it is dropped after the result has arrived.
        let _ = sender.send(done);
    };
    worker.send(Box::new(job)).expect("a worker waits as long as it has a sender");
    let mut interrupted: Option<PyErr> = None;
    loop {
        let outcome;
        (receiver, outcome) = py.detach(move || {
            let outcome = receiver.recv_timeout(POLL);
            (receiver, outcome)
        });
        match outcome {
            Ok(Ok(result)) => {
                // Finished work is no longer visible to observers.
                if reporter.look.is_none() {
                    reporter.tell(py)?;
                }
                return match interrupted {
                    Some(error) => Err(error),
                    None => result.map_err(Into::into),
                };
            }
            Ok(Err(panic)) => return Err(interrupted.unwrap_or_else(|| EngineError(panic).into())),
            Err(RecvTimeoutError::Timeout) => {
                if interrupted.is_none() {
                    interrupted = interrupt(&mut || py.check_signals().and_then(|()| reporter.tell(py))).err();
                }
            }
            Err(RecvTimeoutError::Disconnected) => unreachable!("a worker tells how its work ended"),
        }
    }
}
