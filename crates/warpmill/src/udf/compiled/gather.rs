//! Gathers rows by group into contiguous columns for compiled code.
//!
//! Counting sort: rows are copied directly to their places, in arrival order within a group.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::CastOptions;
use arrow::compute::cast_with_options;
use arrow::datatypes::{Float64Type, Int64Type};

use super::ColumnKind;
use crate::{Error, Result};

/// The values of a column.
#[derive(Debug)]
pub(super) enum Values {
    Bool(Vec<u8>),
    Int(Vec<i64>),
    Float(Vec<f64>),
}

impl Values {
    fn new(kind: ColumnKind, rows: usize) -> Self {
        match kind {
            ColumnKind::Bool => Self::Bool(vec![0; rows]),
            ColumnKind::Int => Self::Int(vec![0; rows]),
            ColumnKind::Float => Self::Float(vec![0.0; rows]),
        }
    }

    pub(super) fn address(&self) -> *const std::ffi::c_void {
        match self {
            Self::Bool(values) => values.as_ptr().cast(),
            Self::Int(values) => values.as_ptr().cast(),
            Self::Float(values) => values.as_ptr().cast(),
        }
    }
}

/// A column, group by group.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) values: Values,
    /// 1 where a row is not NULL, else 0; `None` without NULLs.
    pub(super) present: Option<Vec<u8>>,
}

/// The place of a row that is skipped.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A column of `batches`, with each row at its place among `rows` rows.
pub(super) fn column<'b>(
    kind: ColumnKind,
    batches: impl Iterator<Item = (&'b ArrayRef, &'b [u32])>,
    rows: usize,
) -> Result<Column> {
    let mut column = Column { values: Values::new(kind, rows), present: None };
    for (array, places) in batches {
        let array = converted(kind, array)?;
        match &mut column.values {
            Values::Bool(out) => {
                let values = array.as_boolean().values().iter().map(u8::from);
                scatter(values, places, out);
            }
            Values::Int(out) => scatter(array.as_primitive::<Int64Type>().values().iter().copied(), places, out),
            Values::Float(out) => scatter(array.as_primitive::<Float64Type>().values().iter().copied(), places, out),
        }
        if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
            let present = column.present.get_or_insert_with(|| vec![1; rows]);
            scatter(nulls.iter().map(u8::from), places, present);
        }
    }
    Ok(column)
}

/// A column in the representation of compiled code.
fn converted(kind: ColumnKind, array: &ArrayRef) -> Result<ArrayRef> {
    let ty = kind.arrow();
    if *array.data_type() == ty {
        return Ok(array.clone());
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, &ty, &options).map_err(|error| Error::Execution(error.to_string()))
}

fn scatter<T>(values: impl Iterator<Item = T>, places: &[u32], out: &mut [T]) {
    for (value, place) in values.zip(places) {
        if *place != NOWHERE {
            out[*place as usize] = value;
        }
    }
}
