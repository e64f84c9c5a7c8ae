//! Histograms and Bloom filters are asked as long as that pays.

use rayon::prelude::*;

use super::bound::{Bound, Verdict};

/// The costs of testing a range against a zone, in nanoseconds.
const TEST_NANOS: u64 = 40;

/// Tests may take as long as reading so many bytes, even of small tables.
const LEAST_BYTES: u64 = 80_000;

/// Zones, of those that bounds leave, that a thread is worth: waking one takes as long as some hundred tests.
const ZONES_OF_A_THREAD: usize = 4096;

/// So many zones are tested against one condition before the next one: the processor waits for the metadata of several at once.
const ZONES_AT_ONCE: usize = 32;

/// The budget of tests, in nanoseconds. It is asked often: numbers that are not exact are fast.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// The nanoseconds that the whole scan takes at best.
    scan: f64,
    /// And a row of it.
    row: f64,
    /// The nanoseconds that may be spent on a scan however little it takes: reading so many bytes would take as long.
    least: f64,
    tests: u64,
    /// Rows that tests have ruled out.
    pruned: u64,
    /// The attribute that ruled out most zones before.
    likely: usize,
}

impl Budget {
    /// For a scan of so many bytes and rows.
    pub fn new(bytes: u64, rows: u64, bytes_per_nano: u64) -> Self {
        let nanos = |bytes: u64| bytes as f64 / bytes_per_nano.max(1) as f64;
        let scan = nanos(bytes);
        Self { scan, row: scan / rows.max(1) as f64, least: nanos(LEAST_BYTES), tests: 0, pruned: 0, likely: 0 }
    }

    fn is_spent(&self) -> bool {
        (self.tests * TEST_NANOS) as f64 > self.scan / 100.0 + self.pruned as f64 * self.row / 2.0 + self.least
    }
}

/// Tests what is left of the zones of a map, of about so many rows each, unless that does not pay: with several threads where many are. Gives
/// whether it stopped for that.
pub(super) fn finer(bound: &Bound, zone_rows: u64, verdicts: &mut [Verdict], budget: &mut Budget) -> bool {
    // Zones that bounds rule out take no thread of their own.
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

/// The same of zones from a certain one on, with one thread.
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
        // Tests of which nobody knows yet whether they pay are few.
        at_once = (2 * at_once).min(ZONES_AT_ONCE);
    }
}
