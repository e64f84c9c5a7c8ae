//! Devices: memory, copies, kernels and streams behind one trait with two implementations.
//!
//! [`CudaDevice`](cuda::CudaDevice) drives a real GPU; [`SimDevice`](sim::SimDevice) compiles the same kernel source with the
//! host's C++ compiler and runs thread blocks as cooperative fibers, so that every kernel is tested on machines without a
//! GPU. Nothing above this module knows which one it runs on.

pub mod batch;
pub mod cuda;
mod error;
pub mod exchange;
pub mod group;
pub mod kernel;
pub(crate) mod kernel_cache;
pub mod priority;
mod pull;
pub mod sim;

use std::sync::Arc;

use self::batch::BatchCodec;
pub use error::{DeviceError, Result};

/// An address in device memory (on the simulated device, in the host process).
pub type DevicePtr = u64;

/// The implementation of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// An NVIDIA GPU.
    Cuda,
    /// The simulated device: for correctness, never for timing.
    Sim,
}

/// The properties of a device.
#[derive(Debug, Clone, serde::Serialize)]
pub struct DeviceProperties {
    /// The implementation.
    pub kind: DeviceKind,
    /// Number among the devices of its kind.
    pub ordinal: usize,
    /// The vendor's name.
    pub name: String,
    /// Compilation target: `sm_90`, or `sim`.
    pub arch: String,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of device memory.
    pub memory_bytes: u64,
    /// Bytes of the L2 cache.
    pub l2_bytes: u64,
    /// Largest number of bytes of shared memory per block.
    pub shared_per_block: u32,
    /// Version of the driver (`13.0`); empty on the simulated device.
    pub driver: String,
}

/// CUDA C++ with `extern "C" __global__` entry points.
///
/// Every entry point takes exactly one parameter, a plain struct by value, so that a launch passes bytes. The text is complete except for the prelude
/// that a device prepends: fixed-width integer names (`u8`, `u16`, `u32`, `u64`, `i8` to `i64`, `i128`, `u128`), see `kernels/prelude.cuh` and, for
/// the simulated device, `kernels/sim/prelude.h`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KernelSource {
    /// The text.
    pub text: String,
    /// Names of the entry points.
    pub entries: Vec<String>,
}

/// A compiled and loaded [`KernelSource`].
pub trait Module: Send + Sync + std::fmt::Debug {
    /// The entry point `name`. Fails if the source did not list it.
    fn function(&self, name: &str) -> Result<Function>;

    /// The origin of the module.
    fn build(&self) -> &BuildInfo;
}

/// The origin of a module.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct BuildInfo {
    /// How it was obtained.
    pub origin: BuildOrigin,
    /// Nanoseconds from source to loaded module.
    pub nanos: u64,
    /// Bytes of machine code.
    pub code_bytes: u64,
}

/// How a compiled module was obtained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BuildOrigin {
    /// Newly compiled.
    #[default]
    Compiled,
    /// Loaded from the cache on disk.
    Disk,
    /// Already loaded by this process.
    Memory,
}

/// An entry point of a module, ready to launch. Keeps its module loaded.
#[derive(Debug, Clone)]
pub struct Function {
    /// The module, kept alive.
    pub module: Arc<dyn Module>,
    /// A handle for the device that made it.
    pub handle: u64,
    /// The name in messages and profiles.
    pub name: Arc<str>,
    /// Registers per thread (0 on the simulated device).
    pub registers: u32,
    /// Bytes of static shared memory per block.
    pub static_shared: u32,
    /// Bytes of local memory (spills, indexed arrays) per thread.
    pub local: u32,
}

/// Shape of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchShape {
    /// Thread blocks (one dimension).
    pub blocks: u32,
    /// Threads per block: a multiple of 32.
    pub threads: u32,
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
}

/// A queue of device work, executed in order. Handles are cheap copies and die with their device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream(pub u64);

/// How a device accesses the memory of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Both are the same device: logical devices on one GPU.
    Own,
    /// Peer access.
    Peer,
}

/// A point in a stream's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Event(pub u64);

/// Page-locked host memory, which asynchronous copies need. Freed on drop.
pub struct PinnedBuffer {
    ptr: *mut u8,
    len: usize,
    free: Option<Box<dyn FnOnce(*mut u8) + Send>>,
}

// SAFETY: plain memory, owned by the buffer.
unsafe impl Send for PinnedBuffer {}
// SAFETY: `&self` gives shared reads only.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    /// Takes ownership of `len` bytes at `ptr`, which `free` frees.
    ///
    /// # Safety
    /// `ptr` points to `len` initialized bytes that are not used elsewhere until `free` is called with it.
    pub unsafe fn from_raw(ptr: *mut u8, len: usize, free: Box<dyn FnOnce(*mut u8) + Send>) -> Self {
        Self { ptr, len, free: Some(free) }
    }
}

impl std::ops::Deref for PinnedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `from_raw`'s contract.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

impl std::ops::DerefMut for PinnedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `from_raw`'s contract, and `&mut self`.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        if let Some(free) = self.free.take() {
            free(self.ptr);
        }
    }
}

impl std::fmt::Debug for PinnedBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PinnedBuffer({} bytes)", self.len)
    }
}

/// A device.
///
/// Work is asynchronous: copies, fills and launches are queued on a [`Stream`] and errors of earlier work may surface in
/// any later call. All methods may be called from any thread.
pub trait Device: Send + Sync + std::fmt::Debug {
    /// The properties.
    fn properties(&self) -> &DeviceProperties;

    /// Bytes of device memory that can be allocated now.
    fn free_memory(&self) -> Result<u64>;

    /// Allocates `bytes` bytes, at least 256-byte aligned. Slow: callers allocate large regions and divide them.
    fn allocate(&self, bytes: u64) -> Result<DevicePtr>;

    /// Frees an allocation.
    ///
    /// # Safety
    /// `ptr` came from [`Device::allocate`] of this device and no queued work uses it.
    unsafe fn free(&self, ptr: DevicePtr);

    /// Allocates page-locked host memory (zeroed).
    fn pinned(&self, bytes: usize) -> Result<PinnedBuffer>;

    /// The address by which kernels access page-locked memory of this device over the link, valid as long as `memory` lives.
    fn mapped(&self, memory: &PinnedBuffer) -> Result<DevicePtr>;

    /// Compiles `source`, or finds it in a cache, and loads it.
    fn compile(&self, source: &KernelSource) -> Result<Arc<dyn Module>>;

    /// Whether `source` is already compiled, so that it only has to be loaded.
    fn has_code(&self, source: &KernelSource) -> bool;

    /// A new stream.
    fn stream(&self) -> Result<Stream>;

    /// Destroys a stream once its work is done.
    fn destroy_stream(&self, stream: Stream);

    /// Copies host bytes to device memory. `src` has been read on return unless it is page-locked memory, which must then live, unchanged, until the
    /// stream is synchronized.
    ///
    /// # Safety
    /// `dst .. dst + src.len()` is allocated.
    unsafe fn copy_to_device(&self, dst: DevicePtr, src: &[u8], stream: Stream) -> Result<()>;

    /// Copies device memory to the host. With page-locked `dst` the copy is complete only when the stream is synchronized.
    ///
    /// # Safety
    /// `src .. src + dst.len()` is allocated; `dst` lives until the stream is synchronized.
    unsafe fn copy_to_host(&self, dst: &mut [u8], src: DevicePtr, stream: Stream) -> Result<()>;

    /// Copies within device memory; the ranges do not overlap.
    ///
    /// # Safety
    /// Both ranges are allocated.
    unsafe fn copy_on_device(&self, dst: DevicePtr, src: DevicePtr, bytes: u64, stream: Stream) -> Result<()>;

    /// Sets `bytes` bytes to `value`.
    ///
    /// # Safety
    /// The range is allocated.
    unsafe fn fill(&self, dst: DevicePtr, value: u8, bytes: u64, stream: Stream) -> Result<()>;

    /// Launches `function` with `params`, the bytes of its parameter struct (at most 4096 bytes).
    ///
    /// # Safety
    /// `params` has the layout that the kernel expects, and every address in it is valid for the kernel's accesses.
    unsafe fn launch(&self, function: &Function, shape: LaunchShape, params: &[u8], stream: Stream) -> Result<()>;

    /// Number of blocks of `threads` threads and `shared` dynamic bytes that fit on one multiprocessor at once (at least 1).
    fn occupancy(&self, function: &Function, threads: u32, shared: u32) -> Result<u32>;

    /// Waits until all work of `stream` is done.
    fn synchronize(&self, stream: Stream) -> Result<()>;

    /// Records an event in a stream.
    fn record(&self, stream: Stream) -> Result<Event>;

    /// Makes later work of `stream` wait for `event`.
    fn wait(&self, stream: Stream, event: Event) -> Result<()>;

    /// Makes the host wait until all work before `event` is done.
    fn finish(&self, event: Event) -> Result<()>;

    /// Milliseconds between two recorded events whose work is done.
    fn elapsed_ms(&self, start: Event, end: Event) -> Result<f32>;

    /// Destroys an event.
    fn destroy_event(&self, event: Event);

    /// The device as `Any`, for downcasts by others of its kind.
    fn as_any(&self) -> &dyn std::any::Any;

    /// Enables this device to read the memory of `source`. Permission alone is no proof: [`group::DeviceGroup`] tests that data arrives.
    ///
    /// # Errors
    /// The reason why that is impossible.
    fn reach(&self, source: &dyn Device) -> std::result::Result<Reach, String>;

    /// Copies from the memory of `source`, which this device [reaches](Self::reach), on a stream of this device.
    ///
    /// # Safety
    /// `bytes` bytes are allocated at `dst` on this device and at the source address on `source`, until `stream` is synchronized.
    unsafe fn copy_from_peer(
        &self,
        dst: DevicePtr,
        source: (&dyn Device, DevicePtr),
        bytes: u64,
        stream: Stream,
    ) -> Result<()>;

    /// Makes later work of this device's `stream` wait for an event of `other`, a device of the same kind.
    fn wait_for_peer(&self, stream: Stream, other: &dyn Device, event: Event) -> Result<()>;

    /// The device's batch decompression library; the error is the reason why there is none.
    fn batch_codec(&self) -> std::result::Result<Arc<dyn BatchCodec>, String>;
}
