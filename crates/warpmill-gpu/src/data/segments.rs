//! The row segments that a scan has to read, and their descriptors for kernels.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rayon::prelude::*;
use warpmill_eval::ExecError;
use warpmill_format::parquet_file::{PageCodecs, ParquetChunk};
use warpmill_format::{Codec, Dictionary, Encoding, LaneLayout, Segment, TableSnapshot, VECTOR_ROWS, ValueLayout};
use warpmill_ir::pruning::{CodeSets, Selected};
use warpmill_ir::{Scan, Unsupported};

use super::form::Form;
use crate::device::{DevicePtr, priority};
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

/// Opened row segments of a scan, in encodings that kernels read.
pub struct OpenScan {
    /// The opened row segments, shared with other programs.
    pub rows: Arc<OpenRows>,
    /// The zones left after pruning.
    pub selected: Selected,
    /// The same zones as spans of vectors.
    pub spans: Spans,
}

/// The rows of `scan` that metadata does not rule out. `codes` evaluates predicates on dictionaries; `bytes_per_nano` is the rate of reading, which
/// bounds the time worth spending.
///
/// # Errors
/// Damaged metadata.
pub fn select(scan: &Scan, codes: CodeSets<'_>, bytes_per_nano: u64) -> Result<Selected> {
    Ok(warpmill_ir::pruning::select(scan, &[], codes, bytes_per_nano).map_err(ExecError::from)?)
}

/// Opens the `selected` row segments of `scan`. Segments in encodings that kernels do not read are recoded and kept in `recoded`; streamed ones are
/// expanded on the device where possible.
///
/// `forms` has the form in which each column is streamed; `None`: all data is cached. `later`: columns of remote files are read only if they must be
/// read now.
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
    // Parquet pages are opened per program, which decodes them.
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
    let row = |&segment: &usize| {
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
    };
    let columns = priority::in_parallel(|| segments.par_iter().map(row).collect::<Result<Vec<Columns>>>())?;
    let rows = Arc::new(OpenRows::new(scan, segments, columns, !promised.is_empty()));
    if !table.is_parquet() {
        recoded.opened.keep(scan, forms, &rows);
    }
    Ok(OpenScan { rows, selected, spans })
}

/// Stored bytes from which [`converted_bytes`] are worth waiting for elsewhere: a few milliseconds of one thread.
pub const MUCH_TO_CONVERT: u64 = 1 << 20;

/// Stored bytes of `scan` that [`open`] would decompress, or encode anew for kernels, if all data is cached; 0 if the scan has been opened (no I/O).
pub fn converted_bytes(scan: &Scan, recoded: &Recoded) -> u64 {
    let table = &scan.table;
    if table.is_parquet() || !recoded.opened.find(scan, None).is_empty() {
        return 0;
    }
    let is_converted = |segment: usize, column: usize| {
        let direct =
            matches!(table.segment_encoding(segment, column), Encoding::Plain | Encoding::Constant | Encoding::LaneFor);
        !direct || table.segment_codec(segment, column).0 != Codec::None
    };
    let columns =
        scan.columns.iter().flat_map(|&column| (0..table.num_segments()).map(move |segment| (segment, column)));
    let converted = columns.filter(|&(segment, column)| is_converted(segment, column));
    converted.map(|(segment, column)| table.segment_stats(segment, column).stored_bytes).sum()
}

/// The columns of row segments that are read later, by segment and column.
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

/// The page codecs that the device decompresses for columns in `form`.
fn page_codecs(form: Option<Form>, recoded: &Recoded) -> PageCodecs {
    match form {
        Some(Form::Heavy) => recoded.undone.pages(),
        Some(Form::Light | Form::HeavyOnHost) => PageCodecs::NONE,
        None => PageCodecs::default(),
    }
}

/// Opens a column of a row segment, in an encoding that kernels read.
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
        // The code table changes as the column's dictionary grows.
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

/// Shared caches of opened segments: recoded ones, for all devices of the process; and the layouts of compressed chunks, keyed by the addresses of
/// their stored bytes and of the column's dictionary (both kept alive), and by whether the host decompresses.
#[derive(Debug, Default)]
pub struct Recoded {
    /// The codecs that the device decompresses.
    pub undone: Undone,
    /// The rows that programs have opened.
    pub opened: Opened,
    stored: Mutex<HashMap<(usize, usize, bool), Stored>>,
}

type Pair = (Arc<Segment>, Arc<Segment>);

/// Recoded segments of all devices: each is made once, so that copies on several devices are of one segment.
static PAIRS: LazyLock<Mutex<Pairs>> = LazyLock::new(Mutex::default);

/// Recoded segments, keyed by the address of the original, which is kept alive beside each.
#[derive(Debug, Default)]
struct Pairs {
    all: HashMap<usize, Pair>,
    /// Bytes of the recoded segments.
    held: usize,
}

impl Pairs {
    /// Adds a pair of original and recoded segment, unless there is one; returns the recoded segment. Drops unused pairs when the total exceeds
    /// `limit` bytes.
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

    /// Drops pairs whose recoded segment is unused.
    fn forget_unused(&mut self) {
        self.all.retain(|_, (_, made)| Arc::strong_count(made) > 1);
        self.held = self.all.values().map(|(_, made)| made.as_bytes().len()).sum();
    }
}

/// Byte limit of unused recoded segments: an eighth of the memory that was free at first use.
fn most_recoded() -> usize {
    static MOST: LazyLock<usize> = LazyLock::new(|| warpmill_eval::free_memory().map_or(usize::MAX, |free| free / 8));
    *MOST
}

type Stored = (Arc<Chunk>, Option<Arc<Dictionary>>);

impl Recoded {
    /// Empty caches, for a device that decompresses `undone`.
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

    /// Drops all unused entries. The rest may have copies on other devices, which are found by its address.
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

    /// The descriptor without the first `first` vectors.
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
            // The data is offsets into the text of the whole segment.
            _ if self.more[0] != 0 => skip(&mut self.data, rows * 4),
            _ => skip(&mut self.data, rows * u64::from(self.width)),
        }
        skip(&mut self.valid, rows / 8);
        skip(&mut self.references, 16);
        // Patches are found by the position of each vector's first patch.
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

/// The address of the item with key `key`.
pub(super) fn place(places: &KeyMap<DevicePtr>, key: Key) -> Result<DevicePtr> {
    places.get(&key).copied().ok_or_else(missing)
}

/// Appends the `SegmentColumn` of a chunk whose data, expanded form included, is at `places`. Kernels count vectors from `first`.
///
/// # Errors
/// A chunk without an address.
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

/// Appends the `Expansion` of a chunk (kernels/expand.cuh), which follows `vectors` vectors of others; returns the vectors of this one. Chunks that
/// need no expansion append nothing and return 0.
///
/// # Errors
/// A chunk without an address.
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

/// Appends the `CompressedChunk` of a chunk (kernels/decompress.cuh) whose stored form is at `stored`, and which follows `blocks` blocks of others;
/// returns the blocks of this one. Chunks that the device does not decompress append nothing and return 0.
///
/// # Errors
/// A chunk whose segment has no address.
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
