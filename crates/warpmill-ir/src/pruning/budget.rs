//! Limits tests of histograms and Bloom filters to those that pay.

use rayon::prelude::*;

use super::bound::{Bound, Verdict};

/// Cost of testing a range against a zone, in nanoseconds.
const TEST_NANOS: u64 = 40;

/// Tests may take as long as reading this many bytes, even for small tables.
const LEAST_BYTES: u64 = 80_000;

/// Number of zones left by bounds that justify a thread: waking one takes as long as some hundred tests.
const ZONES_OF_A_THREAD: usize = 4096;

/// Number of zones tested against one condition before the next condition, so that the processor's memory accesses overlap.
const ZONES_AT_ONCE: usize = 32;

/// The budget of tests, in nanoseconds. Approximate floats, since it is checked often.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// Estimated time of the whole scan, in nanoseconds.
    scan: f64,
    /// Estimated time per row, in nanoseconds.
    row: f64,
    /// Smallest budget for any scan, in nanoseconds.
    least: f64,
    tests: u64,
    /// Number of rows ruled out by tests.
    pruned: u64,
    /// Index of the attribute that ruled out most zones before.
    likely: usize,
}

impl Budget {
    /// The budget for a scan of `bytes` bytes and `rows` rows.
    pub fn new(bytes: u64, rows: u64, bytes_per_nano: u64) -> Self {
        let nanos = |bytes: u64| bytes as f64 / bytes_per_nano.max(1) as f64;
        let scan = nanos(bytes);
        Self { scan, row: scan / rows.max(1) as f64, least: nanos(LEAST_BYTES), tests: 0, pruned: 0, likely: 0 }
    }

    fn is_spent(&self) -> bool {
        (self.tests * TEST_NANOS) as f64 > self.scan / 100.0 + self.pruned as f64 * self.row / 2.0 + self.least
    }
}

/// Tests the remaining zones of a map, of about `zone_rows` rows each, as long as it pays; uses several threads for many zones. Returns whether it
/// stopped early.
pub(super) fn finer(bound: &Bound, zone_rows: u64, verdicts: &mut [Verdict], budget: &mut Budget) -> bool {
    // Zones ruled out by bounds do not count.
    let left = match verdicts.len() < 2 * ZONES_OF_A_THREAD {
        true => 0,
        false => verdicts.iter().filter(|verdict| **verdict == Verdict::Left).count(),
    };
    let pieces = (left / ZONES_OF_A_THREAD).min(rayon::current_num_threads());
    if pieces < 2 {
        return finer_from(bound, zone_rows, (0, verdicts), budget);
    }
    let len = verdicts.len().div_ceil(pieces);
    let own = Budget { scan: budget.scan / pieces as f64, tests: 0, pruned: 0, ..*budget };
    let one = |(piece, verdicts)| finer_from(bound, zone_rows, (piece * len, verdicts), &mut own.clone());
    verdicts.par_chunks_mut(len).enumerate().map(one).reduce(|| false, |a, b| a | b)
}

/// Tests the zones from `first` on, with one thread.
fn finer_from(bound: &Bound, zone_rows: u64, (first, verdicts): (usize, &mut [Verdict]), budget: &mut Budget) -> bool {
    let (mut left, mut next, mut at_once) = (Vec::with_capacity(ZONES_AT_ONCE), 0, 1);
    loop {
        left.clear();
        while next < verdicts.len() && left.len() < at_once {
            if verdicts[next] == Verdict::Left {
                left.push(first + next);
            }
            next += 1;
        }
        if left.is_empty() {
            return false;
        }
        if budget.is_spent() {
            return true;
        }
        let (before, Budget { likely, tests, .. }) = (left.len(), &mut *budget);
        bound.rule_out(&mut left, likely, tests, |zone, verdict| verdicts[zone - first] = verdict);
        budget.pruned += (before - left.len()) as u64 * zone_rows;
        // Begins with few tests, as long as it is unknown whether they pay.
        at_once = (2 * at_once).min(ZONES_AT_ONCE);
    }
}
