//! The devices of queries, and the process's executors.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use warpmill_gpu::Executor;
use warpmill_gpu::device::cuda::{CudaDevice, nvcomp, nvrtc};
use warpmill_gpu::device::group::{DeviceGroup, Link};
use warpmill_gpu::device::sim::{SimDevice, SimOptions};
use warpmill_gpu::device::{Device, DeviceProperties};
use warpmill_gpu::run::calibrate;
use warpmill_machine::DeviceRates;
use warpmill_place::Topology;

use crate::background;

/// The choice of site for programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum DeviceChoice {
    /// On a GPU that can run the program, otherwise on the CPU.
    #[default]
    Auto,
    /// On the CPU.
    Cpu,
    /// On the GPU; on the CPU only programs that the GPU cannot run.
    Gpu,
    /// On the simulated device (for tests).
    Sim,
}

/// The devices that run programs together: GPUs by ordinal, or simulated devices by number. A GPU listed several times acts as several logical
/// devices (for tests).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ordinals {
    list: [u8; MOST_DEVICES],
    count: u8,
}

/// Largest number of devices of a process.
pub const MOST_DEVICES: usize = 16;

impl Default for Ordinals {
    fn default() -> Self {
        Self { list: [0; MOST_DEVICES], count: 1 }
    }
}

impl Ordinals {
    /// The devices with these ordinals; `None` for an empty list, and for more than [`MOST_DEVICES`].
    pub fn new(ordinals: &[u8]) -> Option<Self> {
        let mut list = [0; MOST_DEVICES];
        list.get_mut(..ordinals.len())?.copy_from_slice(ordinals);
        (!ordinals.is_empty()).then_some(Self { list, count: ordinals.len() as u8 })
    }

    /// In order.
    pub fn as_slice(&self) -> &[u8] {
        &self.list[..usize::from(self.count)]
    }
}

/// A device of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DeviceKey {
    sim: bool,
    ordinal: u8,
    /// The number of the logical device on that GPU.
    logical: u8,
    /// Largest number of bytes of its memory to use; 0: nearly all.
    memory: u64,
}

impl DeviceKey {
    /// Device `number` of the devices of `choice`.
    pub fn new(choice: DeviceChoice, ordinals: &Ordinals, number: u16, memory: u64) -> Self {
        let all = ordinals.as_slice();
        let (before, rest) = all.split_at(usize::from(number).min(all.len() - 1));
        let logical = before.iter().filter(|&&other| other == rest[0]).count() as u8;
        Self { sim: choice == DeviceChoice::Sim, ordinal: rest[0], logical, memory }
    }
}

/// Device memory of the simulated device, unless a limit says otherwise.
const SIM_MEMORY: u64 = 4 << 30;

type Opened<T = Arc<Executor>> = Result<T, String>;

/// Executors by device, or the reason why there is none and the time after which opening is tried again.
type Executors<T = Arc<Executor>> = HashMap<DeviceKey, (Opened<T>, Instant)>;

static EXECUTORS: LazyLock<Mutex<Executors>> = LazyLock::new(Mutex::default);

/// Shortest time before a device that could not be opened is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// The same as a multiple of the time of the last attempt: queries wait for it.
const PATIENCE: u32 = 50;

/// The name of the device of `choice` in profiles and messages.
pub(crate) fn device_name(choice: DeviceChoice) -> &'static str {
    match choice {
        DeviceChoice::Sim => "sim",
        DeviceChoice::Auto | DeviceChoice::Gpu => "gpu",
        DeviceChoice::Cpu => "cpu",
    }
}

/// The executor of a device, or the reason why there is none.
pub(crate) fn executor(key: DeviceKey) -> Opened {
    opened(&mut EXECUTORS.lock(), key, || open(key))
}

/// Looks up the executor under `key`; opens it if missing, and again some time after a failure, which may have been caused by another process's use
/// of memory.
fn opened<T: Clone>(all: &mut Executors<T>, key: DeviceKey, open: impl FnOnce() -> Opened<T>) -> Opened<T> {
    match all.get(&key) {
        Some((Ok(found), _)) => return Ok(found.clone()),
        Some((Err(reason), again)) if Instant::now() < *again => return Err(reason.clone()),
        _ => {}
    }
    let begun = Instant::now();
    let found = open();
    all.insert(key, (found.clone(), Instant::now() + RETRY.max(PATIENCE * begun.elapsed())));
    found
}

/// The sites of programs under `choice`: the CPU, and the devices, which are opened if necessary with `memory` bytes each.
pub(crate) fn topology(choice: DeviceChoice, ordinals: &Ordinals, memory: u64) -> Topology {
    let count = if choice == DeviceChoice::Cpu { 0 } else { ordinals.as_slice().len() as u16 };
    let key = |number| DeviceKey::new(choice, ordinals, number, memory);
    Topology::new((0..count).map(|number| (device_name(choice), executor(key(number)).err())))
}

/// The rates of the GPUs of `choice` in the hardware profile. Simulated devices have none: their times mean nothing.
pub(crate) fn rates(choice: DeviceChoice, ordinals: &Ordinals, memory: u64) -> Vec<DeviceRates> {
    if !matches!(choice, DeviceChoice::Auto | DeviceChoice::Gpu) {
        return vec![];
    }
    let profile = warpmill_machine::current();
    let all = (0..ordinals.as_slice().len() as u16).map(|number| DeviceKey::new(choice, ordinals, number, memory));
    all.filter_map(|key| Some(profile.device(&executor(key).ok()?.device().properties().name))).collect()
}

/// The same without waiting for devices: closed ones are opened in the background, and are not sites until then.
pub(crate) fn topology_by_now(choice: DeviceChoice, ordinals: &Ordinals, memory: u64) -> Topology {
    let count = if choice == DeviceChoice::Cpu { 0 } else { ordinals.as_slice().len() as u16 };
    let key = |number| DeviceKey::new(choice, ordinals, number, memory);
    Topology::new((0..count).map(|number| (device_name(choice), executor_by_now(key(number)).err())))
}

/// Devices that are being opened in the background.
static OPENING: Mutex<BTreeSet<DeviceKey>> = Mutex::new(BTreeSet::new());

/// The executor of an open device, or the reason why it is not open yet.
fn executor_by_now(key: DeviceKey) -> Opened {
    let being_opened = || Err("it is being opened".to_owned());
    // Another thread may hold the lock while it opens a device.
    let Some(all) = EXECUTORS.try_lock_for(BRIEFLY) else { return being_opened() };
    match all.get(&key) {
        Some((Ok(found), _)) => return Ok(found.clone()),
        Some((Err(reason), again)) if Instant::now() < *again => return Err(reason.clone()),
        _ => drop(all),
    }
    if OPENING.lock().insert(key) {
        let done = Opening(key);
        // If no thread can be started, the next query tries again.
        background::spawn_opening(move || {
            let _done = done;
            drop(executor(key));
            background::at_exit_first();
        });
    }
    being_opened()
}

/// The time that a query waits to see which devices are open.
const BRIEFLY: Duration = Duration::from_millis(1);

/// A device that is being opened, however that ends.
struct Opening(DeviceKey);

impl Drop for Opening {
    fn drop(&mut self) {
        OPENING.lock().remove(&self.0);
    }
}

/// Whether one of the devices of `choice` is open; closed ones are opened in the background.
pub fn has_open_device(choice: DeviceChoice, ordinals: &Ordinals, memory: u64) -> bool {
    topology_by_now(choice, ordinals, memory).devices().any(|spec| spec.closed.is_none())
}

/// Whether programs run on one of the devices of `choice`, with `memory` bytes of its memory (0: nearly all).
pub fn has_device(choice: DeviceChoice, ordinals: &Ordinals, memory: u64) -> bool {
    topology(choice, ordinals, memory).devices().any(|spec| spec.closed.is_none())
}

fn open(DeviceKey { sim, ordinal, memory, .. }: DeviceKey) -> Opened {
    let device: Arc<dyn Device> = if sim {
        let memory_bytes = if memory == 0 { SIM_MEMORY } else { memory };
        // For tests of this project: an out-of-bounds access of a program ends the process with a report.
        let sanitize = std::env::var_os("WARPMILL_SIM_SANITIZE").is_some();
        let (ordinal, batches) = (ordinal.into(), !nvcomp::version::is_off());
        let options = SimOptions { ordinal, memory_bytes, sanitize, batches, ..SimOptions::default() };
        Arc::new(SimDevice::new(options).map_err(|error| error.to_string())?)
    } else {
        CudaDevice::open(ordinal.into()).map_err(|error| error.to_string())?
    };
    let usable = warpmill_gpu::default_memory(&*device).map_err(|error| error.to_string())?;
    let memory = if memory == 0 { usable } else { memory.min(usable) };
    Executor::new(device, memory).map(Arc::new).map_err(|error| error.to_string())
}

/// Makes the devices of the process forget the data that they keep between queries: the next query copies it again. Waits for
/// programs that run.
pub fn clear_device_caches() {
    let opened: Vec<_> = EXECUTORS.lock().values().filter_map(|(opened, _)| opened.clone().ok()).collect();
    opened.iter().for_each(|executor| executor.clear_cache());
}

/// The equipment of this machine that programs can run on.
#[derive(Debug, Clone, Serialize)]
pub struct Devices {
    /// The GPUs; empty if `no_gpu` is set.
    pub gpus: Vec<Gpu>,
    /// The reason why there is no GPU.
    pub no_gpu: Option<String>,
    /// The links between them, one for each direction that was checked.
    pub links: Vec<GpuLink>,
    /// The library that compiles kernels for GPUs.
    pub nvrtc: Option<NvrtcLibrary>,
    /// The reason why kernels cannot be compiled for GPUs.
    pub no_nvrtc: Option<String>,
    /// The library that decompresses Zstd, Deflate, GDeflate and Gzip on GPUs.
    pub nvcomp: Option<NvcompLibrary>,
    /// The reason why there is none: the host decompresses then.
    pub no_nvcomp: Option<String>,
    /// The reason why there is no simulated device (it needs a C++ compiler).
    pub no_simulated_device: Option<String>,
    /// The device that runs programs under `warpmill.device = 'auto'`: `gpu` or `cpu`.
    pub default: &'static str,
}

/// A GPU.
#[derive(Debug, Clone, Serialize)]
pub struct Gpu {
    /// Properties of the device.
    #[serde(flatten)]
    pub properties: DeviceProperties,
    /// Bytes of its memory that are free now.
    pub free_bytes: u64,
}

/// The link from one GPU to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuLink {
    /// The ordinal of the source.
    pub source: usize,
    /// The ordinal of the destination.
    pub destination: usize,
    /// The reason why data are sent through the host's page-locked memory; `None`: the destination reads the source's memory.
    pub staged: Option<String>,
}

/// An installed NVRTC.
#[derive(Debug, Clone, Serialize)]
pub struct NvrtcLibrary {
    /// The CUDA release it belongs to.
    pub version: String,
    /// Path of its file, if known.
    pub path: Option<PathBuf>,
}

/// An installed nvCOMP.
#[derive(Debug, Clone, Serialize)]
pub struct NvcompLibrary {
    /// Version of the library.
    pub version: String,
    /// The CUDA release that it was built with.
    pub cuda: String,
    /// Path of its file, if known.
    pub path: Option<PathBuf>,
}

/// Looks for devices, compilers and codecs.
pub fn devices() -> Devices {
    let opened = CudaDevice::count().and_then(|count| (0..count).map(gpu).collect::<Result<Vec<_>, _>>());
    let (gpus, no_gpu) = match opened {
        Ok(gpus) => (gpus, None),
        Err(error) => (vec![], Some(error.to_string())),
    };
    let links = links(&gpus);
    let (nvrtc, no_nvrtc) = (nvrtc::available().ok(), no_compiler(gpus.first().map(|gpu| &gpu.properties)));
    let (nvcomp, no_nvcomp) = match nvcomp::available() {
        Ok(nvcomp::version::NvcompVersion { version, cuda, path }) => {
            (Some(NvcompLibrary { version, cuda, path }), None)
        }
        Err(reason) => (None, Some(reason)),
    };
    Devices {
        default: if gpus.is_empty() || no_nvrtc.is_some() { "cpu" } else { "gpu" },
        gpus,
        no_gpu,
        links,
        nvrtc: nvrtc.map(|found| NvrtcLibrary { version: found.to_string(), path: found.path }),
        no_nvrtc,
        nvcomp,
        no_nvcomp,
        no_simulated_device: SimDevice::new(SimOptions::default()).err().map(|error| error.to_string()),
    }
}

/// Measures the GPUs of this machine, one per name, for the hardware profile, or returns the reason for a failure.
pub fn device_rates() -> Vec<Result<DeviceRates, String>> {
    let Ok(count) = CudaDevice::count() else { return vec![] };
    let mut names = BTreeSet::new();
    let open = |ordinal| CudaDevice::open(ordinal).map_err(|error| format!("GPU {ordinal}: {error}"));
    (0..count)
        .map(|ordinal| {
            let device: Arc<dyn Device> = open(ordinal)?;
            if !names.insert(device.properties().name.clone()) {
                return Ok(None);
            }
            calibrate::device_rates(&device).map(Some).map_err(|error| format!("GPU {ordinal}: {error}"))
        })
        .filter_map(Result::transpose)
        .collect()
}

/// The reason why no kernels can be compiled for GPUs, or none that the driver of `gpu` accepts.
pub(crate) fn no_compiler(gpu: Option<&DeviceProperties>) -> Option<String> {
    let nvrtc = match nvrtc::available() {
        Ok(nvrtc) => nvrtc,
        Err(error) => return Some(error.to_string()),
    };
    let driver = &gpu?.driver;
    let major: u32 = driver.split('.').next()?.parse().ok()?;
    let found = nvrtc.major;
    (found > major)
        .then(|| format!("NVRTC {nvrtc} needs a driver for CUDA {found}.0 or later, this one is for {driver}"))
}

/// The links between GPUs, each tested by copying a pattern.
fn links(gpus: &[Gpu]) -> Vec<GpuLink> {
    let opened =
        gpus.iter().map(|gpu| CudaDevice::open(gpu.properties.ordinal).map(|device| device as Arc<dyn Device>));
    let Ok(devices) = opened.collect::<Result<Vec<_>, _>>() else { return vec![] };
    let group = DeviceGroup::new(devices);
    let number = |at: usize| gpus[at].properties.ordinal;
    let pairs = (0..gpus.len()).flat_map(|source| (0..gpus.len()).map(move |destination| (source, destination)));
    let link = |(source, destination): (usize, usize)| GpuLink {
        source: number(source),
        destination: number(destination),
        staged: match group.link(source, destination) {
            Link::Own | Link::Direct => None,
            Link::Staged(reason) => Some(reason.clone()),
        },
    };
    pairs.filter(|(source, destination)| source != destination).map(link).collect()
}

fn gpu(ordinal: usize) -> warpmill_gpu::device::Result<Gpu> {
    let device = CudaDevice::open(ordinal)?;
    Ok(Gpu { properties: device.properties().clone(), free_bytes: device.free_memory()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_opened_again_after_a_while() {
        let (mut all, key) = (HashMap::new(), DeviceKey::new(DeviceChoice::Sim, &Ordinals::default(), 0, 0));
        let later = |all: &mut Executors<u8>| all.get_mut(&key).unwrap().1 = Instant::now();
        assert_eq!(opened(&mut all, key, || Err("no memory".to_string())), Err("no memory".to_string()));
        assert_eq!(opened(&mut all, key, || Ok(1)), Err("no memory".to_string()));
        later(&mut all);
        assert_eq!(opened(&mut all, key, || Ok(2)), Ok(2));
        later(&mut all);
        assert_eq!(opened(&mut all, key, || Err("never".to_string())), Ok(2));
    }

    #[test]
    fn a_device_that_is_named_twice_is_two_logical_ones() {
        let ordinals = Ordinals::new(&[1, 0, 1]).unwrap();
        let keys = [0, 1, 2].map(|number| DeviceKey::new(DeviceChoice::Gpu, &ordinals, number, 7));
        assert_eq!(keys.map(|key| (key.ordinal, key.logical)), [(1, 0), (0, 0), (1, 1)]);
        assert!(Ordinals::new(&[]).is_none() && Ordinals::new(&[0; MOST_DEVICES + 1]).is_none());
    }

    #[test]
    fn what_takes_long_to_fail_is_tried_seldom() {
        let (mut all, key) = (HashMap::new(), DeviceKey::new(DeviceChoice::Gpu, &Ordinals::default(), 0, 0));
        let slow = || {
            std::thread::sleep(Duration::from_millis(100));
            Err::<u8, _>("a broken driver".to_string())
        };
        opened(&mut all, key, slow).unwrap_err();
        assert!(all[&key].1 > Instant::now() + Duration::from_secs(4));
    }
}
