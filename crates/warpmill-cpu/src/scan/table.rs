//! The table scan: morsels of the rows that pruning leaves (each within one row segment), as chunks of lazily decoded columns.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use warpmill_eval::progress::ScanProgress;
use warpmill_eval::pruning::select;
use warpmill_eval::queue::{CPU, SegmentQueue};
use warpmill_format::{Encoding, Segment, TableSnapshot, VECTOR_ROWS, mask_rows};
use warpmill_ir::pruning::{PruningReport, Selected};
use warpmill_ir::{Field, Scan};

use super::filter::{self, EncodedFilter, KeyPrune, ScanFilter};
use super::open::RowSegment;
use super::pruning::{BYTES_PER_NANO, key_ranges};
use crate::chunk::{Chunk, Column, LazyColumn, SPARSE, Selection, Values};
use crate::compaction::Compaction;
use crate::context::{QueryContext, Result, Worker};
use crate::join::count_rows;
use crate::operator::Emit;
use crate::source::{ChunkSource, LocalSource};

/// Largest number of rows of a morsel.
const MORSEL_ROWS: usize = 32 * crate::CHUNK_ROWS;

/// A table as a source.
pub struct TableSource {
    table: Arc<TableSnapshot>,
    name: String,
    columns: Vec<usize>,
    fields: Vec<Field>,
    encoded: Vec<EncodedFilter>,
    filters: Vec<ScanFilter>,
    prune: Vec<KeyPrune>,
    /// The row segments with possibly qualifying rows.
    segments: Vec<RowSegment>,
    morsels: Vec<Morsel>,
    next: AtomicUsize,
    /// The shared morsels, if other sites read the same scan.
    shared: Option<SharedMorsels>,
    /// The queue of the shared scan that needs the rows of this scan.
    until: Option<Arc<SegmentQueue>>,
    report: PruningReport,
    plain_bytes: u64,
    bytes_read: Arc<AtomicU64>,
    rows_scanned: Arc<AtomicU64>,
}

/// Index of the row segment in the scan, first row, number of rows.
type Morsel = (usize, usize, usize);

/// Groups `rows` (row segment, first row and number of rows, in order) into row segments and morsels.
fn in_morsels(rows: &[(usize, usize, usize)]) -> (Vec<RowSegment>, Vec<Morsel>) {
    let (mut segments, mut morsels) = (Vec::new(), Vec::new());
    for ranges in rows.chunk_by(|a, b| a.0 == b.0) {
        let (at, before) = (segments.len(), morsels.len());
        for &(_, start, len) in ranges {
            let steps = (0..len).step_by(MORSEL_ROWS);
            morsels.extend(steps.map(|offset| (at, start + offset, MORSEL_ROWS.min(len - offset))));
        }
        segments.push(RowSegment::new(ranges[0].0, morsels.len() - before));
    }
    (segments, morsels)
}

impl TableSource {
    /// A scan of `scan` with the prunes of its finished hash builds.
    pub fn new(scan: &Scan, mut prune: Vec<KeyPrune>) -> Result<Self> {
        let filters = scan.filters.iter().map(ScanFilter::new).collect::<Result<Vec<_>>>()?;
        let table = &scan.table;
        let prepared: Vec<_> = filters.iter().map(|filter| &filter.expr).collect();
        let keys: Vec<_> = prune.iter().filter_map(|key| key_ranges(scan, key)).collect();
        let Selected { rows, report } = select(scan, &prepared, &keys, BYTES_PER_NANO)?;
        let (segments, morsels) = in_morsels(&rows);
        let stats = |column: usize| table.column_stats(scan.columns[column]).clone();
        let symbols = |column: usize| table.has_encoding(scan.columns[column], Encoding::Symbols);
        let (encoded, filters) = filter::split(filters, &mut prune, stats, symbols);
        Ok(Self {
            table: table.clone(),
            name: scan.name.clone(),
            columns: scan.columns.clone(),
            fields: scan.fields.clone(),
            encoded,
            filters,
            prune,
            segments,
            morsels,
            next: AtomicUsize::new(0),
            shared: None,
            until: None,
            report,
            plain_bytes: scan.plain_bytes(),
            bytes_read: Arc::default(),
            rows_scanned: Arc::default(),
        })
    }
}

/// Morsels of a scan shared with other sites.
struct SharedMorsels {
    queue: Arc<SegmentQueue>,
    /// Expected CPU time per row segment.
    pace: Duration,
    cursor: Mutex<Cursor>,
}

struct Cursor {
    /// Row segments not looked at yet, by position; claimed from the end. `None` before the first claim.
    left: Option<Vec<usize>>,
    /// Remaining morsels of the row segment claimed last.
    morsels: Range<usize>,
}

impl TableSource {
    /// The same scan restricted to row segments that the CPU claims from `queue`, with an expected time of `pace` for each.
    ///
    /// First claims the row segments that metadata and keys have ruled out: no site has to read them.
    pub fn shared(mut self, queue: Arc<SegmentQueue>, pace: Duration) -> Self {
        let mut read = self.segments.iter().map(|row| row.segment).peekable();
        for segment in 0..self.table.num_segments() {
            if read.next_if_eq(&segment).is_none() {
                let _ruled_out = queue.claim(CPU, segment);
            }
        }
        let cursor = Mutex::new(Cursor { left: None, morsels: 0..0 });
        self.shared = Some(SharedMorsels { queue, pace, cursor });
        self
    }

    /// The same scan, which ends early once other sites have claimed all of `queue`: its rows are not needed then.
    pub fn until(mut self, queue: Arc<SegmentQueue>) -> Self {
        self.until = Some(queue);
        self
    }

    /// Counts the encoded bytes of `rows` rows of `segment` as read.
    fn count(&self, segment: &Segment, rows: usize) {
        let stats = segment.stats();
        self.bytes_read.fetch_add(stats.stored_bytes * rows as u64 / stats.rows.max(1), Ordering::Relaxed);
    }

    /// The next morsel; `None` after the last one.
    fn claim(&self) -> Option<usize> {
        if self.until.as_ref().is_some_and(|queue| queue.is_left_out(CPU)) {
            return None;
        }
        let Some(shared) = &self.shared else {
            let morsel = self.next.fetch_add(1, Ordering::Relaxed);
            return (morsel < self.morsels.len()).then_some(morsel);
        };
        let mut cursor = shared.cursor.lock();
        loop {
            if let Some(morsel) = cursor.morsels.next() {
                return Some(morsel);
            }
            if shared.queue.leave_to_faster(CPU, shared.pace) {
                return None;
            }
            let numbers = self.segments.iter().map(|row| row.segment);
            let at = cursor.left.get_or_insert_with(|| shared.queue.order_for_cpu(numbers)).pop()?;
            if shared.queue.claim(CPU, self.segments[at].segment) {
                let first = self.morsels.partition_point(|morsel| morsel.0 < at);
                let end = self.morsels.partition_point(|morsel| morsel.0 <= at);
                cursor.morsels = first..end;
            }
        }
    }
}

impl ChunkSource for TableSource {
    fn name(&self) -> String {
        format!("Scan {}", self.name)
    }

    fn parallelism(&self) -> usize {
        self.morsels.len()
    }

    fn begin(&self, progress: &ScanProgress) {
        let left: usize = self.morsels.iter().map(|&(_, _, rows)| rows).sum();
        progress.begin(self.table.num_rows().saturating_sub(left as u64), Arc::clone(&self.rows_scanned));
    }

    fn local<'a>(&'a self, query: &Arc<QueryContext>) -> Box<dyn LocalSource + 'a> {
        let (query, worker) = (query.clone(), Worker::new(&query.memory));
        Box::new(LocalScan {
            scan: self,
            query,
            worker,
            rows: Vec::new(),
            gathered: Gathered::default(),
            lends: false,
            lent: Vec::new(),
        })
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let report = &self.report;
        let mut counters = vec![
            ("rows_scanned", self.rows_scanned.load(Ordering::Relaxed)),
            ("bytes_read", self.bytes_read.load(Ordering::Relaxed)),
            ("segments_skipped", report.segments_pruned),
            ("rows_pruned_by_joins", self.prune.iter().map(KeyPrune::dropped).sum()),
            ("zones", report.zones),
            ("zones_pruned", report.zones_pruned()),
            ("pruning_nanos", report.nanos),
            ("plain_bytes", self.plain_bytes),
        ];
        let causes = [
            ("zones_by_minmax", report.by_minmax),
            ("zones_by_histogram", report.by_histogram),
            ("zones_by_bloom", report.by_bloom),
            ("zones_by_sideways", report.by_sideways),
            ("zones_by_keys", report.by_keys),
            ("pruning_stopped", report.stopped.into()),
        ];
        counters.extend(causes.into_iter().filter(|(_, count)| *count > 0));
        counters
    }
}

struct LocalScan<'a> {
    scan: &'a TableSource,
    query: Arc<QueryContext>,
    worker: Worker,
    rows: Vec<u32>,
    gathered: Gathered,
    /// Whether strings are needed only until a chunk has been emitted.
    lends: bool,
    /// The columns of the current chunk with such strings.
    lent: Vec<Arc<LazyColumn>>,
}

impl LocalSource for LocalScan<'_> {
    fn next_morsel(&mut self, emit: Emit<'_>) -> Result<bool> {
        let scan = self.scan;
        let Some(morsel) = scan.claim() else { return Ok(false) };
        let (segment, start, len) = scan.morsels[morsel];
        let mut columns = Columns { scan, from: &scan.segments[segment], opened: vec![None; scan.columns.len()] };
        let chunk_rows = self.query.settings.chunk_rows;
        let step = chunk_rows.max(VECTOR_ROWS);
        let mut emit = |scan: &mut Self, chunk: Chunk| {
            emit_in_pieces(chunk, chunk_rows, emit)?;
            scan.query.check_strings("Scan (strings of compressed segments)")
        };
        for (i, offset) in (0..len).step_by(step).enumerate() {
            let rows = step.min(len - offset);
            let Some((block, mut chunk)) = self.select(&mut columns, start + offset, rows)? else { continue };
            chunk.sequence = (morsel as u64) << 32 | (i as u64) << 16;
            let few = self.gathers(&chunk, rows);
            if (!few || self.gathered.rows.len() + chunk.len() > chunk_rows)
                && let Some(chunk) = self.take_gathered(&mut columns, start, len)?
            {
                emit(self, chunk)?;
            }
            if few {
                self.gathered.add(&chunk, offset);
            } else {
                let chunk = self.leave(&mut columns, block, chunk)?;
                emit(self, chunk)?;
            }
        }
        if let Some(chunk) = self.take_gathered(&mut columns, start, len)? {
            emit(self, chunk)?;
        }
        drop(columns);
        self.lent.clear();
        scan.rows_scanned.fetch_add(len as u64, Ordering::Relaxed);
        scan.segments[segment].morsel_done();
        Ok(true)
    }

    fn lend_strings(&mut self) -> bool {
        let symbols = |&column: &usize| self.scan.table.has_encoding(column, Encoding::Symbols);
        // Strings are lent only if the query cannot spill: lent strings could not be spilled, decoded strings can.
        self.lends = !self.query.memory.spills() && self.scan.columns.iter().any(symbols);
        self.lends
    }
}

/// The columns of a morsel, opened on demand.
struct Columns<'a> {
    scan: &'a TableSource,
    from: &'a RowSegment,
    opened: Vec<Option<Arc<Segment>>>,
}

impl Columns<'_> {
    fn open(&mut self, index: usize, query: &Arc<QueryContext>) -> Result<&Arc<Segment>> {
        if self.opened[index].is_none() {
            self.opened[index] = Some(self.from.open(&self.scan.table, &self.scan.columns, index, query)?);
        }
        Ok(self.opened[index].as_ref().expect("just opened"))
    }
}

/// Chunks are decoded as whole vectors; a smaller `chunk_rows` (tests) splits them afterwards.
fn emit_in_pieces(chunk: Chunk, chunk_rows: usize, emit: Emit<'_>) -> Result<()> {
    if chunk.len() <= chunk_rows {
        return emit(chunk);
    }
    let rows: Vec<u32> = (0..chunk.len() as u32).collect();
    for (i, piece) in rows.chunks(chunk_rows).enumerate() {
        let mut part = chunk.selected(piece);
        part.sequence = chunk.sequence | i as u64;
        emit(part)?;
    }
    Ok(())
}

/// The scan's columns over a run of rows of a row segment.
struct Block {
    columns: Vec<Arc<LazyColumn>>,
}

impl Block {
    /// The `len` rows of `selection`.
    fn chunk(&self, len: usize, selection: Selection) -> Chunk {
        if self.columns.is_empty() {
            return Chunk::without_columns(len);
        }
        let column = |lazy: &Arc<LazyColumn>| Column { values: Values::Lazy(lazy.clone()), group: 0 };
        Chunk::from_parts(len, self.columns.iter().map(column).collect(), vec![selection])
    }
}

/// The qualifying rows of several blocks of a morsel that have few each, as one chunk instead of many small ones, without copying values (chunk
/// compaction paper, section 5.1).
#[derive(Default)]
struct Gathered {
    /// Row numbers, counted from the first row of the morsel.
    rows: Vec<u32>,
    /// The sequence number of the first block with gathered rows.
    sequence: u64,
}

impl Gathered {
    /// Adds the rows of `chunk`, of a block that begins `offset` rows into the morsel.
    fn add(&mut self, chunk: &Chunk, offset: usize) {
        if self.rows.is_empty() {
            self.sequence = chunk.sequence;
        }
        match &chunk.groups()[0] {
            Selection::Rows(rows) => self.rows.extend(rows.iter().map(|row| row + offset as u32)),
            _ => unreachable!("few rows are selected ones"),
        }
    }
}

impl LocalScan<'_> {
    /// Rows `start .. start + rows` of the row segment, `start` a multiple of 1024.
    fn block(&self, start: usize, rows: usize) -> Block {
        let lazy = |field: &Field| Arc::new(LazyColumn::new(start, rows, field.ty.phys, self.scan.bytes_read.clone()));
        Block { columns: self.scan.fields.iter().map(lazy).collect() }
    }

    /// The qualifying rows of `start .. start + len`, or `None` if there are none.
    fn select(&mut self, columns: &mut Columns<'_>, start: usize, len: usize) -> Result<Option<(Block, Chunk)>> {
        let left = self.select_encoded(columns, start..start + len)?;
        if left == 0 {
            return Ok(None);
        }
        let block = self.block(start, len);
        let mut chunk = block.chunk(len, Selection::Range { start: 0 });
        if left < len {
            chunk.select(&self.rows);
        }
        let chunk = self.filter(columns, &block.columns, chunk)?;
        Ok(chunk.map(|chunk| (block, chunk)))
    }

    /// Whether the rows of `chunk`, which come from a block of `rows` rows, are combined with those of other blocks by logical
    /// compaction: if they are few enough to be extracted one by one.
    fn gathers(&self, chunk: &Chunk, rows: usize) -> bool {
        matches!(self.query.settings.compaction, Compaction::Logical | Compaction::Smart)
            && !self.scan.columns.is_empty()
            && chunk.len() * SPARSE < rows
    }

    /// The gathered rows of a morsel of `len` rows from `start` on; `None` if there are none.
    fn take_gathered(&mut self, columns: &mut Columns<'_>, start: usize, len: usize) -> Result<Option<Chunk>> {
        let Gathered { rows, sequence } = std::mem::take(&mut self.gathered);
        if rows.is_empty() {
            return Ok(None);
        }
        let block = self.block(start, len);
        let mut chunk = block.chunk(rows.len(), Selection::Rows(Arc::new(rows)));
        chunk.sequence = sequence;
        self.leave(columns, block, chunk).map(Some)
    }

    /// Prepares `chunk` for leaving the scan: operators may request any column of `block`, and may keep strings until the end of the query.
    fn leave(&mut self, columns: &mut Columns<'_>, block: Block, mut chunk: Chunk) -> Result<Chunk> {
        let (scan, lazy) = (self.scan, block.columns);
        let mut owned = false;
        for (index, lazy) in lazy.iter().enumerate() {
            lazy.open(columns.open(index, &self.query)?);
            let memory = scan.table.segment_memory(columns.from.segment, scan.columns[index]);
            let owns = memory > 0 || !self.lends && lazy.decodes_strings();
            owned |= owns && lazy.own_strings(&self.query.memory);
        }
        if self.lends {
            self.lent = lazy;
        }
        if owned {
            chunk.forget_dense();
        }
        Ok(chunk)
    }

    /// The rows of `chunk` that pass the filters on decoded values (none for `WHERE false`).
    fn filter(
        &mut self,
        columns: &mut Columns<'_>,
        lazy: &[Arc<LazyColumn>],
        mut chunk: Chunk,
    ) -> Result<Option<Chunk>> {
        for filter in &self.scan.filters {
            for &index in &filter.columns {
                lazy[index].open(columns.open(index, &self.query)?);
            }
            if let Some(rows) = filter.expr.select(&chunk, &mut self.worker)? {
                if rows.is_empty() {
                    return Ok(None);
                }
                chunk.select(&rows);
            }
            self.worker.forget_texts();
        }
        Ok(Some(chunk))
    }

    /// Returns the number of `rows` that tests on encoded values and keys of hash builds do not rule out. If they are not all, their numbers,
    /// counted from the first row, are in `self.rows`. Tests of texts run last.
    fn select_encoded(&mut self, columns: &mut Columns<'_>, rows: Range<usize>) -> Result<usize> {
        let (scan, len) = (self.scan, rows.len());
        let mut mask = [u64::MAX; crate::CHUNK_ROWS / 64];
        let mask = &mut mask[..len.div_ceil(64)];
        if let (Some(last), 1..) = (mask.last_mut(), len % 64) {
            *last = (1 << (len % 64)) - 1;
        }
        let texts = scan.encoded.partition_point(|filter| !filter.is_of_text());
        for filter in &scan.encoded[..texts] {
            self.test(columns, filter, rows.clone(), mask)?;
        }
        for key in &scan.prune {
            let filter = key.filter.as_ref().filter(|_| key.pays());
            let Some(filter) = filter.filter(|_| mask.iter().any(|&word| word != 0)) else { continue };
            let segment = columns.open(key.column, &self.query)?;
            let decoded = key.apply(filter, segment, rows.clone(), mask);
            scan.count(segment, decoded);
        }
        for filter in &scan.encoded[texts..] {
            self.test(columns, filter, rows.clone(), mask)?;
        }
        let left = count_rows(mask);
        self.rows.clear();
        if left < len {
            mask_rows(mask, len, &mut self.rows);
        }
        Ok(left)
    }

    /// Clears in `mask` the rows that fail `filter`.
    fn test(
        &self,
        columns: &mut Columns<'_>,
        filter: &EncodedFilter,
        rows: Range<usize>,
        mask: &mut [u64],
    ) -> Result<()> {
        if mask.iter().all(|&word| word == 0) {
            return Ok(());
        }
        let number = columns.from.segment;
        let segment = columns.open(filter.column, &self.query)?;
        filter.apply((number, segment), rows.start, rows.len(), mask);
        self.scan.count(segment, rows.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
