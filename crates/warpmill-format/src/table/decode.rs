//! Columns of row segments as Arrow arrays: what is written again.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StringBuilder};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::*;

use super::TableSnapshot;
use crate::{Bitmap, FormatError, Result, Segment, StrView, VECTOR_ROWS};

/// Most bytes of strings in one array.
const MOST_TEXT: usize = i32::MAX as usize;

/// A column of one row segment, of the type that the table has for it.
pub(crate) fn column_array(table: &TableSnapshot, segment: usize, column: usize) -> Result<ArrayRef> {
    let field = table.schema().field(column);
    let opened = table.segment(segment, column)?;
    let nulls = null_buffer(opened.validity(0, opened.rows()));
    macro_rules! integers {
        ($($pattern:pat => $t:ty, $decode:ident, $wide:ty);* $(;)?) => {
            match field.data_type() {
                $($pattern => {
                    let values = decode(opened.rows(), |start, out: &mut [$wide]| opened.$decode(start, out));
                    let values: Vec<<$t as ArrowPrimitiveType>::Native> = values.into_iter().map(|v| v as _).collect();
                    let array = PrimitiveArray::<$t>::new(values.into(), nulls);
                    Ok(Arc::new(array.with_data_type(field.data_type().clone())))
                })*
                other => Err(FormatError::schema(field.name(), format!("type {other} cannot be stored"))),
            }
        };
    }
    match field.data_type() {
        DataType::Boolean => {
            let values = decode(opened.rows(), |start, out: &mut [bool]| opened.decode_bool(start, out));
            Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)))
        }
        DataType::Float32 => {
            let values = decode(opened.rows(), |start, out: &mut [f32]| opened.decode_f32(start, out));
            Ok(Arc::new(PrimitiveArray::<Float32Type>::new(values.into(), nulls)))
        }
        DataType::Float64 => {
            let values = decode(opened.rows(), |start, out: &mut [f64]| opened.decode_f64(start, out));
            Ok(Arc::new(PrimitiveArray::<Float64Type>::new(values.into(), nulls)))
        }
        DataType::Utf8 => strings(table, &opened, column),
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

/// The codes of a column with a dictionary in one row segment, and its nulls.
pub(crate) fn column_codes(
    table: &TableSnapshot,
    segment: usize,
    column: usize,
) -> Result<(Vec<u32>, Option<NullBuffer>)> {
    let opened = table.segment(segment, column)?;
    let codes = decode(opened.rows(), |start, out: &mut [u32]| opened.decode_codes(start, out));
    Ok((codes, null_buffer(opened.validity(0, opened.rows()))))
}

fn null_buffer(validity: Option<Bitmap>) -> Option<NullBuffer> {
    let valid = validity?;
    Some(NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(valid.words().to_vec()), 0, valid.len())))
}

/// All values, of which `read` gives those from a row on.
fn decode<T: Copy + Default>(rows: usize, mut read: impl FnMut(usize, &mut [T])) -> Vec<T> {
    let mut values = vec![T::default(); rows];
    for (vector, out) in values.chunks_mut(VECTOR_ROWS).enumerate() {
        read(vector * VECTOR_ROWS, out);
    }
    values
}

fn strings(table: &TableSnapshot, segment: &Segment, column: usize) -> Result<ArrayRef> {
    let too_many = || {
        let detail = "more than 2 GiB of strings in one row segment, which cannot be written again";
        FormatError::schema(table.schema().field(column).name(), detail)
    };
    let validity = segment.validity(0, segment.rows());
    let valid = |row: usize| validity.as_ref().is_none_or(|valid| valid.get(row));
    let (mut builder, mut bytes) = (StringBuilder::with_capacity(segment.rows(), 0), 0);
    let mut append = |row: usize, value: &str| {
        bytes += value.len();
        if bytes > MOST_TEXT {
            return Err(too_many());
        }
        builder.append_option(valid(row).then_some(value));
        Ok(())
    };
    match table.dictionary(column) {
        Some(dictionary) => {
            let codes = decode(segment.rows(), |start, out: &mut [u32]| segment.decode_codes(start, out));
            for (row, &code) in codes.iter().enumerate() {
                append(row, if valid(row) { dictionary.get(code) } else { "" })?;
            }
        }
        None => {
            let mut text = Vec::new();
            for start in (0..segment.rows()).step_by(VECTOR_ROWS) {
                let mut views = [StrView::default(); VECTOR_ROWS];
                let views = &mut views[..VECTOR_ROWS.min(segment.rows() - start)];
                segment.decode_str(start, &mut text, views);
                for (row, view) in (start..).zip(&*views) {
                    append(row, if valid(row) { view.as_str() } else { "" })?;
                }
            }
        }
    }
    Ok(Arc::new(builder.finish()))
}
