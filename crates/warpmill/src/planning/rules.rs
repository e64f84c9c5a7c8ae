//! Optimizer rules that stop when the plan is no longer wanted, and that skip plans on which they would take too long.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{JoinType, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;

use super::limits::check_expressions;
use super::threads::checkpoint;
use crate::session::builder::{SharedPhysicalRule, SharedRule};

/// The largest number of joins for which DataFusion searches keys of cross joins, in cubic time. Above it, filters become keys only where the order
/// of the tables allows it.
const CROSS_JOIN_SEARCH: usize = 100;

/// Wraps a logical rule, which is skipped for abandoned statements and for plans too large for it.
pub(crate) fn checked(rule: SharedRule) -> SharedRule {
    let is = |name| rule.name() == name;
    let (searches_joins, outer_joins) = (is("eliminate_cross_join"), is("eliminate_outer_join"));
    Arc::new(Checked { searches_joins, outer_joins, repeats: is("push_down_filter"), rule })
}

/// [`checked`] for a physical rule.
pub(crate) fn checked_physical(rule: SharedPhysicalRule) -> SharedPhysicalRule {
    Arc::new(CheckedPhysical(rule))
}

#[derive(Debug)]
struct Checked {
    rule: SharedRule,
    searches_joins: bool,
    /// Whether the rule looks for outer joins below filters, whose expressions it inlines through projections, once per use of a column.
    outer_joins: bool,
    /// Whether the rule inlines expressions for columns, once per use.
    repeats: bool,
}

impl OptimizerRule for Checked {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        checkpoint()?;
        if self.searches_joins && has_many_joins(&plan)? {
            return Ok(Transformed::no(plan));
        }
        if self.outer_joins && !is_above_outer_join(&plan) {
            return Ok(Transformed::no(plan));
        }
        let rewritten = self.rule.rewrite(plan, config)?;
        if self.repeats && rewritten.transformed {
            check_expressions(&rewritten.data)?;
        }
        Ok(rewritten)
    }
}

/// Projections between a filter and an outer join through which the filter is followed: each may double its size.
const FOLLOWED_PROJECTIONS: usize = 10;

/// Whether a plan is a filter above an outer join, with few projections between them.
fn is_above_outer_join(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = plan else { return false };
    let mut below = filter.input.as_ref();
    for _ in 0..=FOLLOWED_PROJECTIONS {
        match below {
            LogicalPlan::Projection(projection) => below = projection.input.as_ref(),
            LogicalPlan::Join(join) => return join.join_type != JoinType::Inner,
            _ => return false,
        }
    }
    false
}

fn has_many_joins(plan: &LogicalPlan) -> Result<bool> {
    let mut joins = 0;
    plan.apply(|node| {
        joins += usize::from(matches!(node, LogicalPlan::Join(_)));
        Ok(if joins > CROSS_JOIN_SEARCH { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(joins > CROSS_JOIN_SEARCH)
}

#[derive(Debug)]
struct CheckedPhysical(SharedPhysicalRule);

impl PhysicalOptimizerRule for CheckedPhysical {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        checkpoint()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        checkpoint()?;
        self.0.optimize_with_context(plan, context)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
