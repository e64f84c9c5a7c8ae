//! The operator that runs a program inside a DataFusion plan.
//!
//! A program with more rows than estimated at its 64-bit sums ends without a result, and the same part of the plan is placed and run again with wide
//! sums. The operator returns its first row only at its end, so that the first run stays invisible. The wide version is kept: later runs of the same
//! plan (the plan cache) begin with it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow::array::RecordBatchOptions;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions, SchedulingType, reset_plan_states,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use futures::{FutureExt, Stream, StreamExt, TryFutureExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use warpmill_engine::{
    CancelToken, DeviceChoice, EngineError, ExecError, FirstRuns, QueryOutput, QueryProgress, RowsInFiles,
};
use warpmill_format::column_cache;
use warpmill_ir::graph::has_limit;
use warpmill_ir::{Pipeline, Program, Sink, Source};

use super::functions::{self, Runner};
use super::kept::{self, KeptProgram};
use super::leaf::ParquetLeaf;
use super::{Again, UnprovenSums, input, parquet, place_again, threads};
use crate::settings::WarpmillOptions;
use crate::{CommitGate, Error, caught, once};

/// Merged batches from temporary files that may wait for their reader.
const BATCHES_AHEAD: usize = 1;

/// The share (1/4) of the threads, and of a query's memory limit, that encoding columns of files may use.
const ENCODING_SHARE: usize = 4;

/// The state that a running query shares with its operators: an extension of the task's configuration.
#[derive(Debug, Default)]
pub struct QueryHandle {
    /// Stops the query.
    pub cancel: CancelToken,
    /// The progress of its scans.
    pub progress: QueryProgress,
    /// Decides whether the query commits its writes.
    pub commit: CommitGate,
    /// The profiles of the programs that have ended.
    pub profiles: Mutex<Vec<warpmill_engine::QueryProfile>>,
    /// Programs that were abandoned and run again with wide sums.
    pub widened: AtomicU64,
    /// Whether kernels are timed although the settings do not ask for it.
    pub time_kernels: AtomicBool,
    /// Whether the thread that polls the plan has no other work, so that its program runs there. Waking another thread and being woken by it takes
    /// about as long as a short query.
    pub polled_alone: AtomicBool,
    /// The rows of common table expressions that run once.
    pub(crate) once: once::Results,
}

/// Whether programs run on a device under `options`; opens it, in the background where the CPU runs them meanwhile.
pub fn has_device(options: &WarpmillOptions) -> bool {
    let waits = options.device != DeviceChoice::Auto || options.first_runs == FirstRuns::Device;
    let has = if waits { warpmill_engine::has_device } else { warpmill_engine::has_open_device };
    has(options.device, &options.ordinals, options.gpu_memory_limit as u64)
}

/// Whether `plan` is one program that reads no rows of other operators.
pub fn is_one_program(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<WarpmillExec>() && plan.children().is_empty()
}

/// The part of a session and of its query that one program needs: everything but the session's hundreds of functions, which are expensive to copy.
pub fn context_of_program(state: &SessionState, handle: &Arc<QueryHandle>) -> Arc<TaskContext> {
    let config = state.config().clone().with_extension(Arc::clone(handle));
    let (id, runtime) = (state.session_id().to_owned(), Arc::clone(state.runtime_env()));
    let (scalar, higher_order, aggregate, window) = Default::default();
    Arc::new(TaskContext::new(None, id, config, scalar, higher_order, aggregate, window, runtime))
}

/// Runs a program; its children are the program's inputs.
pub struct WarpmillExec {
    /// The plan that the program was translated from.
    source: Arc<dyn ExecutionPlan>,
    /// The values of its parameters, where they differ from those it was made with.
    values: Option<Arc<[ScalarValue]>>,
    program: Arc<Program>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    /// The inputs before placement: parts of `source`.
    leaves: Vec<Arc<dyn ExecutionPlan>>,
    sums: UnprovenSums,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The plan that runs instead since the rows turned out too many for narrow sums; shared by all copies of this plan.
    wide: Arc<OnceLock<Arc<dyn ExecutionPlan>>>,
    /// The plan that runs instead where no device runs its functions of groups; shared by all copies of this plan.
    with_host: Arc<WithHost>,
    /// The program of kept columns of files; shared by all copies of this plan.
    kept: Arc<kept::Memo>,
}

/// The plan in which the host calls the functions of groups.
#[derive(Default)]
struct WithHost {
    plan: OnceLock<Arc<dyn ExecutionPlan>>,
    /// Whether devices have failed permanently for this plan.
    given_up: AtomicBool,
    /// Whether the last run ended with it.
    is_last: AtomicBool,
}

type Plans = Vec<Arc<dyn ExecutionPlan>>;

impl WarpmillExec {
    pub(super) fn new(
        source: Arc<dyn ExecutionPlan>,
        program: Arc<Program>,
        (leaves, inputs): (Plans, Plans),
        sums: UnprovenSums,
    ) -> Self {
        // With several partitions the source's order holds only within each, and not for the program's rows, unless the program ends with a sort of
        // all rows. Equalities and constants hold in any case.
        let is_sorted = matches!(program.sinks.last(), Some(Sink::Sort { .. }));
        let total = source.output_partitioning().partition_count() == 1 || is_sorted;
        let mut equivalences = source.equivalence_properties().clone();
        equivalences.clear_orderings();
        if !total {
            equivalences.clear_per_partition_constants();
        } else if let Some(order) = source.output_ordering() {
            equivalences.add_ordering(order.clone());
        }
        let partitioning = Partitioning::UnknownPartitioning(1);
        let properties = PlanProperties::new(equivalences, partitioning, EmissionType::Final, Boundedness::Bounded)
            // It waits on a channel, so that no yielding operator is needed above it.
            .with_scheduling_type(SchedulingType::Cooperative);
        let metrics = ExecutionPlanMetricsSet::new();
        let properties = Arc::new(properties);
        let (wide, with_host, kept) = (Arc::default(), Arc::default(), kept::memo());
        Self { source, values: None, program, inputs, leaves, sums, properties, metrics, wide, with_host, kept }
    }

    /// The node with the parameter values with which its program was translated.
    pub(super) fn translated_with(self, values: Option<&[ScalarValue]>) -> Self {
        Self { values: values.map(Into::into), ..self }
    }

    /// The node for other parameter values; `None` where the plan with these does not translate. Only for nodes without inputs.
    pub(crate) fn with_values(&self, values: Vec<ScalarValue>, options: &WarpmillOptions) -> Option<Self> {
        let translation = warpmill_translate::Options { values: Some(&values), ..options.translation() };
        let (translated, _) = functions::program(&self.source, options, (translation, Runner::Device));
        let program = translated.ok().filter(|translated| translated.inputs.is_empty())?.program;
        let (properties, metrics) = (Arc::clone(&self.properties), ExecutionPlanMetricsSet::new());
        let (wide, with_host, kept) = (Arc::default(), Arc::default(), kept::memo());
        let (source, program, values) = (Arc::clone(&self.source), Arc::new(program), Some(values.into()));
        let (inputs, leaves, sums) = (vec![], vec![], UnprovenSums::Narrow);
        Some(Self { source, values, program, inputs, leaves, sums, properties, metrics, wide, with_host, kept })
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The plan that runs instead of the program: after more rows than estimated at its sums, or without a device for its functions of groups.
    pub fn instead(&self) -> Option<&Arc<dyn ExecutionPlan>> {
        self.wide.get().or_else(|| self.with_host.plan.get().filter(|_| self.with_host.is_last.load(Ordering::Relaxed)))
    }

    /// The expected rows of each input; 2^20 where unknown.
    pub fn input_rows(&self) -> Vec<u64> {
        self.inputs.iter().map(|plan| input::expected_rows(plan).unwrap_or(1 << 20)).collect()
    }

    /// The plan that devices run instead of the program, where it has inputs of Parquet files that they decode themselves. Reads footers of new and
    /// changed files. Must not be called on threads of the async runtime; `cancel` stops it.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn for_devices(
        &self,
        options: &WarpmillOptions,
        runtime: &RuntimeEnv,
        cancel: CancelToken,
    ) -> Result<parquet::ForDevices, Error> {
        Scanned::of(self).for_devices(options, runtime, cancel)
    }

    /// The part of DataFusion's plan that the program replaces.
    pub fn source(&self) -> &Arc<dyn ExecutionPlan> {
        &self.source
    }
}

/// The parts of a [`WarpmillExec`] that describe its scans.
struct Scanned {
    source: Arc<dyn ExecutionPlan>,
    leaves: Plans,
    sums: UnprovenSums,
    kept: Arc<kept::Memo>,
    /// Whether it may end before all rows are read.
    is_limited: bool,
}

/// The sources of a run that replace reading files.
#[derive(Default)]
struct Reading {
    /// The program over kept columns that runs instead.
    kept: Option<KeptProgram>,
    /// Columns to keep for later runs.
    missing: Vec<kept::Request>,
    for_devices: parquet::ForDevices,
}

impl Scanned {
    fn of(node: &WarpmillExec) -> Self {
        let (source, leaves, kept) = (Arc::clone(&node.source), node.leaves.clone(), Arc::clone(&node.kept));
        let is_input = |pipeline: &Pipeline| matches!(pipeline.source, Source::Input { .. });
        let is_limited = node.program.pipelines.iter().any(|pipeline| is_input(pipeline) && has_limit(pipeline));
        Self { source, leaves, sums: node.sums, kept, is_limited }
    }

    /// Determines the sources for this run. Footers are read on another thread.
    async fn reading(
        self,
        options: WarpmillOptions,
        context: &Arc<TaskContext>,
        handle: &QueryHandle,
    ) -> Result<Reading> {
        let (runtime, cancel) = (context.runtime_env(), handle.cancel.clone());
        let reads_files = self.leaves.iter().any(ParquetLeaf::is_one);
        if !reads_files || !options.column_cache && !has_device(&options) {
            return Ok(Reading::default());
        }
        let found = tokio::task::spawn_blocking(move || self.read(&options, &runtime, cancel)).await;
        Ok(found.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??)
    }

    fn read(&self, options: &WarpmillOptions, runtime: &RuntimeEnv, cancel: CancelToken) -> Result<Reading, Error> {
        let now = kept::Now {
            threads: options.worker_threads(),
            // Kept columns outlive the query: they get a share of its memory limit only.
            room: match self.is_limited {
                true => 0,
                false => (options.memory_limit as u64 / ENCODING_SHARE as u64).min(column_cache::limit()),
            },
            cancel: &cancel,
        };
        let mut found = if options.column_cache { kept::find(&self.leaves, &now)? } else { kept::Found::default() };
        let missing = std::mem::take(&mut found.missing);
        let missing = if self.is_limited { vec![] } else { missing };
        // A device that decodes files itself scans all of the program's files; it cannot combine them with kept columns.
        if !found.is_empty() && (found.others == 0 || !has_device(options)) {
            let kept = found.program((&self.source, &self.leaves), self.sums, options, &self.kept);
            if kept.is_some() {
                return Ok(Reading { kept, missing, for_devices: parquet::ForDevices::default() });
            }
        }
        Ok(Reading { kept: None, missing, for_devices: self.for_devices(options, runtime, cancel)? })
    }

    /// See [`WarpmillExec::for_devices`].
    fn for_devices(
        &self,
        options: &WarpmillOptions,
        runtime: &RuntimeEnv,
        cancel: CancelToken,
    ) -> Result<parquet::ForDevices, Error> {
        if !has_device(options) {
            return Ok(parquet::ForDevices::default());
        }
        let readers = parquet::Readers::new(options, runtime, cancel);
        parquet::for_devices(&self.source, &self.leaves, self.sums, &readers)
    }
}

/// Adds the measurements of a program's run to the operator's metrics.
fn record(metrics: &ExecutionPlanMetricsSet, profile: &warpmill_engine::QueryProfile, rows: usize) {
    MetricBuilder::new(metrics).output_rows(0).add(rows);
    MetricBuilder::new(metrics).global_counter("bytes_read").add(profile.bytes_read as usize);
    MetricBuilder::new(metrics).elapsed_compute(0).add_duration(Duration::from_nanos(profile.wall_nanos));
}

impl fmt::Debug for WarpmillExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WarpmillExec").field("program", &self.program).field("inputs", &self.inputs).finish()
    }
}

impl DisplayAs for WarpmillExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema();
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "WarpmillExec: pipelines={}, columns=[{}]", self.program.pipelines.len(), names.join(", "))?;
        match (self.wide.get(), self.instead()) {
            (Some(_), _) => write!(f, ", widened"),
            (None, Some(_)) => write!(f, ", the host runs its functions"),
            (None, None) => Ok(()),
        }
    }
}

impl ExecutionPlan for WarpmillExec {
    fn name(&self) -> &str {
        "WarpmillExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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
            return internal_err!("a program of {} inputs got {}", self.inputs.len(), children.len());
        }
        let inputs = (self.leaves.clone(), children);
        let copy = Self::new(Arc::clone(&self.source), Arc::clone(&self.program), inputs, self.sums);
        let (wide, with_host) = (Arc::clone(&self.wide), Arc::clone(&self.with_host));
        Ok(Arc::new(Self { values: self.values.clone(), wide, with_host, kept: Arc::clone(&self.kept), ..copy }))
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
        if partition != 0 {
            return internal_err!("WarpmillExec has one partition, not {partition}");
        }
        let schema = self.schema();
        let handle = context.session_config().get_extension::<QueryHandle>().unwrap_or_default();
        let with_host = self.with_host.plan.get().filter(|_| self.with_host.given_up.load(Ordering::Relaxed));
        if let Some(wide) = self.wide.get().or(with_host) {
            // The query may have several programs, which wait for each other.
            handle.polled_alone.store(false, Ordering::Relaxed);
            let rows = run_plan(wide, &context)?;
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
        }
        let (scanned, program, inputs) = (Scanned::of(self), Arc::clone(&self.program), self.inputs.clone());
        let (metrics, result_schema) = (self.metrics.clone(), Arc::clone(&schema));
        let (source, wide, with_host) = (Arc::clone(&self.source), Arc::clone(&self.wide), Arc::clone(&self.with_host));
        let (sums, values) = (self.sums, self.values.clone());
        let batches = async move {
            let options = WarpmillOptions::of(context.session_config().options());
            let threads = options.worker_threads();
            let Reading { kept, missing, mut for_devices } = scanned.reading(options, &context, &handle).await?;
            let notes = std::mem::take(&mut for_devices.notes);
            let (program, inputs, from_column_cache) = match kept {
                None => (program, inputs, vec![]),
                Some(kept) => {
                    let inputs = kept.inputs.iter().map(|&input| Arc::clone(&inputs[input])).collect();
                    (kept.program, inputs, kept.notes)
                }
            };
            let running = run_program(program, &inputs, for_devices, (&context, &handle))?;
            let mut output = match running.await? {
                Ran::Done(output) => output,
                Ran::NeedsWideSums => {
                    handle.widened.fetch_add(1, Ordering::Relaxed);
                    handle.polled_alone.store(false, Ordering::Relaxed);
                    let options = WarpmillOptions::of(context.session_config().options());
                    let values = values.as_deref();
                    let again = Again { sums: UnprovenSums::Wide, functions: Runner::Device, values };
                    let placement = place_again(source, &options, again)?;
                    return Ok(run_plan(wide.get_or_init(|| placement.plan), &context)?.boxed());
                }
                Ran::NeedsHost { given_up } => {
                    handle.polled_alone.store(false, Ordering::Relaxed);
                    with_host.given_up.fetch_or(given_up, Ordering::Relaxed);
                    with_host.is_last.store(true, Ordering::Relaxed);
                    if with_host.plan.get().is_none() {
                        let options = WarpmillOptions::of(context.session_config().options());
                        let values = values.as_deref();
                        let plan = place_again(source, &options, Again { sums, functions: Runner::Host, values })?.plan;
                        with_host.plan.get_or_init(|| plan);
                    }
                    let plan = with_host.plan.get().expect("it was just made");
                    return Ok(run_plan(plan, &context)?.boxed());
                }
            };
            with_host.is_last.store(false, Ordering::Relaxed);
            (output.profile.decoded_on_host, output.profile.from_column_cache) = (notes, from_column_cache);
            if !missing.is_empty() {
                kept::keep(missing, (threads / ENCODING_SHARE).max(1));
            }
            if let Some(rows) = output.in_files {
                return Ok(merged_rows(rows, output.profile, (metrics, handle), result_schema).boxed());
            }
            let rows = output.batches.iter().map(RecordBatch::num_rows).sum();
            record(&metrics, &output.profile, rows);
            handle.profiles.lock().push(output.profile);
            let batches = output.batches.into_iter().map(move |batch| conform(batch, &result_schema));
            Ok::<_, DataFusionError>(futures::stream::iter(batches).boxed())
        };
        let stream = futures::stream::once(batches).try_flatten().boxed();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The outcome of a program.
enum Ran {
    Done(Box<QueryOutput>),
    NeedsWideSums,
    /// No device runs its functions of groups.
    NeedsHost {
        given_up: bool,
    },
}

/// Starts `program` on its own thread, unless the polling thread has no other work.
fn run_program(
    program: Arc<Program>,
    inputs: &[Arc<dyn ExecutionPlan>],
    for_devices: parquet::ForDevices,
    (context, handle): (&Arc<TaskContext>, &QueryHandle),
) -> Result<impl Future<Output = Result<Ran>> + use<>> {
    let mut execution = WarpmillOptions::of(context.session_config().options()).execution(handle.cancel.clone());
    execution.time_kernels |= handle.time_kernels.load(Ordering::Relaxed);
    execution.progress = handle.progress.clone();
    let first_error = input::FirstError::default();
    let parquet::ForDevices { program: other, held, .. } = for_devices;
    let inputs = inputs.iter().enumerate().map(|(index, plan)| match &other {
        // Read only where no device runs the program.
        Some(other) if !other.inputs.contains(&index) => Ok(input::later(plan, context, &first_error)),
        _ => input::input(plan, context, &first_error),
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let waits = !inputs.is_empty();
    let run = move || {
        let _held = held;
        warpmill_engine::execute(&program, inputs, other.as_ref(), &execution)
    };
    let running = match handle.polled_alone.load(Ordering::Relaxed) {
        true => futures::future::lazy(|_| caught(run).map_err(DataFusionError::from)).boxed(),
        false if waits => threads::start(run)?.boxed(),
        false => {
            let running = tokio::task::spawn_blocking(run);
            running.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error))).boxed()
        }
    };
    Ok(running.and_then(async move |done| {
        match (done, first_error.lock().take()) {
            (Ok(output), _) => Ok(Ran::Done(Box::new(output))),
            (Err(EngineError::Exec(ExecError::NeedsWideSums { .. })), _) => Ok(Ran::NeedsWideSums),
            (Err(EngineError::Exec(ExecError::NeedsHost { given_up })), _) => Ok(Ran::NeedsHost { given_up }),
            // A cancelled query cancels its inputs too: their errors say nothing.
            (Err(error), cause) => match (Error::from(error), cause) {
                (Error::Execution(_), Some(cause)) => Err(cause),
                (error, _) => Err(error.into()),
            },
        }
    }))
}

/// Merges sorted rows from temporary files as they are read; the program's profile is complete at the end.
fn merged_rows(
    rows: RowsInFiles,
    mut profile: warpmill_engine::QueryProfile,
    (metrics, handle): (ExecutionPlanMetricsSet, Arc<QueryHandle>),
    schema: SchemaRef,
) -> impl Stream<Item = Result<RecordBatch>> {
    let (sender, receiver) = mpsc::channel(BATCHES_AHEAD);
    let merging = threads::start(move || {
        let mut count = 0;
        let merged = rows.for_each(&mut profile, |batch| {
            count += batch.num_rows();
            // The reader is gone; the rest is not needed.
            sender.blocking_send(batch).is_ok()
        });
        merged.map(|()| (profile, count))
    });
    let batches = futures::stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
    let batches = batches.map(move |batch| conform(batch, &schema));
    let end = async move {
        let merged = async { merging?.await }.await;
        match merged {
            Ok(Ok((profile, count))) => {
                record(&metrics, &profile, count);
                handle.profiles.lock().push(profile);
                None
            }
            Ok(Err(error)) => Some(Err(Error::from(error).into())),
            Err(error) => Some(Err(error)),
        }
    };
    batches.chain(futures::stream::once(end).filter_map(std::future::ready))
}

/// The rows of all partitions of `plan`, from the start.
fn run_plan(plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
    input::merged(&reset_plan_states(Arc::clone(plan))?).execute(0, Arc::clone(context))
}

/// `batch` with the plan's schema, whose nullability may be less strict.
fn conform(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)?)
}
