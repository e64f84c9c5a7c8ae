//! The table that a statement changes.

use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, TableFactor, TableWithJoins, Truncate};

use crate::catalog::{NUMBERED, ROW};
use crate::session::statements::reference;
use crate::{Error, Result};

/// A table, and its alias in the statement.
pub(super) struct Target {
    pub reference: TableReference,
    alias: String,
}

impl Target {
    pub fn of_tables(word: &str, tables: &[TableWithJoins]) -> Result<Self> {
        match tables {
            [only] if only.joins.is_empty() => Self::of_factor(word, &only.relation),
            _ => Err(Error::NotImplemented(format!("{word} of several tables at once"))),
        }
    }

    pub fn of_factor(word: &str, factor: &TableFactor) -> Result<Self> {
        let TableFactor::Table { name, alias, args: None, version: None, sample: None, .. } = factor else {
            return Err(Error::NotImplemented(format!("{word} of {factor}: only tables can be changed")));
        };
        Self::of_name(name, alias.as_ref().map(|alias| &alias.name))
    }

    pub fn of_name(name: &ObjectName, alias: Option<&Ident>) -> Result<Self> {
        let reference = reference(name)?;
        let alias = alias.map_or_else(|| reference.table().to_string(), |alias| alias.value.clone());
        Ok(Self { reference, alias })
    }

    pub fn of_truncate(truncate: &Truncate) -> Result<Self> {
        let [only] = &truncate.table_names[..] else {
            return Err(Error::NotImplemented("TRUNCATE of several tables at once".into()));
        };
        if truncate.partitions.is_some()
            || truncate.identity.is_some()
            || truncate.cascade.is_some()
            || truncate.if_exists
        {
            return Err(Error::NotImplemented(truncate.to_string()));
        }
        let reference = reference(&only.name)?;
        let alias = reference.table().to_string();
        Ok(Self { reference, alias })
    }

    /// The quoted qualifier of its columns.
    pub fn alias(&self) -> String {
        quoted(&self.alias)
    }

    /// The alias without quotes.
    pub fn name(&self) -> &str {
        &self.alias
    }

    /// The numbers of its rows.
    pub fn row(&self) -> String {
        format!("{}.{}", self.alias(), quoted(ROW))
    }

    /// The table with row numbers, for FROM.
    pub fn numbered(&self) -> String {
        self.called(&format!("{NUMBERED}{}", self.reference.table()))
    }

    /// The table in FROM.
    pub fn plain(&self) -> String {
        self.called(self.reference.table())
    }

    fn called(&self, table: &str) -> String {
        let table = quoted(table);
        let schema = self.reference.schema().map(|schema| format!("{}.", quoted(schema))).unwrap_or_default();
        format!("{schema}{table} AS {}", self.alias())
    }
}

/// A name in quotes.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
