//! Aggregations.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use super::{Cutter, Part, Rows, estimate, may_shuffle, over};

/// Groups that are few enough to meet in one place.
const FEW_GROUPS: f64 = 20_000.0;
/// Smallest average number of rows per group for which tasks aggregate before the shuffle.
const LEAST_ROWS: f64 = 3.0;

impl Cutter {
    /// Groups by a key that rows are spread by are whole. Otherwise, either tasks aggregate their rows, and the states are merged by group, or rows
    /// are shuffled by group first.
    pub(super) fn aggregate(&self, plan: &Arc<dyn ExecutionPlan>, node: &AggregateExec) -> Result<Part> {
        if !matches!(node.mode(), AggregateMode::Single | AggregateMode::SinglePartitioned) {
            return self.in_one_place(plan);
        }
        let input = self.part(node.input())?;
        if input.rows == Rows::Here {
            return over(plan, vec![input]);
        }
        let groups = node.group_expr();
        if !groups.has_grouping_set()
            && let Some(key) = input.key.as_ref().and_then(|key| key.of_columns(&grouped(node)))
        {
            let (sent, exchanged, bytes) = (input.sent, input.exchanged, estimate(plan).bytes);
            let plan = self.phase(node, AggregateMode::SinglePartitioned, input.plan)?;
            return Ok(Part { plan, rows: Rows::Spread, exchanged, bytes, sent, key: Some(key) });
        }
        let (before, after) = (estimate(node.input()).rows, estimate(plan).rows);
        let (few, in_phases) =
            (after <= FEW_GROUPS, node.aggr_expr().iter().all(|call| has_phases(call, groups.is_empty())));
        let counted = Groups::of(node);
        let alone = counted.deciding(&node.input().schema(), after).filter(|_| !groups.has_grouping_set());
        let keys: Vec<_> = groups.expr().iter().map(|(key, _)| Arc::clone(key)).collect();
        let keys = chosen(keys, alone);
        let by_rows = !groups.has_grouping_set() && may_shuffle(&keys, &input.plan.schema())?;
        if by_rows && (!in_phases || !few && counted.are_counted() && before < after * LEAST_ROWS) {
            let shuffled = self.shuffled(input, keys)?;
            let whole = self.phase(node, AggregateMode::SinglePartitioned, Arc::clone(&shuffled.plan))?;
            let key = shuffled.key.as_ref().and_then(|key| key.of_columns(&grouped(node)));
            return Ok(Part { plan: whole, bytes: estimate(plan).bytes, key, ..shuffled });
        }
        if !in_phases {
            return over(plan, vec![self.gathered(input)?]);
        }
        let partial = self.phase(node, AggregateMode::Partial, input.plan)?;
        let keys = chosen(groups.as_final().input_exprs(), alone);
        let spreads = !few && may_shuffle(&keys, &partial.schema())?;
        let bytes = estimate(plan).bytes;
        let (exchanged, sent) = (input.exchanged, input.sent);
        let partial = Part { plan: partial, rows: Rows::Spread, exchanged, bytes, sent, key: None };
        let (met, mode) = match spreads {
            true => (self.shuffled(partial, keys)?, AggregateMode::FinalPartitioned),
            false => (self.gathered(partial)?, AggregateMode::Final),
        };
        // Groups come first in the rows of both phases.
        let columns: Vec<_> = (0..groups.expr().len()).map(Some).collect();
        let key = met.key.as_ref().and_then(|key| key.of_columns(&columns));
        Ok(Part { plan: self.phase(node, mode, Arc::clone(&met.plan))?, key, ..met })
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

/// Key number `one`, or all of them.
fn chosen(keys: Vec<Arc<dyn PhysicalExpr>>, one: Option<usize>) -> Vec<Arc<dyn PhysicalExpr>> {
    one.map_or(keys.clone(), |at| vec![Arc::clone(&keys[at])])
}

/// The group columns, and their numbers of distinct values where these are known.
struct Groups {
    columns: Vec<Option<usize>>,
    distinct: Vec<Option<usize>>,
}

impl Groups {
    fn of(node: &AggregateExec) -> Self {
        let columns = grouped(node);
        let statistics = StatisticsContext::new().compute(node.input().as_ref(), &StatisticsArgs::new()).ok();
        let distinct = |column: &Option<usize>| {
            let column = statistics.as_ref()?.column_statistics.get((*column)?)?;
            column.distinct_count.get_value().copied()
        };
        let distinct = columns.iter().map(distinct).collect();
        Self { columns, distinct }
    }

    /// Whether an estimate of the number of groups has a base: expressions have few values more often than not.
    fn are_counted(&self) -> bool {
        self.distinct.iter().all(Option::is_some)
    }

    /// The group column that has nearly as many values as there are groups, so that rows can be shuffled by it alone: that takes less time, and is
    /// worth more to later operators. `None`: there is no such column, or only one.
    fn deciding(&self, schema: &Schema, groups: f64) -> Option<usize> {
        if self.columns.len() < 2 {
            return None;
        }
        let all = self.columns.iter().zip(&self.distinct).enumerate();
        let mut deciding = all.filter_map(|(at, (column, distinct))| {
            let decides = (*distinct)? as f64 * 2.0 >= groups;
            decides.then_some((at, (*column)?))
        });
        let first = deciding.clone().next();
        let integer = deciding.find(|(_, column)| schema.field(*column).data_type().is_integer());
        integer.or(first).map(|(at, _)| at)
    }
}

/// The input column that each group column is, if any.
pub(super) fn grouped(node: &AggregateExec) -> Vec<Option<usize>> {
    let groups = node.group_expr().expr().iter();
    groups.map(|(group, _)| group.downcast_ref::<Column>().map(Column::index)).collect()
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
