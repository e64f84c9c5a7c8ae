//! Whether workers understand a plan.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, SlidingAggregateWindowExpr, WindowExpr};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion_distributed::{DistributedCodec, DistributedExt, NetworkBoundaryExt};
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_proto_converter, physical_plan_to_bytes_with_proto_converter,
};
use datafusion_proto::physical_plan::DeduplicatingProtoConverter;
use warpmill_translate::kept;

use crate::explain::of_first_task;
use crate::task::{TaskCodec, is_known, is_task, with_tasks};

/// The functions that every process has.
pub(crate) static FUNCTIONS: LazyLock<SessionState> = LazyLock::new(|| {
    let session = warpmill::distribution::common_session().expect("a session without settings");
    session.context().state()
});

/// Aggregate functions of all processes that stand for one of DataFusion's with arguments of some types, by names of their own.
pub(crate) static AGGREGATES_OF_TYPES: LazyLock<Vec<(String, Arc<AggregateUDF>)>> =
    LazyLock::new(warpmill::distribution::aggregates_of_types);

/// Prepares `head`, the part of a query that this process runs, with the stages below it in their serialized form; returns the reason if a stage can
/// run in this process only.
pub(super) fn sendable(head: Arc<dyn ExecutionPlan>) -> Result<Result<Arc<dyn ExecutionPlan>, String>> {
    let before = stages(&head)?;
    let sent = match with_tasks(head) {
        Ok(sent) => sent,
        Err(error) => return Ok(Err(error.strip_backtrace())),
    };
    let tasks = are_tasks(&sent)?;
    for (plan, stage) in before.iter().zip(stages(&sent)?) {
        if let Some(function) = own_function(&of_first_task(plan)?, tasks)? {
            return Ok(Err(format!("function {function} is defined in this session only: workers do not have it")));
        }
        if let Err(error) = there_and_back(of_first_task(&stage)?) {
            return Ok(Err(error.strip_backtrace()));
        }
    }
    Ok(Ok(sent))
}

/// The plans of the stages that `head` reads, directly or indirectly.
fn stages(head: &Arc<dyn ExecutionPlan>) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
    let mut stages = vec![];
    head.apply(|node| {
        let Some(boundary) = node.as_network_boundary() else { return Ok(TreeNodeRecursion::Continue) };
        stages.extend(boundary.input_stage().local_plan().cloned());
        Ok(TreeNodeRecursion::Jump)
    })?;
    Ok(stages)
}

/// Whether all stages below `head` are sent as tasks, those within others too: only these have names for functions of types.
fn are_tasks(head: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut all = true;
    head.apply(|node| {
        if let Some(boundary) = node.as_network_boundary() {
            all &= boundary.input_stage().local_plan().is_some_and(is_task);
        }
        Ok(if all { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(all)
}

fn there_and_back(stage: Arc<dyn ExecutionPlan>) -> Result<()> {
    let mut config = FUNCTIONS.config().clone();
    config.set_distributed_user_codec(TaskCodec::Asking);
    let codec = DistributedCodec::new_combined_with_user(&config);
    let context = TaskContext::from(&*FUNCTIONS).with_session_config(config);
    let converter = DeduplicatingProtoConverter::default();
    let bytes = physical_plan_to_bytes_with_proto_converter(stage, &codec, &converter)?;
    let converter = DeduplicatingProtoConverter::default();
    physical_plan_from_bytes_with_proto_converter(&bytes, &context, &codec, &converter).map(drop)
}

/// A function of `plan` whose name means a different function on workers; `tasks`: whether functions of types have names of their own in it.
pub(crate) fn own_function(plan: &Arc<dyn ExecutionPlan>, tasks: bool) -> Result<Option<String>> {
    let (mut seen, mut found) = (HashSet::new(), None);
    plan.apply(|node| {
        for function in aggregates(node) {
            let is_of_type = || AGGREGATES_OF_TYPES.iter().any(|(_, known)| **known == *function);
            if !(is_common(function)? || tasks && is_of_type()) {
                found.get_or_insert_with(|| function.name().to_string());
            }
        }
        node.apply_expressions(&mut |expr| {
            expr.apply(|part| {
                if let Some(name) = own_in(part, &mut seen) {
                    found.get_or_insert(name);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Whether all processes have an aggregate function by its name. A plan says of some that their rows come in order; without that, they sort them.
fn is_common(function: &AggregateUDF) -> Result<bool> {
    let Some(known) = FUNCTIONS.aggregate_functions().get(function.name()) else { return Ok(false) };
    let ordered = || AggregateUDF::clone(known).with_beneficial_ordering(true);
    Ok(**known == *function || ordered()?.is_some_and(|ordered| ordered == *function))
}

/// The aggregate functions that a node calls, in windows too.
fn aggregates(node: &Arc<dyn ExecutionPlan>) -> Vec<&AggregateUDF> {
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return aggregate.aggr_expr().iter().map(|call| call.fun()).collect();
    }
    let windows = node.downcast_ref::<WindowAggExec>().map(WindowAggExec::window_expr);
    let windows =
        windows.or_else(|| node.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr));
    windows.unwrap_or_default().iter().filter_map(aggregate).map(|call| call.fun()).collect()
}

/// The aggregation of a window, if it is one.
fn aggregate(window: &Arc<dyn WindowExpr>) -> Option<&AggregateFunctionExpr> {
    let window = window.as_any();
    let plain = window.downcast_ref::<PlainAggregateWindowExpr>().map(PlainAggregateWindowExpr::get_aggregate_expr);
    let sliding = || window.downcast_ref::<SlidingAggregateWindowExpr>();
    plain.or_else(|| sliding().map(SlidingAggregateWindowExpr::get_aggregate_expr))
}

fn own_in(expr: &Arc<dyn PhysicalExpr>, seen: &mut HashSet<usize>) -> Option<String> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    if call.fun().name() == kept::NAME || !seen.insert(std::ptr::from_ref(call).addr()) {
        return None;
    }
    (!is_known(call.fun())).then(|| call.fun().name().to_string())
}
