//! Tables that describe the catalog, with DuckDB's names and columns: `duckdb_tables()` and similar functions. They belong to
//! `information_schema`, whose other tables are those of DataFusion.

mod columns;
mod constraints;
mod functions;
mod objects;
mod settings;
mod tables;
mod types;

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, StringArray};
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::logical_expr::TableType;

use super::{CATALOG, Catalog, DUCKDB_MAIN, INFORMATION_SCHEMA, Shared, is_main};
use crate::{Error, Result};

/// Functions of DuckDB without arguments that are tables of `information_schema` here.
const FUNCTIONS: [&str; 13] = [
    "duckdb_columns",
    "duckdb_constraints",
    "duckdb_databases",
    "duckdb_functions",
    "duckdb_indexes",
    "duckdb_schemas",
    "duckdb_sequences",
    "duckdb_settings",
    "duckdb_tables",
    "duckdb_types",
    "duckdb_variables",
    "duckdb_views",
    "pragma_database_list",
];

/// Further tables, which are not functions and which DataFusion's `information_schema` does not have.
const OTHERS: [&str; 4] = ["table_constraints", "key_column_usage", "referential_constraints", "sqlite_master"];

/// Names of tables that need no schema, unless another table or view has the name.
const VIEWS: [&str; 10] = [
    "duckdb_columns",
    "duckdb_constraints",
    "duckdb_databases",
    "duckdb_indexes",
    "duckdb_schemas",
    "duckdb_tables",
    "duckdb_types",
    "duckdb_views",
    "pragma_database_list",
    "sqlite_master",
];

/// Whether a function, named in lower case, is a table of `information_schema`.
pub(crate) fn is_told(function: &str) -> bool {
    FUNCTIONS.contains(&function)
}

/// The table of a name without a schema, unless another table or view has the name; `None` if there is none.
pub(super) async fn unqualified(name: &str, shared: &Shared) -> Result<Option<Arc<dyn TableProvider>>> {
    let lower = name.to_ascii_lowercase();
    if !VIEWS.contains(&lower.as_str()) {
        return Ok(None);
    }
    let catalog = shared.state()?.catalog_list().catalog(CATALOG);
    match catalog.and_then(|catalog| catalog.schema(INFORMATION_SCHEMA)) {
        Some(schema) => Ok(schema.table(&lower).await?),
        None => Ok(None),
    }
}

/// `information_schema` with DuckDB's names of columns, and with the tables of DuckDB's functions.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) inner: InformationSchemaProvider,
    pub(super) catalog: Arc<Catalog>,
    pub(super) shared: Arc<Shared>,
}

#[async_trait]
impl SchemaProvider for Described {
    fn table_names(&self) -> Vec<String> {
        let own = FUNCTIONS.into_iter().chain(OTHERS).map(String::from);
        self.inner.table_names().into_iter().chain(own).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(Some(match name.to_ascii_lowercase().as_str() {
            "columns" => self.columns().await?,
            "duckdb_tables" => self.tables().await?,
            "duckdb_views" => self.views().await?,
            "duckdb_columns" => self.duckdb_columns().await?,
            "duckdb_types" => types::duckdb_types(&self.catalog)?,
            "duckdb_databases" => objects::databases(&self.catalog)?,
            "pragma_database_list" => objects::database_list(&self.catalog)?,
            "duckdb_schemas" => objects::schemas(&self.catalog)?,
            "duckdb_sequences" => objects::sequences(&self.catalog)?,
            "duckdb_functions" => functions::functions(&self.catalog, &self.shared.state()?)?,
            "duckdb_settings" => settings::settings(&self.shared.state()?)?,
            "duckdb_variables" => settings::variables(&self.shared.state()?)?,
            "sqlite_master" => self.master()?,
            name => match constraints::named(&self.catalog, name)? {
                Some(table) => table,
                None => return self.inner.table(name).await,
            },
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        let own = name.to_ascii_lowercase();
        FUNCTIONS.contains(&own.as_str()) || OTHERS.contains(&own.as_str()) || self.inner.table_exist(name)
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>, DataFusionError> {
        self.inner.table_type(name).await
    }
}

/// DuckDB's name of a schema.
pub(super) fn shown_schema(name: &str) -> String {
    if is_main(name) { DUCKDB_MAIN.to_string() } else { name.to_string() }
}

fn texts(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

fn truths(values: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<BooleanArray>())
}

fn integers(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.collect::<Int64Array>())
}

/// A table with these columns.
pub(super) fn table(columns: Vec<(&str, ArrayRef)>) -> Result<Arc<dyn TableProvider>> {
    let fields = columns.iter().map(|(name, values)| Field::new(*name, values.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.into_iter().map(|(_, values)| values).collect());
    let table = MemTable::try_new(schema, vec![vec![batch.map_err(Error::from)?]]);
    Ok(Arc::new(table?))
}
