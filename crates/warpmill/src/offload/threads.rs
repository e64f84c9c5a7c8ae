//! Threads for work that waits for other work of the same kind.
//!
//! A runtime has a limited number of blocking threads; further work waits for a free one. Programs that wait for other programs' rows could occupy
//! all of them and deadlock.

use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::Result;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::exec::QueryHandle;
use crate::planning::WORKER_STACK;
use crate::{Error, caught};

/// The largest number of threads at a time: the system's threads are limited.
const MOST_THREADS: usize = 4096;

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// A thread that is counted until this is dropped.
struct Counted(&'static AtomicUsize);

impl Counted {
    fn new(threads: &'static AtomicUsize) -> Result<Self> {
        let before = threads.fetch_add(1, Ordering::Relaxed);
        let counted = Self(threads);
        match before < MOST_THREADS {
            true => Ok(counted),
            false => Err(Error::OutOfMemory(format!(
                "no thread to run a part of the plan on: {MOST_THREADS} run already, which is the limit"
            ))
            .into()),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts `work` on a thread of its own; the future is its outcome.
///
/// # Errors
/// [`Error::OutOfMemory`] where the system has no thread, or the process too many. Of the future: [`Error::Internal`]
/// where `work` panics.
pub(super) fn start<T: Send + 'static, W: FnOnce() -> T + Send + 'static>(
    work: W,
) -> Result<impl Future<Output = Result<T>> + use<T, W>> {
    let (sender, receiver) = oneshot::channel();
    let (counted, runtime) = (Counted::new(&THREADS)?, Handle::try_current().ok());
    let thread = std::thread::Builder::new().name("warpmill-run".into()).stack_size(WORKER_STACK);
    let spawned = thread.spawn(move || {
        let _counted = counted;
        let _runtime = runtime.as_ref().map(Handle::enter);
        // The receiver may be gone; the result is dropped then.
        let _ = sender.send(caught(work));
    });
    spawned.map_err(|error| Error::OutOfMemory(format!("no thread to run a part of the plan on: {error}")))?;
    Ok(async { Ok(receiver.await.map_err(|_| Error::Other("a thread ended early".into()))??) })
}

impl QueryHandle {
    /// Starts `work`, which runs the query to its end, on its own thread; the future is its outcome. Blocking threads of the runtime are only for
    /// programs that wait for nothing: queries could occupy all of them, waiting for their own programs.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where the system has no thread, or the process too many. Of the future:
    /// [`Error::Internal`] where `work` panics.
    pub fn start<T: Send + 'static, W: FnOnce() -> T + Send + 'static>(
        &self,
        work: W,
    ) -> Result<impl Future<Output = Result<T>> + use<T, W>> {
        start(work)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn threads_are_counted() {
        static OF_THIS_TEST: AtomicUsize = AtomicUsize::new(0);
        let held: Vec<_> = std::iter::from_fn(|| Counted::new(&OF_THIS_TEST).ok()).collect();
        assert_eq!(held.len(), MOST_THREADS);
        let error = Error::from(Counted::new(&OF_THIS_TEST).err().unwrap());
        assert!(matches!(error, Error::OutOfMemory(_)), "{error}");
        drop(held);
        assert!(Counted::new(&OF_THIS_TEST).is_ok());
    }

    #[test]
    fn queries_leave_to_programs_the_threads_for_what_blocks() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).max_blocking_threads(1).build();
        let (runtime, handle) = (Arc::new(runtime.unwrap()), QueryHandle::default());
        let query = || {
            let runtime = Arc::clone(&runtime);
            handle.start(move || runtime.block_on(runtime.spawn_blocking(|| 7)).unwrap()).unwrap()
        };
        let running: Vec<_> = std::iter::repeat_with(query).take(20).collect();
        for ended in running {
            assert_eq!(futures::executor::block_on(ended).unwrap(), 7);
        }
    }
}
