//! Join ordering.
use std::sync::Arc;
use datafusion::optimizer::OptimizerRule;

mod statistics;
pub use statistics::TableStatistics;

/// Inserts the rule.
pub fn with_join_order(
    rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
    _statistics: Arc<dyn TableStatistics>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    rules
}
