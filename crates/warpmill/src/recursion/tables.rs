//! The tables that the step of a recursion reads, and their rows during a run.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::source_as_provider;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableScan, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// The assumed number of rows that a step reads.
const EXPECTED_ROWS: usize = 1 << 10;

/// A table of a recursion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The rows that the last step has added.
    Last,
    /// All rows so far.
    All,
    /// The rows that a step has added, before they are aggregated in the dictionary.
    Candidates,
    /// Groups of the dictionary, before rows of the result are made from them.
    Groups,
}

impl Part {
    const ALL: [Self; 4] = [Self::Last, Self::All, Self::Candidates, Self::Groups];

    fn name(self) -> &'static str {
        match self {
            Self::Last => "$ last ",
            Self::All => "$ all ",
            Self::Candidates => "$ candidates ",
            Self::Groups => "$ groups ",
        }
    }
}

/// The name of a table of the recursion `number` in a statement with bound names; no text has such a name.
pub(crate) fn table_name(number: u64, part: Part) -> String {
    format!("{}{number}", part.name())
}

/// The table of a recursion called `name`; `None` for other names.
pub(crate) fn own_table(name: &str, schema: &SchemaRef) -> Option<StepTable> {
    let parsed = |part: Part| Some((part, name.strip_prefix(part.name())?.parse().ok()?));
    let (part, number) = Part::ALL.into_iter().find_map(parsed)?;
    Some(StepTable::new(number, part, Arc::clone(schema)))
}

/// A table of a recursion in plans.
#[derive(Debug, Clone)]
pub(crate) struct StepTable {
    number: u64,
    part: Part,
    schema: SchemaRef,
}

impl StepTable {
    /// A table of the recursion `number`.
    pub(crate) fn new(number: u64, part: Part, schema: SchemaRef) -> Self {
        Self { number, part, schema }
    }

    /// The table that a scan reads.
    pub(crate) fn of(scan: &TableScan) -> Option<Self> {
        source_as_provider(&scan.source).ok()?.downcast_ref::<Self>().cloned()
    }

    /// The number of the recursion.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The rows of the table.
    pub(crate) fn part(&self) -> Part {
        self.part
    }

    /// The columns of the table.
    pub(crate) fn columns(&self) -> &SchemaRef {
        &self.schema
    }
}

#[async_trait]
impl TableProvider for StepTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(StepTableExec::try_new(self.number, self.part, &self.schema, projection)?))
    }
}

/// Reads the rows of a table of a recursion, any number of times.
#[derive(Debug)]
pub(super) struct StepTableExec {
    number: u64,
    part: Part,
    projection: Option<Vec<usize>>,
    properties: Arc<PlanProperties>,
}

impl StepTableExec {
    pub(super) fn try_new(
        number: u64,
        part: Part,
        schema: &SchemaRef,
        projection: Option<&Vec<usize>>,
    ) -> Result<Self> {
        let schema = match projection {
            Some(columns) => Arc::new(schema.project(columns)?),
            None => Arc::clone(schema),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(Self { number, part, projection: projection.cloned(), properties: Arc::new(properties) })
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn part(&self) -> Part {
        self.part
    }
}

impl DisplayAs for StepTableExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = match self.part {
            Part::Last => "last",
            Part::All => "all",
            Part::Candidates => "candidates",
            Part::Groups => "groups",
        };
        write!(f, "StepTableExec: number={}, rows={rows}", self.number)
    }
}

impl ExecutionPlan for StepTableExec {
    fn name(&self) -> &str {
        "StepTableExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("StepTableExec is a leaf") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("StepTableExec is a leaf") }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(steps) = Steps::of(&context, self.number) else {
            return internal_err!("the rows of recursion {} outside of it", self.number);
        };
        let schema = self.schema();
        let rows = steps.rows(self.part).into_iter().map(|batch| {
            let batch = match &self.projection {
                Some(columns) => batch.project(columns)?,
                None => batch,
            };
            named(&batch, &schema)
        });
        let rows = rows.collect::<Result<Vec<_>>>()?;
        Ok(Box::pin(cooperative(MemoryStream::try_new(rows, schema, None)?)))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let unknown = Statistics::new_unknown(&self.schema());
        Ok(Arc::new(Statistics { num_rows: Precision::Inexact(EXPECTED_ROWS), ..unknown }))
    }
}

/// `batch` with the columns of `schema`: renamed, and cast if their types are different.
pub(super) fn named(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        match column.data_type() == field.data_type() {
            true => Ok(Arc::clone(column)),
            false => Ok(arrow::compute::cast(column, field.data_type())?),
        }
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect::<Result<_>>()?, &options)?)
}

/// The rows of a recursion during a run.
#[derive(Debug, Default)]
pub(super) struct Steps {
    rows: Mutex<Rows>,
    /// The rows of the plans with the same rows in all steps, by number.
    same: Vec<OnceCell<Vec<RecordBatch>>>,
}

#[derive(Debug, Default)]
struct Rows {
    last: Vec<RecordBatch>,
    all: Vec<RecordBatch>,
    candidates: Vec<RecordBatch>,
    groups: Vec<RecordBatch>,
}

impl Steps {
    /// The state before the first step; `same` is the number of plans with the same rows in all steps.
    pub(super) fn new(same: usize) -> Self {
        Self { same: (0..same).map(|_| OnceCell::new()).collect(), ..Self::default() }
    }

    /// The steps of the recursion `number` that encloses the plan with this `context`.
    pub(super) fn of(context: &TaskContext, number: u64) -> Option<Arc<Self>> {
        let mut around = context.session_config().get_extension::<Around>();
        while let Some(recursion) = around {
            if recursion.number == number {
                return Some(Arc::clone(&recursion.steps));
            }
            around = recursion.around.clone();
        }
        None
    }

    fn rows(&self, part: Part) -> Vec<RecordBatch> {
        let rows = self.rows.lock();
        match part {
            Part::Last => rows.last.clone(),
            Part::All => rows.all.clone(),
            Part::Candidates => rows.candidates.clone(),
            Part::Groups => rows.groups.clone(),
        }
    }

    /// Replaces the rows of a table.
    pub(super) fn set(&self, part: Part, batches: Vec<RecordBatch>) {
        let mut rows = self.rows.lock();
        match part {
            Part::Last => rows.last = batches,
            Part::All => rows.all = batches,
            Part::Candidates => rows.candidates = batches,
            Part::Groups => rows.groups = batches,
        }
    }

    /// Adds rows to the table of all rows. Small batches are merged: the number of copies of each row grows with the logarithm of the number
    /// of rows.
    pub(super) fn add(&self, batches: &[RecordBatch]) -> Result<()> {
        let all = &mut self.rows.lock().all;
        for batch in batches {
            all.push(batch.clone());
            while let [.., before, last] = all.as_slice()
                && before.num_rows() <= 2 * last.num_rows()
                && before.num_rows() + last.num_rows() <= LARGEST
            {
                let both = arrow::compute::concat_batches(&batch.schema(), [before, last])?;
                all.truncate(all.len() - 2);
                all.push(both);
            }
        }
        Ok(())
    }

    /// The rows of plan `number` of those with the same rows in all steps.
    pub(super) fn same(&self, number: usize) -> Option<&OnceCell<Vec<RecordBatch>>> {
        self.same.get(number)
    }
}

/// Largest number of rows of a merged batch.
const LARGEST: usize = 1 << 20;

/// The recursions that enclose a plan, innermost first: an extension of the configuration of its task.
#[derive(Debug)]
struct Around {
    number: u64,
    steps: Arc<Steps>,
    around: Option<Arc<Self>>,
}

/// The context of plans within the recursion `number`, which has the rows `steps`.
pub(super) fn inside(context: &TaskContext, number: u64, steps: Arc<Steps>) -> Arc<TaskContext> {
    let around = context.session_config().get_extension::<Around>();
    let config = context.session_config().clone().with_extension(Arc::new(Around { number, steps, around }));
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};

    fn numbers(values: &[i64]) -> RecordBatch {
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)]));
        RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(values.to_vec()))]).unwrap()
    }

    #[test]
    fn names_of_tables_are_read() {
        let schema = numbers(&[]).schema();
        for part in Part::ALL {
            let table = own_table(&table_name(7, part), &schema).unwrap();
            assert_eq!((table.number(), table.part()), (7, part));
        }
        assert!(own_table("last 7", &schema).is_none() && own_table("$ last x", &schema).is_none());
    }

    #[test]
    fn rows_of_many_steps_are_few_batches() {
        let steps = Steps::new(0);
        for step in 0..1000 {
            steps.add(&[numbers(&[step])]).unwrap();
        }
        let all = steps.rows(Part::All);
        assert!(all.len() < 20);
        let all = arrow::compute::concat_batches(&all[0].schema(), &all).unwrap();
        assert_eq!(all, numbers(&(0..1000).collect::<Vec<_>>()));
    }
}
