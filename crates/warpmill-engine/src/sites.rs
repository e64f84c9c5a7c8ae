//! Facts for placement, and attempts to run programs on their sites.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use warpmill_cpu::source::InputStream;
use warpmill_eval::ExecError;
use warpmill_gpu::kernels::{ERROR_DATA, ERROR_GROUP};
use warpmill_gpu::{ClaimUnit, Executor, Failure, Options};
use warpmill_ir::{Program, Source, Unsupported};
use warpmill_place::{
    Facts, Feedback, Granularity, Miss, Partition, PartitionRates, PlacedPlan, Readiness, Refusal, Share, Sharing,
    Site, Supports, Topology, place,
};

use crate::background::{self, Ticket};
use crate::barren::unread_inputs;
use crate::device::{self, DeviceKey};
use crate::exchange;
use crate::execute::{Attempt, DeviceProgram, EngineError, ExecutionContext, Parts};
use crate::shared::Together;
use crate::trials::Trials;

/// The shareable pipeline of a program, stored with the program.
struct Shareable(Result<Arc<Share>, Unsupported>);

/// The key of a program's partitionings.
#[derive(PartialEq, Eq, Hash)]
struct PartitionKey {
    devices: usize,
    /// Whether the devices may send rows to each other.
    shuffles: bool,
    /// The seed that the ranges are chosen by.
    seed: Option<u64>,
}

/// A program in parts; kept with the program.
#[derive(Default)]
struct Partitions(Mutex<HashMap<PartitionKey, MadePartition>>);

type MadePartition = Result<Arc<Partition>, Unsupported>;

/// The state of devices' preparations of a program, stored with it.
#[derive(Default)]
struct Warmth(Mutex<HashMap<DeviceKey, Preparation>>);

/// A device's preparation of a program.
#[derive(Debug, Clone, Copy)]
enum Preparation {
    /// It runs, or waits until no query does.
    Begun(Ticket),
    /// It has been tried.
    Done,
}

/// Plans the next attempt.
///
/// # Errors
/// A device is required, and none runs the program.
pub(crate) fn plan(
    program: &Arc<Program>,
    for_devices: Option<&DeviceProgram>,
    context: &ExecutionContext,
    (topology, feedback): (&Topology, &Feedback),
) -> Result<PlacedPlan, Refusal> {
    // Missing features of a back end show in the run itself.
    plan_for(program, for_devices, context, (topology, feedback, &|_, _| Ok(())))
}

/// Plans the next attempt, on devices whose back ends run the programs that `supports` accepts.
///
/// # Errors
/// A device is required, and none runs the program.
pub(crate) fn plan_for(
    program: &Arc<Program>,
    for_devices: Option<&DeviceProgram>,
    context: &ExecutionContext,
    (topology, feedback, supports): (&Topology, &Feedback, &Supports<'_>),
) -> Result<PlacedPlan, Refusal> {
    let facts = Facts {
        request: context.request(),
        granularity: context.granularity,
        supports,
        share: &|| shareable(program, for_devices, context),
        sharing: &|| sharing(program, context),
        partition: &|devices| partition(program, for_devices, devices, context),
        parting: &|| parting(program, context),
        first_on_cpu: context.first_on_cpu(program),
        readiness: &|site| readiness(site, program, for_devices, context),
    };
    place(program, &facts, topology, feedback)
}

/// The shareable pipeline of a program, if the context permits sharing.
fn shareable(
    program: &Arc<Program>,
    for_devices: Option<&DeviceProgram>,
    context: &ExecutionContext,
) -> Result<Arc<Share>, String> {
    with_other_sites(for_devices, context)?;
    let made = program.derived.get_or(|| Shareable(Share::new(program).map(Arc::new)));
    made.0.clone().map_err(|reason| reason.to_string())
}

/// Whether several sites may work on one program.
fn with_other_sites(for_devices: Option<&DeviceProgram>, context: &ExecutionContext) -> Result<(), String> {
    if for_devices.is_some() {
        return Err("devices read the files of a scan whose rows the CPU would compute".into());
    }
    if context.memory_limit != usize::MAX && context.spill.enabled {
        return Err("rows that exceed warpmill.memory_limit are put aside by the CPU".into());
    }
    Ok(())
}

/// The partitioning of a program for a number of devices, if the context permits it.
fn partition(
    program: &Arc<Program>,
    for_devices: Option<&DeviceProgram>,
    devices: usize,
    context: &ExecutionContext,
) -> Result<Arc<Partition>, String> {
    with_other_sites(for_devices, context)?;
    let known = program.derived.get::<Partitions>();
    let mut known = known.0.lock();
    // Tests make one for every seed.
    if known.len() > MOST_PARTITIONS {
        known.clear();
    }
    let shuffles = exchange::may_send(context, devices);
    let key = PartitionKey { devices, shuffles, seed: context.placement_seed };
    let made = known.entry(key).or_insert_with(|| {
        let rates = PartitionRates::new(
            &warpmill_machine::current().cpu,
            &device::rates(context.device, &context.ordinals, context.gpu_memory_limit),
        );
        Partition::new(program, (devices, rates), (shuffles, context.placement_seed)).map(Arc::new)
    });
    let made = made.clone().map_err(|reason| reason.to_string())?;
    let is_asked = context.granularity == Granularity::Range || context.placement_seed.is_some();
    if !is_asked && !made.cost.may_gain() {
        return Err(
            "the CPU's share of a division into parts would take longer than the whole program on one device".into()
        );
    }
    Ok(made)
}

/// Partitions that are kept with a program.
const MOST_PARTITIONS: usize = 16;

/// Whether several devices run parts of a program.
fn parting(program: &Program, context: &ExecutionContext) -> Sharing {
    match context.granularity {
        Granularity::Program | Granularity::Segment => Sharing::No,
        Granularity::Auto if context.placement_seed.is_none() => program.derived.get::<Trials>().sharing(true),
        Granularity::Auto | Granularity::Range => Sharing::Yes,
    }
}

/// Whether sites share a program's shareable pipeline: measurements, and tests with a fixed placement, get what they request.
fn sharing(program: &Program, context: &ExecutionContext) -> Sharing {
    match context.granularity {
        Granularity::Program | Granularity::Range => Sharing::No,
        _ if context.placement_seed.is_some() || context.claim_unit != ClaimUnit::Groups => Sharing::Yes,
        asked => program.derived.get::<Trials>().sharing(asked == Granularity::Segment),
    }
}

/// The state of a device's preparation of a program. Programs that read files themselves, or external rows, run at once: the CPU would read the same
/// data in another way.
fn readiness(
    site: Site,
    program: &Arc<Program>,
    for_devices: Option<&DeviceProgram>,
    context: &ExecutionContext,
) -> Readiness {
    let (Site::Device(number), None) = (site, for_devices) else { return Readiness::Ready };
    if program.pipelines.iter().any(|pipeline| matches!(pipeline.source, Source::Input { .. })) {
        return Readiness::Ready;
    }
    let warmth = program.derived.get::<Warmth>();
    let known = warmth.0.lock().get(&context.device_key(number)).copied();
    let is_ready = || executor(site, context).is_ok_and(|it| it.has_kernels(program, &context.device_options()));
    match known {
        Some(Preparation::Done) => Readiness::Ready,
        _ if is_ready() => Readiness::Ready,
        Some(Preparation::Begun(_)) => Readiness::Warming,
        None => Readiness::Unknown,
    }
}

/// Runs a program on a device in the background, so that its kernels are compiled, its data are loaded and its sizes are known: when no query runs, for
/// compilers slow queries down; or now, if the program has waited for that since an earlier run. Errors are ignored: the next run gets the same ones.
pub(crate) fn warm(site: Site, program: &Arc<Program>, context: &ExecutionContext) {
    let Site::Device(number) = site else { return };
    let (warmth, key) = (program.derived.get::<Warmth>(), context.device_key(number));
    let ticket = background::ticket();
    let known = *warmth.0.lock().entry(key).or_insert(Preparation::Begun(ticket));
    match known {
        Preparation::Done => return,
        Preparation::Begun(earlier) if earlier != ticket => return background::hasten(earlier),
        Preparation::Begun(_) => {}
    }
    let warming = Warming { warmth: warmth.clone(), key, has_begun: false };
    let (program, options) = (program.clone(), context.device_options());
    let executor = executor(site, context);
    background::spawn_when_idle(ticket, move |cancel| {
        let mut warming = warming;
        warming.has_begun = true;
        if let Ok(executor) = executor {
            drop(executor.execute(&program, &[], &Options { cancel, ..options }));
        }
    });
}

/// A device's preparation; when dropped, it has been tried, or was never begun.
struct Warming {
    warmth: Arc<Warmth>,
    key: DeviceKey,
    has_begun: bool,
}

impl Drop for Warming {
    fn drop(&mut self) {
        let mut known = self.warmth.0.lock();
        if self.has_begun {
            known.insert(self.key, Preparation::Done);
        } else {
            known.remove(&self.key);
        }
    }
}

/// The executor of a device site, or the reason why there is none.
fn executor(site: Site, context: &ExecutionContext) -> Result<Arc<Executor>, String> {
    match site {
        Site::Cpu => Err("the CPU is no device".into()),
        Site::Device(number) => device::executor(context.device_key(number)),
    }
}

/// Starts devices on their fragments of a plan that shares a pipeline. Returns the CPU's part.
pub(crate) fn share(plan: &PlacedPlan, share: &Arc<Share>, context: &ExecutionContext) -> Parts {
    let devices = plan.devices().filter_map(|site| Some((site, executor(site, context).ok()?)));
    let devices: Vec<_> = devices.collect();
    let assigned = context.placement_seed.map(|seed| assign(seed, share.segments, devices.len() + 1));
    let together =
        Together::begin((share, &plan.program), devices, &context.device_options(), (context.claim_unit, assigned));
    Parts::beside(&plan.program, together)
}

/// Starts devices on their parts of a plan. Returns the CPU's part. An unavailable device is an error.
pub(crate) fn parts(plan: &PlacedPlan, partition: &Partition, context: &ExecutionContext) -> Result<Parts, Miss> {
    let of_site = |site| {
        let closed = |reason| Miss { site, reason, for_cpu: false };
        executor(site, context).map(|executor| (site, executor)).map_err(closed)
    };
    let devices = plan.devices().map(of_site).collect::<Result<Vec<_>, _>>()?;
    let key = |site: Site| match site {
        Site::Cpu => None,
        Site::Device(number) => Some(context.device_key(number)),
    };
    let keyed: Vec<_> = devices.iter().filter_map(|(site, executor)| Some((key(*site)?, executor.clone()))).collect();
    let options = context.device_options();
    let programs = partition.shuffle.as_ref().map_or(&partition.programs, |shuffle| &shuffle.firsts);
    let exchange = exchange::plan(&keyed, programs, (context.device_exchange, &options));
    let shuffle = partition.shuffle.as_ref().map(|shuffle| exchange::shuffle(&keyed, shuffle, context.device_exchange));
    let reads = exchange::reads(&keyed, partition, (context.device_exchange, &options));
    let of_device = |number: usize| {
        let peers = exchange.as_ref().map(|exchange| exchange.part(number));
        let options = Options { peers, reads: reads.get(number).cloned(), ..options.clone() };
        (options, shuffle.as_ref().map(|shuffle| shuffle.part(number)))
    };
    Ok(Parts::beside(&plan.program, Together::begin_parts(partition, devices, (&options.cancel, &of_device))))
}

/// A site for each row segment, at random: sometimes all at one, sometimes none at some.
fn assign(seed: u64, segments: usize, parties: usize) -> Vec<usize> {
    // SplitMix64.
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    };
    let taking: Vec<usize> = (0..parties).filter(|_| next() % 3 > 0).collect();
    let taking = if taking.is_empty() { vec![next() as usize % parties] } else { taking };
    (0..segments).map(|_| taking[next() as usize % taking.len()]).collect()
}

/// Runs a program on a device, which takes the inputs that it reads; after a miss they are there again.
pub(crate) fn on_device(
    site: Site,
    program: &Arc<Program>,
    (inputs, for_devices): (&mut [Option<InputStream>], Option<&DeviceProgram>),
    context: &ExecutionContext,
) -> Result<Attempt, EngineError> {
    let miss = |reason, for_cpu| Ok(Attempt::Missed(Miss { site, reason, for_cpu }));
    let executor = match executor(site, context) {
        Ok(executor) => executor,
        Err(reason) => return miss(reason, false),
    };
    let wanted: Vec<usize> = for_devices.map_or_else(|| (0..inputs.len()).collect(), |other| other.inputs.clone());
    let unread = unread_inputs(program);
    let collect = |input: Option<InputStream>| input.into_iter().flatten().collect::<Result<_, _>>();
    let batches: Vec<Vec<RecordBatch>> = wanted
        .iter()
        .map(|&input| collect(inputs[input].take().filter(|_| !unread.contains(&input))))
        .collect::<Result<_, _>>()
        .map_err(ExecError::Input)?;
    let for_device = for_devices.map_or(program, |other| &other.program);
    match executor.execute(for_device, &batches, &context.device_options()) {
        Ok(output) => {
            let mut owners = output.owners;
            // The CPU may read some of a split program's inputs.
            let inputs = batches.iter().map(|batches| Box::new(batches.clone().into_iter().map(Ok)) as InputStream);
            let inputs = inputs.collect();
            owners.push(Arc::new(batches));
            let (program, placed, profile) = (output.program, output.placed, Some(output.profile));
            let host_bytes = output.host_bytes;
            let (reason, together) = (None, None);
            let parts = Parts { program, placed, inputs, profile, reason, owners, host_bytes, together };
            Ok(Attempt::Done(Box::new(parts)))
        }
        Err(Failure::Exec(error)) => Err(error.into()),
        Err(failure) => {
            for (input, batches) in wanted.into_iter().zip(batches) {
                inputs[input] = Some(Box::new(batches.into_iter().map(Ok)));
            }
            match failure {
                Failure::Value(ERROR_DATA) => {
                    verify(for_device)?;
                    miss("pages of Parquet files that only the CPU takes for whole".into(), true)
                }
                Failure::Value(ERROR_GROUP) => miss("a function gives a group up".into(), true),
                failure => miss(failure.to_string(), matches!(failure, Failure::Value(_))),
            }
        }
    }
}

/// Decodes the Parquet files that `program` scans, to name the damage in them.
fn verify(program: &Program) -> Result<(), ExecError> {
    let scans = program.pipelines.iter().filter_map(|pipeline| match &pipeline.source {
        Source::Scan(scan) if scan.table.is_parquet() => Some(scan),
        _ => None,
    });
    for scan in scans {
        scan.table.verify()?;
    }
    Ok(())
}
