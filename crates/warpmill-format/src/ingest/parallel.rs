//! Parallel work on the pieces of an input, with results in order.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;

use parking_lot::{Condvar, Mutex};

use crate::Result;

struct Queue<I> {
    pieces: I,
    /// Number of the next piece.
    next: usize,
    /// Pieces below this index have been used.
    used: usize,
    stop: bool,
}

/// Applies `work` to every piece on `threads` threads and passes the results to `sink`, in order, on this thread. At most `window` pieces are
/// processed or waiting. The first error, in order, ends it.
pub(super) fn ordered<T: Send, U: Send>(
    threads: usize,
    window: usize,
    pieces: impl Iterator<Item = Result<T>> + Send,
    work: impl Fn(T) -> Result<U> + Sync,
    mut sink: impl FnMut(U) -> Result<()>,
) -> Result<()> {
    let queue = Mutex::new(Queue { pieces, next: 0, used: 0, stop: false });
    let room = Condvar::new();
    let (results, finished) = channel::<(usize, Result<U>)>();
    let run = |results: std::sync::mpsc::Sender<(usize, Result<U>)>| {
        loop {
            let mut guard = queue.lock();
            room.wait_while(&mut guard, |q| !q.stop && q.next >= q.used + window.max(1));
            if guard.stop {
                return;
            }
            let Some(piece) = guard.pieces.next() else { return };
            let number = guard.next;
            guard.next += 1;
            // Skips everything after a piece that cannot be read.
            guard.stop |= piece.is_err();
            drop(guard);
            if results.send((number, piece.and_then(&work))).is_err() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, window.max(1)) {
            let results = results.clone();
            scope.spawn(|| run(results));
        }
        drop(results);
        // At any end, even an unwinding panic, workers must not keep waiting for room.
        let _stop = OnDrop(|| {
            queue.lock().stop = true;
            room.notify_all();
        });
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        for (number, result) in &finished {
            waiting.insert(number, result);
            while let Some(result) = waiting.remove(&next) {
                sink(result?)?;
                next += 1;
                queue.lock().used = next;
                room.notify_all();
            }
        }
        Ok(())
    })
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)()
    }
}

/// The number of threads for a setting of `threads` (0: all cores).
pub(super) fn thread_count(threads: usize) -> usize {
    if threads > 0 { threads } else { std::thread::available_parallelism().map_or(1, |n| n.get()) }
}
