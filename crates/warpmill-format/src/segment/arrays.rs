//! Segments as Arrow arrays.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StringBuilder};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::*;

use super::{Segment, Values};
use crate::{FormatError, Result, StrView, VECTOR_ROWS};

/// Largest size of strings in one array, in bytes.
const MOST_TEXT: usize = i32::MAX as usize;

/// Decodes the rows of `segment`, a column of type `data_type` without a dictionary.
///
/// # Errors
/// [`FormatError::Schema`] (without the column's name) for more data than one array holds, damage of nested values.
pub(crate) fn array(segment: &Segment, data_type: &DataType) -> Result<ArrayRef> {
    range(segment, data_type, 0..segment.rows())
}

/// Decodes some rows of `segment`, which begin with a vector. Nested values are decoded as a whole.
///
/// # Errors
/// The errors of [`array`].
pub(crate) fn range(segment: &Segment, data_type: &DataType, rows: Range<usize>) -> Result<ArrayRef> {
    if let Values::Nested(values) = &segment.values {
        let all = values.array(data_type, segment.rows(), nulls(segment, 0..segment.rows()))?;
        return Ok(all.slice(rows.start, rows.len()));
    }
    let nulls = nulls(segment, rows.clone());
    macro_rules! integers {
        ($($pattern:pat => $t:ty, $decode:ident, $wide:ty);* $(;)?) => {
            match data_type {
                $($pattern => {
                    let values = decode(rows, |start, out: &mut [$wide]| segment.$decode(start, out));
                    let values: Vec<<$t as ArrowPrimitiveType>::Native> = values.into_iter().map(|v| v as _).collect();
                    let array = PrimitiveArray::<$t>::new(values.into(), nulls);
                    Ok(Arc::new(array.with_data_type(data_type.clone())))
                })*
                other => Err(FormatError::schema("", format!("type {other} cannot be stored"))),
            }
        };
    }
    match data_type {
        DataType::Boolean => {
            let values = decode(rows, |start, out: &mut [bool]| segment.decode_bool(start, out));
            Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)))
        }
        DataType::Float32 => {
            let values = decode(rows, |start, out: &mut [f32]| segment.decode_f32(start, out));
            Ok(Arc::new(PrimitiveArray::<Float32Type>::new(values.into(), nulls)))
        }
        DataType::Float64 => {
            let values = decode(rows, |start, out: &mut [f64]| segment.decode_f64(start, out));
            Ok(Arc::new(PrimitiveArray::<Float64Type>::new(values.into(), nulls)))
        }
        DataType::Utf8 => strings(segment, rows, nulls),
        _ => integers! {
            DataType::Int8 => Int8Type, decode_i64, i64;
            DataType::Int16 => Int16Type, decode_i64, i64;
            DataType::Int32 => Int32Type, decode_i64, i64;
            DataType::Int64 => Int64Type, decode_i64, i64;
            DataType::UInt8 => UInt8Type, decode_i64, i64;
            DataType::UInt16 => UInt16Type, decode_i64, i64;
            DataType::UInt32 => UInt32Type, decode_i64, i64;
            DataType::UInt64 => UInt64Type, decode_i128, i128;
            DataType::Date32 => Date32Type, decode_i64, i64;
            DataType::Date64 => Date64Type, decode_i64, i64;
            DataType::Time32(TimeUnit::Second) => Time32SecondType, decode_i64, i64;
            DataType::Time32(TimeUnit::Millisecond) => Time32MillisecondType, decode_i64, i64;
            DataType::Time64(TimeUnit::Microsecond) => Time64MicrosecondType, decode_i64, i64;
            DataType::Time64(TimeUnit::Nanosecond) => Time64NanosecondType, decode_i64, i64;
            DataType::Timestamp(TimeUnit::Second, _) => TimestampSecondType, decode_i64, i64;
            DataType::Timestamp(TimeUnit::Millisecond, _) => TimestampMillisecondType, decode_i64, i64;
            DataType::Timestamp(TimeUnit::Microsecond, _) => TimestampMicrosecondType, decode_i64, i64;
            DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType, decode_i64, i64;
            DataType::Duration(TimeUnit::Second) => DurationSecondType, decode_i64, i64;
            DataType::Duration(TimeUnit::Millisecond) => DurationMillisecondType, decode_i64, i64;
            DataType::Duration(TimeUnit::Microsecond) => DurationMicrosecondType, decode_i64, i64;
            DataType::Duration(TimeUnit::Nanosecond) => DurationNanosecondType, decode_i64, i64;
            DataType::Decimal128(..) => Decimal128Type, decode_i128, i128;
        },
    }
}

/// The NULLs among `rows` of `segment`; `None` if there are none.
pub(crate) fn nulls(segment: &Segment, rows: Range<usize>) -> Option<NullBuffer> {
    let valid = segment.validity(rows.start, rows.len())?;
    Some(NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(valid.words().to_vec()), 0, valid.len())))
}

/// The values of `rows`; `read` decodes a vector that begins with a row.
pub(crate) fn decode<T: Copy + Default>(rows: Range<usize>, mut read: impl FnMut(usize, &mut [T])) -> Vec<T> {
    let mut values = vec![T::default(); rows.len()];
    for (vector, out) in values.chunks_mut(VECTOR_ROWS).enumerate() {
        read(rows.start + vector * VECTOR_ROWS, out);
    }
    values
}

/// Decodes strings of a column without a dictionary.
fn strings(segment: &Segment, rows: Range<usize>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row - rows.start));
    let (mut strings, mut text) = (Strings::new(rows.len()), Vec::new());
    for start in rows.clone().step_by(VECTOR_ROWS) {
        let mut views = [StrView::default(); VECTOR_ROWS];
        let views = &mut views[..VECTOR_ROWS.min(rows.end - start)];
        segment.decode_str(start, &mut text, views);
        for (row, view) in (start..).zip(&*views) {
            strings.append(valid(row).then(|| view.as_str()))?;
        }
    }
    Ok(strings.finish())
}

/// Collects the strings of an array in order.
pub(crate) struct Strings {
    builder: StringBuilder,
    bytes: usize,
}

impl Strings {
    /// An empty collection with room for `rows` rows.
    pub fn new(rows: usize) -> Self {
        Self { builder: StringBuilder::with_capacity(rows, 0), bytes: 0 }
    }

    /// Adds the next string; `None` is NULL.
    ///
    /// # Errors
    /// More bytes than fit one array.
    pub fn append(&mut self, value: Option<&str>) -> Result<()> {
        self.bytes += value.map_or(0, str::len);
        if self.bytes > MOST_TEXT {
            return Err(FormatError::schema(
                "",
                "more than 2 GiB of strings in one row segment, which cannot be read as a whole",
            ));
        }
        self.builder.append_option(value);
        Ok(())
    }

    /// The array.
    pub fn finish(mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}
