//! DESCRIBE and SHOW, with DuckDB's form of results.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;

use warpmill_format::table::Constraint;

use super::constraints::of_plan;
use super::constraints::shown::keys;
use super::ddl::default_of;
use super::statements::Taken;
use super::{QueryResult, Session};
use crate::catalog::{CATALOG, is_query};
use crate::dialect::{answer, shown, type_name};
use crate::planning::bound;
use crate::{Error, Result};

/// The query of `SHOW ALL TABLES`.
const ALL_TABLES: &str = "SELECT c.database_name AS \"database\", c.schema_name AS \"schema\", c.table_name AS \"name\", \
    list(c.column_name ORDER BY c.column_index) AS column_names, list(c.data_type ORDER BY c.column_index) AS column_types, \
    bool_or(t.temporary) AS \"temporary\" FROM duckdb_columns() c JOIN (SELECT schema_name, table_name, temporary FROM duckdb_tables() \
    UNION ALL SELECT schema_name, view_name, temporary FROM duckdb_views()) t \
    ON c.schema_name = t.schema_name AND c.table_name = t.table_name GROUP BY 1, 2, 3 ORDER BY 1, 2, 3";

impl Session {
    /// `SHOW TABLES [FROM schema]`, `SHOW SCHEMAS`, `SHOW DATABASES`; `None` for other statements.
    pub(super) fn show(&self, sql: &str) -> Result<Option<QueryResult>> {
        let catalog = &self.inner.catalog;
        let lower = sql.to_ascii_lowercase();
        match &lower.split(' ').collect::<Vec<_>>()[..] {
            ["show", "tables"] => {
                let schema = catalog.schema_called(&self.default_schema())?;
                texts(&["name"], vec![schema.names()?.into_iter().map(Some).collect()]).map(Some)
            }
            ["show", "tables", "from", ..] => {
                let name = sql.get("show tables from ".len()..).unwrap_or_default().trim_matches('"');
                let schema = catalog.schema_called(name)?;
                texts(&["name"], vec![schema.names()?.into_iter().map(Some).collect()]).map(Some)
            }
            ["show", "schemas"] => {
                texts(&["name"], vec![catalog.all_schemas()?.into_iter().map(Some).collect()]).map(Some)
            }
            ["show", "databases"] => texts(&["database_name"], vec![vec![Some(CATALOG.to_string())]]).map(Some),
            _ => Ok(None),
        }
    }

    /// `SHOW name` and `SHOW query` (both are DESCRIBE), `SHOW` and `SHOW ALL TABLES`, `SHOW VARIABLES`.
    pub(super) async fn show_other(&self, sql: &str) -> Result<Taken> {
        let what = sql.get("show".len()..).unwrap_or_default().trim();
        match what.to_ascii_lowercase().as_str() {
            "" | "all tables" => return Ok(Taken::Instead(ALL_TABLES.into())),
            "variables" => return Ok(Taken::Instead("FROM duckdb_variables()".into())),
            _ => {}
        }
        let described = format!("DESCRIBE {what}");
        if is_query(what) {
            return Ok(Taken::Instead(answer(&described)));
        }
        // DataFusion shows settings.
        let state = Arc::new(self.inner.context.state());
        if what.contains(' ') || bound(&state, &format!("FROM {what}"), &[]).await.is_err() {
            return Ok(Taken::No);
        }
        match self.describe_table(&described).await? {
            Taken::No => Ok(Taken::Instead(described)),
            taken => Ok(taken),
        }
    }

    /// `DESCRIBE name` for a table of Warpmill with constraints; DataFusion describes others.
    pub(super) async fn describe_table(&self, sql: &str) -> Result<Taken> {
        let name = sql.split_once(' ').map(|(_, name)| name.trim_end_matches([';', ' '])).unwrap_or_default();
        let plan = bound(&Arc::new(self.inner.context.state()), &format!("FROM {name}"), &[]).await;
        let Ok(plan) = plan else { return Ok(Taken::No) };
        let constraints = of_plan(&plan)?;
        match constraints.is_empty() {
            true => Ok(Taken::No),
            false => describe(plan.schema().as_arrow(), &constraints).map(Taken::Done),
        }
    }
}

/// The rows of DESCRIBE for a table with these constraints.
pub(crate) fn describe(schema: &Schema, constraints: &[Constraint]) -> Result<QueryResult> {
    let fields = schema.fields();
    let of = |value: fn(&Field) -> String| fields.iter().map(|field| Some(value(field))).collect();
    let nothing = || vec![None; fields.len()];
    let columns = vec![
        of(|field| shown(field.name()).to_string()),
        of(|field| type_name(field.data_type())),
        of(|field| if field.is_nullable() { "YES" } else { "NO" }.to_string()),
        keys(schema, constraints).into_iter().map(|key| key.map(str::to_string)).collect(),
        fields.iter().map(|field| default_of(field).map(str::to_string)).collect(),
        nothing(),
    ];
    texts(&["column_name", "column_type", "null", "key", "default", "extra"], columns)
}

fn texts(names: &[&str], columns: Vec<Vec<Option<String>>>) -> Result<QueryResult> {
    let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let columns = columns.into_iter().map(|column| Arc::new(StringArray::from(column)) as ArrayRef);
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.collect()).map_err(Error::from)?;
    let batches = if batch.num_rows() == 0 { vec![] } else { vec![batch] };
    Ok(QueryResult { schema, batches, ..QueryResult::empty() })
}
