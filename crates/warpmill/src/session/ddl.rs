//! Statements that make tables of Warpmill.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::logical_expr::CreateMemoryTable;
use datafusion::physical_plan::execute_stream;

use super::running::Query;
use super::{QueryResult, Session};
use crate::catalog::{write_options, write_stream};
use crate::{Error, Result};

impl Session {
    /// `CREATE TABLE name (columns)` and `CREATE TABLE name AS query`: a stored table where there is a database directory,
    /// otherwise one in memory. The rows appear at once, or not at all.
    pub(super) async fn create_table_as(&self, command: CreateMemoryTable, query: &Query) -> Result<QueryResult> {
        let CreateMemoryTable { name, input, if_not_exists, or_replace, constraints, column_defaults, temporary } =
            command;
        if temporary {
            return Err(Error::NotImplemented("CREATE TEMPORARY TABLE".into()));
        }
        if !column_defaults.is_empty() {
            return Err(Error::NotImplemented(format!("DEFAULT of column {:?}", column_defaults[0].0)));
        }
        if constraints.iter().next().is_some() {
            return Err(Error::NotImplemented("PRIMARY KEY and UNIQUE: tables of Warpmill have no keys".into()));
        }
        let name = name.table();
        if self.inner.catalog.exists(name) {
            match (if_not_exists, or_replace) {
                (true, true) => return Err(Error::Plan("IF NOT EXISTS and OR REPLACE exclude each other".into())),
                (true, false) => return Ok(QueryResult::empty()),
                (false, true) => {}
                (false, false) => return Err(Error::Catalog(format!("table '{name}' already exists"))),
            }
        }
        let state = self.inner.context.state();
        let options = self.options();
        let (prepared, _) = self.prepare(&state, &input, &options).await?;
        let schema = table_schema(name, &prepared.plan.schema())?;
        let layout = self.layout(name, write_options(&options))?;
        let writer = self.inner.catalog.build(name, schema, layout)?;
        let rows = execute_stream(Arc::clone(&prepared.plan), self.task_context(query))?;
        let (writer, _) = write_stream(writer, rows).await?;
        let (catalog, name) = (Arc::clone(&self.inner.catalog), name.to_string());
        let committed = tokio::task::spawn_blocking(move || catalog.commit(&name, writer)).await;
        committed.map_err(|error| Error::Other(error.to_string()))??;
        Ok(QueryResult::empty())
    }
}

/// The schema of a table that holds the rows of a query: distinct names, without metadata.
pub(super) fn table_schema(table: &str, schema: &SchemaRef) -> Result<SchemaRef> {
    let mut names = std::collections::HashSet::new();
    if let Some(twice) = schema.fields().iter().find(|field| !names.insert(field.name().as_str())) {
        return Err(Error::Plan(format!("table '{table}' would have two columns called {:?}", twice.name())));
    }
    let fields = schema.fields().iter().map(|field| {
        let data_type = match field.data_type() {
            // A column of literal NULLs has no type of its own.
            arrow::datatypes::DataType::Null => arrow::datatypes::DataType::Int32,
            data_type => data_type.clone(),
        };
        Field::new(field.name(), data_type, field.is_nullable())
    });
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}
