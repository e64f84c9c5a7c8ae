//! The rows of a frame as columns.

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use datafusion::common::Result;

/// A queue of rows.
#[derive(Debug, Default)]
pub(super) struct Rows {
    columns: Vec<ArrayRef>,
    /// Rows behind those of `columns`.
    added: Vec<Vec<ArrayRef>>,
    /// Number of rows that left, of `columns` and `added`.
    left: usize,
    count: usize,
}

impl Rows {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn push(&mut self, columns: &[ArrayRef]) {
        self.count += columns[0].len();
        self.added.push(columns.to_vec());
    }

    /// Removes the oldest rows.
    pub(super) fn pop(&mut self, count: usize) {
        self.count -= count;
        self.left += count;
    }

    /// The rows; no columns if there never was a row.
    ///
    /// # Errors
    /// Texts of more than 2 GiB.
    pub(super) fn settled(&mut self) -> Result<&[ArrayRef]> {
        if self.columns.is_empty() && !self.added.is_empty() {
            self.columns = self.added.remove(0);
        }
        for (at, column) in self.columns.iter_mut().enumerate() {
            let parts = std::iter::once(&*column).chain(self.added.iter().map(|columns| &columns[at]));
            let parts: Vec<&dyn Array> = parts.map(|part| part.as_ref()).collect();
            let whole = if parts.len() > 1 { concat(&parts)? } else { ArrayRef::clone(column) };
            *column = whole.slice(self.left, self.count);
        }
        self.added.clear();
        self.left = 0;
        Ok(&self.columns)
    }

    pub(super) fn size(&self) -> usize {
        let columns = self.columns.iter().chain(self.added.iter().flatten());
        columns.map(|column| column.get_array_memory_size()).sum()
    }
}
