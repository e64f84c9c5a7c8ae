//! Corrects DataFusion for LIMIT in subqueries without ORDER BY.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use warpmill_translate::any_rows::AnyRowsExec;

/// Inserts [`AnyRowsExec`] above limits within a plan: DataFusion's rules push a sort from above a limit below it (`SELECT * FROM (SELECT unnest(l)
/// AS x FROM t LIMIT 3) ORDER BY x`), so that other rows are selected.
#[derive(Debug)]
pub(super) struct SortsAboveLimits;

impl PhysicalOptimizerRule for SortsAboveLimits {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let hide = |node: Arc<dyn ExecutionPlan>| {
            if is_limit(&node) || !node.children().into_iter().any(is_unsorted_limit) {
                return Ok(Transformed::no(node));
            }
            let hidden = |child: &Arc<dyn ExecutionPlan>| match is_unsorted_limit(child) {
                true => Arc::new(AnyRowsExec::new(Arc::clone(child))) as Arc<dyn ExecutionPlan>,
                false => Arc::clone(child),
            };
            let children = node.children().into_iter().map(hidden).collect();
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            node.replace_children(children, options).map(Transformed::yes)
        };
        plan.transform_up(hide).data()
    }

    fn name(&self) -> &str {
        "sorts_above_limits"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn is_limit(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<GlobalLimitExec>() || plan.is::<LocalLimitExec>()
}

fn is_unsorted_limit(plan: &Arc<dyn ExecutionPlan>) -> bool {
    is_limit(plan) && plan.properties().output_ordering().is_none()
}
