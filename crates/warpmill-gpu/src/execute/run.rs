//! One run of a program: memory, launches, checks, and the rows that the host goes on with.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use warpmill_cpu::context::ExecError;
use warpmill_cpu::operator::RowSet;
use warpmill_cpu::pipeline::Placed;
use warpmill_plan::{AggregateExpr, Program, Sink, Source};

use crate::codegen::CType;
use crate::codegen::layout::{SinkLayout, Table};
use crate::codegen::params::Binding;
use crate::codegen::program::{Kernel, Place, Work};
use crate::codegen::sort::Sorted;
use crate::codegen::{sort, top};
use crate::device::{Device, DevicePtr, Event, LaunchShape};

use super::executor::{DeviceOutput, Executor, Options, Outcome, State};
use super::prepared::{Descriptors, Prepared};
use super::profile::{DeviceProfile, KernelProfile, TransferProfile};
use super::rows::{self, Addresses, Mirrors, Uploads};
use super::segments::{self, Uploaded};
use super::{Failure, Result, buffers};

/// Bytes of a `QueryState` and of a `SinkState` (kernels/value.cuh, kernels/table.cuh).
const QUERY_STATE: u64 = 32;
const SINK_STATE: u64 = 32;

/// `SinkState`s of a sink: its own, that of the first rows of a sort, and that of sorted rows.
const STATES: u64 = 3;

/// One run of a program.
pub(super) struct Run<'a> {
    executor: &'a Executor,
    state: &'a mut State,
    program: &'a Arc<Program>,
    prepared: &'a Arc<Prepared>,
    options: &'a Options,
    addresses: Addresses,
    /// Values of named parameters that are not addresses.
    counts: HashMap<String, u64>,
    mirrors: Mirrors,
    pub(super) profile: DeviceProfile,
    started: Instant,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        executor: &'a Executor,
        state: &'a mut State,
        prepared: &'a Arc<Prepared>,
        options: &'a Options,
    ) -> Self {
        let profile = DeviceProfile {
            device: executor.device.properties().name.clone(),
            prepare_nanos: prepared.nanos,
            ..DeviceProfile::default()
        };
        Self {
            executor,
            state,
            program: &prepared.program,
            prepared,
            options,
            addresses: Addresses::new(),
            counts: HashMap::new(),
            mirrors: Mirrors::default(),
            profile,
            started: Instant::now(),
        }
    }

    fn device(&self) -> &'a dyn Device {
        &*self.executor.device
    }

    pub(super) fn run(mut self, inputs: &[Vec<RecordBatch>]) -> Result<Outcome> {
        self.options.cancel.check()?;
        self.load_segments()?;
        self.state.processing.set_limit(self.executor.memory.saturating_sub(self.state.cache.used()));
        self.load_inputs(inputs)?;
        let states = self.allocate()?;
        let constants = self.constants()?;
        let events = self.launch_all(states, constants)?;
        self.profile.queue_nanos = self.started.elapsed().as_nanos() as u64;
        let words = self.read_states(states)?;
        self.read_events(events)?;
        if let Some(outcome) = self.check(&words)? {
            return Ok(outcome);
        }
        let placed = self.fetch(&words)?;
        self.profile.device_nanos = self.started.elapsed().as_nanos() as u64;
        self.profile.processing_bytes = self.state.processing.used();
        self.profile.cached_bytes = self.state.cache.used();
        let program = self.program.clone();
        Ok(Outcome::Done(Box::new(DeviceOutput {
            program,
            placed,
            owners: self.mirrors.owners,
            profile: self.profile,
        })))
    }

    /// Makes sure that all segments are in the caching region.
    fn load_segments(&mut self) -> Result<()> {
        if self.prepared.resident.lock().loaded == Some(self.state.cache.generation()) {
            return Ok(());
        }
        let started = Instant::now();
        let mut done = Uploaded::default();
        match self.try_load(&mut done) {
            Err(Failure::Memory { .. }) => {
                // What other queries left behind makes room.
                self.device().synchronize(self.state.stream)?;
                self.state.processing.release();
                self.state.cache.clear();
                self.executor.recoded.clear();
                self.try_load(&mut done)?;
            }
            other => other?,
        }
        if done.count > 0 {
            self.device().synchronize(self.state.stream)?;
            let nanos = started.elapsed().as_nanos() as u64;
            let Uploaded { bytes, count } = done;
            self.profile.transfers.push(TransferProfile { what: "segments to the device", bytes, count, nanos });
        }
        self.prepared.resident.lock().loaded = Some(self.state.cache.generation());
        Ok(())
    }

    fn try_load(&mut self, done: &mut Uploaded) -> Result<()> {
        let prepared = self.prepared;
        for scan in prepared.scans.values() {
            for segment in scan.columns.iter().flatten() {
                segments::upload(segment, &mut self.state.cache, self.state.stream, done)?;
            }
        }
        prepared.constants.upload_dictionaries(&mut self.state.cache, self.state.stream)
    }

    /// Uploads rows from outside and constant rows.
    fn load_inputs(&mut self, inputs: &[Vec<RecordBatch>]) -> Result<()> {
        let program = self.program;
        for (index, pipeline) in program.pipelines.iter().enumerate() {
            let (owner, rows, fields) = match &pipeline.source {
                Source::Input { input, fields } => {
                    let mut rows = RowSet::default();
                    for batch in &inputs[*input] {
                        let columns = batch.columns().iter().zip(fields);
                        let vectors = columns
                            .map(|(array, field)| warpmill_cpu::arrow::from_arrow(array, &field.ty).map(Arc::new));
                        rows.batches.push((vectors.collect::<Result<_, _>>()?, batch.num_rows()));
                    }
                    (format!("input{input}"), rows, fields)
                }
                Source::Values { rows, fields } => {
                    (format!("values{index}"), warpmill_cpu::source::values(rows, fields), fields)
                }
                _ => continue,
            };
            let to = Uploads {
                device: &*self.executor.device,
                stream: self.state.stream,
                region: &mut self.state.processing,
                addresses: &mut self.addresses,
                mirrors: &mut self.mirrors,
            };
            let bytes = rows::upload(to, &owner, fields, &rows)?;
            self.counts.insert(format!("{owner}.count"), rows.rows() as u64);
            let transfer = TransferProfile { what: "rows to the device", bytes, count: 1, nanos: 0 };
            self.profile.transfers.push(transfer);
        }
        Ok(())
    }

    /// Allocates and initializes all sinks; gives the address of the states, the query's first.
    fn allocate(&mut self) -> Result<DevicePtr> {
        let sinks = self.program.sinks.len() as u64;
        let limits = self.program.pipelines.len() as u64;
        let bytes = QUERY_STATE + SINK_STATE * (STATES * sinks + limits);
        let (device, stream) = (self.device(), self.state.stream);
        let states = self.state.processing.allocate(bytes)?;
        let arena_size = self.prepared.hints.capacity.get(&usize::MAX).copied().unwrap_or(16 << 20);
        let needs_arena = self.prepared.lowered.kernels.iter().any(|kernel| kernel.text.contains("QueryState"));
        let arena = if needs_arena { self.state.processing.allocate(arena_size)? } else { 0 };
        let mut image = vec![0u8; bytes as usize];
        image[16..24].copy_from_slice(&arena_size.to_le_bytes());
        image[24..32].copy_from_slice(&arena.to_le_bytes());
        // SAFETY: just allocated with this size.
        unsafe { device.copy_to_device(states, &image, stream)? };
        self.addresses.insert("arena".into(), arena);
        for sink in 0..sinks {
            self.addresses.insert(format!("sink{sink}.state"), states + QUERY_STATE + SINK_STATE * sink);
            self.addresses.insert(top::state(sink as usize), states + QUERY_STATE + SINK_STATE * (sinks + sink));
            self.addresses.insert(sort::state(sink as usize), states + QUERY_STATE + SINK_STATE * (2 * sinks + sink));
        }
        for pipeline in 0..limits {
            let at = states + QUERY_STATE + SINK_STATE * (STATES * sinks + pipeline);
            self.addresses.insert(format!("limit{pipeline}"), at);
        }
        for buffer in buffers::of_sinks(&self.prepared.layouts) {
            let at = self.state.processing.allocate(buffer.bytes)?;
            if let Some(value) = buffer.fill.filter(|_| buffer.bytes > 0) {
                // SAFETY: just allocated with this size.
                unsafe { device.fill(at, value, buffer.bytes, stream)? };
            }
            self.addresses.insert(buffer.name, at);
        }
        Ok(states)
    }

    /// Uploads literals and tables.
    fn constants(&mut self) -> Result<DevicePtr> {
        let constants = &self.prepared.constants;
        if constants.is_empty() {
            return Ok(0);
        }
        let base = self.state.processing.allocate(constants.len())?;
        // SAFETY: just allocated with this size.
        unsafe { self.device().copy_to_device(base, &constants.image(base), self.state.stream)? };
        self.mirrors.add(base, constants.bytes(), self.prepared.clone());
        Ok(base)
    }

    fn launch_all(&mut self, states: DevicePtr, constants: DevicePtr) -> Result<Vec<(usize, Event, Event)>> {
        let mut events = vec![];
        let prepared = self.prepared;
        for (index, kernel) in prepared.lowered.kernels.iter().enumerate() {
            self.options.cancel.check()?;
            let (tasks, bytes, per_kernel) = self.work(index, kernel)?;
            let function = &prepared.functions[index];
            if tasks == 0 {
                continue;
            }
            let shape = self.shape(kernel, function, tasks)?;
            let mut missing = None;
            let image = kernel.params.image(|member| {
                let constant = prepared.constants.value(&member.binding, constants, &self.state.cache);
                constant.unwrap_or_else(|| match &member.binding {
                    Binding::State => states.to_le_bytes().to_vec(),
                    Binding::Named(name) => {
                        let value = per_kernel.get(name).or_else(|| self.addresses.get(name)).or(self.counts.get(name));
                        missing = value.is_none().then(|| name.clone()).or(missing.take());
                        value.copied().unwrap_or(0).to_le_bytes()[..member.size.min(8)].to_vec()
                    }
                    _ => unreachable!("constants have values"),
                })
            });
            if let Some(name) = missing {
                return Err(warpmill_plan::Unsupported::new("kernel", format!("no buffer {name}")).into());
            }
            let timed = self.options.profile.then(|| self.device().record(self.state.stream)).transpose()?;
            // SAFETY: every address in the parameter was allocated for this run or lies in the cache, with the sizes that
            // the layouts, from which the kernel was generated, say.
            unsafe { self.device().launch(function, shape, &image, self.state.stream)? };
            if let Some(start) = timed {
                events.push((self.profile.kernels.len(), start, self.device().record(self.state.stream)?));
            }
            self.profile.kernels.push(KernelProfile {
                label: kernel.label.clone(),
                pipeline: kernel.pipeline,
                nanos: 0,
                bytes,
                shape: (shape.blocks, shape.threads),
                registers: function.registers,
                local: function.local,
            });
        }
        Ok(events)
    }

    /// Warps' (or rows') worth of work, bytes read, and the parameters that are this kernel's own.
    fn work(&mut self, index: usize, kernel: &Kernel) -> Result<(u64, u64, HashMap<String, u64>)> {
        let Descriptors { columns, rows, count, vectors, bytes } = match &kernel.work {
            Work::Rows(rows) => return Ok((rows.div_ceil(32), 0, HashMap::new())),
            Work::Blocks(blocks) => return Ok((blocks * u64::from(kernel.threads / 32), 0, HashMap::new())),
            Work::Segments(segments) => self.descriptors(index, kernel.pipeline, segments)?,
        };
        // Small tables are split finer, so that all multiprocessors have something to do.
        let warps = u64::from(self.device().properties().multiprocessors) * 32;
        let split = (0..4).find(|split| vectors << split >= warps).unwrap_or(4);
        let named = HashMap::from([
            ("scan.segments".to_string(), columns),
            ("scan.rows".to_string(), rows),
            ("scan.count".to_string(), count),
            ("scan.split".to_string(), split),
        ]);
        Ok(((count * 1024) << split, bytes, named))
    }

    /// The descriptors of a kernel's row segments: made once, and kept beside the segments.
    fn descriptors(&mut self, index: usize, pipeline: usize, segments: &[usize]) -> Result<Descriptors> {
        let generation = self.state.cache.generation();
        if let Some((made, descriptors)) = self.prepared.resident.lock().descriptors.get(&index)
            && *made == generation
        {
            return Ok(*descriptors);
        }
        let scan = &self.prepared.scans[&pipeline];
        let Source::Scan(source) = &self.program.pipelines[pipeline].source else {
            return Ok(Descriptors::default());
        };
        let positions: HashMap<usize, usize> =
            scan.segments.segments.iter().enumerate().map(|(position, &segment)| (segment, position)).collect();
        let (mut image, mut rows) = (vec![], vec![]);
        let mut made = Descriptors { count: segments.len() as u64, ..Descriptors::default() };
        for segment in segments {
            for column in &scan.columns[positions[segment]] {
                segments::describe(column, &self.state.cache, &mut image)?;
                made.bytes += column.as_bytes().len() as u64;
            }
            let count = source.table.segment_rows(*segment) as u32;
            made.vectors += u64::from(count.div_ceil(1024));
            rows.extend_from_slice(&count.to_le_bytes());
        }
        made.columns = self.state.cache.keep(&image, self.state.stream)?;
        made.rows = self.state.cache.keep(&rows, self.state.stream)?;
        self.prepared.resident.lock().descriptors.insert(index, (generation, made));
        Ok(made)
    }

    fn shape(&self, kernel: &Kernel, function: &crate::device::Function, tasks: u64) -> Result<LaunchShape> {
        let shared = kernel.shared as u32;
        let resident = self.device().occupancy(function, kernel.threads, shared)?;
        let most = u64::from(self.device().properties().multiprocessors * resident.max(1));
        let most = if matches!(kernel.work, Work::Blocks(_)) { u64::MAX } else { most };
        let blocks = tasks.div_ceil(u64::from(kernel.threads / 32)).clamp(1, most.max(1));
        Ok(LaunchShape { blocks: blocks as u32, threads: kernel.threads, shared })
    }

    /// All states, when all work is done.
    fn read_states(&mut self, states: DevicePtr) -> Result<Vec<u64>> {
        let bytes = QUERY_STATE + SINK_STATE * STATES * self.program.sinks.len() as u64;
        let mut image = vec![0u8; bytes as usize];
        // SAFETY: the states are this long; `image` lives past the synchronization.
        unsafe { self.device().copy_to_host(&mut image, states, self.state.stream)? };
        self.device().synchronize(self.state.stream)?;
        Ok(image.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    fn read_events(&mut self, events: Vec<(usize, Event, Event)>) -> Result<()> {
        for (kernel, start, end) in events {
            let ms = self.device().elapsed_ms(start, end)?;
            self.profile.kernels[kernel].nanos = (f64::from(ms) * 1e6) as u64;
            self.device().destroy_event(start);
            self.device().destroy_event(end);
        }
        Ok(())
    }

    /// What the states say: go on (`None`), run again, or fail.
    fn check(&self, words: &[u64]) -> Result<Option<Outcome>> {
        let error = words[0] as u32;
        if error != 0 {
            return Err(Failure::Value(error));
        }
        let mut hints = self.prepared.hints.clone();
        if words[0] >> 32 != 0 {
            hints.capacity.insert(usize::MAX, words[1] + words[1] / 4);
        }
        for (id, layout) in self.prepared.layouts.iter().enumerate() {
            let state = SinkWords::of(words, id);
            match layout {
                SinkLayout::Build(build) => {
                    let payload = !build.payload.is_empty() || build.track_matches;
                    if build.table == Table::Bitmap {
                        if state.duplicate && payload {
                            hints.repeated_keys.push(id);
                        }
                    } else if state.count > build.capacity || state.overflow {
                        hints.capacity.insert(id, state.count.max(2 * build.capacity));
                    }
                }
                SinkLayout::Groups(groups) => {
                    if state.overflow {
                        let members = if groups.distinct.is_empty() { 0 } else { groups.distinct_slots / 2 };
                        hints.capacity.insert(id, groups.rows.capacity.max(groups.cells).max(members) * 2);
                    } else if state.count > groups.rows.capacity {
                        hints.capacity.insert(id, state.count);
                    } else if let Sink::Aggregate { aggregates, .. } = &self.program.sinks[id]
                        && let Some(safe) = aggregates.iter().filter_map(AggregateExpr::safe_rows).min()
                        && state.input > safe
                    {
                        return Err(ExecError::NeedsWideSums { safe }.into());
                    }
                }
                SinkLayout::Rows(rows) => {
                    if state.count > rows.capacity {
                        hints.capacity.insert(id, state.count);
                    } else if let Some(top) = &rows.top
                        && self.first_rows(words, id) > top.rows.capacity
                    {
                        hints.all_rows.push(id);
                    } else if rows.sorted.is_some() && self.sorted_rows(words, id).overflow {
                        let looked_at = hints.text_words.get(&id).copied().unwrap_or(sort::TEXT_WORDS);
                        match Sorted::more_text_words(looked_at) {
                            Some(more) => drop(hints.text_words.insert(id, more)),
                            None => hints.host_sorts.push(id),
                        }
                    }
                }
            }
        }
        Ok((hints != self.prepared.hints).then_some(Outcome::Again(hints)))
    }

    /// How many rows of sort `id` may be among the first that are wanted.
    fn first_rows(&self, words: &[u64], id: usize) -> u64 {
        SinkWords::of(words, self.program.sinks.len() + id).count
    }

    /// The state of the rows that sort `id` has put into order.
    fn sorted_rows(&self, words: &[u64], id: usize) -> SinkWords {
        SinkWords::of(words, 2 * self.program.sinks.len() + id)
    }

    /// Where each pipeline ran, with the rows that the host goes on with.
    fn fetch(&mut self, words: &[u64]) -> Result<Vec<Placed>> {
        let strings = |layout: &SinkLayout| {
            matches!(layout, SinkLayout::Rows(rows)
            if rows.columns.iter().any(|column| column.ty == CType::Str))
        };
        if self.prepared.layouts.iter().any(strings) {
            self.mirrors.append(Mirrors::of_cache(&self.state.cache));
            self.fetch_arena(words)?;
            self.mirrors.sort();
        }
        let last = self.program.sinks.len() - 1;
        let mut placed = vec![];
        for (index, pipeline) in self.program.pipelines.iter().enumerate() {
            if self.prepared.lowered.places[index] == Place::Host {
                placed.push(Placed::Here);
                continue;
            }
            let on_device = |other: usize| self.prepared.lowered.places[other] == Place::Device;
            let later = (index + 1..self.program.pipelines.len())
                .any(|other| on_device(other) && self.program.pipelines[other].sink == pipeline.sink);
            let wanted = matches!(self.program.sinks[pipeline.sink], Sink::Sort { .. }) || pipeline.sink == last;
            let SinkLayout::Rows(layout) = &self.prepared.layouts[pipeline.sink] else {
                placed.push(Placed::Elsewhere);
                continue;
            };
            let sorted = layout.sorted.as_ref();
            if later || !wanted || (sorted.is_some() && pipeline.sink != last) {
                placed.push(Placed::Elsewhere);
                continue;
            }
            let (layout, count) = match (sorted, &layout.top) {
                (Some(sorted), _) => (&sorted.rows, self.sorted_rows(words, pipeline.sink).count),
                (None, Some(top)) => (&top.rows, self.first_rows(words, pipeline.sink)),
                (None, None) => (layout, SinkWords::of(words, pipeline.sink).count),
            };
            let count = count as usize;
            let fields = self.program.sinks[pipeline.sink].fields();
            let rows = rows::fetch(
                self.device(),
                self.state.stream,
                &layout.columns,
                fields,
                count,
                &self.addresses,
                &self.mirrors,
            )?;
            let bytes: usize = layout.columns.iter().map(|column| column.row_bytes() * count).sum();
            let count = layout.columns.len() as u64;
            let transfer = TransferProfile { what: "rows to the host", bytes: bytes as u64, count, nanos: 0 };
            self.profile.transfers.push(transfer);
            let rows = Arc::new(rows);
            placed.push(if sorted.is_some() { Placed::Finished(rows) } else { Placed::Arrived(rows) });
        }
        Ok(placed)
    }

    /// Copies the strings that kernels made.
    fn fetch_arena(&mut self, words: &[u64]) -> Result<()> {
        let used = words[1];
        if used == 0 {
            return Ok(());
        }
        let mut bytes = vec![0u8; used as usize];
        let arena = self.addresses["arena"];
        // SAFETY: the arena is at least this long: it did not overflow.
        unsafe { self.device().copy_to_host(&mut bytes, arena, self.state.stream)? };
        self.device().synchronize(self.state.stream)?;
        let bytes = Arc::new(bytes);
        self.mirrors.add(arena, &bytes, bytes.clone());
        Ok(())
    }
}

/// A sink's state.
struct SinkWords {
    count: u64,
    duplicate: bool,
    overflow: bool,
    input: u64,
}

impl SinkWords {
    fn of(words: &[u64], sink: usize) -> Self {
        let at = ((QUERY_STATE + SINK_STATE * sink as u64) / 8) as usize;
        Self {
            count: words[at],
            duplicate: words[at + 1] >> 32 != 0,
            overflow: words[at + 2] as u32 != 0,
            input: words[at + 3],
        }
    }
}
