//! Foreign keys of the table that is written: each key of its new rows must be in the referenced table.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::{and, filter};
use arrow::datatypes::{Schema, SchemaRef};

use super::key_set::{Exchange, KeySet};
use super::keys::{Freed, Twice};
use super::{Constraint, Relatives, text};
use crate::table::{Changes, TableSnapshot};
use crate::{Bitmap, FormatError, Result};

/// A foreign key while rows are written.
pub(super) struct ForeignKey {
    columns: Vec<usize>,
    /// The referenced table; `None`: the table itself.
    table: Option<String>,
    /// The names of the referenced columns.
    keys: Vec<String>,
    schema: SchemaRef,
    /// The keys of new rows.
    wanted: KeySet,
    /// The changes of referenced keys, if the table refers to itself.
    own: Option<Own>,
}

/// The changes of a table that refers to itself.
struct Own {
    keys: Exchange,
    /// The rows that lose their referenced keys.
    freed: Freed,
    /// The rows that no longer refer to the same key.
    released: Freed,
}

impl ForeignKey {
    /// The foreign key that a constraint of a table with this schema is; `None` for other constraints.
    pub fn of(constraint: &Constraint, schema: &SchemaRef) -> Result<Option<Self>> {
        let Constraint::ForeignKey { columns, table, keys } = constraint else { return Ok(None) };
        let own = match table {
            Some(_) => None,
            None => {
                let keys = Exchange::new(schema, positions(schema, keys)?)?;
                Some(Own { keys, freed: HashMap::new(), released: HashMap::new() })
            }
        };
        let wanted = KeySet::new(schema, columns)?;
        let (columns, table, keys, schema) = (columns.clone(), table.clone(), keys.clone(), Arc::clone(schema));
        Ok(Some(Self { columns, table, keys, schema, wanted, own }))
    }

    /// Bytes that the keys of new rows take.
    pub fn bytes(&self) -> usize {
        self.wanted.bytes() + self.own.as_ref().map_or(0, |own| own.keys.bytes())
    }

    /// Adds new rows, given as all of the table's columns.
    pub fn add(&mut self, rows: &[ArrayRef]) -> Result<()> {
        self.wanted.add(&columns_of(rows, &self.columns))?;
        match &mut self.own {
            Some(own) => own.keys.gained.add(&columns_of(rows, &own.keys.columns)),
            None => Ok(()),
        }
    }

    /// Adds changes of rows.
    pub fn change(&mut self, changes: &Changes) -> Result<()> {
        for segment in changes.segments() {
            if let Some(columns) = changes.updated(segment, &self.columns)? {
                self.wanted.add(&columns)?;
            }
            let Some(own) = &mut self.own else { continue };
            if let Some(freed) = changes.freed(segment, &own.keys.columns) {
                own.keys.lost.add(&kept(changes.table(), segment.segment(), &own.keys.columns, Some(&freed))?)?;
                own.freed.insert(segment.segment(), freed);
            }
            if let Some(columns) = changes.updated(segment, &own.keys.columns)? {
                own.keys.gained.add(&columns)?;
            }
            if let Some(released) = changes.freed(segment, &self.columns) {
                own.released.insert(segment.segment(), released);
            }
        }
        Ok(())
    }

    /// Checks the keys of new rows; in a table that refers to itself, also the keys that rows have lost. `base`: the version being written on.
    ///
    /// # Errors
    /// [`FormatError::Constraint`] for a key that is not there, or still referenced; [`FormatError::Changed`] if others have removed one since the
    /// transaction began; errors of reading.
    pub fn finish(&mut self, base: Option<&TableSnapshot>, relatives: Option<&dyn Relatives>) -> Result<()> {
        if self.own.is_some() {
            return self.finish_own(base, relatives);
        }
        if self.wanted.is_empty() {
            return Ok(());
        }
        let relatives = relatives.ok_or_else(unrelated)?;
        let name = self.table.as_deref().unwrap_or_default();
        let missing =
            || FormatError::Catalog(format!("the table {name:?}, to which a foreign key refers, is not there"));
        let table = relatives.table(name)?.ok_or_else(missing)?;
        let (seen, newest) = table.seen()?;
        let keys = positions(seen.schema(), &self.keys)?;
        self.check_types(&seen, &keys)?;
        if let Some(key) = self.wanted.any_missing(&seen, &keys, &Freed::new())? {
            return Err(self.missing(relatives.name(), name, seen.schema(), &keys, &key));
        }
        let Some(newest) = newest else { return Ok(()) };
        match self.wanted.any_missing(&newest, &positions(newest.schema(), &self.keys)?, &Freed::new())? {
            Some(_) => Err(FormatError::Changed { table: name.to_string() }),
            None => Ok(()),
        }
    }

    /// [`ForeignKey::finish`] of a table that refers to itself: the state after the statement counts.
    fn finish_own(&mut self, base: Option<&TableSnapshot>, relatives: Option<&dyn Relatives>) -> Result<()> {
        let Some(own) = &mut self.own else { return Ok(()) };
        let name = relatives.map_or("", Relatives::name);
        let Exchange { columns: keys, lost, gained } = &mut own.keys;
        self.wanted.remove(gained);
        lost.remove(gained);
        if !self.wanted.is_empty() {
            let empty = TableSnapshot::new(None, crate::table::Version::empty(1, Arc::clone(&self.schema)));
            let base = base.unwrap_or(&empty);
            if let Some(key) = self.wanted.any_missing(base, keys, &own.freed)? {
                let keys = keys.clone();
                return Err(self.missing(name, name, &self.schema, &keys, &key));
            }
        }
        let Some(base) = base else { return Ok(()) };
        match own.keys.lost.any_in(base, &self.columns, &own.released)? {
            Some(key) => Err(referenced(&self.schema, &self.columns, &key, &self.text(name, name), "the same table")),
            None => Ok(()),
        }
    }

    /// Checks that the referenced columns have the types of the key's.
    fn check_types(&self, referenced: &TableSnapshot, keys: &[usize]) -> Result<()> {
        for (&column, &key) in self.columns.iter().zip(keys) {
            let (own, other) = (self.schema.field(column), referenced.schema().field(key));
            if own.data_type() != other.data_type() {
                let text = format!("a foreign key of type {} refers to {:?}", own.data_type(), other.name());
                return Err(FormatError::schema(own.name(), text));
            }
        }
        Ok(())
    }

    fn missing(&self, own: &str, table: &str, schema: &Schema, keys: &[usize], key: &Twice) -> FormatError {
        let (key, text) = (text::key(schema, keys, &key.values, key.row), self.text(own, table));
        FormatError::Constraint(format!(
            "Violates foreign key constraint because key \"{key}\" does not exist in the referenced table \"{table}\": {text}"
        ))
    }

    fn text(&self, own: &str, table: &str) -> String {
        described(&self.schema, &self.columns, own, table, &self.keys)
    }
}

/// The text of a foreign key of table `own` to columns `keys` of `table`, for errors.
pub(super) fn described(schema: &Schema, columns: &[usize], own: &str, table: &str, keys: &[String]) -> String {
    let names: Vec<&str> = columns.iter().map(|&column| schema.field(column).name().as_str()).collect();
    format!("FOREIGN KEY ({}) REFERENCES {table}({}) of table \"{own}\"", names.join(", "), keys.join(", "))
}

/// The error for a key that rows of columns `columns` still have.
pub(super) fn referenced(schema: &Schema, columns: &[usize], key: &Twice, foreign: &str, place: &str) -> FormatError {
    let key = text::key(schema, columns, &key.values, key.row);
    FormatError::Constraint(format!(
        "Violates foreign key constraint because key \"{key}\" is still referenced by a foreign key in {place}: {foreign}"
    ))
}

/// The error for a table with foreign keys that is written without access to related tables.
pub(super) fn unrelated() -> FormatError {
    FormatError::Catalog("a table with foreign keys is written through SQL sessions only".into())
}

/// The positions of columns by their names.
pub(super) fn positions(schema: &Schema, names: &[String]) -> Result<Vec<usize>> {
    let position = |name: &String| {
        let found = schema.fields().iter().position(|field| field.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| FormatError::schema(name, "a foreign key refers to this column, which is not there"))
    };
    names.iter().map(position).collect()
}

/// The columns at these positions.
pub(super) fn columns_of(rows: &[ArrayRef], columns: &[usize]) -> Vec<ArrayRef> {
    columns.iter().map(|&column| Arc::clone(&rows[column])).collect()
}

/// The values of `columns` in rows of a row segment that are not deleted; `among`: in those of them that it has.
pub(super) fn kept(
    base: &TableSnapshot,
    segment: usize,
    columns: &[usize],
    among: Option<&Bitmap>,
) -> Result<Vec<ArrayRef>> {
    let among = among.map(|rows| (0..rows.len()).map(|row| Some(rows.get(row))).collect::<BooleanArray>());
    let mask = match (base.kept(segment)?, among) {
        (Some(kept), Some(among)) => Some(and(&kept, &among)?),
        (kept, among) => kept.or(among),
    };
    let column = |&column: &usize| {
        let array = base.array(segment, column)?;
        Ok(match &mask {
            Some(mask) => filter(&array, mask)?,
            None => array,
        })
    };
    columns.iter().map(column).collect()
}
