//! Groups and aggregates.
//!
//! Rows find their group by arithmetic where keys have few values (`keys`), otherwise in a hash table per worker that is frozen into partitioned runs
//! when it outgrows the cache (`table`, `groups`). Aggregates share accumulators (`plan`, `accumulate`), which are updated a batch at a time.
//! DISTINCT is a separate aggregation by groups and argument, whose merged groups feed the accumulators.

mod accumulate;
mod groups;
mod hash;
mod keys;
mod moments;
pub(crate) mod operand;
mod ordered;
pub(crate) mod output;
mod plan;
mod spill;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod text;
pub(crate) mod wide;

use std::any::Any;
use std::sync::Arc;

use rayon::prelude::*;
use warpmill_format::Bitmap;
use warpmill_ir::{AggregateExpr, Expr, Field};

use crate::chunk::Chunk;
use crate::collect::downcast;
use crate::context::{ExecError, QueryContext, Result, Worker};
use crate::operator::{LocalSink, Sink, SinkOutput};
use crate::rows::RowSet;
use crate::spill::SpillStats;
use crate::vector::{Data, Vector};
use groups::{Feed, Groups, Part};
use plan::{Input, Layout, Plan};
use spill::{Merge, Merged};

/// The sink of [`warpmill_ir::Sink::Aggregate`].
pub struct AggregateSink {
    shared: Arc<Shared>,
}

struct Shared {
    plan: Plan,
    layout: Arc<Layout>,
    /// The layout of each distinct set.
    distinct: Vec<Arc<Layout>>,
    /// Largest number of rows for which no accumulator can overflow.
    safe_rows: u64,
    stats: SpillStats,
}

impl Shared {
    /// Fails if an accumulator that has added `rows` rows could have overflowed.
    fn check_rows(&self, rows: u64) -> Result<()> {
        let safe = self.safe_rows;
        if rows > safe { Err(ExecError::NeedsWideSums { safe }) } else { Ok(()) }
    }
}

impl AggregateSink {
    /// A sink for `groups` and `aggregates` over its input's columns that returns columns `fields`; `max_rows` is the largest number of input rows,
    /// if known.
    pub fn new(groups: &[Expr], aggregates: &[AggregateExpr], fields: &[Field], max_rows: Option<u64>) -> Result<Self> {
        let safe_rows = aggregates.iter().filter_map(AggregateExpr::safe_rows).min().unwrap_or(u64::MAX);
        Ok(Self::of(Plan::new(groups, aggregates, fields, max_rows)?, safe_rows))
    }

    fn of(plan: Plan, safe_rows: u64) -> Self {
        let layout = Arc::new(plan.layout());
        let distinct = plan.distinct.iter().map(|set| Arc::new(plan.distinct_layout(set))).collect();
        Self { shared: Arc::new(Shared { plan, layout, distinct, safe_rows, stats: SpillStats::default() }) }
    }

    /// The same sink with hash tables only, and all hashes equal (for tests).
    pub fn with_equal_hashes(self) -> Self {
        match Arc::try_unwrap(self.shared) {
            Ok(Shared { plan, safe_rows, .. }) => Self::of(Plan { equal_hashes: true, ..plan }, safe_rows),
            Err(shared) => Self { shared },
        }
    }

    /// The same sink with perfect hashing up to `bytes` only.
    pub fn with_perfect_bytes(self, bytes: usize) -> Self {
        match Arc::try_unwrap(self.shared) {
            Ok(Shared { plan, safe_rows, .. }) => Self::of(Plan { perfect_bytes: bytes, ..plan }, safe_rows),
            Err(shared) => Self { shared },
        }
    }
}

struct LocalAggregate {
    shared: Arc<Shared>,
    worker: Worker,
    groups: Groups,
    distinct: Vec<Groups>,
    /// Rows added.
    rows: u64,
}

impl Sink for AggregateSink {
    fn name(&self) -> String {
        let how = match self.shared.layout.grouping {
            plan::Grouping::One => "ungrouped",
            plan::Grouping::Perfect(_) => "perfect hash",
            plan::Grouping::Hash(_) => "hash",
        };
        let wide = self.shared.layout.slots.iter().any(|slot| slot.kind.is_wide_sum());
        let spilled = if self.shared.stats.any() { ", spilled" } else { "" };
        format!("Aggregate ({how}{}{spilled})", if wide { ", 128-bit sums" } else { "" })
    }

    fn counters(&self) -> Vec<(String, u64)> {
        self.shared.stats.counters("spill_partitions", "spill_passes")
    }

    fn local(&self, query: &Arc<QueryContext>) -> Box<dyn LocalSink> {
        Box::new(LocalAggregate {
            shared: self.shared.clone(),
            worker: Worker::new(&query.memory),
            groups: Groups::new(&self.shared.layout, query),
            distinct: self.shared.distinct.iter().map(|layout| Groups::new(layout, query)).collect(),
            rows: 0,
        })
    }

    fn finish(
        &self,
        locals: Vec<Box<dyn LocalSink>>,
        query: &Arc<QueryContext>,
        pool: &rayon::ThreadPool,
    ) -> Result<SinkOutput> {
        let shared = &self.shared;
        let mut workers = vec![];
        let mut sets: Vec<Vec<Groups>> = shared.distinct.iter().map(|_| vec![]).collect();
        let mut rows = 0;
        for local in locals {
            let LocalAggregate { groups, distinct, rows: arrived, .. } = downcast::<LocalAggregate>(local);
            rows += arrived;
            workers.push(groups);
            sets.iter_mut().zip(distinct).for_each(|(set, groups)| set.push(groups));
        }
        // Each worker's own sums are safe; the sums over all workers have to be, too.
        shared.check_rows(rows)?;
        let merge = |layout: &Arc<Layout>, groups| Merge { layout, query, pool, stats: &shared.stats }.run(groups);
        for (index, set) in sets.into_iter().enumerate() {
            match merge(&shared.distinct[index], set)? {
                Merged::Here(parts) => {
                    let per_task = parts.len().div_ceil(query.settings.threads.max(1)).max(1);
                    let feed = |parts: &[Part]| feed_distinct(shared, index, parts.iter().map(Ok), query);
                    let groups = || parts.par_chunks(per_task).map(feed).collect::<Result<Vec<_>>>();
                    workers.extend(pool.install(groups)?);
                    query.release(parts.iter().map(Part::bytes).sum());
                }
                Merged::Spilled(spilled) => {
                    let tasks = 0..query.settings.threads.max(1);
                    let feed =
                        |_| feed_distinct(shared, index, std::iter::from_fn(|| spilled.next(query).transpose()), query);
                    workers.extend(pool.install(|| tasks.into_par_iter().map(feed).collect::<Result<Vec<_>>>())?);
                }
            }
        }
        match merge(&shared.layout, workers)? {
            Merged::Here(parts) => {
                let batches = pool.install(|| {
                    parts.into_par_iter().map(|part| output::finish(&shared.plan, part)).collect::<Result<Vec<_>>>()
                })?;
                Ok(SinkOutput::Rows(Arc::new(RowSet { batches })))
            }
            Merged::Spilled(groups) => {
                Ok(SinkOutput::Spilled(Arc::new(spill::SpilledAggregate { shared: shared.clone(), groups })))
            }
        }
    }
}

/// Feeds the groups of a distinct set to the accumulators over it.
fn feed_distinct<P: std::borrow::Borrow<Part>>(
    shared: &Shared,
    index: usize,
    parts: impl Iterator<Item = Result<P>>,
    query: &Arc<QueryContext>,
) -> Result<Groups> {
    let slots = shared.plan.slots.iter().enumerate().filter(|(_, slot)| slot.input.distinct == Some(index));
    let slots: Vec<usize> = slots.map(|(slot, _)| slot).collect();
    let mut groups = Groups::new(&shared.layout, query);
    for part in parts {
        let part = part?;
        let part = part.borrow();
        let keys: Vec<&Vector> = part.keys.iter().collect();
        let (values, keys) = keys.split_last().expect("a distinct set has its argument as key");
        let feed = |&slot: &usize| Feed { slot, values: Some(values), second: None, mask: values.validity.as_ref() };
        groups.update(keys, part.rows, &slots.iter().map(feed).collect::<Vec<_>>())?;
    }
    Ok(groups)
}

impl LocalSink for LocalAggregate {
    fn consume(&mut self, chunk: Chunk) -> Result<()> {
        self.rows += chunk.len() as u64;
        self.shared.check_rows(self.rows)?;
        let Self { shared, worker, groups, distinct, .. } = self;
        let plan = &shared.plan;
        let rows = chunk.len();
        let mut eval = |list: &[operand::Operand]| -> Result<Vec<Arc<Vector>>> {
            list.iter().map(|operand| operand.eval(&chunk, worker)).collect()
        };
        let keys = eval(&plan.groups)?;
        let arguments = eval(&plan.arguments)?;
        let filters = eval(&plan.filters)?.iter().map(|filter| passing(filter)).collect::<Result<Vec<_>>>()?;
        let key_refs: Vec<&Vector> = keys.iter().map(|key| &**key).collect();

        let mut masks: Vec<(Input, Option<Bitmap>)> = vec![];
        for slot in plan.slots.iter().filter(|slot| slot.input.distinct.is_none()) {
            if !masks.iter().any(|(input, _)| *input == slot.input) {
                masks.push((slot.input, mask(slot.input, &arguments, &filters)));
            }
        }
        let direct = plan.slots.iter().enumerate().filter(|(_, slot)| slot.input.distinct.is_none());
        let feeds: Vec<Feed> = direct
            .map(|(index, slot)| {
                let values = slot.input.argument.map(|argument| &*arguments[argument]);
                let second = slot.input.second.map(|argument| &*arguments[argument]);
                let mask = masks.iter().find(|(input, _)| *input == slot.input).and_then(|(_, mask)| mask.as_ref());
                Feed { slot: index, values, second, mask }
            })
            .collect();
        groups.update(&key_refs, rows, &feeds)?;

        for (set, groups) in plan.distinct.iter().zip(distinct) {
            let mut keys = key_refs.clone();
            keys.push(&arguments[set.argument]);
            match set.filter {
                None => groups.update(&keys, rows, &[])?,
                Some(filter) => {
                    let passing: Vec<u32> = (0..rows as u32).filter(|&row| filters[filter].get(row as usize)).collect();
                    let keys: Vec<Vector> = keys.iter().map(|key| key.gather(&passing)).collect();
                    groups.update(&keys.iter().collect::<Vec<_>>(), passing.len(), &[])?;
                }
            }
        }
        Ok(())
    }

    fn can_copy_strings(&self) -> bool {
        true
    }

    fn copy_strings(&mut self) {
        self.groups.copy_strings();
        self.distinct.iter_mut().for_each(Groups::copy_strings);
    }

    fn merge_states(&mut self, states: &[Arc<Vector>], rows: usize) -> Result<()> {
        let plan = &self.shared.plan;
        let keys = plan.group_types.len();
        let (slots, counts) = (plan.slots.len(), usize::from(self.shared.safe_rows < u64::MAX));
        if states.len() != keys + slots + counts || !plan.distinct.is_empty() {
            let message = format!("{} columns of states for {keys} keys and {slots} accumulators", states.len());
            return Err(ExecError::Unsupported(message));
        }
        if let Some(Data::I64(counts)) = states.get(keys + slots).map(|counts| &counts.data) {
            self.rows += counts[..rows].iter().sum::<i64>() as u64;
            self.shared.check_rows(self.rows)?;
        }
        let (keys, states) = states.split_at(keys);
        let keys: Vec<&Vector> = keys.iter().map(|key| &**key).collect();
        let feeds = states[..slots].iter().enumerate();
        let feeds = feeds.map(|(slot, states)| Feed {
            slot,
            values: Some(states),
            second: None,
            mask: states.validity.as_ref(),
        });
        let feeds: Vec<Feed> = feeds.collect();
        self.groups.update_states(&keys, rows, &feeds)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

/// The rows for which a filter is true.
fn passing(filter: &Vector) -> Result<Bitmap> {
    let Data::Bool(values) = &filter.data else {
        return Err(ExecError::Unsupported(format!("an aggregate's filter of {:?}", filter.data.phys())));
    };
    Ok(Bitmap::from_fn(values.len(), |row| values[row] && filter.is_valid(row)))
}

/// The rows that an accumulator adds; `None`: all.
fn mask(input: Input, arguments: &[Arc<Vector>], filters: &[Bitmap]) -> Option<Bitmap> {
    let valid = |argument: usize| arguments[argument].validity.as_ref();
    let valid = input.argument.into_iter().chain(input.second).filter_map(valid);
    let mut masks = valid.chain(input.filter.map(|filter| &filters[filter]));
    let mut mask = masks.next()?.clone();
    masks.for_each(|other| mask.and_assign(other));
    Some(mask)
}
