//! Rows of one table that DuckDB's vectors bring.

use std::ffi::c_void;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, Decimal128Array, PrimitiveArray, RecordBatch, StringBuilder,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::concat_batches;
use arrow::datatypes::{self as types, Field, Schema, SchemaRef};
use warpmill_format::Table;

use crate::Refused;
use crate::input::text;
use crate::types::Type;

/// Chunks that are put together: as many as make a row group of DuckDB's.
const CHUNKS: usize = 60;

/// A column of a chunk, as DuckDB's flat vectors lie; see `wm_source` in `duckdb/src/engine.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SourceView {
    values: *const c_void,
    validity: *const u64,
}

/// Rows, in the order in which they came.
pub struct Rows {
    schema: SchemaRef,
    types: Vec<Type>,
    batches: Vec<RecordBatch>,
    chunks: Vec<RecordBatch>,
}

impl Rows {
    /// No rows, of the columns in `schema`: lines of a name, a space, and a type.
    pub fn new(schema: &str) -> Result<Self, Refused> {
        let columns = schema.lines().map(|line| {
            let (name, ty) = line.split_once(' ').ok_or_else(|| Refused::new("a column without a type"))?;
            let ty = Type::parse(ty)?;
            Ok((Field::new(name, ty.arrow(), true), ty))
        });
        let (fields, types): (Vec<Field>, Vec<Type>) =
            columns.collect::<Result<Vec<_>, Refused>>()?.into_iter().unzip();
        Ok(Self { schema: Arc::new(Schema::new(fields)), types, batches: vec![], chunks: vec![] })
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.types.len()
    }

    /// Copies `rows` rows.
    ///
    /// # Safety
    /// The columns are flat vectors of DuckDB's with this many rows, of the types that these rows have.
    pub unsafe fn push(&mut self, rows: usize, columns: &[SourceView]) -> Result<(), Refused> {
        let arrays = self.types.iter().zip(columns).map(|(&ty, view)| {
            // SAFETY: the caller's promise.
            unsafe { array(ty, view, rows) }
        });
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(failed)?;
        self.chunks.push(batch);
        if self.chunks.len() >= CHUNKS {
            self.pack()?;
        }
        Ok(())
    }

    fn pack(&mut self) -> Result<(), Refused> {
        if !self.chunks.is_empty() {
            self.batches.push(concat_batches(&self.schema, &self.chunks).map_err(failed)?);
            self.chunks.clear();
        }
        Ok(())
    }

    /// Takes the rows of `other`, which has the same columns.
    pub fn merge(&mut self, mut other: Self) {
        self.batches.append(&mut other.batches);
        self.chunks.append(&mut other.chunks);
    }

    /// All rows as a table, with the columns of `schema`.
    pub fn table(mut self, schema: &SchemaRef) -> Result<Arc<Table>, Refused> {
        self.pack()?;
        if self.schema != *schema {
            return Err(Refused::new("rows with other columns than the plan reads"));
        }
        let table = Table::in_memory(Arc::clone(schema));
        let mut writer = table.replace(Arc::clone(schema), Default::default())?;
        for batch in self.batches.drain(..) {
            writer.write(&batch)?;
        }
        writer.commit()?;
        Ok(table)
    }
}

fn failed(error: arrow::error::ArrowError) -> Refused {
    Refused::new(error.to_string())
}

/// SAFETY: as [`Rows::push`].
unsafe fn array(ty: Type, view: &SourceView, rows: usize) -> Result<ArrayRef, Refused> {
    // SAFETY: one bit for each row, in words.
    let nulls = unsafe { nulls(view.validity, rows) };
    macro_rules! primitive {
        ($ty:ident) => {
            // SAFETY: a value for each row, of the type's width.
            Arc::new(unsafe { primitive::<types::$ty>(view, rows, nulls) })
        };
    }
    macro_rules! decimal {
        ($native:ty, $width:expr, $scale:expr) => {{
            // SAFETY: see above.
            let values = unsafe { values::<$native>(view, rows) }.map(i128::from);
            let array = Decimal128Array::new(values.collect(), nulls);
            Arc::new(array.with_precision_and_scale($width, $scale).map_err(failed)?)
        }};
    }
    Ok(match ty {
        Type::Boolean => {
            // SAFETY: see above; only zero is false.
            let bits: BooleanBuffer = unsafe { values::<u8>(view, rows) }.map(|value| value != 0).collect();
            Arc::new(BooleanArray::new(bits, nulls))
        }
        Type::TinyInt => primitive!(Int8Type),
        Type::SmallInt => primitive!(Int16Type),
        Type::Integer => primitive!(Int32Type),
        Type::BigInt => primitive!(Int64Type),
        Type::UTinyInt => primitive!(UInt8Type),
        Type::USmallInt => primitive!(UInt16Type),
        Type::UInteger => primitive!(UInt32Type),
        Type::UBigInt => primitive!(UInt64Type),
        Type::Float => primitive!(Float32Type),
        Type::Double => primitive!(Float64Type),
        Type::Date => {
            // SAFETY: see above.
            require_finite(unsafe { values::<i32>(view, rows) }.map(i64::from), i64::from(i32::MAX), nulls.as_ref())?;
            primitive!(Date32Type)
        }
        Type::Timestamp => {
            // SAFETY: see above.
            require_finite(unsafe { values::<i64>(view, rows) }, i64::MAX, nulls.as_ref())?;
            primitive!(TimestampMicrosecondType)
        }
        Type::Decimal(width @ 0..=4, scale) => decimal!(i16, width, scale),
        Type::Decimal(width @ 5..=9, scale) => decimal!(i32, width, scale),
        Type::Decimal(width @ 10..=18, scale) => decimal!(i64, width, scale),
        Type::Decimal(width, scale) => decimal!(i128, width, scale),
        // SAFETY: see above.
        Type::Varchar => unsafe { strings(view, rows, nulls) }?,
        Type::HugeInt | Type::Interval | Type::Null => {
            return Err(Refused::new(format!("a column of the type {ty:?}")));
        }
    })
}

/// SAFETY: null, or a bit for each row.
unsafe fn nulls(validity: *const u64, rows: usize) -> Option<NullBuffer> {
    if validity.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; DuckDB's masks are whole words.
    let words = unsafe { std::slice::from_raw_parts(validity, rows.div_ceil(64)) };
    let nulls = NullBuffer::new(BooleanBuffer::new(Buffer::from_slice_ref(words), 0, rows));
    (nulls.null_count() > 0).then_some(nulls)
}

/// SAFETY: as many values as rows. They need not be aligned.
unsafe fn values<T: Copy>(view: &SourceView, rows: usize) -> impl Iterator<Item = T> {
    let first = view.values.cast::<T>();
    // SAFETY: the caller's promise.
    (0..rows).map(move |row| unsafe { first.add(row).read_unaligned() })
}

/// SAFETY: as `values`.
unsafe fn primitive<T: ArrowPrimitiveType>(
    view: &SourceView,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> PrimitiveArray<T> {
    // SAFETY: the caller's promise.
    let values = unsafe { values::<T::Native>(view, rows) };
    PrimitiveArray::new(values.collect(), nulls)
}

fn require_finite(values: impl Iterator<Item = i64>, infinite: i64, nulls: Option<&NullBuffer>) -> Result<(), Refused> {
    let found = values
        .enumerate()
        .any(|(row, value)| (value == infinite || value == -infinite) && nulls.is_none_or(|nulls| nulls.is_valid(row)));
    if found { Err(Refused::new("a date or timestamp is infinite")) } else { Ok(()) }
}

/// SAFETY: as many as rows; those that are not NULL have text.
unsafe fn strings(view: &SourceView, rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef, Refused> {
    let first = view.values.cast::<[u8; 16]>();
    let mut builder = StringBuilder::with_capacity(rows, rows * 16);
    for row in 0..rows {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            builder.append_null();
            continue;
        }
        // SAFETY: the caller's promise; the text lives as long as the vector.
        let bytes = unsafe { text(first.add(row).cast()) };
        builder.append_value(std::str::from_utf8(bytes).map_err(|_| Refused::new("text that is not UTF-8"))?);
    }
    Ok(Arc::new(builder.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::entry;
    use arrow::array::{Array, AsArray};

    fn view<T>(values: &[T], validity: Option<&u64>) -> SourceView {
        SourceView { values: values.as_ptr().cast(), validity: validity.map_or(std::ptr::null(), std::ptr::from_ref) }
    }

    #[test]
    fn columns_are_copied() {
        let mut rows = Rows::new("c0 INTEGER\nc1 VARCHAR\nc2 DECIMAL(15,2)\nc3 DECIMAL(38,0)\nc4 BOOLEAN").unwrap();
        let valid = 0b101;
        let texts = [entry("short"), entry(""), entry("longer than twelve bytes")];
        let columns = [
            view(&[1i32, 2, 3], Some(&valid)),
            view(&texts, None),
            view(&[100i64, -1, 7], None),
            view(&[i128::MAX / 2, 0, -1], Some(&valid)),
            view(&[1u8, 0, 1], None),
        ];
        // SAFETY: three rows of these types.
        unsafe { rows.push(3, &columns) }.unwrap();
        rows.pack().unwrap();
        let batch = &rows.batches[0];
        assert!(batch.column(0).is_null(1) && batch.column(3).is_null(1));
        assert_eq!(batch.column(0).as_primitive::<types::Int32Type>().value(2), 3);
        assert_eq!(batch.column(1).as_string::<i32>().value(2), "longer than twelve bytes");
        assert_eq!(batch.column(2).as_primitive::<types::Decimal128Type>().value(1), -1);
        assert!(!batch.column(4).as_boolean().value(1));
    }

    #[test]
    fn infinite_dates_are_refused() {
        let mut rows = Rows::new("c0 DATE").unwrap();
        // SAFETY: one row of this type.
        assert!(unsafe { rows.push(1, &[view(&[-i32::MAX], None)]) }.is_err());
        let nothing = 0;
        // SAFETY: see above.
        assert!(unsafe { rows.push(1, &[view(&[i32::MAX], Some(&nothing))]) }.is_ok());
    }
}
