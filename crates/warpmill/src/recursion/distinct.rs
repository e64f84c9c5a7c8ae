//! The rows of a UNION that are not known yet.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Float32Type, Float64Type, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use std::sync::Arc;

/// A set of keys, which are numbered in the order of their first occurrence.
pub(super) struct Keys {
    values: Box<dyn GroupValues>,
    numbers: Vec<usize>,
}

impl Keys {
    /// An empty set of keys with these types.
    pub(super) fn new(schema: SchemaRef) -> Result<Self> {
        Ok(Self { values: new_group_values(schema, &GroupOrdering::None)?, numbers: vec![] })
    }

    /// The number of different keys.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The size of the keys in bytes.
    pub(super) fn size(&self) -> usize {
        self.values.size()
    }

    /// The number of each row's key; new keys get the next numbers.
    pub(super) fn numbers(&mut self, columns: &[ArrayRef]) -> Result<&[usize]> {
        let columns: Vec<ArrayRef> = columns.iter().map(comparable).collect();
        self.numbers.clear();
        self.values.intern(&columns, &mut self.numbers)?;
        Ok(&self.numbers)
    }
}

/// `column` with one zero and one NaN, so that floats that are equal in SQL have the same bits.
pub(super) fn comparable(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float64 => {
            let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        DataType::Float32 => {
            let one = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        _ => Arc::clone(column),
    }
}

/// The rows of `batch` that are not in `known`; adds them.
pub(super) fn new_rows(known: &mut Keys, batch: &RecordBatch) -> Result<RecordBatch> {
    let before = known.len();
    let mut seen: Vec<bool> = vec![];
    let is_new = |&number: &usize| {
        let Some(place) = number.checked_sub(before) else { return false };
        if place >= seen.len() {
            seen.resize(place + 1, false);
        }
        !std::mem::replace(&mut seen[place], true)
    };
    let mask: Vec<bool> = known.numbers(batch.columns())?.iter().map(is_new).collect();
    match mask.iter().all(|is_new| *is_new) {
        true => Ok(batch.clone()),
        false => Ok(filter_record_batch(batch, &BooleanArray::from(mask))?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array};
    use arrow::datatypes::{Field, Schema};

    fn rows(values: &[(i64, f64)]) -> RecordBatch {
        let fields = vec![Field::new("x", DataType::Int64, true), Field::new("y", DataType::Float64, true)];
        let (x, y): (Vec<i64>, Vec<f64>) = values.iter().copied().unzip();
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(x)), Arc::new(Float64Array::from(y))];
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    }

    #[test]
    fn rows_are_new_once() {
        let mut known = Keys::new(rows(&[]).schema()).unwrap();
        let mut new = |batch: &RecordBatch| new_rows(&mut known, batch).unwrap();
        assert_eq!(new(&rows(&[(1, 0.0), (2, 0.0), (1, -0.0)])), rows(&[(1, 0.0), (2, 0.0)]));
        assert_eq!(new(&rows(&[(2, -0.0), (1, f64::NAN), (1, -f64::NAN)])).num_rows(), 1);
        assert_eq!(new(&rows(&[(3, 1.0)])), rows(&[(3, 1.0)]));
        assert_eq!(new(&rows(&[(3, 1.0), (1, f64::NAN)])).num_rows(), 0);
    }
}
