//! A scan that several sites share: the queue of its row segments, and the exchange of the other sites' results.
//!
//! Every row segment belongs to the site that claims it first, so that a late site (a device that still compiles) gets the remaining ones. The CPU
//! claims from the end or the segments farthest from devices, devices from the beginning or the segments nearest to them, until none are left. The
//! CPU merges the other sites' results, rows or the states of an aggregation, into the pipeline's sink, and runs all later pipelines.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::cancel::CancelToken;
use crate::error::{ExecError, Result};
use crate::rows::RowSet;

/// A participant in a shared scan: the CPU, or another site's index.
pub type Party = usize;

/// The CPU.
pub const CPU: Party = 0;

/// The row segments of a shared scan.
#[derive(Debug)]
pub struct SegmentQueue {
    state: Mutex<State>,
    /// The only party that may claim each row segment; `None`: any, first come first served.
    assigned: Option<Vec<Party>>,
    released: Condvar,
}

#[derive(Debug)]
struct State {
    /// The owner of each row segment.
    owners: Vec<Option<Party>>,
    /// Number of unclaimed row segments.
    free: usize,
    /// Row segments of each party.
    claimed: Vec<usize>,
    /// Parties that may claim nothing more.
    closed: Vec<bool>,
    /// Set while other parties decide which row segments to leave: the CPU waits.
    held: Option<Hold>,
    /// Expected time per row segment of each party, if announced.
    pace: Vec<Option<Duration>>,
    /// Bytes of each row segment that would have to travel to the nearest other party, if announced.
    distances: Vec<u64>,
}

/// The end of the CPU's waiting.
#[derive(Debug, Clone, Copy)]
enum Hold {
    /// Until another party decides.
    Decision,
    /// Until another party decides, or until this time.
    Until(Instant),
}

impl SegmentQueue {
    /// `segments` row segments for `parties` parties, the CPU among them.
    pub fn new(segments: usize, parties: usize) -> Self {
        let state = State {
            owners: vec![None; segments],
            free: segments,
            claimed: vec![0; parties],
            closed: vec![false; parties],
            held: None,
            pace: vec![None; parties],
            distances: vec![],
        };
        Self { state: Mutex::new(state), assigned: None, released: Condvar::new() }
    }

    /// Assigns each row segment to the party that may claim it: a fixed placement.
    pub fn assigned(owners: Vec<Party>, parties: usize) -> Self {
        Self { assigned: Some(owners.clone()), ..Self::new(owners.len(), parties) }
    }

    /// Makes the CPU [wait](SegmentQueue::wait_for_release) until another party has [released](SegmentQueue::release) the rest.
    pub fn hold(&self) {
        self.state.lock().held = Some(Hold::Decision);
    }

    /// [`SegmentQueue::hold`] for at most this time: a party that has to prepare first decides later.
    pub fn hold_for(&self, most: Duration) {
        self.state.lock().held = Some(Hold::Until(Instant::now() + most));
    }

    /// Lets the CPU claim all remaining row segments.
    pub fn release(&self) {
        self.state.lock().held = None;
        self.released.notify_all();
    }

    /// Waits until the CPU may claim.
    ///
    /// # Errors
    /// Cancellation.
    pub fn wait_for_release(&self, cancel: &CancelToken) -> Result<()> {
        let mut state = self.state.lock();
        while let Some(hold) = state.held {
            cancel.check()?;
            let wait = match hold {
                Hold::Decision => CANCEL_POLL,
                Hold::Until(end) => match end.checked_duration_since(Instant::now()) {
                    Some(left) => left.min(CANCEL_POLL),
                    None => break,
                },
            };
            self.released.wait_for(&mut state, wait);
        }
        Ok(())
    }

    /// Announces how long `party` expects to need for each of the unclaimed row segments.
    pub fn announce(&self, party: Party, pace: Duration) {
        self.state.lock().pace[party] = Some(pace);
    }

    /// Announces how many bytes of each row segment would have to travel to a party that is not the CPU.
    pub fn announce_distances(&self, distances: Vec<u64>) {
        let known = &mut self.state.lock().distances;
        match known.len() == distances.len() {
            true => known.iter_mut().zip(distances).for_each(|(known, distance)| *known = distance.min(*known)),
            false => *known = distances,
        }
    }

    /// The order in which the CPU claims `segments`, from the last one on: the farthest one from other parties, if these have announced distances.
    pub fn order_for_cpu(&self, segments: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut order: Vec<(usize, usize)> = segments.enumerate().collect();
        let state = self.state.lock();
        // Stable: the last one of those that are equally far.
        order.sort_by_key(|&(_, segment)| state.distances.get(segment).copied().unwrap_or(0));
        order.into_iter().map(|(position, _)| position).collect()
    }

    /// Whether `party` has announced its pace: then it will claim all remaining row segments.
    pub fn has_announced(&self, party: Party) -> bool {
        self.state.lock().pace[party].is_some()
    }

    /// Closes `party` if the others expect to finish all remaining row segments before it could finish one, which takes it `needed`. Returns whether
    /// it is closed now. Fixed placements are not changed.
    pub fn leave_to_faster(&self, party: Party, needed: Duration) -> bool {
        if self.assigned.is_some() {
            return false;
        }
        let mut state = self.state.lock();
        let others = (0..state.pace.len()).filter(|&other| other != party && !state.closed[other]);
        let rates = others.filter_map(|other| state.pace[other]).map(|pace| pace.as_secs_f64().max(1e-9).recip());
        // Row segments per second.
        let rate: f64 = rates.sum();
        state.closed[party] |= rate > 0.0 && state.free as f64 / rate < needed.as_secs_f64();
        state.closed[party]
    }

    /// Claims a row segment. Returns whether `party` owns it now.
    pub fn claim(&self, party: Party, segment: usize) -> bool {
        let mut state = self.state.lock();
        match state.owners[segment] {
            Some(owner) => owner == party,
            None if state.closed[party] => false,
            None if self.assigned.as_ref().is_some_and(|assigned| assigned[segment] != party) => false,
            None => {
                state.owners[segment] = Some(party);
                state.free -= 1;
                state.claimed[party] += 1;
                true
            }
        }
    }

    /// Whether `party` owns nothing, and cannot claim anything any more.
    pub fn is_left_out(&self, party: Party) -> bool {
        let state = self.state.lock();
        (state.free == 0 || state.closed[party]) && state.claimed[party] == 0
    }

    /// Number of unclaimed row segments, and of those that `party` owns.
    pub fn count(&self, party: Party) -> (usize, usize) {
        let state = self.state.lock();
        (state.free, state.claimed[party])
    }

    /// Prevents further claims of `party`. Returns whether it owns any row segments.
    ///
    /// In a fixed placement it may still claim its own row segments, and the result tells whether there are any.
    pub fn close(&self, party: Party) -> bool {
        if let Some(assigned) = &self.assigned {
            return assigned.contains(&party);
        }
        let mut state = self.state.lock();
        state.closed[party] = true;
        state.claimed[party] > 0
    }
}

/// The result of another site's part of a pipeline.
pub enum Arrival {
    /// Rows at the sink.
    Rows(Arc<RowSet>, Owner),
    /// Groups with the states of the sink's aggregation, as columns.
    States(Arc<RowSet>, Owner),
    /// None: an error, or a part that has to be placed again.
    Failed,
}

/// The owner of memory that strings of rows point into.
pub type Owner = Box<dyn Any + Send>;

/// The exchange for results of other sites.
#[derive(Default)]
pub struct Exchange {
    /// Results by party.
    arrived: Mutex<Vec<Option<Arrival>>>,
    changed: Condvar,
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").finish_non_exhaustive()
    }
}

/// The interval at which a party that waits looks whether the query was cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(10);

impl Exchange {
    /// An exchange for `parties` parties.
    pub fn new(parties: usize) -> Self {
        Self { arrived: Mutex::new((0..parties).map(|_| None).collect()), changed: Condvar::new() }
    }

    /// Delivers the result of `party`.
    pub fn put(&self, party: Party, arrival: Arrival) {
        self.arrived.lock()[party] = Some(arrival);
        self.changed.notify_all();
    }

    /// Waits for the result of `party`.
    ///
    /// # Errors
    /// Cancellation.
    pub fn take(&self, party: Party, cancel: &CancelToken) -> Result<Arrival> {
        let mut arrived = self.arrived.lock();
        loop {
            if let Some(arrival) = arrived[party].take() {
                return Ok(arrival);
            }
            cancel.check()?;
            self.changed.wait_for(&mut arrived, CANCEL_POLL);
        }
    }
}

/// A pipeline whose scan the CPU shares with other sites.
#[derive(Debug)]
pub struct SharedScan {
    /// The row segments.
    pub queue: Arc<SegmentQueue>,
    /// The exchange for the others' results.
    pub exchange: Arc<Exchange>,
    /// The other parties.
    pub others: Vec<Party>,
    /// Earlier pipelines that the CPU runs for this one only; skipped if the others have claimed all row segments.
    pub below: Vec<usize>,
    /// The CPU's expected pace.
    pub expected: Pace,
    /// The CPU's pace, if it has processed any row segment.
    pub measured: Mutex<Option<Pace>>,
}

/// The time that a party with all its threads takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pace {
    /// Time before its first row segment, for the hash builds.
    pub begin: Duration,
    /// Time per row segment.
    pub segment: Duration,
}

impl SharedScan {
    /// Waits until the others have decided which row segments they leave for the CPU, and leaves the rest to them if they are faster.
    ///
    /// # Errors
    /// Cancellation.
    pub fn begin(&self, cancel: &CancelToken) -> Result<()> {
        self.queue.wait_for_release(cancel)?;
        let Pace { begin, segment } = self.expected;
        self.queue.leave_to_faster(CPU, begin + segment);
        Ok(())
    }

    /// Waits for the results of the other sites. If row segments are left, waits for the parties that have announced to process them; when all are
    /// done, closes parties that have claimed nothing.
    ///
    /// # Errors
    /// Cancellation; a site that failed; unprocessed row segments.
    pub fn arrivals(&self, cancel: &CancelToken) -> Result<Vec<Arrival>> {
        let mut arrivals = vec![];
        let (announced, others): (Vec<Party>, Vec<Party>) =
            self.others.iter().partition(|&&party| self.queue.has_announced(party));
        for party in announced.into_iter().chain(others) {
            let left = self.queue.count(CPU).0 > 0 && self.queue.has_announced(party);
            if !left && !self.queue.close(party) {
                continue;
            }
            match self.exchange.take(party, cancel)? {
                Arrival::Failed => return Err(ExecError::Unsupported(format!("another site ({party}) failed"))),
                arrival => arrivals.push(arrival),
            }
        }
        match self.queue.count(CPU).0 {
            0 => Ok(arrivals),
            left => Err(ExecError::Unsupported(format!("a shared scan of which nobody has read {left} row segments"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_segment_has_one_owner() {
        let queue = SegmentQueue::new(1000, 3);
        let claimed: Vec<usize> = std::thread::scope(|scope| {
            let claim = |party| {
                let queue = &queue;
                scope.spawn(move || (0..1000).filter(|&segment| queue.claim(party, segment)).count())
            };
            let threads: Vec<_> = (0..3).map(claim).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(claimed.iter().sum::<usize>(), 1000);
        assert!((0..3).all(|party| queue.count(party) == (0, claimed[party])));
        // Claims are kept: claiming again succeeds for the owner only.
        assert!((0..1000).all(|segment| (0..3).filter(|&party| queue.claim(party, segment)).count() == 1));
    }

    #[test]
    fn who_is_closed_claims_nothing() {
        let queue = SegmentQueue::new(2, 2);
        assert!(!queue.close(1) && !queue.claim(1, 0) && queue.claim(CPU, 0) && queue.claim(CPU, 1));
        assert!(queue.is_left_out(1) && !queue.is_left_out(CPU));
        let queue = SegmentQueue::new(2, 2);
        assert!(queue.claim(1, 0) && queue.close(1) && queue.claim(1, 0) && !queue.claim(1, 1));
    }

    #[test]
    fn the_cpu_waits_for_what_is_held() {
        let queue = SegmentQueue::new(2, 2);
        queue.hold();
        std::thread::scope(|scope| {
            let cpu = scope.spawn(|| {
                queue.wait_for_release(&CancelToken::default()).unwrap();
                (0..2).filter(|&segment| queue.claim(CPU, segment)).collect::<Vec<_>>()
            });
            assert!(queue.claim(1, 0));
            queue.release();
            assert_eq!(cpu.join().unwrap(), [1]);
        });
        queue.hold();
        let cancel = CancelToken::default();
        cancel.cancel();
        assert!(matches!(queue.wait_for_release(&cancel), Err(ExecError::Cancelled)));
    }

    #[test]
    fn the_cpu_waits_no_longer_than_it_may() {
        let queue = SegmentQueue::new(2, 2);
        queue.hold_for(Duration::from_millis(1));
        queue.wait_for_release(&CancelToken::default()).unwrap();
        queue.hold_for(Duration::from_secs(3600));
        queue.release();
        queue.wait_for_release(&CancelToken::default()).unwrap();
    }

    #[test]
    fn who_would_be_late_leaves_the_rest_to_others() {
        let milliseconds = Duration::from_millis;
        let queue = SegmentQueue::new(10, 3);
        // No party has announced anything.
        assert!(!queue.leave_to_faster(CPU, milliseconds(1000)));
        queue.announce(1, milliseconds(1));
        assert!(!queue.leave_to_faster(CPU, milliseconds(9)) && !queue.is_left_out(CPU));
        // Two are twice as fast.
        queue.announce(2, milliseconds(1));
        assert!(queue.leave_to_faster(CPU, milliseconds(6)));
        assert!(queue.is_left_out(CPU) && !queue.claim(CPU, 0) && queue.claim(1, 0));
        // A party that leaves keeps its claimed row segments.
        let queue = SegmentQueue::new(10, 2);
        assert!(queue.claim(CPU, 9));
        queue.announce(1, Duration::ZERO);
        assert!(queue.leave_to_faster(CPU, milliseconds(1)) && !queue.is_left_out(CPU));
        // A fixed placement stays.
        let queue = SegmentQueue::assigned(vec![CPU, 1], 2);
        queue.announce(1, Duration::ZERO);
        assert!(!queue.leave_to_faster(CPU, milliseconds(1)) && queue.claim(CPU, 0));
    }

    #[test]
    fn what_is_left_to_others_is_waited_for() {
        let scan = || SharedScan {
            queue: Arc::new(SegmentQueue::new(4, 3)),
            exchange: Arc::new(Exchange::new(3)),
            others: vec![1, 2],
            below: vec![],
            expected: Pace { begin: Duration::ZERO, segment: Duration::from_secs(1) },
            measured: Mutex::default(),
        };
        let (cancel, rows) = (CancelToken::default(), || Arrival::Rows(Arc::default(), Box::new(())));
        let shared = scan();
        shared.queue.announce(2, Duration::from_millis(1));
        shared.begin(&cancel).unwrap();
        assert!(shared.queue.is_left_out(CPU));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                assert!((0..4).all(|segment| shared.queue.claim(2, segment)));
                shared.exchange.put(2, rows());
            });
            assert_eq!(shared.arrivals(&cancel).unwrap().len(), 1);
        });
        assert!(!shared.queue.claim(1, 0));
        // A device that ends without having processed what it announced is an error, not a partial result.
        let shared = scan();
        shared.queue.announce(1, Duration::from_millis(1));
        shared.begin(&cancel).unwrap();
        shared.exchange.put(1, rows());
        assert!(shared.arrivals(&cancel).is_err());
    }

    #[test]
    fn the_cpu_begins_far_from_devices() {
        let queue = SegmentQueue::new(5, 2);
        assert_eq!(queue.order_for_cpu([1, 2, 4].into_iter()), [0, 1, 2]);
        queue.announce_distances(vec![0, 9, 3, 9, 3]);
        assert_eq!(queue.order_for_cpu([1, 2, 4].into_iter()), [1, 2, 0]);
        // Another device is nearer to one.
        queue.announce_distances(vec![9, 1, 9, 9, 9]);
        assert_eq!(queue.order_for_cpu([1, 2, 4].into_iter()), [0, 1, 2]);
    }

    #[test]
    fn assigned_segments_are_for_their_party() {
        let queue = SegmentQueue::assigned(vec![1, CPU], 2);
        // A party with row segments of its own is waited for, whenever it claims them.
        assert!(queue.close(1) && !SegmentQueue::assigned(vec![CPU], 2).close(1));
        assert!(!queue.claim(CPU, 0) && queue.claim(1, 0) && queue.claim(CPU, 1) && !queue.claim(1, 1));
    }

    #[test]
    fn waiting_ends_with_an_arrival_or_a_cancellation() {
        let exchange = Exchange::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| exchange.put(1, Arrival::Failed));
            assert!(matches!(exchange.take(1, &CancelToken::default()), Ok(Arrival::Failed)));
        });
        let cancel = CancelToken::default();
        cancel.cancel();
        assert!(matches!(exchange.take(1, &cancel), Err(ExecError::Cancelled)));
    }
}
