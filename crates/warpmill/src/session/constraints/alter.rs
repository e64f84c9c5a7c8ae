//! Constraints of tables that ALTER TABLE changes.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::{Ident, TableConstraint};
use warpmill_format::table::Constraint;
use warpmill_format::{Table, TableSnapshot};

use super::{check_types, declare, expressions};
use crate::catalog::{same, write_options};
use crate::commit::GivenUp;
use crate::session::Session;
use crate::session::running::Query;
use crate::{Error, Result};

/// A change of one column of a table.
#[derive(Debug, Clone, Copy)]
pub(in crate::session) enum Moved<'a> {
    /// The column at this position is dropped.
    Dropped(usize),
    /// It is renamed.
    Renamed(usize, &'a str),
    /// Its type changes.
    Retyped(usize),
    /// It becomes nullable.
    Nullable(usize),
}

impl Moved<'_> {
    /// The constraints of a table after the change.
    ///
    /// # Errors
    /// A constraint that depends on the changed column.
    pub(in crate::session) fn constraints(self, old: &[Constraint], schema: &Schema) -> Result<Vec<Constraint>> {
        let mut new = vec![];
        for constraint in old {
            new.extend(self.of_one(constraint, schema)?);
        }
        Ok(new)
    }

    fn of_one(self, constraint: &Constraint, schema: &Schema) -> Result<Option<Constraint>> {
        let (mut constraint, name) = (constraint.clone(), |at: usize| schema.field(at).name());
        let columns = match &constraint {
            Constraint::Check(text) => expressions::columns(text, schema)?,
            Constraint::ForeignKey { columns, .. } => columns.clone(),
            key => key.key().unwrap_or_default().to_vec(),
        };
        match (self, &mut constraint) {
            // A condition on this column alone is dropped with it.
            (Moved::Dropped(at), Constraint::Check(_)) if columns == [at] => return Ok(None),
            (Moved::Dropped(at), of) if columns.contains(&at) => {
                let (name, kind) = (name(at), kind(of));
                return Err(Error::Catalog(format!(
                    "Cannot drop column \"{name}\" because there is a {kind} constraint that depends on it"
                )));
            }
            (
                Moved::Dropped(at),
                Constraint::PrimaryKey(columns)
                | Constraint::Unique { columns, .. }
                | Constraint::ForeignKey { columns, .. },
            ) => {
                columns.iter_mut().filter(|column| **column > at).for_each(|column| *column -= 1);
            }
            (Moved::Renamed(at, name), Constraint::Check(text)) => {
                *text = expressions::renamed(text, schema, at, name)?;
            }
            (Moved::Renamed(at, name), Constraint::ForeignKey { table: None, keys, .. }) => {
                let old = schema.field(at).name();
                keys.iter_mut().filter(|key| *key == old).for_each(|key| name.clone_into(key));
            }
            (Moved::Retyped(at), of) if columns.contains(&at) => {
                let kind = match of {
                    Constraint::Check(_) => "CHECK",
                    Constraint::ForeignKey { .. } => "FOREIGN KEY",
                    _ => "UNIQUE or PRIMARY KEY",
                };
                let text = format!("Cannot change the type of a column that has a {kind} constraint specified");
                return Err(Error::Plan(text));
            }
            (Moved::Nullable(at), Constraint::PrimaryKey(_)) if columns.contains(&at) => {
                return Err(Error::Catalog(format!("column \"{}\" is in a primary key", name(at))));
            }
            _ => {}
        }
        Ok(Some(constraint))
    }
}

/// The SQL name of a kind of constraint.
fn kind(constraint: &Constraint) -> &'static str {
    match constraint {
        Constraint::PrimaryKey(_) => "PRIMARY KEY",
        Constraint::Unique { .. } => "UNIQUE",
        Constraint::Check(_) => "CHECK",
        Constraint::ForeignKey { .. } | Constraint::ReferencedBy(_) => "FOREIGN KEY",
    }
}

impl Session {
    /// `ALTER TABLE name ADD PRIMARY KEY (columns)`, `ADD UNIQUE (columns)`.
    pub(in crate::session) async fn add_constraint(
        &self,
        table: &Arc<Table>,
        name: &str,
        constraint: &TableConstraint,
        query: &Query,
    ) -> Result<()> {
        let old = table.snapshot()?;
        let position = |column: &Ident| {
            let found = old.schema().fields().iter().position(|field| same(field.name(), &column.value));
            found.ok_or_else(|| Error::Plan(format!("table \"{name}\" does not have a column named {column}")))
        };
        let Some(key) = declare::key_of(constraint, position)? else {
            let what = match constraint {
                TableConstraint::Check(_) => "CHECK constraints".to_string(),
                TableConstraint::ForeignKey(_) => "FOREIGN KEY constraints".to_string(),
                other => other.to_string(),
            };
            return Err(Error::NotImplemented(format!("No support for adding {what} with ALTER TABLE")));
        };
        let mut constraints = old.constraints().to_vec();
        if key.is_primary() && constraints.iter().any(Constraint::is_primary) {
            return Err(Error::Catalog(format!("table \"{name}\" has a primary key already")));
        }
        constraints.push(key);
        self.declare(table, name, &old, constraints, query).await
    }

    /// Replaces the constraints `old` of a table, if they have not changed since.
    pub(super) async fn declare(
        &self,
        table: &Arc<Table>,
        name: &str,
        old: &Arc<TableSnapshot>,
        constraints: Vec<Constraint>,
        query: &Query,
    ) -> Result<()> {
        check_types(&constraints, old.schema())?;
        let (options, gate) = (write_options(&self.options()), query.handle.commit.clone());
        let (table, name, old) = (Arc::clone(table), name.to_string(), Arc::clone(old));
        let given_up = GivenUp::cancels(&gate);
        let done = tokio::task::spawn_blocking(move || -> Result<()> {
            let mut writer = table.append_to(&old, options)?;
            writer.call(&name);
            writer.commit_only_if(move || gate.pass());
            writer.declare(constraints)?;
            writer.commit()?;
            Ok(())
        });
        let done = done.await;
        given_up.done();
        done.map_err(|error| Error::Internal(error.to_string()))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};

    #[test]
    fn constraints_follow_their_columns() {
        let schema = Schema::new(["a", "b", "c"].map(|name| Field::new(name, DataType::Int32, true)).to_vec());
        let old = [
            Constraint::Unique { columns: vec![2, 1], index: None },
            Constraint::Check("a > 0".into()),
            Constraint::Check("b < c".into()),
        ];
        let after = |moved: Moved<'_>| moved.constraints(&old, &schema);
        let dropped = after(Moved::Dropped(0)).unwrap();
        assert_eq!(dropped, [Constraint::Unique { columns: vec![1, 0], index: None }, old[2].clone()]);
        let renamed = after(Moved::Renamed(1, "x")).unwrap();
        assert_eq!(renamed, [old[0].clone(), old[1].clone(), Constraint::Check("x < c".into())]);
        assert!(after(Moved::Dropped(1)).unwrap_err().to_string().contains("UNIQUE constraint"));
        assert!(after(Moved::Retyped(0)).unwrap_err().to_string().contains("CHECK constraint"));
        assert_eq!(after(Moved::Nullable(1)).unwrap(), old);
    }
}
