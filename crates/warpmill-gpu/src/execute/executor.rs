//! Runs programs on one device, again with more room where a size was guessed too small.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use warpmill_cpu::context::CancelToken;
use warpmill_cpu::pipeline::Placed;
use warpmill_plan::Program;

use crate::codegen::layout::{Hints, Limits};
use crate::codegen::program::Kernel;
use crate::device::{Device, DeviceKind, Stream};

use super::memory::{Cache, Owner, Region};
use super::prepared::Prepared;
use super::profile::DeviceProfile;
use super::run::Run;
use super::segments::Recoded;
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
    /// Whether kernels are timed.
    pub profile: bool,
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

/// Runs programs on one device, one at a time.
pub struct Executor {
    pub(super) device: Arc<dyn Device>,
    pub(super) memory: u64,
    limits: Limits,
    state: Mutex<State>,
    pub(super) recoded: Recoded,
}

pub(super) struct State {
    pub(super) stream: Stream,
    pub(super) cache: Cache,
    pub(super) processing: Region,
    prepared: HashMap<usize, (Weak<Program>, Arc<Prepared>)>,
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
        // Data stays between queries; tables and rows do not, and have what data leaves them.
        let cache = Cache::new(Region::new(device.clone(), "the caching region", memory / 4 * 3));
        let processing = Region::new(device.clone(), "the processing region", memory);
        let state = State { stream: device.stream()?, cache, processing, prepared: HashMap::new() };
        let shared = device.properties().shared_per_block.min(64 << 10);
        let limits = Limits { table_bytes: memory / 5, shared_bytes: shared };
        let recoded = Recoded::default();
        Ok(Self { device, memory, limits, state: Mutex::new(state), recoded })
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
        let mut state = self.state.lock();
        let prepared = self.prepared(&mut state, program, inputs)?;
        let text = |kernel: &Kernel| (kernel.label.clone(), kernel.text.clone());
        Ok(prepared.lowered.kernels.iter().map(text).collect())
    }

    /// Forgets all cached data: queries read host memory again.
    pub fn clear_cache(&self) {
        self.state.lock().cache.clear();
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
        let mut state = self.state.lock();
        let rows: Vec<u64> =
            inputs.iter().map(|batches| batches.iter().map(|batch| batch.num_rows() as u64).sum()).collect();
        let (mut runs, mut released) = (0, false);
        loop {
            runs += 1;
            let prepared = self.prepared(&mut state, program, &rows)?;
            let mut run = Run::new(self, &mut state, &prepared, options);
            run.profile.runs = runs;
            let outcome = run.run(inputs);
            state.processing.reset();
            match outcome {
                Ok(Outcome::Done(output)) => return Ok(*output),
                Ok(Outcome::Again(hints)) if runs < MOST_RUNS => {
                    self.prepare(&mut state, program, &rows, hints)?;
                }
                Ok(Outcome::Again(_)) => {
                    return Err(
                        warpmill_plan::Unsupported::new("program", "sizes could not be found in 16 runs").into()
                    );
                }
                Err(Failure::Memory { .. }) if !released => {
                    // Allocations of other sizes, left by other queries, may be in the way.
                    released = true;
                    self.device.synchronize(state.stream)?;
                    state.processing.release();
                }
                Err(Failure::Memory { .. }) if prepared.with_host_sort().is_some() => {
                    self.device.synchronize(state.stream)?;
                    let hints = prepared.with_host_sort().unwrap_or_default();
                    self.prepare(&mut state, program, &rows, hints)?;
                }
                Err(failure) => {
                    // Whatever was queued before the failure must not outlive the memory that it uses.
                    let _ = self.device.synchronize(state.stream);
                    return Err(failure);
                }
            }
        }
    }

    fn prepared(&self, state: &mut State, program: &Arc<Program>, inputs: &[u64]) -> Result<Arc<Prepared>> {
        let key = Arc::as_ptr(program) as usize;
        if let Some((held, prepared)) = state.prepared.get(&key)
            && held.upgrade().is_some_and(|held| Arc::ptr_eq(&held, program))
            && prepared.inputs == inputs
        {
            return Ok(prepared.clone());
        }
        self.prepare(state, program, inputs, Hints::default())
    }

    fn prepare(
        &self,
        state: &mut State,
        program: &Arc<Program>,
        inputs: &[u64],
        hints: Hints,
    ) -> Result<Arc<Prepared>> {
        let prepared = Prepared::new(program, inputs, hints, self.limits, &self.device, &self.recoded)?;
        let prepared = Arc::new(prepared);
        if state.prepared.len() >= MOST_PREPARED {
            state.prepared.retain(|_, (program, _)| program.strong_count() > 0);
        }
        if state.prepared.len() >= MOST_PREPARED {
            state.prepared.clear();
        }
        state.prepared.insert(Arc::as_ptr(program) as usize, (Arc::downgrade(program), prepared.clone()));
        Ok(prepared)
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let _ = self.device.synchronize(state.stream);
        self.device.destroy_stream(state.stream);
    }
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
