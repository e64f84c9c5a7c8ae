//! Loaded modules, properties of their functions, and the cache of modules in memory.

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys::{self, CUfunction_attribute};
use parking_lot::{Mutex, RwLock};

use super::context::{Context, EXACT_PARAMETERS};
use crate::device::kernel_cache::Key;
use crate::device::{BuildInfo, DeviceError, Function, KernelSource, LaunchShape, Module, Result};

/// Bytes of shared memory per block that need no permission.
const PLAIN_SHARED: u32 = 48 << 10;
/// Largest number of bytes of a kernel's parameter.
const MAX_PARAMETER: usize = 4096;
/// Number of modules kept loaded for reuse.
const KEPT_MODULES: usize = 1024;

/// Functions of all loaded modules of a device by handle, which detects foreign and invalid handles.
pub(super) type Functions = RwLock<HashMap<u64, Arc<Entry>>>;

/// An entry point.
#[derive(Debug)]
pub(super) struct Entry {
    name: Arc<str>,
    registers: u32,
    static_shared: u32,
    local: u32,
    /// Bytes of its parameter, if the driver reports them.
    parameter: Option<usize>,
    tuning: Mutex<Tuning>,
}

#[derive(Debug, Default)]
struct Tuning {
    /// Bytes of dynamic shared memory permitted so far.
    permitted: u32,
    /// Blocks per multiprocessor by threads and dynamic shared memory.
    occupancy: HashMap<(u32, u32), u32>,
}

impl Entry {
    fn load(context: &Context, function: sys::CUfunction, name: &str) -> Result<Self> {
        let attribute = |attribute: CUfunction_attribute| -> Result<u32> {
            let mut value: c_int = 0;
            // SAFETY: valid pointer, loaded function.
            let get = || unsafe { sys::cuFuncGetAttribute(&mut value, attribute, function) };
            context.call("cuFuncGetAttribute", get)?;
            Ok(value.max(0) as u32)
        };
        let parameter = (context.driver >= EXACT_PARAMETERS).then(|| parameter_size(context, function)).transpose()?;
        Ok(Self {
            name: name.into(),
            registers: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            static_shared: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            local: attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            parameter,
            tuning: Mutex::default(),
        })
    }

    /// Refuses launches that the driver would accept: threads that do not fill a warp, and a parameter shorter than the kernel's, which the driver
    /// would read past the end of.
    pub(super) fn check_launch(&self, shape: LaunchShape, parameter: usize) -> Result<()> {
        let refuse = |detail| Err(DeviceError::Call { call: "cuLaunchKernel", detail });
        let name = &self.name;
        if shape.threads == 0 || !shape.threads.is_multiple_of(32) {
            return refuse(format!("kernel {name} with blocks of {} threads", shape.threads));
        }
        if parameter > MAX_PARAMETER {
            return refuse(format!("the parameter of kernel {name} has {parameter} bytes"));
        }
        match self.parameter {
            Some(expected) if expected != parameter => {
                refuse(format!("the parameter of kernel {name} has {expected} bytes, {parameter} were given"))
            }
            _ => Ok(()),
        }
    }

    /// Requests the permission for `shared` bytes of dynamic shared memory, once.
    pub(super) fn permit_shared(&self, context: &Context, function: u64, shared: u32) -> Result<()> {
        if shared.saturating_add(self.static_shared) <= PLAIN_SHARED {
            return Ok(());
        }
        let mut tuning = self.tuning.lock();
        if shared > tuning.permitted {
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: a loaded function.
            context.call("cuFuncSetAttribute", || unsafe {
                sys::cuFuncSetAttribute(function as sys::CUfunction, attribute, shared as c_int)
            })?;
            tuning.permitted = shared;
        }
        Ok(())
    }

    /// Number of blocks that fit on a multiprocessor.
    pub(super) fn occupancy(&self, context: &Context, function: u64, threads: u32, shared: u32) -> Result<u32> {
        if let Some(&blocks) = self.tuning.lock().occupancy.get(&(threads, shared)) {
            return Ok(blocks);
        }
        self.permit_shared(context, function, shared)?;
        let mut blocks: c_int = 0;
        // SAFETY: valid pointer, loaded function.
        context.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", || unsafe {
            let function = function as sys::CUfunction;
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, threads as c_int, shared as usize)
        })?;
        let blocks = blocks.max(1) as u32;
        self.tuning.lock().occupancy.insert((threads, shared), blocks);
        Ok(blocks)
    }
}

fn parameter_size(context: &Context, function: sys::CUfunction) -> Result<usize> {
    let (mut offset, mut size) = (0, 0);
    // SAFETY: valid pointers, loaded function.
    let get = || unsafe { sys::cuFuncGetParamInfo(function, 0, &mut offset, &mut size) };
    context.call("cuFuncGetParamInfo", get)?;
    Ok(size)
}

/// Machine code in a device's memory.
#[derive(Debug)]
pub(super) struct Loaded {
    context: Arc<Context>,
    functions: Arc<Functions>,
    module: u64,
    entries: HashMap<String, u64>,
    pub(super) code_bytes: u64,
}

impl Loaded {
    /// Loads `cubin`, which defines `entries`.
    pub(super) fn new(
        context: &Arc<Context>,
        functions: &Arc<Functions>,
        cubin: &[u8],
        entries: &[String],
    ) -> Result<Self> {
        let mut module: sys::CUmodule = std::ptr::null_mut();
        // SAFETY: a whole cubin: the compiler's output, or checksummed.
        let load = || unsafe { sys::cuModuleLoadData(&mut module, cubin.as_ptr().cast::<c_void>()) };
        context.call("cuModuleLoadData", load)?;
        // From here on, drop unloads the module.
        let mut loaded = Self {
            context: Arc::clone(context),
            functions: Arc::clone(functions),
            module: module as u64,
            entries: HashMap::new(),
            code_bytes: cubin.len() as u64,
        };
        for name in entries {
            let symbol = CString::new(name.as_str()).map_err(|_| no_entry(name))?;
            let mut function: sys::CUfunction = std::ptr::null_mut();
            // SAFETY: valid pointers, loaded module.
            let get = || unsafe { sys::cuModuleGetFunction(&mut function, module, symbol.as_ptr()) };
            context.call("cuModuleGetFunction", get)?;
            let entry = Entry::load(context, function, name)?;
            functions.write().insert(function as u64, Arc::new(entry));
            loaded.entries.insert(name.clone(), function as u64);
        }
        Ok(loaded)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let mut functions = self.functions.write();
        for handle in self.entries.values() {
            functions.remove(handle);
        }
        drop(functions);
        // SAFETY: nothing refers to the module any more; queued kernels are waited for.
        let unload = || unsafe {
            sys::cuCtxSynchronize();
            sys::cuModuleUnload(self.module as sys::CUmodule)
        };
        if let Err(error) = self.context.call("cuModuleUnload", unload) {
            tracing::debug!(%error, "a module cannot be unloaded");
        }
    }
}

fn no_entry(name: &str) -> DeviceError {
    DeviceError::Call { call: "cuModuleGetFunction", detail: format!("the source names no entry point {name:?}") }
}

/// A loaded module, and how this caller obtained it.
#[derive(Debug, Clone)]
pub(super) struct CudaModule {
    pub(super) loaded: Arc<Loaded>,
    pub(super) build: BuildInfo,
}

impl Module for CudaModule {
    fn function(&self, name: &str) -> Result<Function> {
        let handle = *self.loaded.entries.get(name).ok_or_else(|| no_entry(name))?;
        let entry = find(&self.loaded.functions, handle)?;
        Ok(Function {
            module: Arc::new(self.clone()),
            handle,
            name: Arc::clone(&entry.name),
            registers: entry.registers,
            static_shared: entry.static_shared,
            local: entry.local,
        })
    }

    fn build(&self) -> &BuildInfo {
        &self.build
    }
}

/// The properties of the function with `handle`.
pub(super) fn find(functions: &Functions, handle: u64) -> Result<Arc<Entry>> {
    functions.read().get(&handle).cloned().ok_or_else(|| DeviceError::Call {
        call: "cuLaunchKernel",
        detail: "the function belongs to another device".into(),
    })
}

/// Loaded modules by source. Threads that request the same source wait for one compilation.
#[derive(Debug, Default)]
pub(super) struct Modules {
    slots: Mutex<HashMap<Key, Slot>>,
    clock: AtomicU64,
}

#[derive(Debug)]
struct Slot {
    module: Arc<Mutex<Option<Arc<Loaded>>>>,
    used: u64,
}

impl Modules {
    /// The slot of `source`'s module; a caller that locks it and finds it empty fills it.
    pub(super) fn slot(&self, source: &KernelSource) -> Arc<Mutex<Option<Arc<Loaded>>>> {
        let entries = source.entries.iter().map(String::as_bytes);
        let key = Key::of(std::iter::once(source.text.as_bytes()).chain(entries));
        let used = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut slots = self.slots.lock();
        let slot = slots.entry(key).or_insert_with(|| Slot { module: Arc::default(), used });
        slot.used = used;
        let module = Arc::clone(&slot.module);
        let evicted = (slots.len() > KEPT_MODULES).then(|| {
            let oldest = slots.iter().min_by_key(|(_, slot)| slot.used).map(|(&key, _)| key);
            oldest.and_then(|key| slots.remove(&key))
        });
        drop(slots);
        // Unloading waits for the device, so the lock is released first.
        drop(evicted);
        module
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str, entries: &[&str]) -> KernelSource {
        KernelSource { text: text.into(), entries: entries.iter().map(|entry| entry.to_string()).collect() }
    }

    #[test]
    fn one_slot_per_source() {
        let modules = Modules::default();
        let first = modules.slot(&source("a", &["f"]));
        assert!(Arc::ptr_eq(&first, &modules.slot(&source("a", &["f"]))));
        assert!(!Arc::ptr_eq(&first, &modules.slot(&source("b", &["f"]))));
        assert!(!Arc::ptr_eq(&first, &modules.slot(&source("a", &["f", "g"]))));
    }

    #[test]
    fn the_least_recently_used_modules_are_let_go() {
        let modules = Modules::default();
        let slots: Vec<_> = (0..KEPT_MODULES).map(|i| modules.slot(&source(&i.to_string(), &[]))).collect();
        assert!(Arc::ptr_eq(&slots[0], &modules.slot(&source("0", &[]))), "used again");
        modules.slot(&source("one more", &[]));
        assert_eq!(modules.slots.lock().len(), KEPT_MODULES);
        assert!(Arc::ptr_eq(&slots[0], &modules.slot(&source("0", &[]))));
        assert!(!Arc::ptr_eq(&slots[1], &modules.slot(&source("1", &[]))), "the oldest was let go");
    }

    #[test]
    fn unknown_functions_are_refused() {
        assert!(matches!(find(&Functions::default(), 7), Err(DeviceError::Call { .. })));
    }
}
