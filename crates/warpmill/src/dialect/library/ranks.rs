//! List aggregates that depend on the order or the frequency of elements: used for aggregates of rows outside of programs.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, ListArray, MapArray, StructArray, UInt64Array, make_comparator,
    new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Field, Fields, Float64Type};
use datafusion::common::{Result, exec_err};

use super::own::{Call, Is, Own, Typed, number_like, typed};
use crate::dialect::lists::{Lists, keys, rows};
use crate::dialect::operators::strict_cast;
use crate::dialect::states;

pub(super) fn functions() -> Vec<Own> {
    vec![
        Own::new("list_mode", element_type, mode),
        Own::new("list_histogram", histogram_types, histogram),
        Own::new("list_top_k", top_types, most_frequent),
        Own::new("list_entropy", any_list, entropy),
        Own::new("list_skewness", numbers, |call| shaped(call, Shape::Skewness)),
        Own::new("list_kurtosis", numbers, |call| shaped(call, Shape::Kurtosis { sample: true })),
        Own::new("list_kurtosis_pop", numbers, |call| shaped(call, Shape::Kurtosis { sample: false })),
        Own::new("list_moment_2", numbers, |call| floats(call, |values| central_power(values, 2))),
        Own::new("list_moment_3", numbers, |call| floats(call, |values| central_power(values, 3))),
        Own::new("list_moment_4", numbers, |call| floats(call, |values| central_power(values, 4))),
        Own::new("list_sem", numbers, |call| {
            floats(call, |values| Some((variance(values, 0)? / values.len() as f64).sqrt()))
        }),
        Own::new("list_var_pop", numbers, |call| floats(call, |values| variance(values, 0))),
        Own::new("list_var_samp", numbers, |call| floats(call, |values| variance(values, 1))),
        Own::new("list_stddev_pop", numbers, |call| floats(call, |values| Some(variance(values, 0)?.sqrt()))),
        Own::new("list_stddev_samp", numbers, |call| floats(call, |values| Some(variance(values, 1)?.sqrt()))),
        Own::new("list_geomean", numbers, |call| {
            floats(call, |values| Some((values.iter().map(|x| x.ln()).sum::<f64>() / values.len() as f64).exp()))
        }),
        Own::new("list_bool_and", |t| typed(t, &[Is::Bools], DataType::Boolean), |call| truths(call, true)),
        Own::new("list_bool_or", |t| typed(t, &[Is::Bools], DataType::Boolean), |call| truths(call, false)),
        Own::new("list_grade_up", |t| Some((any_list(t)?.0, DataType::new_list(DataType::Int64, true))), grade_up),
        Own::new(
            "list_unique",
            |t| Some((any_list(t)?.0, DataType::UInt64)),
            |call| {
                let lists = lists(call);
                let order = comparator(&lists)?;
                let count =
                    |values: Vec<usize>| sorted(values, &order).chunk_by(|a, b| order(*a, *b).is_eq()).count() as u64;
                Ok(Arc::new(
                    lists
                        .rows
                        .iter()
                        .map(|row| row.clone().map(|row| count(valid(&lists, row))))
                        .collect::<UInt64Array>(),
                ))
            },
        ),
    ]
}

pub(super) fn element(types: &[DataType]) -> Option<DataType> {
    match types {
        [DataType::List(field), ..] => Some(field.data_type().clone()),
        [DataType::Null, ..] => Some(DataType::Null),
        _ => None,
    }
}

pub(super) fn list_of(element: &DataType) -> DataType {
    DataType::new_list(element.clone(), true)
}

fn any_list(types: &[DataType]) -> Option<Typed> {
    (types.len() == 1).then(|| Some((vec![list_of(&element(types)?)], DataType::Float64)))?
}

fn element_type(types: &[DataType]) -> Option<Typed> {
    (types.len() == 1).then(|| Some((vec![list_of(&element(types)?)], element(types)?)))?
}

fn numbers(types: &[DataType]) -> Option<Typed> {
    let ok = types.len() == 1 && element(types).is_some_and(|ty| number_like(&ty));
    ok.then(|| (vec![list_of(&DataType::Float64)], DataType::Float64))
}

fn histogram_types(types: &[DataType]) -> Option<Typed> {
    let key = element(types).filter(|_| types.len() == 1)?;
    Some((vec![list_of(&key)], map_type(&key)))
}

/// The type of a histogram with keys of a type.
pub(in crate::dialect) fn map_type(key: &DataType) -> DataType {
    let fields: Fields =
        vec![Field::new("key", key.clone(), false), Field::new("value", DataType::UInt64, true)].into();
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields), false)), false)
}

pub(super) fn lists(call: &Call) -> Lists {
    rows(call.args[0].as_list::<i32>())
}

pub(super) type Order = Box<dyn Fn(usize, usize) -> std::cmp::Ordering + Send + Sync>;

pub(super) fn comparator(lists: &Lists) -> Result<Order> {
    let keys = keys(&lists.elements);
    Ok(make_comparator(&keys, &keys, SortOptions { descending: false, nulls_first: false })?)
}

/// The positions of elements that are not NULL.
pub(super) fn valid(lists: &Lists, row: std::ops::Range<usize>) -> Vec<usize> {
    let no_element = lists.elements.data_type().is_null();
    row.filter(|&at| !no_element && lists.elements.is_valid(at)).collect()
}

fn sorted(mut values: Vec<usize>, order: &Order) -> Vec<usize> {
    values.sort_by(|a, b| order(*a, *b));
    values
}

/// The elements at the positions that `f` chooses of each list that has some.
fn picked(call: &Call, f: impl Fn(&Lists, &Order, Vec<usize>, usize) -> Result<Option<usize>>) -> Result<ArrayRef> {
    let lists = lists(call);
    let order = comparator(&lists)?;
    let positions = lists.rows.iter().enumerate().map(|(row, range)| {
        let Some(values) = range.clone().map(|range| valid(&lists, range)).filter(|values| !values.is_empty()) else {
            return Ok(None);
        };
        Ok(f(&lists, &order, values, row)?.map(|at| at as u64))
    });
    Ok(take(&lists.elements, &positions.collect::<Result<UInt64Array>>()?, None)?)
}

/// The most frequent element; the first one among equals.
fn mode(call: &Call) -> Result<ArrayRef> {
    picked(call, |_, order, values, _| {
        let values = sorted(values, order);
        let runs = values.chunk_by(|a, b| order(*a, *b).is_eq());
        let best =
            runs.map(|run| (run.len(), run.iter().min().copied())).max_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        Ok(best.and_then(|(_, first)| first))
    })
}

/// `f` of the numbers of each non-empty list.
fn floats(call: &Call, f: impl Fn(&[f64]) -> Option<f64>) -> Result<ArrayRef> {
    Ok(Arc::new(numbers_of(call, |numbers| Ok(f(numbers)))?))
}

/// [`floats`] of a function that can fail.
fn numbers_of(call: &Call, f: impl Fn(&[f64]) -> Result<Option<f64>>) -> Result<Float64Array> {
    let lists = lists(call);
    let values = strict_cast(&lists.elements, &DataType::Float64)?;
    let values = values.as_primitive::<Float64Type>();
    let of = |row: &Option<std::ops::Range<usize>>| {
        let numbers = row.clone().unwrap_or_default().filter(|&at| values.is_valid(at)).map(|at| values.value(at));
        let numbers: Vec<f64> = numbers.collect();
        if numbers.is_empty() { Ok(None) } else { f(&numbers) }
    };
    lists.rows.iter().map(of).collect()
}

fn variance(values: &[f64], less: usize) -> Option<f64> {
    let count = values.len().checked_sub(less).filter(|count| *count > 0)?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Some(values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count as f64)
}

/// The sum of powers of the deviations from the mean.
fn central_power(values: &[f64], power: i32) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (!values.is_empty()).then(|| values.iter().map(|x| (x - mean).powi(power)).sum())
}

/// A shape of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dialect) enum Shape {
    Skewness,
    /// Of a sample, or of a population.
    Kurtosis {
        sample: bool,
    },
}

impl Shape {
    /// The shape that a function of lists computes.
    pub(in crate::dialect) fn of_list(function: &str) -> Option<Self> {
        Some(match function {
            "list_skewness" => Self::Skewness,
            "list_kurtosis" => Self::Kurtosis { sample: true },
            "list_kurtosis_pop" => Self::Kurtosis { sample: false },
            _ => return None,
        })
    }

    /// The shape of values, given their number, their mean, and the sums of the second to fourth powers of their deviations.
    ///
    /// # Errors
    /// It is not finite.
    pub(in crate::dialect) fn value(self, moments: &[f64; 5]) -> Result<Option<f64>> {
        let [count, _, squares, ..] = *moments;
        let most_without = match self {
            Self::Skewness => 2.0,
            Self::Kurtosis { sample } => {
                if sample {
                    3.0
                } else {
                    1.0
                }
            }
        };
        let found = match self {
            _ if count > most_without && !squares.is_finite() => Some(f64::NAN),
            Self::Skewness => states::skewness(moments),
            Self::Kurtosis { sample } => states::kurtosis(moments, sample),
        };
        match (found, self) {
            (Some(x), Self::Skewness) if !x.is_finite() => exec_err!("SKEW is out of range!"),
            (Some(x), Self::Kurtosis { .. }) if !x.is_finite() => exec_err!("Kurtosis is out of range!"),
            (found, _) => Ok(found),
        }
    }
}

fn shaped(call: &Call, shape: Shape) -> Result<ArrayRef> {
    let found = numbers_of(call, |values| shape.value(&central_moments(values)))?;
    Ok(Arc::new(found))
}

/// The number of values, their mean, and the sums of the second to fourth powers of their deviations.
fn central_moments(values: &[f64]) -> [f64; 5] {
    let mut moments = [0.0; 5];
    values.iter().for_each(|x| states::combine_powers(&mut moments, &[1.0, *x, 0.0, 0.0, 0.0]));
    moments
}

/// The frequency of each element, by element.
fn histogram(call: &Call) -> Result<ArrayRef> {
    let lists = lists(call);
    let order = comparator(&lists)?;
    let (mut keys, mut counts, mut lengths, mut there) = (vec![], vec![], vec![], vec![]);
    for row in &lists.rows {
        let values = sorted(row.clone().map(|row| valid(&lists, row)).unwrap_or_default(), &order);
        let before = keys.len();
        for run in values.chunk_by(|a, b| order(*a, *b).is_eq()) {
            keys.push(run[0] as u64);
            counts.push(run.len() as u64);
        }
        lengths.push(keys.len() - before);
        there.push(!values.is_empty());
    }
    if lists.elements.data_type().is_null() {
        return Ok(new_null_array(&call.to, lengths.len()));
    }
    let keys = take(&lists.elements, &UInt64Array::from(keys), None)?;
    let DataType::Map(entries, _) = map_type(keys.data_type()) else { return exec_err!("a map has entries") };
    let DataType::Struct(fields) = entries.data_type().clone() else { return exec_err!("entries are structs") };
    let counts: ArrayRef = Arc::new(UInt64Array::from(counts));
    let values = StructArray::try_new(fields, vec![keys, counts], None)?;
    let map =
        MapArray::try_new(entries, OffsetBuffer::from_lengths(lengths), values, Some(NullBuffer::from(there)), false)?;
    Ok(Arc::new(map))
}

fn top_types(types: &[DataType]) -> Option<Typed> {
    let [list, count] = types else { return None };
    let list = list_of(&element(std::slice::from_ref(list))?);
    let (count, _) = typed(std::slice::from_ref(count), &[Is::Whole], DataType::Null)?;
    Some((std::iter::once(list.clone()).chain(count).collect(), list))
}

/// The most frequent elements, as many as the second argument says, in descending order of frequency.
fn most_frequent(call: &Call) -> Result<ArrayRef> {
    let lists = lists(call);
    let order = comparator(&lists)?;
    let (mut found, mut lengths, mut there) = (vec![], vec![], vec![]);
    for (row, range) in lists.rows.iter().enumerate() {
        let values = sorted(range.clone().map(|range| valid(&lists, range)).unwrap_or_default(), &order);
        there.push(!values.is_empty());
        if values.is_empty() {
            lengths.push(0);
            continue;
        }
        let most = match call.integer(1, row) {
            None => return exec_err!("Invalid input for approx_top_k: k value cannot be NULL"),
            Some(..=0) => return exec_err!("Invalid input for approx_top_k: k value must be > 0"),
            Some(1_000_000..) => return exec_err!("Invalid input for approx_top_k: k value must be < 1000000"),
            Some(most) => most as usize,
        };
        let mut runs: Vec<&[usize]> = values.chunk_by(|a, b| order(*a, *b).is_eq()).collect();
        runs.sort_by_key(|run| std::cmp::Reverse(run.len()));
        runs.truncate(most);
        found.extend(runs.iter().map(|run| run[0] as u64));
        lengths.push(runs.len());
    }
    let elements = take(&lists.elements, &UInt64Array::from(found), None)?;
    let field = Arc::new(Field::new_list_field(elements.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(field, offsets, elements, Some(NullBuffer::from(there)))?))
}

fn entropy(call: &Call) -> Result<ArrayRef> {
    let lists = lists(call);
    let order = comparator(&lists)?;
    let of = |row: &Option<std::ops::Range<usize>>| {
        let values = sorted(row.clone().map(|row| valid(&lists, row)).unwrap_or_default(), &order);
        let count = values.len() as f64;
        let part = |run: &[usize]| run.len() as f64 / count * (count / run.len() as f64).log2();
        Some(values.chunk_by(|a, b| order(*a, *b).is_eq()).map(part).sum::<f64>() + 0.0)
    };
    Ok(Arc::new(lists.rows.iter().map(of).collect::<Float64Array>()))
}

fn truths(call: &Call, all: bool) -> Result<ArrayRef> {
    let lists = lists(call);
    let values = lists.elements.as_boolean();
    call.bools(|row| {
        let positions = lists.rows[row].clone().map(|range| valid(&lists, range)).unwrap_or_default();
        let mut truths = positions.iter().map(|at| values.value(*at));
        Ok((!positions.is_empty()).then(|| if all { truths.all(|x| x) } else { truths.any(|x| x) }))
    })
}

/// The positions of the elements in their order.
fn grade_up(call: &Call) -> Result<ArrayRef> {
    let lists = lists(call);
    let keys = keys(&lists.elements);
    let order: Order = make_comparator(&keys, &keys, SortOptions { descending: false, nulls_first: false })?;
    let grades = lists.rows.iter().map(|row| {
        let range = row.clone()?;
        let first = range.start;
        Some(sorted(range.collect(), &order).into_iter().map(move |at| Some((at - first) as i64 + 1)))
    });
    let grades = ListArray::from_iter_primitive::<arrow::datatypes::Int64Type, _, _>(grades);
    strict_cast(&(Arc::new(grades) as ArrayRef), &call.to)
}
