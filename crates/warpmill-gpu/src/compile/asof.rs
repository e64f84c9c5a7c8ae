//! ASOF joins on the device. The rows of a build are appended with their key number (the slot in the key table) and their time, and their row numbers
//! are sorted by both ([`super::sort`]). A kernel then records where the run of each key begins and ends, and copies the times into that order, in
//! their narrowest representation. A probe finds the run of its key in the table, and searches its value among the run's times (`kernels/asof.cuh`).
//! The payload is not moved.

use arrow::datatypes::DataType;
use warpmill_ir::{ColType, Expr, JoinKind, Nearest, Phys, Probe, Sink, SinkId, SortKey};

use super::build::{self, note_keys, store_row};
use super::cpp::{CType, Value};
use super::generator::{Generator, Result};
use super::hashing::{same_keys, slot_mask, wide_hash};
use super::kernel::{Kernel, Work, kernel, sink_count};
use super::keys::bounds;
use super::layout::{BuildLayout, KeyOrder, Search, Sorted, Table, Word};
use super::params::Binding;
use super::partition;
use super::probe::{NONE, find_wide, pairs};
use super::scan_shape::BLOCK;
use super::sort::Sorting;
use super::source;
use super::storage::{FlatColumn, Storage};
use crate::kernels::library::Library;

/// Largest number of rows of a build: slots of its table are 32-bit numbers.
pub const MOST_ROWS: u64 = 1 << 30;

impl KeyOrder {
    /// The order by `time` of the rows of build `id`, at most `capacity`. Key numbers in its table are below `keys`; `None`: it has no keys. Sorting
    /// looks at `text_words` words of strings.
    pub fn of(id: SinkId, time: &Expr, (table, keys): (Table, Option<u64>), capacity: u64, text_words: u32) -> Self {
        let ty = time.ty.with_nullable(false);
        let times = FlatColumn::new(&format!("sink{id}.times"), 0, &ty);
        let has_keys = keys.is_some();
        if let Some((search, bits)) = Search::distances(&ty, keys.unwrap_or(1)) {
            let words = vec![Word { images: vec![], bits }];
            let sorted = Sorted { words, ..Sorted::in_place(id, &[], capacity, text_words) };
            // With a wide table key numbers are known only after all rows have arrived; the times are kept until then.
            let columns = if table == Table::Wide { vec![times] } else { vec![] };
            return Self { has_keys, columns, keys: vec![], sorted, search };
        }
        let number = |keys: u64| {
            let (logical, phys, range) = (DataType::Int64, Phys::I64, Some((0, i128::from(keys) - 1)));
            let storage = Storage::Whole(CType::U32);
            let column = FlatColumn { buffer: numbers(id), ty: CType::I64, storage, nullable: false };
            (column, ColType { logical, phys, nullable: false, range, dictionary: None })
        };
        let (columns, types): (Vec<_>, Vec<_>) = keys.map(number).into_iter().chain([(times, ty)]).unzip();
        let ascending = |(at, ty)| SortKey { expr: Expr::column(at, ty), descending: false, nulls_first: false };
        let keys: Vec<SortKey> = types.into_iter().enumerate().map(ascending).collect();
        let sorted = Sorted::in_place(id, &keys, capacity, text_words);
        let images = !matches!(time.ty.phys, Phys::I128 | Phys::Str);
        let search = if images { Search::Images } else { Search::Values };
        Self { has_keys, columns, keys, sorted, search }
    }

    /// The same with capacity for `capacity` rows.
    pub fn with_capacity(&self, capacity: u64) -> Self {
        let sorted = Sorted { capacity, ..self.sorted.clone() };
        Self { sorted, ..self.clone() }
    }

    /// Whether times are strings: then the number of words needed to order them is found when they are sorted.
    pub fn is_text(&self) -> bool {
        self.columns.last().is_some_and(|column| column.ty == CType::Str)
    }

    /// Whether rows are appended as sort words: then warps may reserve positions for several rows.
    pub fn marks_rows(&self) -> bool {
        self.columns.is_empty()
    }

    fn has_runs(&self) -> bool {
        self.has_keys || matches!(self.search, Search::Distances { .. })
    }

    /// The column of times, if they are kept by row.
    fn times(&self) -> &[FlatColumn] {
        &self.columns[self.columns.len().saturating_sub(1)..]
    }
}

impl Search {
    /// The search over distances of times of type `ty`, and the bits of a word that holds a distance and the number of one of `keys` keys; `None` if
    /// these do not fit one word.
    fn distances(ty: &ColType, keys: u64) -> Option<(Self, u32)> {
        if matches!(ty.phys, Phys::F32 | Phys::F64 | Phys::Str) {
            return None;
        }
        let (least, most) = bounds(ty);
        let span = u64::try_from(most.max(least).checked_sub(least)?).ok()?.checked_add(1)?;
        let words = span.checked_mul(keys).filter(|&words| words <= 1 << 63)?;
        // The word with all bits set is reserved: it marks an unused row.
        let bits = u64::BITS - words.leading_zeros();
        Some((Search::Distances { least, most: least + i128::from(span) - 1, span }, bits))
    }

    /// The C++ type of the numbers that are searched.
    fn element(self) -> &'static str {
        if matches!(self, Search::Distances { span, .. } if span <= 1 << 32) { "u32" } else { "u64" }
    }
}

/// Buffer name of the key numbers of a build's rows.
fn numbers(id: SinkId) -> String {
    format!("sink{id}.numbers")
}

fn named(id: SinkId, what: &str) -> Binding {
    Binding::Named(format!("sink{id}.{what}"))
}

/// The ordered times, in the buffer that the sort has left free.
fn times_in_order(id: SinkId, side: u32) -> Binding {
    named(id, &format!("sorted.words{}", 1 - side))
}

/// The row numbers in order.
fn rows_in_order(id: SinkId, side: u32) -> Binding {
    named(id, &format!("sorted.order{side}"))
}

/// Appends the active rows to build `id`, described by `sink`; rows with a NULL key or time are dropped, as no probe finds them.
pub fn append(g: &mut Generator, id: SinkId, layout: &BuildLayout, order: &KeyOrder, sink: &Sink) -> Result<()> {
    let Sink::HashBuild { keys, payload, order: Some(time), .. } = sink else { unreachable!("a build with an order") };
    let keys = g.eval_all(keys)?;
    let time = g.eval(time)?;
    let scope = g.scope();
    let payload = payload.iter().map(|&column| g.column(scope, column)).collect::<Result<Vec<_>>>()?;
    let known: Vec<String> = keys.iter().chain([&time]).filter_map(|value| value.valid.clone()).collect();
    if !known.is_empty() {
        g.filter(&known.join(" && "));
    }
    if let Some(partition) = &layout.partition {
        let keyed = g.active.clone();
        partition.keep_own(g, id, &layout.keys, &keys, &keyed);
    }
    let active = g.active.clone();
    note_keys(g, id, layout, &keys, &active);
    let at = match layout.reserves {
        true => append_marked(g, id, layout),
        false => build::append(g, id),
    };
    let depth = g.code.depth();
    store_row(g, id, layout, &at, &payload);
    g.store(order.times(), &[time.clone()][..order.times().len()], &at);
    g.store(&layout.key_columns, &keys[..layout.key_columns.len()], &at);
    let number = number(g, id, layout, &keys);
    match (order.search, number) {
        _ if layout.table == Table::Wide => {}
        (Search::Distances { .. }, number) => store_word(g, id, order.search, (number.as_deref(), &time.text), &at),
        (_, Some(number)) => {
            let all = g.params.output("u32", "numbers", Binding::Named(numbers(id)));
            g.code.line(format!("{all}[{at}] = (u32){number};"));
        }
        (_, None) => {}
    }
    g.code.close_to(depth);
    Ok(())
}

/// Reserves a position for each active row; returns the `u64` variable.
fn append_marked(g: &mut Generator, id: SinkId, layout: &BuildLayout) -> String {
    g.params.require(Library::Asof);
    let (state, active) = (g.sink_state(id), g.active.clone());
    let words = g.params.output("u64", "words", named(id, "sorted.words0"));
    let capacity = g.params.value(CType::U64, "capacity", layout.capacity.to_le_bytes().to_vec());
    let at = format!("append_marked({state}, {active}, lane, &reserved, {words}, {capacity})");
    g.code.define(CType::U64, "at", at)
}

/// Generates the code after the row loop of a build whose warps reserve positions for several rows.
pub fn epilogue(g: &mut Generator, id: SinkId, layout: &BuildLayout) {
    let words = g.params.output("u64", "words", named(id, "sorted.words0"));
    let capacity = g.params.value(CType::U64, "capacity", layout.capacity.to_le_bytes().to_vec());
    g.code.line(format!("mark_unused({words}, {capacity}, &reserved, lane);"));
}

/// Stores the sort word of row `at`: its key number, if there are keys, and its time.
fn store_word(g: &mut Generator, id: SinkId, search: Search, (number, time): (Option<&str>, &str), at: &str) {
    let Search::Distances { least, span, .. } = search else { unreachable!("times that words hold") };
    let words = g.params.output("u64", "words", named(id, "sorted.words0"));
    let rows = g.params.output("u32", "order", rows_in_order(id, 0));
    let least = g.params.value(CType::U64, "least", (least as u64).to_le_bytes().to_vec());
    let mut word = format!("(u64){time} - {least}");
    if let Some(number) = number {
        let span = g.params.value(CType::U64, "span", span.to_le_bytes().to_vec());
        word = format!("(u64){number} * {span} + ({word})");
    }
    g.code.line(format!("{words}[{at}] = {word};"));
    g.code.line(format!("{rows}[{at}] = (u32){at};"));
}

/// The key number of a row, if it is known before all rows have arrived.
fn number(g: &mut Generator, id: SinkId, layout: &BuildLayout, keys: &[Value]) -> Option<String> {
    match layout.table {
        Table::Direct => {
            let (key, _) = g.packed_key(&layout.keys, keys, false);
            Some(partition::within(g, layout.partition.as_ref(), id, key))
        }
        Table::Hash => {
            let (key, _) = g.packed_key(&layout.keys, keys, false);
            let (state, mask) = (g.sink_state(id), slot_mask(g, layout));
            let table = g.params.output("u64", "keys", named(id, "keys"));
            g.code.line("bool fresh = false;");
            let slot = format!("claim_slot({table}, {mask}, {key}, &fresh, &{state}->overflow)");
            let slot = g.code.define(CType::U64, "slot", slot);
            g.code.comment("A table that is too small is made again: any number does.");
            Some(g.code.define(CType::U64, "number", format!("{slot} & {mask}")))
        }
        _ => None,
    }
}

/// The kernels that order the rows of build `id` after all have arrived.
pub fn kernels(id: SinkId, layout: &BuildLayout, order: &KeyOrder, pipeline: usize) -> Result<Vec<Kernel>> {
    let finishing = Finishing { id, layout, order, pipeline };
    let mut kernels = vec![];
    if layout.table == Table::Wide {
        kernels.push(finishing.number_keys()?);
    }
    let (keys, columns, capacity) = (&order.keys, &order.columns, layout.capacity);
    let (input, has_words) = (format!("sink{id}.state"), matches!(order.search, Search::Distances { .. }));
    let sorting = Sorting { id, sorted: &order.sorted, keys, columns, has_words, capacity, input, pipeline };
    let (sorts, side) = sorting.order()?;
    kernels.extend(sorts);
    if order.has_runs() || order.search != Search::Values {
        kernels.push(finishing.runs(side)?);
    }
    Ok(kernels)
}

/// The kernels of a build besides those of the sort.
struct Finishing<'a> {
    id: SinkId,
    layout: &'a BuildLayout,
    order: &'a KeyOrder,
    pipeline: usize,
}

impl Finishing<'_> {
    fn each_row(&self, g: &mut Generator) {
        g.code.line("const u32 lane = threadIdx.x & 31;");
        let count = sink_count(g, self.id, self.layout.capacity);
        source::flat(g, &count);
    }

    fn finish(&self, mut g: Generator, entry: &str, what: &str) -> Kernel {
        g.code.close_to(1);
        let label = format!("pipeline {}: {what}", self.pipeline);
        kernel(g, format!("{entry}_{}", self.id), BLOCK, Work::Rows(self.layout.capacity), self.pipeline, label)
    }

    /// Numbers the keys of a [`Table::Wide`] build by the slots of a table of each key's first row.
    fn number_keys(&self) -> Result<Kernel> {
        let id = self.id;
        let mut g = Generator::new();
        let heads = g.params.output("u32", "heads", named(id, "heads"));
        let mask = slot_mask(&mut g, self.layout);
        self.each_row(&mut g);
        let columns = &self.layout.key_columns;
        let stored = [columns, self.order.times()].concat();
        let loads = g.flat_loads(&stored, "row", None);
        g.push_loads(loads);
        let scope = g.scope();
        let values = (0..columns.len()).map(|i| g.column(scope, i)).collect::<Result<Vec<_>>>()?;
        let arrays = g.arrays(columns, false);
        let has_words = matches!(self.order.search, Search::Distances { .. });
        let time = if has_words { g.column(scope, columns.len())?.text } else { String::new() };
        g.code.open("if (present)");
        let hash = wide_hash(&mut g, &values);
        let slot = g.code.variable(CType::U64, "slot", format!("{hash} & {mask}"));
        g.code.open(format!("for (;; {slot} = ({slot} + 1) & {mask})"));
        g.code.line(format!("const u32 head = atomicCAS({heads} + {slot}, 0u, (u32)row + 1);"));
        let same = same_keys(&arrays, &values, |array| format!("{array}[head - 1]"));
        g.code.line(format!("if (head == 0 || ({same})) break;"));
        g.code.close_to(3);
        if has_words {
            store_word(&mut g, id, self.order.search, (Some(&slot), &time), "row");
        } else {
            let all = g.params.output("u32", "numbers", Binding::Named(numbers(id)));
            g.code.line(format!("{all}[row] = (u32){slot};"));
        }
        Ok(self.finish(g, "asof_keys", "numbers of keys"))
    }

    /// Records the run of each key, and copies the times into order.
    fn runs(&self, side: u32) -> Result<Kernel> {
        let (id, order) = (self.id, self.order);
        let mut g = Generator::new();
        g.params.require(Library::Asof);
        let runs = order.has_runs().then(|| g.params.output("Run", "runs", named(id, "runs")));
        let times = |g: &mut Generator| g.params.output(order.search.element(), "times", times_in_order(id, side));
        if let (Search::Distances { span, .. }, Some(runs)) = (order.search, &runs) {
            let words = g.params.pointer("u64", "words", named(id, &format!("sorted.words{side}")));
            let (times, span) = (times(&mut g), g.params.value(CType::U64, "span", span.to_le_bytes().to_vec()));
            self.each_row(&mut g);
            g.code.line(format!("if (present) split_word({words}, row, rows, {span}, {runs}, {times});"));
            return Ok(self.finish(g, "asof_runs", "runs of keys"));
        }
        let rows = g.params.pointer("u32", "order", rows_in_order(id, side));
        self.each_row(&mut g);
        if order.search == Search::Images {
            let times = times(&mut g);
            g.code.line(format!("const u32 from = present ? {rows}[row] : 0u;"));
            let loads = g.flat_loads(order.times(), "from", None);
            g.push_loads(loads);
            let time = g.column(g.scope(), 0)?;
            g.code.line(format!("if (present) {times}[row] = order_bits({});", time.text));
        }
        if let Some(runs) = runs {
            let known = g.params.pointer("u32", "numbers", Binding::Named(numbers(id)));
            let key = format!("[&](u64 at) {{ return {known}[{rows}[at]]; }}");
            g.code.line(format!("if (present) mark_run({runs}, row, rows, {key});"));
        }
        Ok(self.finish(g, "asof_runs", "runs of keys"))
    }
}

/// Generates `probe` of the build with layout `build`, ordered by `order`: code without loops over partners, as each row has one at most.
pub fn probe(g: &mut Generator, probe: &Probe, build: &BuildLayout, order: &KeyOrder) -> Result<()> {
    let Some(asof) = &probe.asof else { unreachable!("a probe for the nearest row") };
    g.params.require(Library::Asof);
    let keys = g.eval_all(&probe.keys)?;
    let value = g.eval(&asof.value)?;
    if let Some(partition) = &build.partition {
        partition.keep_probed(g, probe.build, build, &keys);
    }
    let run = find_run(g, probe, (build, order), (&keys, &value));
    let side = order.sorted.side();
    let rows = g.params.pointer("u32", "order", rows_in_order(probe.build, side));
    let found = g.code.variable(CType::U32, "m", NONE);
    let depth = g.code.depth();
    g.code.open(format!("if ({run}.start < {run}.end)"));
    let count = g.code.define(CType::U32, "count", format!("{run}.end - {run}.start"));
    let includes_equal = matches!(asof.nearest, Nearest::AtMost | Nearest::Above);
    let place = place(g, probe.build, order, (&value, includes_equal), (&run, &count));
    let before = g.code.define(CType::U32, "before", place);
    let (exists, at) = match asof.nearest {
        Nearest::AtMost | Nearest::Below => (format!("{before} > 0"), format!("{run}.start + {before} - 1")),
        Nearest::AtLeast | Nearest::Above => (format!("{before} < {count}"), format!("{run}.start + {before}")),
    };
    g.code.line(format!("if ({exists}) {found} = {rows}[{at}];"));
    g.code.close_to(depth);
    let pair = g.code.define(CType::Bool, "pair", format!("{found} != {NONE}"));
    let optional = probe.kind == JoinKind::ProbeOuter;
    if !optional {
        g.filter(&pair);
    }
    pairs(g, probe, build, &found, optional.then_some(pair.as_str()))?;
    g.push_selection(&probe.output);
    Ok(())
}

/// A variable with the run of a row's key: empty if there is none, or `value` is NULL.
fn find_run(
    g: &mut Generator,
    probe: &Probe,
    (build, order): (&BuildLayout, &KeyOrder),
    (keys, value): (&[Value], &Value),
) -> String {
    let id = probe.build;
    let run = g.code.fresh("run");
    g.code.line(format!("Run {run} = {{0, 0}};"));
    let known = format!("{} && {}", g.active, value.valid_text());
    let known = g.code.define(CType::Bool, "in", known);
    let found = match build.table {
        Table::All if order.has_runs() => (known, "0".to_string()),
        Table::All => {
            let count = sink_count(g, id, build.capacity);
            g.code.line(format!("if ({known}) {run}.end = (u32)({count});"));
            return run;
        }
        Table::Wide => {
            let heads = g.params.pointer("u32", "heads", named(id, "heads"));
            let slot = find_wide(g, build, (&heads, "(u32)slot"), (keys, &known));
            (format!("{slot} != {NONE}"), slot)
        }
        Table::Hash => {
            let (key, inside) = g.packed_key(&build.keys, keys, true);
            let mask = slot_mask(g, build);
            let table = g.params.pointer("u64", "keys", named(id, "keys"));
            let slot = format!("{known} && {inside} ? find_slot({table}, {mask}, {key}) : {mask} + 1");
            let slot = g.code.define(CType::U64, "slot", slot);
            (format!("{slot} <= {mask}"), slot)
        }
        Table::Direct | Table::Bitmap => {
            let (key, inside) = g.packed_key(&build.keys, keys, true);
            let key = partition::within(g, build.partition.as_ref(), id, key);
            (format!("{known} && {inside}"), key)
        }
    };
    let runs = g.params.pointer("Run", "runs", named(id, "runs"));
    g.code.line(format!("if ({}) {run} = {runs}[{}];", found.0, found.1));
    run
}

/// An expression for the number of times in a run that are less than a row's value, or equal if `equal` is set.
fn place(
    g: &mut Generator,
    id: SinkId,
    order: &KeyOrder,
    (value, equal): (&Value, bool),
    (run, count): (&str, &str),
) -> String {
    let (x, side) = (&value.text, order.sorted.side());
    let element = order.search.element();
    let search = |g: &mut Generator, number: &str| {
        let times = g.params.pointer(element, "times", times_in_order(id, side));
        format!("times_before<{equal}, {element}>({times} + {run}.start, {count}, {number})")
    };
    match order.search {
        Search::Images => search(g, &format!("order_bits({x})")),
        Search::Distances { least, most, .. } => {
            let ty = if value.ty == CType::I128 { CType::I128 } else { CType::I64 };
            let bytes = |number: i128| number.to_le_bytes()[..ty.size()].to_vec();
            let [least, most] = [least, most].map(|number| g.params.value(ty, "bound", bytes(number)));
            let inside = search(g, &format!("({element})((u64){x} - (u64){least})"));
            let own = format!("({}){x}", ty.name());
            format!("{own} < {least} ? 0u : {own} > {most} ? {count} : {inside}")
        }
        Search::Values => {
            g.params.require(Library::Strings);
            let rows = g.params.pointer("u32", "order", rows_in_order(id, side));
            let column = &order.times()[0];
            let times = g.params.pointer(column.storage.name(), "times", Binding::Named(column.buffer.clone()));
            let time = format!("({}){times}[{rows}[{run}.start + at]]", column.ty.name());
            let before = if equal { format!("!less({x}, {time})") } else { format!("less({time}, {x})") };
            format!("places_before(0, {count}, [&](u32 at) {{ return {before}; }})")
        }
    }
}

#[cfg(test)]
mod tests;
