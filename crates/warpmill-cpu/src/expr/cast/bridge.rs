//! Conversions by Arrow's kernels: the meaning DataFusion gives them, for those that are not worth a loop of their own.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Float32Array, Float64Array, PrimitiveArray, StringArray,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::*;
use arrow::util::display::FormatOptions;
use warpmill_format::{Bitmap, StrView};
use warpmill_plan::{ColType, Phys};

use crate::context::{ExecError, Result, Worker};
use crate::expr::value::Native;
use crate::vector::{Data, Vector};

/// `input` as an array of its logical type.
pub(in crate::expr) fn to_arrow(input: &Vector, logical: &DataType) -> Result<ArrayRef> {
    let rows = 0..input.len();
    let valid = |i: usize| input.is_valid(i);
    Ok(match &input.data {
        Data::Bool(v) => Arc::new(rows.map(|i| valid(i).then(|| v[i])).collect::<BooleanArray>()),
        Data::F32(v) => Arc::new(rows.map(|i| valid(i).then(|| v[i])).collect::<Float32Array>()),
        Data::F64(v) => Arc::new(rows.map(|i| valid(i).then(|| v[i])).collect::<Float64Array>()),
        Data::Str(v) => Arc::new(rows.map(|i| valid(i).then(|| v[i].as_str())).collect::<StringArray>()),
        Data::I32(v) => integers(rows.map(|i| valid(i).then(|| v[i].into())), logical)?,
        Data::I64(v) => integers(rows.map(|i| valid(i).then(|| v[i].into())), logical)?,
        Data::I128(v) => integers(rows.map(|i| valid(i).then(|| v[i])), logical)?,
        Data::Code(_) => return Err(ExecError::Unsupported("a cast of dictionary codes".into())),
    })
}

/// Runs `$body` with the type alias `$T` for the Arrow type of an integer-like logical type.
macro_rules! with_arrow {
    ($logical:expr, $T:ident => $body:expr) => {{
        macro_rules! arm {
            ($t:ty) => {{
                type $T = $t;
                $body
            }};
        }
        match $logical {
            DataType::Int8 => arm!(Int8Type),
            DataType::Int16 => arm!(Int16Type),
            DataType::Int32 => arm!(Int32Type),
            DataType::Int64 => arm!(Int64Type),
            DataType::UInt8 => arm!(UInt8Type),
            DataType::UInt16 => arm!(UInt16Type),
            DataType::UInt32 => arm!(UInt32Type),
            DataType::UInt64 => arm!(UInt64Type),
            DataType::Date32 => arm!(Date32Type),
            DataType::Date64 => arm!(Date64Type),
            DataType::Time32(TimeUnit::Second) => arm!(Time32SecondType),
            DataType::Time32(_) => arm!(Time32MillisecondType),
            DataType::Time64(TimeUnit::Microsecond) => arm!(Time64MicrosecondType),
            DataType::Time64(_) => arm!(Time64NanosecondType),
            DataType::Timestamp(TimeUnit::Second, _) => arm!(TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => arm!(TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => arm!(TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => arm!(TimestampNanosecondType),
            DataType::Duration(TimeUnit::Second) => arm!(DurationSecondType),
            DataType::Duration(TimeUnit::Millisecond) => arm!(DurationMillisecondType),
            DataType::Duration(TimeUnit::Microsecond) => arm!(DurationMicrosecondType),
            DataType::Duration(TimeUnit::Nanosecond) => arm!(DurationNanosecondType),
            DataType::Decimal32(..) => arm!(Decimal32Type),
            DataType::Decimal64(..) => arm!(Decimal64Type),
            DataType::Decimal128(..) => arm!(Decimal128Type),
            other => return Err(ExecError::Unsupported(format!("a cast between {other} and another type"))),
        }
    }};
}

fn integers(values: impl Iterator<Item = Option<i128>>, logical: &DataType) -> Result<ArrayRef> {
    with_arrow!(logical, T => {
        let values = values.map(|v| v.map(narrow::<<T as ArrowPrimitiveType>::Native>).transpose());
        let array: PrimitiveArray<T> = values.collect::<Result<Vec<_>>>()?.into_iter().collect();
        Ok(Arc::new(array.with_data_type(logical.clone())))
    })
}

fn narrow<N: TryFrom<i128>>(value: i128) -> Result<N> {
    N::try_from(value).map_err(|_| ExecError::Value(format!("value {value} is out of range of its type")))
}

/// An array as values of type `ty`; strings go to the worker's arena.
pub(in crate::expr) fn from_arrow(array: &dyn Array, ty: &ColType, worker: &mut Worker) -> Result<Vector> {
    let rows = 0..array.len();
    let validity = array.nulls().map(|nulls| Bitmap::from_fn(array.len(), |i| nulls.is_valid(i)));
    let data = match ty.phys {
        Phys::Bool => bool::wrap(rows.map(|i| array.as_boolean().value(i)).collect()),
        Phys::F32 => f32::wrap(array.as_primitive::<Float32Type>().values().to_vec()),
        Phys::F64 => f64::wrap(array.as_primitive::<Float64Type>().values().to_vec()),
        Phys::Str => StrView::wrap(rows.map(|i| worker.strings.alloc(array.as_string::<i32>().value(i))).collect()),
        Phys::I32 => i32::wrap(unscaled(array)?.into_iter().map(|v| v as i32).collect()),
        Phys::I64 => i64::wrap(unscaled(array)?.into_iter().map(|v| v as i64).collect()),
        Phys::I128 => i128::wrap(unscaled(array)?),
        Phys::Code => return Err(ExecError::Unsupported("a cast to dictionary codes".into())),
    };
    Ok(Vector::with_validity(data, validity))
}

fn unscaled(array: &dyn Array) -> Result<Vec<i128>> {
    with_arrow!(array.data_type(), T => Ok(array.as_primitive::<T>().values().iter().map(|&v| i128::from(v)).collect()))
}

/// `input` of type `from` as type `to`.
pub(super) fn cast(
    input: &Vector,
    from: &ColType,
    to: &ColType,
    try_cast: bool,
    worker: &mut Worker,
) -> Result<Vector> {
    let target = if to.phys == Phys::Str { &DataType::Utf8 } else { &to.logical };
    let options = CastOptions { safe: try_cast, format_options: FormatOptions::default() };
    let array = to_arrow(input, &from.logical)?;
    let converted = cast_with_options(&array, target, &options)
        .map_err(|error| ExecError::Value(format!("cannot cast to {}: {error}", to.logical)))?;
    from_arrow(&converted, to, worker)
}
