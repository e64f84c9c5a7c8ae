//! Frames whose aggregate is computed anew from all of their rows.

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::{concat, filter};
use datafusion::common::{HashSet, Result, ScalarValue};

use super::{Frame, converter, keys};

/// An aggregate of rows.
pub(super) trait OfRows: std::fmt::Debug + Send + Sync {
    fn of_nothing(&self) -> Result<ScalarValue>;

    /// The aggregate of one row or more.
    fn of(&self, columns: &[ArrayRef]) -> Result<ScalarValue>;
}

/// A frame of which `F` is computed.
#[derive(Debug)]
pub(super) struct Anew<F> {
    function: F,
    rows: Rows,
}

impl<F> Anew<F> {
    pub(super) fn of(function: F) -> Self {
        Self { function, rows: Rows::default() }
    }
}

impl<F: OfRows> Frame for Anew<F> {
    fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.rows.push(columns);
        Ok(())
    }

    fn remove(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.rows.pop(columns[0].len());
        Ok(())
    }

    fn value(&mut self) -> Result<ScalarValue> {
        match self.rows.count {
            0 => self.function.of_nothing(),
            _ => self.function.of(self.rows.settled()?),
        }
    }

    fn size(&self) -> usize {
        self.rows.size()
    }
}

/// The first rows of those with equal first values.
pub(super) fn distinct(columns: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    let keys = keys(&columns[0]);
    let converter = converter(keys.data_type())?;
    let rows = converter.convert_columns(&[keys])?;
    let mut seen = HashSet::new();
    let is_first: BooleanArray = rows.iter().map(|row| Some(seen.insert(row))).collect();
    columns.iter().map(|column| Ok(filter(column, &is_first)?)).collect()
}

/// A queue of rows.
#[derive(Debug, Default)]
struct Rows {
    columns: Vec<ArrayRef>,
    /// Rows behind those of `columns`.
    added: Vec<Vec<ArrayRef>>,
    /// Number of rows that left, of `columns` and `added`.
    left: usize,
    count: usize,
}

impl Rows {
    fn push(&mut self, columns: &[ArrayRef]) {
        self.count += columns[0].len();
        self.added.push(columns.to_vec());
    }

    /// Removes the oldest rows.
    fn pop(&mut self, count: usize) {
        self.count -= count;
        self.left += count;
    }

    /// The rows; no columns if there never was a row.
    ///
    /// # Errors
    /// Texts of more than 2 GiB.
    fn settled(&mut self) -> Result<&[ArrayRef]> {
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

    fn size(&self) -> usize {
        let columns = self.columns.iter().chain(self.added.iter().flatten());
        columns.map(|column| column.get_array_memory_size()).sum()
    }
}
