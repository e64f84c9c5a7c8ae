//! Measures which of two ways to run a shareable program is faster: on the CPU and devices together, or on a device alone.
//!
//! That depends on the copies that the device has, on the link's rate while the CPU reads the same memory, and on the CPU's hash builds. Therefore
//! both ways are timed; the faster one is used, and the other one is tried again from time to time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use warpmill_place::Sharing;

/// A way to run a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The CPU and devices share a scan.
    Shared,
    /// A device runs everything.
    Alone,
}

/// Number of runs of each way before one of them is preferred: the first may compile kernels, load data, or wait for a device.
const FIRST: u32 = 2;

/// Number of runs of the faster way before the other one is tried again: as many as between two replacements of copies. Doubled each time the other
/// one is slower again.
const RETRY: u32 = 16;

/// Largest number of runs between two trials of the slower way.
const MOST_RETRY: u32 = 4096;

/// Smallest number of bytes sent to a device in a run for which the data count as not resident.
const TRAVELS: u64 = 64 << 20;

/// The times of both ways; kept with the program.
#[derive(Default)]
pub(crate) struct Trials {
    known: Mutex<[Known; 2]>,
    /// Whether data are sent in every run, not only in the first one.
    travels: AtomicBool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    runs: u32,
    /// Runs of the other way since.
    since: u32,
    /// Runs of the other way before this one is tried again.
    retry: u32,
    /// The last two times.
    times: [Duration; 2],
}

impl Known {
    /// Whether the slower way is due for another trial.
    fn is_due(&self) -> bool {
        self.since >= self.retry.max(RETRY)
    }

    /// The smaller of the last two times: other work of the machine makes runs longer, never shorter.
    fn time(&self) -> Duration {
        if self.runs < FIRST { self.times[0] } else { self.times[0].min(self.times[1]) }
    }
}

impl Trials {
    /// Whether the next run is shared; `asked`: the user has requested it.
    pub fn sharing(&self, asked: bool) -> Sharing {
        match asked || self.travels.load(Ordering::Relaxed) {
            false => Sharing::No,
            true if self.next() == Way::Alone => Sharing::UntilReady,
            true => Sharing::Yes,
        }
    }

    fn next(&self) -> Way {
        let [shared, alone] = *self.known.lock();
        let is_faster = |way: &Known, other: &Known| way.time() <= other.time();
        match (shared.runs < FIRST, alone.runs < FIRST) {
            (true, _) => Way::Shared,
            (_, true) => Way::Alone,
            _ if is_faster(&alone, &shared) => {
                if shared.is_due() {
                    Way::Shared
                } else {
                    Way::Alone
                }
            }
            _ => {
                if alone.is_due() {
                    Way::Alone
                } else {
                    Way::Shared
                }
            }
        }
    }

    /// Records the time of a run, and the bytes sent to devices in it.
    pub fn note(&self, way: Way, time: Duration, travelled: u64) {
        let mut known = self.known.lock();
        let [shared, alone] = &mut *known;
        if way == Way::Alone && alone.runs > 0 {
            self.travels.store(travelled >= TRAVELS, Ordering::Relaxed);
        }
        let (own, other) = if way == Way::Shared { (shared, alone) } else { (alone, shared) };
        if own.runs >= FIRST && own.since > 0 {
            own.retry =
                if time < other.time() { RETRY } else { own.retry.max(RETRY).saturating_mul(2).min(MOST_RETRY) };
        }
        (own.runs, own.since, own.times) = (own.runs.saturating_add(1), 0, [time, own.times[0]]);
        other.since = other.since.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ways chosen in `runs` runs, with the milliseconds that each way takes.
    fn ways(trials: &Trials, runs: usize, shared: u64, alone: u64) -> Vec<Way> {
        let run = |_| {
            let way = trials.next();
            trials.note(way, Duration::from_millis(if way == Way::Shared { shared } else { alone }), 0);
            way
        };
        (0..runs).map(run).collect()
    }

    fn count(ways: &[Way], way: Way) -> usize {
        ways.iter().filter(|&&it| it == way).count()
    }

    #[test]
    fn the_faster_way_is_found_and_kept() {
        for (shared, alone, faster) in [(5, 3, Way::Alone), (3, 5, Way::Shared)] {
            let trials = Trials::default();
            assert_eq!(ways(&trials, 4, shared, alone), [Way::Shared, Way::Shared, Way::Alone, Way::Alone]);
            assert_eq!(count(&ways(&trials, 10, shared, alone), faster), 10);
            // The other one is tried now and then.
            assert!(count(&ways(&trials, 100, shared, alone), faster) > 90);
        }
    }

    #[test]
    fn another_choice_is_made_when_times_change() {
        let trials = Trials::default();
        ways(&trials, 20, 5, 3);
        let later = ways(&trials, 60, 1, 3);
        assert_eq!(count(&later[40..], Way::Shared), 20 - count(&later[40..], Way::Alone));
        assert!(count(&later[40..], Way::Shared) >= 18, "{later:?}");
    }

    #[test]
    fn nothing_is_shared_unasked_while_data_stays_on_the_device() {
        let trials = Trials::default();
        let run = |travelled| trials.note(Way::Alone, Duration::from_millis(3), travelled);
        // The first run loads data that stay.
        run(TRAVELS);
        assert_eq!((trials.sharing(false), trials.sharing(true)), (Sharing::No, Sharing::Yes));
        run(TRAVELS);
        assert_eq!(trials.sharing(false), Sharing::Yes);
        run(0);
        assert_eq!(trials.sharing(false), Sharing::No);
    }

    #[test]
    fn one_slow_run_changes_nothing() {
        let trials = Trials::default();
        ways(&trials, 8, 5, 3);
        trials.note(Way::Alone, Duration::from_millis(50), 0);
        assert_eq!(trials.next(), Way::Alone);
    }
}
