//! Order of the rows of each key of a hash build: ASOF joins find one row in it, range conditions the rows between two bounds.

use std::sync::Arc;

use rayon::prelude::*;
use warpmill_ir::Nearest;

use super::Matches;
use super::slots::prefetch;
use crate::sort::normalize::{compare_values, ordered_f32, ordered_f64};
use crate::vector::{Data, NULL_ROW, Vector};
use crate::window::bucket::{self, Entry};

/// Values by which the rows of each key are ordered, per row: ascending within a key.
#[derive(Debug)]
pub(super) enum Times {
    /// Words that compare as the values do.
    Words(Vec<u64>),
    /// Values that do not fit words.
    Values(Arc<Vector>),
}

/// Minimum number of rows that a task sorts.
const TASK_ROWS: usize = 1 << 16;

/// The order-preserving word of each value; `None` for types that do not fit words. Words of NULLs are arbitrary.
fn words(data: &Data) -> Option<Vec<u64>> {
    const SIGN: u64 = 1 << 63;
    macro_rules! of {
        ($values:expr, $word:expr) => {
            $values.par_iter().with_min_len(TASK_ROWS).map(|&value| $word(value)).collect()
        };
    }
    Some(match data {
        Data::Bool(v) => of!(v, u64::from),
        Data::Code(v) => of!(v, u64::from),
        Data::I32(v) => of!(v, |v| (i64::from(v) as u64) ^ SIGN),
        Data::I64(v) => of!(v, |v: i64| (v as u64) ^ SIGN),
        Data::F32(v) => of!(v, |v| u64::from(ordered_f32(v))),
        Data::F64(v) => of!(v, ordered_f64),
        Data::I128(_) | Data::Str(_) => return None,
    })
}

impl Times {
    /// Sorts each run among the first `keyed` rows by `times`, with the rows of repeated keys in `order` (`None`: row order). Returns the times in
    /// sorted order.
    pub fn sort(times: &Arc<Vector>, keyed: usize, runs: &[(u32, u32)], order: &mut Option<Vec<u32>>) -> Self {
        match words(&times.data) {
            Some(words) => Times::Words(sort_words(words, keyed, runs, order)),
            None => Times::Values(sort_values(times, keyed, runs, order)),
        }
    }

    /// Replaces each range of `matches` by the row in it that is nearest to the value of `values`, or [`NULL_ROW`].
    pub fn pick(&self, values: &Vector, nearest: Nearest, matches: &mut Matches) {
        let includes_equal = matches!(nearest, Nearest::AtMost | Nearest::Above);
        let places = self.places(values, includes_equal, matches);
        let Matches { starts, lens } = matches;
        for ((start, &len), before) in starts.iter_mut().zip(&*lens).zip(places) {
            *start = match nearest {
                _ if before == NULL_ROW => NULL_ROW,
                Nearest::AtMost | Nearest::Below if before > 0 => *start + before - 1,
                Nearest::AtLeast | Nearest::Above if before < len => *start + before,
                _ => NULL_ROW,
            };
        }
        lens.clear();
    }

    /// Narrows each range of `matches` to the rows between the values of two bounds, with whether these are included.
    pub fn narrow(
        &self,
        lower: Option<(Arc<Vector>, bool)>,
        upper: Option<(Arc<Vector>, bool)>,
        matches: &mut Matches,
    ) {
        let lower = lower.map(|(values, inclusive)| self.places(&values, !inclusive, matches));
        let upper = upper.map(|(values, inclusive)| self.places(&values, inclusive, matches));
        let Matches { starts, lens } = matches;
        for (row, (start, len)) in starts.iter_mut().zip(lens).enumerate() {
            let first = lower.as_ref().map_or(0, |places| places[row]);
            let end = upper.as_ref().map_or(*len, |places| places[row]);
            let none = first == NULL_ROW || end == NULL_ROW || end <= first;
            (*start, *len) = if none { (*start, 0) } else { (*start + first, end - first) };
        }
    }

    /// For each range of `matches`, the number of its rows before the probe row's value, including equal ones if `equal`; [`NULL_ROW`] where the
    /// value is NULL.
    fn places(&self, values: &Vector, equal: bool, matches: &Matches) -> Vec<u32> {
        let mut places = match self {
            Times::Words(times) => {
                let Some(words) = words(&values.data) else {
                    unreachable!("a value that is not held as the order is");
                };
                places_of_words(times, &words, equal, matches)
            }
            Times::Values(times) => {
                let place = |(row, (&start, &len)): (usize, (&u32, &u32))| {
                    if !values.is_valid(row) {
                        return NULL_ROW;
                    }
                    let is_before = |at: u32| {
                        let order = compare_values(&times.data, (start + at) as usize, &values.data, row);
                        if equal { order.is_le() } else { order.is_lt() }
                    };
                    let (mut low, mut high) = (0, len);
                    while low < high {
                        let middle = low + (high - low) / 2;
                        if is_before(middle) { low = middle + 1 } else { high = middle }
                    }
                    low
                };
                matches.starts.iter().zip(&matches.lens).enumerate().map(place).collect()
            }
        };
        if let Some(validity) = &values.validity {
            places
                .iter_mut()
                .enumerate()
                .filter(|(row, _)| !validity.get(*row))
                .for_each(|(_, place)| *place = NULL_ROW);
        }
        places
    }
}

fn places_of_words(times: &[u64], words: &[u64], equal: bool, matches: &Matches) -> Vec<u32> {
    match equal {
        true => places_before(times, words, matches, |time, word| time <= word),
        false => places_before(times, words, matches, |time, word| time < word),
    }
}

/// An interpolation search in a run, between the last time known to be before the value and the first known not to be.
#[derive(Clone, Copy)]
struct Search {
    low: u32,
    high: u32,
    low_time: u64,
    high_time: u64,
    /// The position to look at next, between the two.
    guess: u32,
}

impl Search {
    /// Guesses by interpolation between the two known times.
    #[inline(always)]
    fn aim(&mut self, word: u64) {
        let between = self.high - self.low;
        let part = word.saturating_sub(self.low_time) as f64 / (self.high_time - self.low_time).max(1) as f64;
        let place = (part * f64::from(between)) as u32;
        self.guess = self.low + place.clamp(1, (between - 1).max(1));
    }
}

/// Largest run lengths for which 1, 2 and 3 looks bring a guess close; longer runs take one more.
const LOOKS: [u32; 3] = [64, 1 << 12, 1 << 20];

/// The number of times of each range that are before the word of the probe row. The searches of all rows advance in turn, and all guesses are
/// prefetched before the first is read.
#[inline(always)]
fn places_before(
    times: &[u64],
    words: &[u64],
    matches: &Matches,
    is_before: impl Fn(u64, u64) -> bool + Copy,
) -> Vec<u32> {
    let run = |row: usize| match (matches.starts[row], matches.lens[row]) {
        (_, 0) => &[][..],
        (start, len) => &times[start as usize..(start + len) as usize],
    };
    let mut searches: Vec<Search> = Vec::with_capacity(words.len());
    for (row, &word) in words.iter().enumerate() {
        let run = run(row);
        let ended = |at: usize| Search { low: at as u32, high: at as u32, low_time: 0, high_time: 0, guess: at as u32 };
        searches.push(match (run.first(), run.last()) {
            (Some(&first), Some(_)) if !is_before(first, word) => ended(0),
            (Some(_), Some(&last)) if is_before(last, word) => ended(run.len()),
            (Some(&low_time), Some(&high_time)) => {
                let mut search = Search { low: 0, high: run.len() as u32 - 1, low_time, high_time, guess: 0 };
                search.aim(word);
                prefetch(&run[search.guess as usize]);
                search
            }
            _ => ended(0),
        });
    }
    let longest = matches.lens.iter().copied().max().unwrap_or(0);
    for _ in LOOKS.iter().filter(|&&most| longest > most) {
        for (row, (search, &word)) in searches.iter_mut().zip(words).enumerate() {
            if search.high - search.low <= STEP {
                continue;
            }
            let run = run(row);
            let time = run[search.guess as usize];
            match is_before(time, word) {
                true => (search.low, search.low_time) = (search.guess, time),
                false => (search.high, search.high_time) = (search.guess, time),
            }
            search.aim(word);
            prefetch(&run[(search.guess as usize).min(run.len() - 1)]);
        }
    }
    let place = |(row, (search, &word)): (usize, (&Search, &u64))| {
        let Search { low, high, guess, .. } = *search;
        if low == high {
            return low;
        }
        // The first is before the word, the last is not.
        let between = &run(row)[low as usize + 1..high as usize];
        let guess = (guess - low - 1) as usize;
        low + 1 + position(between, guess, |time| is_before(time, word)) as u32
    };
    searches.iter().zip(words).enumerate().map(place).collect()
}

/// Distance of the first probe from the guess.
const STEP: u32 = 4;

/// The number of times in a run for which `is_before` holds (a prefix of the run): searched from position `guess` in steps that double.
#[inline(always)]
fn position(run: &[u64], guess: usize, is_before: impl Fn(u64) -> bool) -> usize {
    let (mut low, mut high) = (0, run.len());
    let mut step = STEP as usize;
    if run.get(guess).is_some_and(|&time| is_before(time)) {
        low = guess + 1;
        while low + step < high {
            if !is_before(run[low + step]) {
                high = low + step;
                break;
            }
            low += step + 1;
            step *= 2;
        }
    } else {
        high = guess;
        while low + step < high {
            if is_before(run[high - step]) {
                low = high - step + 1;
                break;
            }
            high -= step;
            step *= 2;
        }
    }
    low + run[low..high].partition_point(|&time| is_before(time))
}

/// Divides runs into tasks of about [`TASK_ROWS`] rows each.
fn tasks(runs: &[(u32, u32)]) -> Vec<&[(u32, u32)]> {
    let mut tasks = vec![];
    let (mut first, mut rows) = (0, 0);
    for (at, &(_, len)) in runs.iter().enumerate() {
        rows += len as usize;
        if rows >= TASK_ROWS {
            tasks.push(&runs[first..=at]);
            (first, rows) = (at + 1, 0);
        }
    }
    tasks.push(&runs[first..]);
    tasks
}

/// Calls `sort` in parallel for each run, with the run's part of `order` and of the parallel array.
fn for_each_run<T: Send>(
    runs: &[(u32, u32)],
    mut order: &mut [u32],
    mut beside: &mut [T],
    sort: impl Fn(&mut [u32], &mut [T]) + Sync,
) {
    let mut parts = vec![];
    let mut done = 0;
    for task in tasks(runs) {
        let (Some(&(first, _)), Some(&(last, len))) = (task.first(), task.last()) else { continue };
        let (from, end) = (first as usize, (last + len) as usize);
        let (own, rest) = std::mem::take(&mut order).split_at_mut(end - done);
        let (own_beside, rest_beside) = std::mem::take(&mut beside).split_at_mut(end - done);
        (order, beside) = (rest, rest_beside);
        parts.push((task, from, &mut own[from - done..], &mut own_beside[from - done..]));
        done = end;
    }
    parts.into_par_iter().for_each(|(task, from, order, beside)| {
        for &(start, len) in task {
            let range = start as usize - from..start as usize - from + len as usize;
            sort(&mut order[range.clone()], &mut beside[range]);
        }
    });
}

fn sort_words(words: Vec<u64>, keyed: usize, runs: &[(u32, u32)], order: &mut Option<Vec<u32>>) -> Vec<u64> {
    let mut times: Vec<u64> = match order {
        Some(order) => order.par_iter().with_min_len(TASK_ROWS).map(|&row| words[row as usize]).collect(),
        None => words[..keyed].to_vec(),
    };
    let is_sorted =
        |times: &[u64], &(start, len): &(u32, u32)| times[start as usize..(start + len) as usize].is_sorted();
    if runs.par_iter().with_min_len(1 << 10).all(|run| is_sorted(&times, run)) {
        return times;
    }
    let rows = order.get_or_insert_with(|| (0..keyed as u32).collect());
    for_each_run(runs, rows, &mut times, |rows, times| {
        if !times.is_sorted() {
            sort_run(rows, times);
        }
    });
    times
}

/// Largest length of a run for insertion sort.
const SHORT: usize = 16;

/// Sorts the times of one run together with its rows.
fn sort_run(rows: &mut [u32], times: &mut [u64]) {
    if times.len() <= SHORT {
        for end in 1..times.len() {
            let mut at = end;
            while at > 0 && times[at - 1] > times[at] {
                times.swap(at - 1, at);
                rows.swap(at - 1, at);
                at -= 1;
            }
        }
        return;
    }
    let bounds = times.iter().fold((u64::MAX, 0), |(least, most), &time| (least.min(time), most.max(time)));
    let row_bits = usize::BITS - times.len().leading_zeros();
    let bits = u64::BITS - (bounds.1 - bounds.0).leading_zeros();
    match bits + row_bits <= u64::BITS {
        true => sort_entries::<u64>(rows, times, bounds.0, row_bits, |entry| entry >> row_bits),
        false => sort_entries::<u128>(rows, times, bounds.0, row_bits, |entry| (entry >> row_bits) as u64),
    }
}

/// [`sort_run`] with integers that hold a time's `distance` from the least time and a position of `row_bits` bits.
fn sort_entries<E: Entry>(
    rows: &mut [u32],
    times: &mut [u64],
    least: u64,
    row_bits: u32,
    distance: impl Fn(E) -> u64 + Sync,
) {
    let part = |(part, times): (usize, &[u64])| {
        let places = (part * TASK_ROWS) as u32..;
        times.iter().zip(places).map(|(&time, place)| E::new((time - least).into(), place, row_bits)).collect()
    };
    let entries = bucket::sort(times.par_chunks(TASK_ROWS).enumerate().map(part).collect(), row_bits);
    let before = rows.to_vec();
    let all = entries.into_par_iter().zip(times).zip(rows).with_min_len(TASK_ROWS);
    all.for_each(|((entry, time), row)| {
        (*time, *row) = (least + distance(entry), before[entry.row(row_bits) as usize]);
    });
}

fn sort_values(times: &Vector, keyed: usize, runs: &[(u32, u32)], order: &mut Option<Vec<u32>>) -> Arc<Vector> {
    let rows = order.get_or_insert_with(|| (0..keyed as u32).collect());
    let mut nothing = vec![(); keyed];
    let by_time =
        |a: &u32, b: &u32| compare_values(&times.data, *a as usize, &times.data, *b as usize).then_with(|| a.cmp(b));
    for_each_run(runs, rows, &mut nothing, |rows, _| {
        if rows.len() > TASK_ROWS { rows.par_sort_unstable_by(by_time) } else { rows.sort_unstable_by(by_time) }
    });
    Arc::new(times.gather(rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn positions_are_those_of_a_binary_search(
            mut run in prop::collection::vec(prop_oneof![0u64..50, any::<u64>(), Just(u64::MAX), Just(0)], 0..200),
            word in prop_oneof![0u64..50, any::<u64>(), Just(u64::MAX), Just(0)],
        ) {
            run.sort_unstable();
            let (upto, below) = (|t: &u64| *t <= word, |t: &u64| *t < word);
            for guess in [0, run.len() / 2, run.len()] {
                prop_assert_eq!(position(&run, guess, |time| upto(&time)), run.partition_point(upto));
                prop_assert_eq!(position(&run, guess, |time| below(&time)), run.partition_point(below));
            }
            for from in [0, run.len() / 3] {
                let matches = Matches { starts: vec![from as u32, 0], lens: vec![(run.len() - from) as u32, 0] };
                for equal in [true, false] {
                    let expected = if equal { run[from..].partition_point(upto) } else { run[from..].partition_point(below) };
                    prop_assert_eq!(places_of_words(&run, &[word, word], equal, &matches), vec![expected as u32, 0]);
                }
            }
        }

        #[test]
        fn places_in_long_runs(exponent in 1..6i32, words in prop::collection::vec(any::<u32>(), 1..20)) {
            // Evenly spread for an exponent of one, increasingly uneven for larger ones.
            let len = 10_000u32;
            let time = |at: u32| (f64::from(at) / f64::from(len)).powi(exponent) * f64::from(u32::MAX);
            let run: Vec<u64> = (0..len).map(|at| time(at) as u64).collect();
            let words: Vec<u64> = words.into_iter().map(u64::from).collect();
            let matches = Matches { starts: vec![0; words.len()], lens: vec![len; words.len()] };
            let expected: Vec<u32> = words.iter().map(|word| run.partition_point(|time| time < word) as u32).collect();
            prop_assert_eq!(places_of_words(&run, &words, false, &matches), expected);
        }

        #[test]
        fn runs_are_sorted(times in prop::collection::vec(prop_oneof![0u64..50, any::<u64>(), Just(u64::MAX)], 0..6000)) {
            let mut expected: Vec<(u64, u32)> = times.iter().copied().zip(7..).collect();
            expected.sort_unstable();
            let (mut sorted, mut rows) = (times, expected.iter().map(|(_, row)| *row).collect::<Vec<_>>());
            rows.sort_unstable();
            sort_run(&mut rows, &mut sorted);
            prop_assert_eq!(sorted.into_iter().zip(rows).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn runs_are_sorted_in_tasks() {
        let len = 3 * TASK_ROWS;
        let words: Vec<u64> = (0..len as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).collect();
        let runs = [(1, 10), (11, (TASK_ROWS + 7) as u32), ((TASK_ROWS + 30) as u32, 1 << 15)];
        let mut order = None;
        let times = sort_words(words.clone(), len, &runs, &mut order);
        let order = order.unwrap();
        assert!(times.iter().zip(&order).all(|(&time, &row)| words[row as usize] == time));
        for (start, len) in runs {
            let range = start as usize..(start + len) as usize;
            assert!(times[range.clone()].is_sorted());
            let mut rows = order[range.clone()].to_vec();
            rows.sort_unstable();
            assert!(rows.into_iter().map(|row| row as usize).eq(range));
        }
    }
}
