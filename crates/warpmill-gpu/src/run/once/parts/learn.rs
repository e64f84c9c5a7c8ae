//! Detection of sinks that are built in more parts than necessary, because fewer rows or groups came than estimated: estimates of groups multiply the
//! distinct counts of columns, and every part costs another pass over the data.

use warpmill_ir::SinkId;

use super::state::{Divided, Parts, Step, Stop};
use crate::compile::hints::{Hints, Limits};
use crate::compile::layout::{GroupTable, HASHES, SinkLayout, Table};
use crate::compile::plan::Stage;
use crate::compile::planner::with_reserved;
use crate::compile::shares::parts_for;

/// Least number of remaining parts for which a run is restarted with fewer.
const LEAST_LEFT: usize = 4;

/// Runs beyond this number are not restarted to have fewer parts: they are reserved for sizes that turn out too small.
const MOST_RUNS: u32 = 6;

/// Whether the number of parts depends on the number of rows.
fn is_by_rows(layout: &SinkLayout) -> bool {
    match layout {
        SinkLayout::Build(build) => matches!(build.table, Table::Hash | Table::Wide),
        // Sets of distinct values take room, too.
        SinkLayout::Groups(groups) => {
            matches!(groups.table, GroupTable::Hash | GroupTable::Wide) && groups.distinct.is_empty()
        }
        SinkLayout::Rows(_) => false,
    }
}

/// Capacity for a known or likely number of rows.
fn with_spare(rows: u64) -> u64 {
    rows.saturating_add(rows / 16 + 64)
}

/// Upper bound, practically certain, of the rows in all `total` key values if `size` of them, spread at random, have `count`.
fn at_most(count: u64, size: u64, total: u64) -> u64 {
    let count = count as f64;
    ((count + 4.0 * count.sqrt() + 16.0) * (total as f64 / size as f64)) as u64
}

impl Divided {
    /// Number of parts needed for `capacity` rows.
    fn parts_for(&self, capacity: u64) -> usize {
        parts_for(with_reserved(capacity), self.partition.room) as usize
    }

    /// Whether half of the parts would suffice for `capacity` rows.
    fn is_too_fine(&self, capacity: u64) -> bool {
        self.parts_for(capacity).saturating_mul(2) <= self.ranges.len()
    }

    /// Rows of all parts, if each has been built.
    fn rows(&self) -> Option<u64> {
        let rows = |range| self.counts.iter().find(|(other, _)| *other == range).map(|(_, rows)| *rows);
        self.ranges.iter().copied().map(rows).sum()
    }
}

/// Whether groups are numbered by an atomic counter, whose numbers can be lost in races ([`crate::compile::wide::claim`]): then the numbers taken
/// limit the capacity.
fn takes_numbers(layout: &SinkLayout) -> bool {
    matches!(layout, SinkLayout::Groups(groups) if groups.table == GroupTable::Wide)
}

/// Numbers that other runs may lose beyond those counted.
fn lost(layout: &SinkLayout, limits: Limits) -> u64 {
    if takes_numbers(layout) { limits.few_rows } else { 0 }
}

impl Parts<'_, '_> {
    /// Whether sizes of sink `id` may still be learnt, if that happened at most `before` times: bounded, so that runs do not oscillate.
    fn can_learn(&self, id: SinkId, before: usize) -> bool {
        let prepared = self.prepared();
        let hints = prepared.hints();
        let times = hints.counted.iter().filter(|other| **other == id).count();
        is_by_rows(&prepared.layouts()[id])
            && hints.forced_partitions <= 1
            && times <= before
            // A split part means that more rows came than counted.
            && self.divided.get(&id).is_some_and(|divided| divided.ranges.iter().all(|range| range.cuts == 0))
            && !self.structure.depends_on_input(id)
    }

    /// Records the rows of part `number` of sink `id`, for which `passed` bytes were read. Requests another run if so few came that fewer parts are
    /// worth it.
    pub(super) fn learn(&mut self, (id, number): (SinkId, usize), words: &[u64], passed: u64) -> Step {
        let state = self.run.state(words, id, Stage::Own);
        let rows = if takes_numbers(&self.prepared().layouts()[id]) { state.taken } else { state.count };
        let can_learn = self.can_learn(id, 0) && self.run.profile.runs <= MOST_RUNS;
        let Some(divided) = self.divided.get_mut(&id) else { return Ok(()) };
        let range = divided.ranges[number];
        if divided.counts.iter().any(|(other, _)| *other == range) {
            return Ok(());
        }
        divided.counts.push((range, rows));
        // Hashes of groups are uniform, so one part represents the others; rows of builds may have few distinct keys.
        let tells = divided.partition.total == HASHES && matches!(self.prepared().layouts()[id], SinkLayout::Groups(_));
        if !can_learn || !tells {
            return Ok(());
        }
        let divided = &self.divided[&id];
        let capacity = self.capacity(id, at_most(rows, range.size, divided.partition.total));
        let left = divided.ranges.len() - number;
        let saved = left.saturating_sub(divided.parts_for(capacity)) as u64;
        // A restart reads again what has been read so far.
        if left <= LEAST_LEFT || !divided.is_too_fine(capacity) || saved.saturating_mul(passed) < self.passed {
            return Ok(());
        }
        let mut hints = self.prepared().hints().clone();
        expect(&mut hints, id, capacity);
        Err(Stop::Again(Box::new(hints)))
    }

    /// The capacity of sink `id` for `rows` rows.
    fn capacity(&self, id: SinkId, rows: u64) -> u64 {
        let prepared = self.prepared();
        with_spare(rows).saturating_add(lost(&prepared.layouts()[id], prepared.limits))
    }

    /// Hints for the next run, if sinks were built in too many parts.
    pub(super) fn learnt(&self) -> Option<Hints> {
        let mut hints = self.prepared().hints().clone();
        for (&id, divided) in self.divided.iter().filter(|(id, _)| self.can_learn(**id, 1)) {
            let capacity = divided.rows().map(|rows| self.capacity(id, rows));
            if let Some(capacity) = capacity.filter(|&capacity| divided.is_too_fine(capacity)) {
                expect(&mut hints, id, capacity);
            }
        }
        (hints != *self.prepared().hints()).then_some(hints)
    }
}

/// Sets the capacity of sink `id` in the hints, and marks it as counted.
fn expect(hints: &mut Hints, id: SinkId, capacity: u64) {
    hints.capacity.insert(id, capacity);
    hints.counted.push(id);
}

#[cfg(test)]
mod tests {
    use super::{at_most, with_spare};

    #[test]
    fn a_part_tells_of_the_whole() {
        assert_eq!(at_most(0, 1, 16), 256);
        assert_eq!(at_most(10_000, 1 << 60, 1 << 63), 83_328);
        // Rounding errors are smaller than the spare room.
        assert!(with_spare(at_most(u64::from(u32::MAX), 1, 64)) > 64 * u64::from(u32::MAX));
        assert_eq!(with_spare(at_most(1, 1, u64::MAX)), u64::MAX);
    }
}
