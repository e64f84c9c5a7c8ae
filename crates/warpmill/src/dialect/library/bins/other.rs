//! The histogram bin for values outside of all others.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, StructArray, make_comparator, new_empty_array, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, ScalarValue};

use crate::dialect::library::own::{Call, Typed};
use crate::dialect::library::parts::DAY;
use crate::dialect::lists::keys;

/// The value that represents that bin: the greatest of the type, infinity, an empty text or list, or a struct of NULLs; `None` for types whose
/// histograms omit the bin.
pub(in crate::dialect) fn other_bin(ty: &DataType) -> Option<ScalarValue> {
    Some(match ty {
        DataType::Int8 => i8::MAX.into(),
        DataType::Int16 => i16::MAX.into(),
        DataType::Int32 => i32::MAX.into(),
        DataType::Int64 => i64::MAX.into(),
        DataType::UInt8 => u8::MAX.into(),
        DataType::UInt16 => u16::MAX.into(),
        DataType::UInt32 => u32::MAX.into(),
        DataType::UInt64 => u64::MAX.into(),
        DataType::Float32 => f32::INFINITY.into(),
        DataType::Float64 => f64::INFINITY.into(),
        DataType::Decimal128(width, scale) => {
            ScalarValue::Decimal128(Some(10i128.pow(u32::from(*width)) - 1), *width, *scale)
        }
        DataType::Time64(TimeUnit::Microsecond) => ScalarValue::Time64Microsecond(Some(DAY)),
        DataType::Date32 => ScalarValue::Date32(Some(i32::MAX)),
        DataType::Timestamp(TimeUnit::Second, zone) => ScalarValue::TimestampSecond(Some(i64::MAX), zone.clone()),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => {
            ScalarValue::TimestampMillisecond(Some(i64::MAX), zone.clone())
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            ScalarValue::TimestampMicrosecond(Some(i64::MAX), zone.clone())
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            ScalarValue::TimestampNanosecond(Some(i64::MAX), zone.clone())
        }
        DataType::Utf8 => ScalarValue::Utf8(Some(String::new())),
        DataType::LargeUtf8 => ScalarValue::LargeUtf8(Some(String::new())),
        DataType::Utf8View => ScalarValue::Utf8View(Some(String::new())),
        DataType::Binary => ScalarValue::Binary(Some(vec![])),
        DataType::LargeBinary => ScalarValue::LargeBinary(Some(vec![])),
        DataType::BinaryView => ScalarValue::BinaryView(Some(vec![])),
        DataType::List(element) => {
            let none = new_empty_array(element.data_type());
            let list = arrow::array::ListArray::new(Arc::clone(element), OffsetBuffer::from_lengths([0]), none, None);
            ScalarValue::List(Arc::new(list))
        }
        DataType::Struct(fields) if !fields.is_empty() => {
            let nothing = fields.iter().map(|field| new_null_array(field.data_type(), 1)).collect();
            ScalarValue::Struct(Arc::new(StructArray::try_new(fields.clone(), nothing, None).ok()?))
        }
        _ => return None,
    })
}

pub(super) fn types(types: &[DataType]) -> Option<Typed> {
    (types.len() == 1).then(|| (types.to_vec(), DataType::Boolean))
}

/// `is_histogram_other_bin(x)`: whether values represent that bin.
pub(super) fn is_other_bin(call: &Call) -> Result<ArrayRef> {
    let values = &call.args[0];
    let is_it: Box<dyn Fn(usize) -> bool + '_> = match values.data_type() {
        DataType::List(_) => Box::new(|row| values.as_list::<i32>().value_length(row) == 0),
        DataType::Struct(_) => Box::new(|row| values.as_struct().columns().iter().all(|column| is_null(column, row))),
        ty => match other_bin(ty) {
            Some(other) => {
                let (values, other) = (keys(values), keys(&other.to_array()?));
                let order = make_comparator(&values, &other, SortOptions::default())?;
                Box::new(move |row| order(row, 0).is_eq())
            }
            None => Box::new(|_| false),
        },
    };
    let no_value = values.data_type().is_null();
    let of = |row: usize| (!no_value && values.is_valid(row)).then(|| is_it(row));
    Ok(Arc::new((0..call.rows).map(of).collect::<BooleanArray>()))
}

fn is_null(column: &ArrayRef, row: usize) -> bool {
    column.data_type().is_null() || column.is_null(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(values: ArrayRef) -> Vec<Option<bool>> {
        let rows = values.len();
        let call = Call { name: "is_histogram_other_bin", args: vec![values], rows, to: DataType::Boolean };
        is_other_bin(&call).unwrap().as_boolean().iter().collect()
    }

    #[test]
    fn the_other_bin_is_known_by_its_value() {
        let integer = DataType::Int64;
        let list = DataType::new_list(integer.clone(), true);
        let structure = DataType::Struct(vec![arrow::datatypes::Field::new("a", list.clone(), true)].into());
        for ty in [integer, DataType::Float32, DataType::Utf8, DataType::Date32, list, structure] {
            let other = other_bin(&ty).unwrap();
            assert_eq!(other.data_type(), ty);
            assert_eq!(found(other.to_array().unwrap()), [Some(true)]);
            assert_eq!(found(new_null_array(&ty, 1)), [None]);
        }
        assert!(other_bin(&DataType::Boolean).is_none());
        assert_eq!(found(ScalarValue::from(3i64).to_array().unwrap()), [Some(false)]);
        assert_eq!(found(ScalarValue::from(true).to_array().unwrap()), [Some(false)]);
    }
}
