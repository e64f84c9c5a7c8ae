//! Sinks that are made in more parts than they would need, because fewer rows or groups came than were expected: estimates of groups
//! multiply what their columns have, and every part costs another pass through the data.

use crate::codegen::layout::{GroupTable, Hints, Limits, SinkLayout, Table};
use crate::codegen::partition::HASHES;
use crate::execute::plan::Stage;

use super::{Divided, Parts, SinkId, Step, Stop};

/// So many parts are left to make at least where a run begins anew, with fewer.
const LEAST_LEFT: usize = 4;

/// Whether the number of parts follows from how many rows there are.
fn is_by_rows(layout: &SinkLayout) -> bool {
    match layout {
        SinkLayout::Build(build) => matches!(build.table, Table::Hash | Table::Wide),
        // Members of sets of distinct values take room, too.
        SinkLayout::Groups(groups) => {
            matches!(groups.table, GroupTable::Hash | GroupTable::Wide) && groups.distinct.is_empty()
        }
        SinkLayout::Rows(_) => false,
    }
}

/// Rows that a sink gets room for of which `rows` are known, or likely.
fn with_spare(rows: u64) -> u64 {
    rows + rows / 16 + 64
}

/// Rows of a whole of which a part of `size` of `total` values, spread at random, has `count`: no more than these, as good as certainly.
fn at_most(count: u64, size: u64, total: u64) -> u64 {
    let count = count as f64;
    ((count + 4.0 * count.sqrt() + 16.0) * (total as f64 / size as f64)) as u64
}

impl Divided {
    /// Whether half as many parts would do for `rows` rows.
    fn is_too_fine(&self, rows: u64) -> bool {
        let parts = with_spare(rows).div_ceil(self.partition.room.max(1)) as usize;
        2 * parts.max(1) <= self.ranges.len()
    }

    /// Rows of all parts, where each was made.
    fn rows(&self) -> Option<u64> {
        let rows = |range| self.counts.iter().find(|(other, _)| *other == range).map(|(_, rows)| *rows);
        self.ranges.iter().copied().map(rows).sum()
    }
}

/// Numbers of groups that threads take at once, and lose to each other, where groups are few ([`crate::codegen::wide::claim`]).
fn lost(layout: &SinkLayout, limits: Limits) -> u64 {
    match layout {
        SinkLayout::Groups(groups) if groups.table == GroupTable::Wide => limits.few_rows,
        _ => 0,
    }
}

impl Parts<'_, '_> {
    /// Whether something can be learnt of sink `id`, of which there was so much to learn before: not for ever, so that runs do not go to
    /// and fro.
    fn can_learn(&self, id: SinkId, before: usize) -> bool {
        let prepared = self.prepared();
        let hints = &prepared.hints;
        let times = hints.counted.iter().filter(|other| **other == id).count();
        is_by_rows(&prepared.layouts[id]) && hints.forced_partitions <= 1 && times <= before
    }

    /// Notes how many rows part `number` of sink `id`, which is there, has. Ends the run where so few came that another one with fewer parts
    /// is worth it: of hashes, one part tells of the others.
    pub(super) fn learn(&mut self, id: SinkId, number: usize, words: &[u64]) -> Step {
        let rows = self.run.state(words, id, Stage::Own).count;
        let can_learn = self.can_learn(id, 0);
        let Some(divided) = self.divided.get_mut(&id) else { return Ok(()) };
        let range = divided.ranges[number];
        if divided.counts.iter().any(|(other, _)| *other == range) {
            return Ok(());
        }
        divided.counts.push((range, rows));
        if !can_learn {
            return Ok(());
        }
        let likely = at_most(rows, range.size, divided.partition.total);
        let worth_it = divided.ranges.len() - number > LEAST_LEFT && divided.partition.total == HASHES;
        if !worth_it || !divided.is_too_fine(likely) {
            return Ok(());
        }
        let mut hints = self.prepared().hints.clone();
        self.expect(&mut hints, id, likely);
        Err(Stop::Again(Box::new(hints)))
    }

    /// What a program is laid out with where sink `id` has `rows` rows.
    fn expect(&self, hints: &mut Hints, id: SinkId, rows: u64) {
        let prepared = self.prepared();
        hints.capacity.insert(id, with_spare(rows) + lost(&prepared.layouts[id], prepared.limits));
        hints.counted.push(id);
    }

    /// What the next run is laid out with, if sinks were made in too many parts.
    pub(super) fn learnt(&self) -> Option<Hints> {
        let mut hints = self.prepared().hints.clone();
        for (&id, divided) in self.divided.iter().filter(|(id, _)| self.can_learn(**id, 1)) {
            // Where parts were cut, more came than were counted.
            if divided.profile.cut == 0
                && let Some(rows) = divided.rows().filter(|&rows| divided.is_too_fine(rows))
            {
                self.expect(&mut hints, id, rows);
            }
        }
        (hints != self.prepared().hints).then_some(hints)
    }
}

#[cfg(test)]
mod tests {
    use super::{at_most, with_spare};

    #[test]
    fn a_part_tells_of_the_whole() {
        assert_eq!(at_most(0, 1, 16), 256);
        assert_eq!(at_most(10_000, 1 << 60, 1 << 63), 83_328);
        // Rounding does not matter for what there is room for.
        assert!(with_spare(at_most(u64::from(u32::MAX), 1, 64)) > 64 * u64::from(u32::MAX));
    }
}
