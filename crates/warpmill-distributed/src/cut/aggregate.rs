//! Aggregations.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};

use super::{Cutter, Part, Rows, estimate, may_shuffle, over};

/// Groups that are few enough to meet in one place.
const FEW_GROUPS: f64 = 20_000.0;
/// Smallest average number of rows per group for which tasks aggregate before the shuffle.
const LEAST_ROWS: f64 = 3.0;

impl Cutter {
    /// Either tasks aggregate their rows, and the states are merged by group, or rows are shuffled by group first.
    pub(super) fn aggregate(&self, plan: &Arc<dyn ExecutionPlan>, node: &AggregateExec) -> Result<Part> {
        if !matches!(node.mode(), AggregateMode::Single | AggregateMode::SinglePartitioned) {
            return self.in_one_place(plan);
        }
        let input = self.part(node.input())?;
        if input.rows == Rows::Here {
            return over(plan, vec![input]);
        }
        let groups = node.group_expr();
        let (before, after) = (estimate(node.input()).rows, estimate(plan).rows);
        let (few, in_phases) =
            (after <= FEW_GROUPS, node.aggr_expr().iter().all(|call| has_phases(call, groups.is_empty())));
        let keys: Vec<_> = groups.expr().iter().map(|(key, _)| Arc::clone(key)).collect();
        let by_rows = !groups.has_grouping_set() && may_shuffle(&keys, &input.plan.schema())?;
        if by_rows && (!in_phases || !few && before < after * LEAST_ROWS) {
            let shuffled = self.shuffled(input, keys)?;
            let whole = self.phase(node, AggregateMode::SinglePartitioned, shuffled.plan)?;
            return Ok(Part { plan: whole, rows: Rows::Spread, exchanged: true, bytes: estimate(plan).bytes });
        }
        if !in_phases {
            return over(plan, vec![self.gathered(input)?]);
        }
        let partial = self.phase(node, AggregateMode::Partial, input.plan)?;
        let keys = groups.as_final().input_exprs();
        let spreads = !few && may_shuffle(&keys, &partial.schema())?;
        let bytes = estimate(plan).bytes;
        let partial = Part { plan: partial, rows: Rows::Spread, exchanged: input.exchanged, bytes };
        let (met, mode) = match spreads {
            true => (self.shuffled(partial, keys)?, AggregateMode::FinalPartitioned),
            false => (self.gathered(partial)?, AggregateMode::Final),
        };
        let Part { plan, rows, exchanged, bytes } = met;
        Ok(Part { plan: self.phase(node, mode, plan)?, rows, exchanged, bytes })
    }

    /// One phase of `node`.
    fn phase(
        &self,
        node: &AggregateExec,
        mode: AggregateMode,
        input: Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let merges = matches!(mode, AggregateMode::Final | AggregateMode::FinalPartitioned);
        let groups = if merges { node.group_expr().as_final() } else { node.group_expr().clone() };
        let (calls, filters) = (node.aggr_expr().to_vec(), node.filter_expr().to_vec());
        Ok(Arc::new(AggregateExec::try_new(mode, groups, calls, filters, input, node.input_schema())?))
    }
}

/// Whether parts of a group can be aggregated separately, in any order. `total`: there is a single group.
fn has_phases(call: &AggregateFunctionExpr, total: bool) -> bool {
    let known = [
        "count",
        "sum",
        "min",
        "max",
        "avg",
        "stddev",
        "stddev_pop",
        "var",
        "var_pop",
        "bool_and",
        "bool_or",
        "any_value",
    ];
    known.contains(&call.fun().name()) && call.order_bys().is_empty() && (total || !call.is_distinct())
}
