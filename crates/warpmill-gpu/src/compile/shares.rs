//! Division of the processing region among sinks that do not all fit: small ones get what they want, the others equal shares. A hash build or a group
//! table that gets less than it wants is built in parts, one after the other; rows for the host are flushed whenever their share is full.

use std::collections::HashSet;

use warpmill_ir::graph::{has_limit, probes, sets_flags};
use warpmill_ir::{Operator, Pipeline, Probe, Program, Sink, SinkId, Source};

use super::cpp::CType;
use super::hints::Hints;
use super::layout::{
    Accumulator, BuildLayout, GroupLayout, GroupTable, HASHES, Partition, RowsLayout, SinkLayout, Slot, Table,
};
use super::probe::compares_unknown;
use super::program::Place;
use super::storage::FlatColumn;
use crate::compile::order;

use super::buffers;
use crate::memory::regions::aligned;

/// Least number of slots of a part's table.
const LEAST_SLOTS: u64 = 64;

/// Assumed bytes of a string.
const STRING: u64 = 24;

/// Least number of bytes for strings of a sink in parts: conditions may make some.
const LEAST_TEXT: u64 = 4 << 10;

/// Number of strings per row.
fn strings_of(layout: &SinkLayout) -> u64 {
    let strings = |columns: &[FlatColumn]| columns.iter().filter(|column| column.ty == CType::Str).count() as u64;
    match layout {
        SinkLayout::Build(build) => {
            let times = build.order.as_ref().map_or(0, |order| strings(&order.columns));
            strings(&build.payload) - build.host_strings() + strings(&build.key_columns) + times
        }
        SinkLayout::Groups(groups) => {
            let best = |slot: &&Slot| matches!(slot.accumulator, Accumulator::MinText | Accumulator::MaxText);
            let extremes = groups.slots.iter().filter(best).count() as u64;
            let members: u64 = groups.distinct.iter().map(|set| strings(&set.columns)).sum();
            strings(&groups.key_columns) + 2 * extremes + 2 * members
        }
        SinkLayout::Rows(rows) => strings(&rows.columns),
    }
}

/// Bytes of the string memory of sink `id`, if it is built in parts or flushed.
pub fn text_of_sink(id: SinkId, layout: &SinkLayout, hints: &Hints) -> u64 {
    let row = hints.row_text.get(&id).copied().unwrap_or(STRING * strings_of(layout));
    aligned(rows_of(layout).saturating_mul(row).max(LEAST_TEXT))
}

/// Bytes of the strings of sink `id` in host memory.
pub fn host_text_of_sink(id: SinkId, layout: &SinkLayout, hints: &Hints) -> u64 {
    let SinkLayout::Build(build) = layout else { return 0 };
    if build.host_strings() == 0 {
        return 0;
    }
    let row = hints.host_text.get(&id).copied().unwrap_or(STRING * build.host_strings());
    aligned(build.capacity.saturating_mul(row).max(LEAST_TEXT))
}

impl Hints {
    /// Leaves sorts to the host whose rows take much of `room` bytes, if the host can process them.
    pub(crate) fn give_up_sorts(&mut self, program: &Program, layouts: &[SinkLayout], room: u64) {
        for (id, layout) in layouts.iter().enumerate() {
            let SinkLayout::Rows(rows) = layout else { continue };
            if buffers::bytes_of_sink(id, layout) > room / 8 && order::host_reads(program, id) {
                if rows.top.is_some() {
                    self.all_rows.push(id);
                }
                if rows.sorted.is_some() {
                    self.host_sorts.push(id);
                }
            }
        }
    }
}

/// Reduces layouts until the buffers of all sinks take no more than `hints` allow, as far as possible. `places` has the processors of pipelines.
pub fn share_out(program: &Program, layouts: &mut [SinkLayout], places: &[Place], hints: &Hints) {
    if !hints.makes_parts() {
        return;
    }
    // Sinks that only the host fills need no device memory.
    let pipelines = program.pipelines.iter().zip(places);
    for (id, layout) in layouts.iter_mut().enumerate() {
        let mut feeding = pipelines.clone().filter(|(pipeline, _)| pipeline.sink == id);
        if let SinkLayout::Rows(rows) = layout
            && feeding.all(|(_, place)| *place == Place::Host)
        {
            rows.capacity = 1;
            (rows.top, rows.sorted, rows.window, rows.grouped) = (None, None, None, None);
        }
    }
    let wants: Vec<u64> = layouts.iter().enumerate().map(|(id, layout)| bytes(id, layout, hints)).collect();
    let structure = Structure { program, layouts, places };
    let mut shrinking = structure.shrinking();
    let fixed: u64 = (0..layouts.len()).filter(|id| !shrinking.contains(id)).map(|id| wants[id]).sum();
    // Sinks with a least part size take their share first.
    shrinking.sort_by_key(|id| (!hints.least_part.contains_key(id), wants[*id]));
    let mut left = hints.partitioned.unwrap_or(u64::MAX).saturating_sub(fixed);
    for (position, &id) in shrinking.iter().enumerate() {
        let share = left / (shrinking.len() - position) as u64;
        // The size of strings is known only when they are there, so sinks with strings must be divisible.
        if wants[id] > share || hints.forced_partitions > 1 || strings_of(&layouts[id]) > 0 {
            let least = hints.least_part.get(&id).copied().unwrap_or(0);
            layouts[id] = shrunk(id, &layouts[id], share, least, hints);
        }
        left = left.saturating_sub(bytes(id, &layouts[id], hints));
    }
}

/// Bytes of a sink, strings included.
pub fn bytes(id: SinkId, layout: &SinkLayout, hints: &Hints) -> u64 {
    buffers::bytes_of_sink(id, layout) + text_of_sink(id, layout, hints)
}

/// The layout for `share` bytes, with a capacity of at least `least` rows.
fn shrunk(id: SinkId, layout: &SinkLayout, share: u64, least: u64, hints: &Hints) -> SinkLayout {
    let forced = u64::from(hints.forced_partitions);
    let (mut low, mut high) = (0.0, if forced > 1 { 1.0 / forced as f64 } else { 1.0 });
    let mut found = scaled(layout, high, forced);
    if bytes(id, &found, hints) > share {
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            found = scaled(layout, middle, forced);
            match bytes(id, &found, hints) > share {
                true => high = middle,
                false => low = middle,
            }
        }
        found = scaled(layout, low, forced);
    }
    let most = rows_of(layout);
    if rows_of(&found) < least && most > 0 {
        found = scaled(layout, least as f64 * 1.05 / most as f64, forced);
    }
    found
}

/// Capacity in rows or groups.
pub fn rows_of(layout: &SinkLayout) -> u64 {
    match layout {
        SinkLayout::Build(build) => build.capacity,
        SinkLayout::Groups(groups) => groups.rows.capacity,
        SinkLayout::Rows(rows) => rows.capacity,
    }
}

/// `count` times `factor`, rounded up.
fn part_of(count: u64, factor: f64) -> u64 {
    ((count as f64 * factor).ceil() as u64).max(1)
}

/// The layout with `factor` times the capacity.
fn scaled(layout: &SinkLayout, factor: f64, forced: u64) -> SinkLayout {
    match layout {
        SinkLayout::Build(build) => SinkLayout::Build(scaled_build(build, factor, forced)),
        SinkLayout::Groups(groups) => SinkLayout::Groups(scaled_groups(groups, factor, forced)),
        SinkLayout::Rows(rows) => {
            let capacity = part_of(rows.capacity, factor).max(32);
            SinkLayout::Rows(RowsLayout { capacity, flushes: true, ..rows.clone() })
        }
    }
}

fn scaled_build(build: &BuildLayout, factor: f64, forced: u64) -> BuildLayout {
    let total = build.keys.cells().unwrap_or(HASHES);
    let by_key = matches!(build.table, Table::Bitmap | Table::Direct);
    let most = if by_key { part_of(total, factor) } else { total };
    let capacity = if build.table == Table::Bitmap { most } else { part_of(build.capacity, factor) };
    let room = if build.table == Table::Bitmap { u64::MAX } else { capacity };
    let slots = (2 * capacity).next_power_of_two().max(LEAST_SLOTS);
    BuildLayout {
        capacity,
        // Slots are key numbers, which may be sort keys, so their number must not grow.
        slots: if build.order.is_some() { slots.min(build.slots) } else { slots },
        reserves: false,
        flags_unused: false,
        folded_bits: None,
        // Parts prune scans by their range instead.
        bitmaps: vec![],
        bounds: vec![],
        partition: Some(partition(total, (most, room), build.capacity, forced)),
        order: build.order.as_ref().map(|order| Box::new(order.with_capacity(capacity))),
        ..build.clone()
    }
}

fn scaled_groups(groups: &GroupLayout, factor: f64, forced: u64) -> GroupLayout {
    let total = groups.keys.cells().unwrap_or(HASHES);
    let most = if groups.table == GroupTable::Dense { part_of(total, factor) } else { total };
    let capacity = part_of(groups.rows.capacity, factor);
    let cells = match groups.table {
        GroupTable::Hash => (2 * capacity).next_power_of_two().max(LEAST_SLOTS),
        GroupTable::Wide => capacity,
        _ => most,
    };
    let members = part_of(groups.distinct_slots / 2, factor);
    GroupLayout {
        cells,
        own_slots: None,
        distinct_slots: (2 * members).next_power_of_two().max(LEAST_SLOTS),
        rows: RowsLayout { capacity, reserves: false, ..groups.rows.clone() },
        partition: Some(partition(total, (most, capacity), groups.rows.capacity, forced)),
        ..groups.clone()
    }
}

/// Number of parts of capacity `room` that probably suffice for `expected` rows; parts vary in size.
pub fn parts_for(expected: u64, room: u64) -> u64 {
    if room >= expected { 1 } else { (expected as f64 * 1.02 / room.max(1) as f64).ceil() as u64 }
}

fn partition(total: u64, (most, room): (u64, u64), expected: u64, forced: u64) -> Partition {
    let by_rows = parts_for(expected, room);
    let parts = total.div_ceil(most).max(by_rows).max(forced).clamp(1, total.max(1));
    Partition { total, most, parts, room }
}

/// Pipelines that feed, read and probe the sinks of a program.
pub struct Structure<'a> {
    /// The program.
    pub program: &'a Program,
    /// Layouts of its sinks.
    pub layouts: &'a [SinkLayout],
    /// Processors of its pipelines.
    pub places: &'a [Place],
}

impl Structure<'_> {
    fn pipelines(&self) -> impl Iterator<Item = (usize, &Pipeline)> {
        self.program.pipelines.iter().enumerate()
    }

    fn on_device(&self, pipeline: usize) -> bool {
        self.places[pipeline] == Place::Device
    }

    /// The pipelines that feed sink `id`, in order.
    pub fn feeding(&self, id: SinkId) -> impl Iterator<Item = usize> {
        self.pipelines().filter(move |(_, pipeline)| pipeline.sink == id).map(|(index, _)| index)
    }

    /// The pipelines that read or probe sink `id`, in order.
    pub fn using(&self, id: SinkId) -> impl Iterator<Item = usize> {
        (0..self.program.pipelines.len()).filter(move |&pipeline| self.uses(pipeline).contains(&id))
    }

    /// The sinks that a pipeline reads or probes.
    pub fn uses(&self, pipeline: usize) -> Vec<SinkId> {
        let pipeline = &self.program.pipelines[pipeline];
        let read = match &pipeline.source {
            Source::Rows { sink, .. } | Source::Build { sink, .. } => Some(*sink),
            _ => None,
        };
        let mut uses: Vec<SinkId> = probes(pipeline).map(|(_, probe)| probe.build).chain(read).collect();
        uses.sort_unstable();
        uses.dedup();
        uses
    }

    /// Whether external rows reach sink `id`, directly or through others: the next run may have other rows.
    pub fn depends_on_input(&self, id: SinkId) -> bool {
        self.feeding(id).any(|index| {
            let comes_from_outside = matches!(self.program.pipelines[index].source, Source::Input { .. });
            // Sinks that a pipeline uses precede its own.
            comes_from_outside || self.uses(index).into_iter().any(|used| self.depends_on_input(used))
        })
    }

    /// Whether rows of sink `id` are flagged when they find a partner: then all pipelines that use it must see the same part.
    pub fn is_flagged(&self, id: SinkId) -> bool {
        matches!(&self.layouts[id], SinkLayout::Build(build) if build.track_matches)
    }

    /// Whether a pipeline flags rows of hash builds that find a partner.
    pub fn sets_flags(&self, pipeline: usize) -> bool {
        probes(&self.program.pipelines[pipeline]).any(|(_, probe)| sets_flags(probe))
    }

    /// Whether some probe of build `id` asks whether it has any row, or any NULL, in any part.
    pub fn asks_for_nulls(&self, id: SinkId) -> bool {
        self.probes_of(id).any(|probe| probe.null_aware)
    }

    fn probes_of(&self, id: SinkId) -> impl Iterator<Item = &Probe> {
        let all = self.program.pipelines.iter().flat_map(probes);
        all.map(|(_, probe)| probe).filter(move |probe| probe.build == id)
    }

    /// Sinks that can be reduced.
    fn shrinking(&self) -> Vec<SinkId> {
        let mut taken = HashSet::new();
        let mut shrinking = vec![];
        for id in 0..self.layouts.len() {
            let possible = match &self.layouts[id] {
                SinkLayout::Build(build) => self.can_be_parts(id) && self.build_can_be_parts(id, build, &mut taken),
                SinkLayout::Groups(groups) => {
                    matches!(groups.table, GroupTable::Dense | GroupTable::Hash | GroupTable::Wide)
                        && self.can_be_parts(id)
                }
                SinkLayout::Rows(rows) => self.can_flush(id, rows),
            };
            if possible {
                shrinking.push(id);
            }
        }
        shrinking
    }

    /// Whether the pipelines that feed and read sink `id` can be run once per part.
    fn can_be_parts(&self, id: SinkId) -> bool {
        let used = self.using(id).next().is_some();
        // A repeated run with a limit would keep other rows.
        let limits = |index: usize| has_limit(&self.program.pipelines[index]);
        let limited = |index: usize| {
            let pipeline = &self.program.pipelines[index];
            let limit = pipeline.operators.iter().position(|operator| matches!(operator, Operator::Limit { .. }));
            limit.is_some_and(|limit| probes(pipeline).any(|(at, probe)| probe.build == id && at > limit))
        };
        used && !self.using(id).any(limited)
            && self.using(id).all(|index| self.on_device(index))
            && self.feeding(id).all(|index| self.on_device(index) && !limits(index))
    }

    /// Whether build `id` can be built in parts. `taken` are the pipelines that are bound to the parts of another build with flags.
    fn build_can_be_parts(&self, id: SinkId, build: &BuildLayout, taken: &mut HashSet<usize>) -> bool {
        // The number of string words to sort by is learnt from all rows.
        let sorts_text = build.order.as_ref().is_some_and(|order| order.is_text());
        if build.table == Table::All || sorts_text || self.probes_of(id).any(compares_unknown) {
            return false;
        }
        if !build.track_matches {
            return true;
        }
        let using: Vec<usize> = self.using(id).collect();
        // Pipelines that only set flags have unread sinks.
        let sinks = using.iter().map(|&index| self.program.pipelines[index].sink);
        let mut read = sinks.filter(|&sink| sink + 1 == self.layouts.len() || self.using(sink).next().is_some());
        let first = read.next();
        let possible = read.all(|sink| Some(sink) == first) && !using.iter().any(|index| taken.contains(index));
        if possible {
            taken.extend(using);
        }
        possible
    }

    /// Whether the rows of sink `id` can be flushed to the host before all of them are there.
    fn can_flush(&self, id: SinkId, rows: &RowsLayout) -> bool {
        let last = id + 1 == self.layouts.len();
        let for_host = last || matches!(self.program.sinks[id], Sink::Sort { .. });
        let ordered = |index: usize| order::reads_sorted(self.program, self.layouts, &self.program.pipelines[index]);
        let any_order = |index: usize| !has_limit(&self.program.pipelines[index]) && !ordered(index);
        for_host
            && rows.top.is_none()
            && rows.sorted.is_none()
            && rows.window.is_none()
            && rows.grouped.is_none()
            && self.using(id).all(|index| !self.on_device(index))
            && self.feeding(id).all(|index| !self.on_device(index) || any_order(index))
            && self.feeding(id).any(|index| self.on_device(index))
    }
}
