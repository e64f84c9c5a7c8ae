//! Admission of programs to a device. Each running program has its own stream and its own part of the processing region, and starts when the memory
//! that it needs is free.
//!
//! Programs start in the order in which they asked. A waiting program holds no resources, and a running program never asks for more: if it turns out
//! to need more, it ends and queues again. So the first in the queue always gets its turn. While programs run, the caching region only grows. It is
//! emptied when it blocks the first program in the queue and nothing runs: kept chunks of streamed data first, for which programs take only spare
//! room, without waiting.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use warpmill_eval::cancel::CancelToken;

use crate::memory::error::{Failure, Result};
use crate::memory::lane::Lane;

use super::kept::Kept;
use super::store::Store;
use crate::memory::regions::Cache;

/// Largest number of programs that run at once.
const MOST_RUNNING: usize = 16;

/// Interval at which a waiting program checks for cancellation.
const CANCEL_POLL: Duration = Duration::from_millis(10);

/// The part of a program's data that is to be in the caching region.
pub trait CachedData {
    /// Bytes in total.
    fn bytes(&self) -> u64;

    /// Bytes that `cache` does not hold yet.
    fn missing(&self, cache: &Cache) -> u64;
}

/// The resources that a program needs to run.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Data that must be in the caching region; `None`: the program uses no cached data.
    pub data: Option<&'a dyn CachedData>,
    /// Bytes of the processing region.
    pub processing: u64,
    /// Whether the program needs the device to itself: nothing else may run, and all cached data is dropped.
    pub alone: bool,
    /// Whether another program of the same query holds memory of this device meanwhile. It runs in that one's turn, and fails at once if there is no
    /// room: the memory it would wait for is held by its own query.
    pub nested: bool,
}

impl Wanted<'_> {
    fn bytes(&self) -> u64 {
        self.data.map_or(0, CachedData::bytes)
    }
}

/// The queue of programs, and the accounting of running ones.
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
    /// Number of programs on other devices that copy from the caching region.
    visitors: usize,
    /// Whether a running program has the device to itself.
    alone: bool,
    /// Bytes that running programs hold, or are about to take.
    claimed: u64,
    idle: Vec<Lane>,
}

/// A program's turn: its stream and memory, given back on drop.
pub struct Turn<'a> {
    admission: &'a Admission,
    lane: Option<Lane>,
    claimed: u64,
    /// Bytes that the program has yet to load into the caching region.
    missing: u64,
    /// Whether queued work may still be running: then drop waits for it.
    pub busy: bool,
}

impl Turn<'_> {
    /// The stream and memory of the turn.
    pub fn lane(&mut self) -> &mut Lane {
        self.lane.as_mut().expect("there until dropped")
    }

    /// Reports that the program's data is in the caching region, which accounts for it from now on.
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
        // The program that ran alone, if any, is this one.
        queue.alone = false;
        queue.claimed -= self.claimed;
        queue.idle.push(lane);
        drop(queue);
        self.admission.changed.notify_all();
    }
}

/// A guard that keeps the caching region and the mirrored copies in place while another device copies from them.
pub(crate) struct Lent<'a>(&'a Admission);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().visitors -= 1;
        self.0.changed.notify_all();
    }
}

impl Admission {
    /// Keeps all data in the device's memory until the guard is dropped. The holder must not wait for a turn on any device.
    pub(crate) fn lend(&self) -> Lent<'_> {
        self.queue.lock().visitors += 1;
        Lent(self)
    }

    /// Waits for a turn on the device of `store`.
    ///
    /// # Errors
    /// [`Failure::Memory`] if the request can never be met, or the device has less memory than it reported; cancellation.
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

    /// Reserves room for kept chunks with `take`, which is given the bytes by which the caching region may grow. Never waits. Programs in the queue
    /// have precedence: room for as much as running programs hold is left free.
    pub(crate) fn keep<T>(&self, store: &Store, take: impl FnOnce(&mut Kept, u64) -> T) -> T {
        let queue = self.queue.lock();
        let cached = store.cache.lock().used() + store.mirror.lock().held();
        let mut kept = store.kept.lock();
        let idle: u64 = queue.idle.iter().map(|lane| lane.region.held()).sum();
        let most = cache_limit(store).min(store.memory.saturating_sub(2 * queue.claimed + idle));
        let spare = most.saturating_sub(cached + kept.held());
        take(&mut kept, spare)
    }

    /// Admits the first program in the queue if its resources are available now.
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
            // Frees what other queries left in memory, cheapest to bring back first: mirrored copies, then kept chunks, then cached segments.
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

/// Refuses a request that would not fit an empty device.
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
