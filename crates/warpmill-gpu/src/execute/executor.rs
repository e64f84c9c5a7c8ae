//! Runs programs on one device, several at once, and each again with more room where a size was guessed too small.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use warpmill_cpu::context::CancelToken;
use warpmill_cpu::pipeline::Placed;
use warpmill_plan::Program;

use crate::codegen::layout::{Hints, Limits};
use crate::codegen::program;
use crate::device::{Device, DeviceKind};

use super::admission::{self, Admission, Wanted};
use super::inputs::Inputs;
use super::memory::{Cache, Owner, Region, aligned};
use super::prepared::Prepared;
use super::profile::DeviceProfile;
use super::run::Run;
use super::segments::Recoded;
use super::source::{DataSource, PinnedCopies};
use super::stream::Openers;
use super::{Failure, Result};

/// A program is not run more often than this, each time with more room.
const MOST_RUNS: u32 = 16;

/// Programs that are kept prepared.
const MOST_PREPARED: usize = 256;

/// How a program is run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Stops the query between launches.
    pub cancel: CancelToken,
    /// Whether kernels are timed, which takes a few microseconds each.
    pub profile: bool,
    /// Where the program's data is.
    pub data: DataSource,
    /// Bytes per second that files are read with at most; 0: as fast as drives are.
    pub io_bandwidth_limit: u64,
    /// Parts in which every sink is made that can be, whatever its size (for tests); 0: only as far as memory does not suffice.
    pub partitions: u32,
}

/// What a program gave.
pub struct DeviceOutput {
    /// The program that was run: the one asked for, but for the place of a sort.
    pub program: Arc<Program>,
    /// Where each pipeline was run, with the rows that the host goes on with.
    pub placed: Vec<Placed>,
    /// What strings in those rows point into.
    pub owners: Vec<Owner>,
    /// What happened.
    pub profile: DeviceProfile,
}

/// Runs programs on one device: as many at once as its memory has room for, in the order in which they come.
pub struct Executor {
    pub(super) device: Arc<dyn Device>,
    /// Bytes of device memory, of both regions together.
    pub(super) memory: u64,
    pub(super) limits: Limits,
    admission: Admission,
    pub(super) cache: Mutex<Cache>,
    /// Held while data is copied into the caching region.
    pub(super) loading: Mutex<()>,
    pub(super) pinned: PinnedCopies,
    pub(super) recoded: Recoded,
    prepared: Mutex<PreparedPrograms>,
    peak: OnceLock<Option<f64>>,
    /// Made when they are first needed.
    openers: Mutex<Option<Openers>>,
}

/// By the program's address, and what was asked for.
type PreparedPrograms = HashMap<(usize, Asked), (Weak<Program>, Arc<Prepared>)>;

/// What somebody asked for, whatever memory there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Asked {
    /// Segments must not stay in device memory.
    streamed: bool,
    /// Every sink that can be is made in so many parts.
    partitions: u32,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("device", &self.device.properties().name).finish_non_exhaustive()
    }
}

impl Executor {
    /// An executor on `device` that uses at most `memory` bytes of it.
    ///
    /// # Errors
    /// The device's.
    pub fn new(device: Arc<dyn Device>, memory: u64) -> Result<Self> {
        let memory = memory.min(device.free_memory()?);
        let cache = Cache::new(Region::new(device.clone(), "the caching region", memory / 4 * 3));
        let shared = device.properties().shared_per_block.min(80 << 10);
        let limits = Limits::new(memory, shared);
        Ok(Self {
            device,
            memory,
            limits,
            admission: Admission::default(),
            cache: Mutex::new(cache),
            loading: Mutex::default(),
            pinned: PinnedCopies::default(),
            recoded: Recoded::default(),
            prepared: Mutex::default(),
            peak: OnceLock::new(),
            openers: Mutex::default(),
        })
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// The texts of the kernels that `program` needs, with what each does, as they were laid out at first.
    ///
    /// # Errors
    /// What the device cannot do.
    pub fn kernels(&self, program: &Arc<Program>, inputs: &[u64]) -> Result<Vec<(String, String)>> {
        let prepared = self.prepared(program, inputs, Asked { streamed: false, partitions: 0 })?;
        let text = |kernel: &program::Kernel| (kernel.label.clone(), kernel.text.clone());
        Ok(prepared.lowered.kernels.iter().map(text).collect())
    }

    /// Forgets all copies of data: queries read host memory again. Waits for programs that run.
    pub fn clear_cache(&self) {
        let wanted = Wanted { prepared: None, processing: 0, alone: true };
        // Whoever is alone finds the caching region empty.
        if let Err(error) = self.admission.enter(self, wanted, &CancelToken::default()) {
            tracing::warn!(%error, "the device's data was not dropped");
        }
        self.pinned.clear();
    }

    /// Bytes per second that kernels can read of the device's memory, measured when first asked for; `None` on the simulated
    /// device, and where measuring fails.
    pub fn peak_bandwidth(&self) -> Option<f64> {
        *self.peak.get_or_init(|| crate::bench::read_bandwidth(&self.device).ok().flatten())
    }

    /// What makes segments readable when they have arrived.
    pub(super) fn openers(&self) -> Result<Openers> {
        let mut openers = self.openers.lock();
        match &*openers {
            Some(known) => Ok(known.clone()),
            None => Ok(openers.insert(Openers::compile(&self.device)?).clone()),
        }
    }

    /// Runs `program` up to the point where the host goes on.
    ///
    /// # Errors
    /// [`Failure`]: nothing of a failed run is given, and the program can be run elsewhere.
    pub fn execute(
        &self,
        program: &Arc<Program>,
        inputs: &[Vec<RecordBatch>],
        options: &Options,
    ) -> Result<DeviceOutput> {
        if options.profile {
            // Measured now if it never was: not while the program runs.
            self.peak_bandwidth();
        }
        let rows: Vec<u64> =
            inputs.iter().map(|batches| batches.iter().map(|batch| batch.num_rows() as u64).sum()).collect();
        let asked = Asked { streamed: options.data != DataSource::Cache, partitions: options.partitions };
        let mut prepared = self.prepared(program, &rows, asked)?;
        let inputs = Inputs::encode(&prepared.program, inputs)?;
        let (mut runs, mut alone) = (1, false);
        loop {
            match self.run_once(&prepared, &inputs, options, runs, alone) {
                Ok(Outcome::Done(output)) => return Ok(*output),
                Ok(Outcome::Again(hints)) if runs < MOST_RUNS => {
                    runs += 1;
                    prepared = self.prepare((program, asked), &rows, hints)?;
                }
                Ok(Outcome::Again(_)) => {
                    return Err(
                        warpmill_plan::Unsupported::new("program", "sizes could not be found in 16 runs").into()
                    );
                }
                Err(failure @ Failure::Memory { .. }) => {
                    // It would fit: allocations of other sizes, left by other queries or held by other processes, are in the way.
                    if !alone && self.fits(&prepared, &inputs) {
                        alone = true;
                        continue;
                    }
                    let less = prepared.with_less_memory(self.memory, inputs.allocated());
                    let Some(hints) = less else { return Err(failure) };
                    prepared = self.prepare((program, asked), &rows, hints)?;
                    alone = false;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    fn run_once(
        &self,
        prepared: &Arc<Prepared>,
        inputs: &Inputs,
        options: &Options,
        runs: u32,
        alone: bool,
    ) -> Result<Outcome> {
        let started = Instant::now();
        let wanted = Wanted { alone, ..wanted(prepared, inputs) };
        let mut turn = self.admission.enter(self, wanted, &options.cancel)?;
        let mut profile = DeviceProfile {
            device: self.device.properties().name.clone(),
            prepare_nanos: prepared.nanos,
            wait_nanos: started.elapsed().as_nanos() as u64,
            runs,
            scans: prepared.scan_profiles(),
            ..DeviceProfile::default()
        };
        turn.busy = true;
        let resident = self.load(&mut turn, prepared, &mut profile)?;
        let outcome = Run::new(self, turn.lane(), prepared, resident, options, profile).run(inputs);
        // What succeeded has waited for its work.
        turn.busy = outcome.is_err();
        outcome
    }

    /// Whether an empty device has room for the program.
    fn fits(&self, prepared: &Arc<Prepared>, inputs: &Inputs) -> bool {
        admission::check_size(self, wanted(prepared, inputs)).is_ok()
    }

    fn prepared(&self, program: &Arc<Program>, inputs: &[u64], asked: Asked) -> Result<Arc<Prepared>> {
        let key = (Arc::as_ptr(program) as usize, asked);
        if let Some((held, prepared)) = self.prepared.lock().get(&key)
            && held.upgrade().is_some_and(|held| Arc::ptr_eq(&held, program))
            && prepared.inputs == inputs
        {
            return Ok(prepared.clone());
        }
        let parts = asked.partitions > 1;
        let forced_partitions = if parts { asked.partitions } else { 0 };
        let hints = Hints { streamed: asked.streamed || parts, forced_partitions, ..Hints::default() };
        self.prepare((program, asked), inputs, hints)
    }

    fn prepare(&self, (program, asked): (&Arc<Program>, Asked), inputs: &[u64], hints: Hints) -> Result<Arc<Prepared>> {
        let prepared = Prepared::new(program, inputs, hints, self.limits, &self.device, &self.recoded)?;
        let prepared = Arc::new(prepared);
        let mut all = self.prepared.lock();
        if all.len() >= MOST_PREPARED {
            all.retain(|_, (program, _)| program.strong_count() > 0);
        }
        if all.len() >= MOST_PREPARED {
            all.clear();
        }
        all.insert((Arc::as_ptr(program) as usize, asked), (Arc::downgrade(program), prepared.clone()));
        Ok(prepared)
    }
}

/// What a run needs of the device's memory.
fn wanted<'a>(prepared: &'a Prepared, inputs: &Inputs) -> Wanted<'a> {
    let own = prepared.stream.as_ref().map_or(0, |stream| aligned(stream.bytes()) + prepared.data_bytes);
    let processing = prepared.memory.bytes + inputs.allocated() + own;
    Wanted { prepared: prepared.stream.is_none().then_some(prepared), processing, alone: false }
}

/// How a run ended.
pub(super) enum Outcome {
    Done(Box<DeviceOutput>),
    Again(Hints),
}

/// Bytes of device memory that an executor takes when nothing else is said.
pub fn default_memory(device: &dyn Device) -> Result<u64> {
    let free = device.free_memory()?;
    Ok(match device.properties().kind {
        DeviceKind::Cuda => free / 10 * 9,
        DeviceKind::Sim => free,
    })
}
