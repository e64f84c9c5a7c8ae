//! From a program and its inputs to Arrow batches.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use warpmill_cpu::compaction::Compaction;
use warpmill_cpu::context::{QueryContext, Settings};
use warpmill_cpu::operator::SpilledRows;
use warpmill_cpu::pipeline::Output;
use warpmill_cpu::source::InputStream;
use warpmill_cpu::spill::SpillSettings;
use warpmill_eval::ExecError;
use warpmill_eval::arrow::to_batches;
use warpmill_eval::cancel::CancelToken;
use warpmill_eval::progress::QueryProgress;
use warpmill_eval::rows::{Placed, RowSet};
use warpmill_gpu::memory::regions::Owner;
use warpmill_gpu::{
    ClaimUnit, DataSource, DeviceProfile, Failure, JoinStrategy, MirrorOptions, Pipelines, Representation,
};
use warpmill_ir::{Pipeline, Program, Source};
use warpmill_place::{Feedback, Granularity, Miss, PlacedPlan, Refusal, Request, Site};

use crate::background::Busy;
use crate::device::{self, DeviceChoice, DeviceKey, Ordinals, device_name};
use crate::exchange::DeviceExchange;
use crate::profile::{PredictedTimes, QueryProfile};
use crate::shared::{FEW_ROWS, Together, time_to_read};
use crate::sites;
use crate::trials::{Trials, Way};

/// The site that runs a program for which a device has to compile kernels first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FirstRuns {
    /// The CPU, unless the user has requested a device.
    #[default]
    Auto,
    /// The device, after they have been compiled.
    Device,
    /// The CPU, while they are compiled for the next run.
    Cpu,
}

/// Options for running a program.
#[derive(Debug, Clone)]
pub struct ExecutionContext {
    /// Number of worker threads; 0: all cores.
    pub threads: usize,
    /// Memory limit of the query's pipeline breakers, in bytes.
    pub memory_limit: usize,
    /// The policy of the CPU back end with rows that exceed that.
    pub spill: SpillSettings,
    /// Number of rows of a full chunk: a power of two from 2 to 2048.
    pub chunk_rows: usize,
    /// The compaction strategy.
    pub compaction: Compaction,
    /// The choice of site for the program.
    pub device: DeviceChoice,
    /// The devices of that kind.
    pub ordinals: Ordinals,
    /// The unit of work for the CPU and devices.
    pub granularity: Granularity,
    /// The unit that devices claim of shared pipelines.
    pub claim_unit: ClaimUnit,
    /// A seed that assigns row segments of shared pipelines to sites at random (for tests); `None`: to the site that claims them first.
    pub placement_seed: Option<u64>,
    /// The site that runs programs for which a device has to compile kernels first.
    pub first_runs: FirstRuns,
    /// Limit of GPU memory in bytes; 0: nearly all.
    pub gpu_memory_limit: u64,
    /// Limit of the rate at which a device's data are read from files, in bytes per second; 0: none.
    pub io_bandwidth_limit: u64,
    /// Limit of page-locked memory for copies of a device's data, in bytes; 0: none.
    pub pinned_memory_limit: u64,
    /// The form in which columns are streamed to devices.
    pub representation: Representation,
    /// Number of parts in which a device builds every hash table and table of groups (for tests); 0: as memory requires.
    pub device_partitions: u32,
    /// The strategy of joins whose hash builds do not fit a device.
    pub device_join: JoinStrategy,
    /// Number and size of concurrent batches of streamed data.
    pub device_pipelines: Pipelines,
    /// Whether batches are prepared while a device's kernels run.
    pub device_overlap: bool,
    /// How devices get data that several of them need.
    pub device_exchange: DeviceExchange,
    /// Whether a program that the chosen device cannot run is an error (otherwise the CPU runs it, and the profile contains the reason).
    pub device_strict: bool,
    /// Whether kernels are timed, which takes a few microseconds each.
    pub time_kernels: bool,
    /// The location of the data of programs on a device.
    pub device_data: DataSource,
    /// The choice of mirrored data that get copies in device memory.
    pub mirror: MirrorOptions,
    /// Whether joins and aggregations always use hash tables, with all hashes equal (for tests of collisions).
    pub equal_hashes: bool,
    /// Stops the query from another thread.
    pub cancel: CancelToken,
    /// Reports the progress of scans to other threads.
    pub progress: QueryProgress,
}

impl Default for ExecutionContext {
    fn default() -> Self {
        Self {
            threads: 0,
            memory_limit: usize::MAX,
            spill: SpillSettings { enabled: true, ..SpillSettings::default() },
            chunk_rows: warpmill_cpu::CHUNK_ROWS,
            compaction: Compaction::default(),
            device: DeviceChoice::Cpu,
            ordinals: Ordinals::default(),
            granularity: Granularity::default(),
            claim_unit: ClaimUnit::default(),
            placement_seed: None,
            first_runs: FirstRuns::default(),
            gpu_memory_limit: 0,
            io_bandwidth_limit: 0,
            pinned_memory_limit: 0,
            representation: Representation::default(),
            device_partitions: 0,
            device_join: JoinStrategy::default(),
            device_pipelines: Pipelines::default(),
            device_overlap: true,
            device_exchange: DeviceExchange::default(),
            device_strict: false,
            time_kernels: false,
            device_data: DataSource::default(),
            mirror: MirrorOptions::default(),
            equal_hashes: false,
            cancel: CancelToken::default(),
            progress: QueryProgress::default(),
        }
    }
}

/// Approximate time to open a device and compile a program's kernels.
const MAKING_READY: Duration = Duration::from_secs(1);

/// The approximate time that the CPU takes for a program: the time of reading its scans.
fn expected(program: &Program, threads: usize) -> Duration {
    let bytes = program.pipelines.iter().map(|pipeline| match &pipeline.source {
        Source::Scan(scan) => scan.plain_bytes(),
        _ => 0,
    });
    time_to_read(bytes.sum(), threads)
}

impl ExecutionContext {
    /// Number of worker threads, at least one.
    fn worker_threads(&self) -> usize {
        match self.threads {
            0 => warpmill_machine::cores(),
            threads => threads,
        }
    }

    /// Device `number` of the devices that programs may run on.
    pub(crate) fn device_key(&self, number: u16) -> DeviceKey {
        DeviceKey::new(self.device, &self.ordinals, number, self.gpu_memory_limit)
    }

    /// The sites that programs may run on.
    pub(crate) fn request(&self) -> Request {
        match self.device {
            DeviceChoice::Auto => Request::Any,
            DeviceChoice::Cpu => Request::Cpu,
            DeviceChoice::Gpu | DeviceChoice::Sim => Request::Device { else_cpu: !self.device_strict },
        }
    }

    /// Whether the CPU runs `program` where a device is not ready for it.
    pub(crate) fn first_on_cpu(&self, program: &Program) -> bool {
        match self.first_runs {
            FirstRuns::Auto => {
                self.device == DeviceChoice::Auto && expected(program, self.worker_threads()) < MAKING_READY
            }
            FirstRuns::Device => false,
            FirstRuns::Cpu => self.request() != Request::Device { else_cpu: false },
        }
    }

    /// The options of a device's executor.
    pub(crate) fn device_options(&self) -> warpmill_gpu::Options {
        warpmill_gpu::Options {
            cancel: self.cancel.clone(),
            profile: self.time_kernels,
            data: self.device_data,
            io_bandwidth_limit: self.io_bandwidth_limit,
            pinned_memory_limit: self.pinned_memory_limit,
            partitions: self.device_partitions,
            join: self.device_join,
            pipelines: self.device_pipelines,
            overlap: self.device_overlap,
            cpu_threads: if self.device_strict && self.device != DeviceChoice::Auto {
                0
            } else {
                self.worker_threads()
            },
            representation: self.representation,
            host_bytes: (self.memory_limit != usize::MAX).then_some(self.memory_limit as u64),
            piece_bytes: None,
            mirror: MirrorOptions { pinned_limit: self.pinned_memory_limit, ..self.mirror },
            host_threads: self.worker_threads(),
            shared: None,
            peers: None,
            reads: None,
            shuffle: None,
            nested: false,
        }
    }
}

/// The reason why a program could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The back end's error.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// The chosen device cannot run the program, and no other site may.
    #[error(transparent)]
    Device(#[from] Refusal),
    /// No worker threads could be started.
    #[error("cannot start worker threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// The same query for devices: a program that scans files itself, while the CPU's program gets their rows as inputs.
#[derive(Debug, Clone)]
pub struct DeviceProgram {
    /// The program.
    pub program: Arc<Program>,
    /// The inputs of the other program that are its inputs.
    pub inputs: Vec<usize>,
}

/// A program's result.
#[derive(Debug)]
pub struct QueryOutput {
    /// In the program's schema.
    pub batches: Vec<RecordBatch>,
    /// The profile of the run.
    pub profile: QueryProfile,
    /// All rows, if they are in temporary files: `batches` is empty then.
    pub in_files: Option<RowsInFiles>,
}

/// The rows of a program that exceed the memory limit.
pub struct RowsInFiles {
    rows: Arc<dyn SpilledRows>,
    /// Indices of the result's columns, in order; `None`: all.
    columns: Option<Vec<usize>>,
    program: Arc<Program>,
    query: Arc<QueryContext>,
    /// Time spent before the rows are merged.
    before: u64,
}

impl std::fmt::Debug for RowsInFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowsInFiles").finish_non_exhaustive()
    }
}

impl RowsInFiles {
    /// Passes all rows to `give` in order, in batches of the program's schema, until it returns false; adds the time to `profile`.
    ///
    /// # Errors
    /// Damaged or unreadable temporary files, cancellation, rows that do not fit a batch.
    pub fn for_each(
        self,
        profile: &mut QueryProfile,
        mut give: impl FnMut(RecordBatch) -> bool,
    ) -> Result<(), EngineError> {
        let started = Instant::now();
        let fields = self.program.sinks.last().map(|sink| sink.fields()).unwrap_or_default();
        self.rows.for_each(&self.query, &mut |columns, rows| {
            let columns = match &self.columns {
                Some(picked) => picked.iter().map(|&column| columns[column].clone()).collect(),
                None => columns,
            };
            let set = Arc::new(RowSet { batches: vec![(columns, rows)] });
            let batches = to_batches(set, fields, &self.program.schema)?;
            Ok(batches.into_iter().all(&mut give))
        })?;
        profile.peak_memory = self.query.memory_peak() as u64;
        profile.wall_nanos = self.before + started.elapsed().as_nanos() as u64;
        Ok(())
    }
}

/// Runs `program` to its end. Devices run `for_devices` instead, if given; inputs that only `program` has are not read then.
///
/// # Errors
/// A value error of SQL, exceeded memory, cancellation, unreadable data, or a failing input; files of a table that have changed meanwhile. A failed
/// query returns no part of its result.
pub fn execute(
    program: &Arc<Program>,
    inputs: Vec<InputStream>,
    for_devices: Option<&DeviceProgram>,
    context: &ExecutionContext,
) -> Result<QueryOutput, EngineError> {
    let busy = Busy::begin();
    let output = run(program, inputs, for_devices, context);
    drop(busy);
    for pipeline in &program.pipelines {
        if let Source::Scan(scan) = &pipeline.source {
            scan.table.check_files().map_err(ExecError::Format)?;
        }
    }
    output
}

/// Runs a placed program; an attempt without a result is placed again with its feedback.
fn run(
    program: &Arc<Program>,
    inputs: Vec<InputStream>,
    for_devices: Option<&DeviceProgram>,
    context: &ExecutionContext,
) -> Result<QueryOutput, EngineError> {
    let devices = if context.first_on_cpu(program) { device::topology_by_now } else { device::topology };
    let topology = devices(context.device, &context.ordinals, context.gpu_memory_limit);
    let mut feedback = Feedback::default();
    // Kept, because the CPU may have to run the program after all.
    let mut inputs: Vec<Option<InputStream>> = inputs.into_iter().map(Some).collect();
    let (begun, mut missed_parts) = (Instant::now(), false);
    loop {
        let started = Instant::now();
        let plan = sites::plan(program, for_devices, context, (&topology, &feedback))?;
        if let Some(site) = plan.warms {
            sites::warm(site, program, context);
        }
        let mut parts = match (&plan.share, plan.site()) {
            (Some(share), _) => sites::share(&plan, share, context),
            (None, _) if let Some(partition) = &plan.partition => match sites::parts(&plan, partition, context) {
                Ok(parts) => parts,
                Err(miss) => {
                    feedback.misses.push(miss);
                    continue;
                }
            },
            (None, Site::Cpu) if program.calls_functions() => {
                // A device that is not ready yet may be ready for the next run.
                let given_up = feedback.misses.iter().any(|miss| miss.for_cpu);
                return Err(ExecError::NeedsHost { given_up }.into());
            }
            (None, Site::Cpu) => {
                let reason = plan.not_on_device().map(str::to_owned);
                Parts::on_cpu(program, inputs.iter_mut().filter_map(Option::take).collect(), reason)
            }
            (None, site) => match sites::on_device(site, program, (&mut inputs, for_devices), context)? {
                Attempt::Done(parts) => *parts,
                Attempt::Missed(miss) => {
                    feedback.misses.push(miss);
                    continue;
                }
            },
        };
        let together = parts.together.take();
        let output = finish(parts, together.as_ref(), (started, context));
        if let (Some(together), Ok(_)) = (&together, &output) {
            together.learn(program);
        }
        match &output {
            // A run in which a device still compiled tells nothing about later ones.
            Ok(_) if together.as_ref().is_some_and(|together| !together.were_ready) => {}
            Ok(output) if feedback.misses.is_empty() => note(program, &plan, &output.profile, context),
            // Parts that fail take as long as all of the attempts.
            Ok(_) if missed_parts && context.granularity != Granularity::Program => {
                program.derived.get::<Trials>().note(Way::Shared, begun.elapsed(), 0);
            }
            _ => {}
        }
        missed_parts |= plan.partition.is_some();
        // If all row segments of a shared scan have been processed, other failures of a device do not matter.
        let error = match output {
            Ok(mut output) => {
                output.profile.failed_attempts = feedback.misses.into_iter().map(|miss| miss.reason).collect();
                let cost = plan.partition.as_ref().map(|parts| parts.cost);
                output.profile.predicted = cost
                    .map(|cost| PredictedTimes { in_parts_ms: cost.in_parts() * 1e3, alone_ms: cost.alone() * 1e3 });
                return Ok(output);
            }
            Err(error) => error,
        };
        let shared = together.is_some();
        match together.and_then(|together| together.failure()) {
            // The next attempt runs on the CPU alone if the sites have left row segments unread.
            None if shared && matches!(error, EngineError::Exec(ExecError::Unsupported(_))) => {
                let miss = |site| Miss { site, reason: error.to_string(), for_cpu: true };
                feedback.misses.extend(plan.devices().map(miss));
            }
            None => return Err(error),
            // An error of the query itself, found by any site.
            Some((_, Failure::Exec(error))) => return Err(error.into()),
            Some((site, failure)) => {
                let for_cpu = matches!(failure, Failure::Value(_));
                feedback.misses.push(Miss { site, reason: failure.to_string(), for_cpu });
            }
        }
    }
}

/// Records the time of a run for later runs.
fn note(program: &Program, plan: &PlacedPlan, profile: &QueryProfile, context: &ExecutionContext) {
    let way = match plan.site() {
        _ if context.granularity == Granularity::Program => return,
        _ if plan.share.is_some() || plan.partition.is_some() => Way::Shared,
        Site::Device(_) => Way::Alone,
        Site::Cpu => return,
    };
    let transfers = profile.on_device.iter().flat_map(|profile| &profile.transfers);
    let travelled = transfers.filter(|transfer| transfer.is_of_segments()).map(|transfer| transfer.bytes).sum();
    program.derived.get::<Trials>().note(way, Duration::from_nanos(profile.wall_nanos), travelled);
}

/// Runs the CPU's remaining pipelines, and makes batches of the rows.
fn finish(
    parts: Parts,
    together: Option<&Together>,
    (started, context): (Instant, &ExecutionContext),
) -> Result<QueryOutput, EngineError> {
    let host = Instant::now();
    let is_little = parts.has_few_rows() || together.is_some_and(|together| together.brings_few_rows(&parts.program));
    let threads = if is_little { 1 } else { context.worker_threads() };
    let settings = Settings {
        threads,
        memory_limit: context.memory_limit,
        chunk_rows: context.chunk_rows,
        compaction: context.compaction,
        equal_hashes: context.equal_hashes,
        spill: context.spill.clone(),
    };
    let query = Arc::new(QueryContext::new(settings, context.cancel.clone()).with_progress(context.progress.clone()));
    query.keep_alive(parts.owners);
    // Rows of a split program are kept until it ends.
    let _rows = query.hold(parts.host_bytes as usize);
    let (rows, pipelines) =
        warpmill_cpu::pipeline::execute_placed(&parts.program, &parts.placed, parts.inputs, &query, &*pool(threads)?)?;
    let fields = parts.program.sinks.last().map(|sink| sink.fields()).unwrap_or_default();
    let arrow = Instant::now();
    let (batches, in_files) = match rows {
        Output::Rows(rows) => (to_batches(rows, fields, &parts.program.schema)?, None),
        Output::Spilled(rows, columns) => {
            let (program, before) = (parts.program.clone(), started.elapsed().as_nanos() as u64);
            (vec![], Some(RowsInFiles { rows, columns, program, query: query.clone(), before }))
        }
    };
    let arrow_nanos = arrow.elapsed().as_nanos() as u64;
    let mut profile = QueryProfile {
        bytes_read: pipelines.iter().map(|pipeline| pipeline.counter("bytes_read")).sum(),
        pipelines,
        peak_memory: query.memory_peak() as u64,
        spilled_bytes: query.spill.written(),
        wall_nanos: started.elapsed().as_nanos() as u64,
        device: "cpu",
        not_on_device: parts.reason,
        failed_attempts: vec![],
        segments: together.map(Together::segments).unwrap_or_default(),
        predicted: None,
        on_device: None,
        decoded_on_host: vec![],
        from_column_cache: vec![],
    };
    if let Some(mut on_device) = parts.profile.or_else(|| together?.profile()) {
        (on_device.host_nanos, on_device.arrow_nanos) = (host.elapsed().as_nanos() as u64, arrow_nanos);
        profile.device = device_name(context.device);
        profile.bytes_read += on_device.kernels.iter().map(|kernel| kernel.bytes).sum::<u64>();
        profile.on_device = Some(on_device);
    }
    Ok(QueryOutput { batches, profile, in_files })
}

/// The CPU's remaining work.
pub(crate) struct Parts {
    pub program: Arc<Program>,
    pub placed: Vec<Placed>,
    pub inputs: Vec<InputStream>,
    pub profile: Option<DeviceProfile>,
    /// The reason why the CPU runs everything.
    pub reason: Option<String>,
    /// The owners of memory that strings in rows of the device point into.
    pub owners: Vec<Owner>,
    /// Bytes of the device's rows, if the program was split.
    pub host_bytes: u64,
    /// The devices that run a pipeline at the same time.
    pub together: Option<Together>,
}

impl Parts {
    fn on_cpu(program: &Arc<Program>, inputs: Vec<InputStream>, reason: Option<String>) -> Self {
        let (placed, profile, owners, host_bytes, together) = Default::default();
        Self { program: program.clone(), placed, inputs, profile, reason, owners, host_bytes, together }
    }

    /// The CPU's work on `program` if devices run parts of it.
    pub(crate) fn beside(program: &Arc<Program>, together: Together) -> Self {
        let placed = together.placed(program);
        let (inputs, profile, reason, owners, host_bytes) = Default::default();
        let (program, together) = (program.clone(), Some(together));
        Self { program, placed, inputs, profile, reason, owners, host_bytes, together }
    }

    fn has_few_rows(&self) -> bool {
        let rows = self.placed.iter().map(|placed| match placed {
            Placed::Arrived(rows) | Placed::Finished(rows) | Placed::Resumed { rows, .. } => rows.rows(),
            Placed::Here | Placed::Elsewhere | Placed::Shared(_) => 0,
        });
        let scans = |(pipeline, placed): (&Pipeline, &Placed)| {
            matches!(placed, Placed::Here) && matches!(pipeline.source, Source::Scan(_) | Source::Input { .. })
        };
        let has_own = self.program.pipelines.iter().zip(&self.placed).any(scans);
        self.profile.is_some() && !has_own && rows.sum::<usize>() < FEW_ROWS
    }
}

/// The outcome of running a program on a device.
pub(crate) enum Attempt {
    /// Success: the rest of the program, which the CPU runs.
    Done(Box<Parts>),
    /// A failure that another attempt may avoid.
    Missed(Miss),
}

/// Address space of a worker's stack, in bytes: expressions nest as deeply as statements do.
const STACK: usize = 32 << 20;

/// The process's pool of `threads` workers: started once, shared by all queries with this number.
fn pool(threads: usize) -> Result<Arc<rayon::ThreadPool>, rayon::ThreadPoolBuildError> {
    static POOLS: LazyLock<Mutex<HashMap<usize, Arc<rayon::ThreadPool>>>> = LazyLock::new(Mutex::default);
    let mut pools = POOLS.lock();
    if let Some(pool) = pools.get(&threads) {
        return Ok(pool.clone());
    }
    let builder = rayon::ThreadPoolBuilder::new().num_threads(threads).stack_size(STACK);
    let pool = Arc::new(builder.thread_name(|i| format!("warpmill-{i}")).build()?);
    pools.insert(threads, pool.clone());
    Ok(pool)
}
