//! Filters of Parquet scans that read the values of scalar subqueries: they only prune row groups, and prevent a scan from being an input of a
//! program that computes the subqueries itself.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;

/// `plan` without such filters in its scans: operators above test the same conditions.
pub(super) fn without_subqueries(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(plan.transform_up(|node| Ok(scan(&node)?.map_or_else(|| Transformed::no(node), Transformed::yes)))?.data)
}

/// The scan without such filters, if it has any.
fn scan(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let node = node.downcast_ref::<DataSourceExec>();
    let Some((config, source)) = node.and_then(|node| node.downcast_to_file_source::<ParquetSource>()) else {
        return Ok(None);
    };
    // Filters that a scan applies are nowhere else.
    let Some(filter) = source.filter().filter(|_| !source.table_parquet_options().global.pushdown_filters) else {
        return Ok(None);
    };
    let reads = |expr: &Arc<dyn PhysicalExpr>| expr.exists(|part| Ok(part.is::<ScalarSubqueryExpr>()));
    let all = split_conjunction(&filter);
    let mut kept = vec![];
    for part in &all {
        if !reads(part)? {
            kept.push(Arc::clone(part));
        }
    }
    if kept.len() == all.len() {
        return Ok(None);
    }
    let source = source.with_predicate(conjunction(kept));
    let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
    Ok(Some(DataSourceExec::from_data_source(config)))
}
