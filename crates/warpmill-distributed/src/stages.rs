//! Stages for engines that send tasks and rows themselves, such as Ballista.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, internal_datafusion_err};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{
    DistributedLeafExec, NetworkBoundaryExt, NetworkBroadcastExec, NetworkShuffleExec, Stage as Local,
};
use warpmill::offload::Fallback;
use warpmill::{FallbackMode, WarpmillOptions};

use crate::cluster::{FUNCTIONS, own_function};
use crate::explain::{self, of_first_task};
use crate::task::{ExchangeExec, KeptTasks, TaskExec, decode_apart, numbered};

/// A part of a query between exchanges.
#[derive(Debug)]
pub struct Stage {
    /// The plan of each task, apart from its inputs.
    pub task: Arc<[u8]>,
    /// The columns of its rows.
    pub schema: SchemaRef,
    /// Whether its rows are spread over the tasks, else all are in one.
    pub spread: bool,
    /// The inputs of its tasks, in the order of [`TaskPlans::plan`].
    pub inputs: Vec<Input>,
}

/// An input of the tasks of a stage.
#[derive(Debug)]
pub enum Input {
    /// A leaf for each task.
    Parts(Vec<Arc<dyn ExecutionPlan>>),
    /// A leaf that each task reads as a whole.
    Whole(Arc<dyn ExecutionPlan>),
    /// The rows of another stage.
    Rows(Box<Stage>, Exchange),
}

/// How the rows of a stage reach the tasks of another.
#[derive(Debug)]
pub enum Exchange {
    /// Each task's rows are a partition of the only task of the next stage.
    Gather,
    /// All rows reach all tasks, as one partition.
    Broadcast,
    /// Rows of equal keys reach one task.
    Shuffle(Vec<Arc<dyn PhysicalExpr>>),
}

/// A query in stages.
#[derive(Debug)]
pub struct Stages {
    /// The last one, whose rows are the result.
    pub last: Stage,
    /// The operators that DataFusion runs, where they are asked for.
    pub fallbacks: Vec<Fallback>,
    /// The stages for EXPLAIN, where it is asked for.
    pub text: String,
}

/// Cuts `plan`, a physical plan without partitions, for `tasks` tasks; the reason if the query has to run in one process. `explains`: with a text for
/// EXPLAIN, for which each stage is translated.
///
/// # Errors
/// Errors of DataFusion in making plan nodes; [`warpmill::Error::Fallback`], if the settings refuse fallbacks.
pub fn stages(
    plan: &Arc<dyn ExecutionPlan>,
    tasks: &[String],
    options: &WarpmillOptions,
    explains: bool,
) -> Result<Result<Stages, String>> {
    let head = match crate::cut::cut(plan, tasks.len()) {
        Ok(Some(head)) => numbered(head)?,
        Ok(None) => return Ok(Err("no table of it has several row segments".into())),
        Err(DataFusionError::NotImplemented(reason)) => return Ok(Err(reason)),
        Err(error) => return Err(error),
    };
    if let Some(function) = own_function(&of_first_task(&head)?, true)? {
        return Ok(Err(format!("function {function} is defined in this session only: executors do not have it")));
    }
    let last = match stage(&head, false) {
        Ok(last) => last,
        Err(error) => return Ok(Err(error.strip_backtrace())),
    };
    if !explains && options.fallback != FallbackMode::Error {
        return Ok(Ok(Stages { last, fallbacks: vec![], text: String::new() }));
    }
    let (mut text, mut fallbacks) = explain::stages(&head, tasks, options)?;
    let (last_text, own) = explain::last(&head, options)?;
    text.push_str(&last_text);
    fallbacks.extend(own);
    Ok(Ok(Stages { last, fallbacks, text }))
}

/// The context in which tasks are decoded: it has the functions of all processes.
static CONTEXT: LazyLock<TaskContext> = LazyLock::new(|| TaskContext::from(&*FUNCTIONS));

fn stage(plan: &Arc<dyn ExecutionPlan>, spread: bool) -> Result<Stage> {
    let task = TaskExec::of_stage(plan)?.ok_or_else(|| exec_datafusion_err!("tasks of a stage differ"))?;
    // A task that another process could not read is found before it is sent.
    decode_apart(task.bytes(), task.inputs(), &CONTEXT)?;
    let inputs = task.inputs().iter().map(input).collect::<Result<Vec<_>>>()?;
    let is_spread = |input: &Input| matches!(input, Input::Parts(_) | Input::Rows(_, Exchange::Shuffle(_)));
    if spread && !inputs.iter().any(is_spread) {
        return Err(exec_datafusion_err!("no input of a stage is spread"));
    }
    Ok(Stage { task: Arc::clone(task.bytes()), schema: plan.schema(), spread, inputs })
}

fn input(node: &Arc<dyn ExecutionPlan>) -> Result<Input> {
    if let Some(leaf) = node.downcast_ref::<DistributedLeafExec>() {
        return Ok(Input::Parts(leaf.variants().to_vec()));
    }
    let Some(boundary) = node.as_network_boundary() else { return Ok(Input::Whole(Arc::clone(node))) };
    let Local::Local(local) = boundary.input_stage() else {
        return Err(internal_datafusion_err!("a stage that has been sent already"));
    };
    let spread = local.tasks > 1;
    if node.is::<NetworkShuffleExec>() {
        let by_key = local.plan.downcast_ref::<RepartitionExec>().map(|node| (node.input(), node.partitioning()));
        let Some((below, Partitioning::Hash(keys, _))) = by_key else {
            return Err(internal_datafusion_err!("a shuffle without keys"));
        };
        return Ok(Input::Rows(Box::new(stage(below, spread)?), Exchange::Shuffle(keys.clone())));
    }
    if node.is::<NetworkBroadcastExec>() {
        return Ok(Input::Rows(Box::new(stage(local.plan.children()[0], spread)?), Exchange::Broadcast));
    }
    Ok(Input::Rows(Box::new(stage(&local.plan, spread)?), Exchange::Gather))
}

/// Plans of tasks with programs, which are made once.
#[derive(Debug, Default)]
pub struct TaskPlans(KeptTasks);

impl TaskPlans {
    /// The plan of a task: `task` over `inputs`, those of [`Stage::inputs`] in their order; its only partition is the result.
    ///
    /// # Errors
    /// Bytes that are not a plan; [`warpmill::Error::Fallback`], if the settings refuse fallbacks.
    pub fn plan(&self, task: &[u8], inputs: Vec<TaskInput>, config: &SessionConfig) -> Result<Arc<dyn ExecutionPlan>> {
        let context = TaskContext::from(&*FUNCTIONS).with_session_config(config.clone());
        let nodes = inputs.into_iter().map(|input| match input {
            TaskInput::Leaf(leaf) => leaf,
            TaskInput::Rows(rows) => Arc::new(ExchangeExec::new(rows)),
        });
        self.0.plan(task, &nodes.collect::<Vec<_>>(), &context)
    }
}

/// An input of one task.
#[derive(Debug)]
pub enum TaskInput {
    /// A scan, as it was sent.
    Leaf(Arc<dyn ExecutionPlan>),
    /// Rows of other tasks.
    Rows(Arc<dyn ExecutionPlan>),
}

/// A session with the functions that all processes have.
pub fn functions() -> &'static SessionState {
    &FUNCTIONS
}
