//! The allocations of a program in the processing region, their order, and the results that the host reads.
//!
//! The order minimizes calls: constants and states are one copy to the device; arrays of small results follow the states, so that both are one copy
//! back; arrays with the same fill are adjacent.

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

/// Number of `SinkState`s per sink, as in [`Stage`]; those of one stage are adjacent for all sinks.
pub const STATES: u64 = 3;

/// Largest number of bytes of result rows that are copied together with the states.
const FIRST_BYTES: u64 = 64 << 10;

/// A result with more arrays than this that does not fit [`FIRST_BYTES`] is copied separately: this many copies take longer than a round trip.
const FIRST_ARRAYS: usize = 8;

/// Largest number of bytes of kernel-made strings that are copied together with the states.
const FIRST_TEXT: u64 = 16 << 10;

/// Initial bytes for strings that kernels make; less if tables are limited as well.
const ARENA: u64 = 16 << 20;
const LEAST_ARENA: u64 = 4 << 10;

/// The rows of a sink that a `SinkState` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// All rows that arrived.
    Own,
    /// Rows that may be among the first of a sort order.
    First,
    /// Rows in sort order.
    Sorted,
}

/// Result rows that the host continues with.
#[derive(Debug)]
pub struct ResultRows {
    /// The pipeline after which they are complete.
    pub pipeline: usize,
    /// Their sink.
    pub sink: usize,
    /// The rows of the sink.
    pub stage: Stage,
    /// Columns of the rows.
    pub columns: Vec<FlatColumn>,
    /// The buffers of each column's values and validity, by position.
    pub arrays: Vec<(usize, Option<usize>)>,
    /// Number of rows that are copied together with the states.
    pub first_rows: u64,
}

impl ResultRows {
    /// Each array: buffer index, and bytes per row.
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
    /// Bytes of the first allocation: constants, then states.
    pub block_bytes: u64,
    /// Offset of the states.
    pub states_at: u64,
    /// Bytes of all states.
    pub states_bytes: u64,
    /// Bytes of the states that the host reads.
    pub read_bytes: u64,
    /// The following allocations, in order.
    pub buffers: Vec<Buffer>,
    /// Bytes for strings that kernels make; 0: none. The last allocation.
    pub arena: u64,
    /// Bytes of these strings that are copied together with the states.
    pub first_text: u64,
    /// Sinks with their own string memory, which is reset with each part, and its bytes; sinks that other pipelines read come first.
    pub texts: Vec<(usize, u64)>,
    /// Bytes of string memory of sinks that other pipelines read.
    pub read_texts: u64,
    /// Hash builds with strings in page-locked host memory, and the bytes.
    pub host_texts: Vec<(usize, u64)>,
    /// The rows that the host reads.
    pub results: Vec<ResultRows>,
    /// Bytes of the processing region in total.
    pub bytes: u64,
    /// Bytes of host memory for copies together with the states.
    pub host_bytes: u64,
}

/// Initial bytes for strings that kernels make.
pub fn first_arena(limits: Limits) -> u64 {
    ARENA.min(limits.table_bytes / 4).max(LEAST_ARENA)
}

impl MemoryPlan {
    /// The plan of a lowered program with `constants` bytes of constants.
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

    /// Gives sinks in parts, and sinks that flush, their own string memory.
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

    /// Offset within the states of the string state of sink `id`, if it has its own string memory.
    pub fn text_state(&self, id: usize) -> Option<u64> {
        let number = self.texts.iter().position(|(other, _)| *other == id)?;
        Some(self.states_bytes - QUERY_STATE * (self.texts.len() + self.host_texts.len() - number) as u64)
    }

    /// Offset within the states of the state of build `id`'s strings in host memory, if there are any.
    pub fn host_text_state(&self, id: usize) -> Option<u64> {
        let number = self.host_texts.iter().position(|(other, _)| *other == id)?;
        Some(self.states_bytes - QUERY_STATE * (self.host_texts.len() - number) as u64)
    }

    /// Bytes for strings in page-locked memory of the host.
    pub fn host_text_bytes(&self) -> u64 {
        self.host_texts.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Bytes of a region for the buffers of all sinks.
    pub fn sinks(&self) -> u64 {
        self.buffers.iter().filter(|buffer| !buffer.on_host).map(|buffer| aligned(buffer.bytes)).sum()
    }

    /// Bytes of page-locked host memory that kernels access over the link.
    pub fn on_host(&self) -> u64 {
        buffers::host_bytes(&self.buffers) + self.host_text_bytes()
    }

    /// Orders buffers: arrays of results, then buffers with a fill, by its value, then the others.
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

    /// Determines the number of rows that are copied with the states, and the host memory for them.
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

/// The result rows that the host continues with: rows that it sorts, and rows of the last sink.
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
        // Device pipelines read what the device has sorted.
        if !on_device(index) || more || !wanted || (stage == Stage::Sorted && sink != last) {
            continue;
        }
        let columns = rows.columns.clone();
        results.push(ResultRows { pipeline: index, sink, stage, columns, arrays: vec![], first_rows: 0 });
    }
    results
}
