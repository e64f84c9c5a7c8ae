//! The physical node: the first of its copies in a run computes the rows, the others read them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, execute_stream,
};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::offload::QueryHandle;

/// The computed rows of a run's nodes, by node number.
#[derive(Debug, Default)]
pub(crate) struct Results(Mutex<HashMap<u64, Arc<OnceCell<Rows>>>>);

/// Rows, and their memory reservation.
#[derive(Debug)]
struct Rows {
    batches: Vec<RecordBatch>,
    _memory: MemoryReservation,
}

impl Results {
    fn of(&self, number: u64) -> Arc<OnceCell<Rows>> {
        Arc::clone(self.0.lock().entry(number).or_default())
    }

    /// Forgets the rows of a node: its next reader computes them again.
    pub(crate) fn forget(&self, number: u64) {
        self.0.lock().remove(&number);
    }
}

/// Rows that are computed once in a run.
#[derive(Debug)]
pub(crate) struct OnceExec {
    input: Arc<dyn ExecutionPlan>,
    number: u64,
    properties: Arc<PlanProperties>,
}

impl OnceExec {
    /// The node of this number over `input`.
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, number: u64) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { input, number, properties: Arc::new(properties) }
    }

    /// The number that all copies have.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    fn with_children(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(Self::new(input, self.number))),
            Err(_) => internal_err!("OnceExec has one child"),
        }
    }
}

async fn computed(input: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Rows> {
    let memory = MemoryConsumer::new("OnceExec").register(context.memory_pool());
    let mut rows = execute_stream(input, context)?;
    let mut batches = vec![];
    while let Some(batch) = rows.try_next().await? {
        memory.try_grow(batch.get_array_memory_size())?;
        batches.push(batch);
    }
    Ok(Rows { batches, _memory: memory })
}

impl DisplayAs for OnceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OnceExec: number={}", self.number)
    }
}

impl ExecutionPlan for OnceExec {
    fn name(&self) -> &str {
        "OnceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.with_children(children)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.with_children(children)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(handle) = context.session_config().get_extension::<QueryHandle>() else {
            return internal_err!("OnceExec needs the handle of its run");
        };
        let (input, cell) = (Arc::clone(&self.input), handle.once.of(self.number));
        let rows = async move {
            let rows = cell.get_or_try_init(|| computed(input, context)).await?;
            Ok::<_, datafusion::common::DataFusionError>(futures::stream::iter(rows.batches.clone()).map(Ok))
        };
        let rows = futures::stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
