//! Sets of keys whose columns are constant before they are grouped, and NULL in some of the groups after.
//!
//! DataFusion takes a column that is constant in the input of an aggregation for constant in its result, too, and leaves it out of
//! ORDER BY: `SELECT k FROM (SELECT 1 AS k) GROUP BY ROLLUP (k) ORDER BY k`.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};

/// Puts [`AnyRowsExec`] below aggregations by several sets of keys.
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

/// The rows of its input, of which nothing is known.
#[derive(Debug)]
struct AnyRowsExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl AnyRowsExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let known = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            known.output_partitioning().clone(),
            known.emission_type,
            known.boundedness,
        );
        Self { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for AnyRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyRowsExec")
    }
}

impl ExecutionPlan for AnyRowsExec {
    fn name(&self) -> &str {
        "AnyRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.pop()) {
            (Some(input), None) => Ok(Arc::new(Self::new(input))),
            _ => internal_err!("AnyRowsExec has one input"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
