//! Background work that no query waits for: fragments of late devices, preparation of programs for their next run, encoding of columns of files.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use warpmill_eval::cancel::CancelToken;
use warpmill_gpu::device::priority;
use warpmill_gpu::end_compiling;

/// Largest number of `spawn_later` tasks in a process. Each compiles kernels, on as many cores as are idle.
const MOST_LATER: usize = 2;
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
    /// No task begins any more.
    closed: bool,
    cancel: CancelToken,
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

/// Runs `task`, which queries seldom wait for, on a new thread of low priority, with a token that is cancelled when the process ends. Returns whether it
/// was started.
pub(crate) fn spawn_later(task: impl FnOnce(CancelToken) + Send + 'static) -> bool {
    start(Kind::Later, |cancel| {
        priority::lower();
        task(cancel);
    })
}

/// Opens a device on a new thread of normal priority, which the driver's own threads inherit. Returns whether it was started.
pub(crate) fn spawn_opening(open: impl FnOnce() + Send + 'static) -> bool {
    start(Kind::Later, |_| open())
}

/// As `spawn_later`, for encoding columns of files on the CPU: its thread, and the threads that it starts, run at low priority.
pub fn encode_later(task: impl FnOnce(CancelToken) + Send + 'static) -> bool {
    start(Kind::Encoding, |cancel| {
        priority::lower();
        task(cancel);
    })
}

fn start(kind: Kind, task: impl FnOnce(CancelToken) + Send + 'static) -> bool {
    let mut tasks = RUNNING.tasks.lock();
    if tasks.closed || tasks.counts[kind as usize] >= kind.most() {
        return false;
    }
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
    let is_busy = |tasks: &mut Tasks| tasks.counts.iter().sum::<usize>() > 0;
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
