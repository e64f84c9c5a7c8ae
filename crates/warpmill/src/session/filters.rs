//! Corrections of DataFusion's rules for filters.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::builder::SharedRule;
use crate::asof::is_above_asof;

/// `push_down_filter`, which stops above aggregations that return a row for empty input, and above ASOF joins.
///
/// DataFusion pushes a condition without columns below such an aggregation as if it were on group keys. It removes all input rows, but the
/// aggregation still returns a row: `SELECT * FROM (SELECT 1 AS one, count(*) FROM t) WHERE one = 2`, or HAVING over the grand total of a ROLLUP.
#[derive(Debug)]
pub(crate) struct StopsAboveTotals(pub SharedRule);

impl OptimizerRule for StopsAboveTotals {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match is_above_total(&plan) || is_above_asof(&plan) {
            true => Ok(Transformed::no(plan)),
            false => self.0.rewrite(plan, config),
        }
    }
}

/// Whether a plan is nothing but filters over an aggregation with a grand total.
fn is_above_total(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = plan else { return false };
    match filter.input.as_ref() {
        LogicalPlan::Aggregate(aggregate) => has_total(aggregate),
        below => is_above_total(below),
    }
}

fn has_total(aggregate: &Aggregate) -> bool {
    aggregate.group_expr.is_empty()
        || aggregate.group_expr.iter().any(|key| match key {
            Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets.iter().any(Vec::is_empty),
            Expr::GroupingSet(_) => true,
            _ => false,
        })
}
