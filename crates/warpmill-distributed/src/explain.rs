//! Stages as texts.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion_distributed::{
    DistributedLeafExec, NetworkBoundaryExt, NetworkBroadcastExec, NetworkShuffleExec, Stage,
};
use warpmill::WarpmillOptions;
use warpmill::offload::Fallback;
use warpmill_translate::scan_exec::WarpmillScanExec;

use crate::stage::accelerated;

/// The stages below `head`, the part of a plan that the query's own process runs, and the parts that DataFusion runs in them.
pub(crate) fn stages(
    head: &Arc<dyn ExecutionPlan>,
    workers: &[String],
    options: &WarpmillOptions,
) -> Result<(String, Vec<Fallback>)> {
    let (mut text, mut fallbacks) = (format!("workers: {}\n", workers.join(", ")), vec![]);
    below(head, &mut |boundary, stage, plan| {
        let tasks = stage.task_count();
        let places = if tasks == workers.len() { format!(" on {}", workers.join(", ")) } else { " on a worker".into() };
        let count = if tasks == 1 { "1 task".to_string() } else { format!("{tasks} tasks") };
        let _ = writeln!(text, "stage {}: {count}{places}; {}", stage.num(), exchange(boundary, plan));
        for line in splits(plan)? {
            let _ = writeln!(text, "  {line}");
        }
        let (placed, own) = accelerated(of_first_task(plan)?, options)?;
        lines(&placed, 1, &mut text);
        fallbacks.extend(own);
        Ok(())
    })?;
    Ok((text, fallbacks))
}

/// `head` as the stage of one worker, which has the result.
pub(crate) fn last(head: &Arc<dyn ExecutionPlan>, options: &WarpmillOptions) -> Result<(String, Vec<Fallback>)> {
    let mut text = "last stage: 1 task on a worker\n".to_string();
    let (placed, fallbacks) = accelerated(Arc::clone(head), options)?;
    lines(&placed, 1, &mut text);
    Ok((text, fallbacks))
}

/// Called with an exchange, its stage, and the plan of that stage.
type Visit<'a> = dyn FnMut(&Arc<dyn ExecutionPlan>, &Stage, &Arc<dyn ExecutionPlan>) -> Result<()> + 'a;

/// Calls `visit` for each exchange at or below `plan`, with the stage that feeds it, in reverse order.
fn below(plan: &Arc<dyn ExecutionPlan>, visit: &mut Visit<'_>) -> Result<()> {
    if let Some(boundary) = plan.as_network_boundary() {
        let stage = boundary.input_stage();
        if let Some(input) = stage.local_plan() {
            visit(plan, stage, input)?;
        }
    }
    plan.children().into_iter().try_for_each(|child| below(child, visit))
}

/// How the rows of a stage are sent.
fn exchange(boundary: &Arc<dyn ExecutionPlan>, plan: &Arc<dyn ExecutionPlan>) -> String {
    if boundary.is::<NetworkShuffleExec>() {
        let head = displayable(plan.as_ref()).one_line().to_string();
        let keys =
            head.split_once("Hash(").and_then(|(_, rest)| rest.split_once(']')).map(|(keys, _)| format!("{keys}]"));
        return format!("shuffled by {}", keys.unwrap_or_default());
    }
    if boundary.is::<NetworkBroadcastExec>() { "sent to all tasks".into() } else { "gathered".into() }
}

/// The row segments that each task reads.
fn splits(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<String>> {
    let mut found = vec![];
    within(plan, &mut |node| {
        let Some(leaf) = node.downcast_ref::<DistributedLeafExec>() else { return };
        let part = |variant: &Arc<dyn ExecutionPlan>| {
            let scan = variant.downcast_ref::<WarpmillScanExec>()?;
            let rows = &scan.part()?.rows;
            let key = rows.keys.as_ref().map(|keys| format!(" by {}", scan.schema().field(keys.column).name()));
            let table = format!("{}{}", scan.table_name(), key.unwrap_or_default());
            Some((table, format!("{}..{}", rows.segments.start, rows.segments.end)))
        };
        let parts: Vec<_> = leaf.variants().iter().filter_map(part).collect();
        if let Some((table, _)) = parts.first() {
            let segments: Vec<_> = parts.iter().map(|(_, segments)| segments.as_str()).collect();
            found.push(format!("{table}: segments {}", segments.join(", ")));
        }
    });
    Ok(found)
}

/// Calls `visit` for the nodes of one stage.
fn within(plan: &Arc<dyn ExecutionPlan>, visit: &mut dyn FnMut(&Arc<dyn ExecutionPlan>)) {
    visit(plan);
    if !plan.is_network_boundary() {
        plan.children().into_iter().for_each(|child| within(child, visit));
    }
}

/// The plan of a stage's first task.
pub(crate) fn of_first_task(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let first = |node: Arc<dyn ExecutionPlan>| match node.downcast_ref::<DistributedLeafExec>() {
        Some(leaf) => Ok(Transformed::yes(Arc::clone(&leaf.variants()[0]))),
        None => Ok(Transformed::no(node)),
    };
    Ok(Arc::clone(plan).transform_up(first)?.data)
}

/// The nodes of one stage; exchanges are its leaves.
fn lines(plan: &Arc<dyn ExecutionPlan>, depth: usize, text: &mut String) {
    let line = displayable(plan.as_ref()).one_line().to_string();
    let _ = writeln!(text, "{}{}", "  ".repeat(depth), line.trim_end());
    if !plan.is_network_boundary() {
        plan.children().into_iter().for_each(|child| lines(child, depth + 1, text));
    }
}
