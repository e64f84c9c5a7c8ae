//! `equi_width_bins`: upper bounds of bins of equal width between two values; and the histogram bin for values outside of all others.

mod bounds;
mod other;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Date32Array, ListArray, PrimitiveArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::unary;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, TimestampMicrosecondType};
use datafusion::common::{Result, exec_err, plan_err};

use super::own::{Call, Is, Own, Typed, typed};
use super::parts::DAY;
use crate::dialect::operators::strict_cast;
use crate::dialect::types::{HUGEINT, TIMESTAMP, is_decimal, is_float, is_number, is_whole, type_name};
use bounds::Asked;
pub(in crate::dialect) use other::other_bin;

pub(super) fn functions() -> Vec<Own> {
    vec![
        Own::new("equi_width_bins", types, bins),
        Own::new("is_histogram_other_bin", other::types, other::is_other_bin),
    ]
}

/// Largest number of bins of a call.
const MOST_BINS: i64 = 1_000_000;

/// The least and the greatest value keep their types: bounds have the greatest value's.
fn types(types: &[DataType]) -> Option<Typed> {
    let [low, high, count, nice] = types else { return None };
    let (rest, _) = typed(&[count.clone(), nice.clone()], &[Is::Whole, Is::Bool], DataType::Null)?;
    let to = match high {
        _ if types.iter().any(DataType::is_null) => DataType::Null,
        high if is_decimal(high) && *high != HUGEINT => DataType::new_list(DataType::Float64, true),
        high => DataType::new_list(high.clone(), true),
    };
    Some(([low.clone(), high.clone()].into_iter().chain(rest).collect(), to))
}

/// The type for computing bounds; `None` for unsupported types.
fn computed_in(ends: [&DataType; 2]) -> Option<DataType> {
    let all = |kind: fn(&DataType) -> bool| ends.iter().all(|ty| ty.is_null() || kind(ty));
    if all(|ty| ty.is_integer() && *ty != DataType::UInt64) {
        return Some(DataType::Int64);
    }
    if all(is_number) {
        return Some(DataType::Float64);
    }
    all(|ty| matches!(ty, DataType::Date32 | DataType::Timestamp(_, None))).then_some(TIMESTAMP)
}

/// The bounds of all rows.
fn bins(call: &Call) -> Result<ArrayRef> {
    let ends = [&call.args[0], &call.args[1]];
    let Some(ty) = computed_in(ends.map(|end| end.data_type())) else {
        return plan_err!("Unsupported type \"{}\" for equi_width_bins", type_name(ends[0].data_type()));
    };
    let DataType::List(element) = &call.to else { return Ok(new_null_array(&call.to, call.rows)) };
    let (low, high) = (strict_cast(ends[0], &ty)?, strict_cast(ends[1], &ty)?);
    let lists = match ty {
        DataType::Float64 => each::<Float64Type>(call, &low, &high, bounds::of_floats)?,
        DataType::Int64 => {
            each::<Int64Type>(call, &low, &high, |low, high, asked| Ok(bounds::of_integers(low, high, asked)))?
        }
        _ => each::<TimestampMicrosecondType>(call, &low, &high, bounds::of_moments)?,
    };
    let (_, offsets, values, nulls) = lists.into_parts();
    Ok(Arc::new(ListArray::try_new(
        Arc::clone(element),
        offsets,
        values_of_type(&values, element.data_type())?,
        nulls,
    )?))
}

/// The bounds that `of` computes between the two values of each row.
fn each<T: ArrowPrimitiveType>(
    call: &Call,
    low: &ArrayRef,
    high: &ArrayRef,
    of: impl Fn(T::Native, T::Native, Asked) -> Result<Vec<T::Native>>,
) -> Result<ListArray> {
    let (low, high) = (low.as_primitive::<T>(), high.as_primitive::<T>());
    let (mut values, mut lengths, mut there) = (vec![], vec![], vec![]);
    for row in 0..call.rows {
        let ends = (low.is_valid(row) && high.is_valid(row)).then(|| (low.value(row), high.value(row)));
        let before = values.len();
        let given = ends.zip(call.integer(2, row).zip(call.bool(3, row)));
        if let Some(((low, high), (count, nice))) = given {
            if high < low {
                return exec_err!("Invalid input for bin function - max value is smaller than min value");
            }
            let asked = Asked { count: number_of_bins(count)?, nice };
            match high == low {
                true => values.push(high),
                false => values.extend(of(low, high, asked)?),
            }
        }
        lengths.push(values.len() - before);
        there.push(given.is_some());
        if i32::try_from(values.len()).is_err() {
            return exec_err!("equi_width_bins: more than {} bins at a time", i32::MAX);
        }
    }
    let values: PrimitiveArray<T> = PrimitiveArray::from_iter_values(values);
    let field = Arc::new(Field::new_list_field(T::DATA_TYPE, true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(ListArray::try_new(field, offsets, Arc::new(values), Some(NullBuffer::from(there)))?)
}

/// Checks the number of bins of a call.
fn number_of_bins(count: i64) -> Result<usize> {
    match count {
        ..=0 => exec_err!("Invalid input for bin function - there must be > 0 bins"),
        1..=MOST_BINS => Ok(count as usize),
        _ => exec_err!("Invalid input for bin function - max bin count of {MOST_BINS} exceeded"),
    }
}

/// Bounds as values of a type: integers are rounded to the nearest, timestamps truncated to dates.
fn values_of_type(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    match values.data_type() {
        from if is_float(from) && is_whole(to) => {
            let rounded: PrimitiveArray<Float64Type> =
                unary(values.as_primitive::<Float64Type>(), f64::round_ties_even);
            strict_cast(&(Arc::new(rounded) as ArrayRef), to)
        }
        from if *from == TIMESTAMP && *to == DataType::Date32 => {
            let moments = values.as_primitive::<TimestampMicrosecondType>().values().iter();
            Ok(Arc::new(Date32Array::from_iter_values(moments.map(|micros| micros.div_euclid(DAY) as i32))))
        }
        _ => strict_cast(values, to),
    }
}
