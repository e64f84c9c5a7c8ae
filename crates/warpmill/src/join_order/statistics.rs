//! Statistics.
use datafusion::common::TableReference;
use datafusion::logical_expr::TableSource;
/// Column.
pub struct ColumnStats;
/// Rows.
pub struct TableStats {
    /// Rows.
    pub rows: f64,
}
/// Statistics of tables.
pub trait TableStatistics: std::fmt::Debug + Send + Sync {
    /// The statistics of a table.
    fn table(&self, name: &TableReference, source: &dyn TableSource) -> Option<TableStats>;
}
