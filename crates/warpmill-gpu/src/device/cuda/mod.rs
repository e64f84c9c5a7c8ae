//! NVIDIA GPUs through the CUDA driver and NVRTC, both loaded at run time.
//!
//! The same build runs without either: [`CudaDevice::open`] then reports which is missing. The driver must support CUDA 12.0 or later, and have at
//! least NVRTC's major version: drivers load machine code of every release of their major version, but of no later one.

mod context;
mod files;
mod module;
pub mod nvcomp;
pub mod nvrtc;
mod peer;
pub(crate) mod pinned;
mod staging;

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use cudarc::driver::sys::{self, CUdevice_attribute, CUresult};
use rayon::prelude::*;

use self::context::Context;
use self::module::{CudaModule, Functions, Loaded, Modules};
use self::pinned::pinned;
use self::staging::Staging;
use super::batch::BatchCodec;
use super::kernel_cache::KernelCache;
use super::{
    BuildInfo, BuildOrigin, Device, DeviceError, DeviceKind, DeviceProperties, DevicePtr, Event, Function,
    KernelSource, LaunchShape, Module, PinnedBuffer, Reach, Result, Stream,
};

/// A GPU.
///
/// It uses the device's primary context, next to other users of CUDA in the process, and restores a thread's current context. An error that destroys
/// the context makes every later call fail with [`DeviceError::Lost`].
#[derive(Debug)]
pub struct CudaDevice {
    properties: DeviceProperties,
    /// Compute capability: 90 is 9.0.
    capability: u32,
    modules: Modules,
    functions: Arc<Functions>,
    staging: Staging,
    /// Compiled kernels on disk, opened when NVRTC, and so the architecture, is known.
    disk: OnceLock<Option<KernelCache>>,
    context: Arc<Context>,
}

impl CudaDevice {
    /// The number of GPUs, at least one. Fails with [`DeviceError::Absent`] if there is none, or [`DeviceError::DriverTooOld`].
    pub fn count() -> Result<usize> {
        context::device_count()
    }

    /// The GPU with number `ordinal`.
    pub fn open(ordinal: usize) -> Result<Arc<Self>> {
        let context = Context::open(ordinal)?;
        let (properties, capability) = properties(&context, ordinal)?;
        let staging = Staging::new(&context);
        let (modules, functions) = (Modules::default(), Arc::default());
        Ok(Arc::new(Self { properties, capability, modules, functions, staging, disk: OnceLock::new(), context }))
    }

    /// The machine code of `source`, and its origin.
    fn cubin(&self, source: &KernelSource) -> Result<(Vec<u8>, BuildOrigin)> {
        let nvrtc = nvrtc::available()?;
        if nvrtc.major > self.context.driver.major() {
            let (found, needed) = (self.context.driver.to_string(), format!("{}.0", nvrtc.major));
            return Err(DeviceError::DriverTooOld { found, needed });
        }
        let arch = nvrtc::arch_for(self.capability)?;
        let disk = self.disk.get_or_init(|| kernel_cache(&arch, &nvrtc));
        cached_cubin(source, &arch, disk.as_ref())
    }

    fn create_event(&self) -> Result<sys::CUevent> {
        let mut event = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT as u32;
        // SAFETY: valid pointer.
        self.context.call("cuEventCreate", || unsafe { sys::cuEventCreate(&mut event, flags) })?;
        Ok(event)
    }
}

/// The cache of machine code for `arch`.
fn kernel_cache(arch: &str, nvrtc: &nvrtc::NvrtcVersion) -> Option<KernelCache> {
    KernelCache::open(&format!("cubin/{arch}-nvrtc{nvrtc}"))
}

/// The machine code of `source`, from `disk` if it is there, and its origin.
fn cached_cubin(source: &KernelSource, arch: &str, disk: Option<&KernelCache>) -> Result<(Vec<u8>, BuildOrigin)> {
    let kept = disk.zip(nvrtc::cache_key(source, arch)?);
    if let Some(cubin) = kept.and_then(|(disk, key)| disk.get(key)) {
        return Ok((cubin, BuildOrigin::Disk));
    }
    let cubin = nvrtc::compile_cubin(source, arch)?;
    if let Some((disk, key)) = kept {
        disk.put(key, &cubin);
    }
    Ok((cubin, BuildOrigin::Compiled))
}

/// Compiles `sources` for `arch` (`sm_90`), in parallel and through the cache on disk, without a GPU: prepares or checks kernels for another machine.
/// Returns the indexes of sources that do not compile, with their errors.
///
/// # Errors
/// [`DeviceError::NoCompiler`] if there is no NVRTC.
pub fn compile_ahead(sources: &[KernelSource], arch: &str) -> Result<Vec<(usize, DeviceError)>> {
    let disk = kernel_cache(arch, &nvrtc::available()?);
    let compile = |(index, source)| cached_cubin(source, arch, disk.as_ref()).err().map(|error| (index, error));
    Ok(sources.par_iter().enumerate().filter_map(compile).collect())
}

fn properties(context: &Context, ordinal: usize) -> Result<(DeviceProperties, u32)> {
    let device = context.device();
    let attribute = |attribute: CUdevice_attribute| -> Result<u32> {
        let mut value: c_int = 0;
        // SAFETY: valid pointer.
        let get = || unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) };
        context.call("cuDeviceGetAttribute", get)?;
        Ok(value.max(0) as u32)
    };
    let mut name = [0u8; 256];
    // SAFETY: the buffer has the length that is given; the driver ends the text with a zero byte.
    let get = || unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), name.len() as c_int, device) };
    context.call("cuDeviceGetName", get)?;
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    let mut memory = 0;
    // SAFETY: valid pointer.
    context.call("cuDeviceTotalMem", || unsafe { sys::cuDeviceTotalMem_v2(&mut memory, device) })?;
    let capability = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? * 10
        + attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let properties = DeviceProperties {
        kind: DeviceKind::Cuda,
        ordinal,
        name: String::from_utf8_lossy(name).into_owned(),
        arch: format!("sm_{capability}"),
        multiprocessors: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        memory_bytes: memory as u64,
        l2_bytes: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
        shared_per_block: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        driver: context.driver.to_string(),
    };
    Ok((properties, capability))
}

fn cuda_stream(stream: Stream) -> sys::CUstream {
    stream.0 as sys::CUstream
}

impl Device for CudaDevice {
    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn free_memory(&self) -> Result<u64> {
        self.context.free_memory()
    }

    fn allocate(&self, bytes: u64) -> Result<DevicePtr> {
        let mut ptr = 0;
        // CUDA refuses to allocate zero bytes.
        let size = bytes.max(1) as usize;
        // SAFETY: valid pointer.
        let allocate = || unsafe { sys::cuMemAlloc_v2(&mut ptr, size) };
        match self.context.try_call("cuMemAlloc", allocate)? {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Err(self.context.out_of_memory("device", bytes)),
            result => self.context.call("cuMemAlloc", || result).map(|()| ptr),
        }
    }

    unsafe fn free(&self, ptr: DevicePtr) {
        // SAFETY: the caller's contract.
        if let Err(error) = self.context.call("cuMemFree", || unsafe { sys::cuMemFree_v2(ptr) }) {
            tracing::warn!(%error, "device memory cannot be freed");
        }
    }

    fn pinned(&self, bytes: usize) -> Result<PinnedBuffer> {
        pinned(&self.context, bytes)
    }

    fn mapped(&self, memory: &PinnedBuffer) -> Result<DevicePtr> {
        let mut address = 0;
        if memory.is_empty() {
            return Ok(address);
        }
        let host = memory.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: valid pointers; the driver recognizes its own memory, and fails for other memory.
        let mapped = || unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, host, 0) };
        self.context.call("cuMemHostGetDevicePointer", mapped)?;
        Ok(address)
    }

    fn compile(&self, source: &KernelSource) -> Result<Arc<dyn Module>> {
        let start = Instant::now();
        let slot = self.modules.slot(source);
        let mut slot = slot.lock();
        let (loaded, origin) = match &*slot {
            Some(loaded) => (Arc::clone(loaded), BuildOrigin::Memory),
            None => {
                let (cubin, origin) = self.cubin(source)?;
                let loaded = Arc::new(Loaded::new(&self.context, &self.functions, &cubin, &source.entries)?);
                *slot = Some(Arc::clone(&loaded));
                (loaded, origin)
            }
        };
        let build = BuildInfo { origin, nanos: start.elapsed().as_nanos() as u64, code_bytes: loaded.code_bytes };
        Ok(Arc::new(CudaModule { loaded, build }))
    }

    fn has_code(&self, source: &KernelSource) -> bool {
        // The holder of the lock is loading or compiling it.
        if self.modules.slot(source).try_lock().is_some_and(|slot| slot.is_some()) {
            return true;
        }
        let (Ok(nvrtc), Ok(arch)) = (nvrtc::available(), nvrtc::arch_for(self.capability)) else { return false };
        let disk = self.disk.get_or_init(|| kernel_cache(&arch, &nvrtc));
        let key = nvrtc::cache_key(source, &arch).ok().flatten();
        disk.as_ref().zip(key).is_some_and(|(disk, key)| disk.has(key))
    }

    fn stream(&self) -> Result<Stream> {
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: valid pointer.
        self.context.call("cuStreamCreate", || unsafe { sys::cuStreamCreate(&mut stream, flags) })?;
        Ok(Stream(stream as u64))
    }

    fn destroy_stream(&self, stream: Stream) {
        // SAFETY: a stream of this context; the driver keeps it until its work is done.
        let destroy = || unsafe { sys::cuStreamDestroy_v2(cuda_stream(stream)) };
        if let Err(error) = self.context.call("cuStreamDestroy", destroy) {
            tracing::debug!(%error, "a stream cannot be destroyed");
        }
    }

    unsafe fn copy_to_device(&self, dst: DevicePtr, src: &[u8], stream: Stream) -> Result<()> {
        if src.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's contract.
        unsafe { self.staging.copy(dst, src, stream) }
    }

    unsafe fn copy_to_host(&self, dst: &mut [u8], src: DevicePtr, stream: Stream) -> Result<()> {
        if dst.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's contract. The driver returns from a copy to pageable memory when it is complete.
        self.context.call("cuMemcpyDtoHAsync", || unsafe {
            sys::cuMemcpyDtoHAsync_v2(dst.as_mut_ptr().cast(), src, dst.len(), cuda_stream(stream))
        })
    }

    unsafe fn copy_on_device(&self, dst: DevicePtr, src: DevicePtr, bytes: u64, stream: Stream) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller's contract.
        let copy = || unsafe { sys::cuMemcpyDtoDAsync_v2(dst, src, bytes as usize, cuda_stream(stream)) };
        self.context.call("cuMemcpyDtoDAsync", copy)
    }

    unsafe fn fill(&self, dst: DevicePtr, value: u8, bytes: u64, stream: Stream) -> Result<()> {
        // Fills words if the start is aligned, and bytes for the rest.
        let words = if dst.is_multiple_of(4) { bytes / 4 } else { 0 };
        if words > 0 {
            let word = u32::from_ne_bytes([value; 4]);
            // SAFETY: the caller's contract.
            let fill = || unsafe { sys::cuMemsetD32Async(dst, word, words as usize, cuda_stream(stream)) };
            self.context.call("cuMemsetD32Async", fill)?;
        }
        let (dst, rest) = (dst + words * 4, bytes - words * 4);
        if rest > 0 {
            // SAFETY: the caller's contract.
            let fill = || unsafe { sys::cuMemsetD8Async(dst, value, rest as usize, cuda_stream(stream)) };
            self.context.call("cuMemsetD8Async", fill)?;
        }
        Ok(())
    }

    unsafe fn launch(&self, function: &Function, shape: LaunchShape, params: &[u8], stream: Stream) -> Result<()> {
        let entry = module::find(&self.functions, function.handle)?;
        entry.check_launch(shape, params.len())?;
        entry.permit_shared(&self.context, function.handle, shape.shared)?;
        self.context.launched(&function.name);
        let mut parameters = [params.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: the caller's contract; the driver copies the parameter before it returns.
        self.context.call("cuLaunchKernel", || unsafe {
            sys::cuLaunchKernel(
                function.handle as sys::CUfunction,
                shape.blocks,
                1,
                1,
                shape.threads,
                1,
                1,
                shape.shared,
                cuda_stream(stream),
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        })
    }

    fn occupancy(&self, function: &Function, threads: u32, shared: u32) -> Result<u32> {
        let entry = module::find(&self.functions, function.handle)?;
        entry.occupancy(&self.context, function.handle, threads, shared)
    }

    fn synchronize(&self, stream: Stream) -> Result<()> {
        // SAFETY: a stream of this context.
        self.context.call("cuStreamSynchronize", || unsafe { sys::cuStreamSynchronize(cuda_stream(stream)) })
    }

    fn record(&self, stream: Stream) -> Result<Event> {
        let event = self.create_event()?;
        // SAFETY: an event and a stream of this context.
        let record = || unsafe { sys::cuEventRecord(event, cuda_stream(stream)) };
        let event = Event(event as u64);
        self.context.call("cuEventRecord", record).inspect_err(|_| self.destroy_event(event))?;
        Ok(event)
    }

    fn wait(&self, stream: Stream, event: Event) -> Result<()> {
        // SAFETY: an event and a stream of this context.
        self.context.call("cuStreamWaitEvent", || unsafe {
            sys::cuStreamWaitEvent(cuda_stream(stream), event.0 as sys::CUevent, 0)
        })
    }

    fn finish(&self, event: Event) -> Result<()> {
        // SAFETY: an event of this context.
        self.context.call("cuEventSynchronize", || unsafe { sys::cuEventSynchronize(event.0 as sys::CUevent) })
    }

    fn elapsed_ms(&self, start: Event, end: Event) -> Result<f32> {
        let mut milliseconds = 0.0;
        let (start, end) = (start.0 as sys::CUevent, end.0 as sys::CUevent);
        // SAFETY: events of this context.
        let elapsed = || unsafe { context::event_elapsed_time(&mut milliseconds, start, end) };
        self.context.call("cuEventElapsedTime", elapsed)?;
        Ok(milliseconds)
    }

    fn destroy_event(&self, event: Event) {
        // SAFETY: an event of this context; the driver keeps it until it is reached.
        let destroy = || unsafe { sys::cuEventDestroy_v2(event.0 as sys::CUevent) };
        if let Err(error) = self.context.call("cuEventDestroy", destroy) {
            tracing::debug!(%error, "an event cannot be destroyed");
        }
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn reach(&self, source: &dyn Device) -> std::result::Result<Reach, String> {
        let source = peer::context_of(source)?;
        peer::reach(&self.context, &source)
    }

    unsafe fn copy_from_peer(
        &self,
        dst: DevicePtr,
        (source, src): (&dyn Device, DevicePtr),
        bytes: u64,
        stream: Stream,
    ) -> Result<()> {
        let source =
            peer::context_of(source).map_err(|detail| DeviceError::Call { call: "copy from a peer", detail })?;
        // SAFETY: the caller's contract.
        unsafe { peer::copy((&self.context, dst), (&source, src), bytes, cuda_stream(stream)) }
    }

    fn wait_for_peer(&self, stream: Stream, other: &dyn Device, event: Event) -> Result<()> {
        peer::context_of(other).map_err(|detail| DeviceError::Call { call: "wait for a peer", detail })?;
        // Events of other devices may be waited for.
        self.wait(stream, event)
    }

    fn batch_codec(&self) -> std::result::Result<Arc<dyn BatchCodec>, String> {
        Ok(Arc::new(nvcomp::Batches::new(self.context.clone())?))
    }
}

#[cfg(test)]
mod tests;
