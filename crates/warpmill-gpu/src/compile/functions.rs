//! Compilation of a program's kernels, on threads that process exit waits for.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::kernel::Kernel;
use crate::device::kernel_cache::Key;
use crate::device::{Device, DeviceError, Function, KernelSource, priority};
use crate::kernels::library::Library;
use crate::memory::error::Result;

/// Number of functions kept for other programs with the same kernels; equals the number of modules that a device keeps loaded.
const MOST_LOADED: usize = 1024;

/// Loaded functions of a device, keyed by everything that their code depends on. A program whose kernels are here neither assembles nor hashes their
/// text.
pub struct Loaded {
    device: Arc<dyn Device>,
    functions: Mutex<Recent<Function>>,
}

impl Loaded {
    /// An empty cache for `device`.
    pub fn new(device: &Arc<dyn Device>) -> Self {
        Self { device: device.clone(), functions: Mutex::new(Recent::default()) }
    }

    /// The loaded functions among `kernels`.
    fn find(&self, kernels: &[Kernel]) -> Vec<Option<Function>> {
        let keys: Vec<Key> = kernels.iter().map(key).collect();
        let mut functions = self.functions.lock();
        keys.into_iter().map(|key| functions.get(key)).collect()
    }

    /// Adds the functions of `kernels`.
    fn keep(&self, kernels: &[Kernel], made: &[Function]) {
        let mut functions = self.functions.lock();
        let gone = kernels.iter().zip(made).flat_map(|(kernel, made)| functions.insert(key(kernel), made.clone()));
        let gone: Vec<Function> = gone.collect();
        drop(functions);
        // Unloading may wait for the device, so the lock is released first.
        drop(gone);
    }

    /// Whether the kernel is loaded, or the device has compiled code of it.
    pub fn has_code(&self, kernel: &Kernel) -> bool {
        let loaded = self.functions.lock().get(key(kernel));
        loaded.is_some() || self.device.has_code(&source(kernel))
    }
}

/// The cache key of a kernel: everything that its code depends on, except the device.
fn key(kernel: &Kernel) -> Key {
    let libraries: Vec<u8> = kernel.params.libraries().map(|part| part as u8).collect();
    Key::of([&libraries[..], kernel.text.as_bytes(), kernel.entry.as_bytes()])
}

/// A least-recently-used cache.
struct Recent<T> {
    /// Values with the time of their last use.
    values: HashMap<Key, (T, u64)>,
    clock: u64,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { values: HashMap::new(), clock: 0 }
    }
}

impl<T: Clone> Recent<T> {
    fn get(&mut self, key: Key) -> Option<T> {
        self.clock += 1;
        let (value, used) = self.values.get_mut(&key)?;
        *used = self.clock;
        Some(value.clone())
    }

    /// Inserts a value; returns the evicted one.
    fn insert(&mut self, key: Key, value: T) -> Option<T> {
        self.clock += 1;
        let before = self.values.insert(key, (value, self.clock));
        if self.values.len() <= MOST_LOADED {
            return before.map(|(value, _)| value);
        }
        let oldest = self.values.iter().min_by_key(|(_, (_, used))| *used).map(|(&key, _)| key)?;
        self.values.remove(&oldest).map(|(value, _)| value)
    }
}

/// Result of a compiling thread: the functions, and the time taken.
type Compiled = (Result<Vec<Function>>, Duration);

/// The kernels of a program, compiled or being compiled.
#[derive(Default)]
pub(super) struct Functions {
    made: OnceLock<Vec<Function>>,
    running: Mutex<Option<JoinHandle<Compiled>>>,
    nanos: AtomicU64,
    /// Whether any kernel had to be compiled or looked up on the device.
    asked: AtomicBool,
}

impl Functions {
    /// Starts to compile `kernels`, unless that has begun; reuses loaded ones.
    pub fn start(&self, kernels: &[Kernel], loaded: &Arc<Loaded>) {
        let mut running = self.running.lock();
        if self.are_made() || running.is_some() {
            return;
        }
        let begun = Instant::now();
        let found = loaded.find(kernels);
        let missing: Vec<KernelSource> =
            kernels.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(kernel, _)| source(kernel)).collect();
        if missing.is_empty() {
            self.made.get_or_init(|| found.into_iter().flatten().collect());
            self.nanos.store(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
            return;
        }
        self.asked.store(true, Ordering::Relaxed);
        let loaded = loaded.clone();
        let is_low = priority::is_low();
        let compile = move || {
            if is_low {
                priority::lower();
            }
            (compile(&missing, &loaded.device).map(|made| together(found, made)), begun.elapsed())
        };
        // If no thread can be started, the waiting caller compiles.
        *running = std::thread::Builder::new().name("warpmill-compile".into()).spawn(compile).ok();
    }

    /// Waits until all kernels are compiled.
    ///
    /// # Errors
    /// Compiler errors.
    pub fn wait(&self, kernels: &[Kernel], loaded: &Loaded) -> Result<()> {
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
            // Not begun, or failed before: compile again, which reports the error unless it was temporary.
            None => compile(&sources(kernels), &loaded.device)?,
        };
        loaded.keep(kernels, &made);
        self.made.get_or_init(|| made);
        Ok(())
    }

    /// Whether compilation is known to have completed.
    pub fn are_made(&self) -> bool {
        self.made.get().is_some()
    }

    /// Whether [`Functions::wait`] would not have to wait.
    pub fn are_ready(&self) -> bool {
        self.are_made() || self.running.lock().as_ref().is_some_and(|running| running.is_finished())
    }

    /// Kernel `kernel`. Panics before [`Functions::wait`].
    pub fn get(&self, kernel: usize) -> &Function {
        &self.made.get().expect("kernels are compiled before they run")[kernel]
    }

    /// Whether the device was asked for kernels, because no earlier program had loaded all of them.
    pub fn were_asked_for(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Nanoseconds taken by compilation.
    pub fn nanos(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }
}

/// Merges found functions with the compiled ones for the gaps, in order.
fn together(found: Vec<Option<Function>>, made: Vec<Function>) -> Vec<Function> {
    let mut made = made.into_iter();
    found.into_iter().filter_map(|found| found.or_else(|| made.next())).collect()
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

/// Compiles kernels; equal texts are compiled once.
fn compile(sources: &[KernelSource], device: &Arc<dyn Device>) -> Result<Vec<Function>> {
    let distinct: HashSet<&KernelSource> = sources.iter().collect();
    let one = |source| {
        let _compiling = Compiling::begin()?;
        Ok((source, device.compile(source)?.function(&source.entries[0])?))
    };
    let compiled = priority::in_parallel(|| distinct.into_par_iter().map(one).collect::<Result<HashMap<_, _>>>())?;
    Ok(sources.iter().map(|source| compiled[source].clone()).collect())
}

/// Number of kernels being compiled in this process, and whether new ones are refused.
#[derive(Default)]
struct All {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

static ALL: LazyLock<All> = LazyLock::new(All::default);

/// A guard for a kernel being compiled.
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

/// Refuses new compilations, and waits at most `limit` for those in progress; returns whether none is left. For process exit, when the compiler is
/// unloaded.
pub fn end_compiling(limit: Duration) -> bool {
    let mut state = ALL.state.lock();
    state.1 = true;
    !ALL.changed.wait_while_for(&mut state, |state| state.0 > 0, limit).timed_out()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::generator::Generator;
    use crate::compile::kernel::{Work, kernel};

    #[test]
    fn values_used_least_recently_go_first() {
        let mut recent = Recent::default();
        let key = |number: usize| Key::of([&number.to_le_bytes()[..]]);
        for number in 0..MOST_LOADED {
            assert_eq!(recent.insert(key(number), number), None);
        }
        assert_eq!(recent.get(key(0)), Some(0));
        assert_eq!(recent.insert(key(MOST_LOADED), MOST_LOADED), Some(1));
        assert_eq!((recent.get(key(0)), recent.get(key(1))), (Some(0), None));
        assert_eq!(recent.values.len(), MOST_LOADED);
    }

    #[test]
    fn keys_tell_apart_all_that_code_depends_on() {
        let make = |entry: &str, line: &str, library: Option<Library>| {
            let mut g = Generator::new();
            g.code.line(line);
            library.into_iter().for_each(|library| g.params.require(library));
            key(&kernel(g, entry.into(), 32, Work::Rows(1), 0, "any".into()))
        };
        let first = make("a", ";", None);
        assert_eq!(first, make("a", ";", None));
        for other in [make("b", ";", None), make("a", ";;", None), make("a", ";", Some(Library::Sort))] {
            assert_ne!(first, other);
        }
    }
}
