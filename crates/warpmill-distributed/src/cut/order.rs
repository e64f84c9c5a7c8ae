//! Sorts, limits and windows.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use super::{Cutter, Part, Rows, estimate, may_shuffle, over};

impl Cutter {
    /// Sorts rows in every task; a merge combines them.
    pub(super) fn sort(&self, plan: &Arc<dyn ExecutionPlan>, node: &SortExec) -> Result<Part> {
        let input = self.part(node.input())?;
        if input.rows == Rows::Here {
            return over(plan, vec![input]);
        }
        let (order, fetch) = (node.expr().clone(), node.fetch());
        let sorted = SortExec::new(order.clone(), input.plan).with_preserve_partitioning(true).with_fetch(fetch);
        let sorted = Part { plan: Arc::new(sorted), bytes: estimate(plan).bytes, ..input };
        let merged = SortPreservingMergeExec::new(order, self.streams(&sorted)?).with_fetch(fetch);
        let sent = sorted.sent + self.gathering(&sorted);
        Ok(Part { plan: Arc::new(merged), rows: Rows::Here, exchanged: true, sent, key: None, ..sorted })
    }

    pub(super) fn merge(&self, plan: &Arc<dyn ExecutionPlan>, node: &SortPreservingMergeExec) -> Result<Part> {
        let input = self.part(node.input())?;
        if input.rows == Rows::Here {
            return over(plan, vec![input]);
        }
        let merged = SortPreservingMergeExec::new(node.expr().clone(), self.streams(&input)?).with_fetch(node.fetch());
        let sent = input.sent + self.gathering(&input);
        Ok(Part { plan: Arc::new(merged), rows: Rows::Here, exchanged: true, sent, key: None, ..input })
    }

    /// Each task returns no more rows than the limit.
    pub(super) fn limit(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        input: &Arc<dyn ExecutionPlan>,
        (skip, fetch): (usize, Option<usize>),
    ) -> Result<Part> {
        let input = self.part(input)?;
        if input.rows == Rows::Here {
            return over(plan, vec![input]);
        }
        let input = match fetch.and_then(|fetch| fetch.checked_add(skip)) {
            Some(most) => Part { plan: Arc::new(LocalLimitExec::new(Arc::clone(&input.plan), most)), ..input },
            None => input,
        };
        let gathered = self.gathered(input)?;
        Ok(Part { plan: Arc::new(GlobalLimitExec::new(gathered.plan, skip, fetch)), ..gathered })
    }

    /// Window functions over one sort: partitions are complete within tasks if rows are shuffled by keys that all partitions share, or spread by one.
    pub(super) fn windows(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Part> {
        let (mut nodes, mut below) = (vec![Arc::clone(plan)], Arc::clone(plan.children()[0]));
        let mut keys = partition_keys(plan);
        while below.is::<WindowAggExec>() || below.is::<BoundedWindowAggExec>() {
            let own = partition_keys(&below);
            keys.retain(|key| own.iter().any(|other| other == key));
            nodes.push(Arc::clone(&below));
            let next = Arc::clone(below.children()[0]);
            below = next;
        }
        let Some(sort) = below.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()) else {
            return self.in_one_place(plan);
        };
        let input = self.part(sort.input())?;
        let spread = input.rows == Rows::Spread;
        let columns = keys.iter().filter_map(|by| by.downcast_ref::<Column>().map(Column::index));
        let columns: Vec<_> = columns.collect();
        let input = if input.key.as_ref().is_some_and(|key| key.is_within(&columns)) {
            input
        } else if spread && may_shuffle(&keys, &input.plan.schema())? {
            self.shuffled(input, keys)?
        } else {
            self.gathered(input)?
        };
        let Part { rows, exchanged, sent, key, .. } = input;
        let sorted = SortExec::new(sort.expr().clone(), input.plan).with_preserve_partitioning(true);
        let mut plan: Arc<dyn ExecutionPlan> = Arc::new(sorted);
        for node in nodes.into_iter().rev() {
            plan = node.replace_children(vec![plan], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))?;
        }
        let bytes = estimate(&plan).bytes;
        Ok(Part { plan, rows, exchanged, bytes, sent, key })
    }
}

/// The partition keys that all window functions of `plan` share; none for other nodes.
pub(super) fn partition_keys(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn PhysicalExpr>> {
    let windows = plan.downcast_ref::<WindowAggExec>().map(WindowAggExec::window_expr);
    let windows =
        windows.or_else(|| plan.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr));
    let Some([first, rest @ ..]) = windows else { return vec![] };
    let mut keys = first.partition_by().to_vec();
    keys.retain(|key| rest.iter().all(|other| other.partition_by().iter().any(|own| own == key)));
    keys
}
