//! A stage as one node.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements, PlanProperties,
};
use warpmill_distributed::stages::TaskInput;

use super::PartsExec;

/// The part of an input that a task reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum InputKind {
    /// A leaf as a whole.
    Whole = 0,
    /// Its part of a leaf.
    Part = 1,
    /// Its partition of shuffled rows.
    Shuffled = 2,
    /// All rows, in one partition.
    All = 3,
    /// All rows, with a partition for each task that made them.
    Gathered = 4,
}

impl InputKind {
    /// Whether the tasks of a stage read different rows of the input.
    fn is_spread(self) -> bool {
        matches!(self, Self::Part | Self::Shuffled)
    }
}

/// The tasks of a stage, one for each partition.
#[derive(Debug)]
pub(crate) struct TaskExec {
    task: Arc<[u8]>,
    kinds: Vec<InputKind>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl TaskExec {
    pub fn new(task: Arc<[u8]>, schema: SchemaRef, kinds: Vec<InputKind>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Self {
        let spread = kinds.iter().zip(&inputs).find(|(kind, _)| kind.is_spread());
        let tasks = spread.map_or(1, |(_, input)| input.output_partitioning().partition_count());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(tasks),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { task, kinds, inputs, properties: Arc::new(properties) }
    }

    /// The plan of the tasks, apart from their inputs.
    pub fn task(&self) -> &[u8] {
        &self.task
    }

    pub fn kinds(&self) -> &[InputKind] {
        &self.kinds
    }

    /// The inputs of the only task that the plan is for.
    pub fn task_inputs(&self) -> Result<Vec<TaskInput>> {
        let input = |(kind, input): (&InputKind, &Arc<dyn ExecutionPlan>)| match kind {
            InputKind::Whole => Ok(TaskInput::Leaf(Arc::clone(input))),
            InputKind::Part => match input.downcast_ref::<PartsExec>() {
                Some(parts) => Ok(TaskInput::Leaf(parts.part()?)),
                None => internal_err!("{} is no part of a table", input.name()),
            },
            InputKind::All | InputKind::Shuffled => Ok(TaskInput::Rows(Arc::clone(input))),
            InputKind::Gathered => {
                let coalesced = input.downcast_ref::<CoalescePartitionsExec>();
                Ok(TaskInput::Rows(Arc::clone(coalesced.map_or(input, |node| node.input()))))
            }
        };
        self.kinds.iter().zip(&self.inputs).map(input).collect()
    }
}

impl DisplayAs for TaskExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskExec: {:?}", self.kinds)
    }
}

impl ExecutionPlan for TaskExec {
    fn name(&self) -> &str {
        "TaskExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    /// Ballista gives a task all rows of an input that has to have a single partition.
    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let required = |kind: &InputKind| match kind.is_spread() {
            true => Distribution::UnspecifiedDistribution,
            false => Distribution::SinglePartition,
        };
        InputDistributionRequirements::new(self.kinds.iter().map(required).collect())
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.inputs.len()]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != self.inputs.len() {
            return internal_err!("a task of {} inputs got {}", self.inputs.len(), children.len());
        }
        Ok(Arc::new(Self::new(Arc::clone(&self.task), self.schema(), self.kinds.clone(), children)))
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
        internal_err!("a task is run by an executor's engine")
    }
}
