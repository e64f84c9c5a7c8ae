//! A program prepared for a device: sinks laid out, kernels generated, compiled and loaded, constants collected.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use warpmill_ir::pruning::Selected;
use warpmill_ir::{Expr, Program, Scan, Source};

use super::constants::Constants;
use super::filters::{Filters, ScanFilters, codes_of};
use super::functions::Loaded;
use super::hints::{Hints, Limits};
use super::join::{JoinPlan, JoinStrategy};
use super::kernel::{Kernel, Work};
use super::layout::SinkLayout;
use super::program::Place;
use super::ranges::Range;
use super::replay::Replays;
use super::shapes::{LaidOut, Made, Shape, Shapes};
use crate::data::admission::CachedData;
use crate::data::form::{DataSource, Form};
use crate::data::paths::model::{Forms, ScanColumn};
use crate::data::row_segment::RowSegment;
use crate::data::stream::plan::StreamPlan;
use crate::device::{Device, DevicePtr, Function};
use crate::memory::error::Result;

use super::joins::{self, Means};
use super::plan::{MemoryPlan, first_arena};
use crate::data::items::{self, Descriptors, Item, Resident, descriptors_allocated};
use crate::data::opened::{OpenRows, ResidentRows};
use crate::data::segments::{self, OpenScan, Recoded};
use crate::data::undone::Undone;
use crate::memory::regions::{Cache, KeyMap, aligned};

/// A program prepared for a device.
pub struct Prepared {
    /// The program, with sorts deferred.
    pub program: Arc<Program>,
    shape: Arc<Shape>,
    /// Whether its hints were learnt by a program with other constants.
    pub(crate) has_others_hints: bool,
    /// Layouts of sinks, and their inputs.
    laid_out: Arc<LaidOut>,
    /// Kernels and their functions.
    made: Arc<Made>,
    /// Whether the kernels were compiled before.
    found: bool,
    /// The scans, by pipeline.
    pub scans: HashMap<usize, OpenScan>,
    /// Literals and tables.
    pub constants: Constants,
    /// Nanoseconds taken, without compilation.
    nanos: u64,
    /// Host objects that its kernels read, other than cached row segments.
    pub items: Vec<Item>,
    /// Plan of streamed segments; `None`: segments are cached.
    pub stream: Option<StreamPlan>,
    /// Columns of streamed data.
    pub columns: Vec<ScanColumn>,
    /// The form of each column.
    pub forms: Forms,
    /// Bytes of a region for items and descriptors.
    pub data_bytes: u64,
    /// Bytes of the descriptors of each kernel: of columns, and of row counts.
    descriptors: Vec<u64>,
    /// Plan of all other memory.
    pub memory: Arc<MemoryPlan>,
    /// Addresses of its data in the caching region, once loaded.
    pub resident: Mutex<Option<Arc<Resident>>>,
    /// The limits that it was laid out for.
    pub limits: Limits,
    /// Launches of earlier runs.
    pub(crate) replays: Replays,
    /// The ranges of sinks in parts after the last run.
    pub(crate) ranges: Mutex<HashMap<usize, Vec<Range>>>,
    /// Hints for the next run, if the last one found that fewer parts suffice.
    pub(crate) learnt: Mutex<Option<Hints>>,
    /// The program with smaller tables, if a run has found that they suffice.
    pub(crate) smaller: Mutex<Smaller>,
}

/// A program with smaller tables than another.
#[derive(Default)]
pub enum Smaller {
    /// The tables are as small as they may be, as far as is known.
    #[default]
    None,
    /// Its hints.
    Counted(Box<Hints>),
    /// It is being compiled, or ready.
    Prepared(Arc<Prepared>),
    /// It could not be prepared or compiled: the tables stay as large as they are.
    Refused,
}

/// Chooses the forms in which columns are streamed.
pub type ChooseForms<'a> = dyn Fn(&[ScanColumn]) -> Forms + 'a;

/// Inputs of a preparation.
pub struct Preparing<'a> {
    /// Limits of the device.
    pub limits: Limits,
    /// The device.
    pub device: &'a Arc<dyn Device>,
    /// Layouts and kernels of earlier programs, shared by programs that differ in constants.
    pub shapes: &'a Shapes,
    /// Kernels of all programs.
    pub loaded: &'a Loaded,
    /// Opened segments of all programs.
    pub recoded: &'a Recoded,
    /// Chooses the forms in which columns are streamed.
    pub forms: &'a ChooseForms<'a>,
    /// Source of streamed data.
    pub data: DataSource,
    /// Whether hints are the initial ones: then hints learnt by programs with other constants are preferred.
    pub first: bool,
}

/// Descriptors, with the images of those of columns and of row counts.
type DescriptorImages = (Descriptors, Vec<u8>, Vec<u8>);

impl Prepared {
    /// Prepares `program` for inputs of these row counts.
    ///
    /// # Errors
    /// Operations that the device does not support, unreadable segments, compiler errors.
    pub fn new(program: &Arc<Program>, inputs: &[u64], hints: &Hints, by: &Preparing<'_>) -> Result<Self> {
        let started = Instant::now();
        let program = super::defer::defer_sorts(program).map_or_else(|| program.clone(), Arc::new);
        let filters = ScanFilters::of_program(&program)?;
        let shape = by.shapes.of(&program, &filters);
        let learnt = by.first.then(|| shape.learnt.get(hints, by.loaded)).flatten();
        let (has_others_hints, hints) = (learnt.is_some(), learnt.as_ref().unwrap_or(hints));
        let laid_out = shape.lay_out(&program, &filters, inputs, hints, by.limits)?;
        let selected =
            selected_scans(&program, &filters, if hints.streamed { by.data.passing() } else { DataSource::Cache })?;
        let columns = if hints.streamed { scan_columns(&program, &selected, by.recoded.undone) } else { vec![] };
        let forms = if hints.streamed { (by.forms)(&columns) } else { vec![] };
        let scans = open_scans(&program, selected, hints, by.recoded, &forms)?;
        let shapes = scans.iter().map(|(&index, scan)| (index, filters[&index].shape(scan.rows.shapes()))).collect();
        let made = shape.lower(&program, &filters, &laid_out, shapes)?;
        let found = made.functions.are_made();
        let constants = Constants::collect(made.lowered.kernels.iter().map(|kernel| &kernel.params), &filters);
        let memory = made.memory(&program, by.limits, constants.len());
        let mut prepared = Self {
            program,
            shape,
            has_others_hints,
            laid_out,
            made,
            found,
            scans,
            constants,
            nanos: 0,
            items: vec![],
            stream: None,
            columns,
            forms,
            data_bytes: 0,
            descriptors: vec![],
            memory,
            resident: Mutex::default(),
            limits: by.limits,
            replays: Replays::default(),
            ranges: Mutex::default(),
            learnt: Mutex::default(),
            smaller: Mutex::default(),
        };
        prepared.find_data(by)?;
        prepared.nanos = started.elapsed().as_nanos() as u64;
        Ok(prepared)
    }

    /// Determines the data that the program reads, and its bytes.
    fn find_data(&mut self, by: &Preparing<'_>) -> Result<()> {
        let streamed = self.hints().streamed;
        let passing = self.scans.values().filter(|_| streamed);
        let passing = passing.flat_map(|scan| scan.rows.columns.iter().flat_map(|row| row.iter()));
        let mut items = items::collect(passing.filter(|chunk| chunk.remap.is_some()), self.constants.dictionaries());
        items.retain(|item| !matches!(item, Item::Segment(_)));
        self.items = items;
        self.descriptors = self.descriptor_bytes().collect();
        let own: u64 = self.items.iter().map(Item::allocated).sum();
        if streamed {
            let kernels = 0..self.kernels().len();
            let kernels: Vec<_> = kernels.filter_map(|kernel| self.row_segments(kernel)).collect();
            let library = by.device.batch_codec().ok();
            let (stream_bytes, pipelines) = (self.limits.stream_bytes, self.hints().pipelines);
            let plan = StreamPlan::new(&kernels, by.data.passing(), stream_bytes, pipelines, library.as_deref())?;
            self.stream = Some(plan);
            self.data_bytes = own;
        } else {
            let segments = self.segment_bytes(|rows| Some(rows.item_bytes()), |_| true);
            self.data_bytes = own + segments + descriptors_allocated(&self.descriptors);
        }
        Ok(())
    }

    /// Layouts of sinks.
    pub fn layouts(&self) -> &[SinkLayout] {
        &self.laid_out.layouts
    }

    /// Passes the hints with which the program has completed to programs with other constants that start with `first`.
    pub(crate) fn teach(&self, first: &Hints) {
        self.shape.learnt.add(first, self.hints());
    }

    /// Passes its hints to programs with other constants that start with `first`, once its kernels are compiled.
    pub(crate) fn teach_later(&self, first: &Hints) {
        self.shape.learnt.expect(first, &self.made);
    }

    /// Whether its hints, or those of a program with other constants, are passed on later.
    pub(crate) fn is_to_teach(&self, first: &Hints) -> bool {
        self.shape.learnt.expects(first)
    }

    /// Makes programs with other constants that start with `first` use these again.
    pub(crate) fn unteach(&self, first: &Hints) {
        self.shape.learnt.forget(first);
    }

    /// Hints of the layout.
    pub fn hints(&self) -> &Hints {
        &self.laid_out.hints
    }

    /// Rows of each input that it was laid out for.
    pub fn inputs(&self) -> &[u64] {
        &self.laid_out.inputs
    }

    /// The kernels, in order of execution.
    pub fn kernels(&self) -> &[Kernel] {
        &self.made.lowered.kernels
    }

    /// The processor of each pipeline.
    pub fn places(&self) -> &[Place] {
        &self.made.lowered.places
    }

    /// Starts to compile the kernels, unless that has begun; data can be copied meanwhile.
    pub fn compile(&self, loaded: &Arc<Loaded>) {
        self.made.functions.start(self.kernels(), loaded);
    }

    /// Waits until its kernels are compiled.
    ///
    /// # Errors
    /// Compiler errors.
    pub fn compiled(&self, loaded: &Loaded) -> Result<()> {
        self.made.functions.wait(self.kernels(), loaded)
    }

    /// Whether its kernels are known to be compiled.
    pub fn is_compiled(&self) -> bool {
        self.made.functions.are_made()
    }

    /// Whether its kernels are compiled, or cannot be.
    pub fn is_ready(&self) -> bool {
        self.made.functions.are_ready()
    }

    /// The function of kernel `kernel`. Panics before [`Prepared::compiled`].
    pub(crate) fn function(&self, kernel: usize) -> &Function {
        self.made.functions.get(kernel)
    }

    /// Whether an earlier program had loaded all of its kernels.
    pub(crate) fn found_kernels(&self) -> bool {
        self.found || self.is_compiled() && !self.made.functions.were_asked_for()
    }

    /// Nanoseconds taken, compilation included.
    pub(crate) fn all_nanos(&self) -> u64 {
        self.nanos + if self.found { 0 } else { self.made.functions.nanos() }
    }

    /// The row segments of kernel `kernel` with their columns; `None` if it reads other rows.
    pub(crate) fn row_segments(&self, kernel: usize) -> Option<Vec<RowSegment<'_>>> {
        let kernel = &self.kernels()[kernel];
        let Work::Segments(number) = kernel.work else { return None };
        let scan = self.scans.get(&kernel.pipeline)?;
        let rows = &scan.rows;
        let row_segment = |&number: &usize| {
            // Row segments are sorted by number.
            let position = rows.segments.segments.binary_search(&number).expect("a row segment of its scan");
            RowSegment { number, columns: &rows.columns[position], spans: scan.spans.of_segment(position) }
        };
        Some(rows.alike[number].segments.iter().map(row_segment).collect())
    }

    /// Bytes of a region for descriptors of any subset of its row segments.
    pub(crate) fn claimed_bytes(&self) -> u64 {
        self.descriptors.iter().copied().map(aligned).sum()
    }

    fn descriptor_bytes(&self) -> impl Iterator<Item = u64> {
        (0..self.kernels().len()).filter_map(|kernel| self.row_segments(kernel)).flat_map(|rows| {
            let columns: usize = rows.iter().map(|row| row.columns.len() * row.spans.len()).sum();
            let spans: usize = rows.iter().map(|row| row.spans.len()).sum();
            [(columns * segments::DESCRIPTOR) as u64, 4 * spans as u64]
        })
    }

    /// The descriptors of kernel `kernel` that an earlier program left in device memory.
    pub(crate) fn known_descriptors(&self, kernel: usize, resident: &Resident) -> Option<Descriptors> {
        let pipeline = self.kernels()[kernel].pipeline;
        self.described(kernel, |_| resident.rows.get(&pipeline).cloned()).flatten()
    }

    /// Records the descriptors of kernel `kernel` in `resident` for later programs.
    pub(crate) fn keep_described(&self, kernel: usize, resident: &Resident) {
        let (made, kernel) = (resident.descriptors[kernel], &self.kernels()[kernel]);
        if let (Work::Segments(number), Some(scan), Some(rows)) =
            (&kernel.work, self.scans.get(&kernel.pipeline), resident.rows.get(&kernel.pipeline))
        {
            rows.describe(&scan.rows.alike[*number].segments, &scan.spans, made);
        }
    }

    /// The descriptors of kernel `kernel` that are in device memory; `resident` returns the cached rows of its scan. `None` if it does not scan.
    fn described(
        &self,
        kernel: usize,
        resident: impl Fn(&OpenScan) -> Option<Arc<ResidentRows>>,
    ) -> Option<Option<Descriptors>> {
        let kernel = &self.kernels()[kernel];
        let Work::Segments(number) = kernel.work else { return None };
        let scan = self.scans.get(&kernel.pipeline)?;
        Some(resident(scan).and_then(|rows| rows.described(&scan.rows.alike[number].segments, &scan.spans)))
    }

    /// Bytes of a region for distinct items of its scans for which `which` holds; `known` returns the bytes of rows for which they are known.
    fn segment_bytes(&self, known: impl Fn(&OpenRows) -> Option<u64>, which: impl Fn(&Item) -> bool) -> u64 {
        let mut scans: Vec<&Arc<OpenRows>> = vec![];
        for scan in self.scans.values() {
            if !scans.iter().any(|other| Arc::ptr_eq(other, &scan.rows)) {
                scans.push(&scan.rows);
            }
        }
        let is_alone = |own: &Arc<OpenRows>| scans.iter().all(|it| Arc::ptr_eq(it, own) || !it.may_overlap(own));
        let mut seen = HashSet::new();
        let bytes = |own: &&Arc<OpenRows>| match known(own).filter(|_| is_alone(own)) {
            Some(bytes) => bytes,
            None => {
                let items = own.items().iter().filter(|item| which(item) && seen.insert(item.key()));
                items.map(Item::allocated).sum()
            }
        };
        scans.iter().map(bytes).sum()
    }

    /// The descriptors of spans of row segments of kernel `kernel`, without addresses of their own, and the images of those of columns and of row
    /// counts.
    ///
    /// # Errors
    /// Segments without an address in `places`.
    pub(crate) fn describe(
        &self,
        kernel: usize,
        rows: &[RowSegment<'_>],
        places: &KeyMap<DevicePtr>,
    ) -> Result<DescriptorImages> {
        let spans = rows.iter().map(|row| row.spans.len() * row.columns.len()).sum::<usize>();
        let (mut image, mut counts) = (Vec::with_capacity(spans * segments::DESCRIPTOR), vec![]);
        let span_bits = self.scans.get(&self.kernels()[kernel].pipeline).map_or(0, |scan| scan.spans.bits);
        let mut made = Descriptors { span_bits, ..Descriptors::default() };
        for row in rows {
            for span in row.spans {
                for column in row.columns {
                    segments::describe(column, places, span.first, &mut image)?;
                    made.bytes += column.bytes * u64::from(span.rows) / (column.rows as u64).max(1);
                }
                made.count += 1;
                made.vectors += span.vectors();
                counts.extend_from_slice(&span.rows.to_le_bytes());
            }
        }
        Ok((made, image, counts))
    }

    /// The scan of kernel `kernel`; `None` if it reads other rows.
    pub(crate) fn scan(&self, kernel: usize) -> Option<&Scan> {
        match &self.program.pipelines[self.kernels()[kernel].pipeline].source {
            Source::Scan(scan) => Some(scan),
            _ => None,
        }
    }

    /// The hints for another layout when memory is insufficient: streamed segments, small initial capacities, the result sorted by the host.
    ///
    /// `limit` are the bytes that the device has for the program, `inputs` those of them for input rows. `means` are the cost inputs for joins whose
    /// hash builds do not fit.
    ///
    /// # Errors
    /// [`crate::memory::error::Failure::Unsupported`] if the CPU is to run the program.
    pub fn with_less_memory(&self, limit: u64, inputs: u64, means: &Means) -> Result<Option<Hints>> {
        let room = self.room_for_sinks(limit, inputs);
        let hopeless = self.hints().streamed && self.memory.sinks() / 2 > room.unwrap_or(0);
        let hints = if hopeless || self.hints().makes_parts() { None } else { self.with_whole_sinks() };
        match (hints, room) {
            (Some(hints), _) => Ok(Some(hints)),
            (None, Some(room)) => self.with_parts(room, means),
            (None, None) => Ok(None),
        }
    }

    /// The hints for another layout, without rows of hash builds on the host, when page-locked memory is insufficient.
    ///
    /// # Errors
    /// As for [`Prepared::with_less_memory`].
    pub fn without_rows_on_host(&self, limit: u64, inputs: u64, means: &Means) -> Result<Option<Hints>> {
        if means.strategy != JoinStrategy::Auto || !self.is_hybrid() {
            return Ok(None);
        }
        let Some(room) = self.room_for_sinks(limit, inputs) else { return Ok(None) };
        let mut hints = Hints { join: None, ..self.hints().clone() };
        hints.partitioned = Some(room);
        hints.join = self.joins(&hints, &Means { host_room: 0, ..*means })?;
        Ok(Some(hints))
    }

    fn is_hybrid(&self) -> bool {
        self.hints().join.as_ref().is_some_and(|plan| plan.strategy == JoinStrategy::Hybrid)
    }

    /// Chooses the strategy for joins whose hash builds do not fit.
    fn joins(&self, hints: &Hints, means: &Means) -> Result<Option<JoinPlan>> {
        match joins::choose(&self.program, self.inputs(), (hints, self.limits), means)? {
            Some(plan) if plan.strategy == JoinStrategy::Cpu => Err(plan.refusal().into()),
            plan => Ok(plan),
        }
    }

    /// Bytes available for all sinks besides everything else.
    fn room_for_sinks(&self, limit: u64, inputs: u64) -> Option<u64> {
        let own = self.stream.as_ref().map_or(0, |stream| aligned(stream.bytes())) + self.data_bytes;
        let texts: u64 = self.memory.texts.iter().map(|(_, bytes)| bytes).sum();
        let rest = self.memory.bytes - self.memory.sinks() - texts - aligned(self.memory.arena);
        // With parts, most strings are in the sinks' own string memory.
        let arena = if self.hints().makes_parts() { self.memory.arena } else { first_arena(self.limits) };
        limit.checked_sub(rest + aligned(arena) + inputs + own)
    }

    /// Hints for sinks of `room` bytes in total: larger ones are built in parts, or flushed to the host.
    fn with_parts(&self, room: u64, means: &Means) -> Result<Option<Hints>> {
        let mut hints = self.hints().clone();
        if !hints.makes_parts() {
            hints.capacity.remove(&usize::MAX);
        }
        hints.streamed = true;
        hints.give_up_sorts(&self.program, self.layouts(), room);
        hints.partitioned = Some(room);
        if hints.join.is_none() && hints.forced_partitions <= 1 {
            hints.join = self.joins(&hints, means)?;
        }
        Ok((hints != *self.hints() && self.hints().partitioned.is_none_or(|before| room <= before)).then_some(hints))
    }

    fn with_whole_sinks(&self) -> Option<Hints> {
        let mut hints = self.hints().clone();
        let last = self.layouts().len() - 1;
        let sorts = matches!(&self.layouts()[last], SinkLayout::Rows(rows) if rows.sorted.is_some());
        let can_stream = !self.hints().streamed && !self.scans.is_empty();
        match (can_stream, sorts, hints.frugal) {
            (true, sorts, _) if !sorts || self.data_bytes > self.memory.bytes => hints.streamed = true,
            (_, _, false) => hints.frugal = true,
            (_, true, _) => hints.host_sorts.push(last),
            (true, ..) => hints.streamed = true,
            _ => return None,
        }
        Some(hints)
    }
}

impl CachedData for Prepared {
    fn bytes(&self) -> u64 {
        self.data_bytes
    }

    fn missing(&self, cache: &Cache) -> u64 {
        if self.resident.lock().as_ref().is_some_and(|resident| resident.generation == cache.generation()) {
            return 0;
        }
        let generation = cache.generation();
        let is_missing = |item: &Item| cache.get(&item.key()).is_none();
        let own: u64 = self.items.iter().filter(|item| is_missing(item)).map(Item::allocated).sum();
        let segments = self.segment_bytes(|rows| rows.resident(generation).map(|_| 0), is_missing);
        let described = |kernel: usize| {
            let resident = |scan: &OpenScan| scan.rows.resident(generation);
            self.described(kernel, resident).is_none_or(|known| known.is_some())
        };
        let known = (0..self.kernels().len()).all(described);
        own + segments + if known { 0 } else { descriptors_allocated(&self.descriptors) }
    }
}

/// The scans of `program` with `filters`, by pipeline, with the rows that metadata does not rule out. `data` is the source of the data.
///
/// # Errors
/// Damaged metadata.
pub(crate) fn selected_scans(program: &Program, filters: &Filters, data: DataSource) -> Result<Vec<(usize, Selected)>> {
    let codes = |expr: &Expr| codes_of(expr, program, filters);
    let scans = program.pipelines.iter().enumerate().filter_map(|(index, pipeline)| match &pipeline.source {
        Source::Scan(scan) => {
            Some(segments::select(scan, &codes, data.bytes_per_nano()).map(|selected| (index, selected)))
        }
        _ => None,
    });
    scans.collect()
}

/// Opens the `selected` scans of `program`; `forms` are those of streamed columns.
///
/// # Errors
/// Unreadable segments.
fn open_scans(
    program: &Program,
    selected: Vec<(usize, Selected)>,
    hints: &Hints,
    recoded: &Recoded,
    forms: &[Form],
) -> Result<HashMap<usize, OpenScan>> {
    let (mut scans, mut next) = (HashMap::new(), 0);
    for (index, selected) in selected {
        let Source::Scan(scan) = &program.pipelines[index].source else { continue };
        let own = hints.streamed.then(|| &forms[next..next + scan.columns.len()]);
        next += scan.columns.len();
        scans.insert(index, segments::open(scan, selected, recoded, own, hints.may_read_later())?);
    }
    Ok(scans)
}

/// All columns of these scans, in order.
pub(crate) fn scan_columns(program: &Program, selected: &[(usize, Selected)], undone: Undone) -> Vec<ScanColumn> {
    let mut columns = vec![];
    for (index, selected) in selected {
        let Source::Scan(scan) = &program.pipelines[*index].source else { continue };
        let segments = selected.segments();
        let column = |position| ScanColumn::new(*index, scan, position, &segments, undone);
        columns.extend((0..scan.columns.len()).map(column));
    }
    columns
}
