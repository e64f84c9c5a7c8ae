use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, ListArray};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Decimal128Type, Field, Float64Type, Int64Type};

use super::computed;
use super::of::Of;
use crate::dialect::types::HUGEINT;

fn lists<T: ArrowPrimitiveType>(rows: Vec<Option<Vec<Option<T::Native>>>>) -> ArrayRef {
    Arc::new(ListArray::from_iter_primitive::<T, _, _>(rows))
}

fn decimals(values: Vec<i128>, width: u8, scale: i8) -> ArrayRef {
    let length = values.len() as i32;
    let values = Decimal128Array::from(values).with_precision_and_scale(width, scale).unwrap();
    let element = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0, length]));
    Arc::new(ListArray::new(element, offsets, Arc::new(values), None))
}

#[test]
fn sums_of_whole_numbers_are_exact() {
    let most = i64::MAX;
    let rows = lists::<Int64Type>(vec![
        Some(vec![Some(9_007_199_254_740_993), Some(0)]),
        Some(vec![Some(most), Some(most), None]),
        Some(vec![]),
        None,
        Some(vec![None]),
    ]);
    let sums = computed(Of::Sum, &rows, &HUGEINT).unwrap();
    let sums: Vec<_> = sums.as_primitive::<Decimal128Type>().iter().collect();
    assert_eq!(sums, [Some(9_007_199_254_740_993), Some(2 * i128::from(most)), None, None, None]);
    // A slice of an array.
    let last = computed(Of::Count, &rows.slice(1, 4), &DataType::Int64).unwrap();
    assert_eq!(last.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(2), Some(0), None, Some(0)]);
    let averages = computed(Of::Average, &rows.slice(1, 4), &DataType::Float64).unwrap();
    let averages: Vec<_> = averages.as_primitive::<Float64Type>().iter().collect();
    assert_eq!(averages, [Some(most as f64), None, None, None]);
}

#[test]
fn sums_of_decimals_have_38_digits_or_are_errors() {
    let most = 10i128.pow(38) - 1;
    let wide = DataType::Decimal128(38, 2);
    let sum = |values: Vec<i128>| computed(Of::Sum, &decimals(values, 38, 2), &wide);
    let back = sum(vec![most, most, -most]).unwrap();
    assert_eq!((back.as_primitive::<Decimal128Type>().value(0), back.data_type()), (most, &wide));
    assert!(sum(vec![most, 1]).unwrap_err().to_string().contains("overflow in list_sum"));
    assert_eq!(Of::Sum.result(&DataType::Decimal128(4, 2)).unwrap(), wide);
    let average = computed(Of::Average, &decimals(vec![150, 225], 4, 2), &DataType::Float64).unwrap();
    assert_eq!(average.as_primitive::<Float64Type>().value(0), 1.875);
    assert!(computed(Of::Average, &decimals(vec![most, most], 38, 0), &DataType::Float64).is_err());
}

#[test]
fn extremes_have_one_nan_above_all() {
    let rows = lists::<Float64Type>(vec![Some(vec![Some(-f64::NAN), Some(1.0), None, Some(f64::INFINITY)])]);
    let of = |of: Of| computed(of, &rows, &DataType::Float64).unwrap().as_primitive::<Float64Type>().value(0);
    assert_eq!(of(Of::Least), 1.0);
    assert!(of(Of::Greatest).is_nan());
    assert!(of(Of::Product).is_nan());
}

#[test]
fn elements_are_chosen() {
    let rows = lists::<Int64Type>(vec![Some(vec![None, Some(3), Some(2), None]), Some(vec![]), None]);
    let of =
        |of: Of| computed(of, &rows, &DataType::Int64).unwrap().as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
    assert_eq!(of(Of::First), [None, None, None]);
    assert_eq!(of(Of::Last), [None, None, None]);
    assert_eq!(of(Of::Any), [Some(3), None, None]);
    assert_eq!((of(Of::Least), of(Of::Greatest)), (vec![Some(2), None, None], vec![Some(3), None, None]));
}

#[test]
fn aggregates_have_names_and_types() {
    assert_eq!((Of::named("SUM"), Of::named("mean"), Of::named("mode")), (Some(Of::Sum), Some(Of::Average), None));
    assert_eq!(Of::Sum.result(&DataType::Boolean).unwrap(), HUGEINT);
    assert_eq!(Of::Sum.result(&DataType::Float32).unwrap(), DataType::Float64);
    for (of, element) in [
        (Of::Sum, DataType::Utf8),
        (Of::Average, DataType::Boolean),
        (Of::Product, DataType::Boolean),
        (Of::Sum, DataType::Date32),
    ] {
        assert!(of.result(&element).is_err(), "{of:?} {element}");
    }
}
