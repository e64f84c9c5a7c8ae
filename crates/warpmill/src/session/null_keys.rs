//! The limits of DataFusion's rules about joins whose keys are equal where both are NULL.
//!
//! Such a join says so once for all of its keys. Rules that add a key of `=` to it, or take joins of both kinds for one chain,
//! make NULLs equal that are not: `FROM l JOIN r ON l.a IS NOT DISTINCT FROM r.a WHERE l.b = r.b`.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::{JoinType, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::builder::SharedRule;

/// `extract_equijoin_predicate`, which leaves alone joins that have such keys, and `eliminate_cross_join`, which leaves alone
/// plans with inner joins that do.
#[derive(Debug)]
pub(crate) struct KeepsNullKeys(pub SharedRule);

impl OptimizerRule for KeepsNullKeys {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let concerned = match self.0.apply_order() {
            // It is called for every node.
            Some(_) => has_null_keys(&plan),
            None => plan.exists(|node| Ok(has_null_keys(node) && is_inner(node)))?,
        };
        if concerned { Ok(Transformed::no(plan)) } else { self.0.rewrite(plan, config) }
    }
}

fn has_null_keys(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty())
}

fn is_inner(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.join_type == JoinType::Inner)
}
