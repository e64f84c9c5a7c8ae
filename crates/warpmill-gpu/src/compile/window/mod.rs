//! Window functions on the device. Appended rows are not moved. Their row numbers are sorted by the partition and order keys ([`super::sort`]); in
//! that order, positions that begin a partition or a group of peers are found and numbered, and arguments are copied into series, which are scanned
//! (`kernels/window.cuh`). One kernel then computes all functions, position by position, and writes their values to the rows.
//!
//! Frames are ranges of positions. Sums of integers and counts are exact differences of prefix sums. Sums of floats, and extremes, over frames that
//! begin with the partition are prefix sums within the partition; over other frames they are combined from sums of 16, 256, ... values, so that no
//! thread iterates over its frame.

mod call;
mod place;
mod plan;

use warpmill_ir::{Sink, SinkId};

use super::build;
use super::cpp::{CType, Value};
use super::generator::{Generator, Result, widened};
use super::kernel::{Kernel, Work, kernel, state_count};
use super::layout::{Accumulator, ImageKind, RowsLayout, Series, Sorted, Way, Windowed};
use super::params::Binding;
use super::scan_shape::BLOCK;
use super::sort::Sorting;
use super::source;
use super::storage::FlatColumn;
use crate::kernels::library::Library;
use place::Places;
use plan::FAN;

/// Rows of a tile, and threads of the kernels (kernels/window.cuh).
const TILE: u64 = 2048;
const TILE_THREADS: u32 = 256;
const TOTALS_THREADS: u32 = 1024;

impl Series {
    /// The C++ monoid of its values, their type, and bytes.
    fn monoid(&self) -> (&'static str, &'static str, u64) {
        match self.accumulator {
            Accumulator::Count => ("CountSum", "u32", 4),
            Accumulator::SumI64 => ("WordSum", "u64", 8),
            Accumulator::SumI128 => ("WideSum", "u128", 16),
            Accumulator::SumWide => ("LongSum", "Long", 24),
            Accumulator::SumF64 => ("FloatSum", "double", 8),
            Accumulator::MinWide | Accumulator::MaxWide => ("GreatestWide", "u128", 16),
            _ => ("Greatest", "u64", 8),
        }
    }

    /// A C++ expression for the value of a row, for a non-NULL operand `x`.
    fn value(&self, x: &Value) -> String {
        let Value { text: x, ty, .. } = x;
        if let Way::Search { descending } = self.way {
            return code(*ty, x, descending);
        }
        match self.accumulator {
            Accumulator::Count => "1u".into(),
            Accumulator::SumI64 => format!("(u64)(i64){x}"),
            Accumulator::SumI128 => format!("(u128)(i128){x}"),
            Accumulator::SumWide => format!("long_of((i128){x})"),
            Accumulator::SumF64 => format!("(double){x}"),
            Accumulator::Min => format!("~order_bits({x})"),
            Accumulator::MinWide => format!("~order_bits_wide({x})"),
            Accumulator::MaxWide => format!("order_bits_wide({x})"),
            _ => format!("order_bits({x})"),
        }
    }
}

/// A C++ expression for a number in the order of a key's value `x`.
fn code(ty: CType, x: &str, descending: bool) -> String {
    let not = if descending { "~" } else { "" };
    match ty {
        CType::F32 | CType::F64 => format!("{not}(u128)order_bits({x})"),
        _ => format!("{not}order_bits_wide((i128){x})"),
    }
}

impl Windowed {
    /// The buffers besides its operands: names, bytes, and whether they are zero initially.
    pub fn buffers(&self) -> Vec<(String, u64, bool)> {
        let tiles = self.capacity.div_ceil(TILE);
        let mut buffers = self.sorted.as_ref().map_or(vec![], Sorted::buffers);
        let mut add = |what: &str, bytes: u64| buffers.push((self.name(what), bytes, false));
        if self.has_heads() {
            add("heads", self.capacity);
        }
        if self.has_numbers() {
            add("totals", 8 * tiles);
        }
        for (what, wanted) in [("partitions", self.has_partitions), ("groups", self.has_groups)] {
            if wanted {
                add(what, 4 * self.capacity);
                add(&format!("{what}.starts"), 4 * (self.capacity + 1));
            }
        }
        for (number, series) in self.series.iter().enumerate() {
            let (_, _, bytes) = series.monoid();
            add(&format!("series{number}"), bytes * self.capacity);
            match series.way {
                Way::Differences => add(&format!("totals{number}"), bytes * tiles),
                // Value and head flag, aligned like the value.
                Way::Running => add(&format!("totals{number}"), 2 * bytes.max(8) * tiles),
                Way::Tree(levels) => add(&format!("tree{number}"), bytes * self.levels(levels).iter().sum::<u64>()),
                Way::Search { .. } => {}
            }
        }
        self.listed.iter().for_each(|operand| add(&format!("listed{operand}"), 4 * self.capacity));
        buffers
    }

    /// Capacity of each of `levels` levels.
    fn levels(&self, levels: u32) -> Vec<u64> {
        let above = |below: &u64| Some(below.div_ceil(FAN));
        std::iter::successors(Some(self.capacity.div_ceil(FAN)), above).take(levels as usize).collect()
    }

    /// The partition number of each position, if there are keys.
    pub fn partition_numbers(&self) -> Option<Binding> {
        self.has_partitions.then(|| self.named("partitions"))
    }

    /// The first position of each partition, followed by the number of rows, if there are keys.
    pub fn partition_starts(&self) -> Option<Binding> {
        self.has_partitions.then(|| self.named("partitions.starts"))
    }

    fn name(&self, what: &str) -> String {
        format!("{}.{what}", self.owner)
    }

    fn named(&self, what: &str) -> Binding {
        Binding::Named(self.name(what))
    }

    fn has_numbers(&self) -> bool {
        self.has_partitions || self.has_groups
    }

    fn has_heads(&self) -> bool {
        self.has_numbers() || self.series.iter().any(|series| series.way == Way::Running)
    }

    /// The columns of all operands.
    fn columns(&self) -> Vec<FlatColumn> {
        self.operands.iter().map(|operand| operand.column.clone()).collect()
    }
}

/// Appends the active rows, with the operands that are not output columns, each at position `rank` if given.
pub fn append(g: &mut Generator, id: SinkId, layout: &RowsLayout, sink: &Sink, rank: Option<&str>) -> Result<()> {
    let Sink::Window { payload, fields, .. } = sink else { unreachable!("called for windows") };
    let scope = g.scope();
    let (mut columns, mut values) = (vec![], vec![]);
    for ((&from, field), column) in payload.iter().zip(fields).zip(&layout.columns) {
        let value = g.column(scope, from)?;
        values.push(widened(&mut g.code, value, field.ty.phys));
        columns.push(column.clone());
    }
    let operands = layout.window.iter().flat_map(|window| &window.operands);
    for operand in operands.filter(|operand| operand.own) {
        let value = g.eval(&operand.expr)?;
        values.push(widened(&mut g.code, value, operand.expr.ty.phys));
        columns.push(operand.column.clone());
    }
    let at = build::append(g, id);
    let rows = RowsLayout { columns, capacity: layout.capacity, ..RowsLayout::default() };
    build::append_at(g, &rows, &values, rank.unwrap_or(&at));
    Ok(())
}

/// The kernels that find the partitions of the rows of sink `id` after all have arrived, and the side with the ordered row numbers.
pub fn partitions(
    id: SinkId,
    window: &Windowed,
    (layout, sink): (&RowsLayout, &Sink),
    pipeline: usize,
) -> Result<(Vec<Kernel>, u32)> {
    let columns = window.columns();
    let functions = Functions { id, window, layout, sink, columns: &columns, pipeline };
    let (mut kernels, mut side) = (vec![], 0);
    if let Some(sorting) = functions.sorting() {
        (kernels, side) = sorting.order()?;
    }
    if window.has_heads() {
        kernels.push(functions.heads(side)?);
    }
    if window.has_numbers() {
        kernels.extend(functions.numbers());
    }
    Ok((kernels, side))
}

/// The kernels that compute the functions of sink `id` after all rows have arrived.
pub fn kernels(id: SinkId, layout: &RowsLayout, sink: &Sink, pipeline: usize) -> Result<Vec<Kernel>> {
    let (Some(window), Sink::Window { calls, .. }) = (&layout.window, sink) else { return Ok(vec![]) };
    if calls.is_empty() {
        return Ok(vec![]);
    }
    let (mut kernels, side) = partitions(id, window, (layout, sink), pipeline)?;
    let columns = window.columns();
    let functions = Functions { id, window, layout, sink, columns: &columns, pipeline };
    for operand in 0..window.operands.len() {
        kernels.extend(functions.values(operand, side)?);
    }
    for number in 0..window.series.len() {
        kernels.extend(functions.scanned(number));
    }
    for &operand in &window.listed {
        kernels.push(functions.list(operand)?);
    }
    kernels.push(functions.results(side)?);
    Ok(kernels)
}

/// Generation of a window's kernels.
struct Functions<'a> {
    id: SinkId,
    window: &'a Windowed,
    layout: &'a RowsLayout,
    sink: &'a Sink,
    /// The columns of the operands.
    columns: &'a [FlatColumn],
    pipeline: usize,
}

impl Functions<'_> {
    fn input(&self) -> String {
        format!("sink{}.state", self.id)
    }

    fn sorting(&self) -> Option<Sorting<'_>> {
        let Windowed { sorted, keys, capacity, .. } = self.window;
        let (id, pipeline) = (self.id, self.pipeline);
        let (columns, has_words, capacity, input) = (self.columns, false, *capacity, self.input());
        sorted.as_ref().map(|sorted| Sorting { id, sorted, keys, columns, has_words, capacity, input, pipeline })
    }

    fn finish(&self, mut g: Generator, entry: String, threads: u32, work: Work, what: &str) -> Kernel {
        g.params.require(Library::Window);
        g.code.close_to(1);
        kernel(g, entry, threads, work, self.pipeline, format!("pipeline {}: window: {what}", self.pipeline))
    }

    /// Completes a kernel over positions.
    fn by_position(&self, g: Generator, entry: &str, what: &str) -> Kernel {
        self.finish(g, format!("{entry}_{}", self.id), BLOCK, Work::Rows(self.window.capacity), what)
    }

    /// Completes a kernel with one block per tile.
    fn by_tile(&self, g: Generator, entry: &str, what: &str) -> Kernel {
        self.finish(g, entry.into(), TILE_THREADS, Work::Blocks(self.window.capacity.div_ceil(TILE)), what)
    }

    /// An operand for the number of rows.
    fn rows(&self, g: &mut Generator) -> String {
        state_count(g, &self.input(), self.window.capacity)
    }

    /// Opens the loop over positions; `row` is the thread's position.
    fn each_position(&self, g: &mut Generator) {
        g.code.line("const u32 lane = threadIdx.x & 31;");
        let count = self.rows(g);
        source::flat(g, &count);
    }

    /// Like [`Functions::each_position`]; returns operands for the row at the thread's position, and for the ordered row numbers, if rows are not
    /// stored in order.
    fn positions(&self, g: &mut Generator, side: u32) -> (String, Option<String>) {
        let order = self.sorting().map(|sorting| g.params.pointer("u32", "order", sorting.numbers(side)));
        self.each_position(g);
        let from = order.as_ref().map_or("(u32)row".into(), |order| format!("present ? {order}[row] : 0u"));
        (g.code.define(CType::U32, "from", from), order)
    }

    /// Marks the positions that begin a partition or a group of peers.
    fn heads(&self, side: u32) -> Result<Kernel> {
        let mut g = Generator::new();
        let heads = g.params.output("u8", "heads", self.window.named("heads"));
        let both = "PARTITION_HEAD | GROUP_HEAD";
        match (self.sorting(), self.order_bits()) {
            (Some(sorting), Some(bits)) => {
                let words = g.params.pointer("u64", "words", sorting.sorted_words(side));
                let bits = g.params.value(CType::U32, "bits", bits.to_le_bytes().to_vec());
                self.each_position(&mut g);
                g.code.line(format!("const u64 differs = present && row > 0 ? {words}[row] ^ {words}[row - 1] : 0;"));
                let other = if self.window.partition > 0 { format!("differs >> {bits}") } else { "false".into() };
                let head = format!("row == 0 || {other} ? {both} : differs ? GROUP_HEAD : 0");
                g.code.line(format!("if (present) {heads}[row] = {head};"));
            }
            _ => self.heads_by_value(&mut g, &heads, both, side)?,
        }
        g.params.require(Library::Table);
        Ok(self.by_position(g, "window_heads", "partitions and peers"))
    }

    /// Number of bits below the partition keys in the single sort word; `None`: words do not distinguish rows, or there are several.
    fn order_bits(&self) -> Option<u32> {
        let sorted = self.window.sorted.as_ref()?;
        let [word] = sorted.words.as_slice() else { return None };
        let is_text = word.images.iter().any(|image| matches!(image.kind, ImageKind::Text { .. } | ImageKind::Length));
        let below = word.images.iter().filter(|image| image.key >= self.window.partition);
        let bits: u32 = below.map(|image| image.bits).sum();
        // With 64 bits there is no partition key, so the shift is unused.
        (!is_text).then_some(bits.min(63))
    }

    fn heads_by_value(&self, g: &mut Generator, heads: &str, both: &str, side: u32) -> Result<()> {
        let (from, order) = self.positions(g, side);
        g.code.line(format!("if (present && row == 0) {heads}[0] = {both};"));
        g.filter("row > 0");
        let active = g.active.clone();
        let Some(order) = order else {
            g.code.line(format!("if ({active}) {heads}[row] = 0;"));
            return Ok(());
        };
        let before = g.code.define(CType::U32, "before", format!("{active} ? {order}[row - 1] : 0u"));
        let mut sides = vec![];
        for row in [before, from] {
            let loads = g.flat_loads(self.columns, &row, None);
            g.push_loads(loads);
            sides.push(g.eval_all(&self.window.keys.iter().map(|key| key.expr.clone()).collect::<Vec<_>>())?);
        }
        let same = g.code.variable(CType::Bool, "same", "true");
        let mut partition = "true".to_string();
        for (key, (a, b)) in sides[0].iter().zip(&sides[1]).enumerate() {
            if key == self.window.partition {
                partition = g.code.define(CType::Bool, "partition", &same);
            }
            let (there, other) = (a.valid_text(), b.valid_text());
            let alike = format!("{there} == {other} && (!{there} || same_value({}, {}))", a.text, b.text);
            g.code.line(format!("{same} = {same} && ({alike});"));
        }
        if self.window.partition == self.window.keys.len() {
            partition = same.clone();
        }
        let head = format!("!{partition} ? {both} : !{same} ? GROUP_HEAD : 0");
        g.code.line(format!("if ({active}) {heads}[row] = {head};"));
        Ok(())
    }

    /// Numbers partitions and groups.
    fn numbers(&self) -> Vec<Kernel> {
        let window = self.window;
        let what = "numbers of partitions and peers";
        let mut g = Generator::new();
        let heads = g.params.pointer("u8", "heads", window.named("heads"));
        let totals = g.params.output("u64", "totals", window.named("totals"));
        let rows = self.rows(&mut g);
        g.code.line(format!("count_heads({heads}, {totals}, {rows});"));
        let count = self.by_tile(g, "window_count", what);
        let mut g = Generator::new();
        let heads = g.params.pointer("u8", "heads", window.named("heads"));
        let totals = g.params.pointer("u64", "totals", window.named("totals"));
        let mut numbers = |what: &str, wanted: bool| match wanted {
            true => {
                let of = g.params.output("u32", "of", window.named(what));
                let starts = g.params.output("u32", "starts", window.named(&format!("{what}.starts")));
                format!("Numbers{{{of}, {starts}}}")
            }
            false => "Numbers{nullptr, nullptr}".into(),
        };
        let partitions = numbers("partitions", window.has_partitions);
        let groups = numbers("groups", window.has_groups);
        let rows = self.rows(&mut g);
        let shape = format!("{}, {}", window.has_partitions, window.has_groups);
        g.code.line(format!("number_heads<{shape}>({heads}, {totals}, {partitions}, {groups}, {rows});"));
        vec![count, self.totals("WordSum", "u64", "totals", what), self.by_tile(g, "window_number", what)]
    }

    /// Turns totals of tiles into exclusive prefix sums.
    fn totals(&self, monoid: &str, element: &str, name: &str, what: &str) -> Kernel {
        let mut g = Generator::new();
        let totals = g.params.output(element, "totals", self.window.named(name));
        let rows = self.rows(&mut g);
        g.code.line(format!("scan_totals<{monoid}>({totals}, {rows});"));
        self.finish(g, "window_totals".into(), TOTALS_THREADS, Work::Blocks(1), what)
    }

    /// Copies an operand into its series.
    fn values(&self, operand: usize, side: u32) -> Result<Option<Kernel>> {
        let own: Vec<(usize, &Series)> =
            self.window.series.iter().enumerate().filter(|(_, series)| series.operand == operand).collect();
        if own.is_empty() {
            return Ok(None);
        }
        let mut g = Generator::new();
        let (from, _) = self.positions(&mut g, side);
        let loads = g.flat_loads(&self.columns[operand..=operand], &from, None);
        g.push_loads(loads);
        let scope = g.scope();
        let x = g.column(scope, 0)?;
        for (number, series) in own {
            let (monoid, ty, _) = series.monoid();
            let out = g.params.output(ty, "series", self.window.named(&format!("series{number}")));
            let value = format!("{} ? {} : {monoid}::zero()", x.valid_text(), series.value(&x));
            g.code.line(format!("if (present) {out}[row] = {value};"));
        }
        Ok(Some(self.by_position(g, &format!("window_values_{operand}"), "arguments in order")))
    }

    /// Prepares a series for sums of frames.
    fn scanned(&self, number: usize) -> Vec<Kernel> {
        let series = &self.window.series[number];
        let (monoid, ty, _) = series.monoid();
        let (name, totals) = (format!("series{number}"), format!("totals{number}"));
        let mut g = Generator::new();
        match series.way {
            Way::Differences => {
                let values = g.params.output(ty, "series", self.window.named(&name));
                let out = g.params.output(ty, "totals", self.window.named(&totals));
                let rows = self.rows(&mut g);
                g.code.line(format!("scan_series<{monoid}>({values}, {out}, {rows});"));
                let what = "sums from the first row on";
                vec![self.by_tile(g, "window_scan", what), self.totals(monoid, ty, &totals, what)]
            }
            Way::Running => {
                let since = format!("Since<{monoid}>");
                let element = format!("{since}::T");
                let values = g.params.output(ty, "series", self.window.named(&name));
                let heads = g.params.pointer("u8", "heads", self.window.named("heads"));
                let out = g.params.output(&element, "totals", self.window.named(&totals));
                let rows = self.rows(&mut g);
                g.code.line(format!("scan_partitions<{monoid}>({values}, {heads}, {out}, {rows});"));
                let what = "sums from a partition's first row on";
                vec![self.by_tile(g, "window_run", what), self.totals(&since, &element, &totals, what)]
            }
            Way::Tree(levels) => self.tree(number, levels),
            Way::Search { .. } => vec![],
        }
    }

    /// Lists the positions of an operand's non-NULL values.
    fn list(&self, operand: usize) -> Result<Kernel> {
        let mut g = Generator::new();
        let number = self.window.series(operand, Accumulator::Count, Way::Differences)?;
        let counts = g.params.pointer("u32", "counts", self.window.named(&format!("series{number}")));
        let totals = g.params.pointer("u32", "totals", self.window.named(&format!("totals{number}")));
        let listed = g.params.output("u32", "listed", self.window.named(&format!("listed{operand}")));
        self.each_position(&mut g);
        g.code.line(format!("const u32 before = present ? all_before<CountSum>({counts}, {totals}, row) : 0u;"));
        let there = format!("present && all_before<CountSum>({counts}, {totals}, row + 1) > before");
        g.code.line(format!("if ({there}) {listed}[before] = (u32)row;"));
        Ok(self.by_position(g, "window_list", "rows that are not NULL"))
    }

    /// Builds the levels of a tree.
    fn tree(&self, number: usize, levels: u32) -> Vec<Kernel> {
        let (monoid, ty, _) = self.window.series[number].monoid();
        let rooms = self.window.levels(levels);
        let mut kernels = vec![];
        // Start of the level below, start of the next level, and number of values per entry of the level below.
        let (mut below, mut at, mut each) = (0u64, 0u64, 1u64);
        for (level, room) in rooms.iter().enumerate() {
            let mut g = Generator::new();
            let base = if level == 0 { format!("series{number}") } else { format!("tree{number}") };
            let from = g.params.pointer(ty, "below", self.window.named(&base));
            let to = g.params.output(ty, "level", self.window.named(&format!("tree{number}")));
            let rows = self.rows(&mut g);
            let [below_at, to_at, stands] =
                [below, at, each].map(|n| g.params.value(CType::U64, "at", n.to_le_bytes().to_vec()));
            g.code.line(format!("const u64 rows = {rows};"));
            let count = format!("(rows + {stands} - 1) / {stands}");
            g.code.line(format!("make_level<{monoid}>({from} + {below_at}, {to} + {to_at}, {count});"));
            let what = "sums of 16 values each";
            kernels.push(self.finish(g, "window_level".into(), BLOCK, Work::Rows(*room), what));
            (below, at, each) = (at, at + room, each * FAN);
        }
        kernels
    }

    /// Computes all functions.
    fn results(&self, side: u32) -> Result<Kernel> {
        let mut g = Generator::new();
        let (from, order) = self.positions(&mut g, side);
        let Sink::Window { calls, fields, payload, .. } = self.sink else { unreachable!("called for windows") };
        g.code.line("u64 record[3] = {0, 0, 0};");
        // A scope without columns.
        g.push_loads([]);
        let mut places = Places::new(self.window, order);
        let mut values = vec![];
        for (call, field) in calls.iter().zip(&fields[payload.len()..]) {
            values.push(self.value(&mut g, &mut places, call, field)?);
        }
        let columns = self.layout.columns[payload.len()..].to_vec();
        let rows = RowsLayout { columns, capacity: self.layout.capacity, ..RowsLayout::default() };
        build::append_at(&mut g, &rows, &values, &from);
        Ok(self.by_position(g, "window_results", "functions"))
    }
}

#[cfg(test)]
mod tests;
