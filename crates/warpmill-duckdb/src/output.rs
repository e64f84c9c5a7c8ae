//! Result rows in DuckDB's physical layout.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ops::RangeInclusive;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use arrow::buffer::{BooleanBuffer, Buffer};
use arrow::datatypes::{self as types, DataType, Decimal128Type};

use crate::Refused;
use crate::types::Type;

/// One column of a batch; see `wm_column` in `duckdb/src/engine.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ColumnView {
    values: *const c_void,
    validity: *const u8,
    offsets: *const i32,
}

/// A batch with columns in DuckDB's physical layout.
pub struct Batch {
    rows: usize,
    columns: Vec<Column>,
}

struct Column {
    values: Buffer,
    validity: Option<Buffer>,
    offsets: Option<Buffer>,
}

impl Batch {
    /// Converts a batch with the Arrow types of `types`.
    pub fn new(batch: &RecordBatch, types: &[Type]) -> Result<Self, Refused> {
        Self::of(batch, types, false)
    }

    /// As [`Self::new`], with decimals of any width in 128 bits.
    pub fn with_wide_decimals(batch: &RecordBatch, types: &[Type]) -> Result<Self, Refused> {
        Self::of(batch, types, true)
    }

    fn of(batch: &RecordBatch, types: &[Type], wide: bool) -> Result<Self, Refused> {
        if batch.num_columns() != types.len() {
            return Err(Refused::new("a result with another number of columns"));
        }
        let columns = batch.columns().iter().zip(types).map(|(array, &ty)| Column::new(array, ty, wide));
        Ok(Self { rows: batch.num_rows(), columns: columns.collect::<Result<_, _>>()? })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Views of the columns; valid as long as the batch.
    pub fn views(&self) -> impl Iterator<Item = ColumnView> {
        self.columns.iter().map(|column| ColumnView {
            values: column.values.as_ptr().cast(),
            validity: column.validity.as_ref().map_or(std::ptr::null(), |buffer| buffer.as_ptr()),
            offsets: column.offsets.as_ref().map_or(std::ptr::null(), |buffer| buffer.as_ptr().cast()),
        })
    }
}

impl Column {
    fn new(array: &ArrayRef, ty: Type, wide: bool) -> Result<Self, Refused> {
        if *array.data_type() != ty.arrow() {
            return Err(Refused::new(format!("a result column of type {}, not {}", array.data_type(), ty.arrow())));
        }
        check_limits(array, ty)?;
        let validity = array.nulls().filter(|nulls| nulls.null_count() > 0).map(|nulls| aligned(nulls.inner()));
        let (values, offsets) = match ty {
            Type::Varchar => strings(array),
            Type::Boolean => {
                let bits = array.as_boolean().values();
                (Buffer::from_iter(bits.iter().map(u8::from)), None)
            }
            Type::Decimal(width, _) if !wide => (decimals(array, width), None),
            _ => (fixed(array)?, None),
        };
        Ok(Self { values, validity, offsets })
    }
}

/// Refuses values that the type does not have; arithmetic may produce them.
fn check_limits(array: &ArrayRef, ty: Type) -> Result<(), Refused> {
    let Some(limits) = ty.limits() else { return Ok(()) };
    let all = match ty {
        Type::Date => is_within(array.as_primitive::<types::Date32Type>(), &limits),
        Type::Timestamp => is_within(array.as_primitive::<types::TimestampMicrosecondType>(), &limits),
        _ => is_within(array.as_primitive::<Decimal128Type>(), &limits),
    };
    if all { Ok(()) } else { Err(ty.beyond_limits()) }
}

fn is_within<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, limits: &RangeInclusive<i128>) -> bool
where
    T::Native: Into<i128>,
{
    // The stored value of a NULL may be any.
    array.values().iter().enumerate().all(|(row, &x)| limits.contains(&x.into()) || array.is_null(row))
}

/// The bits in a buffer of their own, which begins with the first bit.
fn aligned(bits: &BooleanBuffer) -> Buffer {
    bits.sliced()
}

fn strings(array: &ArrayRef) -> (Buffer, Option<Buffer>) {
    let strings = array.as_string::<i32>();
    (strings.values().clone(), Some(strings.offsets().inner().inner().clone()))
}

/// Decimals as DuckDB holds them: in the smallest integer for their width.
fn decimals(array: &ArrayRef, width: u8) -> Buffer {
    let values = array.as_primitive::<Decimal128Type>().values();
    match width {
        0..=4 => Buffer::from_iter(values.iter().map(|&value| value as i16)),
        5..=9 => Buffer::from_iter(values.iter().map(|&value| value as i32)),
        10..=18 => Buffer::from_iter(values.iter().map(|&value| value as i64)),
        _ => values.inner().clone(),
    }
}

fn fixed(array: &ArrayRef) -> Result<Buffer, Refused> {
    macro_rules! buffer {
        ($ty:ident) => {
            array.as_primitive::<types::$ty>().values().inner().clone()
        };
    }
    Ok(match array.data_type() {
        DataType::Int8 => buffer!(Int8Type),
        DataType::Int16 => buffer!(Int16Type),
        DataType::Int32 => buffer!(Int32Type),
        DataType::Int64 => buffer!(Int64Type),
        DataType::UInt8 => buffer!(UInt8Type),
        DataType::UInt16 => buffer!(UInt16Type),
        DataType::UInt32 => buffer!(UInt32Type),
        DataType::UInt64 => buffer!(UInt64Type),
        DataType::Float32 => buffer!(Float32Type),
        DataType::Float64 => buffer!(Float64Type),
        DataType::Date32 => buffer!(Date32Type),
        DataType::Decimal128(..) => buffer!(Decimal128Type),
        DataType::Timestamp(..) => buffer!(TimestampMicrosecondType),
        other => return Err(Refused::new(format!("a result column of type {other}"))),
    })
}

/// Converted batches, in order. Errors occur before the first row is returned, when all batches are converted.
#[derive(Default)]
pub struct Rows {
    batches: VecDeque<Batch>,
    current: Option<Batch>,
}

impl Rows {
    /// The rows of a result with columns of `types`; converts all of them.
    pub fn new(batches: Vec<RecordBatch>, types: &[Type]) -> Result<Self, Refused> {
        let batches = batches.into_iter().map(|batch| Batch::new(&batch, types));
        Ok(Self { batches: batches.collect::<Result<_, _>>()?, current: None })
    }

    /// The next batch, valid until the next call.
    pub fn next_batch(&mut self) -> Option<&Batch> {
        self.current = self.batches.pop_front();
        self.current.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, Decimal128Array, Int32Array, StringArray};
    use arrow::datatypes::{Field, Schema};
    use std::sync::Arc;

    #[test]
    fn slices_begin_at_their_first_row() {
        let decimals = Decimal128Array::from(vec![Some(5), None, Some(-7)]).with_precision_and_scale(4, 1).unwrap();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![Some(1), Some(2), None])),
            Arc::new(StringArray::from(vec![Some("a"), None, Some("ccc")])),
            Arc::new(BooleanArray::from(vec![Some(false), Some(true), None])),
            Arc::new(decimals),
        ];
        let types = [Type::Integer, Type::Varchar, Type::Boolean, Type::Decimal(4, 1)];
        let fields: Vec<Field> = types.iter().map(|ty| Field::new("x", ty.arrow(), true)).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap().slice(1, 2);
        let batch = Batch::new(&batch, &types).unwrap();
        assert_eq!(batch.rows(), 2);
        let views: Vec<ColumnView> = batch.views().collect();
        // SAFETY: the views are of two rows, and the batch lives.
        unsafe {
            assert_eq!(*views[0].values.cast::<i32>(), 2);
            assert_eq!(*views[0].validity & 3, 0b01);
            let offsets = std::slice::from_raw_parts(views[1].offsets, 3);
            let bytes = views[1].values.cast::<u8>().add(offsets[1] as usize);
            assert_eq!(std::slice::from_raw_parts(bytes, 3), b"ccc");
            assert_eq!(*views[1].validity & 3, 0b10);
            assert_eq!(*views[2].values.cast::<u8>(), 1);
            assert_eq!(*views[3].values.cast::<i16>().add(1), -7);
        }
    }

    #[test]
    fn values_that_a_type_does_not_have_are_refused() {
        let good = Decimal128Array::from(vec![Some(9999)]).with_precision_and_scale(4, 1).unwrap();
        let bad = Decimal128Array::from(vec![Some(1), Some(10_000)]).with_precision_and_scale(4, 1).unwrap();
        let schema = Arc::new(Schema::new(vec![Field::new("x", good.data_type().clone(), true)]));
        let batches = [good, bad].map(|array| RecordBatch::try_new(schema.clone(), vec![Arc::new(array)]).unwrap());
        assert!(Rows::new(batches[..1].to_vec(), &[Type::Decimal(4, 1)]).is_ok());
        // An error in a later batch has to occur before the first row is returned.
        assert!(Rows::new(batches.to_vec(), &[Type::Decimal(4, 1)]).is_err());
    }

    #[test]
    fn other_types_are_refused() {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let schema = Schema::new(vec![Field::new("x", DataType::Int32, true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap();
        assert!(Rows::new(vec![batch.clone()], &[Type::BigInt]).is_err());
        assert!(Rows::new(vec![batch], &[]).is_err());
    }
}
