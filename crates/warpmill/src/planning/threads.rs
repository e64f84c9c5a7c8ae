//! Threads that plan.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use warpmill_engine::Busy;

use super::limits;
use crate::{Error, Result};

/// Address space of a planning thread's stack in bytes; untouched pages take no memory.
const STACK: usize = 256 << 20;
/// Stack bytes of threads that run plans: expressions are as deep, but stack frames are small.
pub const WORKER_STACK: usize = 32 << 20;
/// The time that a thread waits for the next statement.
const IDLE: Duration = Duration::from_secs(5);

type Job = Box<dyn FnOnce() + Send>;

/// Idle threads, and their process: a forked process has none.
struct Waiting {
    process: u32,
    threads: Vec<Idle>,
}

/// An idle thread.
struct Idle {
    id: u64,
    jobs: Sender<Job>,
}

static WAITING: Mutex<Waiting> = Mutex::new(Waiting { process: 0, threads: Vec::new() });

thread_local! {
    /// Set when the result of this thread's planning is no longer wanted; `None` on other threads.
    static ABANDONED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Runs `work`, a planning step, on a thread with a deep stack. Dropping the future abandons the work: it ends at its next `checkpoint`.
///
/// # Errors
/// Errors of `work`, and [`Error::OutOfMemory`] where the system has no thread.
pub async fn run<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    if ABANDONED.with_borrow(Option::is_some) {
        return Box::pin(work).await;
    }
    let _busy = Busy::begin();
    let abandoned = Arc::new(AtomicBool::new(false));
    let _guard = Abandon(Arc::clone(&abandoned));
    let runtime = Handle::try_current().ok();
    let (sender, receiver) = oneshot::channel();
    submit(Box::new(move || {
        ABANDONED.set(Some(abandoned));
        limits::begin();
        let outcome = catch_unwind(AssertUnwindSafe(|| match runtime {
            Some(runtime) => runtime.block_on(work),
            None => futures::executor::block_on(work),
        }));
        ABANDONED.set(None);
        // An unwanted result is dropped here, where the stack is deep.
        drop(sender.send(outcome));
    }))?;
    match receiver.await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => Err(Error::Other("a planning thread ended early".into())),
    }
}

/// An error if the result of this thread's planning is no longer wanted.
pub(super) fn checkpoint() -> Result<()> {
    let abandoned = ABANDONED.with_borrow(|flag| flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)));
    if abandoned { Err(Error::Cancelled) } else { Ok(()) }
}

struct Abandon(Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends `job` to an idle thread, or to a new one.
fn submit(mut job: Job) -> Result<()> {
    loop {
        let waiting = {
            let mut waiting = WAITING.lock();
            if waiting.process != process::id() {
                *waiting = Waiting { process: process::id(), threads: Vec::new() };
            }
            waiting.threads.pop()
        };
        let Some(thread) = waiting else { break };
        match thread.jobs.send(job) {
            Ok(()) => return Ok(()),
            Err(unsent) => job = unsent.0,
        }
    }
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let (jobs, queue) = channel();
    let thread = std::thread::Builder::new().name("warpmill-plan".into()).stack_size(STACK);
    let spawned = thread.spawn(move || serve(id, job, &jobs, &queue));
    spawned.map(drop).map_err(|error| Error::OutOfMemory(format!("no thread to plan on: {error}")))
}

/// Runs `job`, and further jobs that arrive while this thread is idle.
fn serve(id: u64, mut job: Job, jobs: &Sender<Job>, queue: &Receiver<Job>) {
    loop {
        job();
        WAITING.lock().threads.push(Idle { id, jobs: jobs.clone() });
        job = match queue.recv_timeout(IDLE) {
            Ok(next) => next,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let mut waiting = WAITING.lock();
                let Some(place) = waiting.threads.iter().position(|thread| thread.id == id) else {
                    drop(waiting);
                    // A job has just been assigned to this thread.
                    match queue.recv() {
                        Ok(next) => {
                            job = next;
                            continue;
                        }
                        Err(_) => return,
                    }
                };
                waiting.threads.swap_remove(place);
                return;
            }
        };
    }
}
