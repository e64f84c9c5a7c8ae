//! A task's plan with programs in it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion_distributed::BroadcastExec;
use warpmill::WarpmillOptions;
use warpmill::offload::{Fallback, UnprovenSums, place_around};

use crate::task::{TaskExec, is_exchange};

/// Replaces parts of `plan`, the plan of a task or the part of a query that its own process runs, by programs that Warpmill runs, and returns what
/// remains for DataFusion; a [`TaskExec`] has programs already. The node at the root of a task that assigns a destination to each row stays: the
/// transport recreates it.
///
/// # Errors
/// [`warpmill::Error::Fallback`], if the settings refuse fallbacks.
pub(crate) fn accelerated(
    plan: Arc<dyn ExecutionPlan>,
    options: &WarpmillOptions,
) -> Result<(Arc<dyn ExecutionPlan>, Vec<Fallback>)> {
    if plan.is::<RepartitionExec>() || plan.is::<BroadcastExec>() {
        let (input, fallbacks) = accelerated(Arc::clone(plan.children()[0]), options)?;
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        return Ok((plan.replace_children(vec![input], options)?, fallbacks));
    }
    if let Some(task) = plan.downcast_ref::<TaskExec>() {
        return Ok((Arc::clone(task.plan()), vec![]));
    }
    // Rows of other processes come once: a program that reads them cannot be run again with wider sums.
    let sums = if reads_others(&plan)? { UnprovenSums::Wide } else { UnprovenSums::Narrow };
    let placement = place_around(plan, options, sums, &is_exchange)?;
    Ok((placement.plan, placement.fallbacks))
}

/// Whether rows of other tasks are read.
fn reads_others(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut reads = false;
    plan.apply(|node| {
        reads |= is_exchange(node);
        Ok(if reads { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(reads)
}
