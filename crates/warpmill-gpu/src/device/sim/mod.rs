//! The simulated device: kernels run on the host, for correctness and never for timing.
//!
//! A kernel's CUDA C++ is compiled unchanged by the host's C++ compiler behind a prelude (`kernels/sim/`) and loaded as a shared object. Every thread
//! of a block is a fiber, blocks run in parallel over host threads, and behaviour that is undefined on a GPU is exposed: fresh device and shared
//! memory is poisoned, a barrier that not all threads reach is an error that names the threads, copies outside allocations fail.
//!
//! Restrictions on kernels beyond CUDA C++ without headers:
//! - dynamic shared memory is declared by `DYNAMIC_SHARED(type, name)`, the lanes before this one are `lane_mask_lt()`;
//! - no inline PTX, no textures, no cooperative groups; a helper that needs PTX has a twin under `#ifdef WARPMILL_SIM`;
//! - a loop that waits for another thread calls an atomic or `__nanosleep` each time around: lanes run one at a time and
//!   change only where they wait. A block may wait for blocks with lower numbers, never for higher ones;
//! - one-dimensional blocks of a multiple of 32 threads;
//! - no mutable `__device__` variables: a module is shared by all simulated devices of the process;
//! - a thread's stack has 64 KiB above a guard page; what crashes in a kernel crashes the process.
//!
//! Compiled kernels are kept below `$WARPMILL_CACHE_DIR`, `$XDG_CACHE_HOME/warpmill` or `~/.cache/warpmill`, in `sim/`.

mod batch;
mod cache;
mod compiler;
mod host;
mod memory;
mod module;
mod peers;
mod runtime;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use self::batch::HostBatches;
use self::compiler::Toolchain;
pub use self::compiler::{record_sources, recorded_sources};
pub use self::host::{HostFunction, HostLaunch, host_compiler, host_function};
use self::memory::{Memory, Reachable};
use self::module::Entry;
use self::peers::Peers;
pub use self::peers::SimPeers;
use super::batch::BatchCodec;
use super::{
    Device, DeviceError, DeviceKind, DeviceProperties, DevicePtr, Event, Function, KernelSource, LaunchShape, Module,
    PinnedBuffer, Reach, Result, Stream,
};

/// Largest number of bytes of dynamic and static shared memory per block, that of an H100.
const SHARED_PER_BLOCK: u32 = 227 << 10;

/// Largest number of threads per block.
const MAX_THREADS: u32 = 1024;

/// Options of a simulated device.
#[derive(Debug, Clone)]
pub struct SimOptions {
    /// Number among the simulated devices of the process.
    pub ordinal: usize,
    /// Bytes of device memory.
    pub memory_bytes: u64,
    /// Number of multiprocessors that it reports.
    pub multiprocessors: u32,
    /// Number of host threads that run the blocks of a launch.
    pub threads: usize,
    /// Compiles kernels with AddressSanitizer and UndefinedBehaviorSanitizer. Needs the former's runtime in the process.
    pub sanitize: bool,
    /// Runs lanes and warps in reverse order, which exposes missing barriers.
    pub reverse: bool,
    /// Provides a batch decompression library (the host's).
    pub batches: bool,
    /// Access to the memory of other simulated devices.
    pub peers: SimPeers,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            ordinal: 0,
            memory_bytes: 1 << 30,
            multiprocessors: 4,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            sanitize: false,
            reverse: false,
            batches: true,
            peers: SimPeers::default(),
        }
    }
}

/// A device that runs kernels on the host. Work is done synchronously, by the calling thread and its helpers.
#[derive(Debug)]
pub struct SimDevice {
    options: SimOptions,
    properties: DeviceProperties,
    toolchain: Arc<Toolchain>,
    memory: Arc<Mutex<Memory>>,
    reachable: Reachable,
    peers: Peers,
    /// The first error of each stream's work since it was last synchronized.
    streams: Mutex<HashMap<Stream, Option<DeviceError>>>,
    events: Mutex<HashMap<Event, Instant>>,
    next_handle: AtomicU64,
}

impl SimDevice {
    /// A device with its own memory. Fails if the host has no C++ compiler (or, with `sanitize`, no sanitizer is loaded).
    pub fn new(options: SimOptions) -> Result<Self> {
        let toolchain = Toolchain::shared(options.sanitize)?;
        Ok(Self::with_toolchain(options, toolchain))
    }

    fn with_toolchain(options: SimOptions, toolchain: Arc<Toolchain>) -> Self {
        let properties = DeviceProperties {
            kind: DeviceKind::Sim,
            ordinal: options.ordinal,
            name: "Warpmill simulated device".into(),
            arch: "sim".into(),
            multiprocessors: options.multiprocessors,
            memory_bytes: options.memory_bytes,
            l2_bytes: 8 << 20,
            shared_per_block: SHARED_PER_BLOCK,
            driver: String::new(),
        };
        Self {
            memory: Arc::new(Mutex::new(Memory::new(options.memory_bytes))),
            reachable: Reachable::default(),
            peers: Peers::default(),
            options,
            properties,
            toolchain,
            streams: Mutex::default(),
            events: Mutex::default(),
            next_handle: AtomicU64::new(1),
        }
    }

    fn handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether all earlier work on `stream` succeeded. Fails if `stream` does not exist.
    fn is_healthy(&self, stream: Stream, call: &'static str) -> Result<bool> {
        match self.streams.lock().get(&stream) {
            Some(error) => Ok(error.is_none()),
            None => Err(DeviceError::Call { call, detail: format!("there is no stream {}", stream.0) }),
        }
    }

    fn check_range(&self, ptr: DevicePtr, bytes: u64, call: &'static str) -> Result<()> {
        self.memory.lock().check(ptr, bytes).map_err(|detail| DeviceError::Call { call, detail })
    }

    fn instant(&self, event: Event, call: &'static str) -> Result<Instant> {
        let found = self.events.lock().get(&event).copied();
        found.ok_or_else(|| DeviceError::Call { call, detail: format!("there is no event {}", event.0) })
    }
}

/// Refuses launches that a GPU would refuse, and a parameter of the wrong size.
fn check_launch(entry: &Entry, shape: LaunchShape, params: &[u8]) -> Result<()> {
    let refuse = |detail| Err(DeviceError::Call { call: "launch", detail });
    let LaunchShape { blocks, threads, shared } = shape;
    if blocks == 0 || threads == 0 || threads > MAX_THREADS || !threads.is_multiple_of(32) {
        return refuse(format!("kernel {} with {blocks} blocks of {threads} threads", entry.name));
    }
    let wanted = u64::from(shared) + entry.static_shared();
    if wanted > u64::from(SHARED_PER_BLOCK) {
        return refuse(format!(
            "kernel {} wants {wanted} bytes of shared memory, a block has {SHARED_PER_BLOCK}",
            entry.name
        ));
    }
    if params.len() != entry.parameter_bytes as usize {
        return refuse(format!(
            "the parameter of kernel {} has {} bytes, {} were given",
            entry.name,
            entry.parameter_bytes,
            params.len()
        ));
    }
    Ok(())
}

impl Device for SimDevice {
    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn free_memory(&self) -> Result<u64> {
        Ok(self.memory.lock().free_bytes())
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePtr> {
        self.memory.lock().allocate(bytes)
    }

    unsafe fn free(&self, ptr: DevicePtr) {
        self.memory.lock().free(ptr);
    }

    fn pinned(&self, bytes: usize) -> Result<PinnedBuffer> {
        memory::pinned(bytes, &self.reachable)
    }

    fn mapped(&self, memory: &PinnedBuffer) -> Result<DevicePtr> {
        let at = memory.as_ptr() as DevicePtr;
        match self.reachable.lock().get(&at) {
            Some(bytes) if *bytes == memory.len() => Ok(at),
            _ => Err(DeviceError::Call { call: "map", detail: "host memory that is not of this device".into() }),
        }
    }

    fn compile(&self, source: &KernelSource) -> Result<Arc<dyn Module>> {
        Ok(Arc::new(self.toolchain.module(source)?))
    }

    fn has_code(&self, _: &KernelSource) -> bool {
        false
    }

    fn stream(&self) -> Result<Stream> {
        let stream = Stream(self.handle());
        self.streams.lock().insert(stream, None);
        Ok(stream)
    }

    fn destroy_stream(&self, stream: Stream) {
        if let Some(Some(error)) = self.streams.lock().remove(&stream) {
            tracing::error!(%error, "a stream was destroyed with an error that nobody asked for");
        }
    }

    unsafe fn copy_to_device(&self, dst: DevicePtr, src: &[u8], stream: Stream) -> Result<()> {
        const CALL: &str = "copy to device";
        self.check_range(dst, src.len() as u64, CALL)?;
        if self.is_healthy(stream, CALL)? {
            // SAFETY: `dst` was checked to be allocated, and host slices do not overlap device memory.
            unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), dst as *mut u8, src.len()) };
        }
        Ok(())
    }

    unsafe fn copy_to_host(&self, dst: &mut [u8], src: DevicePtr, stream: Stream) -> Result<()> {
        const CALL: &str = "copy to host";
        self.check_range(src, dst.len() as u64, CALL)?;
        if self.is_healthy(stream, CALL)? {
            // SAFETY: as in `copy_to_device`.
            unsafe { std::ptr::copy_nonoverlapping(src as *const u8, dst.as_mut_ptr(), dst.len()) };
        }
        Ok(())
    }

    unsafe fn copy_on_device(&self, dst: DevicePtr, src: DevicePtr, bytes: u64, stream: Stream) -> Result<()> {
        const CALL: &str = "copy on device";
        self.check_range(dst, bytes, CALL)?;
        self.check_range(src, bytes, CALL)?;
        if dst < src + bytes && src < dst + bytes && bytes > 0 {
            return Err(DeviceError::Call { call: CALL, detail: "the ranges overlap".into() });
        }
        if self.is_healthy(stream, CALL)? {
            // SAFETY: both ranges were checked to be allocated and not to overlap.
            unsafe { std::ptr::copy_nonoverlapping(src as *const u8, dst as *mut u8, bytes as usize) };
        }
        Ok(())
    }

    unsafe fn fill(&self, dst: DevicePtr, value: u8, bytes: u64, stream: Stream) -> Result<()> {
        const CALL: &str = "fill";
        self.check_range(dst, bytes, CALL)?;
        if self.is_healthy(stream, CALL)? {
            // SAFETY: the range was checked to be allocated.
            unsafe { std::ptr::write_bytes(dst as *mut u8, value, bytes as usize) };
        }
        Ok(())
    }

    unsafe fn launch(&self, function: &Function, shape: LaunchShape, params: &[u8], stream: Stream) -> Result<()> {
        // SAFETY: handles of this device's functions are addresses of entries of the module that the function keeps alive.
        let entry = unsafe { &*(function.handle as *const Entry) };
        check_launch(entry, shape, params)?;
        if !self.is_healthy(stream, "launch")? {
            return Ok(());
        }
        // SAFETY: the parameter has the size that the kernel expects; its addresses are the caller's promise.
        let outcome = unsafe { entry.launch(shape, params, self.options.threads, self.options.reverse) };
        if let Err(error) = outcome {
            self.streams.lock().insert(stream, Some(error));
        }
        Ok(())
    }

    fn occupancy(&self, _function: &Function, _threads: u32, _shared: u32) -> Result<u32> {
        Ok(2)
    }

    fn synchronize(&self, stream: Stream) -> Result<()> {
        match self.streams.lock().get_mut(&stream) {
            Some(error) => error.take().map_or(Ok(()), Err),
            None => Err(DeviceError::Call { call: "synchronize", detail: format!("there is no stream {}", stream.0) }),
        }
    }

    fn record(&self, stream: Stream) -> Result<Event> {
        self.is_healthy(stream, "record")?;
        let event = Event(self.handle());
        self.events.lock().insert(event, Instant::now());
        Ok(event)
    }

    fn wait(&self, stream: Stream, event: Event) -> Result<()> {
        self.is_healthy(stream, "wait")?;
        self.instant(event, "wait").map(drop)
    }

    fn finish(&self, event: Event) -> Result<()> {
        // Work completes when it is queued.
        self.instant(event, "finish").map(drop)
    }

    fn elapsed_ms(&self, start: Event, end: Event) -> Result<f32> {
        let (start, end) = (self.instant(start, "elapsed")?, self.instant(end, "elapsed")?);
        Ok(end.saturating_duration_since(start).as_secs_f32() * 1e3)
    }

    fn destroy_event(&self, event: Event) {
        self.events.lock().remove(&event);
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn reach(&self, source: &dyn Device) -> std::result::Result<Reach, String> {
        self.reach_peer(source)
    }

    unsafe fn copy_from_peer(
        &self,
        dst: DevicePtr,
        (source, src): (&dyn Device, DevicePtr),
        bytes: u64,
        stream: Stream,
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.copy_from(dst, (source, src), bytes, stream) }
    }

    fn wait_for_peer(&self, stream: Stream, other: &dyn Device, event: Event) -> Result<()> {
        self.wait_for(stream, other, event)
    }

    fn batch_codec(&self) -> std::result::Result<Arc<dyn BatchCodec>, String> {
        match self.options.batches {
            true => Ok(Arc::new(HostBatches { memory: self.memory.clone() })),
            false => Err("this simulated device has no library that decompresses".into()),
        }
    }
}
