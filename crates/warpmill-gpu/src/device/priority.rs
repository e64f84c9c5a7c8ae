//! Priority of threads: background work leaves the processor to queries.

use std::cell::Cell;
use std::sync::LazyLock;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// The niceness of threads of background work: beside queries on all cores, each gets a tenth of a core.
const LOW: i32 = 10;

thread_local! {
    static IS_LOW: Cell<bool> = const { Cell::new(false) };
}

/// Threads of low priority, one for each core: idle cores are theirs. `None`: none can be started.
static LOW_POOL: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let name = |number| format!("warpmill-low-{number}");
    ThreadPoolBuilder::new().thread_name(name).start_handler(|_| lower()).build().ok()
});

/// Gives the calling thread low priority until it ends. Threads that it starts have the same niceness, and call this themselves if [`is_low`] held.
pub fn lower() {
    // The threads of the common pool, which queries use too, are started before: by this thread they would have its niceness.
    rayon::current_num_threads();
    IS_LOW.set(true);
    // SAFETY: 0 is the calling thread, which may always take itself back; whether it could does not matter.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LOW) };
}

/// Whether the calling thread has low priority.
pub fn is_low() -> bool {
    IS_LOW.get()
}

/// Runs `work`, whose parallel iterators use threads of the caller's priority. It must not wait for locks: its threads may begin other work meanwhile.
pub fn in_parallel<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    match is_low().then(|| LOW_POOL.as_ref()).flatten() {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;

    /// The niceness of the calling thread.
    fn niceness() -> i32 {
        // SAFETY: 0 is the calling thread.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
    }

    #[test]
    fn parallel_work_of_low_threads_has_low_priority() {
        // The first user of the common pool in this process may be a thread of low priority.
        let before = niceness();
        let many = || (0..64).into_par_iter().map(|_| (is_low(), niceness())).collect::<Vec<_>>();
        let low = std::thread::spawn(move || {
            lower();
            in_parallel(many)
        });
        let low = low.join().unwrap();
        assert!(low.iter().all(|&(low, nice)| low && nice >= before.max(LOW)), "{low:?}");
        let others = in_parallel(many);
        assert!(others.iter().all(|&(low, nice)| !low && nice == before), "{others:?}");
    }
}
