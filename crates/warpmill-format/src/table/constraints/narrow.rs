//! Keys of a single integer-like column: numbers of 64 bits, sorted when complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt64Array};
use arrow::compute::{cast, max, min};
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use super::keys::{Freed, Twice, without_key};
use super::places::{Place, first_of};
use crate::table::TableSnapshot;
use crate::{Bitmap, ColumnStats, Result, StatValue};

/// Up to this number of new keys, each row of a row segment is looked up in them; more are merged with its sorted keys.
const FEW: usize = 4096;
/// Up to this number of new keys, only zones that admit them are searched.
const VERY_FEW: usize = 64;

/// The keys of new rows.
#[derive(Debug)]
pub(super) struct Narrow {
    data_type: DataType,
    ranks: Vec<i64>,
    /// Whether each is greater than the one before.
    ascend: bool,
}

impl Narrow {
    /// No keys yet, for a column of this type; `None` for types of another kind.
    pub fn of(data_type: &DataType) -> Option<Self> {
        let temporal = matches!(
            data_type,
            DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(..)
                | DataType::Duration(_)
        );
        let is_narrow = data_type.is_integer() || temporal;
        is_narrow.then(|| Self { data_type: data_type.clone(), ranks: vec![], ascend: true })
    }

    /// Bytes that the keys take.
    pub fn bytes(&self) -> usize {
        self.ranks.capacity() * size_of::<i64>()
    }

    /// Adds the keys of rows; rows with NULL have none.
    pub fn add(&mut self, array: &ArrayRef) -> Result<()> {
        let ranks = ranks(array)?;
        let first = self.ranks.len();
        match ranks.nulls() {
            None => self.ranks.extend_from_slice(ranks.values()),
            Some(_) => self.ranks.extend(ranks.iter().flatten()),
        }
        self.ascend &= self.ranks[first.saturating_sub(1)..].windows(2).all(|pair| pair[0] < pair[1]);
        Ok(())
    }

    /// Sorts the keys; a key that two rows have.
    pub fn sort(&mut self) -> Option<Twice> {
        if self.ascend {
            return None;
        }
        self.ranks.par_sort_unstable();
        let twice = self.ranks.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
        self.ascend = twice.is_none();
        twice.map(|rank| self.value(rank))
    }

    /// Finds a key that a row of `base` also has, ignoring rows whose keys are `freed`. The keys must be sorted.
    pub fn look_up(&self, base: &TableSnapshot, column: usize, freed: &Freed) -> Result<Option<Twice>> {
        if self.ranks.is_empty() {
            return Ok(None);
        }
        let may_be_in = |segment: &usize| {
            let bounds = self.bounds(base.segment_stats(*segment, column));
            bounds.is_some_and(|(least, greatest)| !self.between(least, greatest).is_empty())
        };
        let segments: Vec<usize> = (0..base.num_segments()).filter(may_be_in).collect();
        let found = first_of(&segments, |&segment| {
            let place = Place { base, segment, column };
            self.look_up_in(place, freed).transpose()
        });
        Ok(found.transpose()?.map(|rank| self.value(rank)))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Sorts the keys as a set.
    pub fn merge_equal(&mut self) {
        if !self.ascend {
            self.ranks.par_sort_unstable();
            self.ranks.dedup();
            self.ascend = true;
        }
    }

    /// Removes the keys of another set. Both must be sorted.
    pub fn remove(&mut self, others: &Self) {
        self.ranks.retain(|rank| others.ranks.binary_search(rank).is_err());
    }

    /// Finds a key that no row of `base` has, ignoring rows whose keys are `freed`. The keys must be sorted as a set.
    pub fn look_up_missing(&self, base: &TableSnapshot, column: usize, freed: &Freed) -> Result<Option<Twice>> {
        let found: Vec<AtomicBool> = self.ranks.iter().map(|_| AtomicBool::new(false)).collect();
        (0..base.num_segments()).into_par_iter().try_for_each(|segment| -> Result<()> {
            for rank in self.all_in(Place { base, segment, column }, freed)? {
                if let Ok(at) = self.ranks.binary_search(&rank) {
                    found[at].store(true, Ordering::Relaxed);
                }
            }
            Ok(())
        })?;
        let missing = found.iter().position(|found| !found.load(Ordering::Relaxed));
        Ok(missing.map(|at| self.value(self.ranks[at])))
    }

    /// The keys within the bounds of a row segment; `None` if no row can have one.
    fn wanted_in(&self, place: Place<'_>) -> Option<&[i64]> {
        let (least, greatest) = self.bounds(place.base.segment_stats(place.segment, place.column))?;
        let wanted = self.between(least, greatest);
        (!wanted.is_empty()).then_some(wanted)
    }

    /// The sorted keys from `least` to `greatest`.
    fn between(&self, least: i64, greatest: i64) -> &[i64] {
        let first = self.ranks.partition_point(|&rank| rank < least);
        let end = self.ranks.partition_point(|&rank| rank <= greatest);
        &self.ranks[first..end]
    }

    /// Finds a key that a row of one row segment also has, ignoring rows whose keys are `freed`.
    fn look_up_in(&self, place: Place<'_>, freed: &Freed) -> Result<Option<i64>> {
        let Some(wanted) = self.wanted_in(place) else { return Ok(None) };
        let freed = without_key(place.base, place.segment, freed)?;
        let freed = freed.as_deref();
        if freed.is_some_and(Bitmap::all) {
            return Ok(None);
        }
        let is_kept = |row: usize| freed.is_none_or(|freed| !freed.get(row));
        if wanted.len() <= VERY_FEW && self.data_type != DataType::UInt64 {
            return place.find_number(wanted, is_kept);
        }
        let ranks = ranks(&place.base.array(place.segment, place.column)?)?;
        let mut there = kept_within(&ranks, wanted, is_kept);
        if wanted.len() <= FEW {
            return Ok(there.find(|rank| wanted.binary_search(rank).is_ok()));
        }
        let mut there: Vec<i64> = there.collect();
        if !there.is_sorted() {
            there.par_sort_unstable();
        }
        Ok(first_common(wanted, &there))
    }

    /// The keys that rows of one row segment also have, ignoring rows whose keys are `freed`.
    fn all_in(&self, place: Place<'_>, freed: &Freed) -> Result<Vec<i64>> {
        let Some(wanted) = self.wanted_in(place) else { return Ok(vec![]) };
        let freed = without_key(place.base, place.segment, freed)?;
        let freed = freed.as_deref();
        if freed.is_some_and(Bitmap::all) {
            return Ok(vec![]);
        }
        let is_kept = |row: usize| freed.is_none_or(|freed| !freed.get(row));
        if wanted.len() <= VERY_FEW && self.data_type != DataType::UInt64 {
            return place.find_numbers(wanted, is_kept);
        }
        let ranks = ranks(&place.base.array(place.segment, place.column)?)?;
        Ok(kept_within(&ranks, wanted, is_kept).filter(|rank| wanted.binary_search(rank).is_ok()).collect())
    }

    /// Bounds of the ranks in a row segment; `None` if it has no values.
    fn bounds(&self, stats: &ColumnStats) -> Option<(i64, i64)> {
        if stats.nulls == stats.rows {
            return None;
        }
        let shift = if self.data_type == DataType::UInt64 { 1 << 63 } else { 0 };
        let rank = |bound: &Option<StatValue>, unknown: i64| match bound {
            Some(StatValue::Int(value)) => i64::try_from(value - shift).unwrap_or(unknown),
            _ => unknown,
        };
        Some((rank(&stats.min, i64::MIN), rank(&stats.max, i64::MAX)))
    }

    /// The key with this rank, as an array.
    fn value(&self, rank: i64) -> Twice {
        let number: ArrayRef = match self.data_type {
            DataType::UInt64 => Arc::new(UInt64Array::from(vec![rank as u64 ^ 1 << 63])),
            _ => Arc::new(Int64Array::from(vec![rank])),
        };
        let typed = match &self.data_type {
            ty @ (DataType::Date32 | DataType::Time32(_)) => {
                cast(&number, &DataType::Int32).and_then(|days| cast(&days, ty))
            }
            ty => cast(&number, ty),
        };
        Twice { values: vec![typed.unwrap_or(number)], row: 0 }
    }
}

/// Numbers in the order of the values.
fn ranks(array: &ArrayRef) -> Result<Int64Array> {
    let numbers = match array.data_type() {
        DataType::UInt64 => {
            let shifted: Int64Array = array.as_primitive::<UInt64Type>().unary(|value| (value ^ 1 << 63) as i64);
            return Ok(shifted);
        }
        DataType::Date32 | DataType::Time32(_) => cast(&cast(array, &DataType::Int32)?, &DataType::Int64)?,
        DataType::Int64 => array.clone(),
        _ => cast(array, &DataType::Int64)?,
    };
    Ok(numbers.as_primitive::<Int64Type>().clone())
}

/// The numbers of rows that are `kept` between the least and the greatest of `wanted` (ascending, not empty).
fn kept_within<'a>(
    ranks: &'a Int64Array,
    wanted: &[i64],
    is_kept: impl Fn(usize) -> bool + 'a,
) -> impl Iterator<Item = i64> + 'a {
    let within = wanted[0]..=wanted[wanted.len() - 1];
    let rows = ranks.values().iter().enumerate();
    rows.filter(move |(row, rank)| within.contains(*rank) && ranks.is_valid(*row) && is_kept(*row))
        .map(|(_, rank)| *rank)
}

/// The first number that both of two ascending lists have.
fn first_common(a: &[i64], b: &[i64]) -> Option<i64> {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => return Some(a[i]),
        }
    }
    None
}

/// The least and the greatest of values of such a type, ignoring NULLs.
pub(super) fn bounds(array: &ArrayRef) -> Result<Option<(StatValue, StatValue)>> {
    let ranks = ranks(array)?;
    let shift = if *array.data_type() == DataType::UInt64 { 1 << 63 } else { 0 };
    let value = |rank: Option<i64>| rank.map(|rank| StatValue::Int(i128::from(rank) + shift));
    Ok(value(min(&ranks)).zip(value(max(&ranks))))
}
