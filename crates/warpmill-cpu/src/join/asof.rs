//! The order of the rows of each key of a hash build, and the one row that an ASOF join finds in it.

use std::sync::Arc;

use rayon::prelude::*;
use warpmill_ir::Nearest;

use super::Matches;
use crate::sort::normalize::{compare_values, ordered_f32, ordered_f64};
use crate::vector::{Data, NULL_ROW, Vector};

/// What orders the rows of each key, by row: ascending among those of one key.
#[derive(Debug)]
pub(super) enum Times {
    /// Words that compare as the values do.
    Words(Vec<u64>),
    /// Values that no word holds.
    Values(Arc<Vector>),
}

/// Rows that one task sorts.
const TASK_ROWS: usize = 1 << 16;

/// The word of each value, where words hold them. NULLs have any.
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
    /// Sorts the first `keyed` rows of each of `runs`, the rows of repeated keys in `order` (`None`: as they are), by `times`, and gives
    /// the times in that order.
    pub fn sort(times: &Arc<Vector>, keyed: usize, runs: &[(u32, u32)], order: &mut Option<Vec<u32>>) -> Self {
        match words(&times.data) {
            Some(words) => Times::Words(sort_words(words, keyed, runs, order)),
            None => Times::Values(sort_values(times, keyed, runs, order)),
        }
    }

    /// Replaces each range of `matches` by the row in it that is nearest to the value of `values`, or [`NULL_ROW`].
    pub fn pick(&self, values: &Vector, nearest: Nearest, matches: &mut Matches) {
        match self {
            Times::Words(times) => {
                let Some(words) = words(&values.data) else {
                    unreachable!("a value that is not held as the order is");
                };
                pick_words(times, &words, values, nearest, matches);
            }
            Times::Values(times) => {
                let Matches { starts, lens } = matches;
                for (row, (start, &len)) in starts.iter_mut().zip(&*lens).enumerate() {
                    let from = *start;
                    let is_before = |at: u32| {
                        let order = compare_values(&times.data, (from + at) as usize, &values.data, row);
                        if includes_equal(nearest) { order.is_le() } else { order.is_lt() }
                    };
                    let len = if values.is_valid(row) { len } else { 0 };
                    let (mut low, mut high) = (0, len);
                    while low < high {
                        let middle = low + (high - low) / 2;
                        if is_before(middle) { low = middle + 1 } else { high = middle }
                    }
                    *start = chosen(from, low, len, nearest);
                }
            }
        }
        matches.lens.clear();
    }
}

/// Whether times equal to a value count as those before it, where the last before it, or the first after it, is taken.
fn includes_equal(nearest: Nearest) -> bool {
    matches!(nearest, Nearest::AtMost | Nearest::Above)
}

/// The row that is taken of `len` rows from `from` on, of which the first `before` are before the value.
#[inline(always)]
fn chosen(from: u32, before: u32, len: u32, nearest: Nearest) -> u32 {
    match nearest {
        Nearest::AtMost | Nearest::Below if before > 0 => from + before - 1,
        Nearest::AtLeast | Nearest::Above if before < len => from + before,
        _ => NULL_ROW,
    }
}

fn pick_words(times: &[u64], words: &[u64], values: &Vector, nearest: Nearest, matches: &mut Matches) {
    let Matches { starts, lens } = matches;
    if let Some(validity) = &values.validity {
        lens.iter_mut().enumerate().filter(|(row, _)| !validity.get(*row)).for_each(|(_, len)| *len = 0);
    }
    // Times before a value are those below a bound.
    let equal = includes_equal(nearest);
    for ((start, &len), &word) in starts.iter_mut().zip(&*lens).zip(words) {
        let from = *start as usize;
        let run = &times[if len == 0 { 0..0 } else { from..from + len as usize }];
        let before = if equal { position(run, word, |time| time <= word) } else { position(run, word, |t| t < word) };
        *start = chosen(*start, before as u32, len, nearest);
    }
}

/// Runs up to this long are searched from their middle.
const SHORT: usize = 16;

/// The number of times in a run for which `is_before` holds, which are its first: guessed from its ends, as if times were evenly
/// spread, and then found in steps that double from there.
#[inline(always)]
fn position(run: &[u64], word: u64, is_before: impl Fn(u64) -> bool) -> usize {
    let (Some(&first), Some(&last)) = (run.first(), run.last()) else { return 0 };
    if run.len() <= SHORT {
        return run.partition_point(|&time| is_before(time));
    }
    if !is_before(first) {
        return 0;
    }
    if is_before(last) {
        return run.len();
    }
    // The first is before the value, the last is not.
    let part = (word - first) as f64 / (last - first) as f64;
    let guess = ((part * (run.len() - 1) as f64) as usize).min(run.len() - 1);
    let (mut low, mut high) = (1, run.len() - 1);
    let mut step = 4;
    if is_before(run[guess]) {
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
    let low = low.min(high);
    low + run[low..high].partition_point(|&time| is_before(time))
}

/// Runs as tasks of about [`TASK_ROWS`] rows: each with its runs and the rows that these lie in.
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

/// Calls `sort` with the parts of `order`, and of what lies beside it, of each run, in parallel.
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
        if times.is_sorted() {
            return;
        }
        let mut pairs: Vec<(u64, u32)> = times.iter().copied().zip(rows.iter().copied()).collect();
        if pairs.len() > TASK_ROWS {
            pairs.par_sort_unstable()
        } else {
            pairs.sort_unstable()
        }
        for ((time, row), (own_time, own_row)) in pairs.into_iter().zip(times.iter_mut().zip(rows.iter_mut())) {
            (*own_time, *own_row) = (time, row);
        }
    });
    times
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
            prop_assert_eq!(position(&run, word, |time| time <= word), run.partition_point(|&time| time <= word));
            prop_assert_eq!(position(&run, word, |time| time < word), run.partition_point(|&time| time < word));
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
