//! Which device a query runs on, and the process's executors.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use warpmill_gpu::device::Device;
use warpmill_gpu::device::cuda::CudaDevice;
use warpmill_gpu::device::sim::{SimDevice, SimOptions};
use warpmill_gpu::execute::Executor;

/// Where programs are run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum DeviceChoice {
    /// On the GPU where there is one that can run the program, otherwise on the CPU.
    #[default]
    Auto,
    /// On the CPU.
    Cpu,
    /// On the GPU; on the CPU only what the GPU cannot run.
    Gpu,
    /// On the simulated device (for tests).
    Sim,
}

/// Device memory of the simulated device, unless a limit says otherwise.
const SIM_MEMORY: u64 = 4 << 30;

type Opened = Result<Arc<Executor>, String>;

/// The executor for `choice` (not `Cpu`), which may use `memory` bytes (0: nearly all) of its device; or why there is none.
pub(crate) fn executor(choice: DeviceChoice, memory: u64) -> Opened {
    static EXECUTORS: LazyLock<Mutex<HashMap<(bool, u64), Opened>>> = LazyLock::new(Mutex::default);
    let sim = choice == DeviceChoice::Sim;
    EXECUTORS.lock().entry((sim, memory)).or_insert_with(|| open(sim, memory)).clone()
}

fn open(sim: bool, memory: u64) -> Opened {
    let device: Arc<dyn Device> = if sim {
        let memory_bytes = if memory == 0 { SIM_MEMORY } else { memory };
        let options = SimOptions { memory_bytes, ..SimOptions::default() };
        Arc::new(SimDevice::new(options).map_err(|error| error.to_string())?)
    } else {
        CudaDevice::open(0).map_err(|error| error.to_string())?
    };
    let usable = warpmill_gpu::execute::default_memory(&*device).map_err(|error| error.to_string())?;
    let memory = if memory == 0 { usable } else { memory.min(usable) };
    Executor::new(device, memory).map(Arc::new).map_err(|error| error.to_string())
}
