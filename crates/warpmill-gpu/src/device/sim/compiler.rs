//! The host's C++ compiler, and the modules compiled by this process.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use libloading::Library;
use parking_lot::Mutex;

use super::super::{BuildInfo, BuildOrigin, DeviceError, KernelSource, Result};
use super::cache::{self, Key, ObjectCache};
use super::host::HostFunction;
use super::module::{Loaded, SimModule};
use super::runtime::Runtime;

/// The text in front of every kernel.
const PRELUDE: &str = concat!(
    include_str!("../../../kernels/sim/context.h"),
    include_str!("../../../kernels/sim/prelude.h"),
    include_str!("../../../kernels/sim/warp.h"),
    include_str!("../../../kernels/sim/atomics.h"),
    include_str!("../../../kernels/sim/intrinsics.h"),
);

/// The runtime of blocks; a separate shared object, so that it is not compiled with each kernel.
const RUNTIME: &str = concat!(
    include_str!("../../../kernels/sim/context.h"),
    include_str!("../../../kernels/sim/fiber.h"),
    include_str!("../../../kernels/sim/runtime.cpp"),
);

/// `-fvisibility=hidden` keeps equally named functions of two modules apart.
const FLAGS: &[&str] = &[
    "-std=c++17",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-math-errno",
    "-ffp-contract=off",
    "-Wl,-z,now",
];

const SANITIZE_FLAGS: &[&str] =
    &["-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// A working compiler.
#[derive(Debug)]
struct Compiler {
    program: PathBuf,
    version: String,
}

impl Compiler {
    /// The first of `$CXX`, `c++`, `g++`, `clang++` that answers `--version`.
    fn find() -> Result<Self> {
        let configured = std::env::var_os("CXX").filter(|value| !value.is_empty());
        let candidates = configured.into_iter().chain(["c++", "g++", "clang++"].map(OsString::from));
        let mut tried = Vec::new();
        for program in candidates {
            match Command::new(&program).arg("--version").stdin(Stdio::null()).output() {
                Ok(output) if output.status.success() => {
                    let version = String::from_utf8_lossy(&output.stdout).into_owned();
                    return Ok(Self { program: program.into(), version });
                }
                _ => tried.push(program.to_string_lossy().into_owned()),
            }
        }
        Err(DeviceError::NoCompiler(format!(
            "there is no C++ compiler, which the simulated device and compiled functions need; tried {} (set CXX to name another)",
            tried.join(", ")
        )))
    }

    fn flags(&self, sanitize: bool, optimization: &'static str) -> Vec<&'static str> {
        let mut flags = vec![optimization];
        flags.extend(FLAGS);
        if !self.version.contains("clang") {
            // Otherwise static variables of templates would be shared by all modules of the process.
            flags.push("-fno-gnu-unique");
        }
        flags.extend(if sanitize { SANITIZE_FLAGS } else { &["-Wl,-z,defs"] });
        flags
    }

    /// Compiles `text` to the shared object `output`. The text is passed through a pipe, so no other file is written.
    fn run(&self, text: &str, flags: &[&str], output: &Path) -> Result<()> {
        let failed = |error: std::io::Error| DeviceError::NoCompiler(format!("{}: {error}", self.program.display()));
        let mut child = Command::new(&self.program)
            .args(flags)
            .args(["-w", "-pipe", "-o"])
            .arg(output)
            .args(["-x", "c++", "-", "-lm"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        // A compiler that stops reading has failed, which is reported below.
        let _ = child.stdin.take().expect("stdin is a pipe").write_all(text.as_bytes());
        let result = child.wait_with_output().map_err(failed)?;
        if !result.status.success() {
            return Err(DeviceError::Compile { log: String::from_utf8_lossy(&result.stderr).into_owned() });
        }
        Ok(())
    }
}

/// A slot of a module that is compiled at most once; locked meanwhile.
type Slot = Arc<Mutex<Option<Arc<Loaded>>>>;

/// A compiler, its cache on disk, the runtime, and the modules loaded so far.
#[derive(Debug)]
pub(super) struct Toolchain {
    compiler: Compiler,
    sanitize: bool,
    cache: Option<ObjectCache>,
    runtime: OnceLock<Arc<Runtime>>,
    modules: Mutex<HashMap<Key, Slot>>,
    functions: Mutex<HashMap<Key, HostSlot>>,
}

/// A slot of a host function that is compiled at most once; locked meanwhile.
type HostSlot = Arc<Mutex<Option<HostFunction>>>;

impl Toolchain {
    /// The toolchain of this process: devices share compiled modules.
    pub(super) fn shared(sanitize: bool) -> Result<Arc<Self>> {
        static SHARED: Mutex<[Option<Arc<Toolchain>>; 2]> = Mutex::new([None, None]);
        let slot = &mut SHARED.lock()[usize::from(sanitize)];
        if let Some(toolchain) = slot {
            return Ok(toolchain.clone());
        }
        let toolchain = Arc::new(Self::new(sanitize, cache::default_root())?);
        Ok(slot.insert(toolchain).clone())
    }

    /// A toolchain with its own cache folder, or without one.
    pub(super) fn new(sanitize: bool, cache_root: Option<PathBuf>) -> Result<Self> {
        let compiler = Compiler::find()?;
        if sanitize && !asan_is_loaded() {
            return Err(DeviceError::NoCompiler(format!(
                "kernels with AddressSanitizer need its runtime in this process: start it with \
                 LD_PRELOAD=$({} -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0",
                compiler.program.display()
            )));
        }
        let cache = cache_root.and_then(|root| match ObjectCache::open(&root) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::warn!(root = %root.display(), %error, "compiled kernels are not kept");
                None
            }
        });
        Ok(Self {
            compiler,
            sanitize,
            cache,
            runtime: OnceLock::new(),
            modules: Mutex::default(),
            functions: Mutex::default(),
        })
    }

    /// Compiles `source`, or finds it in memory or on disk.
    pub(super) fn module(&self, source: &KernelSource) -> Result<SimModule> {
        let start = Instant::now();
        let text = complete(source);
        let key = self.key(&text, "-O1");
        let slot = self.modules.lock().entry(key).or_default().clone();
        let mut loaded = slot.lock();
        let (module, origin) = match &*loaded {
            Some(module) => (module.clone(), BuildOrigin::Memory),
            None => {
                record(source);
                let (library, origin, code_bytes) = self.build(&text, "-O1")?;
                let module = Arc::new(Loaded::new(library, code_bytes, &source.entries, self.runtime()?)?);
                (loaded.insert(module).clone(), origin)
            }
        };
        let nanos = start.elapsed().as_nanos() as u64;
        let build = BuildInfo { origin, nanos, code_bytes: module.code_bytes };
        Ok(SimModule::new(module, build))
    }

    /// Compiles the function `entry` of a text without kernels, or finds it in memory or on disk.
    pub(super) fn host_function(&self, text: &str, entry: &str) -> Result<HostFunction> {
        let start = Instant::now();
        let slot = self.functions.lock().entry(self.key(text, "-O2")).or_default().clone();
        let mut made = slot.lock();
        if let Some(function) = &*made {
            return Ok(function.again(start.elapsed()));
        }
        let (library, origin, code_bytes) = self.build(text, "-O2")?;
        let build = BuildInfo { origin, nanos: start.elapsed().as_nanos() as u64, code_bytes };
        Ok(made.insert(HostFunction::new(library, entry, build)?).clone())
    }

    fn runtime(&self) -> Result<Arc<Runtime>> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime.clone());
        }
        let runtime = Arc::new(Runtime::new(self.build(RUNTIME, "-O2")?.0)?);
        Ok(self.runtime.get_or_init(|| runtime).clone())
    }

    fn key(&self, text: &str, optimization: &'static str) -> Key {
        let program = self.compiler.program.to_string_lossy();
        let flags = self.compiler.flags(self.sanitize, optimization).join(" ");
        Key::of([text, &*program, &self.compiler.version, &flags, std::env::consts::ARCH])
    }

    /// The loaded object of `text`, its origin, and its bytes.
    fn build(&self, text: &str, optimization: &'static str) -> Result<(Library, BuildOrigin, u64)> {
        let key = self.key(text, optimization);
        if let Some(path) = self.cache.as_ref().and_then(|cache| cache.find(key)) {
            let (library, bytes) = load(&path)?;
            return Ok((library, BuildOrigin::Disk, bytes));
        }
        let failed = |error: std::io::Error| DeviceError::Call { call: "compile", detail: error.to_string() };
        let folder = tempfile::tempdir().map_err(failed)?;
        let built = folder.path().join("kernel.so");
        self.compiler.run(text, &self.compiler.flags(self.sanitize, optimization), &built)?;
        // The newly built object is loaded: an unwritable cache only costs the next process time.
        let (library, bytes) = load(&built)?;
        if let Some(Err(error)) = self.cache.as_ref().map(|cache| cache.insert(key, &built)) {
            tracing::warn!(%error, "a compiled kernel was not kept");
        }
        Ok((library, BuildOrigin::Compiled, bytes))
    }
}

/// Sources compiled by simulated devices, while recording is on.
static RECORDED: Mutex<Option<Vec<KernelSource>>> = Mutex::new(None);

fn record(source: &KernelSource) {
    if let Some(recorded) = RECORDED.lock().as_mut() {
        recorded.push(source.clone());
    }
}

/// Starts to record the sources that simulated devices load for the first time in this process: tests pass them to the compilers of other devices.
pub fn record_sources() {
    RECORDED.lock().get_or_insert_default();
}

/// The sources recorded since the last call.
pub fn recorded_sources() -> Vec<KernelSource> {
    RECORDED.lock().as_mut().map(std::mem::take).unwrap_or_default()
}

/// The text with its prelude and the wrappers of its entry points. Line numbers count from the first line of the text.
fn complete(source: &KernelSource) -> String {
    let mut text = format!("{PRELUDE}\n#line 1 \"kernel.cu\"\n{}\n#line 1 \"entries\"\n", source.text);
    for name in &source.entries {
        text.push_str(&format!("WARPMILL_SIM_ENTRY({name})\n"));
    }
    text
}

fn load(path: &Path) -> Result<(Library, u64)> {
    let failed = |detail| DeviceError::Call { call: "load kernel", detail };
    let bytes = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
    // SAFETY: an object that this module's compiler made, whose initializers do nothing.
    let library = unsafe { Library::new(path) }.map_err(|error| failed(error.to_string()))?;
    Ok((library, bytes))
}

#[cfg(unix)]
fn asan_is_loaded() -> bool {
    let process = libloading::os::unix::Library::this();
    // SAFETY: the symbol is looked up, not called.
    unsafe { process.get::<unsafe extern "C" fn()>(b"__asan_init\0") }.is_ok()
}

#[cfg(not(unix))]
fn asan_is_loaded() -> bool {
    false
}
