//! PRAGMA statements: queries of metadata, and DuckDB's settings and switches.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int32Array, StringArray};
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;

use warpmill_format::table::Constraint;

use super::constraints::of_plan;
use super::constraints::shown::keys;
use super::ddl::default_of;
use super::duckdb_settings::switch;
use super::statements::Taken;
use super::{QueryResult, Session};
use crate::dialect::{shown, type_name};
use crate::planning::bound;
use crate::{Error, Result};

impl Session {
    /// `PRAGMA table_info('t')`, `PRAGMA show_tables`, `PRAGMA database_list`, `PRAGMA version`, settings and switches.
    pub(super) async fn pragma(&self, sql: &str) -> Result<Taken> {
        let rest = sql.get("pragma ".len()..).unwrap_or_default().trim_end_matches([';', ' ']);
        if let Some((name, value)) = rest.split_once('=').filter(|(name, _)| !name.contains('(')) {
            return Ok(Taken::Instead(format!("SET {} = {}", name.trim(), value.trim())));
        }
        let (name, argument) = match rest.split_once('(') {
            Some((name, argument)) => (name.trim(), argument.trim_end_matches(')').trim()),
            None => (rest.trim(), ""),
        };
        match name.to_ascii_lowercase().as_str() {
            "table_info" => self.table_info(argument.trim_matches('\'')).await.map(Taken::Done),
            "show_tables" => Ok(Taken::Instead("SHOW TABLES".into())),
            "show_tables_expanded" => self.show_other("SHOW").await,
            "version" => Ok(Taken::Instead("SELECT version() AS library_version".into())),
            "database_list" => Ok(Taken::Instead("FROM pragma_database_list()".into())),
            name => switch(name).map(Taken::Done).ok_or_else(|| {
                Error::NotImplemented(format!(
                    "PRAGMA {rest} is not supported: settings are read and set with SHOW and SET"
                ))
            }),
        }
    }

    async fn table_info(&self, table: &str) -> Result<QueryResult> {
        let plan = bound(&Arc::new(self.inner.context.state()), &format!("FROM {table}"), &[]).await?;
        table_info(plan.schema().as_arrow(), &of_plan(&plan)?)
    }
}

/// The rows of `PRAGMA table_info`, of a table with these constraints.
pub(crate) fn table_info(schema: &Schema, constraints: &[Constraint]) -> Result<QueryResult> {
    let keys = keys(schema, constraints);
    let fields: Vec<&Arc<Field>> = schema.fields().iter().collect();
    let texts = |of: &dyn Fn(&Field) -> Option<String>| -> ArrayRef {
        Arc::new(fields.iter().map(|field| of(field)).collect::<StringArray>())
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("cid", Arc::new((0..fields.len() as i32).collect::<Int32Array>())),
        ("name", texts(&|field| Some(shown(field.name()).to_string()))),
        ("type", texts(&|field| Some(type_name(field.data_type())))),
        ("notnull", Arc::new(fields.iter().map(|field| Some(!field.is_nullable())).collect::<BooleanArray>())),
        ("dflt_value", texts(&|field| default_of(field).map(str::to_string))),
        ("pk", Arc::new(keys.iter().map(|key| Some(*key == Some("PRI"))).collect::<BooleanArray>())),
    ];
    let named = columns.iter().map(|(name, values)| Field::new(*name, values.data_type().clone(), true));
    let schema = Arc::new(Schema::new(named.collect::<Vec<_>>()));
    let values = columns.into_iter().map(|(_, values)| values).collect();
    let batches = vec![RecordBatch::try_new(Arc::clone(&schema), values)?];
    Ok(QueryResult { schema, batches, ..QueryResult::empty() })
}
