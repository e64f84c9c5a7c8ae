//! Aggregates that statistics answer.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::aggregate_statistics::AggregateStatistics;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::CrossJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;

/// DataFusion's aggregates from statistics, only where no operator below drops rows: DataFusion takes statistics of filters for exact where they
/// leave one value, or none.
#[derive(Debug, Default)]
pub(super) struct OfWholeTables(AggregateStatistics);

impl PhysicalOptimizerRule for OfWholeTables {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !drops_rows(&plan) {
            return self.0.optimize(plan, config);
        }
        Ok(plan.map_children(|child| self.optimize(child, config).map(Transformed::yes))?.data)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Whether a plan has filters or joins, except cross products of inputs that are known to be non-empty.
fn drops_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let children = plan.children();
    let is_product = plan.is::<CrossJoinExec>() && children.iter().all(|child| has_rows(child));
    let joins = children.len() > 1 && !is_product && !plan.is::<UnionExec>();
    plan.is::<FilterExec>() || joins || children.into_iter().any(drops_rows)
}

/// Whether statistics prove that a plan returns rows.
fn has_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    statistics.is_ok_and(|statistics| matches!(statistics.num_rows, Precision::Exact(1..)))
}
