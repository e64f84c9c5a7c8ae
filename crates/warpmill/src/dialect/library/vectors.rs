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
        DataType::Float32 => of_lists::<Float32Type>(call, f32::sqrt),
        _ => of_lists::<Float64Type>(call, f64::sqrt),
    }
}

/// A floating-point number.
trait Number:
    Copy
    + Default
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + From<i8>
{
}

impl Number for f32 {}
impl Number for f64 {}

fn of_lists<T: ArrowPrimitiveType>(call: &Call, sqrt: fn(T::Native) -> T::Native) -> Result<ArrayRef>
where
    T::Native: Number,
{
    let name = call.name;
    let list = |side: usize, row: usize| {
        let values = call.args[side].as_list::<i32>().value(row);
        if values.null_count() > 0 {
            return exec_err!("{name}: {} argument can not contain NULL values", ["left", "right"][side]);
        }
        Ok(values.as_primitive::<T>().clone())
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
        Ok(of_values(name, left.values(), right.values(), sqrt))
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<Result<PrimitiveArray<T>>>()?))
}

/// The value of function `name` of two lists of one length; `None`: there is none for lists without elements.
fn of_values<T: Number>(name: &str, left: &[T], right: &[T], sqrt: fn(T) -> T) -> Option<T> {
    let sum = |of: &dyn Fn(T, T) -> T| left.iter().zip(right).fold(T::default(), |sum, (&a, &b)| sum + of(a, b));
    let product = sum(&|a, b| a * b);
    let one = T::from(1);
    let similarity = || {
        let similarity = product / sqrt(sum(&|a, _| a * a) * sum(&|_, b| b * b));
        // Of rounded values. A NaN stays one.
        let at_most = if similarity > one { one } else { similarity };
        let within = if at_most < -one { -one } else { at_most };
        (!left.is_empty()).then_some(within)
    };
    match name {
        "list_distance" => Some(sqrt(sum(&|a, b| (a - b) * (a - b)))),
        "list_inner_product" => Some(product),
        "list_negative_inner_product" => Some(-product),
        "list_cosine_similarity" => similarity(),
        _ => similarity().map(|similarity| one - similarity),
    }
}
