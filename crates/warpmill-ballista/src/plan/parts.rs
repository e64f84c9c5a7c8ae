//! A leaf that differs between the tasks of a stage.

use std::fmt;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use datafusion::catalog::memory::{DataSourceExec, MemorySourceConfig};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_datafusion_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};

/// The leaves of all tasks over the numbers of those that are run. A plan that is sent to a task has one partition: its number.
#[derive(Debug)]
pub(crate) struct PartsExec {
    numbers: Arc<dyn ExecutionPlan>,
    parts: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl PartsExec {
    /// `parts` must not be empty.
    pub fn new(numbers: Arc<dyn ExecutionPlan>, parts: Vec<Arc<dyn ExecutionPlan>>) -> Self {
        let partitioning = Partitioning::UnknownPartitioning(numbers.output_partitioning().partition_count());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(parts[0].schema()),
            partitioning,
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { numbers, parts, properties: Arc::new(properties) }
    }

    /// The leaves of all tasks.
    pub fn parts(&self) -> &[Arc<dyn ExecutionPlan>] {
        &self.parts
    }

    /// The leaf of the only task that the plan is for.
    pub fn part(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let source = self.numbers.downcast_ref::<DataSourceExec>();
        let source: Option<&dyn std::any::Any> = source.map(|source| source.data_source().as_ref() as _);
        let source = source.and_then(|source| source.downcast_ref::<MemorySourceConfig>());
        let [partition] = source.map(MemorySourceConfig::partitions).unwrap_or_default() else {
            return internal_err!("a task has one part of a table");
        };
        let number = partition.iter().find_map(|batch| {
            let numbers = batch.column(0).as_primitive_opt::<UInt64Type>()?;
            (!numbers.is_empty()).then(|| numbers.value(0))
        });
        let part = number.and_then(|number| self.parts.get(usize::try_from(number).ok()?));
        part.cloned().ok_or_else(|| internal_datafusion_err!("a task without a part of a table"))
    }
}

impl DisplayAs for PartsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartsExec: {} parts", self.parts.len())
    }
}

impl ExecutionPlan for PartsExec {
    fn name(&self) -> &str {
        "PartsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.numbers]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(numbers), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("PartsExec has one input");
        };
        Ok(Arc::new(Self::new(numbers, self.parts.clone())))
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
        internal_err!("parts of tables are read by tasks")
    }
}
