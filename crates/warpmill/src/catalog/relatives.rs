//! Tables to which foreign keys relate a table: those of the same schema, stored ones for a stored table, the session's for others.

use std::fmt;
use std::sync::Arc;

use warpmill_format::table::{Constraint, Relatives};
use warpmill_format::{FormatError, Table};

use super::schema::{Entry, Found};
use super::{Schema, same};
use crate::{Error, Result};

/// The tables beside a table, as the session sees them.
pub(crate) struct Siblings {
    schema: Arc<Schema>,
    name: String,
    stored: bool,
}

impl fmt::Debug for Siblings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Siblings({}.{})", self.schema.name(), self.name)
    }
}

impl Relatives for Siblings {
    fn name(&self) -> &str {
        &self.name
    }

    fn table(&self, name: &str) -> Result<Option<Arc<Table>>, FormatError> {
        self.schema.sibling(name, self.stored).map_err(|error| match error {
            Error::Format(error) => {
                Arc::try_unwrap(error).unwrap_or_else(|shared| FormatError::Catalog(shared.to_string()))
            }
            other => FormatError::Catalog(other.to_string()),
        })
    }
}

/// A table with a foreign key.
pub(crate) struct Referring {
    pub table: String,
    /// The names of the referenced columns.
    pub keys: Vec<String>,
}

impl Schema {
    /// The tables beside `table`, which is called `name`.
    pub(crate) fn siblings(self: &Arc<Self>, name: &str, table: &Table) -> Arc<Siblings> {
        let (schema, name, stored) = (Arc::clone(self), name.to_string(), table.path().is_some());
        Arc::new(Siblings { schema, name, stored })
    }

    /// The table called `name` among the stored ones, or among those in memory.
    ///
    /// # Errors
    /// The table cannot be opened; a temporary one hides it in a transaction.
    pub(crate) fn sibling(&self, name: &str, stored: bool) -> Result<Option<Arc<Table>>> {
        match self.find(name)? {
            Some(Found::Session(_, Entry::Warpmill(table))) if table.path().is_some() == stored => Ok(Some(table)),
            Some(Found::Table(known)) => Ok(if stored { Some(self.open(&known)?) } else { None }),
            Some(Found::Session(..)) if stored => self.hidden(name),
            _ => Ok(None),
        }
    }

    /// The stored table called `name` that one of the session hides.
    fn hidden(&self, name: &str) -> Result<Option<Arc<Table>>> {
        let stored = self.stored()?.into_iter().map(|(known, _)| known);
        let Some(known) = stored.into_iter().find(|known| same(known, name)) else { return Ok(None) };
        if self.shared.is_in_transaction() {
            let text =
                format!("table '{known}', which a temporary one hides and a foreign key needs, in a transaction");
            return Err(Error::NotImplemented(text));
        }
        self.open(&known).map(Some)
    }

    /// The foreign keys of other tables to `table`, which is called `name`.
    ///
    /// # Errors
    /// One of these tables cannot be opened.
    pub(crate) fn referring(&self, name: &str, table: &Table) -> Result<Vec<Referring>> {
        let mut found = vec![];
        // In order: a table that is being renamed has an entry for its new name behind that for the old one.
        for constraint in table.snapshot()?.constraints().iter() {
            let Constraint::ReferencedBy(other) = constraint else { continue };
            let Some(there) = self.sibling(other, table.path().is_some())? else { continue };
            for constraint in there.snapshot()?.constraints().iter() {
                if let Constraint::ForeignKey { table: Some(to), keys, .. } = constraint
                    && same(to, name)
                {
                    found.push(Referring { table: other.clone(), keys: keys.clone() });
                }
            }
        }
        Ok(found)
    }

    /// Refuses to remove or replace a table that has foreign keys to it.
    ///
    /// # Errors
    /// Names a table that refers to it.
    pub(super) fn check_unreferenced(&self, name: &str, table: &Table) -> Result<()> {
        match self.referring(name, table)?.first() {
            Some(other) => Err(Error::Catalog(format!(
                "Could not drop the table because this table is main key table of the table \"{}\"",
                other.table
            ))),
            None => Ok(()),
        }
    }

    /// [`Schema::check_unreferenced`] of the session's own table `name` if there is one.
    ///
    /// # Errors
    /// Names a table that refers to it.
    pub(crate) fn check_replaceable(&self, name: &str) -> Result<()> {
        match self.find(name)? {
            Some(Found::Session(known, Entry::Warpmill(table))) if table.path().is_none() => {
                self.check_unreferenced(&known, &table)
            }
            _ => Ok(()),
        }
    }
}
