//! Work that no query waits for: fragments of devices that come too late, programs that are made ready for their next run, columns of files
//! that are encoded.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use warpmill_eval::cancel::CancelToken;
use warpmill_gpu::end_compiling;

/// Threads of tasks that nobody waits for, in a process at once: each compiles kernels, which takes all of a core.
const MOST_LATER: usize = 2;
/// Threads of devices' parts of queries, in a process at once.
const MOST_PARTS: usize = 64;
/// Threads that encode columns of files, in a process at once; each may start others.
const MOST_ENCODING: usize = 1;
/// The niceness of these: queries come first.
const ENCODING_NICENESS: i32 = 5;

#[derive(Default)]
struct Running {
    tasks: Mutex<Tasks>,
    changed: Condvar,
}

#[derive(Default)]
struct Tasks {
    /// By kind.
    counts: [usize; 3],
    /// No task begins any more.
    closed: bool,
    cancel: CancelToken,
}

/// A kind of task, with the most of it at once.
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

/// Ends work in the background before the libraries that have been loaded by now: the last registered handler of a process' end runs first.
pub(crate) fn at_exit_first() {
    // SAFETY: as above; ending twice is ending once.
    unsafe { libc::atexit(at_exit) };
}

extern "C" fn at_exit() {
    if !end_background(Duration::from_secs(10)) {
        tracing::warn!("the process ends while devices work in the background");
    }
}

/// Runs `task`, which a query may wait for, on a thread of its own; whether it does: not, where too many run already.
pub(crate) fn spawn(task: impl FnOnce() + Send + 'static) -> bool {
    start(Kind::Part, |_| task())
}

/// Runs `task`, which nobody waits for, on a thread of its own, with a token that is cancelled when the process ends; whether it does.
pub(crate) fn spawn_later(task: impl FnOnce(CancelToken) + Send + 'static) -> bool {
    start(Kind::Later, task)
}

/// The same, for work on the CPU that encodes columns of files for later queries: its thread, and the threads that it starts, come after others.
pub fn encode_later(task: impl FnOnce(CancelToken) + Send + 'static) -> bool {
    start(Kind::Encoding, |cancel| {
        // SAFETY: 0 is the calling thread, which may always take itself back; whether it could does not matter.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, ENCODING_NICENESS) };
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

/// Bytes of address space of a thread's stack: expressions nest as deeply as statements do.
pub(crate) const STACK: usize = 32 << 20;

/// Ends a task, however it ends.
struct Done(Kind);

impl Drop for Done {
    fn drop(&mut self) {
        RUNNING.tasks.lock().counts[self.0 as usize] -= 1;
        RUNNING.changed.notify_all();
    }
}

/// Waits until nothing runs in the background, at most for `limit`; whether nothing does.
pub fn wait_for_background(limit: Duration) -> bool {
    let until = Instant::now() + limit;
    let mut tasks = RUNNING.tasks.lock();
    let is_busy = |tasks: &mut Tasks| tasks.counts.iter().sum::<usize>() > 0;
    !RUNNING.changed.wait_while_until(&mut tasks, is_busy, until).timed_out()
}

/// Ends the work in the background, compilers included, and lets nothing begin any more: for the end of a process, which must not take a
/// device or a compiler away from threads that use it. Waits for `limit` at most, and as long for kernels that are being compiled.
pub fn end_background(limit: Duration) -> bool {
    {
        let mut tasks = RUNNING.tasks.lock();
        tasks.closed = true;
        tasks.cancel.cancel();
    }
    let has_compiled = end_compiling(limit);
    wait_for_background(limit) && has_compiled
}
