//! Distances and products of lists of numbers of the same length.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::{Result, exec_err};

use super::own::{Call, Own, Typed, number_like};

pub(super) fn functions() -> Vec<Own> {
    let names = [
        "list_distance",
        "list_inner_product",
        "list_negative_inner_product",
        "list_cosine_similarity",
        "list_cosine_distance",
    ];
    names.into_iter().map(|name| Own::new(name, types, run)).collect()
}

/// Two lists or arrays of numbers; of FLOAT where both are.
fn types(types: &[DataType]) -> Option<Typed> {
    let element = |ty: &DataType| match ty {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            number_like(field.data_type()).then(|| field.data_type().clone())
        }
        DataType::Null => Some(DataType::Null),
        _ => None,
    };
    let [left, right] = types else { return None };
    let (left, right) = (element(left)?, element(right)?);
    let are_floats = left == DataType::Float32 && right == DataType::Float32;
    let of = if are_floats { DataType::Float32 } else { DataType::Float64 };
    Some((vec![DataType::new_list(of.clone(), true); 2], of))
}

fn run(call: &Call) -> Result<ArrayRef> {
    match call.to {
        DataType::Float32 => of_lists::<Float32Type>(call, f64::from, |value| value as f32),
        _ => of_lists::<Float64Type>(call, |value| value, |value| value),
    }
}

/// The values for lists of numbers of type `T`, computed as DOUBLE.
fn of_lists<T: ArrowPrimitiveType>(
    call: &Call,
    widened: fn(T::Native) -> f64,
    narrowed: fn(f64) -> T::Native,
) -> Result<ArrayRef> {
    let name = call.name;
    let list = |side: usize, row: usize| {
        let values = call.args[side].as_list::<i32>().value(row);
        if values.null_count() > 0 {
            return exec_err!("{name}: {} argument can not contain NULL values", ["left", "right"][side]);
        }
        Ok(values.as_primitive::<T>().values().iter().map(|&value| widened(value)).collect::<Vec<f64>>())
    };
    let one = |row: usize| {
        if !call.all(row) {
            return Ok(None);
        }
        let (left, right) = (list(0, row)?, list(1, row)?);
        let (many, others) = (left.len(), right.len());
        if many != others {
            return exec_err!(
                "{name}: list dimensions must be equal, got left length '{many}' and right length '{others}'"
            );
        }
        Ok(of_values(name, &left, &right).map(narrowed))
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<Result<PrimitiveArray<T>>>()?))
}

/// The value of function `name` of two lists of one length; `None`: there is none for lists without elements.
fn of_values(name: &str, left: &[f64], right: &[f64]) -> Option<f64> {
    let pairs = || left.iter().zip(right);
    match name {
        "list_distance" => Some(pairs().map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()),
        "list_inner_product" => Some(product(left, right)),
        "list_negative_inner_product" => Some(-product(left, right)),
        "list_cosine_similarity" => similarity(left, right),
        _ => similarity(left, right).map(|similarity| 1.0 - similarity),
    }
}

fn product(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(a, b)| a * b).sum::<f64>() + 0.0
}

/// The cosine of the angle between two vectors. Both are scaled first, so that no square overflows or vanishes.
fn similarity(left: &[f64], right: &[f64]) -> Option<f64> {
    let scaled = |values: &[f64]| {
        let most = values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        let scale = if most > 0.0 && most.is_finite() { most } else { 1.0 };
        values.iter().map(|value| value / scale).collect::<Vec<f64>>()
    };
    let (left, right) = (scaled(left), scaled(right));
    let norms = product(&left, &left).sqrt() * product(&right, &right).sqrt();
    // A NaN stays one.
    (!left.is_empty()).then(|| (product(&left, &right) / norms).clamp(-1.0, 1.0))
}
