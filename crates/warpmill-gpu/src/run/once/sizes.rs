//! Sizes that a run has counted, for later runs of the program. Tables of estimated sizes that turn out much too large spread their records over
//! memory that caches and address translation do not reach.

use super::Stage;
use super::state::Run;
use crate::compile::hints::Hints;
use crate::compile::layout::{GroupTable, SinkLayout, Table};
use crate::compile::prepared::Smaller;

/// Least ratio of a table's slots to those that its rows need from which the table is made smaller.
const TOO_MANY: u64 = 4;

/// Least number of slots of a table that is made smaller: smaller ones are in the caches anyway.
const MANY: u64 = 1 << 17;

impl Run<'_> {
    /// Asks for smaller tables in the next run, if some were much too large; `words` are the states of the sinks.
    pub(super) fn count_sizes(&self, words: &[u64]) {
        let mut smaller = self.prepared.smaller.lock();
        if let (Smaller::None, Some(hints)) = (&*smaller, self.counted_sizes(words)) {
            *smaller = Smaller::Counted(Box::new(hints));
        }
    }

    fn counted_sizes(&self, words: &[u64]) -> Option<Hints> {
        let whole = self.options.shared.is_none() && self.options.shuffle.is_none() && self.prepared.stream.is_none();
        let mut hints = self.prepared.hints().clone();
        if !whole || hints.makes_parts() || hints.join.is_some() {
            return None;
        }
        let before = hints.counted.len();
        for (id, layout) in self.prepared.layouts().iter().enumerate() {
            let state = self.state(words, id, Stage::Own);
            let (slots, rows) = match layout {
                SinkLayout::Build(build)
                    if matches!(build.table, Table::Hash | Table::Wide) && build.order.is_none() =>
                {
                    (build.slots, state.count)
                }
                SinkLayout::Groups(groups) if groups.table == GroupTable::Hash && groups.distinct.is_empty() => {
                    (groups.cells, state.count)
                }
                _ => continue,
            };
            // Fuller tables have long probe sequences, whose latencies add up.
            let capacity = 2 * rows + 64;
            let needed = (2 * capacity).next_power_of_two();
            // The first count of a large table includes positions that were reserved in vain.
            let is_large = match hints.counted.iter().filter(|other| **other == id).count() {
                0 => slots >= MANY,
                times => times == 1,
            };
            if is_large && slots / TOO_MANY >= needed {
                hints.capacity.insert(id, capacity);
                hints.counted.push(id);
            }
        }
        (hints.counted.len() > before).then_some(hints)
    }
}
