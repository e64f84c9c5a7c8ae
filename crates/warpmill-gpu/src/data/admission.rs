//! The programs that run at once: each has a stream and a part of the processing region of its own, and starts when the memory that it
//! needs is free.
//!
//! Programs start in the order in which they asked. A program holds nothing while it waits, and once it runs it asks for nothing
//! more: if it turns out to need more, it ends and asks again. So the first in the queue always gets its turn. While programs run,
//! the caching region only grows; it is emptied when it is in the way of the first in the queue and nothing runs: first of what stayed
//! of data that passed through, for which programs take room only where there is some, without waiting.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use warpmill_eval::cancel::CancelToken;

use crate::memory::error::{Failure, Result};
use crate::memory::lane::Lane;

use super::kept::Kept;
use super::store::Store;
use crate::memory::regions::Cache;

/// Programs that run at once at most.
const MOST_RUNNING: usize = 16;

/// The interval at which a program that waits looks whether it was cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(10);

/// The data of a program, as far as it is to be in the caching region.
pub trait CachedData {
    /// Bytes of all of it.
    fn bytes(&self) -> u64;

    /// Bytes of what `cache` has not.
    fn missing(&self, cache: &Cache) -> u64;
}

/// The resources that a program needs to run.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Whose data must be in the caching region; `None`: nothing of it is used.
    pub data: Option<&'a dyn CachedData>,
    /// Bytes of the processing region.
    pub processing: u64,
    /// Whether nothing else may run, and everything that others left in device memory must go.
    pub alone: bool,
    /// Whether a program of the same query holds memory of this device meanwhile: nobody would make room.
    pub nested: bool,
}

impl Wanted<'_> {
    fn bytes(&self) -> u64 {
        self.data.map_or(0, CachedData::bytes)
    }
}

/// The queue.
#[derive(Default)]
pub struct Admission {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<u64>,
    tickets: u64,
    running: usize,
    /// Programs on other devices that copy from the caching region.
    visitors: usize,
    /// Whether what runs wants to be alone.
    alone: bool,
    /// Bytes that running programs have, or are about to take.
    claimed: u64,
    idle: Vec<Lane>,
}

/// A program's turn: what it has until this is dropped.
pub struct Turn<'a> {
    admission: &'a Admission,
    lane: Option<Lane>,
    claimed: u64,
    /// Bytes that it still has to load into the caching region.
    missing: u64,
    /// Set while work may be queued that nobody has waited for.
    pub busy: bool,
}

impl Turn<'_> {
    /// Its resources.
    pub fn lane(&mut self) -> &mut Lane {
        self.lane.as_mut().expect("there until dropped")
    }

    /// Its data is in the caching region, which counts it from now on.
    pub fn loaded(&mut self) {
        if self.missing > 0 {
            self.admission.queue.lock().claimed -= self.missing;
            self.claimed -= std::mem::take(&mut self.missing);
            self.admission.changed.notify_all();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut lane = self.lane.take().expect("taken here only");
        if self.busy {
            // Work that was queued before a failure must not outlive the memory that it uses.
            let _ = lane.synchronize();
        }
        lane.region.reset();
        lane.mapped = None;
        let mut queue = self.admission.queue.lock();
        queue.running -= 1;
        // Whoever wanted to be alone was.
        queue.alone = false;
        queue.claimed -= self.claimed;
        queue.idle.push(lane);
        drop(queue);
        self.admission.changed.notify_all();
    }
}

/// The promise that nothing leaves the caching region, nor the copies of mirrored data, while somebody copies from it to another device.
pub(crate) struct Lent<'a>(&'a Admission);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().visitors -= 1;
        self.0.changed.notify_all();
    }
}

impl Admission {
    /// Keeps all data that is in the device's memory there until the promise is dropped, which must not wait for a turn on any device.
    pub(crate) fn lend(&self) -> Lent<'_> {
        self.queue.lock().visitors += 1;
        Lent(self)
    }

    /// Waits for a turn on the device of `store`.
    ///
    /// # Errors
    /// [`Failure::Memory`] where there could never be one, or the device has less memory than it said; cancellation.
    pub fn enter<'a>(&'a self, store: &Store, wanted: Wanted<'_>, cancel: &CancelToken) -> Result<Turn<'a>> {
        check_size(store, wanted)?;
        let mut queue = self.queue.lock();
        let ticket = queue.tickets;
        queue.tickets += 1;
        match wanted.nested {
            true => queue.waiting.push_front(ticket),
            false => queue.waiting.push_back(ticket),
        }
        let outcome = loop {
            if queue.waiting.front() == Some(&ticket)
                && let Some(outcome) = self.admit(&mut queue, store, wanted).transpose()
            {
                break outcome;
            }
            if wanted.nested {
                let (what, requested) = ("a program that goes on with rows of others".into(), wanted.processing);
                break Err(Failure::Memory { what, requested, available: store.memory.saturating_sub(queue.claimed) });
            }
            if let Err(error) = cancel.check() {
                break Err(error.into());
            }
            self.changed.wait_for(&mut queue, CANCEL_POLL);
        };
        queue.waiting.retain(|&other| other != ticket);
        drop(queue);
        self.changed.notify_all();
        outcome
    }

    /// Takes room for data that stays, with `take`, which hears how many bytes the caching region may grow by for that: nobody waits for it,
    /// and it is left to programs for as long as they need it. As much as those that run have is left to others.
    pub(crate) fn keep<T>(&self, store: &Store, take: impl FnOnce(&mut Kept, u64) -> T) -> T {
        let queue = self.queue.lock();
        let cached = store.cache.lock().used() + store.mirror.lock().held();
        let mut kept = store.kept.lock();
        let idle: u64 = queue.idle.iter().map(|lane| lane.region.held()).sum();
        let most = cache_limit(store).min(store.memory.saturating_sub(2 * queue.claimed + idle));
        let spare = most.saturating_sub(cached + kept.held());
        take(&mut kept, spare)
    }

    /// The turn of the first in the queue, if it can have it now.
    fn admit<'a>(&'a self, queue: &mut Queue, store: &Store, wanted: Wanted<'_>) -> Result<Option<Turn<'a>>> {
        let Wanted { processing, alone, .. } = wanted;
        // A nested program runs in the turn of the one that waits for it.
        let most = if alone { 1 } else { MOST_RUNNING };
        if queue.alone || (queue.running >= most && !wanted.nested) {
            return Ok(None);
        }
        let mut cache = store.cache.lock();
        let mut kept = store.kept.lock();
        let mut mirror = store.mirror.lock();
        if queue.running == 0 && kept.is_stale() {
            kept.clear();
        }
        if queue.running == 0 && mirror.is_due() {
            if queue.visitors > 0 {
                return Ok(None);
            }
            let lane = match queue.idle.pop() {
                Some(lane) => lane,
                None => Lane::new(&store.device)?,
            };
            mirror.replace(&*store.device, &store.pinned, lane.stream);
            queue.idle.push(lane);
        }
        let mut missing = wanted.data.map_or(0, |data| data.missing(&cache));
        let fits = |used: u64, claimed: u64| used <= cache_limit(store) && used + claimed + processing <= store.memory;
        if alone || !fits(cache.used() + kept.held() + mirror.held() + missing, queue.claimed) {
            if queue.running > 0 || queue.visitors > 0 {
                return Ok(None);
            }
            // The memory that other queries left makes room: first what would only have to travel once more.
            queue.idle.clear();
            if alone || !fits(cache.used() + mirror.held() + missing, queue.claimed) {
                mirror.clear();
            }
            let used = cache.used() + mirror.held() + missing;
            match alone {
                true => kept.clear(),
                false => kept.make_way(cache_limit(store).min(store.memory - processing).saturating_sub(used)),
            }
            if alone || !fits(used, queue.claimed) {
                cache.clear();
                store.recoded.clear();
                missing = wanted.bytes();
            }
        }
        let used = cache.used() + kept.held() + mirror.held() + missing + queue.claimed;
        drop((cache, kept, mirror));
        let mut lane = match queue.idle.pop() {
            Some(lane) => lane,
            None => Lane::new(&store.device)?,
        };
        if used + processing.max(lane.region.held()) > store.memory {
            lane.region.release();
        }
        let mut idle: u64 = queue.idle.iter().map(|lane| lane.region.held()).sum();
        if used + processing.max(lane.region.held()) + idle > store.memory {
            queue.idle.iter_mut().for_each(|lane| lane.region.release());
            idle = 0;
        }
        lane.region.provide(processing, store.memory.saturating_sub(used + idle))?;
        let claimed = missing + processing.max(lane.region.held());
        queue.running += 1;
        queue.alone = alone;
        queue.claimed += claimed;
        Ok(Some(Turn { admission: self, lane: Some(lane), claimed, missing, busy: false }))
    }
}

fn cache_limit(store: &Store) -> u64 {
    store.memory / 4 * 3
}

/// Refuses what would not fit an empty device.
///
/// # Errors
/// [`Failure::Memory`].
pub fn check_size(store: &Store, wanted: Wanted<'_>) -> Result<()> {
    let (data, memory, limit) = (wanted.bytes(), store.memory, cache_limit(store));
    let full = |what: &str, requested, available| Err(Failure::Memory { what: what.into(), requested, available });
    if data > limit {
        return full("the caching region", data, limit);
    }
    if data + wanted.processing > memory {
        return full("the processing region", wanted.processing, memory - data);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
