//! Warpmill's tables by schema and name, for hosts that read and write them without SQL.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use warpmill_format::Table;

use super::Session;
use super::ddl::default_of;
use crate::catalog::{DUCKDB_MAIN, Kind, is_main};
use crate::{Result, dialect};

impl Session {
    /// The names of all schemas, the main one first, under its name in DuckDB.
    ///
    /// # Errors
    /// The database directory cannot be listed.
    pub fn schemas(&self) -> Result<Vec<String>> {
        let names = self.inner.catalog.all_schemas()?.into_iter();
        Ok(names.map(|name| if is_main(&name) { DUCKDB_MAIN.to_string() } else { name }).collect())
    }

    /// The names of a schema's tables, as the session's transaction sees them, without views and tables that cannot be opened.
    ///
    /// # Errors
    /// A schema that does not exist.
    pub fn stored_tables(&self, schema: &str) -> Result<Vec<String>> {
        let schema = self.inner.catalog.schema_called(schema)?;
        let names = schema.names()?.into_iter();
        Ok(names.filter(|name| matches!(schema.kind(name), Ok(Some(Kind::Table)))).collect())
    }

    /// The table of Warpmill called `name` in a schema, as the session's transaction sees it; `None` if there is none.
    ///
    /// # Errors
    /// The schema does not exist, or the table is damaged.
    pub fn stored_table(&self, schema: &str, name: &str) -> Result<Option<Arc<Table>>> {
        self.inner.catalog.schema_called(schema)?.warpmill_table(name)
    }
}

/// DuckDB's name of the type of a column.
pub fn duckdb_type(ty: &DataType) -> String {
    dialect::type_name(ty)
}

/// The SQL text of a column's default; `None` if the default is NULL.
pub fn column_default(field: &Field) -> Option<&str> {
    default_of(field)
}
