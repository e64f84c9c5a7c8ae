//! Plans of tasks that are serialized once, and translated once.
//!
//! The plan of a stage is the same for each of its tasks and for each run of a query, except its *inputs*: scans, of which each task reads a part,
//! and exchanges, which belong to a run. [`TaskExec`] separates the two. The query's process serializes a plan once and sends the same bytes with
//! each run; a worker that has seen them uses its cached programs ([`KeptTasks`]).

mod codec;
mod exchange;
mod functions;
mod kept;

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_distributed::{BroadcastExec, DistributedLeafExec, NetworkBoundaryExt, Stage};
use uuid::Uuid;
use warpmill_translate::scan_exec::WarpmillScanExec;

pub(crate) use codec::{TaskCodec, decode_apart};
pub(crate) use exchange::{ExchangeExec, is_exchange};
pub(crate) use functions::is_known;
pub(crate) use kept::KeptTasks;

/// The plan of a stage's tasks, below the node that assigns a destination to each row.
#[derive(Debug)]
pub(crate) struct TaskExec {
    /// In the asking process the plan with an [`InputExec`] for each input; in a worker the plan that runs.
    plan: Arc<dyn ExecutionPlan>,
    /// The plan with numbers for its inputs.
    bytes: Arc<[u8]>,
    /// The scans and exchanges that it reads.
    inputs: Vec<Arc<dyn ExecutionPlan>>,
}

impl TaskExec {
    /// Separates `plan` from its inputs; `None` if it differs between tasks in another part.
    ///
    /// # Errors
    /// Nodes and functions that cannot be encoded.
    pub fn of_stage(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let (mut inputs, mut whole) = (vec![], true);
        let apart = Arc::clone(plan).transform_down(|node| {
            // The library's node for unions has different inputs in each task.
            whole &= node.name() != "ChildrenIsolatorUnionExec";
            if !is_input(&node) {
                return Ok(Transformed::no(node));
            }
            let place = InputExec { number: inputs.len(), input: Arc::clone(&node) };
            inputs.push(node);
            Ok(Transformed::new(Arc::new(place) as Arc<dyn ExecutionPlan>, true, TreeNodeRecursion::Jump))
        })?;
        if !whole {
            return Ok(None);
        }
        let bytes = codec::encode_apart(Arc::clone(&apart.data))?.into();
        Ok(Some(Self { plan: apart.data, bytes, inputs }))
    }

    /// The plan with numbers for its inputs.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// The scans and exchanges that it reads.
    pub fn inputs(&self) -> &[Arc<dyn ExecutionPlan>] {
        &self.inputs
    }

    /// The plan that a worker runs.
    pub fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }
}

/// Whether `node` is an input of a task's plan.
fn is_input(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is_network_boundary() || node.is::<DistributedLeafExec>() || node.is::<WarpmillScanExec>()
}

/// Wraps the plan of each stage below `head`, the part of a query that its own process runs, in a [`TaskExec`].
///
/// # Errors
/// The errors of [`TaskExec::of_stage`].
pub(crate) fn with_tasks(head: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    with_stages(head, &mut |StageParts { plan, .. }| {
        let spreads = plan.is::<RepartitionExec>() || plan.is::<BroadcastExec>();
        let below = if spreads { plan.children()[0] } else { &*plan };
        let Some(task) = TaskExec::of_stage(below)? else { return Ok(()) };
        let task: Arc<dyn ExecutionPlan> = Arc::new(task);
        *plan = if spreads {
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Arc::clone(plan).replace_children(vec![task], options)?
        } else {
            task
        };
        Ok(())
    })
}

/// Whether a stage's plan is a [`TaskExec`], below the node that assigns a destination to each row.
pub(crate) fn is_task(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let spreads = plan.is::<RepartitionExec>() || plan.is::<BroadcastExec>();
    let below = if spreads { plan.children()[0] } else { plan };
    below.is::<TaskExec>()
}

/// `head` for one run: marks the stages below it with `query`.
///
/// # Errors
/// A plan whose stages have been sent already.
pub(crate) fn for_query(head: Arc<dyn ExecutionPlan>, query: Uuid) -> Result<Arc<dyn ExecutionPlan>> {
    with_stages(head, &mut |stage| {
        *stage.query = query;
        Ok(())
    })
}

/// Numbers the stages below `head`, inner ones first.
///
/// # Errors
/// A plan whose stages have been sent already.
pub(crate) fn numbered(head: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut count = 0;
    with_stages(head, &mut |stage| {
        count += 1;
        *stage.number = count;
        Ok(())
    })
}

/// The parts of a stage that are changed.
struct StageParts<'a> {
    plan: &'a mut Arc<dyn ExecutionPlan>,
    query: &'a mut Uuid,
    number: &'a mut usize,
}

/// Changes a stage.
type Change<'a> = dyn FnMut(StageParts<'_>) -> Result<()> + 'a;

/// Applies `change` to each stage below `head`, inner stages first.
fn with_stages(head: Arc<dyn ExecutionPlan>, change: &mut Change<'_>) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = head.transform_up(|node| {
        let Some(boundary) = node.as_network_boundary() else { return Ok(Transformed::no(node)) };
        let Stage::Local(stage) = boundary.input_stage() else {
            return internal_err!("a stage that has been sent already");
        };
        let mut stage = stage.clone();
        change(StageParts { plan: &mut stage.plan, query: &mut stage.query_id, number: &mut stage.num })?;
        let changed: Arc<dyn ExecutionPlan> = boundary.with_input_stage(Stage::Local(stage))?;
        Ok(Transformed::yes(changed))
    })?;
    Ok(changed.data)
}

impl DisplayAs for TaskExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskExec")
    }
}

impl ExecutionPlan for TaskExec {
    fn name(&self) -> &str {
        "TaskExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != self.inputs.len() {
            return internal_err!("a task of {} inputs got {}", self.inputs.len(), children.len());
        }
        Ok(Arc::new(Self { plan: Arc::clone(&self.plan), bytes: Arc::clone(&self.bytes), inputs: children }))
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

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("a task is run by a worker")
    }
}

/// Placeholder for an input in a task's plan.
#[derive(Debug)]
struct InputExec {
    number: usize,
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for InputExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InputExec: {}", self.number)
    }
}

impl ExecutionPlan for InputExec {
    fn name(&self) -> &str {
        "InputExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("the place of an input has no rows")
    }
}
