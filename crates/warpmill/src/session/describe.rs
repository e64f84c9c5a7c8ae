//! DESCRIBE and SHOW, in the form of DuckDB's.

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
use crate::dialect::{shown, type_name};
use crate::planning::bound;
use crate::{Error, Result};

impl Session {
    /// `SHOW TABLES [FROM schema]`, `SHOW ALL TABLES`, `SHOW SCHEMAS`; `None`: left to DataFusion.
    pub(super) fn show(&self, sql: &str, words: &[&str]) -> Result<Option<QueryResult>> {
        let catalog = &self.inner.catalog;
        match words {
            ["show", "tables"] => {
                let schema = catalog.schema_called(&self.default_schema())?;
                texts(&["name"], vec![schema.names()?.into_iter().map(Some).collect()]).map(Some)
            }
            ["show", "tables", "from", ..] => {
                let name = sql.get("show tables from ".len()..).unwrap_or_default().trim_matches('"');
                let schema = catalog.schema_called(name)?;
                texts(&["name"], vec![schema.names()?.into_iter().map(Some).collect()]).map(Some)
            }
            ["show", "schemas" | "databases"] => {
                texts(&["name"], vec![catalog.all_schemas()?.into_iter().map(Some).collect()]).map(Some)
            }
            ["show", "all", "tables"] => {
                let infos = catalog.infos()?;
                let of =
                    |value: fn(&crate::TableInfo) -> &str| infos.iter().map(|i| Some(value(i).to_string())).collect();
                let columns = vec![of(|info| &info.schema), of(|info| &info.name), of(|info| &info.kind)];
                texts(&["schema", "name", "kind"], columns).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// `DESCRIBE name` of a table of Warpmill with constraints; others are left to DataFusion.
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

/// The rows of DESCRIBE, of a table with these constraints.
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
