//! Arrow arrays to vectors.

use std::any::TypeId;

use arrow::array::{Array, AsArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::*;
use warpmill_format::{Bitmap, StrView};
use warpmill_ir::{ColType, Phys};

use super::same;
use crate::error::{ExecError, Result};
use crate::memory::MOST_BYTES;
use crate::vector::{Data, NULL_ROW, Vector};

/// Converts `array` to representation `ty.phys`. Strings are views into the array's buffers: the caller keeps the array alive until the query has
/// ended. An integer outside the representation is an error.
pub fn from_arrow(array: &dyn Array, ty: &ColType) -> Result<Vector> {
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let values = from_arrow(dictionary.values().as_ref(), ty)?;
        if values.is_empty() {
            return Ok(Vector::nulls(ty.phys, array.len()));
        }
        let keys = dictionary.normalized_keys();
        let rows: Vec<u32> = keys
            .into_iter()
            .enumerate()
            .map(|(i, key)| if array.is_valid(i) { key as u32 } else { NULL_ROW })
            .collect();
        return Ok(values.gather_or_null(&rows));
    }
    if *array.data_type() == DataType::Null {
        return Ok(Vector::nulls(ty.phys, array.len()));
    }
    let is_string = |ty: &DataType| matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let same_meaning = match (array.data_type(), &ty.logical) {
        (DataType::Timestamp(a, _), DataType::Timestamp(b, _)) => a == b,
        (DataType::Decimal128(_, a), DataType::Decimal128(_, b)) => a == b,
        (a, DataType::Dictionary(_, b)) => a == b.as_ref() || is_string(a) && is_string(b),
        (a, b) => a == b || is_string(a) && is_string(b),
    };
    if !same_meaning {
        return Err(mismatch(array, ty));
    }
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    Ok(Vector::with_validity(values(array, ty, nulls)?, nulls.map(|nulls| bitmap(nulls.inner()))))
}

fn mismatch(array: &dyn Array, ty: &ColType) -> ExecError {
    ExecError::Input(format!("{} where {} held as {:?} is expected", array.data_type(), ty.logical, ty.phys))
}

/// Copies an Arrow bitmap at any offset.
fn bitmap(bits: &BooleanBuffer) -> Bitmap {
    let chunks = bits.bit_chunks();
    Bitmap::from_words(chunks.iter_padded().collect(), bits.len())
}

fn values(array: &dyn Array, ty: &ColType, nulls: Option<&NullBuffer>) -> Result<Data> {
    macro_rules! integers {
        ($($pattern:pat => $t:ty),* $(,)?) => {
            match array.data_type() {
                $($pattern => return integers(array.as_primitive::<$t>().values(), ty, nulls),)*
                _ => {}
            }
        };
    }
    integers! {
        DataType::Int8 => Int8Type,
        DataType::Int16 => Int16Type,
        DataType::Int32 => Int32Type,
        DataType::Int64 => Int64Type,
        DataType::UInt8 => UInt8Type,
        DataType::UInt16 => UInt16Type,
        DataType::UInt32 => UInt32Type,
        DataType::UInt64 => UInt64Type,
        DataType::Date32 => Date32Type,
        DataType::Date64 => Date64Type,
        DataType::Time32(TimeUnit::Second) => Time32SecondType,
        DataType::Time32(_) => Time32MillisecondType,
        DataType::Time64(TimeUnit::Microsecond) => Time64MicrosecondType,
        DataType::Time64(_) => Time64NanosecondType,
        DataType::Timestamp(TimeUnit::Second, _) => TimestampSecondType,
        DataType::Timestamp(TimeUnit::Millisecond, _) => TimestampMillisecondType,
        DataType::Timestamp(TimeUnit::Microsecond, _) => TimestampMicrosecondType,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType,
        DataType::Duration(TimeUnit::Second) => DurationSecondType,
        DataType::Duration(TimeUnit::Millisecond) => DurationMillisecondType,
        DataType::Duration(TimeUnit::Microsecond) => DurationMicrosecondType,
        DataType::Duration(TimeUnit::Nanosecond) => DurationNanosecondType,
        DataType::Decimal32(..) => Decimal32Type,
        DataType::Decimal64(..) => Decimal64Type,
        DataType::Decimal128(..) => Decimal128Type,
    }
    let valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    macro_rules! views {
        ($strings:expr) => {{
            let strings = $strings;
            let view = |row| if valid(row) { StrView::new(strings.value(row)) } else { StrView::default() };
            Data::Str((0..array.len()).map(view).collect())
        }};
    }
    Ok(match (array.data_type(), ty.phys) {
        (DataType::Boolean, Phys::Bool) => Data::Bool(array.as_boolean().values().iter().collect()),
        (DataType::Float32, Phys::F32) => Data::F32(array.as_primitive::<Float32Type>().values().to_vec()),
        (DataType::Float64, Phys::F64) => Data::F64(array.as_primitive::<Float64Type>().values().to_vec()),
        (DataType::Utf8, Phys::Str) => views!(array.as_string::<i32>()),
        (DataType::LargeUtf8, Phys::Str) => {
            let strings = array.as_string::<i64>();
            let is_long = |row: &usize| valid(*row) && strings.value_length(*row) as usize > MOST_BYTES;
            if strings.values().len() > MOST_BYTES
                && let Some(row) = (0..array.len()).find(is_long)
            {
                return Err(ExecError::Input(format!("the string in row {row} of a batch has 4 GiB or more")));
            }
            views!(strings)
        }
        (DataType::Utf8View, Phys::Str) => views!(array.as_string_view()),
        _ => return Err(mismatch(array, ty)),
    })
}

fn integers<T: Copy + Into<Wide> + 'static>(values: &[T], ty: &ColType, nulls: Option<&NullBuffer>) -> Result<Data> {
    let lost = || ExecError::Input(format!("a value of {} does not fit {:?}", ty.logical, ty.phys));
    let is_null = |row: usize| nulls.is_some_and(|nulls| nulls.is_null(row));
    macro_rules! fitting {
        ($t:ty) => {
            if TypeId::of::<T>() == TypeId::of::<$t>() {
                same(values.to_vec()).unwrap_or_else(|_| unreachable!("types are equal"))
            } else {
                let fitting = values.iter().enumerate().map(|(row, &value)| {
                    let Wide(value) = value.into();
                    // Values under a NULL are unspecified.
                    <$t>::try_from(value).or_else(|_| if is_null(row) { Ok(0) } else { Err(lost()) })
                });
                fitting.collect::<Result<_>>()?
            }
        };
    }
    Ok(match ty.phys {
        Phys::I32 => Data::I32(fitting!(i32)),
        Phys::I64 => Data::I64(fitting!(i64)),
        Phys::I128 => Data::I128(values.iter().map(|&value| value.into().0).collect()),
        phys => return Err(ExecError::Input(format!("{} held as {phys:?}", ty.logical))),
    })
}

/// Any of Arrow's integers.
struct Wide(i128);

macro_rules! wide {
    ($($t:ty),*) => {$(
        impl From<$t> for Wide {
            #[inline(always)]
            fn from(value: $t) -> Self {
                Self(value as i128)
            }
        }
    )*};
}
wide!(i8, i16, i32, i64, i128, u8, u16, u32, u64);
