//! Loaded kernels.

use std::ffi::c_void;
use std::sync::Arc;

use libloading::Library;

use super::super::{BuildInfo, DeviceError, Function, LaunchShape, Module, Result};
use super::runtime::{BindFn, RunFn, Runtime};

/// Largest number of bytes of a kernel's parameter, as on GPUs.
const MAX_PARAMETER_BYTES: u32 = 4096;

/// An entry point of a loaded module.
pub(super) struct Entry {
    pub(super) name: Arc<str>,
    pub(super) parameter_bytes: u32,
    pub(super) run: RunFn,
    pub(super) bind: BindFn,
    /// The module's thread-local memory: bytes before the pointer that `bind` sets, and bytes in total.
    pub(super) shared: (u64, u64),
    runtime: Arc<Runtime>,
}

impl Entry {
    /// Static shared memory of the whole module: an upper bound for this kernel.
    pub(super) fn static_shared(&self) -> u64 {
        self.shared.1.saturating_sub(size_of::<*const c_void>() as u64)
    }

    /// Runs all blocks of a launch over `workers` host threads.
    ///
    /// # Safety
    /// As for [`super::Device::launch`]; the parameter's size and the shape were checked.
    pub(super) unsafe fn launch(&self, shape: LaunchShape, params: &[u8], workers: usize, reverse: bool) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.runtime.launch(self, shape, params, workers, reverse) }
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({} bytes)", self.name, self.parameter_bytes)
    }
}

/// A shared object, which stays loaded, and its entry points.
#[derive(Debug)]
pub(super) struct Loaded {
    entries: Box<[Entry]>,
    pub(super) code_bytes: u64,
}

impl Loaded {
    pub(super) fn new(library: Library, code_bytes: u64, names: &[String], runtime: Arc<Runtime>) -> Result<Self> {
        let bind: BindFn = symbol(&library, "warpmill_sim_bind")?;
        let shared = runtime.measure(bind)?;
        let mut entries = Vec::with_capacity(names.len());
        for name in names {
            let run: RunFn = symbol(&library, &format!("warpmill_sim_run_{name}"))?;
            let size: extern "C" fn() -> u32 = symbol(&library, &format!("warpmill_sim_size_{name}"))?;
            let parameter_bytes = size();
            if parameter_bytes > MAX_PARAMETER_BYTES {
                let log = format!("the parameter of {name} has {parameter_bytes} bytes, over {MAX_PARAMETER_BYTES}");
                return Err(DeviceError::Compile { log });
            }
            let name = name.as_str().into();
            entries.push(Entry { name, parameter_bytes, run, bind, shared, runtime: runtime.clone() });
        }
        // Never unloaded: other threads may be copying thread-local memory of modules, which the C library does not protect against unloading.
        std::mem::forget(library);
        Ok(Self { entries: entries.into(), code_bytes })
    }
}

/// The function `name`, with the type that the prelude gives it.
pub(super) fn symbol<T: Copy>(library: &Library, name: &str) -> Result<T> {
    // SAFETY: the callers ask for functions of the prelude and the runtime, by their types.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|symbol| *symbol).map_err(|error| DeviceError::Call { call: "load kernel", detail: error.to_string() })
}

/// A module as its user sees it; the shared object may have several users.
#[derive(Debug)]
pub(super) struct SimModule {
    loaded: Arc<Loaded>,
    build: BuildInfo,
}

impl SimModule {
    pub(super) fn new(loaded: Arc<Loaded>, build: BuildInfo) -> Self {
        Self { loaded, build }
    }
}

impl Module for SimModule {
    fn function(&self, name: &str) -> Result<Function> {
        let Some(entry) = self.loaded.entries.iter().find(|entry| &*entry.name == name) else {
            return Err(DeviceError::Call { call: "get function", detail: format!("the module has no kernel {name}") });
        };
        Ok(Function {
            module: Arc::new(Self { loaded: self.loaded.clone(), build: self.build.clone() }),
            handle: std::ptr::from_ref(entry) as u64,
            name: entry.name.clone(),
            registers: 0,
            static_shared: u32::try_from(entry.static_shared()).unwrap_or(u32::MAX),
            local: 0,
        })
    }

    fn build(&self) -> &BuildInfo {
        &self.build
    }
}
