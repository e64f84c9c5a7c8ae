//! Facts about a program's run that are known before it: its placement, and its kernels.

use std::sync::Arc;

use serde::Serialize;
use warpmill_cpu::scan::BYTES_PER_NANO;
use warpmill_eval::expr::PreparedExpr;
use warpmill_eval::pruning::select;
use warpmill_gpu::Strategy;
use warpmill_gpu::compile::defer::defer_sorts;
use warpmill_gpu::compile::hints::Limits;
use warpmill_gpu::compile::program::Place;
use warpmill_gpu::compile::shapes;
use warpmill_gpu::device::DeviceKind;
use warpmill_ir::pruning::PruningReport;
use warpmill_ir::{Program, Route, Scan, Source, Unsupported};
use warpmill_place::{Arrives, Decision, Feedback, Partition, PartitionKey, Shuffle, Site};

use crate::device::{DeviceChoice, DeviceKey, Ordinals, device_name, executor, no_compiler, topology};
use crate::execute::ExecutionContext;
use crate::sites;

/// The expected placement of a program: memory limits and values may still move it to the CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// `cpu`, `gpu` or `sim`.
    pub device: &'static str,
    /// The reason why the requested device will not run it.
    pub not_on_device: Option<String>,
    /// The expected strategy, if it does not fit the device as a whole.
    pub strategy: Option<Strategy>,
    /// Pipelines that the CPU runs although the program runs on a device: they read sorted rows, which the CPU sorts.
    pub on_host: Vec<usize>,
    /// How its data will be streamed to device memory, with predicted times.
    pub path: Option<String>,
    /// The pipeline that the CPU and devices run together.
    pub shared: Option<SharedPipeline>,
    /// Description of the devices' parts.
    pub parts: Option<String>,
    /// The reason why there are none although parts were requested.
    pub not_shared: Option<String>,
    /// The sites considered, each with the reason why it runs the program or not.
    pub decisions: Vec<SiteDecision>,
}

/// A site that was considered for a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SiteDecision {
    /// `cpu`, or the device with its number.
    pub site: String,
    /// Whether it runs the program or a part of it.
    pub chosen: bool,
    /// The reason.
    pub reason: String,
}

/// A pipeline whose row segments are claimed by several sites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedPipeline {
    /// Index of the pipeline.
    pub pipeline: usize,
    /// Row segments of its table.
    pub segments: usize,
    /// Number of devices besides the CPU.
    pub devices: usize,
    /// The form of the devices' results.
    pub arrives: Arrives,
}

impl std::fmt::Display for SharedPipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pipeline, segments, devices, arrives } = self;
        let arrive = arriving(*arrives);
        let number = if *devices == 1 { String::new() } else { format!(" ({devices} of them)") };
        write!(
            f,
            "{number} and cpu claim the {segments} row segments of pipeline {pipeline}; {arrive} arrive at the cpu"
        )
    }
}

fn arriving(arrives: Arrives) -> &'static str {
    match arrives {
        Arrives::States => "states of the aggregation",
        Arrives::Rows => "rows",
    }
}

/// Describes the parts of devices.
fn described(parts: &Partition) -> String {
    let Partition { pipeline, programs, arrives, key, segments, shuffle, .. } = parts;
    let own = match key {
        None => format!("each with its row segments ({segments:?})"),
        Some(PartitionKey { table, column, scans }) => {
            format!("each with its range of {table}.{column} in {scans} scans (row segments {segments:?})")
        }
    };
    let sent = match shuffle {
        None => String::new(),
        Some(Shuffle { route: Route::Hash { .. }, what, .. }) => {
            format!("; {what} go to the device of their keys' hash")
        }
        Some(Shuffle { route: Route::First, what, .. }) => format!("; {what} go to the first device, which goes on"),
        Some(Shuffle { route: Route::Ranges { .. }, what, .. }) => format!("; {what} go to the device of their range"),
    };
    let (devices, arrive) = (programs.len(), arriving(*arrives));
    format!("({devices} of them), {own}{sent}; {arrive} of pipeline {pipeline} arrive at the cpu")
}

impl std::fmt::Display for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.device)?;
        if let Some(shared) = &self.shared {
            write!(f, "{shared}")?;
        }
        if let Some(parts) = &self.parts {
            write!(f, " {parts}")?;
        }
        if let Some(reason) = &self.not_on_device {
            write!(f, ", not on the device: {reason}")?;
        }
        if let Some(reason) = &self.not_shared {
            write!(f, ", not shared: {reason}")?;
        }
        if let Some(strategy) = &self.strategy {
            write!(f, ", {strategy}")?;
        }
        if !self.on_host.is_empty() {
            let pipelines: Vec<_> = self.on_host.iter().map(ToString::to_string).collect();
            write!(f, ", but pipeline {} (sorted rows) on the cpu", pipelines.join(", "))?;
        }
        if let Some(path) = &self.path {
            write!(f, "; data {path}")?;
        }
        Ok(())
    }
}

/// The expected placement of `program`, for these input row counts, under `context`. Reads no data and compiles nothing.
pub fn placement(program: &Arc<Program>, inputs: &[u64], context: &ExecutionContext) -> Placement {
    let mut none = Placement {
        device: "cpu",
        not_on_device: None,
        strategy: None,
        on_host: vec![],
        path: None,
        shared: None,
        parts: None,
        not_shared: None,
        decisions: vec![],
    };
    let lowered = match context.device {
        DeviceChoice::Cpu => Ok(vec![]),
        _ => pipelines_on_host(program, inputs, context),
    };
    let supports = |_, asked: &Arc<Program>| match Arc::ptr_eq(asked, program) {
        true => lowered.as_ref().map(|_| ()).map_err(Clone::clone),
        // The rows that other devices send are not counted yet.
        false => pipelines_on_host(asked, &[SENT_ROWS], context).map(drop),
    };
    let topology = topology(context.device, &context.ordinals, context.gpu_memory_limit);
    let plan = match sites::plan_for(program, None, context, (&topology, &Feedback::default(), &supports)) {
        Ok(plan) => plan,
        Err(refusal) => return Placement { not_on_device: Some(refusal.reason), ..none },
    };
    none.not_shared = plan.not_shared().map(str::to_owned);
    none.decisions = plan.decisions.iter().map(|decision| decided(decision, context)).collect();
    let on_cpu = |not_on_device| Placement { not_on_device, ..none.clone() };
    if let Some(share) = &plan.share {
        let (pipeline, segments, arrives) = (share.pipeline, share.segments, share.arrives);
        let shared = SharedPipeline { pipeline, segments, arrives, devices: plan.devices().count() };
        return Placement { device: device_name(context.device), shared: Some(shared), ..none };
    }
    if let Some(parts) = &plan.partition {
        return Placement { device: device_name(context.device), parts: Some(described(parts)), ..none };
    }
    if plan.site() == Site::Cpu {
        return on_cpu(plan.not_on_device().map(str::to_owned));
    }
    let on_host = lowered.unwrap_or_default();
    let executor = match executor(context.device_key(0)) {
        Ok(executor) => executor,
        Err(reason) => return on_cpu(Some(reason)),
    };
    // Running the program will report this error.
    let path = executor.preview(program, &context.device_options()).ok().flatten();
    let path = path.map(|path| path.to_string());
    // Parts that were requested do not depend on memory.
    let strategy = executor.strategy(program, inputs, &context.device_options()).ok();
    let strategy = strategy.filter(|strategy| strategy.streamed || strategy.sinks_do_not_fit());
    if let Some(plan) = strategy.as_ref().filter(|strategy| strategy.is_for_cpu()).and_then(|it| it.join.as_ref()) {
        return on_cpu(Some(plan.refusal().to_string()));
    }
    // A split strategy lists the CPU's pipelines itself.
    let split = strategy.as_ref().is_some_and(Strategy::is_split);
    let (on_host, path) = if split { (vec![], None) } else { (on_host, path) };
    Placement { device: device_name(context.device), strategy, on_host, path, ..none }
}

/// An assumed number of rows for an input of unknown size.
const SENT_ROWS: u64 = 1 << 20;

fn decided(decision: &Decision, context: &ExecutionContext) -> SiteDecision {
    let site = match decision.site {
        Site::Cpu => "cpu".to_string(),
        Site::Device(number) => format!("{}:{number}", device_name(context.device)),
    };
    SiteDecision { site, chosen: decision.reason.is_chosen(), reason: decision.reason.to_string() }
}

/// Whether the device of `context` is expected to run `program` for these input row counts; otherwise the reason. Reads no data and compiles
/// nothing.
///
/// # Errors
/// The reason.
pub fn on_device(program: &Arc<Program>, inputs: &[u64], context: &ExecutionContext) -> Result<(), String> {
    pipelines_on_host(program, inputs, context).map(drop)
}

/// The pipelines that the CPU runs although a device runs the program, or the reason why no device does.
fn pipelines_on_host(program: &Arc<Program>, inputs: &[u64], context: &ExecutionContext) -> Result<Vec<usize>, String> {
    let executor = executor(context.device_key(0))?;
    let properties = executor.device().properties();
    if properties.kind == DeviceKind::Cuda
        && let Some(reason) = no_compiler(Some(properties))
    {
        return Err(reason);
    }
    let places = places(program, inputs).map_err(|reason| reason.to_string())?;
    Ok((0..places.len()).filter(|&pipeline| places[pipeline] == Place::Host).collect())
}

/// Generates kernels for segments of any encoding, only to see whether that succeeds. Missing features do not depend on the device's memory, so its
/// size is arbitrary here.
fn places(program: &Arc<Program>, inputs: &[u64]) -> Result<Vec<Place>, Unsupported> {
    let program = defer_sorts(program).map_or_else(|| Arc::clone(program), Arc::new);
    shapes::places(&program, inputs, Limits::new(40 << 30, 64 << 10))
}

/// Tables that `program` scans, and the rows of each that metadata will rule out at the CPU's scan rate, without the keys of hash builds, which are
/// unknown before the run; a device may stop pruning sooner. Reads metadata only; omits scans with errors in metadata or filters, which running the
/// program reports.
pub fn pruning(program: &Program) -> Vec<(String, PruningReport)> {
    let scans = program.pipelines.iter().filter_map(|pipeline| match &pipeline.source {
        Source::Scan(scan) => Some(scan),
        _ => None,
    });
    let report = |scan: &Scan| {
        let filters = scan.filters.iter().map(PreparedExpr::new).collect::<Result<Vec<_>, _>>().ok()?;
        let selected = select(scan, &filters.iter().collect::<Vec<_>>(), &[], BYTES_PER_NANO).ok()?;
        Some((scan.name.clone(), selected.report))
    };
    scans.filter_map(report).collect()
}

/// The kernels of a program.
#[derive(Debug, Clone)]
pub struct Kernels {
    /// The device that they are for: `gpu` or `sim`.
    pub device: &'static str,
    /// The reason why they are not for the requested device.
    pub not_on_gpu: Option<String>,
    /// The name and the text of each, or the reason why there are none.
    pub kernels: Result<Vec<(String, String)>, String>,
}

/// The kernels that `program`, with inputs of so many rows, needs on the device of `context`; for the CPU, or a GPU that does not exist, on the
/// simulated device. Reads the statistics and layouts of segments, and compiles kernels that have not been compiled before.
pub fn kernels(program: &Arc<Program>, inputs: &[u64], context: &ExecutionContext) -> Kernels {
    let memory = context.gpu_memory_limit;
    let simulated = |memory| DeviceKey::new(DeviceChoice::Sim, &Ordinals::default(), 0, memory);
    let (choice, not_on_gpu, found) = match context.device {
        DeviceChoice::Auto | DeviceChoice::Gpu => match executor(context.device_key(0)) {
            Ok(executor) => (context.device, None, Ok(executor)),
            Err(reason) => (DeviceChoice::Sim, Some(reason), executor(simulated(0))),
        },
        DeviceChoice::Cpu => (DeviceChoice::Sim, None, executor(simulated(0))),
        DeviceChoice::Sim => (DeviceChoice::Sim, None, executor(simulated(memory))),
    };
    let kernels = found.and_then(|executor| executor.kernels(program, inputs).map_err(|failure| failure.to_string()));
    Kernels { device: device_name(choice), not_on_gpu, kernels }
}
