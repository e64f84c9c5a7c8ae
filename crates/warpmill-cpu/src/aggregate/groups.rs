//! A worker's groups and accumulators, and the merge of all workers' groups.

use std::sync::Arc;

use rayon::prelude::*;
use warpmill_format::Bitmap;

use super::accumulate::{Accumulator, Ids, Kind};
use super::keys::KeyLayout;
use super::ordered::{Ordered, merge_states, same_groups};
use super::plan::{Grouping, Layout};
use super::spill::Spilled;
use super::table::{KeyRows, PARTITIONS, Table};
use crate::context::{QueryContext, Result, Worker};
use crate::vector::Vector;

/// A table with this many groups is frozen if it does not reduce its input much.
const FREEZE_GROUPS: usize = 1 << 17;
/// Largest number of groups of a table.
const MOST_GROUPS: usize = 1 << 22;
/// A table reduces its input well when it has seen this many rows per group.
const REDUCTION: u64 = 4;
/// Copies of the accumulators of a perfect hash: consecutive rows of one group go to different ones, so that an addition
/// need not wait for the store of the previous.
const LANES: usize = 4; // a power of two
/// Largest number of cells for which accumulators are copied.
const LANED_CELLS: usize = 1024;
/// Largest number of groups that one task merges alone.
const SERIAL_GROUPS: usize = 1 << 14;

/// The part of a batch that one accumulator reads.
pub(super) struct Feed<'a> {
    /// Index of the accumulator.
    pub slot: usize,
    /// The argument.
    pub values: Option<&'a Vector>,
    /// The second argument.
    pub second: Option<&'a Vector>,
    /// The rows to add; `None`: all.
    pub mask: Option<&'a Bitmap>,
}

enum State {
    One,
    Perfect {
        touched: Vec<bool>,
        cells: usize,
    },
    /// Rows whose keys have ascended so far; groups move to a hash table as soon as one does not.
    Ordered(Ordered),
    Hash(Table),
}

/// A frozen hash table: groups ordered by hash partition.
pub(super) struct Run {
    pub keys: KeyRows,
    pub hashes: Vec<u64>,
    pub slots: Vec<Accumulator>,
    /// The first group of each partition, and the number of groups at the end.
    offsets: Vec<u32>,
}

/// Finished groups.
pub(super) struct Part {
    /// One vector per key.
    pub keys: Vec<Vector>,
    pub slots: Vec<Accumulator>,
    pub rows: usize,
}

impl Part {
    /// Bytes allocated, which [`merge`] has reserved.
    pub fn bytes(&self) -> usize {
        let slots: usize = self.slots.iter().map(Accumulator::bytes).sum();
        slots + self.keys.iter().map(Vector::bytes).sum::<usize>()
    }
}

/// The groups of one worker.
pub(super) struct Groups {
    layout: Arc<Layout>,
    query: Arc<QueryContext>,
    state: State,
    slots: Vec<Accumulator>,
    runs: Vec<Run>,
    run_bytes: usize,
    /// Rows since the table was last frozen.
    rows: u64,
    freeze_at: usize,
    reserved: usize,
    ids: Vec<u32>,
    /// Runs in a temporary file.
    spilled: Option<Spilled>,
    /// Copies strings, for batches whose strings do not outlive them.
    copies: Option<Worker>,
}

impl Groups {
    pub fn new(layout: &Arc<Layout>, query: &Arc<QueryContext>) -> Self {
        let (state, groups) = match &layout.grouping {
            Grouping::One => (State::One, 1),
            Grouping::Perfect(perfect) => {
                // Lanes would change which value comes first.
                let in_order = layout.slots.iter().any(|slot| slot.kind == Kind::Any);
                let ids = perfect.cells * if perfect.cells <= LANED_CELLS && !in_order { LANES } else { 1 };
                (State::Perfect { touched: vec![false; ids], cells: perfect.cells }, ids)
            }
            Grouping::Hash(keys) if keys.shape() == (1, 0) && !layout.equal_hashes => {
                (State::Ordered(Ordered::default()), 0)
            }
            Grouping::Hash(keys) => (State::Hash(keys.table(0)), 0),
        };
        let slots = layout.slots.iter().map(|slot| Accumulator::new(slot.kind, slot.phys, groups)).collect();
        Self {
            layout: layout.clone(),
            query: query.clone(),
            state,
            slots,
            runs: vec![],
            run_bytes: 0,
            rows: 0,
            freeze_at: FREEZE_GROUPS,
            reserved: 0,
            ids: vec![],
            spilled: None,
            copies: None,
        }
    }

    /// From now on, copies the strings that states and keys refer to.
    pub fn copy_strings(&mut self) {
        self.copies.get_or_insert_with(|| Worker::new(&self.query.memory));
    }

    /// Adds a batch of `rows` rows.
    pub fn update(&mut self, keys: &[&Vector], rows: usize, feeds: &[Feed<'_>]) -> Result<()> {
        self.feed(keys, rows, feeds, |slot, ids, feed| slot.update(ids, feed))
    }

    /// Adds `rows` groups of another site, whose states are in `feeds`.
    pub fn update_states(&mut self, keys: &[&Vector], rows: usize, feeds: &[Feed<'_>]) -> Result<()> {
        self.feed(keys, rows, feeds, |slot, ids, feed| match feed.values {
            Some(states) => slot.update_states(ids, states, feed.mask),
            None => Ok(()),
        })
    }

    fn feed<'f>(
        &mut self,
        keys: &[&Vector],
        rows: usize,
        feeds: &[Feed<'f>],
        take: impl Fn(&mut Accumulator, Ids<'_>, &Feed<'f>) -> Result<()>,
    ) -> Result<()> {
        let encoded = match &self.layout.grouping {
            Grouping::Hash(layout) => Some(layout.encode(keys, rows)?),
            Grouping::One | Grouping::Perfect(_) => None,
        };
        if let (State::Ordered(ordered), Some(encoded)) = (&mut self.state, &encoded)
            && !ordered.find_or_insert(&encoded.words, &mut self.ids)
        {
            self.hash_groups();
        }
        let ids = match (&mut self.state, &self.layout.grouping) {
            (State::Perfect { touched, cells }, Grouping::Perfect(layout)) => {
                let lanes = touched.len() / *cells;
                self.ids.clear();
                self.ids.extend((0..rows).map(|row| ((row & (lanes - 1)) * *cells) as u32));
                layout.encode(keys, &mut self.ids)?;
                // Indexing also checks the bounds of every id: accumulators have as many states as there are flags.
                self.ids.iter().for_each(|&id| touched[id as usize] = true);
                Ids::Each(&self.ids)
            }
            (State::Ordered(ordered), _) => {
                self.slots.iter_mut().for_each(|slot| slot.resize(ordered.len()));
                Ids::Each(&self.ids)
            }
            (State::Hash(table), _) => {
                let encoded = encoded.expect("keys that are hashed");
                let hashes = if self.layout.equal_hashes { vec![0; rows] } else { encoded.hashes(rows) };
                let known = table.len();
                table.find_or_insert(&encoded, &hashes, &mut self.ids);
                if let Some(worker) = &mut self.copies {
                    table.copy_strings(known, worker)?;
                }
                self.slots.iter_mut().for_each(|slot| slot.resize(table.len()));
                Ids::Each(&self.ids)
            }
            _ => Ids::One(rows),
        };
        for feed in feeds {
            let slot = &mut self.slots[feed.slot];
            take(slot, ids, feed)?;
            if let Some(worker) = &mut self.copies {
                slot.copy_strings(worker)?;
            }
        }
        self.rows += rows as u64;
        self.freeze_if_full();
        self.account()
    }

    /// Moves ordered groups to a hash table.
    fn hash_groups(&mut self) {
        let (State::Ordered(ordered), Grouping::Hash(layout)) = (&mut self.state, &self.layout.grouping) else {
            return;
        };
        let groups = ordered.len();
        let keys = KeyRows { width: 1, words: std::mem::take(ordered).into_keys(), strings: vec![] };
        let mut table = layout.table(groups);
        // Their keys differ, so that each keeps its number.
        table.find_or_insert(&keys, &keys.hashes(groups), &mut self.ids);
        self.state = State::Hash(table);
    }

    fn freeze_if_full(&mut self) {
        let State::Hash(table) = &mut self.state else { return };
        let groups = table.len();
        if groups < self.freeze_at {
            return;
        }
        if self.rows >= groups as u64 * REDUCTION && self.freeze_at < MOST_GROUPS {
            self.freeze_at *= 2;
            return;
        }
        self.freeze();
    }

    /// Moves the groups of the hash table into a run.
    fn freeze(&mut self) {
        self.hash_groups();
        let State::Hash(table) = &mut self.state else { return };
        if table.len() == 0 {
            return;
        }
        let (order, offsets) = table.partition();
        let (keys, hashes) = table.gather(&order);
        let slots: Vec<Accumulator> = self.slots.iter().map(|slot| slot.gather(&order)).collect();
        self.run_bytes += keys.bytes() + hashes.len() * 8 + slots.iter().map(Accumulator::bytes).sum::<usize>();
        self.runs.push(Run { keys, hashes, slots, offsets });
        table.clear();
        self.slots.iter_mut().for_each(|slot| slot.resize(0));
        self.rows = 0;
    }

    fn account(&mut self) -> Result<()> {
        let bytes = self.bytes();
        if bytes <= self.reserved {
            return Ok(());
        }
        let more = bytes - self.reserved;
        if !self.query.spills() {
            self.query.reserve("Aggregate", more)?;
        } else if !self.query.try_reserve(more, 0) {
            if bytes > self.query.working_memory() && matches!(self.state, State::Hash(_) | State::Ordered(_)) {
                return self.spill();
            }
            self.query.account(more);
        }
        self.reserved = bytes;
        Ok(())
    }

    fn bytes(&self) -> usize {
        let keys = match &self.state {
            State::Hash(table) => table.bytes(),
            State::Ordered(ordered) => ordered.bytes(),
            State::One | State::Perfect { .. } => 0,
        };
        keys + self.run_bytes + self.slots.iter().map(Accumulator::bytes).sum::<usize>()
    }

    /// Writes all groups to the spill file.
    pub fn spill(&mut self) -> Result<()> {
        self.freeze();
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert(Spilled::create(&self.query)?),
        };
        for run in self.runs.drain(..) {
            spilled.write(&run)?;
        }
        self.run_bytes = 0;
        if let (State::Hash(table), Grouping::Hash(keys)) = (&mut self.state, &self.layout.grouping) {
            *table = keys.table(0);
        }
        self.slots = self.layout.slots.iter().map(|slot| Accumulator::new(slot.kind, slot.phys, 0)).collect();
        let bytes = self.bytes();
        self.query.account(bytes);
        self.query.release(self.reserved);
        self.reserved = bytes;
        Ok(())
    }

    /// Bytes reserved.
    pub fn held(&self) -> usize {
        self.reserved
    }

    /// Whether groups have been spilled.
    pub fn has_spilled(&self) -> bool {
        self.spilled.is_some()
    }

    /// Takes the spilled runs.
    pub fn take_spilled(&mut self) -> Option<Spilled> {
        self.spilled.take()
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.query.release(self.reserved);
    }
}

/// Merges all workers' groups; the parts' keys are disjoint.
pub(super) fn merge(
    layout: &Arc<Layout>,
    mut workers: Vec<Groups>,
    query: &Arc<QueryContext>,
    pool: &rayon::ThreadPool,
) -> Result<Vec<Part>> {
    let parts = match &layout.grouping {
        Grouping::One => vec![merge_one(layout, &workers, query)],
        Grouping::Perfect(_) => merge_perfect(layout, &workers, query),
        Grouping::Hash(keys) => match merge_ordered(keys, &mut workers) {
            Some(parts) => parts,
            None => match workers.as_mut_slice() {
                [only] if only.runs.is_empty() => vec![take_table(keys, only)],
                _ => pool.install(|| merge_runs(layout, keys, &mut workers, query))?,
            },
        },
    };
    drop(workers);
    query.reserve_or_exceed("Aggregate", parts.iter().map(Part::bytes).sum())?;
    Ok(parts)
}

fn merge_one(layout: &Arc<Layout>, workers: &[Groups], query: &Arc<QueryContext>) -> Part {
    let mut all = Groups::new(layout, query);
    for worker in workers {
        for (slot, other) in all.slots.iter_mut().zip(&worker.slots) {
            slot.merge(&[0], other, &[0]);
        }
    }
    Part { keys: vec![], slots: std::mem::take(&mut all.slots), rows: 1 }
}

fn merge_perfect(layout: &Arc<Layout>, workers: &[Groups], query: &Arc<QueryContext>) -> Vec<Part> {
    let Grouping::Perfect(perfect) = &layout.grouping else { unreachable!("perfect hashing") };
    let mut all = Groups::new(layout, query);
    let mut present = vec![false; perfect.cells];
    for worker in workers {
        let State::Perfect { touched, cells } = &worker.state else { unreachable!("workers share a layout") };
        let from: Vec<u32> = (0..touched.len() as u32).filter(|&id| touched[id as usize]).collect();
        let into: Vec<u32> = from.iter().map(|id| id % *cells as u32).collect();
        into.iter().for_each(|&id| present[id as usize] = true);
        for (slot, other) in all.slots.iter_mut().zip(&worker.slots) {
            slot.merge(&into, other, &from);
        }
    }
    let ids: Vec<u32> = (0..perfect.cells as u32).filter(|&id| present[id as usize]).collect();
    if ids.is_empty() {
        return vec![];
    }
    let slots = all.slots.iter().map(|slot| slot.gather(&ids)).collect();
    vec![Part { keys: perfect.decode(&ids), slots, rows: ids.len() }]
}

/// Merges groups whose keys ascend where workers' pieces overlap at their ends only; `None` otherwise.
fn merge_ordered(layout: &KeyLayout, workers: &mut [Groups]) -> Option<Vec<Part>> {
    let ordered = workers.iter().map(|worker| match &worker.state {
        State::Ordered(ordered) => Some(ordered),
        _ => None,
    });
    let ordered = ordered.collect::<Option<Vec<_>>>()?;
    let same = same_groups(&ordered)?;
    let mut slots: Vec<Vec<Accumulator>> = workers.iter_mut().map(|worker| std::mem::take(&mut worker.slots)).collect();
    merge_states(&mut slots, &same);
    let part = |(at, (worker, slots)): (usize, (&mut Groups, Vec<Accumulator>))| {
        let State::Ordered(ordered) = &mut worker.state else { unreachable!("workers with ascending keys") };
        let keys = KeyRows { width: 1, words: std::mem::take(ordered).into_keys(), strings: vec![] };
        let mut gone: Vec<u32> =
            same.iter().filter(|same| same.from.worker == at).map(|same| same.from.group).collect();
        gone.sort_unstable();
        let rows = keys.words.len() - gone.len();
        if gone.is_empty() {
            return Part { keys: layout.decode(keys, rows), slots, rows };
        }
        let order: Vec<u32> = (0..keys.words.len() as u32).filter(|group| gone.binary_search(group).is_err()).collect();
        let slots = slots.iter().map(|slot| slot.gather(&order)).collect();
        Part { keys: layout.decode(keys.gather(&order), rows), slots, rows }
    };
    Some(workers.iter_mut().zip(slots).enumerate().map(part).filter(|part| part.rows > 0).collect())
}

/// The groups of the only worker.
fn take_table(layout: &KeyLayout, worker: &mut Groups) -> Part {
    let State::Hash(table) = &mut worker.state else { unreachable!("workers share a layout") };
    let rows = table.len();
    let keys = layout.decode(std::mem::take(&mut table.keys), rows);
    Part { keys, slots: std::mem::take(&mut worker.slots), rows }
}

fn merge_runs(
    layout: &Arc<Layout>,
    keys: &KeyLayout,
    workers: &mut [Groups],
    query: &Arc<QueryContext>,
) -> Result<Vec<Part>> {
    workers.par_iter_mut().for_each(Groups::freeze);
    let runs: Vec<&Run> = workers.iter().flat_map(|worker| &worker.runs).collect();
    let groups: usize = runs.iter().map(|run| run.hashes.len()).sum();
    let step = if groups <= SERIAL_GROUPS { PARTITIONS } else { 1 };
    let parts = (0..PARTITIONS).step_by(step).collect::<Vec<_>>().into_par_iter().map(|first| {
        query.cancel.check()?;
        Ok(merge_partitions(layout, keys, &runs, first, first + step))
    });
    let parts: Vec<Part> = parts.collect::<Result<_>>()?;
    Ok(parts.into_iter().filter(|part| part.rows > 0).collect())
}

/// A table into which groups are merged.
pub(super) struct Merging<'a> {
    keys: &'a KeyLayout,
    table: Table,
    slots: Vec<Accumulator>,
    into: Vec<u32>,
}

impl<'a> Merging<'a> {
    /// An empty table with room for `groups`.
    pub fn new(layout: &Layout, keys: &'a KeyLayout, groups: usize) -> Self {
        let slots = layout.slots.iter().map(|slot| Accumulator::new(slot.kind, slot.phys, 0)).collect();
        Self { keys, table: keys.table(groups), slots, into: vec![] }
    }

    /// Merges groups `from` of `slots`, which have these keys and hashes.
    pub fn merge(&mut self, keys: &KeyRows, hashes: &[u64], slots: &[Accumulator], from: &[u32]) {
        self.table.find_or_insert(keys, hashes, &mut self.into);
        for (slot, other) in self.slots.iter_mut().zip(slots) {
            slot.resize(self.table.len());
            slot.merge(&self.into, other, from);
        }
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        self.table.bytes() + self.slots.iter().map(Accumulator::bytes).sum::<usize>()
    }

    /// The merged groups.
    pub fn finish(self) -> Part {
        let rows = self.table.len();
        Part { keys: self.keys.decode(self.table.keys, rows), slots: self.slots, rows }
    }
}

/// Merges partitions `first .. end` of all runs.
fn merge_partitions(layout: &Layout, keys: &KeyLayout, runs: &[&Run], first: usize, end: usize) -> Part {
    let range = |run: &Run| run.offsets[first] as usize..run.offsets[end] as usize;
    let most: usize = runs.iter().map(|run| range(run).len()).sum();
    // The number of groups that runs share is unknown: starting from a quarter of the sum saves most of the growing.
    let mut merging = Merging::new(layout, keys, most / 4);
    for run in runs {
        let range = range(run);
        let from: Vec<u32> = (range.start as u32..range.end as u32).collect();
        let keys = run.keys.slice(range.start, range.len());
        merging.merge(&keys, &run.hashes[range], &run.slots, &from);
    }
    merging.finish()
}
