//! Files in self-describing formats, combined by column name.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::execution::SessionState;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};

use super::own_columns::{OwnColumns, union};
use crate::catalog::same;
use crate::{Error, Result, dialect};

/// The files of one format as one table.
pub(super) async fn listing(
    files: Vec<String>,
    options: ListingOptions,
    state: &SessionState,
) -> Result<Arc<dyn TableProvider>> {
    let urls = files.iter().map(|file| ListingTableUrl::parse(glob::Pattern::escape(file)));
    let config = ListingTableConfig::new_with_multi_paths(urls.collect::<Result<Vec<_>, _>>()?);
    let config = config.with_listing_options(options).infer_schema(state).await?;
    Ok(Arc::new(ListingTable::try_new(config)?))
}

/// The type that has the values of both.
fn common(a: &DataType, b: &DataType) -> Option<DataType> {
    match (a.is_string(), b.is_string()) {
        (true, true) | (false, false) => type_union_resolution(&[a.clone(), b.clone()]),
        (true, false) => (!b.is_nested()).then(|| a.clone()),
        (false, true) => (!a.is_nested()).then(|| b.clone()),
    }
}

/// Tables of files.
pub(super) struct ByName {
    /// A table for each file.
    pub tables: Vec<Arc<dyn TableProvider>>,
    pub own: OwnColumns,
    /// The requested columns; `None`: those of all files.
    pub declared: Option<Vec<(String, DataType)>>,
    /// Whether values that are not of their types are NULL.
    pub ignore_errors: bool,
}

impl ByName {
    /// All rows: columns missing in a file are NULL, and types are the common types of all files' columns.
    ///
    /// # Errors
    /// Types without a common one, with the name of their column.
    pub(super) fn table(self) -> Result<Arc<dyn TableProvider>> {
        let columns = match &self.declared {
            Some(declared) => declared.clone(),
            None => self.columns()?,
        };
        let plans = (0..self.tables.len()).map(|at| self.rows(at, &columns)).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(ViewTable::new(union(plans)?, None)))
    }

    /// The columns of all files, in order of appearance.
    fn columns(&self) -> Result<Vec<(String, DataType)>> {
        let mut all: Vec<(String, DataType)> = vec![];
        for field in self.tables.iter().flat_map(|table| table.schema().fields().to_vec()) {
            let Some((name, ty)) = all.iter_mut().find(|(name, _)| same(name, field.name())) else {
                all.push((field.name().clone(), field.data_type().clone()));
                continue;
            };
            *ty = common(ty, field.data_type()).ok_or_else(|| {
                let text = format!("column {name} is {ty} in a file, and {} in another", field.data_type());
                Error::Plan(text)
            })?;
        }
        Ok(all)
    }

    /// The rows of file `at`.
    fn rows(&self, at: usize, columns: &[(String, DataType)]) -> Result<LogicalPlan> {
        let (table, schema) = (Arc::clone(&self.tables[at]), self.tables[at].schema());
        let rows = LogicalPlanBuilder::scan("rows", provider_as_source(table), None)?.build()?;
        let value = |(name, ty): &(String, DataType)| {
            let there = schema.fields().iter().find(|field| same(field.name(), name));
            let column = |field: &Arc<Field>| Expr::Column(Column::new(Some("rows"), field.name()));
            let value = match there {
                None => lit(ScalarValue::try_from(ty)?),
                Some(field) if field.data_type() == ty => column(field),
                Some(field) if self.ignore_errors => dialect::try_cast(column(field), ty, rows.schema())?,
                Some(field) => dialect::cast(column(field), ty, rows.schema())?,
            };
            Ok(value.alias(name))
        };
        let values = columns.iter().map(value).collect::<Result<Vec<_>>>()?;
        Ok(LogicalPlanBuilder::from(rows.clone()).project(self.own.with(values, at))?.build()?)
    }
}
