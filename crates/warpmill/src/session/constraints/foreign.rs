//! Foreign keys in declarations of tables, and the tables to which they refer.
//!
//! A table with foreign keys is made in one transaction with an entry for it in each referenced table, which is written whenever that entry may be
//! outdated: so others cannot drop or rename the referenced table meanwhile.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{ForeignKeyConstraint, Ident, ObjectName, ReferentialAction};
use warpmill_format::Table;
use warpmill_format::table::Constraint;

use crate::catalog::{Kind, Schema as SchemaOfTables, is_main, same};
use crate::dialect::type_name;
use crate::session::Session;
use crate::session::running::Query;
use crate::session::statements::reference;
use crate::{Error, Result};

/// A foreign key as a declaration says it.
#[derive(Debug, Clone)]
pub(in crate::session) struct Declaration {
    columns: Vec<usize>,
    table: ObjectName,
    /// The referenced columns; empty: the primary key.
    keys: Vec<Ident>,
}

/// A table that is being made.
pub(in crate::session) struct Made<'a> {
    pub place: &'a Arc<SchemaOfTables>,
    pub name: &'a str,
    pub schema: &'a Schema,
    pub constraints: &'a [Constraint],
    /// Whether it gets a folder.
    pub stored: bool,
}

impl Declaration {
    /// The declaration of a foreign key over these columns.
    ///
    /// # Errors
    /// Actions and options that DuckDB does not have; another number of referenced columns.
    pub(super) fn of(key: &ForeignKeyConstraint, columns: Vec<usize>) -> Result<Self> {
        for action in [&key.on_delete, &key.on_update].into_iter().flatten() {
            if !matches!(action, ReferentialAction::NoAction | ReferentialAction::Restrict) {
                let text = "FOREIGN KEY constraints cannot use CASCADE, SET NULL or SET DEFAULT";
                return Err(Error::Parse(text.into()));
            }
        }
        if key.match_kind.is_some() || key.characteristics.is_some() {
            return Err(Error::NotImplemented(format!("{key}: MATCH and DEFERRABLE")));
        }
        if !key.referred_columns.is_empty() && key.referred_columns.len() != columns.len() {
            return Err(different_numbers());
        }
        Ok(Self { columns, table: key.foreign_table.clone(), keys: key.referred_columns.clone() })
    }

    /// The foreign key, and the table to which it refers; `None`: the table itself.
    fn resolved(&self, made: &Made<'_>) -> Result<(Constraint, Option<Arc<Table>>)> {
        let target = reference(&self.table)?;
        check_schema(made.place, &target)?;
        let (name, columns) = (target.table(), self.columns.clone());
        if same(name, made.name) {
            let keys = self.keys_in(name, made, made.schema, made.constraints)?;
            return Ok((Constraint::ForeignKey { columns, table: None, keys }, None));
        }
        let Some(table) = made.place.sibling(name, made.stored)? else {
            return Err(match made.place.kind(name)? {
                Some(Kind::View) => Error::Plan("cannot reference a VIEW with a FOREIGN KEY".into()),
                _ => Error::Catalog(format!("Table with name {name} does not exist!")),
            });
        };
        let there = table.snapshot()?;
        let keys = self.keys_in(name, made, there.schema(), there.constraints())?;
        Ok((Constraint::ForeignKey { columns, table: Some(name.to_string()), keys }, Some(table)))
    }

    /// The names of the referenced columns in table `name` of this schema, whose key they are.
    fn keys_in(&self, name: &str, made: &Made<'_>, schema: &Schema, constraints: &[Constraint]) -> Result<Vec<String>> {
        let failed = |text: String| Error::Plan(format!("Failed to create foreign key: {text}"));
        let column_of = |key: &Ident| {
            let found = schema.fields().iter().position(|field| same(field.name(), &key.value));
            found.ok_or_else(|| {
                failed(format!("referenced table \"{name}\" does not have a column named \"{}\"", key.value))
            })
        };
        let declared = || constraints.iter().filter(|key| !super::shown::is_index(key)).filter_map(Constraint::key);
        let keys = match &self.keys[..] {
            [] => {
                let primary = constraints.iter().find(|constraint| constraint.is_primary()).and_then(Constraint::key);
                primary
                    .map(<[usize]>::to_vec)
                    .ok_or_else(|| failed(format!("there is no primary key for referenced table \"{name}\"")))?
            }
            names => names.iter().map(column_of).collect::<Result<Vec<_>>>()?,
        };
        if keys.len() != self.columns.len() {
            return Err(different_numbers());
        }
        if declared().next().is_none() {
            let text = format!("there is no primary key or unique constraint for referenced table \"{name}\"");
            return Err(failed(text));
        }
        let sorted = |columns: &[usize]| {
            let mut columns = columns.to_vec();
            columns.sort_unstable();
            columns
        };
        let names = || keys.iter().map(|&key| schema.field(key).name().clone()).collect::<Vec<_>>();
        if !declared().any(|key| sorted(key) == sorted(&keys)) {
            return Err(failed(format!(
                "referenced table \"{name}\" does not have a primary key or unique constraint on the columns {}",
                names().join(", ")
            )));
        }
        for (&column, &key) in self.columns.iter().zip(&keys) {
            let (own, other) = (made.schema.field(column), schema.field(key));
            if own.data_type() != other.data_type() {
                return Err(failed(format!(
                    "incompatible types between column \"{}\" (\"{}\") and column \"{}\" (\"{}\")",
                    other.name(),
                    type_name(other.data_type()),
                    own.name(),
                    type_name(own.data_type())
                )));
            }
        }
        Ok(names())
    }
}

fn different_numbers() -> Error {
    let text = "The number of referencing and referenced columns for foreign keys must be the same";
    Error::Parse(text.into())
}

/// Refuses a referenced table in another schema.
fn check_schema(place: &SchemaOfTables, target: &TableReference) -> Result<()> {
    let is_own = target.schema().is_none_or(|name| same(name, place.name()) || is_main(name) && is_main(place.name()));
    match is_own {
        true => Ok(()),
        false => {
            let text = "Creating foreign keys across different schemas or catalogs is not supported";
            Err(Error::Plan(text.into()))
        }
    }
}

impl Session {
    /// The foreign keys that are declared of a table that is being made. The tables to which they refer get an entry for it, in the transaction.
    ///
    /// # Errors
    /// A referenced table or key that is not there, or is of another type; others are writing a referenced table.
    pub(in crate::session) async fn foreign_keys(
        &self,
        declared: &[Declaration],
        made: &Made<'_>,
        query: &Query,
    ) -> Result<Vec<Constraint>> {
        let mut constraints = vec![];
        for declaration in declared {
            let (constraint, table) = declaration.resolved(made)?;
            if let (Constraint::ForeignKey { table: Some(name), .. }, Some(table)) = (&constraint, table) {
                self.add_referring(&table, name, made.name, query).await?;
            }
            constraints.push(constraint);
        }
        Ok(constraints)
    }

    /// Gives the tables to which the foreign keys of `table` refer an entry for its new name.
    pub(in crate::session) async fn announce_name(
        &self,
        place: &SchemaOfTables,
        table: &Arc<Table>,
        new_name: &str,
        query: &Query,
    ) -> Result<()> {
        for constraint in table.snapshot()?.constraints().iter() {
            if let Constraint::ForeignKey { table: Some(name), .. } = constraint
                && let Some(there) = place.sibling(name, table.path().is_some())?
            {
                self.add_referring(&there, name, new_name, query).await?;
            }
        }
        Ok(())
    }

    /// Makes `referring` the last entry of tables with foreign keys to `table`, which is called `name`.
    async fn add_referring(&self, table: &Arc<Table>, name: &str, referring: &str, query: &Query) -> Result<()> {
        let old = table.snapshot()?;
        let is_it =
            |constraint: &&Constraint| matches!(constraint, Constraint::ReferencedBy(known) if known == referring);
        let mut constraints: Vec<Constraint> = old.constraints().iter().filter(|one| !is_it(one)).cloned().collect();
        constraints.push(Constraint::ReferencedBy(referring.to_string()));
        self.declare(table, name, &old, constraints, query).await
    }
}
