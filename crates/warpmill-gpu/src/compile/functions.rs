//! Kernels of a program, compiled on threads that the end of the process waits for.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::kernel::Kernel;
use crate::device::{Device, DeviceError, Function, KernelSource};
use crate::kernels::library::Library;
use crate::memory::error::Result;

/// The result of a thread that compiles kernels: these, and the time that it took.
type Compiled = (Result<Vec<Function>>, Duration);

/// The kernels, once they are compiled.
#[derive(Default)]
pub(super) struct Functions {
    made: OnceLock<Vec<Function>>,
    running: Mutex<Option<JoinHandle<Compiled>>>,
    nanos: AtomicU64,
}

impl Functions {
    /// Begins to compile `kernels`, if nobody has.
    pub fn start(&self, kernels: &[Kernel], device: &Arc<dyn Device>) {
        let mut running = self.running.lock();
        if self.are_made() || running.is_some() {
            return;
        }
        let (sources, device) = (sources(kernels), device.clone());
        let begun = Instant::now();
        let compile = move || (compile(&sources, &device), begun.elapsed());
        // Without a thread, whoever waits compiles.
        *running = std::thread::Builder::new().name("warpmill-compile".into()).spawn(compile).ok();
    }

    /// Waits until they are there.
    ///
    /// # Errors
    /// Compiler errors.
    pub fn wait(&self, kernels: &[Kernel], device: &Arc<dyn Device>) -> Result<()> {
        let mut running = self.running.lock();
        if self.are_made() {
            return Ok(());
        }
        let made = match running.take() {
            Some(running) => {
                let (made, time) = running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                self.nanos.store(time.as_nanos() as u64, Ordering::Relaxed);
                made?
            }
            // Nobody has begun, or it failed before: the error again, unless that has passed.
            None => compile(&sources(kernels), device)?,
        };
        self.made.get_or_init(|| made);
        Ok(())
    }

    /// Whether they are known to be compiled.
    pub fn are_made(&self) -> bool {
        self.made.get().is_some()
    }

    /// Kernel `kernel`. Panics before [`Functions::wait`].
    pub fn get(&self, kernel: usize) -> &Function {
        &self.made.get().expect("kernels are compiled before they run")[kernel]
    }

    /// Nanoseconds that compiling took.
    pub fn nanos(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }
}

fn sources(kernels: &[Kernel]) -> Vec<KernelSource> {
    kernels.iter().map(source).collect()
}

/// The complete text of a kernel.
pub fn source(kernel: &Kernel) -> KernelSource {
    let mut libraries: Vec<Library> = kernel.params.libraries().chain([Library::Value]).collect();
    let order = |part: &Library| Library::ALL.iter().position(|other| other == part);
    libraries.sort_by_key(order);
    libraries.dedup();
    let mut text: String = libraries.iter().map(|part| part.text()).collect::<Vec<_>>().join("\n");
    text.push('\n');
    text.push_str(&kernel.text);
    KernelSource { text, entries: vec![kernel.entry.clone()] }
}

/// Compiles kernels: those of the same text once.
fn compile(sources: &[KernelSource], device: &Arc<dyn Device>) -> Result<Vec<Function>> {
    let distinct: HashSet<&KernelSource> = sources.iter().collect();
    let compiled = distinct
        .into_par_iter()
        .map(|source| {
            let _compiling = Compiling::begin()?;
            Ok((source, device.compile(source)?.function(&source.entries[0])?))
        })
        .collect::<Result<HashMap<_, _>>>()?;
    Ok(sources.iter().map(|source| compiled[source].clone()).collect())
}

/// The kernels that are being compiled in this process, and whether no more may be.
#[derive(Default)]
struct All {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

static ALL: LazyLock<All> = LazyLock::new(All::default);

/// A kernel that is being compiled.
struct Compiling;

impl Compiling {
    fn begin() -> Result<Self> {
        let mut state = ALL.state.lock();
        if state.1 {
            return Err(DeviceError::NoCompiler("the process ends".into()).into());
        }
        state.0 += 1;
        Ok(Self)
    }
}

impl Drop for Compiling {
    fn drop(&mut self) {
        ALL.state.lock().0 -= 1;
        ALL.changed.notify_all();
    }
}

/// Lets no kernel be compiled any more, and waits for those that are being compiled, `limit` at most; whether none is: for the end of a process,
/// before which the compiler is unloaded.
pub fn end_compiling(limit: Duration) -> bool {
    let mut state = ALL.state.lock();
    state.1 = true;
    !ALL.changed.wait_while_for(&mut state, |state| state.0 > 0, limit).timed_out()
}
