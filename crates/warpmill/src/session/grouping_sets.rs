//! Corrects DataFusion for grouping sets whose keys are constant in the input, but NULL in some groups of the result.
//!
//! DataFusion takes a column that is constant in the input of an aggregation for constant in its result, too, and drops it from ORDER BY: `SELECT k
//! FROM (SELECT 1 AS k) GROUP BY ROLLUP (k) ORDER BY k`.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use warpmill_translate::any_rows::AnyRowsExec;

/// Inserts [`AnyRowsExec`] below aggregations with several grouping sets.
#[derive(Debug)]
pub(super) struct HidesConstantKeys;

impl PhysicalOptimizerRule for HidesConstantKeys {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let hide = |node: Arc<dyn ExecutionPlan>| {
            let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
            let input = aggregate.input();
            let first = aggregate.mode().input_mode() == datafusion::physical_plan::aggregates::AggregateInputMode::Raw;
            let known = !input.equivalence_properties().constants().is_empty() || input.output_ordering().is_some();
            if aggregate.group_expr().is_single() || !first || !known {
                return Ok(Transformed::no(node));
            }
            let input = Arc::new(AnyRowsExec::new(Arc::clone(input)));
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            node.replace_children(vec![input], options).map(Transformed::yes)
        };
        plan.transform_up(hide).data()
    }

    fn name(&self) -> &str {
        "hides_constant_keys"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
