//! The physical node of recursive queries.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType, reset_plan_states,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements, Partitioning,
    PlanProperties, execute_stream,
};
use futures::TryStreamExt;

use super::Added;
use super::dictionary::{Dictionary, Entries, Within};
use super::distinct::{Keys, new_rows};
use super::small::SmallSteps;
use super::tables::{Part, StepTableExec, Steps, inside, named};
use crate::Error;
use crate::offload::QueryHandle;
use crate::once::OnceExec;

/// Largest number of rows of a batch of the result.
const BATCH_ROWS: usize = 8192;

/// Rows are held back until their number is this fraction of the rows returned so far: the first rows are returned at once, and batches grow.
const WAITING_SHARE: usize = 4;

/// Facts about a recursion.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) number: u64,
    pub(super) added: Added,
    /// Whether the step reads rows of the recursion; otherwise it runs once.
    pub(super) repeats: bool,
    /// The columns of the rows that steps add.
    pub(super) rows: SchemaRef,
    /// The columns of the result.
    pub(super) schema: SchemaRef,
    pub(super) dictionary: Option<Arc<Dictionary>>,
}

/// Runs the first query, then steps until a step adds no rows.
#[derive(Debug)]
pub(crate) struct RecursionExec {
    facts: Arc<Facts>,
    first: Arc<dyn ExecutionPlan>,
    step: Arc<dyn ExecutionPlan>,
    /// The plan for steps that read few rows.
    small: Option<Arc<SmallSteps>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl RecursionExec {
    pub(super) fn new(facts: Arc<Facts>, first: Arc<dyn ExecutionPlan>, step: Arc<dyn ExecutionPlan>) -> Self {
        let emission = if facts.dictionary.is_some() { EmissionType::Final } else { EmissionType::Incremental };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&facts.schema)),
            Partitioning::UnknownPartitioning(1),
            emission,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let (properties, metrics) = (Arc::new(properties), ExecutionPlanMetricsSet::new());
        Self { facts, first, step, small: None, properties, metrics }
    }

    /// The number of the recursion within its statement.
    pub(super) fn number(&self) -> u64 {
        self.facts.number
    }

    /// The plan of a step.
    pub(super) fn step(&self) -> &Arc<dyn ExecutionPlan> {
        &self.step
    }

    /// The same node with a plan that replaces the step for few rows.
    pub(super) fn with_small(&self, small: SmallSteps) -> Self {
        Self { small: Some(Arc::new(small)), ..self.with_plans(Arc::clone(&self.first), Arc::clone(&self.step)) }
    }

    fn with_plans(&self, first: Arc<dyn ExecutionPlan>, step: Arc<dyn ExecutionPlan>) -> Self {
        Self { small: self.small.clone(), ..Self::new(Arc::clone(&self.facts), first, step) }
    }

    fn with_children(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 2]>::try_from(children) {
            Ok([first, step]) => Ok(Arc::new(self.with_plans(first, step))),
            Err(_) => internal_err!("RecursionExec has two children"),
        }
    }

    /// Whether the step reads a table of the recursion.
    fn step_reads(&self, part: Part) -> Result<bool> {
        let number = self.facts.number;
        self.step.exists(|node| {
            let table = node.downcast_ref::<StepTableExec>();
            Ok(table.is_some_and(|table| table.number() == number && table.part() == part))
        })
    }

    /// The numbers of the parts of the step that run once for several readers, and have other rows in each step.
    fn varying(&self) -> Result<Vec<u64>> {
        let number = self.facts.number;
        let mut found = vec![];
        self.step.apply(|node| {
            if let Some(once) = node.downcast_ref::<OnceExec>()
                && node.exists(|below| {
                    Ok(below.downcast_ref::<StepTableExec>().is_some_and(|table| table.number() == number))
                })?
            {
                found.push(once.number());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(found)
    }
}

impl DisplayAs for RecursionExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecursionExec: number={}", self.facts.number)?;
        if self.facts.added == Added::New {
            write!(f, ", distinct")?;
        }
        if self.facts.dictionary.is_some() { write!(f, ", by key") } else { Ok(()) }
    }
}

impl ExecutionPlan for RecursionExec {
    fn name(&self) -> &str {
        "RecursionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.first, &self.step]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition, Distribution::SinglePartition])
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

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("RecursionExec has one partition, not {partition}");
        }
        let run = Run::new(self, partition, &context)?;
        let rows = futures::stream::try_unfold(run, async |mut run| Ok(run.next().await?.map(|batch| (batch, run))));
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), Box::pin(rows)))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The information about all rows so far on which later rows depend.
enum Known {
    All,
    Distinct(Keys),
    Entries(Box<Entries>),
}

/// A run of a recursion.
struct Run {
    facts: Arc<Facts>,
    step: Arc<dyn ExecutionPlan>,
    small: Option<Arc<SmallSteps>>,
    within: Within,
    handle: Arc<QueryHandle>,
    known: Known,
    /// The rows of the first query or of the current step.
    adding: Option<SendableRecordBatchStream>,
    /// The rows that the current step has added so far.
    added: Vec<RecordBatch>,
    /// Whether the step reads all rows so far.
    reads_all: bool,
    /// The numbers of the parts that run once in each step.
    varying: Vec<u64>,
    has_stepped: bool,
    /// The error that has ended the run; it is returned after the rows before it.
    failed: Option<DataFusionError>,
    out: Out,
    memory: Memory,
    metrics: BaselineMetrics,
}

/// The reserved memory of rows.
struct Memory {
    /// Memory of the rows that the last step has added.
    last: MemoryReservation,
    /// Memory of the rows that the current step adds.
    added: MemoryReservation,
    /// Memory of the keys or entries of all rows.
    all: MemoryReservation,
}

/// Rows of the result that have not been returned yet.
#[derive(Default)]
struct Out {
    waiting: Vec<RecordBatch>,
    rows: usize,
    /// The number of rows returned.
    given: usize,
    ready: VecDeque<RecordBatch>,
}

impl Out {
    fn add(&mut self, batch: RecordBatch) {
        self.rows += batch.num_rows();
        self.waiting.push(batch);
    }

    /// The next batch. If it `ends`, returns all remaining rows.
    fn next(&mut self, ends: bool) -> Result<Option<RecordBatch>> {
        let is_enough = self.rows > 0 && (ends || self.rows >= (self.given / WAITING_SHARE).clamp(1, BATCH_ROWS));
        if self.ready.is_empty() && is_enough {
            let waiting = std::mem::take(&mut self.waiting);
            self.given += std::mem::take(&mut self.rows);
            let whole = match waiting.as_slice() {
                [only] => only.clone(),
                several => concat_batches(&several[0].schema(), several)?,
            };
            let starts = (0..whole.num_rows()).step_by(BATCH_ROWS);
            self.ready.extend(starts.map(|start| whole.slice(start, BATCH_ROWS.min(whole.num_rows() - start))));
        }
        Ok(self.ready.pop_front())
    }
}

impl Run {
    fn new(node: &RecursionExec, partition: usize, context: &Arc<TaskContext>) -> Result<Self> {
        let facts = Arc::clone(&node.facts);
        let steps = Arc::new(Steps::new(node.small.as_ref().map_or(0, |small| small.same())));
        let inner = inside(context, facts.number, Arc::clone(&steps));
        let known = match (&facts.dictionary, facts.added) {
            (Some(dictionary), _) => Known::Entries(Box::new(Entries::new(Arc::clone(dictionary))?)),
            (None, Added::New) => Known::Distinct(Keys::new(Arc::clone(&facts.rows))?),
            (None, Added::All) => Known::All,
        };
        let reserve = |name: &str| MemoryConsumer::new(name).register(context.memory_pool());
        Ok(Self {
            step: Arc::clone(&node.step),
            small: node.small.clone(),
            within: Within { steps, context: inner },
            handle: context.session_config().get_extension::<QueryHandle>().unwrap_or_default(),
            known,
            adding: Some(execute_stream(Arc::clone(&node.first), Arc::clone(context))?),
            added: vec![],
            reads_all: node.step_reads(Part::All)?,
            varying: node.varying()?,
            has_stepped: false,
            failed: None,
            out: Out::default(),
            memory: Memory {
                last: reserve("recursion: last rows"),
                added: reserve("recursion: rows of a step"),
                all: reserve("recursion: all rows"),
            },
            metrics: BaselineMetrics::new(&node.metrics, partition),
            facts,
        })
    }

    /// The next rows of the result.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.out.next(self.adding.is_none())? {
                self.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if self.adding.is_none() {
                return Ok(None);
            }
            // The error is returned last: a reader that stops before never gets it.
            if let Err(error) = self.advance().await {
                self.adding = None;
                self.failed = Some(error);
            }
        }
    }

    /// Adds the next rows of a step, or ends the step.
    async fn advance(&mut self) -> Result<()> {
        let Some(rows) = &mut self.adding else { return Ok(()) };
        match rows.try_next().await? {
            Some(batch) => self.add(&batch),
            None => self.end_step().await,
        }
    }

    /// Adds rows of the current step.
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let mut batch = named(batch, &self.facts.rows)?;
        if let Known::Distinct(known) = &mut self.known {
            batch = new_rows(known, &batch)?;
            self.memory.all.try_resize(known.size())?;
            if batch.num_rows() == 0 {
                return Ok(());
            }
        }
        self.memory.added.try_grow(batch.get_array_memory_size())?;
        if self.facts.dictionary.is_none() {
            self.out.add(named(&batch, &self.facts.schema)?);
        }
        self.added.push(batch);
        Ok(())
    }

    /// Ends the current step; begins the next one if there are new rows.
    async fn end_step(&mut self) -> Result<()> {
        self.adding = None;
        self.handle.cancel.check().map_err(|_| DataFusionError::from(Error::Cancelled))?;
        // Many steps in a row may return no rows.
        tokio::task::coop::consume_budget().await;
        let mut added = std::mem::take(&mut self.added);
        let is_last = added.is_empty() || (self.has_stepped && !self.facts.repeats);
        if let Known::Entries(entries) = &mut self.known {
            let tells = self.facts.added == Added::New;
            let rows = if tells { std::mem::take(&mut added) } else { added.clone() };
            if let Some(changes) = entries.add(rows, tells, &self.within).await? {
                added = changes.rows;
            }
            self.memory.all.try_resize(entries.size())?;
        }
        self.memory.last.free();
        std::mem::swap(&mut self.memory.last, &mut self.memory.added);
        if is_last || added.is_empty() {
            return self.end().await;
        }
        if self.reads_all {
            self.keep_all(&added).await?;
        }
        let rows = added.iter().map(RecordBatch::num_rows).sum();
        self.within.steps.set(Part::Last, added);
        self.varying.iter().for_each(|&number| self.handle.once.forget(number));
        let step = match &self.small {
            Some(small) if small.holds(rows) => small.plan(),
            _ => &self.step,
        };
        self.has_stepped = true;
        let step = reset_plan_states(Arc::clone(step))?;
        self.adding = Some(execute_stream(step, Arc::clone(&self.within.context))?);
        Ok(())
    }

    /// Makes all rows available to steps; `added` are the last ones.
    async fn keep_all(&mut self, added: &[RecordBatch]) -> Result<()> {
        match &mut self.known {
            Known::Entries(entries) => {
                let all = entries.all(&self.within).await?;
                self.within.steps.set(Part::All, all);
                Ok(())
            }
            Known::All | Known::Distinct(_) => {
                self.memory.all.try_grow(added.iter().map(RecordBatch::get_array_memory_size).sum())?;
                self.within.steps.add(added)
            }
        }
    }

    /// Ends the recursion.
    async fn end(&mut self) -> Result<()> {
        if let Known::Entries(entries) = &mut self.known {
            for batch in entries.all(&self.within).await? {
                self.out.add(named(&batch, &self.facts.schema)?);
            }
        }
        for part in [Part::Last, Part::All] {
            self.within.steps.set(part, vec![]);
        }
        self.memory.last.free();
        Ok(())
    }
}
