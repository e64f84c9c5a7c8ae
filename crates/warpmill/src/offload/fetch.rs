//! Fetches columns of a table for rows identified by their row numbers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::interleave;
use arrow::datatypes::{Int64Type, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, SendableRecordBatchStream,
};
use futures::StreamExt;
use parking_lot::Mutex;
use warpmill_format::TableSnapshot;

use crate::Error;

/// The origin of a column of a [`FetchExec`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Origin {
    /// A column of the input.
    Input(usize),
    /// A column of the table.
    Table(usize),
}

/// The rows of its input, extended by columns of the table rows that their numbers identify.
pub(super) struct FetchExec {
    input: Arc<dyn ExecutionPlan>,
    columns: Arc<Columns>,
    /// The table's name in plans.
    name: String,
    properties: Arc<PlanProperties>,
}

/// The columns of the result.
struct Columns {
    schema: SchemaRef,
    outputs: Vec<Origin>,
    /// The column of the input with row numbers.
    numbers: usize,
    table: Arc<TableSnapshot>,
    /// The first row of each row segment, and the total number of rows.
    starts: Vec<u64>,
    /// The columns of row segments that were decoded last, newest first.
    decoded: Mutex<VecDeque<Decoded>>,
}

/// A column of a row segment.
struct Decoded {
    segment: usize,
    column: usize,
    values: ArrayRef,
}

/// Decoded columns of row segments that are cached: neighbouring rows are in the same segments.
const MOST_DECODED: usize = 8;

impl FetchExec {
    /// The rows of `input`, whose column `numbers` holds row numbers of `table`, with columns `outputs`.
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        outputs: Vec<Origin>,
        numbers: usize,
        table: Arc<TableSnapshot>,
        name: String,
    ) -> Self {
        let mut starts = vec![0];
        for segment in 0..table.num_segments() {
            starts.push(starts[segment] + table.segment_rows(segment) as u64);
        }
        let decoded = Mutex::default();
        let columns = Arc::new(Columns { schema, outputs, numbers, table, starts, decoded });
        Self::of(input, columns, name)
    }

    fn of(input: Arc<dyn ExecutionPlan>, columns: Arc<Columns>, name: String) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&columns.schema)),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self { input, columns, name, properties: Arc::new(properties) }
    }
}

impl fmt::Debug for FetchExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchExec").field("name", &self.name).finish_non_exhaustive()
    }
}

impl DisplayAs for FetchExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Columns { schema, outputs, .. } = &*self.columns;
        let fetched = schema.fields().iter().zip(outputs).filter(|(_, origin)| matches!(origin, Origin::Table(_)));
        let names: Vec<&str> = fetched.map(|(field, _)| field.name().as_str()).collect();
        write!(f, "FetchExec: table={}, columns=[{}]", self.name, names.join(", "))
    }
}

impl ExecutionPlan for FetchExec {
    fn name(&self) -> &str {
        "FetchExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(Self::of(input, Arc::clone(&self.columns), self.name.clone()))),
            Err(children) => internal_err!("{} inputs of FetchExec", children.len()),
        }
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

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let columns = Arc::clone(&self.columns);
        let batches = input.then(move |batch| {
            let columns = Arc::clone(&columns);
            async move {
                let batch = batch?;
                let task = SpawnedTask::spawn_blocking(move || columns.of(&batch));
                task.join().await.map_err(|error| DataFusionError::External(error.into()))?
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.columns.schema), batches)))
    }
}

impl Columns {
    /// The columns for the rows of `batch`.
    fn of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let numbers = batch.column(self.numbers).as_primitive::<Int64Type>();
        let (mut segments, mut places) = (vec![], Vec::with_capacity(numbers.len()));
        for &number in numbers.values() {
            let segment = self.starts.partition_point(|&start| start <= number as u64) - 1;
            let at = match segments.iter().rposition(|&known| known == segment) {
                Some(at) => at,
                None => {
                    segments.push(segment);
                    segments.len() - 1
                }
            };
            places.push((at, (number as u64 - self.starts[segment]) as usize));
        }
        let columns = self.outputs.iter().map(|origin| match *origin {
            Origin::Input(at) => Ok(Arc::clone(batch.column(at))),
            Origin::Table(column) => self.taken(column, &segments, &places),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = columns.collect::<Result<_>>()?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// The values of a column at `places`: indexes into `segments`, and rows within the segments.
    fn taken(&self, column: usize, segments: &[usize], places: &[(usize, usize)]) -> Result<ArrayRef> {
        let Some(_) = places.first() else {
            return Ok(arrow::array::new_empty_array(self.table.schema().field(column).data_type()));
        };
        let parts = segments.iter().map(|&segment| self.decoded(segment, column)).collect::<Result<Vec<_>>>()?;
        let parts: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
        Ok(interleave(&parts, places)?)
    }

    /// A column of a row segment, decoded.
    fn decoded(&self, segment: usize, column: usize) -> Result<ArrayRef> {
        let mut held = self.decoded.lock();
        if let Some(at) = held.iter().position(|own| own.segment == segment && own.column == column) {
            return Ok(Arc::clone(&held[at].values));
        }
        let values = self.table.array(segment, column).map_err(Error::from)?;
        held.push_front(Decoded { segment, column, values: Arc::clone(&values) });
        held.truncate(MOST_DECODED);
        Ok(values)
    }
}
