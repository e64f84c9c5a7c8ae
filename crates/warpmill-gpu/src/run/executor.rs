//! Runs programs on one device, several at once. A program in which a size was guessed too small is run again with more room.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use warpmill_eval::cancel::CancelToken;
use warpmill_ir::{Program, Source};
use warpmill_machine::{DeviceRates, HardwareProfile};

use super::load::load;
use super::once::state::Run;
use super::options::{Asked, DeviceOutput, MOST_PREPARED, Options, Outcome, most_host_rows};
use super::scan_profiles::scan_profiles;
use super::scatter::divided_bytes;
use super::shared::Shared;
use super::shuffle::Received;
use crate::compile::hints::{Hints, Limits};
use crate::compile::kernel::Kernel;
use crate::data::form::DataSource;
use crate::data::paths::model::{Rates, ScanColumn};
use crate::device::{Device, DeviceKind};
use crate::memory::error::{Failure, Result};

use super::coexecution::Splits;
use super::inputs::Inputs;
use super::profile::{DeviceProfile, PathProfile};
use crate::compile::filters::ScanFilters;
use crate::compile::functions::Loaded;
use crate::compile::joins::Means;
use crate::compile::prepared::{ChooseForms, Prepared, Preparing, Smaller, scan_columns, selected_scans};
use crate::compile::shapes::Shapes;
use crate::data::admission::{self, CachedData, Wanted};
use crate::data::paths::Choice;
use crate::data::segments::{MUCH_TO_CONVERT, converted_bytes};
use crate::memory::regions::aligned;

/// Largest number of runs of a program, each with more room.
const MOST_RUNS: u32 = 16;

/// Runs programs on one device: as many at once as its memory has room for, in order of arrival.
pub struct Executor {
    pub(super) shared: Arc<Shared>,
    pub(super) limits: Limits,
    prepared: Mutex<PreparedPrograms>,
    shapes: Shapes,
    loaded: Arc<Loaded>,
    pub(super) splits: Splits,
}

/// Prepared programs by program address and requested options. Several for different forms of the columns, the last used first.
type PreparedPrograms = HashMap<(usize, Asked), (Weak<Program>, Vec<Arc<Prepared>>)>;

/// Largest number of column forms for which a program is kept prepared.
const MOST_FORMS: usize = 6;

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("device", &self.shared.store.device.properties().name).finish_non_exhaustive()
    }
}

impl Executor {
    /// An executor on `device` that uses at most `memory` bytes of it.
    ///
    /// # Errors
    /// The device's.
    pub fn new(device: Arc<dyn Device>, memory: u64) -> Result<Self> {
        let shared = Arc::new(Shared::new(device, memory)?);
        let limits = Limits::new(shared.store.memory, shared.store.device.properties().shared_per_block);
        let loaded = Arc::new(Loaded::new(&shared.store.device));
        let (prepared, shapes, splits) = Default::default();
        Ok(Self { shared, limits, prepared, shapes, loaded, splits })
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.shared.store.device
    }

    /// Measured read bandwidth of device memory in bytes per second, measured at the first call; `None` on the simulated device, and if the
    /// measurement fails.
    pub fn peak_bandwidth(&self) -> Option<f64> {
        self.shared.peak_bandwidth()
    }

    /// The labels and texts of the kernels of `program`, in its first layout.
    ///
    /// # Errors
    /// Operations that the device does not support.
    pub fn kernels(&self, program: &Arc<Program>, inputs: &[u64]) -> Result<Vec<(String, String)>> {
        let prepared = self.prepared(program, inputs, &Options::default())?;
        prepared.compiled(&self.loaded)?;
        let text = |kernel: &Kernel| (kernel.label.clone(), kernel.text.clone());
        Ok(prepared.kernels().iter().map(text).collect())
    }

    /// Whether the kernels of `program` are compiled, in this process or on disk, or the device does not support it anyway. Their texts depend on the
    /// data's encodings: not known, so false, where finding out would convert much data, for which a query would wait.
    pub fn has_kernels(&self, program: &Arc<Program>, options: &Options) -> bool {
        if self.last_prepared(program, options).is_none() && self.converts_much(program) {
            return false;
        }
        let Ok(prepared) = self.prepared(program, &[], options) else { return true };
        prepared.is_compiled() || prepared.kernels().iter().all(|kernel| self.loaded.has_code(kernel))
    }

    /// Whether preparing `program` decompresses much data, or encodes it anew.
    fn converts_much(&self, program: &Program) -> bool {
        let scans = program.pipelines.iter().filter_map(|pipeline| match &pipeline.source {
            Source::Scan(scan) => Some(scan),
            _ => None,
        });
        scans.map(|scan| converted_bytes(scan, &self.shared.store.recoded)).sum::<u64>() >= MUCH_TO_CONVERT
    }

    /// Whether `program` has been prepared, and all of its kernels are compiled: it can begin at once. Does not wait.
    pub fn is_ready(&self, program: &Arc<Program>, options: &Options) -> bool {
        let prepared = self.prepared.lock();
        let known = prepared.get(&(Arc::as_ptr(program) as usize, Asked::of(program, options)));
        known.is_some_and(|(held, known)| {
            let is_held = held.upgrade().is_some_and(|held| Arc::ptr_eq(&held, program));
            is_held && known.first().is_some_and(|last| last.is_compiled())
        })
    }

    /// Drops all copies of data. Waits for running programs.
    pub fn clear_cache(&self) {
        let wanted = Wanted { data: None, processing: 0, alone: true, nested: false };
        // A turn alone on the device empties the caching region.
        if let Err(error) = self.shared.admission.enter(&self.shared.store, wanted, &CancelToken::default()) {
            tracing::warn!(%error, "the device's data was not dropped");
        }
        self.shared.store.pinned.clear();
        self.shared.store.mapped.clear();
    }

    /// Runs `program` up to the rows that the host continues with.
    ///
    /// # Errors
    /// [`Failure`]: a failed run has no results, and the program can be run elsewhere.
    pub fn execute(
        &self,
        program: &Arc<Program>,
        inputs: &[Vec<RecordBatch>],
        options: &Options,
    ) -> Result<DeviceOutput> {
        if options.profile || options.data == DataSource::Mirrored {
            // Measure before the program runs, not while it does.
            self.shared.peak_bandwidth();
        }
        let rows: Vec<u64> =
            inputs.iter().map(|batches| batches.iter().map(|batch| batch.num_rows() as u64).sum()).collect();
        if options.shared.is_none()
            && options.shuffle.is_none()
            && let Some(known) = self.known_split(program, &rows, options)?
        {
            return self.split_or_other(program, &known, inputs, options);
        }
        let mut prepared = self.prepared(program, &rows, options)?;
        let batches = inputs;
        let inputs = Inputs::encode(&prepared.program, inputs)?;
        let (mut runs, mut alone) = (1, false);
        loop {
            match self.run_once((program, &prepared), &inputs, options, runs, alone) {
                Ok(Outcome::Done(output)) => {
                    let first = Asked::of(program, options).hints();
                    if runs > 1 {
                        prepared.teach(&first);
                    }
                    if !prepared.is_to_teach(&first) {
                        self.prepare_smaller(program, &rows, options, &mut prepared.smaller.lock());
                    }
                    return Ok(*output);
                }
                Ok(Outcome::Again(hints)) if runs < MOST_RUNS => {
                    runs += 1;
                    prepared = self.prepare(program, &rows, *hints, options)?;
                }
                Ok(Outcome::Again(_)) => {
                    return Err(too_small().into());
                }
                // Rows to be sent take twice their memory. Run again with room for fewer, then for the counted number.
                Err(Failure::Memory { .. }) if options.may_send_fewer(prepared.hints(), program.sinks.len() - 1) => {
                    let mut hints = prepared.hints().clone();
                    hints.capacity.insert(program.sinks.len() - 1, FIRST_SENT);
                    prepared = self.prepare(program, &rows, hints, options)?;
                }
                // Hints learnt with other constants may ask for too much memory.
                Err(Failure::Memory { .. }) if prepared.has_others_hints => {
                    let first = Asked::of(program, options).hints();
                    prepared.unteach(&first);
                    prepared = self.prepare(program, &rows, first, options)?;
                }
                // Other devices may have copied the rows already, and left.
                Err(failure) if options.shuffle.is_some() => return Err(failure),
                Err(failure @ Failure::Memory { .. }) => {
                    // An empty device would have room: allocations of other queries or processes fragment the memory.
                    if !alone && self.fits(&prepared, &inputs) {
                        alone = true;
                        continue;
                    }
                    let (means, taken) = (self.means(options), inputs.allocated());
                    let less = match prepared.with_less_memory(self.shared.store.memory, taken, &means)? {
                        None => prepared.without_rows_on_host(self.shared.store.memory, taken, &means)?,
                        less => less,
                    };
                    // Pages of remote files take less room than their footers promise.
                    let read_first = || Hints { unforeseen: u32::MAX, ..prepared.hints().clone() };
                    let to_come = prepared.scans.values().any(|scan| scan.rows.to_come);
                    let Some(hints) = less.or_else(|| to_come.then(read_first)) else { return Err(failure) };
                    if options.shared.is_some() && hints.split().is_some() {
                        return Err(failure);
                    }
                    if let Some(plan) = hints.split() {
                        let known = self.split(program, (&prepared.program, plan), &rows, options)?;
                        return self.split_or_other(program, &known, batches, options);
                    }
                    prepared = self.prepare(program, &rows, hints, options)?;
                    alone = false;
                }
                Err(failure @ Failure::HostMemory { .. }) => {
                    let means = self.means(options);
                    let less = prepared.without_rows_on_host(self.shared.store.memory, inputs.allocated(), &means)?;
                    let Some(hints) = less else { return Err(failure) };
                    if let Some(plan) = hints.split() {
                        let known = self.split(program, (&prepared.program, plan), &rows, options)?;
                        return self.split_or_other(program, &known, batches, options);
                    }
                    prepared = self.prepare(program, &rows, hints, options)?;
                }
                Err(Failure::Unforeseen) if prepared.hints().may_read_later() => {
                    runs += 1;
                    let hints = Hints { unforeseen: prepared.hints().unforeseen + 1, ..prepared.hints().clone() };
                    prepared = self.prepare(program, &rows, hints, options)?;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Cost inputs of the choice of a join strategy.
    pub(super) fn means(&self, options: &Options) -> Means {
        // Measured rates of the simulated device are meaningless.
        let rates = match self.shared.store.device.properties().kind {
            DeviceKind::Cuda => self.shared.paths.rates(),
            DeviceKind::Sim => Rates::new(&HardwareProfile::default(), &DeviceRates::assumed("gpu"), 16),
        };
        let passing = match options.data.passing() {
            DataSource::Disk => rates.link.min(rates.disk),
            DataSource::Host | DataSource::Cache => rates.link.min(rates.staging),
            DataSource::Mirrored | DataSource::Pinned => rates.link,
        };
        let (strategy, cpu_threads) = (options.join, options.cpu_threads);
        // Host memory holds the rows and what the CPU back end makes of them.
        let half = options.host_bytes.map_or(u64::MAX, |limit| limit / 2);
        let (host_room, row_room) = (self.shared.room_on_host(options.pinned_memory_limit), half.min(most_host_rows()));
        let (cpu, scattered) = (warpmill_machine::current().cpu, self.shared.device_rates().scattered);
        Means { strategy, cpu_threads, host_room, row_room, passing, link: rates.link, scattered, cpu }
    }

    /// The prepared program that was used last.
    pub(super) fn last_prepared(&self, program: &Arc<Program>, options: &Options) -> Option<Arc<Prepared>> {
        let prepared = self.prepared.lock();
        let (held, known) = prepared.get(&(Arc::as_ptr(program) as usize, Asked::of(program, options)))?;
        held.upgrade().filter(|held| Arc::ptr_eq(held, program))?;
        known.first().cloned()
    }

    /// Starts to compile the kernels of the program that continues with rows of other devices, if it was never prepared.
    pub(super) fn compile_ahead(&self, program: &Arc<Program>, options: &Options) {
        if self.last_prepared(program, options).is_none()
            && let Ok(prepared) = self.prepare(program, &[GUESSED_ROWS], Asked::of(program, options).hints(), options)
        {
            prepared.compile(&self.loaded);
        }
    }

    /// Runs `program` on rows received from other devices.
    ///
    /// # Errors
    /// As for [`Executor::execute`]; too little free memory.
    pub(super) fn execute_received(
        &self,
        program: &Arc<Program>,
        received: &Received,
        options: &Options,
    ) -> Result<DeviceOutput> {
        let rows = [received.rows];
        let mut prepared = self.prepared(program, &rows, options)?;
        let inputs = Inputs::received(&prepared.program, received)?;
        for runs in 1..=MOST_RUNS {
            match self.run_once((program, &prepared), &inputs, options, runs, false)? {
                Outcome::Done(output) => return Ok(*output),
                Outcome::Again(hints) => prepared = self.prepare(program, &rows, *hints, options)?,
            }
        }
        Err(too_small().into())
    }

    fn run_once(
        &self,
        (program, prepared): (&Arc<Program>, &Arc<Prepared>),
        inputs: &Inputs,
        options: &Options,
        runs: u32,
        alone: bool,
    ) -> Result<Outcome> {
        prepared.compile(&self.loaded);
        // Kernels are compiled while data is copied. A program without copies waits for them before it takes memory.
        if !prepared.is_compiled()
            && (prepared.stream.is_some() || prepared.missing(&self.shared.store.cache.lock()) == 0)
        {
            prepared.compiled(&self.loaded)?;
        }
        if (options.shared.is_some() || options.shuffle.is_some()) && prepared.hints().makes_parts() {
            return Err(warpmill_ir::Unsupported::new("shared scan", "its sinks do not fit the device").into());
        }
        let started = Instant::now();
        let mut wanted = Wanted { alone, nested: options.nested, ..wanted(prepared, inputs) };
        if options.shared.is_some() {
            wanted.processing += prepared.claimed_bytes();
        }
        if let Some(end) = &options.shuffle {
            wanted.processing += divided_bytes(&prepared.memory);
            end.part.wait_for_turn();
        }
        let mut turn = self.shared.admission.enter(&self.shared.store, wanted, &options.cancel)?;
        let mut profile = DeviceProfile {
            device: self.shared.store.device.properties().name.clone(),
            wait_nanos: started.elapsed().as_nanos() as u64,
            runs,
            scans: scan_profiles(prepared),
            join: prepared.hints().join.clone(),
            path: prepared.stream.is_some().then(|| self.path(program, prepared, options)),
            ..DeviceProfile::default()
        };
        options.shuffle.iter().for_each(|end| end.part.begin());
        turn.busy = true;
        let resident = load(&self.shared.store, &mut turn, prepared, (options, &mut profile))?;
        prepared.compiled(&self.loaded)?;
        profile.prepare_nanos = prepared.all_nanos();
        profile.found_kernels = prepared.found_kernels();
        let outcome = Run::new(&self.shared, turn.lane(), (program, prepared), resident, options, profile).run(inputs);
        // A successful run has waited for its work.
        turn.busy = outcome.is_err();
        outcome
    }

    /// Whether an empty device has room for the program.
    fn fits(&self, prepared: &Arc<Prepared>, inputs: &Inputs) -> bool {
        admission::check_size(&self.shared.store, wanted(prepared, inputs)).is_ok()
    }

    /// The program prepared in the forms that are best now, with the hints of its last run.
    pub(super) fn prepared(&self, program: &Arc<Program>, inputs: &[u64], options: &Options) -> Result<Arc<Prepared>> {
        let asked = Asked::of(program, options);
        let key = (Arc::as_ptr(program) as usize, asked);
        let known = match self.prepared.lock().get(&key) {
            Some((held, known)) if held.upgrade().is_some_and(|held| Arc::ptr_eq(&held, program)) => known.clone(),
            _ => vec![],
        };
        let Some(last) = known.first().filter(|last| last.inputs() == inputs) else {
            let forms = |columns: &[ScanColumn]| self.choose(program, columns, GUESSED_BATCHES, options).forms;
            let by = Preparing { first: true, ..self.preparing(options, &forms) };
            return self.prepare_as(program, inputs, &asked.hints(), options, &by);
        };
        // The lock is not held during preparation, so that concurrent runs of the program can end.
        let learnt = last.learnt.lock().take();
        if let Some(hints) = learnt {
            self.shared.paths.forget_outcomes(program);
            return self.prepare(program, inputs, hints, options);
        }
        if let Some(smaller) = self.smaller(program, inputs, options, last) {
            return Ok(self.keep(program, asked, smaller));
        }
        let Some(stream) = &last.stream else { return Ok(last.clone()) };
        let forms = self.choose(program, &last.columns, stream.batches, options).forms;
        if last.forms == forms {
            return Ok(last.clone());
        }
        match known
            .iter()
            .find(|other| other.forms == forms && other.hints() == last.hints() && other.inputs() == inputs)
        {
            Some(found) => Ok(self.keep(program, asked, found.clone())),
            None => {
                let chosen = |_: &[ScanColumn]| forms.clone();
                self.prepare_as(program, inputs, last.hints(), options, &self.preparing(options, &chosen))
            }
        }
    }

    /// The program with smaller tables than `last`, once its kernels are compiled.
    fn smaller(
        &self,
        program: &Arc<Program>,
        inputs: &[u64],
        options: &Options,
        last: &Prepared,
    ) -> Option<Arc<Prepared>> {
        let mut known = last.smaller.lock();
        self.prepare_smaller(program, inputs, options, &mut known);
        match &*known {
            Smaller::Prepared(prepared) if prepared.is_ready() => match prepared.compiled(&self.loaded) {
                Ok(()) => Some(prepared.clone()),
                Err(error) => {
                    *known = refused(&error);
                    None
                }
            },
            _ => None,
        }
    }

    /// Prepares the program with smaller tables, if a run has counted them, and starts to compile its kernels.
    fn prepare_smaller(&self, program: &Arc<Program>, inputs: &[u64], options: &Options, known: &mut Smaller) {
        let Smaller::Counted(hints) = &*known else { return };
        let forms = |_: &[ScanColumn]| vec![];
        *known = match Prepared::new(program, inputs, hints, &self.preparing(options, &forms)) {
            Ok(prepared) => {
                prepared.compile(&self.loaded);
                prepared.teach_later(&Asked::of(program, options).hints());
                Smaller::Prepared(Arc::new(prepared))
            }
            Err(error) => refused(&error),
        };
    }

    fn prepare(
        &self,
        program: &Arc<Program>,
        inputs: &[u64],
        hints: Hints,
        options: &Options,
    ) -> Result<Arc<Prepared>> {
        let forms = |columns: &[ScanColumn]| self.choose(program, columns, GUESSED_BATCHES, options).forms;
        self.prepare_as(program, inputs, &hints, options, &self.preparing(options, &forms))
    }

    /// Inputs of a preparation whose hints are not the first ones.
    fn preparing<'a>(&'a self, options: &Options, forms: &'a ChooseForms<'a>) -> Preparing<'a> {
        Preparing {
            limits: self.limits,
            device: &self.shared.store.device,
            shapes: &self.shapes,
            loaded: &self.loaded,
            recoded: &self.shared.store.recoded,
            forms,
            data: options.data,
            first: false,
        }
    }

    fn prepare_as(
        &self,
        program: &Arc<Program>,
        inputs: &[u64],
        hints: &Hints,
        options: &Options,
        by: &Preparing<'_>,
    ) -> Result<Arc<Prepared>> {
        let prepared = Prepared::new(program, inputs, hints, by)?;
        Ok(self.keep(program, Asked::of(program, options), Arc::new(prepared)))
    }

    /// The predicted streaming of `program`'s data; `None` if the data may be cached. Reads metadata only.
    ///
    /// # Errors
    /// Filters that cannot be evaluated, damaged metadata.
    pub fn preview(&self, program: &Arc<Program>, options: &Options) -> Result<Option<PathProfile>> {
        if !Asked::of(program, options).streamed {
            return Ok(None);
        }
        // Numbered like the program that will be run.
        let deferred = crate::compile::defer::defer_sorts(program).map_or_else(|| program.clone(), Arc::new);
        let columns = scan_columns(
            &deferred,
            &selected_scans(&deferred, &ScanFilters::of_program(&deferred)?, options.data.passing())?,
            self.shared.store.recoded.undone,
        );
        let place = (options.data, options.io_bandwidth_limit);
        let choice = self.shared.paths.preview(program, &columns, place, (options.representation, GUESSED_BATCHES));
        Ok((!columns.is_empty()).then(|| PathProfile::new(options.data, &columns, &choice, &self.library())))
    }

    fn choose(&self, program: &Arc<Program>, columns: &[ScanColumn], batches: u64, options: &Options) -> Choice {
        let place = (options.data.passing(), options.io_bandwidth_limit);
        self.shared.paths.choose(program, columns, place, (options.representation, batches))
    }

    /// The forms in which the data of `prepared` is streamed, and the reason.
    fn path(&self, program: &Arc<Program>, prepared: &Prepared, options: &Options) -> PathProfile {
        let source = options.data.passing();
        let place = (source, options.io_bandwidth_limit);
        let batches = prepared.stream.as_ref().map_or(1, |stream| stream.batches);
        let choice = self.shared.paths.explain(program, &prepared.columns, place, (&prepared.forms, batches));
        PathProfile::new(source, &prepared.columns, &choice, &self.library())
    }

    /// The name of the vendor's decompression library; the error is the reason why there is none.
    fn library(&self) -> Result<String, String> {
        self.shared.store.device.batch_codec().map(|library| library.name())
    }

    /// Records `prepared` as the last used.
    fn keep(&self, program: &Arc<Program>, asked: Asked, prepared: Arc<Prepared>) -> Arc<Prepared> {
        // Dropped after the lock is released: unloading kernels may wait for the device.
        let mut gone = vec![];
        let mut all = self.prepared.lock();
        if all.len() >= MOST_PREPARED {
            gone.extend(all.extract_if(|_, (program, _)| program.strong_count() == 0).map(|(_, (_, known))| known));
        }
        if all.len() >= MOST_PREPARED {
            gone.extend(all.drain().map(|(_, (_, known))| known));
        }
        let entry = all.entry((Arc::as_ptr(program) as usize, asked));
        let (held, known) = entry.or_insert_with(|| (Arc::downgrade(program), vec![]));
        if !held.upgrade().is_some_and(|held| Arc::ptr_eq(&held, program)) {
            // The address was reused: the earlier program is gone.
            *held = Arc::downgrade(program);
            gone.push(std::mem::take(known));
        }
        known.retain(|other| {
            other.forms != prepared.forms && other.hints() == prepared.hints() && other.inputs() == prepared.inputs()
        });
        known.insert(0, prepared.clone());
        known.truncate(MOST_FORMS);
        drop(all);
        drop(gone);
        prepared
    }
}

/// The state after a failure to prepare or compile a program with smaller tables.
fn refused(error: &Failure) -> Smaller {
    tracing::warn!(%error, "a device program keeps tables that are larger than needed");
    Smaller::Refused
}

/// First guess of the rows that are sent to other devices, if memory does not allow for all.
const FIRST_SENT: u64 = 1 << 20;

/// Assumed number of rows received from other devices before they are counted.
const GUESSED_ROWS: u64 = 1 << 20;

/// Assumed number of batches of a program that is not laid out yet.
const GUESSED_BATCHES: u64 = 8;

/// The device memory that a run needs.
fn wanted<'a>(prepared: &'a Prepared, inputs: &Inputs) -> Wanted<'a> {
    let own = prepared.stream.as_ref().map_or(0, |stream| aligned(stream.bytes()) + prepared.data_bytes);
    let processing = prepared.memory.bytes + inputs.allocated() + own;
    let data = prepared.stream.is_none().then_some(prepared as &dyn CachedData);
    Wanted { data, processing, alone: false, nested: false }
}

/// Default limit of an executor's device memory in bytes.
pub fn default_memory(device: &dyn Device) -> Result<u64> {
    let free = device.free_memory()?;
    Ok(match device.properties().kind {
        DeviceKind::Cuda => free / 10 * 9,
        DeviceKind::Sim => free,
    })
}

/// The error of a program whose buffers did not hold its rows in any of [`MOST_RUNS`] runs.
fn too_small() -> warpmill_ir::Unsupported {
    let reason = format!(
        "its buffers were too small in {MOST_RUNS} runs, each with larger ones; warpmill.device = 'cpu' runs it"
    );
    warpmill_ir::Unsupported::new("program", reason)
}
