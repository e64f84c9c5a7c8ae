//! Functions of lists, and functions of both lists and texts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, UInt64Array, make_comparator};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};

use super::own::{Call, Is, Own, Typed, text_like, typed, whole_like};
use super::texts::between;
use crate::dialect::lists::{Lists, keys, rows};
use crate::dialect::types::common;
use crate::dialect::uuids::UUID;

pub(super) fn functions() -> Vec<Own> {
    use DataType::{Boolean, Int64};
    vec![
        Own::new("array_extract", extract_types, extract),
        Own::new("list_slice", slice_types, slice),
        Own::new(
            "length",
            |t| Some((vec![list_or_text(t.first().filter(|_| t.len() == 1)?)?], Int64)),
            |call| match call.args[0].data_type() {
                DataType::Utf8 => call.integers(|row| Ok(call.text(0, row).map(|text| text.chars().count() as i64))),
                _ => lengths(call),
            },
        ),
        Own::new("array_length", |t| Some((vec![list(t.first().filter(|_| t.len() == 1)?)?], Int64)), lengths),
        Own::new(
            "list_contains",
            |t| member_types(t, Boolean),
            |call| {
                let found = positions(call)?;
                Ok(Arc::new(found.into_iter().map(|at| at.map(|at| at.is_some())).collect::<BooleanArray>()))
            },
        ),
        Own::new(
            "contains",
            |t| match t {
                [text, _] if list(text).is_none() || text.is_null() => typed(t, &[Is::Text; 2], Boolean),
                t => member_types(t, Boolean),
            },
            |call| match call.args[0].data_type() {
                DataType::Utf8 => call.bools(|row| {
                    Ok(Option::zip(call.text(0, row), call.text(1, row)).map(|(text, part)| text.contains(part)))
                }),
                _ => {
                    let found = positions(call)?;
                    Ok(Arc::new(found.into_iter().map(|at| at.map(|at| at.is_some())).collect::<BooleanArray>()))
                }
            },
        ),
        Own::new(
            "list_position",
            |t| member_types(t, DataType::Int32),
            |call| {
                let found = positions(call)?;
                Ok(Arc::new(
                    found
                        .into_iter()
                        .map(|at| at.flatten().map(|at| at as i32 + 1))
                        .collect::<arrow::array::Int32Array>(),
                ))
            },
        ),
        Own::new("list_sort", sort_types, |call| sort(call, false)),
        Own::new("list_reverse_sort", sort_types, |call| sort(call, true)),
        Own::new("list_reverse", same_list, |call| gathered(call, |_, range| Ok(range.rev().map(Some).collect()))),
        Own::new("list_distinct", same_list, |call| {
            let lists = lists(call, 0);
            let order = comparator(&lists.elements, false, false)?;
            gathered(call, |_, range| {
                let mut values: Vec<usize> = range.filter(|&at| lists.elements.is_valid(at)).collect();
                values.sort_by(|a, b| order(*a, *b).then(a.cmp(b)));
                values.dedup_by(|a, b| order(*a, *b).is_eq());
                values.sort_unstable();
                Ok(values.into_iter().map(Some).collect())
            })
        }),
        Own::new("list_head", head_types, head),
        Own::new("list_select", select_types, |call| {
            let chosen = call.args[1].as_list::<i32>();
            gathered(call, |row, range| {
                let Some(at) = chosen.is_valid(row).then(|| chosen.value(row)) else { return Ok(vec![]) };
                let place = |at: Option<i64>| {
                    let at = usize::try_from(at? - 1).ok()?;
                    (range.start + at < range.end).then_some(range.start + at)
                };
                Ok(at.as_primitive::<Int64Type>().iter().map(place).collect())
            })
        }),
        Own::new("list_where", where_types, |call| {
            let chosen = call.args[1].as_list::<i32>();
            gathered(call, |row, range| {
                let Some(mask) = chosen.is_valid(row).then(|| chosen.value(row)) else { return Ok(vec![]) };
                let mask = mask.as_boolean();
                if mask.null_count() > 0 {
                    return exec_err!("NULLs are not allowed as list elements in the second input parameter");
                }
                let kept = mask.iter().enumerate().filter(|(_, kept)| *kept == Some(true));
                Ok(kept.map(|(at, _)| (range.start + at < range.end).then_some(range.start + at)).collect())
            })
        }),
        Own::new("array_to_string", joined_types, |call| {
            let lists = call.args[0].as_list::<i32>();
            call.texts(|row| {
                let (true, Some(by)) = (lists.is_valid(row), call.text(1, row)) else { return Ok(None) };
                let texts = lists.value(row);
                let parts: Vec<&str> = texts.as_string::<i32>().iter().flatten().collect();
                Ok((texts.is_empty() || !parts.is_empty()).then(|| parts.join(by)))
            })
        }),
        Own::new(
            "list_string_agg",
            |t| typed(t, &[Is::Texts], DataType::Utf8).or_else(|| typed(t, &[Is::Texts, Is::Text], DataType::Utf8)),
            |call| {
                let lists = call.args[0].as_list::<i32>();
                call.texts(|row| {
                    if lists.is_null(row) {
                        return Ok(None);
                    }
                    let texts = lists.value(row);
                    let parts: Vec<&str> = texts.as_string::<i32>().iter().flatten().collect();
                    let by = if call.args.len() == 2 { call.text(1, row) } else { Some(",") };
                    Ok(by.filter(|_| !parts.is_empty()).map(|by| parts.join(by)))
                })
            },
        ),
    ]
}

/// The list type of values of a type, with 32-bit offsets; `None` for non-lists.
pub(super) fn list(ty: &DataType) -> Option<DataType> {
    match ty {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Some(DataType::new_list(field.data_type().clone(), true))
        }
        DataType::Null => Some(DataType::new_list(DataType::Null, true)),
        _ => None,
    }
}

fn list_or_text(ty: &DataType) -> Option<DataType> {
    if text_like(ty) && !ty.is_null() { Some(DataType::Utf8) } else { list(ty) }
}

pub(super) fn element(list: &DataType) -> DataType {
    match list {
        DataType::List(field) => field.data_type().clone(),
        other => other.clone(),
    }
}

fn same_list(types: &[DataType]) -> Option<Typed> {
    let list = list(types.first().filter(|_| types.len() == 1)?)?;
    Some((vec![list.clone()], list))
}

fn extract_types(types: &[DataType]) -> Option<Typed> {
    match types {
        [of, at] if whole_like(at) => {
            let of = list_or_text(of)?;
            let to = element(&of);
            Some((vec![of, DataType::Int64], to))
        }
        _ => None,
    }
}

fn lists(call: &Call, arg: usize) -> Lists {
    rows(call.args[arg].as_list::<i32>())
}

fn lengths(call: &Call) -> Result<ArrayRef> {
    let lists = lists(call, 0);
    Ok(Arc::new(lists.rows.iter().map(|row| row.as_ref().map(|row| row.len() as i64)).collect::<Int64Array>()))
}

/// Index of element `at`, where 1 is the first and -1 the last.
fn position(at: i64, length: usize) -> Option<usize> {
    match at {
        0 => None,
        1.. => usize::try_from(at - 1).ok().filter(|at| *at < length),
        _ => length.checked_sub(usize::try_from(at.unsigned_abs()).ok()?),
    }
}

fn extract(call: &Call) -> Result<ArrayRef> {
    if call.args[0].data_type() == &DataType::Utf8 {
        return call.texts(|row| {
            Ok(Option::zip(call.text(0, row), call.integer(1, row)).map(|(text, at)| {
                let length = text.chars().count();
                // The first, whatever is before it.
                let at = if at == 0 { None } else { position(at, length) };
                at.map_or(String::new(), |at| between(text, at, at + 1).to_string())
            }))
        });
    }
    let lists = lists(call, 0);
    let at = |row: usize| -> Option<u64> {
        let range = lists.rows[row].clone()?;
        Some((range.start + position(call.integer(1, row)?, range.len())?) as u64)
    };
    Ok(take(&lists.elements, &(0..call.rows).map(at).collect::<UInt64Array>(), None)?)
}

fn slice_types(types: &[DataType]) -> Option<Typed> {
    match types {
        [of, bounds @ ..] if matches!(bounds.len(), 2 | 3) && bounds.iter().all(whole_like) => {
            let of = list_or_text(of)?;
            let mut types = vec![of.clone()];
            types.extend(bounds.iter().map(|_| DataType::Int64));
            Some((types, of))
        }
        _ => None,
    }
}

/// The indices of a slice, both bounds inclusive; `None`: NULL.
fn span(call: &Call, row: usize, length: usize) -> Option<Range<usize>> {
    let length = length as i64;
    let from = |at: i64| if at < 0 { (length + at).max(0) } else { (at - 1).max(0) };
    let to = |at: i64| if at < 0 { length + at + 1 } else { at.min(length) };
    let (start, end) = (from(call.integer(1, row)?), to(call.integer(2, row)?));
    Some(if start >= end { 0..0 } else { start as usize..end as usize })
}

/// The indices of a slice with negative step, from the second bound to the first; `None`: a bound is NULL.
fn span_backwards(call: &Call, row: usize, length: usize) -> Option<Range<usize>> {
    let length = length as i64;
    let place = |at: i64| if at < 0 { length.saturating_add(at).saturating_add(1) } else { at };
    let (start, end) = (place(call.integer(2, row)?).max(1) - 1, place(call.integer(1, row)?).min(length));
    Some(if start >= end { 0..0 } else { start as usize..end as usize })
}

fn slice(call: &Call) -> Result<ArrayRef> {
    if call.args[0].data_type() == &DataType::Utf8 {
        if call.args.len() == 4 {
            return exec_err!("Slice with steps is not supported for strings");
        }
        return call.texts(|row| {
            Ok(call.text(0, row).and_then(|text| {
                let span = span(call, row, text.chars().count())?;
                Some(between(text, span.start, span.end).to_string())
            }))
        });
    }
    let lists = lists(call, 0);
    let mut out = Gathered::default();
    for row in 0..call.rows {
        let step = if call.args.len() == 4 { call.integer(3, row) } else { Some(1) };
        let (Some(range), Some(step)) = (lists.rows[row].clone(), step) else {
            out.push(None);
            continue;
        };
        let span = if step < 0 { span_backwards(call, row, range.len()) } else { span(call, row, range.len()) };
        let Some(span) = span else {
            out.push(None);
            continue;
        };
        let by = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
        let all = span.map(|at| Some(range.start + at));
        match step {
            0 => return exec_err!("Slice step cannot be zero"),
            1.. => out.push(Some(all.step_by(by).collect())),
            _ => out.push(Some(all.rev().step_by(by).collect())),
        }
    }
    out.finish(&lists.elements)
}

/// Lists of elements of other lists, by index.
#[derive(Default)]
pub(super) struct Gathered {
    positions: Vec<Option<u64>>,
    lengths: Vec<usize>,
    there: Vec<bool>,
}

impl Gathered {
    pub(super) fn push(&mut self, row: Option<Vec<Option<usize>>>) {
        self.there.push(row.is_some());
        let before = self.positions.len();
        self.positions.extend(row.into_iter().flatten().map(|at| at.map(|at| at as u64)));
        self.lengths.push(self.positions.len() - before);
    }

    pub(super) fn finish(self, elements: &ArrayRef) -> Result<ArrayRef> {
        let values = take(elements, &UInt64Array::from(self.positions), None)?;
        let DataType::List(field) = DataType::new_list(values.data_type().clone(), true) else {
            return exec_err!("a list has elements");
        };
        let offsets = OffsetBuffer::from_lengths(self.lengths);
        Ok(Arc::new(ListArray::try_new(field, offsets, values, Some(NullBuffer::from(self.there)))?))
    }
}

/// Lists of the elements that `f` chooses of each list of the first argument.
fn gathered(call: &Call, f: impl Fn(usize, Range<usize>) -> Result<Vec<Option<usize>>>) -> Result<ArrayRef> {
    let lists = lists(call, 0);
    let mut out = Gathered::default();
    for (row, range) in lists.rows.iter().enumerate() {
        out.push(range.clone().map(|range| f(row, range)).transpose()?);
    }
    out.finish(&lists.elements)
}

fn member_types(types: &[DataType], to: DataType) -> Option<Typed> {
    let [of, value] = types else { return None };
    let own = element(&list(of)?);
    // A constant, which is cast when types are bound.
    if own == UUID && text_like(value) && !value.is_null() {
        return Some((vec![list(of)?, value.clone()], to));
    }
    let ty = match (&own, value) {
        (own, DataType::Null) => own.clone(),
        (DataType::Null, value) => value.clone(),
        (own, value) if own == value => own.clone(),
        (own, value) if text_like(own) && text_like(value) => DataType::Utf8,
        (own, value) => common(own, value)?,
    };
    Some((vec![DataType::new_list(ty.clone(), true), ty], to))
}

/// The positions of values in lists: `None` where the list or the value is NULL, `Some(None)` where it is not there.
fn positions(call: &Call) -> Result<Vec<Option<Option<usize>>>> {
    let lists = lists(call, 0);
    let (own, values) = (keys(&lists.elements), keys(&call.args[1]));
    let order = make_comparator(&own, &values, SortOptions::default())?;
    let of = |row: usize| {
        let range = lists.rows[row].clone()?;
        if !values.is_valid(row) || values.data_type().is_null() {
            return None;
        }
        Some(range.clone().find(|&at| own.is_valid(at) && order(at, row).is_eq()).map(|at| at - range.start))
    };
    Ok((0..call.rows).map(of).collect())
}

/// Lists of integers and texts, whose elements Arrow formats in the same way.
fn joined_types(types: &[DataType]) -> Option<Typed> {
    let [of, by] = types else { return None };
    let element = element(&list(of)?);
    let plain = text_like(&element) || element.is_integer() || element == DataType::Boolean;
    (plain && text_like(by)).then(|| (vec![DataType::new_list(DataType::Utf8, true), DataType::Utf8], DataType::Utf8))
}

fn sort_types(types: &[DataType]) -> Option<Typed> {
    let (of, how) = types.split_first()?;
    let list = list(of)?;
    let ok = how.len() <= 2 && how.iter().all(text_like);
    ok.then(|| (std::iter::once(list.clone()).chain(how.iter().map(|_| DataType::Utf8)).collect(), list))
}

pub(super) type Order = Box<dyn Fn(usize, usize) -> std::cmp::Ordering + Send + Sync>;

fn comparator(elements: &ArrayRef, descending: bool, nulls_first: bool) -> Result<Order> {
    let keys = keys(elements);
    Ok(make_comparator(&keys, &keys, SortOptions { descending, nulls_first })?)
}

/// Lists in order, NULLs last unless it is said otherwise.
fn sort(call: &Call, reverse: bool) -> Result<ArrayRef> {
    let lists = lists(call, 0);
    let mut orders: HashMap<(bool, bool), Order> = HashMap::new();
    let mut out = Gathered::default();
    for (row, range) in lists.rows.iter().enumerate() {
        let how: Vec<Option<String>> = (1..call.args.len()).map(|i| call.text(i, row).map(str::to_uppercase)).collect();
        let (mut descending, mut nulls_first) = (reverse, false);
        for word in &how {
            match word.as_deref() {
                Some("ASC" | "ASCENDING") => descending = false,
                Some("DESC" | "DESCENDING") => descending = true,
                Some("NULLS FIRST") => nulls_first = true,
                Some("NULLS LAST") => nulls_first = false,
                other => return exec_err!("{}: {other:?} is not a sort order", call.name),
            }
        }
        let key = (descending, nulls_first);
        let order = match orders.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => free.insert(comparator(&lists.elements, descending, nulls_first)?),
        };
        out.push(range.clone().map(|range| {
            let mut values: Vec<usize> = range.collect();
            values.sort_by(|a, b| order(*a, *b));
            values.into_iter().map(Some).collect()
        }));
    }
    out.finish(&lists.elements)
}

fn select_types(types: &[DataType]) -> Option<Typed> {
    let [of, chosen] = types else { return None };
    let list = list(of)?;
    let chosen =
        matches!(chosen, DataType::Null) || matches!(chosen, DataType::List(field) if whole_like(field.data_type()));
    chosen.then(|| (vec![list.clone(), DataType::new_list(DataType::Int64, true)], list))
}

fn where_types(types: &[DataType]) -> Option<Typed> {
    let [of, chosen] = types else { return None };
    let list = list(of)?;
    let chosen =
        matches!(chosen, DataType::List(field) if matches!(field.data_type(), DataType::Boolean | DataType::Null));
    chosen.then(|| (vec![list.clone(), DataType::new_list(DataType::Boolean, true)], list))
}

/// A list, a number of elements, and the name of the aggregate for errors.
fn head_types(types: &[DataType]) -> Option<Typed> {
    let [of, count, by] = types else { return None };
    let of = list(of).filter(|_| whole_like(count) && text_like(by))?;
    Some((vec![of.clone(), DataType::Int64, DataType::Utf8], of))
}

/// The first elements of lists, limited as in aggregates.
fn head(call: &Call) -> Result<ArrayRef> {
    const MOST: i64 = 1_000_000;
    gathered(call, |row, range| {
        let by = call.text(2, row).unwrap_or_default();
        match call.integer(1, row) {
            None => exec_err!("Invalid input for {by}: n value cannot be NULL"),
            Some(..=0) => exec_err!("Invalid input for {by}: n value must be > 0"),
            Some(MOST..) => exec_err!("Invalid input for {by}: n value must be < {MOST}"),
            Some(count) => Ok(range.take(count as usize).map(Some).collect()),
        }
    })
}
