//! Background work that no query waits for: fragments of late devices, preparation of programs for their next run, encoding of columns of files.

use std::collections::VecDeque;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use warpmill_eval::cancel::CancelToken;
use warpmill_gpu::device::priority;
use warpmill_gpu::end_compiling;

/// Largest number of `spawn_when_idle` tasks in a process. Each compiles kernels, on as many cores as are idle.
const MOST_LATER: usize = 2;
/// Largest number of tasks that wait until no query runs.
const MOST_WAITING: usize = 256;
/// Time without queries after which they begin: longer than the time between the statements of a program.
const IDLE: Duration = Duration::from_millis(50);
/// Largest number of threads of devices' parts of queries in a process.
const MOST_PARTS: usize = 64;
/// Largest number of threads that encode columns of files in a process; each may start others.
const MOST_ENCODING: usize = 1;

#[derive(Default)]
struct Running {
    tasks: Mutex<Tasks>,
    changed: Condvar,
}

#[derive(Default)]
struct Tasks {
    /// Number of running tasks by kind.
    counts: [usize; 3],
    /// Tasks that begin when no query runs.
    waiting: VecDeque<Waiting>,
    /// Whether a thread starts those that wait.
    has_starter: bool,
    /// No task begins any more.
    closed: bool,
    cancel: CancelToken,
}

/// A task that waits until no query runs.
struct Waiting {
    ticket: Ticket,
    /// Whether it begins although queries run.
    is_hastened: bool,
    task: Box<dyn FnOnce(CancelToken) + Send>,
}

/// The number of a task that waits, or has waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// Number of queries that are planned or run in the process.
static QUERIES: AtomicUsize = AtomicUsize::new(0);
/// The end of the last query, in milliseconds since [`BEGIN`].
static LAST: AtomicU64 = AtomicU64::new(0);
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A query that is planned or runs: while there is one, and shortly after, preparations of programs wait.
#[derive(Debug)]
pub struct Busy(());

impl Busy {
    /// The query is busy until the result is dropped.
    pub fn begin() -> Self {
        QUERIES.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        LAST.store(BEGIN.elapsed().as_millis() as u64, Ordering::SeqCst);
        QUERIES.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether no query has run for some time.
fn is_idle() -> bool {
    let since = BEGIN.elapsed().saturating_sub(Duration::from_millis(LAST.load(Ordering::SeqCst)));
    QUERIES.load(Ordering::SeqCst) == 0 && since >= IDLE
}

/// A kind of task, with its own limit.
#[derive(Clone, Copy)]
enum Kind {
    Part,
    Later,
    Encoding,
}

impl Kind {
    fn thread_name(self) -> &'static str {
        match self {
            Self::Part | Self::Later => "warpmill-device",
            Self::Encoding => "warpmill-columns",
        }
    }

    fn most(self) -> usize {
        match self {
            Self::Part => MOST_PARTS,
            Self::Later => MOST_LATER,
            Self::Encoding => MOST_ENCODING,
        }
    }
}

static RUNNING: LazyLock<Running> = LazyLock::new(|| {
    // The driver, which was opened before this, ends after it; libraries that are loaded later end before it: hosts with an interpreter
    // call `end_background` before it ends.
    // SAFETY: the function is this library's, which is never unloaded.
    unsafe { libc::atexit(at_exit) };
    Running::default()
});

/// Ends background work before the libraries loaded so far are finalised: exit handlers run in reverse order of registration.
pub(crate) fn at_exit_first() {
    // SAFETY: as above; ending twice has no further effect.
    unsafe { libc::atexit(at_exit) };
}

extern "C" fn at_exit() {
    if !end_background(Duration::from_secs(10)) {
        tracing::warn!("the process ends while devices work in the background");
    }
}

/// Runs `task`, which a query may wait for, on a new thread. Returns false if too many run already.
pub(crate) fn spawn(task: impl FnOnce() + Send + 'static) -> bool {
    start(Kind::Part, |_| task())
}

/// A number for a task of [`spawn_when_idle`].
pub(crate) fn ticket() -> Ticket {
    static LAST: AtomicU64 = AtomicU64::new(0);
    Ticket(LAST.fetch_add(1, Ordering::Relaxed))
}

/// Runs `task`, which queries seldom wait for and would be slowed down by, on a new thread of low priority, with a token that is cancelled when the
/// process ends: when no query runs, or when it is hastened. Drops the task where too many wait, or no thread can be started.
pub(crate) fn spawn_when_idle(ticket: Ticket, task: impl FnOnce(CancelToken) + Send + 'static) {
    let mut tasks = RUNNING.tasks.lock();
    if tasks.closed || tasks.waiting.len() >= MOST_WAITING {
        return;
    }
    if !tasks.has_starter {
        let starter = std::thread::Builder::new().name("warpmill-starter".into());
        tasks.has_starter = starter.spawn(start_waiting).is_ok();
        if !tasks.has_starter {
            return;
        }
    }
    tasks.waiting.push_back(Waiting { ticket, is_hastened: false, task: Box::new(task) });
}

/// Lets a task begin although queries run, if it still waits.
pub(crate) fn hasten(ticket: Ticket) {
    let mut tasks = RUNNING.tasks.lock();
    if let Some(waiting) = tasks.waiting.iter_mut().find(|waiting| waiting.ticket == ticket && !waiting.is_hastened) {
        waiting.is_hastened = true;
        RUNNING.changed.notify_all();
    }
}

/// Starts tasks that wait, until none is left.
fn start_waiting() {
    let mut tasks = RUNNING.tasks.lock();
    while !tasks.closed && !tasks.waiting.is_empty() {
        let hastened = tasks.waiting.iter().position(|waiting| waiting.is_hastened);
        let next = hastened.or_else(|| is_idle().then_some(0)).filter(|_| has_room(&tasks, Kind::Later));
        match next.and_then(|next| tasks.waiting.remove(next)) {
            Some(waiting) => {
                start_one(&mut tasks, Kind::Later, |cancel| {
                    priority::lower();
                    (waiting.task)(cancel);
                });
            }
            None => drop(RUNNING.changed.wait_for(&mut tasks, IDLE / 2)),
        }
    }
    tasks.has_starter = false;
    let left = std::mem::take(&mut tasks.waiting);
    RUNNING.changed.notify_all();
    drop(tasks);
    drop(left);
}

/// Opens a device on a new thread of normal priority, which the driver's own threads inherit. Returns whether it was started.
pub(crate) fn spawn_opening(open: impl FnOnce() + Send + 'static) -> bool {
    start(Kind::Later, |_| open())
}

/// As `spawn_when_idle`, but at once, for encoding columns of files on the CPU: its thread, and the threads that it starts, run at low priority.
pub fn encode_later(task: impl FnOnce(CancelToken) + Send + 'static) -> bool {
    start(Kind::Encoding, |cancel| {
        priority::lower();
        task(cancel);
    })
}

fn start(kind: Kind, task: impl FnOnce(CancelToken) + Send + 'static) -> bool {
    let mut tasks = RUNNING.tasks.lock();
    has_room(&tasks, kind) && start_one(&mut tasks, kind, task)
}

fn has_room(tasks: &Tasks, kind: Kind) -> bool {
    !tasks.closed && tasks.counts[kind as usize] < kind.most()
}

fn start_one(tasks: &mut Tasks, kind: Kind, task: impl FnOnce(CancelToken) + Send + 'static) -> bool {
    let cancel = tasks.cancel.clone();
    let run = move || {
        let _done = Done(kind);
        task(cancel);
    };
    let spawned = std::thread::Builder::new().name(kind.thread_name().into()).stack_size(STACK).spawn(run).is_ok();
    tasks.counts[kind as usize] += usize::from(spawned);
    spawned
}

/// Address space of a thread's stack, in bytes: expressions nest as deeply as statements do.
pub(crate) const STACK: usize = 32 << 20;

/// Ends a task, however it ends.
struct Done(Kind);

impl Drop for Done {
    fn drop(&mut self) {
        RUNNING.tasks.lock().counts[self.0 as usize] -= 1;
        RUNNING.changed.notify_all();
    }
}

/// Waits until no background work is left, for at most `limit`. Returns whether none is left.
pub fn wait_for_background(limit: Duration) -> bool {
    let until = Instant::now() + limit;
    let mut tasks = RUNNING.tasks.lock();
    let is_busy = |tasks: &mut Tasks| tasks.counts.iter().sum::<usize>() + tasks.waiting.len() > 0;
    !RUNNING.changed.wait_while_until(&mut tasks, is_busy, until).timed_out()
}

/// Ends background work, including compilers, and prevents new work: for the end of a process, which must not remove a device or a compiler from
/// threads that use it. Waits for at most `limit`, and as long again for kernels being compiled.
pub fn end_background(limit: Duration) -> bool {
    {
        let mut tasks = RUNNING.tasks.lock();
        tasks.closed = true;
        tasks.cancel.cancel();
    }
    let has_compiled = end_compiling(limit);
    wait_for_background(limit) && has_compiled
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Long enough for a thread to begin on a machine that is busy.
    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn preparations_wait_until_no_query_runs() {
        let (sender, receiver) = channel();
        let busy = Busy::begin();
        spawn_when_idle(ticket(), move |_| sender.send(()).unwrap());
        assert!(receiver.recv_timeout(IDLE * 4).is_err());
        drop(busy);
        assert!(receiver.recv_timeout(LONG).is_ok());
    }

    #[test]
    fn a_preparation_is_hastened() {
        let (sender, receiver) = channel();
        let _busy = Busy::begin();
        let ticket = ticket();
        spawn_when_idle(ticket, move |_| sender.send(()).unwrap());
        hasten(ticket);
        assert!(receiver.recv_timeout(LONG).is_ok());
    }
}
