//! Row segments as kernels see them: which ones a scan has to read, and descriptors of their bytes in device memory.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rayon::prelude::*;
use warpmill_eval::ExecError;
use warpmill_format::parquet_file::{PageCodecs, ParquetChunk};
use warpmill_format::{Dictionary, LaneLayout, Segment, TableSnapshot, VECTOR_ROWS, ValueLayout};
use warpmill_ir::pruning::{CodeSets, Selected};
use warpmill_ir::{Scan, Unsupported};

use super::form::Form;
use crate::device::DevicePtr;
use crate::memory::error::{Failure, Result};

use super::chunks::{Chunk, Expanded};
use super::items::remap_key;
use super::opened::{Columns, KnownRows, OpenRows, Opened};
use super::spans::Spans;
use super::undone::Undone;
use crate::memory::regions::{Key, KeyMap};

/// Bytes of a `SegmentColumn` (kernels/scan.cuh).
pub const DESCRIPTOR: usize = 104;

/// Bytes of an `Expansion` (kernels/expand.cuh).
pub const EXPANSION: usize = 2 * DESCRIPTOR + 32;

/// Bytes of a `CompressedChunk` (kernels/decompress.cuh).
pub const COMPRESSED: usize = 24;

/// Bytes of a `Str` (kernels/strings.cuh).
const STR: u64 = 16;

const EXPAND_DELTA: u32 = 0;
const EXPAND_RUNS: u32 = 1;

const KIND_CONSTANT: u32 = 0;
const KIND_SIGNED: u32 = 1;
const KIND_UNSIGNED: u32 = 2;
const KIND_LANE: u32 = 3;
const KIND_VIEWS: u32 = 4;

/// The segments of a scan, opened, in encodings that kernels read.
pub struct OpenScan {
    /// The row segments, which other programs may read, too.
    pub rows: Arc<OpenRows>,
    /// The zones that metadata left.
    pub selected: Selected,
    /// The same as kernels go through it.
    pub spans: Spans,
}

/// The rows of `scan` that metadata does not rule out, where so many bytes are read in a nanosecond. `codes` evaluates predicates of dictionaries.
///
/// # Errors
/// Damaged metadata.
pub fn select(scan: &Scan, codes: CodeSets<'_>, bytes_per_nano: u64) -> Result<Selected> {
    Ok(warpmill_ir::pruning::select(scan, &[], codes, bytes_per_nano).map_err(ExecError::from)?)
}

/// Opens the `selected` row segments of `scan`. `recoded` keeps segments whose encoding kernels do not
/// read directly, in one that they do; those that pass through device memory are expanded there where that can be done.
///
/// `forms` has the form in which each column passes through; `None`: all is to stay in device memory. `later`: of remote files, only those
/// columns are read now that have to be.
pub fn open(
    scan: &Scan,
    selected: Selected,
    recoded: &Recoded,
    forms: Option<&[Form]>,
    later: bool,
) -> Result<OpenScan> {
    let table = &scan.table;
    let segments = selected.segments();
    let spans = Spans::of(&selected, |segment| table.segment_rows(segment));
    // Pages of Parquet are opened for the program that decodes them.
    let known = if table.is_parquet() { KnownRows::default() } else { recoded.opened.find(scan, forms) };
    if let Some(rows) = known.all(&segments) {
        return Ok(OpenScan { rows, selected, spans });
    }
    let promised = promised(scan, &segments, recoded, forms.filter(|_| later));
    if table.is_parquet() {
        let columns = segments.iter().flat_map(|&segment| scan.columns.iter().map(move |&column| (segment, column)));
        let now: Vec<_> = columns.filter(|column| !promised.contains_key(column)).collect();
        table.prefetch(&now).map_err(ExecError::from)?;
    }
    let columns: Vec<Columns> = segments
        .par_iter()
        .map(|&segment| {
            if let Some(row) = known.row(segment) {
                return Ok(row);
            }
            let form = |position: usize| forms.map(|forms| forms[position]);
            let columns = scan.columns.iter().enumerate();
            let chunk = |(position, &column)| match promised.get(&(segment, column)) {
                Some(promised) => Ok(promised.clone()),
                None => chunk(table, (segment, column), recoded, form(position)),
            };
            columns.map(chunk).collect::<Result<Columns>>()
        })
        .collect::<Result<_>>()?;
    let rows = Arc::new(OpenRows::new(scan, segments, columns, !promised.is_empty()));
    if !table.is_parquet() {
        recoded.opened.keep(scan, forms, &rows);
    }
    Ok(OpenScan { rows, selected, spans })
}

/// Those columns of row segments of a scan that need not be read yet, by segment and column.
fn promised(
    scan: &Scan,
    segments: &[usize],
    recoded: &Recoded,
    forms: Option<&[Form]>,
) -> HashMap<(usize, usize), Arc<Chunk>> {
    let Some(forms) = forms.filter(|_| scan.table.is_parquet()) else { return HashMap::new() };
    let columns = scan.columns.iter().zip(forms);
    let all = columns.flat_map(|(&column, form)| segments.iter().map(move |&segment| (segment, column, form)));
    let promised = |(segment, column, form): (usize, usize, &Form)| {
        let promise = scan.table.promise(segment, column, page_codecs(Some(*form), recoded))?;
        Some(((segment, column), Arc::new(Chunk::promised(promise))))
    };
    all.filter_map(promised).collect()
}

/// The codecs that a device undoes of pages that pass in a form.
fn page_codecs(form: Option<Form>, recoded: &Recoded) -> PageCodecs {
    match form {
        Some(Form::Heavy) => recoded.undone.pages(),
        Some(Form::Light | Form::HeavyOnHost) => PageCodecs::NONE,
        None => PageCodecs::default(),
    }
}

/// A column of a row segment, in an encoding that kernels read.
fn chunk(
    table: &TableSnapshot,
    (segment, column): (usize, usize),
    recoded: &Recoded,
    form: Option<Form>,
) -> Result<Arc<Chunk>> {
    match table.parquet(segment, column, page_codecs(form, recoded)).map_err(ExecError::from)? {
        Some(ParquetChunk::Device(slice)) => return Ok(Arc::new(Chunk::parquet(slice))),
        Some(ParquetChunk::Host(reason)) => {
            let decoded = Chunk::of(table.segment(segment, column).map_err(ExecError::from)?)?;
            return Ok(Arc::new(decoded.because(reason)));
        }
        None => {}
    }
    if let Some(form) = form
        && let Some(stored) = table.stored(segment, column)
        && (form != Form::Light || !table.has_light(segment, column))
    {
        // Codes are translated as the column's dictionary grows.
        let dictionary = table.dictionary(column).cloned();
        let on_host = form != Form::Heavy || !recoded.undone.has(stored.codec());
        let key = (stored.address(), dictionary.as_ref().map_or(0, |it| Arc::as_ptr(it) as usize), on_host);
        if let Some((known, _)) = recoded.stored.lock().get(&key) {
            return Ok(known.clone());
        }
        let parts = table.stored_parts(&stored, segment, column).map_err(ExecError::from)?;
        let stats = table.segment_stats(segment, column);
        if let Some(stored) = Chunk::stored(stored, parts, stats, on_host).map(Arc::new) {
            recoded.stored.lock().insert(key, (stored.clone(), dictionary));
            return Ok(stored);
        }
    }
    let opened = table.segment(segment, column).map_err(ExecError::from)?;
    Chunk::of(recoded.readable(opened, form.is_some())?).map(Arc::new)
}

/// The facts that have been found out about segments: those in another encoding, which all devices of the process share; and where the parts of compressed ones lie, by the addresses of their stored bytes and of their column's
/// dictionary, which are kept, too, and by whether the host decompresses them.
#[derive(Debug, Default)]
pub struct Recoded {
    /// The chunks that the device decompresses.
    pub undone: Undone,
    /// The rows that programs have opened.
    pub opened: Opened,
    stored: Mutex<HashMap<(usize, usize, bool), Stored>>,
}

type Pair = (Arc<Segment>, Arc<Segment>);

/// Segments in other encodings, of all devices: each is made once, and copies of it on several devices are of one segment.
static PAIRS: LazyLock<Mutex<Pairs>> = LazyLock::new(Mutex::default);

/// Segments in other encodings, by the addresses of those that they were made from, which are kept beside each.
#[derive(Debug, Default)]
struct Pairs {
    all: HashMap<usize, Pair>,
    /// Bytes of those that were made.
    held: usize,
}

impl Pairs {
    /// Keeps a pair, and forgets those that nobody uses where all together have more than `limit` bytes. Gives what was made of the first, by
    /// whoever was the first to do so.
    fn put(&mut self, pair: Pair, limit: usize) -> Arc<Segment> {
        let key = Arc::as_ptr(&pair.0) as usize;
        if let Some((_, made)) = self.all.get(&key) {
            return made.clone();
        }
        let bytes = pair.1.as_bytes().len();
        if self.held + bytes > limit {
            self.forget_unused();
        }
        self.held += bytes;
        self.all.entry(key).or_insert(pair).1.clone()
    }

    /// Forgets those that nobody uses.
    fn forget_unused(&mut self) {
        self.all.retain(|_, (_, made)| Arc::strong_count(made) > 1);
        self.held = self.all.values().map(|(_, made)| made.as_bytes().len()).sum();
    }
}

/// Bytes of segments in other encodings that are kept although nobody uses them: an eighth of the memory that was free at first.
fn most_recoded() -> usize {
    static MOST: LazyLock<usize> = LazyLock::new(|| warpmill_eval::free_memory().map_or(usize::MAX, |free| free / 8));
    *MOST
}

type Stored = (Arc<Chunk>, Option<Arc<Dictionary>>);

impl Recoded {
    /// Nothing, for a device that decompresses `undone`.
    pub fn new(undone: Undone) -> Self {
        Self { undone, ..Self::default() }
    }

    /// `segment`, or the same rows in an encoding that kernels read.
    fn readable(&self, segment: Arc<Segment>, streamed: bool) -> Result<Arc<Segment>> {
        let direct = segment.layout().is_some_and(|layout| layout.values.has_single_rows());
        if direct || (streamed && Expanded::of(&segment).is_some()) {
            return Ok(segment);
        }
        let key = Arc::as_ptr(&segment) as usize;
        if let Some((_, recoded)) = PAIRS.lock().all.get(&key) {
            return Ok(recoded.clone());
        }
        let recoded = Arc::new(segment.to_direct().map_err(ExecError::from)?);
        Ok(PAIRS.lock().put((segment, recoded), most_recoded()))
    }

    /// Forgets all that nobody uses: other devices may hold copies of the rest, which are found by its addresses.
    pub fn clear(&self) {
        self.stored.lock().clear();
        PAIRS.lock().forget_unused();
    }
}

/// A `SegmentColumn` (kernels/scan.cuh).
#[derive(Default)]
struct Column {
    data: u64,
    more: [u64; 3],
    valid: u64,
    references: u64,
    patches: [u64; 3],
    remap: u64,
    reference: i128,
    kind: u32,
    width: u32,
}

impl Column {
    fn lane(lane: &LaneLayout, base: DevicePtr) -> Self {
        let at = |offset: usize| base + offset as u64;
        let limb = |number: usize| lane.limbs.get(number).map_or(0, |&offset| at(offset));
        Self {
            data: limb(0),
            more: [limb(1), limb(2), limb(3)],
            references: lane.references.map_or(0, at),
            patches: lane.patches.map_or([0; 3], |offsets| offsets.map(at)),
            reference: lane.reference,
            kind: KIND_LANE,
            width: lane.width,
            ..Self::default()
        }
    }

    /// The same without the first vectors, so many.
    fn skipping(mut self, first: u64) -> Self {
        let skip = |address: &mut u64, bytes: u64| *address += if *address == 0 { 0 } else { first * bytes };
        let rows = VECTOR_ROWS as u64;
        match self.kind {
            KIND_CONSTANT => {}
            KIND_LANE => {
                let limbs = std::iter::once(&mut self.data).chain(&mut self.more);
                for (number, limb) in (0..).zip(limbs) {
                    skip(limb, rows / 8 * u64::from(self.width.saturating_sub(32 * number).min(32)));
                }
            }
            KIND_VIEWS => skip(&mut self.data, rows * STR),
            // Offsets into the text of the whole segment.
            _ if self.more[0] != 0 => skip(&mut self.data, rows * 4),
            _ => skip(&mut self.data, rows * u64::from(self.width)),
        }
        skip(&mut self.valid, rows / 8);
        skip(&mut self.references, 16);
        // Patches are found by where those of a vector start among all.
        skip(&mut self.patches[0], 4);
        self
    }

    fn append(&self, out: &mut Vec<u8>) {
        let [a, b, c] = self.more;
        let [starts, rows, values] = self.patches;
        let (low, high) = (self.reference as u64, (self.reference >> 64) as u64);
        let last = u64::from(self.kind) | u64::from(self.width) << 32;
        let words =
            [self.data, a, b, c, self.valid, self.references, starts, rows, values, self.remap, low, high, last];
        let mut image = [0; DESCRIPTOR];
        image.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
        out.extend_from_slice(&image);
    }
}

fn missing() -> Failure {
    Failure::Unsupported(Unsupported::new("segment", "not in device memory"))
}

/// The place where what `key` names is.
pub(super) fn place(places: &KeyMap<DevicePtr>, key: Key) -> Result<DevicePtr> {
    places.get(&key).copied().ok_or_else(missing)
}

/// Appends the `SegmentColumn` of a chunk that is in device memory at one of `places`, what it expands to included, from vector `first`
/// on: kernels count from there.
///
/// # Errors
/// A chunk that is not there.
pub fn describe(chunk: &Chunk, places: &KeyMap<DevicePtr>, first: u32, out: &mut Vec<u8>) -> Result<()> {
    let base = place(places, chunk.key())?;
    let at = |offset: usize| base + offset as u64;
    let values = match &chunk.layout.values {
        ValueLayout::Constant(value) => Column { reference: *value, kind: KIND_CONSTANT, ..Column::default() },
        ValueLayout::Plain { bytes, signed, offset } => {
            let kind = if *signed { KIND_SIGNED } else { KIND_UNSIGNED };
            Column { data: at(*offset), kind, width: *bytes as u32, ..Column::default() }
        }
        ValueLayout::Strings { offsets, bytes } => {
            Column { data: at(*offsets), more: [at(*bytes), 0, 0], kind: KIND_SIGNED, ..Column::default() }
        }
        ValueLayout::Views { offset } => Column { data: at(*offset), kind: KIND_VIEWS, ..Column::default() },
        ValueLayout::LaneFor(lane) => Column::lane(lane, base),
        ValueLayout::Delta(_) | ValueLayout::Runs(_) => {
            let (data, expanded) = (place(places, chunk.expanded_key())?, chunk.expanded.ok_or_else(missing)?);
            Column { data, kind: KIND_SIGNED, width: expanded.width, ..Column::default() }
        }
    };
    let remap = chunk.remap.as_ref().map_or(Ok(0), |remap| place(places, remap_key(remap)))?;
    Column { valid: chunk.layout.validity.map_or(0, at), remap, ..values }.skipping(first.into()).append(out);
    Ok(())
}

/// Appends the `Expansion` of a chunk (kernels/expand.cuh) that comes after `vectors` vectors of others; gives its own vectors.
/// Nothing, and none, for one that is read as it is.
///
/// # Errors
/// A chunk that is not at one of `places`.
pub fn describe_expansion(chunk: &Chunk, places: &KeyMap<DevicePtr>, vectors: u32, out: &mut Vec<u8>) -> Result<u32> {
    let Some(expanded) = chunk.expanded else { return Ok(0) };
    let (base, to) = (place(places, chunk.key())?, place(places, chunk.expanded_key())?);
    let at = |offset: usize| base + offset as u64;
    let (values, ends, starts, kind) = match &chunk.layout.values {
        ValueLayout::Delta(delta) => {
            let values = Column {
                data: at(delta.words),
                more: [at(delta.bases), 0, 0],
                references: at(delta.references),
                reference: delta.step.into(),
                kind: delta.base_bytes as u32,
                width: delta.width,
                ..Column::default()
            };
            (values, Column::default(), 0, EXPAND_DELTA)
        }
        ValueLayout::Runs(runs) => {
            (Column::lane(&runs.values, base), Column::lane(&runs.ends, base), at(runs.starts), EXPAND_RUNS)
        }
        _ => return Err(missing()),
    };
    values.append(out);
    ends.append(out);
    [starts, to].iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    let words = [expanded.width, kind, chunk.rows as u32, vectors];
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    Ok(chunk.rows.div_ceil(1024) as u32)
}

/// Appends the `CompressedChunk` of a chunk (kernels/decompress.cuh) whose stored form is at `stored`, after `blocks` blocks of
/// others; gives its own blocks. Nothing, and none, for one that the device does not decompress.
///
/// # Errors
/// A chunk whose segment has no place among `places`.
pub fn describe_compressed(
    chunk: &Chunk,
    stored: DevicePtr,
    places: &KeyMap<DevicePtr>,
    blocks: u32,
    out: &mut Vec<u8>,
) -> Result<u32> {
    let Some(compressed) = chunk.for_device() else { return Ok(0) };
    let to = place(places, chunk.key())?;
    [stored, to].iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    [blocks, 0].iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    Ok(compressed.blocks() as u32)
}

#[cfg(test)]
mod tests;
