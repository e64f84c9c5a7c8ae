//! Rows to Arrow record batches.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::*;
use warpmill_format::{Bitmap, StrView};
use warpmill_ir::{ColType, Field};

use super::same;
use crate::error::{ExecError, Result};
use crate::rows::RowSet;
use crate::vector::{Data, Vector};

/// Number of rows of a record batch: smaller batches are merged, larger ones are sliced without a copy.
const BATCH_ROWS: usize = 1 << 16;

/// `rows` of columns `fields` as record batches of `schema`, which names the same columns. Buffers are moved, not copied,
/// where `rows` is not shared and the representation is Arrow's.
pub fn to_batches(rows: Arc<RowSet>, fields: &[Field], schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
    if fields.len() != schema.fields().len() {
        return Err(ExecError::Unsupported(format!("{} columns as {}", fields.len(), schema.fields().len())));
    }
    let batches = match Arc::try_unwrap(rows) {
        Ok(rows) => rows.batches,
        Err(shared) => shared.batches.clone(),
    };
    let mut out = vec![];
    let mut small: Option<(Vec<Vector>, usize)> = None;
    for (columns, rows) in batches.into_iter().filter(|(_, rows)| *rows > 0) {
        if small.as_ref().is_some_and(|(_, held)| held + rows > BATCH_ROWS) {
            push(&mut out, small.take(), fields, schema)?;
        }
        match &mut small {
            None => {
                let owned = columns.into_iter().map(Arc::unwrap_or_clone).collect();
                small = Some((owned, rows));
            }
            Some((held, held_rows)) => {
                held.iter_mut().zip(&columns).for_each(|(held, column)| held.extend(column));
                *held_rows += rows;
            }
        }
    }
    push(&mut out, small, fields, schema)?;
    Ok(out)
}

fn push(
    out: &mut Vec<RecordBatch>,
    rows: Option<(Vec<Vector>, usize)>,
    fields: &[Field],
    schema: &SchemaRef,
) -> Result<()> {
    let Some((columns, rows)) = rows else { return Ok(()) };
    let columns = columns.into_iter().zip(fields).zip(schema.fields());
    let arrays = columns.map(|((column, field), target)| array(column, &field.ty, target.data_type()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(schema.clone(), arrays.collect::<Result<_>>()?, &options)
        .map_err(|error| ExecError::Unsupported(error.to_string()))?;
    for start in (0..rows).step_by(BATCH_ROWS) {
        out.push(batch.slice(start, BATCH_ROWS.min(rows - start)));
    }
    Ok(())
}

/// The column as an array of type `target`.
pub fn array(column: Vector, ty: &ColType, target: &DataType) -> Result<ArrayRef> {
    if let DataType::Dictionary(_, values) = target {
        let plain = array(column, ty, values)?;
        return arrow::compute::cast(&plain, target).map_err(|error| ExecError::Value(error.to_string()));
    }
    let nulls = column
        .validity
        .as_ref()
        .map(|valid| NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(valid.words().to_vec()), 0, valid.len())));
    let Vector { data, validity } = column;
    Ok(match data {
        Data::Bool(values) if *target == DataType::Boolean => {
            Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls))
        }
        Data::F32(values) if *target == DataType::Float32 => Arc::new(Float32Array::new(values.into(), nulls)),
        Data::F64(values) if *target == DataType::Float64 => Arc::new(Float64Array::new(values.into(), nulls)),
        Data::Str(views) => strings(&views, validity.as_ref(), target)?,
        Data::Code(codes) => {
            let dictionary = ty.dictionary.as_ref().filter(|dictionary| !dictionary.is_empty());
            let valid = |row: usize| validity.as_ref().is_none_or(|valid| valid.get(row));
            let view = |(row, &code): (usize, &u32)| match dictionary {
                Some(dictionary) if valid(row) => dictionary.view(code),
                _ => StrView::default(),
            };
            strings(&codes.iter().enumerate().map(view).collect::<Vec<_>>(), validity.as_ref(), target)?
        }
        data @ (Data::I32(_) | Data::I64(_) | Data::I128(_)) => integers(data, validity.as_ref(), nulls, target)?,
        data => return Err(mismatch(&data, target)),
    })
}

fn mismatch(data: &Data, target: &DataType) -> ExecError {
    ExecError::Unsupported(format!("{:?} as a result column of {target}", data.phys()))
}

fn strings(views: &[StrView], validity: Option<&Bitmap>, target: &DataType) -> Result<ArrayRef> {
    let value = |row: usize| validity.is_none_or(|valid| valid.get(row)).then(|| views[row].as_str());
    let values = (0..views.len()).map(value);
    let bytes: usize = values.clone().flatten().map(str::len).sum();
    Ok(match target {
        DataType::Utf8 if bytes > i32::MAX as usize => {
            return Err(ExecError::Value(format!("{bytes} bytes of strings in one batch of a Utf8 column")));
        }
        DataType::Utf8 => {
            let mut builder = StringBuilder::with_capacity(views.len(), bytes);
            values.for_each(|value| builder.append_option(value));
            Arc::new(builder.finish())
        }
        DataType::LargeUtf8 => {
            let mut builder = LargeStringBuilder::with_capacity(views.len(), bytes);
            values.for_each(|value| builder.append_option(value));
            Arc::new(builder.finish())
        }
        DataType::Utf8View => {
            let mut builder = StringViewBuilder::with_capacity(views.len());
            values.for_each(|value| builder.append_option(value));
            Arc::new(builder.finish())
        }
        other => return Err(ExecError::Unsupported(format!("strings as a result column of {other}"))),
    })
}

fn integers(data: Data, validity: Option<&Bitmap>, nulls: Option<NullBuffer>, target: &DataType) -> Result<ArrayRef> {
    macro_rules! integers {
        ($($pattern:pat => $t:ty),* $(,)?) => {
            match target {
                $($pattern => {
                    let values = narrow::<<$t as ArrowPrimitiveType>::Native>(data, validity, target)?;
                    Ok(Arc::new(PrimitiveArray::<$t>::new(values, nulls).with_data_type(target.clone())))
                })*
                _ => Err(mismatch(&data, target)),
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
        DataType::Time32(TimeUnit::Millisecond) => Time32MillisecondType,
        DataType::Time64(TimeUnit::Microsecond) => Time64MicrosecondType,
        DataType::Time64(TimeUnit::Nanosecond) => Time64NanosecondType,
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
}

/// Integers of type `N`: the vector itself if it has this type, otherwise converted one by one.
fn narrow<N>(data: Data, validity: Option<&Bitmap>, target: &DataType) -> Result<ScalarBuffer<N>>
where
    N: ArrowNativeType + TryFrom<i128> + Default,
{
    let convert = |(row, value): (usize, i128)| {
        N::try_from(value).or_else(|_| match validity {
            // Values under a NULL are unspecified.
            Some(valid) if !valid.get(row) => Ok(N::default()),
            _ => Err(ExecError::Value(format!("{value} is out of range for {target}"))),
        })
    };
    let converted: Vec<N> = match data {
        Data::I32(values) => match same(values) {
            Ok(values) => return Ok(values.into()),
            Err(values) => values.into_iter().map(i128::from).enumerate().map(convert).collect::<Result<_>>()?,
        },
        Data::I64(values) => match same(values) {
            Ok(values) => return Ok(values.into()),
            Err(values) => values.into_iter().map(i128::from).enumerate().map(convert).collect::<Result<_>>()?,
        },
        Data::I128(values) => match same(values) {
            Ok(values) => return Ok(values.into()),
            Err(values) => values.into_iter().enumerate().map(convert).collect::<Result<_>>()?,
        },
        data => return Err(mismatch(&data, target)),
    };
    Ok(converted.into())
}
