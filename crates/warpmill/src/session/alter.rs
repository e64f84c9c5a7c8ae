//! ALTER TABLE: a query computes the rows with the new columns, which become the table's next version; RENAME changes its name only.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::physical_plan::execute_stream;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ColumnOption, Ident, ObjectName,
    RenameTableNameKind, Statement,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use warpmill_format::table::Constraint;
use warpmill_format::{Table, TableSnapshot};

use super::constraints::{Checks, Moved, added_column};
use super::ddl::with_default;
use super::running::Query;
use super::statements::{Taken, reference, without_brackets};
use super::{QueryResult, Session};
use crate::catalog::{Kind, Schema as SchemaOfTables, guarded, same, write_options, write_stream};
use crate::commit::GivenUp;
use crate::planning::bound;
use crate::{Error, Result};

/// A column of the new version.
struct Column {
    /// SQL over the old version.
    value: String,
    field: Field,
}

/// A table after the statement.
struct Altered {
    columns: Vec<Column>,
    constraints: Vec<Constraint>,
}

impl Session {
    /// `ALTER TABLE name ...`.
    pub(super) async fn alter_statement(&self, sql: &str, query: &Query) -> Result<Taken> {
        let statement = match sql.to_ascii_lowercase().contains(" using ") {
            // The parser reads it in PostgreSQL's statement only.
            true => {
                let parser = Parser::new(&PostgreSqlDialect {}).with_recursion_limit(10_000).try_with_sql(sql);
                let parsed = parser.and_then(|mut parser| parser.parse_statement());
                Some(parsed.map_err(|error| Error::Parse(error.to_string()))?)
            }
            false => self.parsed(sql)?,
        };
        let Some(Statement::AlterTable(alter)) = statement else { return Ok(Taken::No) };
        let AlterTable { name, if_exists, operations, .. } = &alter;
        let [operation] = &operations[..] else {
            return Err(Error::NotImplemented(format!(
                "ALTER TABLE {name} with several changes: make one change per statement"
            )));
        };
        let target = reference(name)?;
        let (schema, table_name) = self.place(&target)?;
        let Some(table) = schema.warpmill_table(&table_name)? else {
            return match schema.kind(&table_name)? {
                None if *if_exists => Ok(Taken::Done(QueryResult::empty())),
                None => Err(Error::Catalog(format!("table '{target}' not found"))),
                Some(Kind::View) => Err(Error::Catalog(format!("'{target}' is a view, not a table"))),
                Some(Kind::Table) => Err(Error::Catalog(format!("'{target}' is no table of Warpmill"))),
            };
        };
        if let AlterTableOperation::RenameTable { table_name: new_name } = operation {
            let (RenameTableNameKind::As(new_name) | RenameTableNameKind::To(new_name)) = new_name;
            let [new_name] = new_name.0.as_slice() else {
                return Err(Error::NotImplemented(format!("RENAME TO {new_name}: a table stays in its schema")));
            };
            let new_name = new_name.as_ident().map(|ident| ident.value.clone()).unwrap_or_default();
            if !same(&table_name, &new_name) {
                self.announce_name(&schema, &table, &new_name, query).await?;
            }
            schema.rename(&table_name, &new_name)?;
            return Ok(Taken::Done(QueryResult::empty()));
        }
        // A first look at the table; the change is checked again once nobody else can change it.
        let old = table.snapshot()?;
        if let AlterTableOperation::AddConstraint { constraint, .. } = operation {
            self.add_constraint(&table, &table_name, constraint, query).await?;
            return Ok(Taken::Done(QueryResult::empty()));
        }
        if let AlterTableOperation::RenameColumn { old_column_name, .. } = operation {
            check_column_unreferenced(&schema, &table_name, &table, &old_column_name.value)?;
        }
        let Some(altered) = self.columns_after(operation, &old, name).await? else {
            return Ok(Taken::Done(QueryResult::empty()));
        };
        self.rewrite(&table, &table_name, name, &old, altered, query).await?;
        Ok(Taken::Done(QueryResult::empty()))
    }

    /// The columns and constraints of the altered table; `None`: unchanged.
    async fn columns_after(
        &self,
        operation: &AlterTableOperation,
        old: &TableSnapshot,
        table: &ObjectName,
    ) -> Result<Option<Altered>> {
        let (old, mut constraints) = (old.schema(), old.constraints().to_vec());
        let position = |name: &Ident| old.fields().iter().position(|field| same(field.name(), &name.value));
        let existing =
            |name: &Ident| position(name).ok_or_else(|| Error::Plan(format!("table {table} has no column {name}")));
        let keep = |field: &Arc<Field>| Column { value: quoted(field.name()), field: field.as_ref().clone() };
        let mut columns: Vec<Column> = old.fields().iter().map(keep).collect();
        match operation {
            AlterTableOperation::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
                if position(&column_def.name).is_some() {
                    return match if_not_exists {
                        true => Ok(None),
                        false => Err(Error::Plan(format!("table {table} has a column {}", column_def.name))),
                    };
                }
                let mut added = column_def.clone();
                constraints.extend(added_column(&mut added, columns.len())?);
                columns.push(self.added(&added).await?);
            }
            AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
                let [name] = &column_names[..] else {
                    return Err(Error::NotImplemented(format!("{operation}: one column at a time")));
                };
                let at = match (position(name), if_exists) {
                    (None, true) => return Ok(None),
                    _ => existing(name)?,
                };
                if columns.len() == 1 {
                    return Err(Error::Plan(format!(
                        "{name} is the only column of table {table}: it cannot be dropped"
                    )));
                }
                constraints = Moved::Dropped(at).constraints(&constraints, old)?;
                columns.remove(at);
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                let at = existing(old_column_name)?;
                if position(new_column_name).is_some_and(|other| other != at) {
                    return Err(Error::Plan(format!("table {table} has a column {new_column_name}")));
                }
                constraints = Moved::Renamed(at, &new_column_name.value).constraints(&constraints, old)?;
                let field = columns[at].field.clone().with_name(&new_column_name.value);
                columns[at].field = field;
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let at = existing(column_name)?;
                let field = columns[at].field.clone();
                match op {
                    AlterColumnOperation::SetDataType { data_type, using, .. } => {
                        constraints = Moved::Retyped(at).constraints(&constraints, old)?;
                        let ty = self.type_called(&data_type.to_string()).await?;
                        let value = using.as_ref().map_or_else(|| quoted(field.name()), ToString::to_string);
                        columns[at].value = format!("CAST(({value}) AS {data_type})");
                        columns[at].field = field.with_data_type(ty);
                    }
                    AlterColumnOperation::SetNotNull => columns[at].field = field.with_nullable(false),
                    AlterColumnOperation::DropNotNull => {
                        constraints = Moved::Nullable(at).constraints(&constraints, old)?;
                        columns[at].field = field.with_nullable(true);
                    }
                    AlterColumnOperation::SetDefault { value } => {
                        let ty = field.data_type().clone();
                        let value = without_brackets(value).to_string();
                        self.check_default(&column_name.value, &value, &ty).await?;
                        columns[at].field = with_default(field, Some(value));
                    }
                    AlterColumnOperation::DropDefault => columns[at].field = with_default(field, None),
                    other => return Err(Error::NotImplemented(format!("ALTER COLUMN {column_name} {other}"))),
                }
            }
            other => return Err(Error::NotImplemented(format!("ALTER TABLE {table} {other}"))),
        }
        Ok(Some(Altered { columns, constraints }))
    }

    /// A column of ADD COLUMN.
    async fn added(&self, column: &ColumnDef) -> Result<Column> {
        let ty = self.type_called(&column.data_type.to_string()).await?;
        let mut default = None;
        for option in &column.options {
            match &option.option {
                ColumnOption::Default(value) => default = Some(without_brackets(value).to_string()),
                ColumnOption::Null => {}
                other => return Err(Error::NotImplemented(format!("ADD COLUMN {} {other}", column.name))),
            }
        }
        if let Some(value) = &default {
            self.check_default(&column.name.value, value, &ty).await?;
        }
        let value = format!("CAST(({}) AS {})", default.as_deref().unwrap_or("NULL"), column.data_type);
        let field = with_default(Field::new(&column.name.value, ty, true), default);
        Ok(Column { value, field })
    }

    /// The type of that name.
    pub(super) async fn type_called(&self, name: &str) -> Result<DataType> {
        let (state, text) = (Arc::new(self.inner.context.state()), format!("SELECT CAST(NULL AS {name}) AS x"));
        Ok(bound(&state, &text, &[]).await?.schema().field(0).data_type().clone())
    }

    /// Writes the rows with `columns` as the next version of a table.
    async fn rewrite(
        &self,
        table: &Arc<Table>,
        table_name: &str,
        name: &ObjectName,
        old: &TableSnapshot,
        Altered { columns, constraints }: Altered,
        query: &Query,
    ) -> Result<()> {
        let options = self.options();
        let layout = self.layout(table_name, write_options(&options))?;
        let fields: Vec<Field> = columns.iter().map(|column| column.field.clone()).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, old.schema().metadata().clone()));
        let state = Arc::new(self.inner.context.state());
        let checks = Checks::planned(&state, &schema, &constraints, table_name).await?;
        let gate = query.handle.commit.clone();
        let given_up = GivenUp::cancels(&gate);
        let written = async {
            let owned = Arc::clone(table);
            let writer = tokio::task::spawn_blocking(move || owned.replace(schema, layout)).await;
            let mut writer = writer.map_err(|error| Error::Internal(error.to_string()))??;
            writer.commit_only_if(move || gate.pass());
            if !table.snapshot()?.continues(old) {
                return Err(Error::Execution(format!(
                    "the columns of table {name} were changed by another statement: try again"
                )));
            }
            if !constraints.is_empty() {
                writer.declare(constraints)?;
            }
            guarded(&mut writer, table_name, checks.as_ref(), None);
            writer.keep_references();
            let item = |column: &Column| format!("{} AS {}", column.value, quoted(column.field.name()));
            let items = columns.iter().map(item).collect::<Vec<_>>().join(", ");
            let plan = bound(&state, &format!("SELECT {items} FROM {name}"), &[]).await?;
            let (prepared, _) = self.prepare(&state, Arc::new(plan), &options).await?;
            let rows = execute_stream(Arc::clone(&prepared.plan), self.task_context(query))?;
            let (writer, _) = write_stream(writer, rows).await?;
            let committed = tokio::task::spawn_blocking(move || writer.commit()).await;
            committed.map_err(|error| Error::Internal(error.to_string()))??;
            Ok(())
        };
        let written = written.await;
        given_up.done();
        written
    }
}

/// Refuses to rename a column to which foreign keys of other tables refer.
fn check_column_unreferenced(schema: &SchemaOfTables, name: &str, table: &Table, column: &str) -> Result<()> {
    let others = schema.referring(name, table)?;
    match others.iter().find(|other| other.keys.iter().any(|key| same(key, column))) {
        Some(other) => Err(Error::Catalog(format!(
            "Cannot rename column \"{column}\" because this is involved in the foreign key constraint of table \"{}\"",
            other.table
        ))),
        None => Ok(()),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
