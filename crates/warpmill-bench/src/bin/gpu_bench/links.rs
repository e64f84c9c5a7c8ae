//! `gpu_bench links [--out FILE] [--runs N] [--minutes M] [--nccl PATH] [--logical N | --sim N]`.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warpmill_bench::links::{self, LinkOptions};
use warpmill_gpu::device::Device;
use warpmill_gpu::device::cuda::CudaDevice;
use warpmill_gpu::device::sim::{SimDevice, SimOptions};

/// Time that a step may exceed the limit before the process is ended.
const GRACE: Duration = Duration::from_secs(30);

/// The devices to measure.
enum Devices {
    /// All GPUs.
    All,
    /// A number of logical devices on the first GPU.
    Logical(usize),
    /// A number of simulated devices.
    Simulated(usize),
}

impl Devices {
    fn open(&self) -> Result<Vec<Arc<dyn Device>>, Box<dyn Error>> {
        let gpu = |ordinal| -> Result<Arc<dyn Device>, Box<dyn Error>> { Ok(CudaDevice::open(ordinal)?) };
        let simulated = |ordinal| -> Result<Arc<dyn Device>, Box<dyn Error>> {
            Ok(Arc::new(SimDevice::new(SimOptions { ordinal, memory_bytes: 64 << 20, ..SimOptions::default() })?))
        };
        let devices = match *self {
            Self::All => (0..CudaDevice::count()?).map(gpu).collect::<Result<Vec<_>, _>>()?,
            Self::Logical(count) => (0..count).map(|_| gpu(0)).collect::<Result<_, _>>()?,
            Self::Simulated(count) => (0..count).map(simulated).collect::<Result<_, _>>()?,
        };
        match devices.len() {
            0 | 1 => Err(format!(
                "links are between at least 2 devices, there are {}: --logical N takes N logical devices on one GPU",
                devices.len()
            )
            .into()),
            _ => Ok(devices),
        }
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<(Devices, LinkOptions), Box<dyn Error>> {
    let (mut devices, mut runs) = (Devices::All, None);
    let (mut limit, mut nccl, mut out) = (None, None, None);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--out" => out = Some(value()?.into()),
            "--runs" => runs = Some(value()?.parse::<usize>()?.max(1)),
            "--minutes" => limit = Some(Duration::try_from_secs_f64(60.0 * value()?.parse::<f64>()?)?),
            "--nccl" => nccl = Some(value()?.into()),
            "--logical" => devices = Devices::Logical(value()?.parse()?),
            "--sim" => devices = Devices::Simulated(value()?.parse()?),
            other => return Err(format!("links has no option {other}").into()),
        }
    }
    let sizes = if matches!(devices, Devices::Simulated(_)) { LinkOptions::small() } else { LinkOptions::default() };
    let until = limit.map(|limit| Instant::now() + limit);
    Ok((devices, LinkOptions { runs: runs.unwrap_or(sizes.runs), until, nccl, out, ..sizes }))
}

/// Ends the process when a step hangs beyond the limit: results are written after every step.
fn watch(until: Instant) {
    std::thread::spawn(move || {
        std::thread::sleep((until + GRACE).saturating_duration_since(Instant::now()));
        eprintln!("a step does not end; results of the others are kept");
        std::process::exit(3);
    });
}

/// Measures links. Returns whether all data arrived correctly.
pub fn run(args: impl Iterator<Item = String>) -> Result<bool, Box<dyn Error>> {
    // SAFETY: the process has no other threads yet. NCCL reads it when it is loaded.
    unsafe { std::env::set_var("NCCL_NVLS_ENABLE", "0") };
    let (devices, options) = parse(args)?;
    if let Some(until) = options.until {
        watch(until);
    }
    let start = Instant::now();
    let report = links::run(&devices.open()?, &options)?;
    let (seconds, failures) = (start.elapsed().as_secs_f64(), report.failures());
    println!("{} figures, {failures} steps without one, {seconds:.1} s", report.figures.len() - failures);
    if !report.complete {
        println!("the time was not enough for all steps");
    }
    Ok(report.all_verified())
}
