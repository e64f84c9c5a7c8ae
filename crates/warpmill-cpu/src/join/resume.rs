//! Probe rows whose build partitions are not in memory: they are spilled, and processed after all other rows.
//!
//! The rows of a partition probe the partition's table, and the results continue through the pipeline behind the join. A partition that does not fit
//! is divided again on both sides by other hash bits. Where that does not help (many rows of one key), or rows cannot be divided by key (no keys;
//! `NOT IN`, where NULL may equal anything), the build side is loaded in blocks that fit, and each block meets all probe rows. Results that depend on
//! all blocks (which probe rows have a match) are collected in flags and emitted after the last block.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use rayon::prelude::*;
use warpmill_format::Bitmap;
use warpmill_ir::JoinKind;

use super::Columns;
use super::probe::{Exprs, ProbeOperator};
use super::spill::{BuildPart, SpilledBuild};
use super::table::null_keys;
use crate::chunk::{Chunk, Column, Selection, Values};
use crate::context::{QueryContext, Reservation, Result, Worker};
use crate::operator::{Emit, Resumed};
use crate::source::{ChunkSource, LocalSource};
use crate::spill::SpillStats;
use crate::spill::partition::{MOST_DEPTH, PARTITIONS, Part, Partitioned};
use crate::vector::{Data, Vector};

/// Spilled probe rows, and the progress of their processing.
pub(super) struct Aside {
    pub build: Arc<SpilledBuild>,
    pub exprs: Arc<Exprs>,
    kind: JoinKind,
    /// Whether each block of the build meets all probe rows.
    blocks: bool,
    /// Whether all rows of a key have to be in one table.
    whole_keys: bool,
    /// Input columns that keys, condition or output use.
    used: Vec<usize>,
    /// Number of input columns; set by the first rows.
    inputs: AtomicUsize,
    file: Mutex<Option<Arc<Partitioned>>>,
    jobs: Mutex<Option<Vec<Job>>>,
    pub stats: SpillStats,
}

/// Two bits per probe row: bit 0, whether it matched in any block of the build; bit 1, whether an `IN` without a match is unknown.
#[derive(Debug)]
pub(super) struct RowFlags(Vec<AtomicU8>);

const MATCHED: u8 = 1;
const UNKNOWN: u8 = 2;

impl RowFlags {
    /// Merges the bits of rows `first ..`.
    pub fn add(&self, first: u64, matched: &[bool], unknown: &[bool]) {
        for (row, flag) in self.0[first as usize..][..matched.len()].iter().enumerate() {
            let unknown = unknown.get(row).is_some_and(|&unknown| unknown);
            flag.fetch_or(u8::from(matched[row]) * MATCHED + u8::from(unknown) * UNKNOWN, Relaxed);
        }
    }

    /// For rows `first .. first + len`: whether they matched, and whether that is unknown.
    pub fn of(&self, first: u64, len: usize) -> (Vec<bool>, Vec<bool>) {
        let flags = || self.0[first as usize..][..len].iter().map(|flag| flag.load(Relaxed));
        let matched = flags().map(|flag| flag & MATCHED != 0).collect();
        (matched, flags().map(|flag| flag == UNKNOWN).collect())
    }
}

/// Number of rows that justify another worker.
const ROWS_PER_WORKER: usize = 1 << 14;

/// A unit of work.
enum Job {
    /// Probe rows for a build part, which may have to be divided.
    Part { build: BuildPart, probe: Part, depth: u32 },
    /// Probe rows for a build part, loaded undivided.
    Block { build: BuildPart, probe: Part, flags: Option<Arc<RowFlags>> },
    /// Probe rows for the table that was in memory from the start.
    Table { probe: Part, flags: Option<Arc<RowFlags>> },
    /// Probe rows whose flags are complete.
    Settle { probe: Part, flags: Arc<RowFlags> },
}

impl Aside {
    /// A new instance for a probe of `build`, which uses input columns `used`.
    pub fn new(
        build: Arc<SpilledBuild>,
        exprs: Arc<Exprs>,
        kind: JoinKind,
        blocks: bool,
        mut used: Vec<usize>,
    ) -> Self {
        used.sort_unstable();
        used.dedup();
        let (file, jobs) = (Mutex::default(), Mutex::default());
        let whole_keys = false;
        Self {
            build,
            exprs,
            kind,
            blocks,
            whole_keys,
            used,
            inputs: AtomicUsize::new(0),
            file,
            jobs,
            stats: SpillStats::default(),
        }
    }

    /// The same for joins that need all rows of a key in one table.
    pub fn with_whole_keys(self) -> Self {
        Self { whole_keys: true, ..self }
    }

    /// Name of the strategy in EXPLAIN ANALYZE.
    pub fn strategy(&self) -> &'static str {
        match self.blocks {
            true => "spilled: blocks",
            false => "spilled: hybrid",
        }
    }

    fn live(&self, inputs: usize) -> impl Iterator<Item = usize> + '_ {
        self.used.iter().copied().take_while(move |&column| column < inputs)
    }

    fn file(&self, query: &QueryContext) -> Result<Arc<Partitioned>> {
        let mut file = self.file.lock();
        if let Some(file) = &*file {
            return Ok(file.clone());
        }
        Ok(file.insert(Arc::new(Partitioned::create(query, PARTITIONS)?)).clone())
    }

    /// Restores a block's rows to a chunk with the operator's input columns.
    fn chunk(&self, columns: Vec<Vector>, rows: usize) -> Chunk {
        let inputs = self.inputs.load(Relaxed);
        // Placeholder for columns that are not used.
        let empty = Arc::new(Vector::new(Data::Bool(vec![])));
        let mut all = vec![Column { values: Values::Vector(empty), group: 0 }; inputs];
        for (index, vector) in self.live(inputs).zip(columns) {
            all[index].values = Values::Vector(Arc::new(vector));
        }
        Chunk::from_parts(rows, all, vec![Selection::Range { start: 0 }])
    }

    fn first_jobs(&self) -> Vec<Job> {
        let Some(file) = self.file.lock().take() else { return vec![] };
        let probes = file.parts();
        if !self.blocks {
            let parts = self.build.parts(false).into_iter().zip(probes);
            return parts.map(|(build, probe)| Job::Part { build, probe, depth: 0 }).collect();
        }
        let probe = probes.into_iter().next().unwrap_or_default();
        let (mut jobs, flags) = self.settled_last(&probe);
        // Includes rows with NULL keys: they match nothing, but make results unknown.
        let builds = self.build.parts(true).into_iter();
        jobs.extend(builds.map(|build| Job::Block { build, probe: probe.clone(), flags: flags.clone() }));
        jobs.push(Job::Table { probe, flags });
        jobs
    }

    /// The job to run after `probe` has met all blocks, and its flags, for join kinds that need them.
    fn settled_last(&self, probe: &Part) -> (Vec<Job>, Option<Arc<RowFlags>>) {
        if matches!(self.kind, JoinKind::Inner | JoinKind::BuildOuter | JoinKind::BuildOnly) {
            return (vec![], None);
        }
        let flags = Arc::new(RowFlags((0..probe.rows()).map(|_| AtomicU8::new(0)).collect()));
        (vec![Job::Settle { probe: probe.clone(), flags: flags.clone() }], Some(flags))
    }

    /// Divides probe rows by the hash bits of `depth`.
    fn divide(
        &self,
        probe: &Part,
        depth: u32,
        query: &Arc<QueryContext>,
        pool: &rayon::ThreadPool,
    ) -> Result<Vec<Part>> {
        let to = Partitioned::create(query, PARTITIONS)?;
        let divide = |block: usize| -> Result<()> {
            query.cancel.check()?;
            let columns = probe.read(block)?;
            let rows = probe.blocks[block].rows;
            let chunk = self.chunk(columns.clone(), rows);
            let mut worker = Worker::new(&query.memory);
            let keys = self.exprs.keys.iter().map(|key| key.eval(&chunk, &mut worker)).collect::<Result<Columns>>()?;
            let ids = self.build.partitions(&keys, rows, depth);
            self.stats.wrote(to.write(&columns.iter().collect::<Vec<_>>(), &ids)?);
            Ok(())
        };
        pool.install(|| (0..probe.blocks.len()).into_par_iter().try_for_each(divide))?;
        Ok(to.parts())
    }

    /// The operator that processes the next job in place of `operator`.
    pub fn resume(
        self: &Arc<Self>,
        operator: &ProbeOperator,
        query: &Arc<QueryContext>,
        pool: &rayon::ThreadPool,
    ) -> Result<Option<Resumed>> {
        let mut jobs = self.jobs.lock();
        let jobs = jobs.get_or_insert_with(|| self.first_jobs());
        while let Some(job) = jobs.pop() {
            query.cancel.check()?;
            let budget = (query.room() / 4 * 3).max(4 * query.working_memory());
            match job {
                Job::Part { probe, .. }
                | Job::Block { probe, .. }
                | Job::Table { probe, .. }
                | Job::Settle { probe, .. }
                    if probe.rows() == 0 => {}
                Job::Part { build, probe, .. } if build.table_bytes() <= budget => {
                    jobs.push(Job::Block { build, probe, flags: None });
                }
                Job::Part { build, probe, depth } if depth + 1 < MOST_DEPTH => {
                    let rows = build.part.rows();
                    let builds = self.build.divide(&build, depth + 1, query, pool)?;
                    let probes = self.divide(&probe, depth + 1, query, pool)?;
                    jobs.extend(builds.into_iter().zip(probes).map(|(build, probe)| {
                        // Nearly all rows fell into one part: they have one key, and no division helps.
                        let stuck = build.part.rows() > rows / 10 * 9;
                        Job::Part { build, probe, depth: if stuck { MOST_DEPTH } else { depth + 1 } }
                    }));
                }
                Job::Part { .. } if self.whole_keys => return Err(query.out_of_memory(super::ASOF)),
                Job::Part { build, probe, .. } => {
                    let (settle, flags) = self.settled_last(&probe);
                    jobs.extend(settle);
                    let block = |build| Job::Block { build, probe: probe.clone(), flags: flags.clone() };
                    jobs.extend(build.split(budget).into_iter().map(block));
                }
                Job::Block { build, probe, flags }
                    if self.blocks && build.part.rows() > 0 && build.table_bytes() > budget =>
                {
                    let mut blocks = build.split(budget);
                    if blocks.len() > 1 {
                        let block = |build| Job::Block { build, probe: probe.clone(), flags: flags.clone() };
                        jobs.extend(blocks.into_iter().map(block));
                    } else if let Some(build) = blocks.pop() {
                        return self.block(operator, build, probe, flags, query, pool).map(Some);
                    }
                }
                Job::Block { build, probe, flags } => {
                    return self.block(operator, build, probe, flags, query, pool).map(Some);
                }
                Job::Table { probe, flags } => {
                    let operator = operator.standing_in(operator.table().clone(), flags.map(Settle::Collect));
                    return Ok(Some(self.resumed(operator, probe, query, Box::new(|| {}))));
                }
                Job::Settle { probe, flags } => {
                    let operator = operator.standing_in(operator.table().clone(), Some(Settle::Final(flags)));
                    return Ok(Some(self.resumed(operator, probe, query, Box::new(|| {}))));
                }
            }
        }
        Ok(None)
    }

    /// Makes the operator that probes the table of `build`.
    fn block(
        self: &Arc<Self>,
        operator: &ProbeOperator,
        build: BuildPart,
        probe: Part,
        flags: Option<Arc<RowFlags>>,
        query: &Arc<QueryContext>,
        pool: &rayon::ThreadPool,
    ) -> Result<Resumed> {
        self.stats.pieces.fetch_add(1, Relaxed);
        if flags.is_some() {
            self.stats.again.fetch_add(1, Relaxed);
        }
        let loaded = self.build.load(&build, query, pool)?;
        let (table, places) = (Arc::new(loaded.table), loaded.places);
        let operator = operator.standing_in(table.clone(), flags.map(Settle::Collect));
        let (spilled, partition) = (self.build.clone(), build.partition);
        let done = Box::new(move || spilled.record(partition, &table, &places));
        Ok(self.resumed(operator, probe, query, done))
    }

    fn resumed(
        self: &Arc<Self>,
        operator: ProbeOperator,
        probe: Part,
        query: &Arc<QueryContext>,
        done: Box<dyn FnOnce() + Send>,
    ) -> Resumed {
        let mut next = 0;
        let first = |rows: usize| {
            next += rows;
            next - rows
        };
        let firsts = probe.blocks.iter().map(|block| block.rows).map(first).collect();
        let chunk_rows = query.settings.chunk_rows;
        let source = AsideSource { aside: self.clone(), probe, firsts, chunk_rows, next: AtomicUsize::new(0) };
        Resumed { source: Box::new(source), operator: Box::new(operator), done }
    }
}

/// How a stand-in probe handles results that depend on all blocks of a build.
#[derive(Debug, Clone)]
pub(super) enum Settle {
    /// Records them in flags.
    Collect(Arc<RowFlags>),
    /// Emits rows by the flags, without lookups.
    Final(Arc<RowFlags>),
}

/// One worker's buffered rows for the spill file.
#[derive(Debug)]
pub(super) struct Outgoing {
    columns: Vec<Vector>,
    ids: Vec<u8>,
    held: Reservation,
}

impl Outgoing {
    /// No rows.
    pub fn new(query: &QueryContext) -> Self {
        Self { columns: vec![], ids: vec![], held: query.hold(0) }
    }

    /// Buffers the rows of `chunk` whose partition is not in memory. Returns the other rows; `None` if there are none.
    pub fn take(
        &mut self,
        aside: &Aside,
        chunk: &Chunk,
        keys: &[Arc<Vector>],
        null_equals_null: bool,
        query: &QueryContext,
    ) -> Result<Option<Vec<u32>>> {
        let rows = chunk.len();
        let (here, there, ids) = if aside.blocks {
            (vec![], (0..rows as u32).collect(), vec![0; rows])
        } else {
            let partitions = aside.build.partitions(keys, rows, 0);
            let nulls = if null_equals_null { None } else { null_keys(keys) };
            let here = |row: u32| {
                aside.build.is_resident(partitions[row as usize])
                    || nulls.as_ref().is_some_and(|nulls: &Bitmap| nulls.get(row as usize))
            };
            let (here, there): (Vec<u32>, Vec<u32>) = (0..rows as u32).partition(|&row| here(row));
            let ids = there.iter().map(|&row| partitions[row as usize]).collect();
            (here, there, ids)
        };
        if there.is_empty() {
            return Ok(None);
        }
        aside.inputs.store(chunk.columns().len(), Relaxed);
        let gone = if there.len() == rows { chunk.clone() } else { chunk.selected(&there) };
        let live: Vec<usize> = aside.live(chunk.columns().len()).collect();
        if self.columns.is_empty() {
            let empty = |&column: &usize| Vector::new(Data::with_capacity(gone.dense(column).data.phys(), 0));
            self.columns = live.iter().map(empty).collect();
        }
        self.columns.iter_mut().zip(live).for_each(|(own, column)| own.extend(gone.dense(column)));
        self.ids.extend::<Vec<u8>>(ids);
        let bytes = self.ids.len() + self.columns.iter().map(Vector::bytes).sum::<usize>();
        self.held.resize(bytes);
        if bytes > query.working_memory() {
            self.flush(aside, query)?;
        }
        Ok(Some(here))
    }

    /// Writes the rows.
    pub fn flush(&mut self, aside: &Aside, query: &QueryContext) -> Result<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let columns = std::mem::take(&mut self.columns);
        let bytes = aside.file(query)?.write(&columns.iter().collect::<Vec<_>>(), &std::mem::take(&mut self.ids))?;
        aside.stats.wrote(bytes);
        self.held.resize(0);
        Ok(())
    }
}

/// Source of spilled probe rows. A chunk's sequence is the position of its first row.
struct AsideSource {
    aside: Arc<Aside>,
    probe: Part,
    firsts: Vec<usize>,
    chunk_rows: usize,
    next: AtomicUsize,
}

impl ChunkSource for AsideSource {
    fn name(&self) -> String {
        "Rows put aside".into()
    }

    fn parallelism(&self) -> usize {
        // Another worker for few rows costs more than it saves.
        self.probe.blocks.len().min(1 + self.probe.rows() / ROWS_PER_WORKER)
    }

    fn local<'a>(&'a self, query: &Arc<QueryContext>) -> Box<dyn LocalSource + 'a> {
        Box::new(LocalAside { source: self, query: query.clone() })
    }
}

struct LocalAside<'a> {
    source: &'a AsideSource,
    query: Arc<QueryContext>,
}

impl LocalSource for LocalAside<'_> {
    fn next_morsel(&mut self, emit: Emit<'_>) -> Result<bool> {
        let AsideSource { aside, probe, firsts, chunk_rows, next } = self.source;
        let index = next.fetch_add(1, Relaxed);
        let Some(block) = probe.blocks.get(index) else { return Ok(false) };
        let _held = self.query.hold(block.bytes() as usize);
        let whole = aside.chunk(probe.read(index)?, block.rows);
        for start in (0..block.rows).step_by(*chunk_rows) {
            let selection = Selection::Range { start: start as u32 };
            let len = (*chunk_rows).min(block.rows - start);
            let mut chunk = Chunk::from_parts(len, whole.columns().to_vec(), vec![selection]);
            chunk.sequence = (firsts[index] + start) as u64;
            emit(chunk)?;
        }
        Ok(true)
    }
}
