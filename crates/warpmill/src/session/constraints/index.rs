//! Indexes: unique ones are keys of their tables; others are accepted without effect.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{CreateIndex, Ident, ObjectType, Statement};
use warpmill_format::Table;
use warpmill_format::table::Constraint;

use super::declare::positions;
use crate::catalog::{Kind, Schema, same};
use crate::planning::bound;
use crate::session::running::Query;
use crate::session::statements::{Taken, reference};
use crate::session::{QueryResult, Session};
use crate::{Error, Result};

impl Session {
    /// `CREATE [UNIQUE] INDEX [IF NOT EXISTS] name ON table (columns)`.
    pub(in crate::session) async fn create_index(&self, sql: &str, query: &Query) -> Result<Taken> {
        let Some(Statement::CreateIndex(index)) = self.parsed(sql)? else { return Ok(Taken::No) };
        if index.unique {
            return self.create_unique_index(&index, query).await.map(|()| Taken::Done(QueryResult::empty()));
        }
        // The table and its columns have to be there.
        let columns = index.columns.iter().map(|column| column.column.expr.to_string()).collect::<Vec<_>>().join(", ");
        let check = format!("SELECT {columns} FROM {}", index.table_name);
        bound(&Arc::new(self.inner.context.state()), &check, &[]).await?;
        let name = index.name.map(|name| format!(" {name}")).unwrap_or_default();
        let mut done = QueryResult::empty();
        done.notices.push(format!("table {}: INDEX{name} declared, not built", index.table_name));
        Ok(Taken::Done(done))
    }

    async fn create_unique_index(&self, index: &CreateIndex, query: &Query) -> Result<()> {
        let Some(index_name) = index.name.as_ref().and_then(|name| name.0.last()?.as_ident()) else {
            return Err(Error::NotImplemented("CREATE UNIQUE INDEX without a name".into()));
        };
        if index.predicate.is_some() {
            return Err(Error::NotImplemented("CREATE UNIQUE INDEX with WHERE".into()));
        }
        let target = reference(&index.table_name)?;
        let (schema, name) = self.place(&target)?;
        let Some(table) = schema.warpmill_table(&name)? else {
            return Err(match schema.kind(&name)? {
                None => Error::Catalog(format!("table '{target}' not found")),
                Some(Kind::View) => Error::Catalog(format!("'{target}' is a view, not a table")),
                Some(Kind::Table) => Error::Catalog(format!("'{target}' is no table of Warpmill")),
            });
        };
        let old = table.snapshot()?;
        if find(&schema, &index_name.value)?.is_some() {
            return match index.if_not_exists {
                true => Ok(()),
                false => Err(Error::Catalog(format!("Index with name \"{}\" already exists!", index_name.value))),
            };
        }
        let position = |column: &Ident| {
            let found = old.schema().fields().iter().position(|field| same(field.name(), &column.value));
            found.ok_or_else(|| Error::Plan(format!("table \"{name}\" does not have a column named {column}")))
        };
        let columns = positions(&index.columns, position, "unique index")?;
        let mut constraints = old.constraints().to_vec();
        constraints.push(Constraint::Unique { columns, index: Some(index_name.value.clone()) });
        self.declare(&table, &name, &old, constraints, query).await
    }

    /// `DROP INDEX [IF EXISTS] name`.
    pub(in crate::session) async fn drop_index(&self, sql: &str, query: &Query) -> Result<Taken> {
        let names = match self.parsed(sql)? {
            Some(Statement::Drop { object_type: ObjectType::Index, names, .. }) => names,
            _ => return Ok(Taken::No),
        };
        let mut done = QueryResult::empty();
        for name in &names {
            let (schema, index) = self.place(&reference(name)?)?;
            match find(&schema, &index)? {
                Some((name, table)) => {
                    let old = table.snapshot()?;
                    let others = old.constraints().iter().filter(|constraint| !is_index(constraint, &index));
                    self.declare(&table, &name, &old, others.cloned().collect(), query).await?;
                }
                None => {
                    let text = format!("DROP INDEX {name}: indexes that are not UNIQUE are declared only");
                    done.notices.push(format!("{text}, there is none to drop"));
                }
            }
        }
        Ok(Taken::Done(done))
    }
}

fn is_index(constraint: &Constraint, name: &str) -> bool {
    matches!(constraint, Constraint::Unique { index: Some(index), .. } if same(index, name))
}

/// The table of a schema with a unique index of this name, and its name.
fn find(schema: &Schema, name: &str) -> Result<Option<(String, Arc<Table>)>> {
    for table_name in schema.names()? {
        // A damaged table has no indexes to drop.
        let Ok(Some(table)) = schema.warpmill_table(&table_name) else { continue };
        let Ok(snapshot) = table.snapshot() else { continue };
        if snapshot.constraints().iter().any(|constraint| is_index(constraint, name)) {
            return Ok(Some((table_name, table)));
        }
    }
    Ok(None)
}
