//! The facts that the rule needs about base tables, and where they come from.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics, TableReference};
use datafusion::datasource::DefaultTableSource;
use datafusion::datasource::listing::ListingTable;
use datafusion::logical_expr::TableSource;
use warpmill_format::TableSnapshot;

use crate::catalog::{WarpmillTable, file_statistics};

/// The facts about one column of a base table; `None` is unknown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnStats {
    /// Number of distinct values, NULL not counted.
    pub distinct: Option<f64>,
    /// Smallest value.
    pub min: Option<ScalarValue>,
    /// Largest value.
    pub max: Option<ScalarValue>,
    /// Number of NULLs.
    pub nulls: Option<f64>,
    /// The stored column, if it is one of texts: patterns are tried on a sample.
    pub texts: Option<TextColumn>,
}

/// A text column of a table of Warpmill.
#[derive(Debug, Clone)]
pub struct TextColumn {
    table: Arc<TableSnapshot>,
    column: usize,
}

impl TextColumn {
    /// The fraction of rows that are LIKE `pattern`, or ILIKE it, by a sample; `None` where there is none.
    pub(super) fn like(&self, pattern: &str, case_insensitive: bool) -> Option<f64> {
        self.table.text_sample(self.column)?.like(pattern, case_insensitive)
    }
}

impl PartialEq for TextColumn {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table) && self.column == other.column
    }
}

/// The facts about a base table.
#[derive(Debug, Clone, PartialEq)]
pub struct TableStats {
    /// Number of rows.
    pub rows: f64,
    /// One entry per column of the table's schema, in its order; missing entries are unknown columns.
    pub columns: Vec<ColumnStats>,
}

impl TableStats {
    /// Takes over DataFusion's statistics; `None` when they do not say how many rows there are.
    pub fn from_statistics(statistics: &Statistics) -> Option<Self> {
        let rows = *statistics.num_rows.get_value()? as f64;
        Some(Self { rows, columns: statistics.column_statistics.iter().map(ColumnStats::from).collect() })
    }
}

impl From<&ColumnStatistics> for ColumnStats {
    fn from(column: &ColumnStatistics) -> Self {
        let value = |v: &Precision<ScalarValue>| v.get_value().filter(|v| !v.is_null()).cloned();
        Self {
            distinct: column.distinct_count.get_value().map(|n| *n as f64),
            min: value(&column.min_value),
            max: value(&column.max_value),
            nulls: column.null_count.get_value().map(|n| *n as f64),
            texts: None,
        }
    }
}

/// The place where the rule reads table statistics. Called during planning, several times a query: it must be cheap.
pub trait TableStatistics: Debug + Send + Sync {
    /// The statistics of the table `name` scanned from `source`; `None` when nothing is known.
    fn table(&self, name: &TableReference, source: &dyn TableSource) -> Option<TableStats>;
}

/// Reads [`TableProvider::statistics`](datafusion::catalog::TableProvider::statistics) of any provider, and what Parquet files of this machine say.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProviderStatistics;

impl TableStatistics for ProviderStatistics {
    fn table(&self, _name: &TableReference, source: &dyn TableSource) -> Option<TableStats> {
        let source = source.downcast_ref::<DefaultTableSource>()?;
        let provider = &source.table_provider;
        if let Some(table) = provider.downcast_ref::<ListingTable>() {
            return file_statistics::of(table);
        }
        let mut stats = TableStats::from_statistics(&provider.statistics()?)?;
        if let Some(table) = provider.downcast_ref::<WarpmillTable>().map(WarpmillTable::snapshot) {
            for (column, (stats, field)) in stats.columns.iter_mut().zip(table.schema().fields()).enumerate() {
                let texts = || TextColumn { table: Arc::clone(table), column };
                stats.texts = (*field.data_type() == DataType::Utf8).then(texts);
            }
        }
        Some(stats)
    }
}

/// Statistics given by table name (without catalog and schema): for providers that only know them once they are
/// scanned, and for tests. Other tables are answered by [`ProviderStatistics`].
#[derive(Debug, Clone, Default)]
pub struct NamedStatistics(pub HashMap<String, TableStats>);

impl TableStatistics for NamedStatistics {
    fn table(&self, name: &TableReference, source: &dyn TableSource) -> Option<TableStats> {
        self.0.get(name.table()).cloned().or_else(|| ProviderStatistics.table(name, source))
    }
}
