//! Groups beyond the memory limit: runs in temporary files, ordered by hash partition, and their merge a few partitions at a time.
//!
//! A worker whose table does not fit freezes it into a run, as it does with a table that outgrows the cache, and writes the run. At the end each
//! partition of all runs is merged separately, when its rows are requested: only that partition is in memory then. A partition that is still too
//! large is merged in several passes, each for the groups with certain further hash bits.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use warpmill_ir::Phys;
use warpmill_ir::pairs::Pairs;

use super::accumulate::{Accumulator, Kind, Pick};
use super::groups::{Groups, Merging, Part, Run, merge};
use super::keys::KeyLayout;
use super::moments::Moments;
use super::plan::{Grouping, Layout, Slot};
use super::table::{KeyRows, PARTITIONS};
use super::text::TextKey;
use super::wide::Wide;
use super::{Shared, output};
use crate::chunk::{Chunk, Column, Selection, Values};
use crate::context::{QueryContext, Reservation, Result};
use crate::operator::{Emit, GiveRows, SpilledRows};
use crate::source::{ChunkSource, LocalSource};
use crate::spill::{BLOCK_ROWS, Block, SpillFile, SpillStats};
use crate::vector::{Data, Vector};

/// Number of hash bits that select the partition.
const PARTITION_BITS: u32 = PARTITIONS.ilog2();
/// Smallest number of groups of a block (runs may have fewer).
const LEAST_ROWS: usize = 128;
/// log2 of the largest number of passes over one partition.
const MOST_PASS_BITS: u32 = 12;

/// One worker's runs in a file.
pub(super) struct Spilled {
    file: SpillFile,
    /// Each block with its first and last partition.
    blocks: Vec<(Block, Range<usize>)>,
    /// Groups per partition; equal groups of different runs count several times.
    groups: Vec<u64>,
}

impl Spilled {
    /// A new file without runs.
    pub fn create(query: &QueryContext) -> Result<Self> {
        Ok(Self { file: query.spill.create()?, blocks: vec![], groups: vec![0; PARTITIONS] })
    }

    /// Writes a run.
    pub fn write(&mut self, run: &Run) -> Result<()> {
        let partition = |row: usize| (run.hashes[row] >> (64 - PARTITION_BITS)) as usize;
        let rows = run.hashes.len();
        (0..rows).for_each(|row| self.groups[partition(row)] += 1);
        let mut start = 0;
        while start < rows {
            // End blocks at partition ends unless that makes tiny blocks: a merge of some partitions then reads little else.
            let most = BLOCK_ROWS.min(rows - start);
            let ends = |&len: &usize| len == most || partition(start + len) != partition(start + len - 1);
            let len = (LEAST_ROWS.min(most)..=most).find(ends).unwrap_or(most);
            let order: Vec<u32> = (start as u32..(start + len) as u32).collect();
            let keys = run.keys.slice(start, len);
            let hashes = &run.hashes[start..start + len];
            let slots: Vec<Accumulator> = run.slots.iter().map(|slot| slot.gather(&order)).collect();
            let columns = columns(keys, hashes, slots);
            let block = self.file.append(&columns.iter().collect::<Vec<_>>(), len)?;
            self.blocks.push((block, partition(start)..partition(start + len - 1) + 1));
            start += len;
        }
        Ok(())
    }
}

/// Words, hashes and states as columns, which may have different lengths.
fn columns(keys: KeyRows, hashes: &[u64], slots: Vec<Accumulator>) -> Vec<Vector> {
    let words = |words: &[u64]| Data::I64(words.iter().map(|&word| word as i64).collect());
    let mut columns = vec![words(&keys.words), words(hashes)];
    columns.extend(keys.strings.into_iter().map(|column| Data::Str(column.iter().map(|key| key.view).collect())));
    for slot in slots {
        match slot {
            Accumulator::Count(states) | Accumulator::SumI64(states) => columns.push(Data::I64(states)),
            Accumulator::SumI128(states) => columns.push(Data::I128(states)),
            Accumulator::SumWide(states) => {
                columns.push(Data::I128(states.iter().map(|state| state.low).collect()));
                columns.push(Data::I64(states.iter().map(|state| state.wraps).collect()));
            }
            Accumulator::SumF64(states) => columns.push(Data::F64(states)),
            Accumulator::Min(states) | Accumulator::Max(states) => columns.push(states),
            Accumulator::First { values, seen } => columns.extend([values, Data::Bool(seen)]),
            Accumulator::Text { values, seen, .. } => columns.extend([Data::Str(values), Data::Bool(seen)]),
            Accumulator::Moments { states, .. } => {
                let part = |index: usize| Data::F64(states.iter().map(|state| state.parts()[index]).collect());
                columns.extend((0..3).map(part));
            }
            Accumulator::Pairs(states) => {
                let part = |index: usize| Data::F64(states.iter().map(|state| state.parts()[index]).collect());
                columns.extend((0..Pairs::PARTS.len()).map(part));
            }
        }
    }
    columns.into_iter().map(Vector::new).collect()
}

/// The inverse of [`columns`]; `None` where the columns do not match this layout.
fn groups(columns: Vec<Vector>, keys: &KeyLayout, slots: &[Slot]) -> Option<(KeyRows, Vec<u64>, Vec<Accumulator>)> {
    let mut columns = columns.into_iter().map(|column| column.data);
    let mut words = || match columns.next()? {
        Data::I64(words) => Some(words.into_iter().map(|word| word as u64).collect::<Vec<u64>>()),
        _ => None,
    };
    let (words, hashes) = (words()?, words()?);
    let (width, strings) = keys.shape();
    let mut string = || match columns.next()? {
        Data::Str(strings) => Some(strings.into_iter().map(TextKey::new).collect()),
        _ => None,
    };
    let strings = (0..strings).map(|_| string()).collect::<Option<_>>()?;
    let keys = KeyRows { width, words, strings };
    let slots = slots.iter().map(|slot| accumulator(slot, &mut columns)).collect::<Option<_>>()?;
    Some((keys, hashes, slots))
}

fn accumulator(slot: &Slot, columns: &mut impl Iterator<Item = Data>) -> Option<Accumulator> {
    let data = columns.next()?;
    let mut text = |data, pick| match (data, columns.next()?) {
        (Data::Str(values), Data::Bool(seen)) => Some(Accumulator::Text { values, seen, pick, taken: vec![] }),
        _ => None,
    };
    Some(match (slot.kind, data) {
        (Kind::Count, Data::I64(states)) => Accumulator::Count(states),
        (Kind::SumI64, Data::I64(states)) => Accumulator::SumI64(states),
        (Kind::SumI128, Data::I128(states)) => Accumulator::SumI128(states),
        (Kind::SumWide, Data::I128(low)) => {
            let Data::I64(wraps) = columns.next()? else { return None };
            let parts = low.into_iter().zip(wraps);
            Accumulator::SumWide(parts.map(|(low, wraps)| Wide { low, wraps }).collect())
        }
        (Kind::SumF64, Data::F64(states)) => Accumulator::SumF64(states),
        (Kind::Min(Phys::Str), data) => text(data, Pick::Min)?,
        (Kind::Max(Phys::Str), data) => text(data, Pick::Max)?,
        (Kind::Any, data) if slot.phys == Phys::Str => text(data, Pick::First)?,
        (Kind::Min(_), data) => Accumulator::Min(data),
        (Kind::Max(_), data) => Accumulator::Max(data),
        (Kind::Any, values) => {
            let Data::Bool(seen) = columns.next()? else { return None };
            Accumulator::First { values, seen }
        }
        (Kind::Moments { scale }, Data::F64(counts)) => {
            let (Data::F64(means), Data::F64(squares)) = (columns.next()?, columns.next()?) else { return None };
            let parts = counts.into_iter().zip(means).zip(squares);
            let states = parts.map(|((count, mean), squares)| Moments::of_parts([count, mean, squares])).collect();
            Accumulator::Moments { states, scale }
        }
        (Kind::Pairs, first) => {
            let mut rest = (1..Pairs::PARTS.len()).map(|_| columns.next()).collect::<Option<Vec<Data>>>()?;
            rest.insert(0, first);
            let parts = rest.into_iter().map(|data| if let Data::F64(part) = data { Some(part) } else { None });
            let parts = parts.collect::<Option<Vec<Vec<f64>>>>()?;
            let state = |row: usize| Pairs::of_parts(std::array::from_fn(|part| parts[part][row]));
            Accumulator::Pairs((0..parts[0].len()).map(state).collect())
        }
        _ => return None,
    })
}

/// Merges the groups of all workers.
pub(super) struct Merge<'a> {
    pub layout: &'a Arc<Layout>,
    pub query: &'a Arc<QueryContext>,
    pub pool: &'a rayon::ThreadPool,
    pub stats: &'a SpillStats,
}

/// Merged groups of all workers.
pub(super) enum Merged {
    /// In memory, with disjoint keys.
    Here(Vec<Part>),
    /// In files.
    Spilled(SpilledGroups),
}

impl Merge<'_> {
    /// Merges `workers`, which have this layout.
    pub fn run(&self, mut workers: Vec<Groups>) -> Result<Merged> {
        if !workers.iter().any(Groups::has_spilled) && !self.too_large(&workers) {
            return merge(self.layout, workers, self.query, self.pool).map(Merged::Here);
        }
        let mut runs = vec![];
        for worker in &mut workers {
            worker.spill()?;
            runs.extend(worker.take_spilled());
        }
        drop(workers);
        let spilled = SpilledGroups::new(self.layout, runs, self.query);
        self.stats.wrote(spilled.runs.iter().flat_map(|run| &run.blocks).map(|(block, _)| block.bytes()).sum());
        self.stats.pieces.fetch_add(spilled.morsels.len() as u64, Relaxed);
        let passes = spilled.morsels.iter().filter(|morsel| morsel.bits > 0).count();
        self.stats.again.fetch_add(passes as u64, Relaxed);
        Ok(Merged::Spilled(spilled))
    }

    /// Whether the merged groups would not fit beside the workers' groups.
    fn too_large(&self, workers: &[Groups]) -> bool {
        if !self.query.spills() || !matches!(self.layout.grouping, Grouping::Hash(_)) {
            return false;
        }
        let bytes: usize = workers.iter().map(Groups::held).sum();
        bytes > self.query.room() && bytes > self.query.working_memory()
    }
}

/// Groups that are merged together: partitions `first .. end`, restricted to groups whose next hash bits are `value`.
#[derive(Debug, Clone, Copy)]
struct Morsel {
    first: usize,
    end: usize,
    bits: u32,
    value: u64,
}

impl Morsel {
    fn takes(&self, hash: u64) -> bool {
        let partition = (hash >> (64 - PARTITION_BITS)) as usize;
        let next = hash << PARTITION_BITS;
        (self.first..self.end).contains(&partition) && (self.bits == 0 || next >> (64 - self.bits) == self.value)
    }
}

/// Groups in spill files, with their merge plan.
pub(super) struct SpilledGroups {
    layout: Arc<Layout>,
    runs: Vec<Spilled>,
    morsels: Vec<Morsel>,
    next: AtomicUsize,
}

impl SpilledGroups {
    fn new(layout: &Arc<Layout>, runs: Vec<Spilled>, query: &QueryContext) -> Self {
        let group = group_bytes(layout) as u64;
        let budget = (query.room() / query.settings.threads.max(1) / 2).max(query.working_memory()) as u64;
        let budget = budget.max(group);
        let mut morsels: Vec<Morsel> = vec![];
        let mut held = u64::MAX;
        for partition in 0..PARTITIONS {
            let bytes = group * runs.iter().map(|run| run.groups[partition]).sum::<u64>();
            if bytes == 0 {
                continue;
            }
            let passes = bytes.div_ceil(budget).next_power_of_two().ilog2().min(MOST_PASS_BITS);
            let bits = if layout.equal_hashes { 0 } else { passes };
            match morsels.last_mut().filter(|last| last.bits == 0 && bits == 0 && held.saturating_add(bytes) <= budget)
            {
                Some(last) => last.end = partition + 1,
                None => {
                    held = 0;
                    let morsel = |value| Morsel { first: partition, end: partition + 1, bits, value };
                    morsels.extend((0..1 << bits).map(morsel));
                }
            }
            held += bytes;
        }
        Self { layout: layout.clone(), runs, morsels, next: AtomicUsize::new(0) }
    }

    /// Merges and returns the next groups; `None` after the last.
    pub fn next(&self, query: &QueryContext) -> Result<Option<Part>> {
        let index = self.next.fetch_add(1, Relaxed);
        match self.morsels.get(index) {
            Some(morsel) => self.merged(morsel, query).map(|(part, _)| Some(part)),
            None => Ok(None),
        }
    }

    /// Merges the groups of `morsel`. Returns them with their memory reservation.
    fn merged(&self, morsel: &Morsel, query: &QueryContext) -> Result<(Part, Reservation)> {
        let Grouping::Hash(keys) = &self.layout.grouping else { unreachable!("only hash tables are put aside") };
        let mut merging = Merging::new(&self.layout, keys, 0);
        let mut held = query.hold(0);
        for run in &self.runs {
            let overlaps = |range: &Range<usize>| range.start < morsel.end && morsel.first < range.end;
            for (block, _) in run.blocks.iter().filter(|(_, range)| overlaps(range)) {
                query.cancel.check()?;
                let columns = run.file.read(block)?;
                let (rows, hashes, slots) = groups(columns, keys, &self.layout.slots).expect("what was written");
                let from: Vec<u32> =
                    (0..hashes.len() as u32).filter(|&row| morsel.takes(hashes[row as usize])).collect();
                let hashes: Vec<u64> = from.iter().map(|&row| hashes[row as usize]).collect();
                merging.merge(&rows.gather(&from), &hashes, &slots, &from);
                held.resize(merging.bytes());
            }
        }
        Ok((merging.finish(), held))
    }
}

/// Estimated bytes of a group in a table.
fn group_bytes(layout: &Layout) -> usize {
    let Grouping::Hash(keys) = &layout.grouping else { unreachable!("only hash tables are put aside") };
    let (width, strings) = keys.shape();
    let state = |slot: &Slot| match slot.kind {
        Kind::Count | Kind::SumI64 | Kind::SumF64 => 8,
        Kind::Moments { .. } => 24,
        Kind::Pairs => size_of::<Pairs>(),
        Kind::SumWide => size_of::<Wide>(),
        _ if slot.phys == Phys::Str => 17,
        _ => 16,
    };
    // Slots at most half full, the hash, the key, the states; arrays grow by doubling.
    32 + 8 + (8 * width + size_of::<TextKey>() * strings + layout.slots.iter().map(state).sum::<usize>()) * 3 / 2
}

/// The result of an aggregation with spilled groups.
pub(super) struct SpilledAggregate {
    pub shared: Arc<Shared>,
    pub groups: SpilledGroups,
}

impl SpilledRows for SpilledAggregate {
    fn source(self: Arc<Self>) -> Box<dyn ChunkSource> {
        Box::new(GroupsSource { aggregate: self, next: AtomicUsize::new(0) })
    }

    fn for_each(&self, query: &Arc<QueryContext>, give: GiveRows<'_>) -> Result<()> {
        for morsel in &self.groups.morsels {
            let (part, _held) = self.groups.merged(morsel, query)?;
            let (columns, rows) = output::finish(&self.shared.plan, part)?;
            if rows > 0 && !give(columns, rows)? {
                break;
            }
        }
        Ok(())
    }
}

/// The source of a spilled aggregation's rows.
struct GroupsSource {
    aggregate: Arc<SpilledAggregate>,
    next: AtomicUsize,
}

impl ChunkSource for GroupsSource {
    fn name(&self) -> String {
        "Merged groups (spilled)".into()
    }

    fn parallelism(&self) -> usize {
        self.aggregate.groups.morsels.len()
    }

    fn local<'a>(&'a self, query: &Arc<QueryContext>) -> Box<dyn LocalSource + 'a> {
        Box::new(LocalGroups { source: self, query: query.clone() })
    }
}

struct LocalGroups<'a> {
    source: &'a GroupsSource,
    query: Arc<QueryContext>,
}

impl LocalSource for LocalGroups<'_> {
    fn next_morsel(&mut self, emit: Emit<'_>) -> Result<bool> {
        let SpilledAggregate { shared, groups } = &*self.source.aggregate;
        let index = self.source.next.fetch_add(1, Relaxed);
        let Some(morsel) = groups.morsels.get(index) else { return Ok(false) };
        let (part, _held) = groups.merged(morsel, &self.query)?;
        let (columns, rows) = output::finish(&shared.plan, part)?;
        let chunk_rows = self.query.settings.chunk_rows;
        for (i, start) in (0..rows).step_by(chunk_rows).enumerate() {
            let column = |vector: &Arc<Vector>| Column { values: Values::Vector(vector.clone()), group: 0 };
            let selection = Selection::Range { start: start as u32 };
            let columns = columns.iter().map(column).collect();
            let mut chunk = Chunk::from_parts(chunk_rows.min(rows - start), columns, vec![selection]);
            chunk.sequence = (index as u64) << 32 | i as u64;
            emit(chunk)?;
        }
        Ok(true)
    }
}
