//! Functions that combine lists with lists and with values: concatenation, membership, intersection, length.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array, make_comparator, new_null_array};
use arrow::compute::{SortOptions, concat, take};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use super::lists::{Gathered, Order, element, list};
use super::own::{Call, Own, Typed, text_like, whole_like};
use crate::dialect::lists::{Lists, keys, rows};
use crate::dialect::types::common;

pub(super) fn functions() -> Vec<Own> {
    vec![
        // `||`: NULL makes NULL.
        Own::new("list_after_list", concat_types, |call| {
            let there = |row| call.all(row).then_some(row as u64);
            let joined = Pooled::of(call)?.concatenated()?;
            Ok(take(&joined, &(0..call.rows).map(there).collect::<UInt64Array>(), None)?)
        }),
        Own::new("array_concat", concat_types, |call| match &call.to {
            DataType::Null => Ok(new_null_array(&DataType::Null, call.rows)),
            _ => Pooled::of(call)?.concatenated(),
        }),
        Own::new("array_append", |t| value_types(t, false), |call| Pooled::of(&with_list(call, 1)?)?.concatenated()),
        Own::new("array_prepend", |t| value_types(t, true), |call| Pooled::of(&with_list(call, 0)?)?.concatenated()),
        Own::new(
            "list_has_any",
            |t| pair_types(t, DataType::Boolean),
            |call| Pooled::of(call)?.compared(|pooled, [own, other]| own.iter().any(|at| pooled.is_among(*at, other))),
        ),
        Own::new(
            "list_has_all",
            |t| pair_types(t, DataType::Boolean),
            |call| Pooled::of(call)?.compared(|pooled, [own, other]| other.iter().all(|at| pooled.is_among(*at, own))),
        ),
        Own::new("array_intersect", intersect_types, |call| Pooled::of(call)?.intersected()),
        Own::new("array_resize", resize_types, resized),
    ]
}

/// The type of elements of lists with elements of both types.
pub(super) fn both(left: &DataType, right: &DataType) -> Option<DataType> {
    match (left, right) {
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        (left, right) if left == right => Some(left.clone()),
        (left, right) if text_like(left) && text_like(right) => Some(DataType::Utf8),
        (left, right) => common(left, right),
    }
}

/// The list type of all of several lists.
fn list_of_all(types: &[DataType]) -> Option<DataType> {
    let elements = types.iter().map(|ty| Some(element(&list(ty)?)));
    let all = elements.collect::<Option<Vec<_>>>()?.into_iter().try_fold(DataType::Null, |all, ty| both(&all, &ty))?;
    Some(DataType::new_list(all, true))
}

fn concat_types(types: &[DataType]) -> Option<Typed> {
    if types.iter().all(DataType::is_null) {
        return (!types.is_empty()).then(|| (types.to_vec(), DataType::Null));
    }
    let all = list_of_all(types)?;
    Some((vec![all.clone(); types.len()], all))
}

/// Types of a list and a value, or of a value and a list.
fn value_types(types: &[DataType], value_first: bool) -> Option<Typed> {
    let (of, value) = match types {
        [value, of] if value_first => (of, value),
        [of, value] => (of, value),
        _ => return None,
    };
    let ty = both(&element(&list(of)?), value)?;
    let all = DataType::new_list(ty.clone(), true);
    let types = if value_first { vec![ty, all.clone()] } else { vec![all.clone(), ty] };
    Some((types, all))
}

fn pair_types(types: &[DataType], to: DataType) -> Option<Typed> {
    (types.len() == 2).then(|| Some((vec![list_of_all(types)?; 2], to)))?
}

fn intersect_types(types: &[DataType]) -> Option<Typed> {
    let all = list_of_all(types).filter(|_| types.len() == 2)?;
    Some((vec![all.clone(); 2], all))
}

fn resize_types(types: &[DataType]) -> Option<Typed> {
    let (of, length, value) = match types {
        [of, length] => (of, length, None),
        [of, length, value] => (of, length, Some(value)),
        _ => return None,
    };
    let ty = element(&list(of)?);
    // The list keeps its type.
    let known = value.is_none_or(|value| ty.is_null() || both(&ty, value).is_some());
    let of = DataType::new_list(if ty.is_null() { value.cloned().unwrap_or(ty) } else { ty }, true);
    let value = value.map(|_| element(&of));
    (whole_like(length) && known).then(|| {
        let types = [of.clone(), DataType::Int64].into_iter().chain(value).collect();
        (types, of)
    })
}

/// The call with argument `at`, values, as lists of one value each.
fn with_list(call: &Call, at: usize) -> Result<Call> {
    let mut args = call.args.clone();
    let offsets = arrow::buffer::OffsetBuffer::from_lengths(std::iter::repeat_n(1, args[at].len()));
    let field = Arc::new(arrow::datatypes::Field::new_list_field(args[at].data_type().clone(), true));
    args[at] = Arc::new(arrow::array::ListArray::try_new(field, offsets, Arc::clone(&args[at]), None)?);
    Ok(Call { name: call.name, args, rows: call.rows, to: call.to.clone() })
}

/// The elements of all list arguments as one array.
struct Pooled {
    elements: ArrayRef,
    /// Of each argument, the ranges of its rows.
    lists: Vec<Lists>,
    order: Order,
}

impl Pooled {
    fn of(call: &Call) -> Result<Self> {
        let mut lists: Vec<Lists> = call.args.iter().map(|list| rows(list.as_list::<i32>())).collect();
        let parts: Vec<&dyn Array> = lists.iter().map(|lists| lists.elements.as_ref()).collect();
        let elements = concat(&parts)?;
        let mut begin = 0;
        for list in &mut lists {
            for range in list.rows.iter_mut().flatten() {
                *range = range.start + begin..range.end + begin;
            }
            begin += list.elements.len();
        }
        let keys = keys(&elements);
        let order = make_comparator(&keys, &keys, SortOptions::default())?;
        Ok(Self { elements, lists, order })
    }

    fn row_count(&self) -> usize {
        self.lists[0].rows.len()
    }

    /// The indices of the elements of a list that are not NULL; `None` for NULL.
    fn present(&self, argument: usize, row: usize) -> Option<Vec<usize>> {
        let range = self.lists[argument].rows[row].clone()?;
        let is_null = self.elements.data_type().is_null();
        Some(range.filter(|&at| !is_null && self.elements.is_valid(at)).collect())
    }

    fn is_among(&self, at: usize, others: &[usize]) -> bool {
        others.iter().any(|other| (self.order)(at, *other).is_eq())
    }

    /// The elements of all arguments in order; NULL lists have none.
    fn concatenated(self) -> Result<ArrayRef> {
        let mut out = Gathered::default();
        for row in 0..self.row_count() {
            let ranges = self.lists.iter().filter_map(|list| list.rows[row].clone());
            out.push(Some(ranges.flatten().map(Some).collect()));
        }
        out.finish(&self.elements)
    }

    /// `holds` for the non-NULL elements of both lists of each row.
    fn compared(&self, holds: impl Fn(&Self, [&[usize]; 2]) -> bool) -> Result<ArrayRef> {
        let row = |row| {
            let (own, other) = self.present(0, row).zip(self.present(1, row))?;
            Some(holds(self, [&own, &other]))
        };
        Ok(Arc::new((0..self.row_count()).map(row).collect::<BooleanArray>()))
    }

    /// The different elements of the longer list, or of the second one of equally long ones, that are in the other list, too.
    fn intersected(self) -> Result<ArrayRef> {
        let mut out = Gathered::default();
        for row in 0..self.row_count() {
            let Some(own) = self.present(0, row) else {
                out.push(None);
                continue;
            };
            let other = self.present(1, row).unwrap_or_default();
            let length = |argument: usize| self.lists[argument].rows[row].as_ref().map_or(0, |row| row.len());
            let (shorter, longer) = if length(1) < length(0) { (other, own) } else { (own, other) };
            let mut found: Vec<usize> = vec![];
            for at in longer {
                if self.is_among(at, &shorter) && !self.is_among(at, &found) {
                    found.push(at);
                }
            }
            out.push(Some(found.into_iter().map(Some).collect()));
        }
        out.finish(&self.elements)
    }
}

/// Lists with other lengths: cut off, or filled up with a value; no length is the length 0.
fn resized(call: &Call) -> Result<ArrayRef> {
    let lists = rows(call.args[0].as_list::<i32>());
    let value = call.args.get(2);
    let parts: Vec<&dyn Array> = std::iter::once(&lists.elements).chain(value).map(|part| part.as_ref()).collect();
    let elements = concat(&parts)?;
    let mut out = Gathered::default();
    for (row, range) in lists.rows.iter().enumerate() {
        let Some(range) = range else {
            out.push(None);
            continue;
        };
        let Ok(length) = usize::try_from(call.integer(1, row).unwrap_or(0)) else {
            return exec_err!("list_resize to a length of {}", call.integer(1, row).unwrap_or(0));
        };
        let filler = value.map(|_| lists.elements.len() + row);
        let kept = range.clone().map(Some).take(length);
        out.push(Some(kept.chain(std::iter::repeat_n(filler, length.saturating_sub(range.len()))).collect()));
    }
    out.finish(&elements)
}
