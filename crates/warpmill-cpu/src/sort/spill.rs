//! Sorts beyond the memory limit: sorted runs in temporary files, merged as they are read (Knuth, The Art of Computer Programming,
//! volume 3, section 5.4.1).
//!
//! A worker that reaches the limit sorts its rows, drops those that cannot be in the result, and writes the others. The final merge holds one block
//! of each run in memory. Where there are more runs than memory allows, groups of them are merged into longer ones first.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::normalize::Prefix;
use super::run::{self, Entry, Origins, SortBatch};
use super::{OUTPUT_ROWS, Shared};
use crate::chunk::{Chunk, Column, Selection, Values};
use crate::context::{QueryContext, Reservation, Result};
use crate::operator::{Emit, GiveRows, SpilledRows};
use crate::source::{ChunkSource, LocalSource};
use crate::spill::{Block, SpillFile};
use crate::vector::{Data, Vector};

/// Number of rows of a block; one block of each run is in memory during a merge.
const RUN_ROWS: usize = 1024;
/// Smallest and largest number of runs that are merged at once.
const FAN_IN: (usize, usize) = (8, 256);

/// Sorted rows in a file.
pub(super) struct SortedRun {
    file: Arc<SpillFile>,
    blocks: Vec<Block>,
    /// Index of the worker, for the order of rows with equal keys.
    worker: usize,
}

impl SortedRun {
    /// The run with `worker` as the index of its worker.
    pub fn of_worker(self, worker: usize) -> Self {
        Self { worker, ..self }
    }

    fn empty(file: &Arc<SpillFile>) -> Self {
        Self { file: file.clone(), blocks: vec![], worker: 0 }
    }

    /// Appends rows `entries` of `batches`.
    fn append<P: Prefix>(&mut self, batches: &[SortBatch<P>], entries: &[Entry<P>], shared: &Shared) -> Result<()> {
        for entries in entries.chunks(RUN_ROWS) {
            let SortBatch { prefixes, open_keys, columns, origins, .. } = run::compact(batches, entries);
            let Origins::Rows(origins) = origins else { unreachable!("of single rows") };
            let origin = |part: fn(&run::Origin) -> u64| {
                Vector::new(Data::I64(origins.iter().map(|origin| part(origin) as i64).collect()))
            };
            let own = [Vector::new(P::column(prefixes)), origin(|origin| origin.0), origin(|origin| origin.1)];
            let rest = open_keys.iter().chain(&columns).map(|vector| &**vector);
            let block = self.file.append(&own.iter().chain(rest).collect::<Vec<_>>(), entries.len())?;
            shared.stats.wrote(block.bytes());
            self.blocks.push(block);
        }
        Ok(())
    }

    /// Reads block `index`.
    fn read<P: Prefix>(&self, index: usize, shared: &Shared) -> Result<SortBatch<P>> {
        let mut columns = self.file.read(&self.blocks[index])?.into_iter();
        let mut own = || columns.next().expect("what was written").data;
        let prefixes = P::of_column(own());
        let (Data::I64(sequences), Data::I64(positions)) = (own(), own()) else { unreachable!("what was written") };
        let origins = sequences.into_iter().zip(positions).map(|(a, b)| (a as u64, b as u64)).collect();
        let open_keys = columns.by_ref().take(shared.open.len()).map(Arc::new).collect();
        let columns = columns.map(Arc::new).collect();
        Ok(SortBatch { prefixes, open_keys, columns, origins: Origins::Rows(origins), worker: self.worker })
    }
}

/// Writes the first `limit` rows of `batches`, in order, to `file`. Also returns the last row's prefix if there are `limit` rows.
pub(super) fn write<P: Prefix>(
    batches: &[SortBatch<P>],
    shared: &Shared,
    file: &Arc<SpillFile>,
) -> Result<(SortedRun, Option<P>)> {
    let entries = run::sorted(batches, &shared.open, shared.limit);
    let mut run = SortedRun::empty(file);
    run.append(batches, &entries, shared)?;
    shared.stats.pieces.fetch_add(1, Relaxed);
    let last = entries.last().filter(|_| entries.len() == shared.limit).map(|entry| entry.0);
    Ok((run, last))
}

/// A position in a run.
struct Cursor<'a> {
    run: &'a SortedRun,
    /// Index of the next block.
    next: usize,
    /// Index of the current block in the merger's `batches`.
    batch: usize,
    row: usize,
}

/// Merges the rows of runs.
struct Merger<'a, P> {
    shared: &'a Shared,
    /// Cursors with remaining rows, as a binary heap: the first has the least row, and the children of place `i` are `2 i + 1` and `2 i + 2`.
    cursors: Vec<Cursor<'a>>,
    /// The cursors' blocks, and other blocks with rows that are being emitted.
    batches: Vec<SortBatch<P>>,
    held: Reservation,
}

impl<'a, P: Prefix> Merger<'a, P> {
    fn new(runs: &'a [SortedRun], shared: &'a Shared, query: &QueryContext) -> Result<Self> {
        let mut merger = Self { shared, cursors: vec![], batches: vec![], held: query.hold(0) };
        for run in runs.iter().filter(|run| !run.blocks.is_empty()) {
            merger.cursors.push(Cursor { run, next: 1, batch: merger.batches.len(), row: 0 });
            merger.batches.push(run.read(0, shared)?);
        }
        (0..merger.cursors.len() / 2).rev().for_each(|place| merger.sift(place));
        Ok(merger)
    }

    fn less(&self, a: usize, b: usize) -> bool {
        let ((a, i), (b, j)) = ((&self.cursors[a], self.cursors[a].row), (&self.cursors[b], self.cursors[b].row));
        let (x, y) = (&self.batches[a.batch], &self.batches[b.batch]);
        let open = || {
            let keys = self.shared.open.iter().zip(x.open_keys.iter().zip(&y.open_keys));
            keys.map(|(key, (a, b))| key.compare(a, i, b, j)).find(|order| *order != Ordering::Equal)
        };
        let origin = |batch: &SortBatch<P>, row: usize| {
            let (sequence, position) = batch.origin(row);
            (sequence, batch.worker, position)
        };
        let order = x.prefixes[i].cmp(&y.prefixes[j]);
        let order = order.then_with(|| open().unwrap_or(Ordering::Equal));
        order.then_with(|| origin(x, i).cmp(&origin(y, j))) == Ordering::Less
    }

    fn sift(&mut self, mut place: usize) {
        loop {
            let mut first = place;
            for below in [2 * place + 1, 2 * place + 2] {
                if below < self.cursors.len() && self.less(below, first) {
                    first = below;
                }
            }
            if first == place {
                return;
            }
            self.cursors.swap(place, first);
            place = first;
        }
    }

    /// The next rows, at most `rows`, as positions in [`Merger::batches`].
    fn entries(&mut self, rows: usize) -> Result<Vec<Entry<P>>> {
        self.drop_batches();
        let mut entries = Vec::with_capacity(rows.min(OUTPUT_ROWS));
        while entries.len() < rows && !self.cursors.is_empty() {
            let cursor = &mut self.cursors[0];
            let batch = &self.batches[cursor.batch];
            entries.push((batch.prefixes[cursor.row], (cursor.batch as u64) << 32 | cursor.row as u64));
            cursor.row += 1;
            if cursor.row == batch.rows() {
                if cursor.next < cursor.run.blocks.len() {
                    self.batches.push(cursor.run.read(cursor.next, self.shared)?);
                    (cursor.next, cursor.batch, cursor.row) = (cursor.next + 1, self.batches.len() - 1, 0);
                } else {
                    self.cursors.swap_remove(0);
                }
            }
            self.sift(0);
        }
        self.held.resize(self.batches.iter().map(SortBatch::bytes).sum());
        Ok(entries)
    }

    /// Drops blocks without a cursor.
    fn drop_batches(&mut self) {
        let mut old: Vec<Option<SortBatch<P>>> = std::mem::take(&mut self.batches).into_iter().map(Some).collect();
        for cursor in &mut self.cursors {
            self.batches.push(old[cursor.batch].take().expect("every cursor has its own block"));
            cursor.batch = self.batches.len() - 1;
        }
    }

    /// The columns of the next rows, at most `rows`.
    fn columns(&mut self, rows: usize) -> Result<Option<(Vec<Arc<Vector>>, usize)>> {
        let entries = self.entries(rows)?;
        if entries.is_empty() {
            return Ok(None);
        }
        let columns = run::by_column(self.batches.iter().map(|b| b.columns.as_slice()), self.shared.columns);
        Ok(Some((run::gather(&columns, &entries), entries.len())))
    }

    /// Skips `rows` rows.
    fn skip(&mut self, mut rows: usize) -> Result<()> {
        while rows > 0 {
            let len = self.entries(rows.min(OUTPUT_ROWS))?.len();
            if len == 0 {
                return Ok(());
            }
            rows -= len;
        }
        Ok(())
    }
}

/// Average bytes of a row in files.
fn average_bytes(runs: &[SortedRun]) -> usize {
    let blocks = || runs.iter().flat_map(|run| &run.blocks);
    let rows: usize = blocks().map(|block| block.rows).sum();
    let bytes: u64 = blocks().map(Block::bytes).sum();
    (bytes as usize).checked_div(rows).unwrap_or(0).max(1)
}

/// Sorted rows in several spilled runs.
pub(super) struct SpilledSort<P> {
    shared: Arc<Shared>,
    runs: Vec<SortedRun>,
    prefix: std::marker::PhantomData<fn() -> P>,
}

impl<P: Prefix> SpilledSort<P> {
    /// Merges `runs` until few enough remain to be merged at once.
    pub fn new(shared: &Arc<Shared>, mut runs: Vec<SortedRun>, query: &QueryContext) -> Result<Self> {
        loop {
            let fan_in = (query.room() / 2 / (RUN_ROWS * average_bytes(&runs))).clamp(FAN_IN.0, FAN_IN.1);
            if runs.len() <= fan_in {
                return Ok(Self { shared: shared.clone(), runs, prefix: std::marker::PhantomData });
            }
            let file = Arc::new(query.spill.create()?);
            let mut longer = vec![];
            for group in runs.chunks(fan_in) {
                longer.push(Self::merge(shared, group, &file, query)?);
            }
            runs = longer;
        }
    }

    /// Number of rows per output batch: limited by the working memory that operators may use in any case.
    fn output_rows(&self, query: &QueryContext) -> usize {
        let bytes = average_bytes(&self.runs);
        (4 * query.working_memory() / bytes).clamp(RUN_ROWS, OUTPUT_ROWS)
    }

    fn merge(shared: &Shared, runs: &[SortedRun], file: &Arc<SpillFile>, query: &QueryContext) -> Result<SortedRun> {
        let mut merged = SortedRun::empty(file).of_worker(runs[0].worker);
        let mut merger = Merger::<P>::new(runs, shared, query)?;
        let mut left = shared.limit;
        loop {
            query.cancel.check()?;
            let entries = merger.entries(left.min(RUN_ROWS))?;
            if entries.is_empty() {
                break;
            }
            left -= entries.len();
            merged.append(&merger.batches, &entries, shared)?;
        }
        shared.stats.again.fetch_add(1, Relaxed);
        Ok(merged)
    }
}

impl<P: Prefix> SpilledRows for SpilledSort<P> {
    fn source(self: Arc<Self>) -> Box<dyn ChunkSource> {
        Box::new(SortedSource { sort: self })
    }

    fn for_each(&self, query: &Arc<QueryContext>, give: GiveRows<'_>) -> Result<()> {
        let mut merger = Merger::<P>::new(&self.runs, &self.shared, query)?;
        merger.skip(self.shared.skip)?;
        let batch = self.output_rows(query);
        let mut left = self.shared.limit.saturating_sub(self.shared.skip);
        while left > 0
            && let Some((columns, rows)) = merger.columns(left.min(batch))?
        {
            query.cancel.check()?;
            left -= rows;
            if !give(columns, rows)? {
                break;
            }
        }
        Ok(())
    }
}

/// Source of the rows of a spilled sort, in order.
struct SortedSource<P> {
    sort: Arc<SpilledSort<P>>,
}

impl<P: Prefix> ChunkSource for SortedSource<P> {
    fn name(&self) -> String {
        "Merged runs (spilled)".into()
    }

    fn parallelism(&self) -> usize {
        1
    }

    fn local<'a>(&'a self, query: &Arc<QueryContext>) -> Box<dyn LocalSource + 'a> {
        let left = self.sort.shared.limit.saturating_sub(self.sort.shared.skip);
        Box::new(LocalSorted { sort: &*self.sort, merger: None, left, morsels: 0, query: query.clone() })
    }
}

struct LocalSorted<'a, P> {
    sort: &'a SpilledSort<P>,
    merger: Option<Merger<'a, P>>,
    left: usize,
    morsels: u64,
    query: Arc<QueryContext>,
}

impl<P: Prefix> LocalSource for LocalSorted<'_, P> {
    fn next_morsel(&mut self, emit: Emit<'_>) -> Result<bool> {
        let merger = match &mut self.merger {
            Some(merger) => merger,
            none => {
                let mut merger = Merger::new(&self.sort.runs, &self.sort.shared, &self.query)?;
                merger.skip(self.sort.shared.skip)?;
                none.insert(merger)
            }
        };
        let chunk_rows = self.query.settings.chunk_rows;
        let Some((columns, rows)) = merger.columns(self.left.min(16 * chunk_rows))? else { return Ok(false) };
        self.left -= rows;
        self.morsels += 1;
        for (i, start) in (0..rows).step_by(chunk_rows).enumerate() {
            let column = |vector: &Arc<Vector>| Column { values: Values::Vector(vector.clone()), group: 0 };
            let selection = Selection::Range { start: start as u32 };
            let columns = columns.iter().map(column).collect();
            let mut chunk = Chunk::from_parts(chunk_rows.min(rows - start), columns, vec![selection]);
            chunk.sequence = self.morsels << 32 | i as u64;
            emit(chunk)?;
        }
        Ok(true)
    }
}
