//! Changes of rows: deletions and updates of a version's rows. Row segments without changes keep their stored chunks; in the others, columns without
//! changed rows do.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, MutableArrayData, UInt32Array, make_array};
use arrow::buffer::NullBuffer;
use arrow::compute::{filter, interleave, take};

use super::TableSnapshot;
use super::conform::conform_column;
use super::decode::{column_array, column_codes};
use super::deletions::kept_mask;
use super::interner::Interner;
use crate::{Bitmap, FormatError, Result};

/// Deletions and updates of rows of one version of a table. Rows are numbered from 0 in table order.
#[derive(Debug)]
pub struct Changes {
    table: Arc<TableSnapshot>,
    /// Number of the first row of each row segment, and the total number.
    starts: Vec<u64>,
    /// Changes by row segment.
    segments: Vec<Option<Box<SegmentChanges>>>,
    /// Indices of the updated columns.
    columns: Vec<usize>,
    /// New values, by batch and by column of `columns`.
    values: Vec<Vec<ArrayRef>>,
    /// The row segment of the last row.
    last: usize,
}

/// The changes of one row segment.
#[derive(Debug)]
pub(crate) struct SegmentChanges {
    segment: usize,
    rows: usize,
    touched: Bitmap,
    deleted: Option<Bitmap>,
    /// Updated rows: row, batch of the new values, row in the batch.
    updated: Vec<(u32, u32, u32)>,
}

/// A dictionary column's codes after changes: codes past those of the dictionary refer to `new`.
pub(crate) struct Coded {
    pub codes: Vec<u32>,
    pub nulls: Option<NullBuffer>,
    pub new: Interner,
}

impl Changes {
    /// No changes yet, for rows of `table`, of which `columns` may be updated.
    pub fn new(table: &Arc<TableSnapshot>, columns: Vec<usize>) -> Self {
        let mut starts = vec![0];
        for segment in 0..table.num_segments() {
            starts.push(starts[segment] + table.segment_rows(segment) as u64);
        }
        let segments = (0..table.num_segments()).map(|_| None).collect();
        Self { table: Arc::clone(table), starts, segments, columns, values: vec![], last: 0 }
    }

    /// The version to change.
    pub fn table(&self) -> &Arc<TableSnapshot> {
        &self.table
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.segments.iter().all(Option::is_none)
    }

    /// Deletes `row`. Returns false if it has been changed already.
    pub fn delete(&mut self, row: u64) -> bool {
        let (changes, row) = self.at(row);
        if changes.touched.get(row) {
            return false;
        }
        changes.touched.set(row, true);
        changes.deleted.get_or_insert_with(|| Bitmap::new(changes.rows, false)).set(row, true);
        true
    }

    /// Deletes all rows.
    pub fn delete_all(&mut self) {
        for segment in 0..self.segments.len() {
            let rows = self.table.segment_rows(segment);
            let (touched, deleted) = (Bitmap::new(rows, true), Some(Bitmap::new(rows, true)));
            self.segments[segment] =
                Some(Box::new(SegmentChanges { segment, rows, touched, deleted, updated: vec![] }));
        }
    }

    /// Adds a batch of new values for the updated columns, in their order. Returns the batch's number.
    ///
    /// # Errors
    /// [`FormatError::Schema`] with the name of the column in which a value does not fit.
    pub fn add_values(&mut self, values: &[ArrayRef]) -> Result<usize> {
        let schema = self.table.schema();
        let fit = |(&column, array): (&usize, &ArrayRef)| conform_column(array, schema.field(column));
        self.values.push(self.columns.iter().zip(values).map(fit).collect::<Result<_>>()?);
        Ok(self.values.len() - 1)
    }

    /// Updates `row` with the values in row `at` of a batch. Returns false if it has been changed already.
    pub fn update(&mut self, row: u64, batch: usize, at: usize) -> bool {
        let (changes, row) = self.at(row);
        if changes.touched.get(row) {
            return false;
        }
        changes.touched.set(row, true);
        changes.updated.push((row as u32, batch as u32, at as u32));
        true
    }

    /// The changes of the row segment of `row`, and its position there.
    fn at(&mut self, row: u64) -> (&mut SegmentChanges, usize) {
        let within = |segment: usize| self.starts[segment] <= row && row < self.starts[segment + 1];
        if !within(self.last) {
            self.last = self.starts.partition_point(|&start| start <= row) - 1;
        }
        let (segment, start) = (self.last, self.starts[self.last]);
        let rows = self.table.segment_rows(segment);
        let changes = self.segments[segment].get_or_insert_with(|| {
            let touched = Bitmap::new(rows, false);
            Box::new(SegmentChanges { segment, rows, touched, deleted: None, updated: vec![] })
        });
        (changes, (row - start) as usize)
    }

    /// The row segments that change.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &SegmentChanges> {
        self.segments.iter().flatten().map(|changes| &**changes)
    }

    /// The new values of `column` by batch, if it is updated.
    fn values_of(&self, changes: &SegmentChanges, column: usize) -> Option<Vec<&dyn Array>> {
        let at = self.columns.iter().position(|known| *known == column).filter(|_| !changes.updated.is_empty())?;
        Some(self.values.iter().map(|values| &*values[at] as &dyn Array).collect())
    }

    /// The rows of a row segment that are deleted or updated in one of `columns`; `None`: there are none.
    pub(crate) fn freed(&self, changes: &SegmentChanges, columns: &[usize]) -> Option<Bitmap> {
        let changed = columns.iter().any(|column| self.columns.contains(column));
        if changed { Some(changes.touched.clone()) } else { changes.deleted.clone() }
    }

    /// The rows of a row segment that are updated in one of `columns`, with the resulting values of these columns. `None`: there are no such rows.
    pub(crate) fn updated(&self, changes: &SegmentChanges, columns: &[usize]) -> Result<Option<Vec<ArrayRef>>> {
        if changes.updated.is_empty() || !columns.iter().any(|column| self.columns.contains(column)) {
            return Ok(None);
        }
        let rows = UInt32Array::from_iter_values(changes.updated.iter().map(|&(row, _, _)| row));
        let places: Vec<(usize, usize)> =
            changes.updated.iter().map(|&(_, batch, at)| (batch as usize, at as usize)).collect();
        let column = |&column: &usize| -> Result<ArrayRef> {
            Ok(match self.values_of(changes, column) {
                Some(values) => interleave(&values, &places)?,
                None => take(&column_array(&self.table, changes.segment, column)?, &rows, None)?,
            })
        };
        columns.iter().map(column).collect::<Result<_>>().map(Some)
    }

    /// The rows of a row segment that are deleted afterwards; `None`: none are.
    ///
    /// # Errors
    /// Errors of reading.
    pub(crate) fn deleted(&self, changes: &SegmentChanges) -> Result<Option<Bitmap>> {
        let before = self.table.deleted(changes.segment)?;
        Ok(match (&changes.deleted, before) {
            (None, None) => None,
            (Some(own), None) => Some(own.clone()),
            (None, Some(before)) => Some(before.clone()),
            (Some(own), Some(before)) => {
                let mut all = own.clone();
                all.or_assign(before);
                Some(all)
            }
        })
    }
}

impl SegmentChanges {
    /// Its position.
    pub fn segment(&self) -> usize {
        self.segment
    }

    /// Whether it deletes rows.
    pub fn has_deleted(&self) -> bool {
        self.deleted.is_some()
    }

    /// Whether it updates rows.
    pub fn has_updated(&self) -> bool {
        !self.updated.is_empty()
    }

    /// `array`, a column of the row segment, with the updated rows from `values`, by batch; runs of rows are copied at once.
    fn updated_array(&self, array: &ArrayRef, values: &[&dyn Array]) -> arrow::error::Result<ArrayRef> {
        let data: Vec<ArrayData> = [&**array].iter().chain(values).map(|array| array.to_data()).collect();
        let mut made = MutableArrayData::new(data.iter().collect(), false, self.rows);
        let mut updated = Cow::Borrowed(&self.updated);
        if !updated.is_sorted_by_key(|(row, ..)| *row) {
            updated.to_mut().sort_unstable_by_key(|(row, ..)| *row);
        }
        let (mut rest, mut next) = (&updated[..], 0);
        while let [(row, batch, at), ..] = *rest {
            let is_next = |(i, known): (usize, &(u32, u32, u32))| *known == (row + i as u32, batch, at + i as u32);
            let count = rest.iter().enumerate().take_while(|known| is_next(*known)).count();
            made.try_extend(0, next, row as usize)?;
            made.try_extend(batch as usize + 1, at as usize, at as usize + count)?;
            next = row as usize + count;
            rest = &rest[count..];
        }
        made.try_extend(0, next, self.rows)?;
        Ok(make_array(made.freeze()))
    }
}

/// A row segment with its changes, as it is to be written.
#[derive(Debug)]
pub(crate) struct Rewrite<'a> {
    pub all: &'a Changes,
    pub own: &'a SegmentChanges,
    /// The rows that are left out.
    pub left_out: Option<Bitmap>,
}

impl Rewrite<'_> {
    /// Rows that are written.
    pub fn rows(&self) -> usize {
        self.own.rows - self.left_out.as_ref().map_or(0, Bitmap::count_ones)
    }

    /// Whether a column is unchanged.
    pub fn is_same(&self, column: usize) -> bool {
        self.left_out.is_none() && !(self.all.columns.contains(&column) && self.own.has_updated())
    }

    /// The resulting column.
    pub fn array(&self, column: usize) -> Result<ArrayRef> {
        let Self { all, own, .. } = *self;
        let failed =
            |e: arrow::error::ArrowError| FormatError::schema(all.table.schema().field(column).name(), e.to_string());
        let mut array = column_array(&all.table, own.segment, column)?;
        if let Some(values) = all.values_of(own, column) {
            array = own.updated_array(&array, &values).map_err(failed)?;
        }
        match &self.left_out {
            Some(left_out) => filter(&array, &kept_mask(left_out)).map_err(failed),
            None => Ok(array),
        }
    }

    /// The same for a dictionary column.
    pub fn coded(&self, column: usize) -> Result<Coded> {
        let Self { all, own, .. } = *self;
        let known = all.table.dictionary(column).map_or(0, |dictionary| dictionary.len()) as u32;
        let (mut codes, mut nulls) = column_codes(&all.table, own.segment, column)?;
        let mut new = Interner::new();
        if let Some(values) = all.values_of(own, column) {
            let mut valid: Vec<bool> = match &nulls {
                Some(nulls) => nulls.iter().collect(),
                None => vec![true; own.rows],
            };
            for &(row, batch, at) in &own.updated {
                let strings = values[batch as usize].as_string::<i32>();
                let (row, at) = (row as usize, at as usize);
                valid[row] = strings.is_valid(at);
                codes[row] = if valid[row] { known + new.intern(strings.value(at)) } else { 0 };
            }
            nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
        }
        if let Some(left_out) = &self.left_out {
            (codes, nulls) = without(left_out, &codes, nulls.as_ref());
        }
        Ok(Coded { codes, nulls, new })
    }
}

/// Codes and NULLs without the rows `left_out`.
pub(super) fn without(left_out: &Bitmap, codes: &[u32], nulls: Option<&NullBuffer>) -> (Vec<u32>, Option<NullBuffer>) {
    let kept = || (0..left_out.len()).filter(|&row| !left_out.get(row));
    let nulls = nulls.map(|nulls| NullBuffer::from_iter(kept().map(|row| nulls.is_valid(row))));
    (kept().map(|row| codes[row]).collect(), nulls.filter(|nulls| nulls.null_count() > 0))
}
