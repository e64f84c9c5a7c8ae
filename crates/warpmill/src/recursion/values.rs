//! Values that are replaced one by one: a column of a recursion's dictionary.

use arrow::array::{Array, ArrayRef, new_empty_array};
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use datafusion::common::Result;

/// Replaced values are dropped once there are this many rows per current value.
const MOST_OLD: usize = 4;

/// Number of rows up to which no values are dropped.
const FEW_ROWS: usize = 1 << 12;

/// The entry of a place without a value.
const NOWHERE: (usize, usize) = (usize::MAX, usize::MAX);

/// The values of several places: rows of the arrays that they were added with.
pub(super) struct Values {
    ty: DataType,
    arrays: Vec<ArrayRef>,
    /// For each place the array and the row of its value.
    places: Vec<(usize, usize)>,
    /// The number of rows of all arrays.
    rows: usize,
    bytes: usize,
}

impl Values {
    /// An empty collection of values of type `ty`.
    pub(super) fn new(ty: DataType) -> Self {
        Self { ty, arrays: vec![], places: vec![], rows: 0, bytes: 0 }
    }

    /// Puts each row of `array` in its place. Existing values are replaced only if `replaces`. Afterwards every place up to the last one has a value.
    pub(super) fn put(&mut self, array: &ArrayRef, places: &[usize], replaces: bool) -> Result<()> {
        let number = self.arrays.len();
        for (row, &place) in places.iter().enumerate() {
            if place >= self.places.len() {
                self.places.resize(place + 1, NOWHERE);
            }
            if replaces || self.places[place] == NOWHERE {
                self.places[place] = (number, row);
            }
        }
        self.arrays.push(array.clone());
        self.rows += array.len();
        self.bytes += array.get_array_memory_size();
        if self.rows > FEW_ROWS.max(MOST_OLD * self.places.len()) {
            self.drop_old()?;
        }
        Ok(())
    }

    /// The values of `places`.
    pub(super) fn get(&self, places: &[usize]) -> Result<ArrayRef> {
        let rows: Vec<_> = places.iter().map(|&place| self.places[place]).collect();
        self.taken(&rows)
    }

    /// The size in bytes, including replaced values.
    pub(super) fn size(&self) -> usize {
        self.bytes + self.places.capacity() * size_of::<(usize, usize)>()
    }

    fn taken(&self, rows: &[(usize, usize)]) -> Result<ArrayRef> {
        if rows.is_empty() {
            return Ok(new_empty_array(&self.ty));
        }
        let arrays: Vec<&dyn Array> = self.arrays.iter().map(AsRef::as_ref).collect();
        Ok(interleave(&arrays, rows)?)
    }

    fn drop_old(&mut self) -> Result<()> {
        let kept = self.taken(&self.places)?;
        self.places = (0..kept.len()).map(|row| (0, row)).collect();
        (self.rows, self.bytes) = (kept.len(), kept.get_array_memory_size());
        self.arrays = vec![kept];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;
    use std::sync::Arc;

    fn array(values: Vec<i64>) -> ArrayRef {
        Arc::new(Int64Array::from(values))
    }

    #[test]
    fn the_last_value_of_a_place_stays() {
        let (mut last, mut first) = (Values::new(DataType::Int64), Values::new(DataType::Int64));
        for values in [&mut last, &mut first] {
            assert_eq!(values.get(&[]).unwrap().len(), 0);
        }
        for (values, replaces) in [(&mut last, true), (&mut first, false)] {
            values.put(&array(vec![1, 2, 3]), &[0, 1, 0], replaces).unwrap();
            values.put(&array(vec![6, 4]), &[3, 2], replaces).unwrap();
            values.put(&array(vec![5]), &[1], replaces).unwrap();
        }
        assert_eq!(&last.get(&[0, 1, 2, 3]).unwrap(), &array(vec![3, 5, 4, 6]));
        assert_eq!(&first.get(&[3, 2, 1, 0]).unwrap(), &array(vec![6, 4, 2, 1]));
        for step in 0..10_000 {
            last.put(&array(vec![step, -step]), &[0, 2], true).unwrap();
        }
        assert!(last.rows <= FEW_ROWS + 2);
        assert_eq!(&last.get(&[0, 1, 2]).unwrap(), &array(vec![9_999, 5, -9_999]));
    }
}
