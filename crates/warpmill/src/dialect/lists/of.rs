//! The aggregates.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, UInt64Array, make_comparator};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, IntervalUnit, i256};
use datafusion::common::{Result, exec_err, not_impl_err, plan_err};

use crate::dialect::intervals::lengths;
use crate::dialect::operators::strict_cast;
use crate::dialect::types::{HUGEINT, MAX_WIDTH, digits, is_float, is_number, type_name};

/// An aggregate of the elements of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Of {
    Sum,
    Average,
    Product,
    Least,
    Greatest,
    Count,
    /// The first element, whatever it is.
    First,
    /// The last element, whatever it is.
    Last,
    /// The first element that is not NULL.
    Any,
}

/// Lists as ranges of all their elements; `None` for NULL.
pub(in crate::dialect) struct Lists {
    pub(in crate::dialect) elements: ArrayRef,
    pub(in crate::dialect) rows: Vec<Option<Range<usize>>>,
}

impl Of {
    /// The aggregate that DuckDB calls so.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name.to_lowercase().as_str() {
            "sum" => Of::Sum,
            "avg" | "mean" => Of::Average,
            "product" => Of::Product,
            "min" => Of::Least,
            "max" => Of::Greatest,
            "count" => Of::Count,
            "first" | "arbitrary" => Of::First,
            "last" => Of::Last,
            "any_value" => Of::Any,
            _ => return None,
        })
    }

    /// The result type for elements of a type.
    pub(super) fn result(self, element: &DataType) -> Result<DataType> {
        let known = element.is_null() || is_number(element);
        Ok(match self {
            Of::Sum if element.is_integer() || matches!(element, DataType::Boolean | DataType::Null) => HUGEINT,
            Of::Sum if is_float(element) => DataType::Float64,
            Of::Sum if let Some((_, scale)) = digits(element) => DataType::Decimal128(MAX_WIDTH, scale),
            Of::Average | Of::Product if known => DataType::Float64,
            Of::Count => DataType::Int64,
            Of::Least | Of::Greatest if has_intervals(element) => {
                return not_impl_err!("the least and the greatest of the type INTERVAL in a list");
            }
            Of::Least | Of::Greatest | Of::First | Of::Last | Of::Any => element.clone(),
            _ => return plan_err!("no aggregate {self:?} of elements of type {}", type_name(element)),
        })
    }

    /// The aggregate of each list, as a value of type `to`.
    pub(super) fn computed(self, lists: &Lists, to: &DataType) -> Result<ArrayRef> {
        match self {
            Of::Sum if is_float(to) => lists.floats(|values| Some(values.into_iter().sum())),
            Of::Sum => lists.sums(to),
            Of::Average if is_float(lists.elements.data_type()) => {
                lists.floats(|values| Some(values.iter().sum::<f64>() / values.len() as f64))
            }
            Of::Average => lists.averages(),
            Of::Product => lists.floats(|values| Some(values.into_iter().product())),
            Of::Count => Ok(Arc::new(lists.of_each(|rows| Some(rows.count() as i64)).collect::<Int64Array>())),
            Of::Least | Of::Greatest => lists.extremes(self == Of::Greatest),
            Of::First | Of::Last | Of::Any => lists.picked(|row| match self {
                Of::First => row.into_iter().next(),
                Of::Last => row.into_iter().next_back(),
                _ => row.into_iter().find(|&at| lists.elements.is_valid(at)),
            }),
        }
    }
}

/// Whether a type contains intervals, which have several forms of equal length.
fn has_intervals(ty: &DataType) -> bool {
    match ty {
        DataType::Interval(_) => true,
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            has_intervals(field.data_type())
        }
        DataType::Struct(fields) => fields.iter().any(|field| has_intervals(field.data_type())),
        _ => false,
    }
}

impl Lists {
    /// `f` of the positions of the non-NULL elements of each list.
    fn of_each<'a, T>(
        &'a self,
        f: impl Fn(&mut dyn Iterator<Item = usize>) -> Option<T> + 'a,
    ) -> impl Iterator<Item = Option<T>> + 'a {
        let no_element = self.elements.data_type().is_null();
        self.rows.iter().map(move |row| f(&mut row.clone()?.filter(|&at| !no_element && self.elements.is_valid(at))))
    }

    /// `f` of the floating-point numbers of each list with values.
    fn floats(&self, f: impl Fn(Vec<f64>) -> Option<f64>) -> Result<ArrayRef> {
        let values = strict_cast(&self.elements, &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>();
        let results = self.of_each(|rows| {
            let values: Vec<f64> = rows.map(|at| values.value(at)).collect();
            if values.is_empty() { None } else { f(values) }
        });
        Ok(Arc::new(results.collect::<Float64Array>()))
    }

    /// The exact sums of integers and unscaled decimals, with their numbers of values.
    fn totals(&self) -> Result<Vec<Option<(i256, usize)>>> {
        let ty = self.elements.data_type();
        let values = match ty {
            DataType::Boolean => strict_cast(&self.elements, &DataType::Int8)?,
            _ => Arc::clone(&self.elements),
        };
        let held = match digits(ty) {
            Some((width, scale)) if !ty.is_integer() => DataType::Decimal128(width, scale),
            _ => HUGEINT,
        };
        let values = strict_cast(&values, &held)?;
        let values = values.as_primitive::<Decimal128Type>();
        let total = |rows: &mut dyn Iterator<Item = usize>| {
            let (total, count) = rows.fold((i256::ZERO, 0), |(total, count), at| {
                (total.wrapping_add(i256::from_i128(values.value(at))), count + 1)
            });
            (count > 0).then_some((total, count))
        };
        Ok(self.of_each(total).collect())
    }

    fn sums(&self, to: &DataType) -> Result<ArrayRef> {
        let bound = 10u128.pow(MAX_WIDTH.into());
        let sum = |total: i256| match total.to_i128().filter(|total| total.unsigned_abs() < bound) {
            Some(total) => Ok(total),
            None => exec_err!("overflow in list_sum: the result does not fit {}", type_name(to)),
        };
        let sums = self.totals()?.into_iter().map(|row| row.map(|(total, _)| sum(total)).transpose());
        let sums = sums.collect::<Result<Decimal128Array>>()?;
        let (width, scale) = digits(to).unwrap_or((MAX_WIDTH, 0));
        Ok(Arc::new(sums.with_precision_and_scale(width, scale)?))
    }

    /// The averages of exact sums; sums beyond 128 bits are errors.
    fn averages(&self) -> Result<ArrayRef> {
        let scale = digits(self.elements.data_type()).map_or(0, |(_, scale)| scale);
        let average = |(total, count): (i256, usize)| match total.to_i128() {
            Some(total) => Ok(total as f64 / count as f64 / 10f64.powi(scale.into())),
            None => exec_err!("overflow in list_avg: the sum leaves 128 bits"),
        };
        let averages = self.totals()?.into_iter().map(|row| row.map(average).transpose());
        Ok(Arc::new(averages.collect::<Result<Float64Array>>()?))
    }

    /// The greatest elements, or the least.
    fn extremes(&self, greatest: bool) -> Result<ArrayRef> {
        let keys = keys(&self.elements);
        let order = make_comparator(&keys, &keys, SortOptions { descending: false, nulls_first: false })?;
        self.picked(|row| {
            let values = row.into_iter().filter(|&at| keys.is_valid(at));
            // The first among equals.
            let better =
                |best: usize, at: usize| if greatest { order(at, best).is_gt() } else { order(at, best).is_lt() };
            values.reduce(|best, at| if better(best, at) { at } else { best })
        })
    }

    /// The elements at the positions that `f` chooses.
    fn picked(&self, f: impl Fn(Range<usize>) -> Option<usize>) -> Result<ArrayRef> {
        let positions = self.rows.iter().map(|row| Some(f(row.clone()?)? as u64));
        Ok(take(&self.elements, &positions.collect::<UInt64Array>(), None)?)
    }
}

/// Values whose order in Arrow is DuckDB's: one zero, one NaN, which is greatest, and intervals by length.
pub(in crate::dialect) fn keys(elements: &ArrayRef) -> ArrayRef {
    match elements.data_type() {
        DataType::Float32 => {
            let key = |x: f32| if x.is_nan() { f32::NAN.copysign(1.0) } else { x + 0.0 };
            Arc::new(elements.as_primitive::<Float32Type>().unary::<_, Float32Type>(key))
        }
        DataType::Float64 => {
            let key = |x: f64| if x.is_nan() { f64::NAN.copysign(1.0) } else { x + 0.0 };
            Arc::new(elements.as_primitive::<Float64Type>().unary::<_, Float64Type>(key))
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => Arc::new(lengths(elements)),
        _ => Arc::clone(elements),
    }
}
