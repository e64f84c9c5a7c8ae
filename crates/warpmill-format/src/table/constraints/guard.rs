//! Checks the rows of a writer against a table's constraints.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;

use super::keys::Key;
use super::{Constraint, RowCheck, Rows};
use crate::table::{Changes, TableSnapshot};
use crate::{FormatError, Result};

/// The constraints of a table while rows are written.
pub(crate) struct Guard {
    constraints: Arc<[Constraint]>,
    keys: Vec<Key>,
    rows: Rows,
    /// Bytes that keys of new rows may take.
    most_bytes: usize,
}

impl Guard {
    /// A guard for a table with these constraints and this schema; keys may take `most_bytes` bytes.
    pub fn new(constraints: Arc<[Constraint]>, schema: &SchemaRef, most_bytes: usize) -> Result<Self> {
        let mut keys = vec![];
        for constraint in &*constraints {
            keys.extend(Key::of(constraint, schema)?);
        }
        Ok(Self { constraints, keys, rows: None, most_bytes })
    }

    /// The table's constraints.
    pub fn constraints(&self) -> &Arc<[Constraint]> {
        &self.constraints
    }

    /// Sets the evaluator of CHECK conditions.
    pub fn evaluate_by(&mut self, rows: Arc<dyn RowCheck>) {
        self.rows = Some(rows);
    }

    /// The evaluator of CHECK conditions; `None` without conditions.
    fn conditions(&self) -> Result<Option<&dyn RowCheck>> {
        let any = self.constraints.iter().any(|constraint| matches!(constraint, Constraint::Check(_)));
        match &self.rows {
            _ if !any => Ok(None),
            Some(rows) => Ok(Some(&**rows)),
            None => {
                Err(FormatError::Catalog("a table with CHECK constraints is written through SQL sessions only".into()))
            }
        }
    }

    /// Checks new rows, of the table's types.
    ///
    /// # Errors
    /// [`FormatError::Constraint`] if a condition is false, or two rows have the same key (this may also be detected by [`Guard::finish`]);
    /// [`FormatError::Memory`].
    pub fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        if self.constraints.is_empty() {
            return Ok(());
        }
        let of = |columns: &[usize]| -> Vec<ArrayRef> { columns.iter().map(|&c| rows.column(c).clone()).collect() };
        if let Some(conditions) = self.conditions()? {
            conditions.check(&of(conditions.columns()), rows.num_rows())?;
        }
        for key in &mut self.keys {
            let columns = of(key.columns());
            key.add(&columns)?;
        }
        self.check_memory()
    }

    /// Checks changes of rows.
    ///
    /// # Errors
    /// The errors of [`Guard::add`] and of reading.
    pub fn change(&mut self, changes: &Changes) -> Result<()> {
        if self.constraints.is_empty() {
            return Ok(());
        }
        if let Some(conditions) = self.conditions()? {
            for segment in changes.segments() {
                if let Some(columns) = changes.updated(segment, conditions.columns())? {
                    conditions.check(&columns, columns.first().map_or(0, |column| column.len()))?;
                }
            }
        }
        self.keys.iter_mut().try_for_each(|key| key.change(changes))?;
        self.check_memory()
    }

    /// Checks for duplicate keys among the new rows and the rows of `base`, the version being written on, that keep their keys.
    ///
    /// # Errors
    /// [`FormatError::Constraint`] for a duplicate; errors of reading.
    pub fn finish(&mut self, base: Option<&TableSnapshot>) -> Result<()> {
        self.keys.iter_mut().try_for_each(|key| key.finish(base))
    }

    fn check_memory(&self) -> Result<()> {
        let (bytes, most) = (self.keys.iter().map(Key::bytes).sum::<usize>(), self.most_bytes);
        match bytes > most {
            true => Err(FormatError::Memory(format!("the keys of new rows take {bytes} bytes, more than {most}"))),
            false => Ok(()),
        }
    }
}

/// Checks the rows of `base` against new constraints.
///
/// # Errors
/// [`FormatError::Constraint`] for a duplicate key; errors of reading.
pub(crate) fn check_rows(base: &TableSnapshot, constraints: &[Constraint], schema: &SchemaRef) -> Result<()> {
    for constraint in constraints {
        let Some(mut key) = Key::of(constraint, schema)? else { continue };
        for segment in 0..base.num_segments() {
            let columns = key.columns().iter().map(|&column| base.array(segment, column));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            key.add(&columns)?;
        }
        key.finish(None)?;
    }
    Ok(())
}
