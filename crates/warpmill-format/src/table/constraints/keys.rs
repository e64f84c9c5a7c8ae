//! Uniqueness check of one key during writing: the keys of new rows, and the rows that lose theirs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;

use super::narrow::Narrow;
use super::wide::Wide;
use super::{Constraint, text};
use crate::table::{Changes, TableSnapshot};
use crate::{Bitmap, FormatError, Result};

/// By row segment, the rows of the base version that lose their keys.
pub(super) type Freed = HashMap<usize, Bitmap>;

/// The rows of a row segment of `base` that do not have their keys any more: those `freed`, and deleted ones.
pub(super) fn without_key<'a>(
    base: &'a TableSnapshot,
    segment: usize,
    freed: &'a Freed,
) -> Result<Option<Cow<'a, Bitmap>>> {
    Ok(match (base.deleted(segment)?, freed.get(&segment)) {
        (Some(deleted), Some(freed)) => {
            let mut both = deleted.clone();
            both.or_assign(freed);
            Some(Cow::Owned(both))
        }
        (deleted, freed) => deleted.or(freed).map(Cow::Borrowed),
    })
}

/// A duplicate key: row `row` of `values`, the columns of the key.
pub(super) struct Twice {
    pub values: Vec<ArrayRef>,
    pub row: usize,
}

/// A key while rows are written.
pub(super) struct Key {
    columns: Vec<usize>,
    is_primary: bool,
    schema: SchemaRef,
    new: NewKeys,
    freed: Freed,
}

enum NewKeys {
    Narrow(Narrow),
    Wide(Box<Wide>),
}

impl Key {
    /// The key of `constraint` for a table with this schema; `None` for other constraints.
    pub fn of(constraint: &Constraint, schema: &SchemaRef) -> Result<Option<Self>> {
        let Some(columns) = constraint.key() else { return Ok(None) };
        let narrow = match columns {
            [column] => Narrow::of(schema.field(*column).data_type()),
            _ => None,
        };
        let new = match narrow {
            Some(narrow) => NewKeys::Narrow(narrow),
            None => NewKeys::Wide(Box::new(Wide::new(schema, columns)?)),
        };
        let (is_primary, schema, freed) = (constraint.is_primary(), Arc::clone(schema), HashMap::new());
        Ok(Some(Self { columns: columns.to_vec(), is_primary, schema, new, freed }))
    }

    /// The columns of the key.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Bytes that the keys of new rows take.
    pub fn bytes(&self) -> usize {
        match &self.new {
            NewKeys::Narrow(narrow) => narrow.bytes(),
            NewKeys::Wide(wide) => wide.bytes(),
        }
    }

    /// Adds the keys of new rows, given as the columns of the key.
    ///
    /// # Errors
    /// [`FormatError::Constraint`] for duplicates, which may also be detected by [`Key::finish`].
    pub fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let twice = match &mut self.new {
            NewKeys::Narrow(narrow) => narrow.add(&columns[0]).map(|()| None)?,
            NewKeys::Wide(wide) => wide.add(columns)?,
        };
        twice.map_or(Ok(()), |twice| Err(self.violated(&twice)))
    }

    /// Adds changes of rows: removed and new keys.
    pub fn change(&mut self, changes: &Changes) -> Result<()> {
        for segment in changes.segments() {
            if let Some(freed) = changes.freed(segment, &self.columns) {
                self.freed.insert(segment.segment(), freed);
            }
            if let Some(columns) = changes.updated(segment, &self.columns)? {
                self.add(&columns)?;
            }
        }
        Ok(())
    }

    /// Checks for duplicates among the new rows and the rows of `base` that keep their keys.
    ///
    /// # Errors
    /// [`FormatError::Constraint`] for a duplicate; errors of reading.
    pub fn finish(&mut self, base: Option<&TableSnapshot>) -> Result<()> {
        if let NewKeys::Narrow(narrow) = &mut self.new
            && let Some(twice) = narrow.sort()
        {
            return Err(self.violated(&twice));
        }
        let Some(base) = base else { return Ok(()) };
        let twice = match &self.new {
            NewKeys::Narrow(narrow) => narrow.look_up(base, self.columns[0], &self.freed)?,
            NewKeys::Wide(wide) => wide.look_up(base, &self.columns, &self.freed)?,
        };
        twice.map_or(Ok(()), |twice| Err(self.violated(&twice)))
    }

    fn violated(&self, twice: &Twice) -> FormatError {
        let key = text::key(&self.schema, &self.columns, &twice.values, twice.row);
        let kind = if self.is_primary { "primary key" } else { "unique" };
        FormatError::Constraint(format!("Duplicate key \"{key}\" violates {kind} constraint."))
    }
}
