//! Tables about what there is, in DuckDB's words: `information_schema.columns`, `duckdb_tables()`, `duckdb_views()`, `duckdb_columns()`;
//! with those of [`constraints`] and [`types`].

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int32Array, Int64Array, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::logical_expr::TableType;

use super::{CATALOG, Catalog, DUCKDB_MAIN, TableInfo, constraints, is_main, types};
use crate::dialect::{shown, type_name};
use crate::session::ddl::default_of;
use crate::{Error, Result};

/// `information_schema`, with the columns in DuckDB's words, and with the tables that DuckDB's functions give.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) inner: InformationSchemaProvider,
    pub(super) catalog: Arc<Catalog>,
}

/// A column of a table.
struct Column {
    schema: String,
    table: String,
    /// From 1.
    position: usize,
    field: Field,
}

#[async_trait]
impl SchemaProvider for Described {
    fn table_names(&self) -> Vec<String> {
        let own = constraints::NAMES.into_iter().chain([types::NAME]).map(String::from);
        self.inner.table_names().into_iter().chain(own).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(Some(match name.to_ascii_lowercase().as_str() {
            "columns" => self.columns().await?,
            "duckdb_tables" => self.tables().await?,
            "duckdb_views" => self.views()?,
            "duckdb_columns" => self.duckdb_columns().await?,
            types::NAME => types::duckdb_types(&self.catalog)?,
            name => match constraints::named(&self.catalog, name)? {
                Some(table) => table,
                None => return self.inner.table(name).await,
            },
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        let own = name.to_ascii_lowercase();
        constraints::NAMES.contains(&own.as_str()) || own == types::NAME || self.inner.table_exist(name)
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>, DataFusionError> {
        self.inner.table_type(name).await
    }
}

impl Described {
    /// The columns of everything that can be read.
    async fn all(&self) -> Result<Vec<Column>> {
        let mut all = vec![];
        for name in self.catalog.all_schemas()? {
            let Some(schema) = self.catalog.find_schema(&name)? else { continue };
            for table in schema.table_names() {
                let provider = match schema.table(&table).await {
                    Ok(Some(provider)) => provider,
                    Ok(None) => continue,
                    Err(error) => {
                        tracing::warn!(table, %error, "a table cannot be read");
                        continue;
                    }
                };
                let fields = provider.schema();
                all.extend(fields.fields().iter().enumerate().map(|(at, field)| Column {
                    schema: shown_schema(&name),
                    table: table.clone(),
                    position: at + 1,
                    field: field.as_ref().clone(),
                }));
            }
        }
        Ok(all)
    }

    async fn columns(&self) -> Result<Arc<dyn TableProvider>> {
        let all = self.all().await?;
        let number = |of: &dyn Fn(&DataType) -> Option<u64>| -> ArrayRef {
            Arc::new(all.iter().map(|column| of(column.field.data_type())).collect::<UInt64Array>())
        };
        let digits = |ty: &DataType| match ty {
            DataType::Int8 | DataType::UInt8 => Some((8, 2, 0)),
            DataType::Int16 | DataType::UInt16 => Some((16, 2, 0)),
            DataType::Int32 | DataType::UInt32 => Some((32, 2, 0)),
            DataType::Int64 | DataType::UInt64 => Some((64, 2, 0)),
            DataType::Float32 => Some((24, 2, 0)),
            DataType::Float64 => Some((53, 2, 0)),
            DataType::Decimal128(width, scale) => Some(((*width).into(), 10, (*scale).max(0) as u64)),
            _ => None,
        };
        let nothing = || texts(all.iter().map(|_| None));
        table(vec![
            ("table_catalog", texts(all.iter().map(|_| Some(CATALOG.to_string())))),
            ("table_schema", texts(all.iter().map(|column| Some(column.schema.clone())))),
            ("table_name", texts(all.iter().map(|column| Some(column.table.clone())))),
            ("column_name", texts(all.iter().map(|column| Some(shown(column.field.name()).to_string())))),
            (
                "ordinal_position",
                Arc::new(all.iter().map(|column| Some(column.position as i32)).collect::<Int32Array>()) as ArrayRef,
            ),
            ("column_default", texts(all.iter().map(|column| default_of(&column.field).map(str::to_string)))),
            (
                "is_nullable",
                texts(all.iter().map(|c| Some(if c.field.is_nullable() { "YES" } else { "NO" }.to_string()))),
            ),
            ("data_type", texts(all.iter().map(|column| Some(type_name(column.field.data_type()))))),
            ("character_maximum_length", number(&|_| None)),
            ("character_octet_length", number(&|_| None)),
            ("numeric_precision", number(&|ty| digits(ty).map(|(precision, _, _)| precision))),
            ("numeric_precision_radix", number(&|ty| digits(ty).map(|(_, radix, _)| radix))),
            ("numeric_scale", number(&|ty| digits(ty).map(|(_, _, scale)| scale))),
            ("datetime_precision", number(&|_| None)),
            ("interval_type", nothing()),
        ])
    }

    async fn duckdb_columns(&self) -> Result<Arc<dyn TableProvider>> {
        let all = self.all().await?;
        table(vec![
            ("database_name", texts(all.iter().map(|_| Some(CATALOG.to_string())))),
            ("schema_name", texts(all.iter().map(|column| Some(column.schema.clone())))),
            ("table_name", texts(all.iter().map(|column| Some(column.table.clone())))),
            ("column_name", texts(all.iter().map(|column| Some(shown(column.field.name()).to_string())))),
            (
                "column_index",
                Arc::new(all.iter().map(|column| Some(column.position as i32)).collect::<Int32Array>()) as ArrayRef,
            ),
            ("internal", truths(all.iter().map(|_| false))),
            ("column_default", texts(all.iter().map(|column| default_of(&column.field).map(str::to_string)))),
            ("is_nullable", truths(all.iter().map(|column| column.field.is_nullable()))),
            ("data_type", texts(all.iter().map(|column| Some(type_name(column.field.data_type()))))),
        ])
    }

    fn infos(&self, views: bool) -> Result<Vec<TableInfo>> {
        let infos = self.catalog.infos()?;
        Ok(infos.into_iter().filter(|info| (info.kind == "view") == views).collect())
    }

    async fn tables(&self) -> Result<Arc<dyn TableProvider>> {
        let infos = self.infos(false)?;
        let columns = self.all().await?;
        let count = |info: &TableInfo| {
            let schema = shown_schema(&info.schema);
            columns.iter().filter(|column| column.schema == schema && column.table == info.name).count() as i64
        };
        let stored = self.catalog.database.is_some();
        table(vec![
            ("database_name", texts(infos.iter().map(|_| Some(CATALOG.to_string())))),
            ("schema_name", texts(infos.iter().map(|info| Some(shown_schema(&info.schema))))),
            ("table_name", texts(infos.iter().map(|info| Some(info.name.clone())))),
            ("comment", texts(infos.iter().map(|_| None))),
            ("internal", truths(infos.iter().map(|_| false))),
            ("temporary", truths(infos.iter().map(|info| stored && info.kind == "memory"))),
            ("estimated_size", integers(infos.iter().map(|info| info.rows.map(|rows| rows as i64)))),
            ("column_count", integers(infos.iter().map(|info| Some(count(info))))),
        ])
    }

    fn views(&self) -> Result<Arc<dyn TableProvider>> {
        let infos = self.infos(true)?;
        table(vec![
            ("database_name", texts(infos.iter().map(|_| Some(CATALOG.to_string())))),
            ("schema_name", texts(infos.iter().map(|info| Some(shown_schema(&info.schema))))),
            ("view_name", texts(infos.iter().map(|info| Some(info.name.clone())))),
            ("comment", texts(infos.iter().map(|_| None))),
            ("internal", truths(infos.iter().map(|_| false))),
        ])
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

/// The table of these columns.
pub(super) fn table(columns: Vec<(&str, ArrayRef)>) -> Result<Arc<dyn TableProvider>> {
    let fields = columns.iter().map(|(name, values)| Field::new(*name, values.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.into_iter().map(|(_, values)| values).collect());
    let table = MemTable::try_new(schema, vec![vec![batch.map_err(Error::from)?]]);
    Ok(Arc::new(table?))
}
