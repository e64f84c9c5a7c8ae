//! Sorts rows, or finds the first rows in an order.
//!
//! Rows are compared by normalized prefixes (`normalize`) and, where these are equal but incomplete, by value. Rows with equal keys keep the source's
//! order, so that the result does not depend on the number of workers. With a small `fetch` each worker keeps little more than the rows that may be
//! in the result, and rejects other rows by prefix before their other columns are decoded.

pub(crate) mod normalize;
mod run;
mod spill;
#[cfg(test)]
mod tests;
mod texts;

use std::any::Any;
use std::sync::Arc;

use rayon::prelude::*;
use warpmill_ir::{Field, SortKey};

use crate::aggregate::operand::Operand;
use crate::chunk::Chunk;
use crate::collect::downcast;
use crate::context::{QueryContext, Result, Worker};
use crate::operator::{LocalSink, Sink, SinkOutput};
use crate::rows::RowSet;
use crate::spill::{SpillFile, SpillStats};
use normalize::{Direction, Normalizer, Prefix};
use run::{Origins, SortBatch};
use spill::{SortedRun, SpilledSort};
use texts::Texts;

/// Number of rows of an output batch.
const OUTPUT_ROWS: usize = 1 << 16;
/// Largest limit for which workers drop rows that cannot be in the result.
const MOST_TOP: usize = 1 << 16;
/// A worker's rows are cut to the limit when they exceed this multiple of it.
const TOP_SLACK: usize = 4;
/// Smallest number of rows at which a worker's rows are cut.
const TOP_ROWS: usize = 1 << 13;

/// The sink of [`warpmill_ir::Sink::Sort`].
pub struct SortSink {
    shared: Arc<Shared>,
}

struct Shared {
    keys: Vec<Operand>,
    normalizer: Normalizer,
    /// Directions of the keys that prefixes do not hold completely.
    open: Vec<Direction>,
    skip: usize,
    /// `skip + fetch`; `usize::MAX`: all rows.
    limit: usize,
    columns: usize,
    stats: SpillStats,
}

impl SortSink {
    /// A sink that orders rows of `fields` by `keys`, drops the first `skip` rows and keeps `fetch` of the rest (`None`: all).
    pub fn new(keys: &[SortKey], skip: u64, fetch: Option<u64>, fields: &[Field]) -> Result<Self> {
        let normalizer = Normalizer::new(keys);
        let direction = |key: &SortKey| Direction { descending: key.descending, nulls_first: key.nulls_first };
        let limit = fetch.and_then(|fetch| usize::try_from(skip.saturating_add(fetch)).ok()).unwrap_or(usize::MAX);
        let shared = Shared {
            keys: keys.iter().map(|key| Operand::new(&key.expr)).collect::<Result<_>>()?,
            open: keys[normalizer.open..].iter().map(direction).collect(),
            normalizer,
            skip: usize::try_from(skip).unwrap_or(usize::MAX),
            limit,
            columns: fields.len(),
            stats: SpillStats::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    fn finish_as<P: Prefix>(
        &self,
        locals: Vec<Box<dyn LocalSink>>,
        query: &Arc<QueryContext>,
        pool: &rayon::ThreadPool,
    ) -> Result<SinkOutput> {
        let mut locals: Vec<LocalSort<P>> = locals.into_iter().map(downcast::<LocalSort<P>>).collect();
        if locals.iter().any(|local| !local.runs.is_empty()) || too_large(&locals, query) {
            let mut runs = vec![];
            for (worker, local) in locals.iter_mut().enumerate() {
                local.put_aside()?;
                runs.extend(local.runs.drain(..).map(|run| run.of_worker(worker)));
            }
            let sort = SpilledSort::<P>::new(&self.shared, runs, query)?;
            return Ok(SinkOutput::Spilled(Arc::new(sort)));
        }
        let mut batches: Vec<SortBatch<P>> = vec![];
        for (worker, local) in locals.iter_mut().enumerate() {
            batches.extend(std::mem::take(&mut local.batches).into_iter().map(|batch| SortBatch { worker, ..batch }));
        }
        batches.sort_by_key(SortBatch::place);
        let rows: usize = batches.iter().map(SortBatch::rows).sum();
        let shared = &self.shared;
        let entry = size_of::<run::Entry<P>>();
        query.reserve_or_exceed("Sort", rows * entry)?;
        let sort = || run::sorted(&batches, &shared.open, shared.limit);
        let sorted = if rows <= run::FEW_ROWS { sort() } else { pool.install(sort) };
        let wanted = &sorted[shared.skip.min(sorted.len())..];
        if wanted.is_empty() {
            query.release(rows * entry);
            return Ok(SinkOutput::Rows(Arc::default()));
        }
        let source: usize = batches.iter().flat_map(|b| &b.columns).map(|column| column.bytes()).sum();
        query.reserve_or_exceed("Sort", (source as u128 * wanted.len() as u128 / rows as u128) as usize)?;
        let columns = run::by_column(batches.iter().map(|b| b.columns.as_slice()), shared.columns);
        let gather = |entries: &[run::Entry<P>]| (run::gather(&columns, entries), entries.len());
        let output = match wanted.len() <= run::FEW_ROWS {
            true => vec![gather(wanted)],
            false => pool.install(|| wanted.par_chunks(OUTPUT_ROWS).map(gather).collect()),
        };
        query.release(rows * entry);
        Ok(SinkOutput::Rows(Arc::new(RowSet { batches: output })))
    }
}

impl Sink for SortSink {
    fn name(&self) -> String {
        let spilled = if self.shared.stats.any() { "; external" } else { "" };
        match self.shared.limit {
            limit if limit <= MOST_TOP => format!("Sort (top {limit}{spilled})"),
            _ if self.shared.stats.any() => "Sort (external)".into(),
            _ => "Sort".into(),
        }
    }

    fn counters(&self) -> Vec<(String, u64)> {
        self.shared.stats.counters("spill_runs", "spill_merges")
    }

    fn local(&self, query: &Arc<QueryContext>) -> Box<dyn LocalSink> {
        if self.shared.normalizer.is_narrow() {
            Box::new(LocalSort::<u64>::new(&self.shared, query))
        } else {
            Box::new(LocalSort::<u128>::new(&self.shared, query))
        }
    }

    fn finish(
        &self,
        locals: Vec<Box<dyn LocalSink>>,
        query: &Arc<QueryContext>,
        pool: &rayon::ThreadPool,
    ) -> Result<SinkOutput> {
        if self.shared.normalizer.is_narrow() {
            self.finish_as::<u64>(locals, query, pool)
        } else {
            self.finish_as::<u128>(locals, query, pool)
        }
    }
}

struct LocalSort<P> {
    shared: Arc<Shared>,
    query: Arc<QueryContext>,
    worker: Worker,
    batches: Vec<SortBatch<P>>,
    /// Number of rows in `batches`.
    rows: usize,
    /// Number of chunks consumed.
    chunks: u64,
    /// Rows with a greater prefix are not in the result.
    threshold: Option<P>,
    reserved: usize,
    /// Copies of strings whose originals are freed.
    texts: Option<Texts>,
    /// Sorted runs in the spill file.
    runs: Vec<SortedRun>,
    file: Option<Arc<SpillFile>>,
}

/// Whether too little memory is left to sort and copy the workers' rows.
fn too_large<P: Prefix>(locals: &[LocalSort<P>], query: &QueryContext) -> bool {
    let bytes: usize = locals.iter().map(|local| local.reserved).sum();
    let rows: usize = locals.iter().map(|local| local.rows).sum();
    let more = bytes + rows * size_of::<run::Entry<P>>();
    query.spills() && more > query.room() && more > query.working_memory()
}

impl<P: Prefix> LocalSort<P> {
    fn new(shared: &Arc<Shared>, query: &Arc<QueryContext>) -> Self {
        let worker = Worker::new(&query.memory);
        let (shared, query, batches, runs) = (shared.clone(), query.clone(), vec![], vec![]);
        let (threshold, texts, file) = Default::default();
        Self { shared, query, worker, batches, rows: 0, chunks: 0, threshold, reserved: 0, texts, runs, file }
    }

    /// Drops rows that cannot be in the result.
    fn cut(&mut self) -> Result<()> {
        let limit = self.shared.limit;
        let batches = std::mem::take(&mut self.batches);
        let entries = run::sorted(&batches, &self.shared.open, limit);
        self.threshold = entries.last().map(|entry| entry.0);
        self.rows = entries.len();
        let mut kept = run::compact(&batches, &entries);
        if let Some(texts) = &mut self.texts {
            texts.renew(&mut kept, &self.shared)?;
        }
        self.query.release(self.reserved);
        self.reserved = 0;
        self.batches.push(kept);
        Ok(())
    }

    /// Reserves `bytes` more. Returns whether rows have to be spilled.
    fn reserve(&mut self, bytes: usize) -> Result<bool> {
        let query = &self.query;
        let mut full = false;
        if !query.spills() {
            query.reserve("Sort", bytes)?;
        } else if !query.try_reserve(bytes, 0) {
            query.account(bytes);
            full = self.reserved + bytes > query.working_memory();
        }
        self.reserved += bytes;
        Ok(full)
    }

    /// Spills all rows, sorted.
    fn put_aside(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(Arc::new(self.query.spill.create()?)),
        };
        let (run, last) = spill::write(&self.batches, &self.shared, file)?;
        self.runs.push(run);
        if let Some(texts) = &mut self.texts {
            // The file holds views of the strings.
            texts.keep(&self.query);
        }
        self.threshold = match (self.threshold, last) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.batches.clear();
        self.rows = 0;
        self.query.release(std::mem::take(&mut self.reserved));
        Ok(())
    }
}

impl<P> Drop for LocalSort<P> {
    fn drop(&mut self) {
        self.query.release(self.reserved);
    }
}

impl<P: Prefix> LocalSink for LocalSort<P> {
    fn consume(&mut self, mut chunk: Chunk) -> Result<()> {
        let shared = self.shared.clone();
        if shared.limit == 0 {
            return Ok(());
        }
        let eval = |operand: &Operand| operand.eval(&chunk, &mut self.worker);
        let mut keys = shared.keys.iter().map(eval).collect::<Result<Vec<_>>>()?;
        let mut prefixes: Vec<P> = shared.normalizer.encode(&keys, chunk.len());
        if let Some(threshold) = self.threshold {
            let rows: Vec<u32> = (0..chunk.len() as u32).filter(|&row| prefixes[row as usize] <= threshold).collect();
            if rows.is_empty() {
                return Ok(());
            }
            if rows.len() < chunk.len() {
                prefixes = rows.iter().map(|&row| prefixes[row as usize]).collect();
                keys = keys.iter().map(|key| Arc::new(key.gather(&rows))).collect();
                chunk.select(&rows);
            }
        }
        let mut batch = SortBatch {
            prefixes,
            open_keys: keys.split_off(shared.normalizer.open),
            columns: chunk.to_dense(),
            origins: Origins::Chunk((chunk.sequence, self.chunks << 32)),
            worker: 0,
        };
        if let Some(texts) = &mut self.texts {
            texts.own(&mut batch, &shared)?;
        }
        self.chunks += 1;
        self.rows += batch.rows();
        let full = self.reserve(batch.bytes())?;
        self.batches.push(batch);
        if full {
            return self.put_aside();
        }
        if shared.limit <= MOST_TOP && self.rows >= (shared.limit * TOP_SLACK).max(TOP_ROWS) {
            self.cut()?;
            let bytes = self.batches.iter().map(SortBatch::bytes).sum();
            // Far less than before the cut, so it cannot require spilling.
            self.reserve(bytes)?;
        }
        Ok(())
    }

    fn copies_texts(&mut self, columns: &[usize]) -> bool {
        let top = self.shared.limit <= MOST_TOP;
        if top {
            self.texts = Some(Texts::new(columns, &self.query));
        }
        top
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
