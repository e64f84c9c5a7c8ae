//! Runs compiled functions over the groups of a query.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, new_null_array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;
use warpmill_engine::warpmill_gpu::device::sim::{HostFunction, HostLaunch};

use super::gather::{self, Column, NOWHERE};
use super::reasons::{is_stopped, reason};
use super::{Native, Runs};
use crate::{Error, Result};

/// Rows per thread, at least.
const ROWS_PER_THREAD: usize = 16 << 10;

/// Pieces of work per thread, so that large groups do not all fall to one thread.
const PIECES_PER_THREAD: usize = 16;

/// The results of a run.
#[derive(Debug)]
pub(in crate::udf) struct Outcome {
    /// One result per group; NULL for groups that were given up.
    pub(in crate::udf) results: ArrayRef,
    /// Groups that were given up, with reasons.
    pub(in crate::udf) given_up: Vec<(usize, String)>,
}

/// Some rows, and the group of each.
pub(in crate::udf) type Batch<'b> = (&'b [ArrayRef], &'b [usize]);

/// The results of groups `0..count` of the rows in `batches`, of type `returns`.
///
/// # Errors
/// [`Error::Cancelled`] if [`Runs::stop`] is called during the run.
pub(in crate::udf) fn run(
    native: &Native,
    runs: &Runs,
    batches: &[Batch<'_>],
    count: usize,
    returns: &DataType,
) -> Result<Outcome> {
    // From here on the run can be interrupted.
    let flag = runs.flag();
    let function = match native.function() {
        Ok(function) => function,
        Err(error) => return Ok(Outcome::not_compiled(count, returns, &error)),
    };
    let (places, offsets) = placed(batches, count)?;
    let rows = offsets[count] as usize;
    let threads = runs.threads().min(rows / ROWS_PER_THREAD + 1);
    let columns = gathered(native, batches, &places, rows, threads)?;
    drop(places);
    over((native, &function), &flag, (&columns, &offsets), threads, returns)
}

impl Outcome {
    /// The outcome of a failed compilation: the compiler is missing, or its output cannot be loaded; all groups are given up.
    fn not_compiled(count: usize, returns: &DataType, error: &Error) -> Self {
        tracing::warn!(%error, "a function is called that was to be compiled");
        let reason = error.to_string();
        Self {
            results: new_null_array(returns, count),
            given_up: (0..count).map(|group| (group, reason.clone())).collect(),
        }
    }
}

/// The results of a function of rows for all rows of `columns`, of type `returns`; each row is a group of the outcome.
///
/// # Errors
/// As for [`run`].
pub(in crate::udf) fn run_rows(
    native: &Native,
    runs: &Runs,
    columns: &[ArrayRef],
    rows: usize,
    returns: &DataType,
) -> Result<Outcome> {
    let numbers: Vec<usize> = (0..rows).collect();
    run(native, runs, &[(columns, &numbers)], rows, returns)
}

/// Runs the function over groups of rows.
fn over(
    (native, function): (&Native, &HostFunction),
    flag: &AtomicI32,
    (columns, offsets): (&[Column], &[i64]),
    threads: usize,
    returns: &DataType,
) -> Result<Outcome> {
    let count = offsets.len() - 1;
    let mut made = Results { values: vec![0; count], known: vec![0; count], status: vec![0; count] };
    work(function, native, (columns, offsets), &mut made, flag, threads);
    if flag.load(Ordering::Relaxed) != 0 || made.status.iter().any(|status| is_stopped(*status)) {
        return Err(Error::Cancelled);
    }
    let given_up = made.status.iter().enumerate().filter(|(_, status)| **status != 0);
    let given_up = given_up.map(|(group, status)| (group, reason(*status, native.lines()))).collect();
    Ok(Outcome { results: made.array(returns), given_up })
}

/// The place of each row, by batch, and the first place of each group.
fn placed(batches: &[Batch<'_>], count: usize) -> Result<(Vec<Vec<u32>>, Vec<i64>)> {
    let mut offsets = vec![0i64; count + 1];
    for group in batches.iter().flat_map(|(_, groups)| *groups).filter(|group| **group < count) {
        offsets[group + 1] += 1;
    }
    for at in 0..count {
        offsets[at + 1] += offsets[at];
    }
    if offsets[count] >= i64::from(NOWHERE) {
        let rows = offsets[count];
        return Err(Error::Limit(format!("a function of {rows} rows at once ({NOWHERE} are the limit)")));
    }
    let mut next: Vec<u32> = offsets.iter().map(|offset| *offset as u32).collect();
    let mut place = |group: &usize| match *group < count {
        true => {
            let place = next[*group];
            next[*group] += 1;
            place
        }
        false => NOWHERE,
    };
    let places = batches.iter().map(|(_, groups)| groups.iter().map(&mut place).collect()).collect();
    Ok((places, offsets))
}

/// The columns, group by group.
fn gathered(
    native: &Native,
    batches: &[Batch<'_>],
    places: &[Vec<u32>],
    rows: usize,
    threads: usize,
) -> Result<Vec<Column>> {
    let column = |at: usize| {
        let parts = batches.iter().zip(places).map(|((columns, _), places)| (&columns[at], places.as_slice()));
        gather::column(native.columns[at], parts, rows)
    };
    let count = native.columns.len();
    if threads == 1 || count == 1 {
        return (0..count).map(column).collect();
    }
    let mut columns = vec![];
    for first in (0..count).step_by(threads) {
        let numbers = first..(first + threads).min(count);
        let made: Vec<Result<Column>> = std::thread::scope(|scope| {
            let running: Vec<_> = numbers.map(|at| scope.spawn(move || column(at))).collect();
            running
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        columns.extend(made.into_iter().collect::<Result<Vec<_>>>()?);
    }
    Ok(columns)
}

/// The output columns of compiled code, with one value per group.
struct Results {
    /// The bits of f64 or i64.
    values: Vec<u64>,
    known: Vec<u8>,
    status: Vec<i32>,
}

impl Results {
    fn array(self, returns: &DataType) -> ArrayRef {
        let known = self.known.iter().zip(&self.status).map(|(known, status)| *known != 0 && *status == 0);
        let nulls = Some(NullBuffer::new(known.collect::<BooleanBuffer>()));
        let whole = self.values.iter().map(|bits| bits.cast_signed());
        match returns {
            DataType::Int64 => Arc::new(Int64Array::new(whole.collect(), nulls)),
            DataType::Int32 => Arc::new(Int32Array::new(whole.map(|value| value as i32).collect(), nulls)),
            DataType::Boolean => Arc::new(BooleanArray::new(whole.map(|value| value != 0).collect(), nulls)),
            _ => Arc::new(Float64Array::new(self.values.iter().map(|bits| f64::from_bits(*bits)).collect(), nulls)),
        }
    }
}

/// Runs `function` over all groups.
fn work(
    function: &HostFunction,
    native: &Native,
    (columns, offsets): (&[Column], &[i64]),
    made: &mut Results,
    flag: &AtomicI32,
    threads: usize,
) {
    let values: Vec<*const c_void> = columns.iter().map(|column| column.values.address()).collect();
    let present = columns.iter().map(|column| column.present.as_ref().map_or(std::ptr::null(), |bytes| bytes.as_ptr()));
    let present: Vec<*const u8> = present.collect();
    let groups = made.values.len();
    let (whole, floats) = native.constants();
    let launch = HostLaunch {
        values: values.as_ptr(),
        present: present.as_ptr(),
        offsets: offsets.as_ptr(),
        whole: whole.as_ptr(),
        floats: floats.as_ptr(),
        results: made.values.as_mut_ptr().cast(),
        known: made.known.as_mut_ptr(),
        status: made.status.as_mut_ptr(),
        cancelled: flag,
        groups: groups as i64,
    };
    let pieces = pieces(offsets, threads);
    let next = AtomicI64::new(0);
    let take = || loop {
        let at = next.fetch_add(1, Ordering::Relaxed) as usize;
        let Some([first, last]) = pieces.get(at..at + 2) else { return };
        if flag.load(Ordering::Relaxed) != 0 {
            return;
        }
        // SAFETY: the columns, constants and offsets are those of the function's types, and outlive this call; pieces have no group in common.
        unsafe { function.run(&launch, *first as i64, *last as i64) };
    };
    if threads == 1 {
        return take();
    }
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(take);
        }
        take();
    });
}

/// The first groups of pieces with about equal numbers of rows, followed by the number of groups.
fn pieces(offsets: &[i64], threads: usize) -> Vec<usize> {
    let groups = offsets.len() - 1;
    let rows = offsets[groups] / (threads * PIECES_PER_THREAD) as i64 + 1;
    let (mut begins, mut full) = (vec![0], rows);
    for (group, offset) in offsets[..groups].iter().enumerate().skip(1) {
        // A group without rows is work, too.
        let done = offset + group as i64;
        if done >= full {
            begins.push(group);
            full = done + rows;
        }
    }
    begins.push(groups);
    begins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_all_groups() {
        for offsets in [vec![0], vec![0, 0], vec![0, 5, 5, 90, 91, 100], (0..1000).collect::<Vec<i64>>()] {
            let found = pieces(&offsets, 3);
            assert_eq!((found[0], found[found.len() - 1]), (0, offsets.len() - 1));
            assert!(found.windows(2).all(|pair| pair[0] <= pair[1]), "{found:?}");
        }
    }

    #[test]
    fn rows_go_to_their_groups_in_order() {
        let groups = [[1, 0, 7, 1].as_slice(), &[0, 1]];
        let batches: Vec<Batch<'_>> = groups.iter().map(|groups| ([].as_slice(), *groups)).collect();
        let (places, offsets) = placed(&batches, 2).unwrap();
        assert_eq!(offsets, [0, 2, 5]);
        assert_eq!(places, [vec![2, 0, NOWHERE, 3], vec![1, 4]]);
    }
}
