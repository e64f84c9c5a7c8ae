//! The memory that a program allocates in the processing region, in which order, and what of it the host reads.
//!
//! The order makes work for few calls: constants and states are one copy to the device; the arrays of small results lie behind the
//! states, so that both are one copy back; arrays that are filled with the same byte lie side by side.

use warpmill_ir::{Program, Sink};

use super::cpp::CType;
use super::hints::{Hints, Limits};
use super::kernel::Kernel;
use super::layout::SinkLayout;
use super::program::{Lowered, Place};
use super::storage::FlatColumn;

use super::buffers::{self, Buffer};
use super::shares::{host_text_of_sink, text_of_sink};
use crate::memory::regions::aligned;

/// Bytes of a `QueryState` and of a `SinkState` (kernels/value.cuh, kernels/table.cuh).
pub const QUERY_STATE: u64 = 32;
/// See [`QUERY_STATE`].
pub const SINK_STATE: u64 = 40;

/// `SinkState`s of a sink, each of which stands with those of the other sinks: as in [`Stage`].
pub const STATES: u64 = 3;

/// Bytes of rows that come to the host together with the states.
const FIRST_BYTES: u64 = 64 << 10;

/// A result of more arrays, not all of which fit into [`FIRST_BYTES`], comes alone: so many copies take longer than another round trip.
const FIRST_ARRAYS: usize = 8;

/// Bytes of strings made by kernels that come with the states.
const FIRST_TEXT: u64 = 16 << 10;

/// Bytes for strings that kernels make, until a run teaches better; less where tables may not have much either.
const ARENA: u64 = 16 << 20;
const LEAST_ARENA: u64 = 4 << 10;

/// The rows of a sink that a `SinkState` is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// All that arrived.
    Own,
    /// Those that may be among the first of a sort order.
    First,
    /// The rows that the device has put into order.
    Sorted,
}

/// Rows that the host goes on with.
#[derive(Debug)]
pub struct ResultRows {
    /// The pipeline after which they are complete.
    pub pipeline: usize,
    /// Their sink.
    pub sink: usize,
    /// Its rows that are meant.
    pub stage: Stage,
    /// Their columns.
    pub columns: Vec<FlatColumn>,
    /// The buffers of each column's values and validity, by position.
    pub arrays: Vec<(usize, Option<usize>)>,
    /// The number of rows that come to the host together with the states.
    pub first_rows: u64,
}

impl ResultRows {
    /// Each array: its buffer and the bytes of a row.
    pub fn parts(&self) -> impl Iterator<Item = (usize, u64)> {
        let columns = self.columns.iter().zip(&self.arrays);
        columns.flat_map(|(column, &(data, valid))| {
            [Some((data, column.storage.size() as u64)), valid.map(|valid| (valid, 1))].into_iter().flatten()
        })
    }

    /// Bytes of `rows` rows.
    pub fn bytes(&self, rows: u64) -> u64 {
        rows * self.columns.iter().map(|column| column.row_bytes() as u64).sum::<u64>()
    }

    /// Whether a column has strings.
    pub fn has_strings(&self) -> bool {
        self.columns.iter().any(|column| column.ty == CType::Str)
    }
}

/// Memory of a run.
#[derive(Debug, Default)]
pub struct MemoryPlan {
    /// The first allocation: constants, then states.
    pub block_bytes: u64,
    /// The place in it where the states are.
    pub states_at: u64,
    /// Bytes of all states.
    pub states_bytes: u64,
    /// Bytes of the states that the host reads.
    pub read_bytes: u64,
    /// The allocations that follow, in their order.
    pub buffers: Vec<Buffer>,
    /// Bytes for strings that kernels make; 0: they make none. The last allocation.
    pub arena: u64,
    /// Bytes of those strings that come to the host together with the states.
    pub first_text: u64,
    /// Sinks with strings of their own, which go with their parts, and bytes for them; those that others read come first.
    pub texts: Vec<(usize, u64)>,
    /// Bytes of those that others read.
    pub read_texts: u64,
    /// Hash builds whose strings are in page-locked memory of the host, and bytes for them.
    pub host_texts: Vec<(usize, u64)>,
    /// The rows that the host reads.
    pub results: Vec<ResultRows>,
    /// Bytes of the processing region that all of it takes.
    pub bytes: u64,
    /// Bytes of host memory for what comes with the states.
    pub host_bytes: u64,
}

/// Bytes for strings that kernels make, at first.
pub fn first_arena(limits: Limits) -> u64 {
    ARENA.min(limits.table_bytes / 4).max(LEAST_ARENA)
}

impl MemoryPlan {
    /// For a lowered program with so many bytes of constants.
    pub fn new(
        program: &Program,
        layouts: &[SinkLayout],
        lowered: &Lowered,
        (hints, limits): (&Hints, Limits),
        constants: u64,
    ) -> Self {
        let (sinks, pipelines) = (program.sinks.len() as u64, program.pipelines.len() as u64);
        let mut plan = Self {
            states_at: if constants == 0 { 0 } else { aligned(constants) },
            states_bytes: QUERY_STATE + SINK_STATE * (STATES * sinks + pipelines),
            read_bytes: QUERY_STATE + SINK_STATE * STATES * sinks,
            buffers: buffers::of_sinks(layouts),
            results: results(program, layouts, lowered),
            ..Self::default()
        };
        plan.block_bytes = plan.states_at + plan.states_bytes;
        if lowered.kernels.iter().any(|kernel| kernel.text.contains("QueryState")) {
            let first = first_arena(limits);
            plan.arena = hints.capacity.get(&usize::MAX).copied().unwrap_or(first);
            plan.place_texts(program, layouts, lowered, hints);
        }
        plan.order_buffers();
        plan.place_results();
        let arena = if plan.arena > 0 { aligned(plan.arena) } else { 0 };
        let texts: u64 = plan.texts.iter().map(|(_, bytes)| bytes).sum();
        plan.bytes = aligned(plan.block_bytes) + plan.sinks() + arena + texts;
        plan
    }

    /// Gives the sinks that are made in parts, and those that are flushed, strings of their own.
    fn place_texts(&mut self, program: &Program, layouts: &[SinkLayout], lowered: &Lowered, hints: &Hints) {
        let flushes = |layout: &SinkLayout| matches!(layout, SinkLayout::Rows(rows) if rows.flushes);
        for (kind, (id, layout)) in
            [false, true].into_iter().flat_map(|kind| layouts.iter().enumerate().map(move |sink| (kind, sink)))
        {
            let own = if kind { flushes(layout) } else { layout.partition().is_some() };
            let makes =
                |kernel: &Kernel| program.pipelines[kernel.pipeline].sink == id && kernel.text.contains("QueryState");
            if own && lowered.kernels.iter().any(makes) {
                let bytes = text_of_sink(id, layout, hints);
                self.texts.push((id, bytes));
                self.read_texts += if kind { 0 } else { bytes };
            }
        }
        for (id, layout) in layouts.iter().enumerate() {
            let bytes = host_text_of_sink(id, layout, hints);
            self.host_texts.extend((bytes > 0).then_some((id, bytes)));
        }
        let own = self.texts.len() + self.host_texts.len();
        self.states_bytes += QUERY_STATE * own as u64;
        self.block_bytes = self.states_at + self.states_bytes;
        if own > 0 {
            self.read_bytes = self.states_bytes;
        }
    }

    /// The place among the states where that of the strings of sink `id` is, if it has some of its own.
    pub fn text_state(&self, id: usize) -> Option<u64> {
        let number = self.texts.iter().position(|(other, _)| *other == id)?;
        Some(self.states_bytes - QUERY_STATE * (self.texts.len() + self.host_texts.len() - number) as u64)
    }

    /// The place among the states where that of the strings of build `id` is which are on the host, if there are some.
    pub fn host_text_state(&self, id: usize) -> Option<u64> {
        let number = self.host_texts.iter().position(|(other, _)| *other == id)?;
        Some(self.states_bytes - QUERY_STATE * (self.host_texts.len() - number) as u64)
    }

    /// Bytes for strings in page-locked memory of the host.
    pub fn host_text_bytes(&self) -> u64 {
        self.host_texts.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The bytes that the buffers of sinks take of that.
    pub fn sinks(&self) -> u64 {
        self.buffers.iter().filter(|buffer| !buffer.on_host).map(|buffer| aligned(buffer.bytes)).sum()
    }

    /// The bytes that they take of page-locked memory that kernels reach over the link.
    pub fn on_host(&self) -> u64 {
        buffers::host_bytes(&self.buffers) + self.host_text_bytes()
    }

    /// The arrays of results first, then those that are filled, byte by byte.
    fn order_buffers(&mut self) {
        let names: Vec<String> = self.results.iter().flat_map(ResultRows::names).collect();
        self.buffers.sort_by_key(|buffer| {
            let result = names.iter().position(|name| *name == buffer.name);
            (result.unwrap_or(usize::MAX), buffer.fill.is_none(), buffer.fill)
        });
        let position = |name: &str| self.buffers.iter().position(|buffer| buffer.name == name);
        for result in &mut self.results {
            let arrays = result.columns.iter().map(|column| {
                let data = position(&column.buffer).expect("a column of rows has a buffer");
                (data, column.nullable.then(|| position(&column.valid_buffer())).flatten())
            });
            result.arrays = arrays.collect();
        }
    }

    /// The number of rows that come with the states, and the host memory for them.
    fn place_results(&mut self) {
        self.host_bytes = aligned(self.read_bytes);
        let strings = self.results.iter().any(ResultRows::has_strings);
        self.first_text = if strings { self.arena.min(FIRST_TEXT) } else { 0 };
        self.host_bytes += self.first_text;
        for result in &mut self.results {
            let capacity = result.parts().next().map_or(0, |(buffer, size)| self.buffers[buffer].bytes / size);
            let room = FIRST_BYTES / result.bytes(1).max(1);
            let many = capacity > room && result.parts().count() > FIRST_ARRAYS;
            result.first_rows = if many { 0 } else { capacity.min(room) };
            self.host_bytes += result.parts().map(|(_, size)| aligned(size * result.first_rows)).sum::<u64>();
        }
    }
}

impl ResultRows {
    fn names(&self) -> Vec<String> {
        let names = self.columns.iter().flat_map(|column| {
            [Some(column.buffer.clone()), column.nullable.then(|| column.valid_buffer())].into_iter().flatten()
        });
        names.collect()
    }
}

/// The rows that the host goes on with: those that it sorts, and those of the last sink.
fn results(program: &Program, layouts: &[SinkLayout], lowered: &Lowered) -> Vec<ResultRows> {
    let last = program.sinks.len() - 1;
    let on_device = |pipeline: usize| lowered.places[pipeline] == Place::Device;
    let mut results = vec![];
    for (index, pipeline) in program.pipelines.iter().enumerate() {
        let sink = pipeline.sink;
        let more =
            (index + 1..program.pipelines.len()).any(|other| on_device(other) && program.pipelines[other].sink == sink);
        let wanted = sink == last || matches!(program.sinks[sink], Sink::Sort { .. });
        let SinkLayout::Rows(layout) = &layouts[sink] else { continue };
        let (rows, stage) = match (&layout.sorted, &layout.top) {
            (Some(sorted), _) => (&sorted.rows, Stage::Sorted),
            (None, Some(top)) => (&top.rows, Stage::First),
            (None, None) => (layout, Stage::Own),
        };
        // Other pipelines of the device go on with what it has sorted.
        if !on_device(index) || more || !wanted || (stage == Stage::Sorted && sink != last) {
            continue;
        }
        let columns = rows.columns.clone();
        results.push(ResultRows { pipeline: index, sink, stage, columns, arrays: vec![], first_rows: 0 });
    }
    results
}
