//! Group functions on the device: C++ texts that functions of the host's language were translated to ([`crate::kernels::functions`]), applied to the
//! rows of each group.
//!
//! Rows are appended with their keys and arguments. Their row numbers are sorted by the keys, and groups are found in that order like the partitions
//! of a window ([`super::window`]). Arguments are copied into that order, so that the rows of a group are adjacent. Groups are listed by size
//! (`kernels/groups.cuh`): a function runs on a thread for a small group, on a warp for a medium one, on a block for a large one. Loops in a function
//! process rows sequentially, so a function that consists of loops only has one thread per group of any size. Finally the groups become rows of keys
//! and results.
//!
//! If a function gives up on a group, the host runs the whole program.

use warpmill_ir::{Expr, Phys, Sink, SinkId, SortKey, Unsupported};

use super::build;
use super::cpp::{CType, Value};
use super::generator::{Generator, Result, widened};
use super::kernel::{Kernel, Work, kernel, state_count};
use super::layout::{Grouped, Operand, RowsLayout, Sorted, Windowed};
use super::params::Binding;
use super::scan_shape::BLOCK;
use super::storage::FlatColumn;
use super::{sort, source, window};
use crate::kernels::ERROR_GROUP;
use crate::kernels::functions::{has_loop, has_reduction};
use crate::kernels::library::Library;

/// Largest number of rows of a group for a thread (`FEW`) and for a warp (`SOME`).
const FEW: u64 = 32;
const SOME: u64 = 2048;

/// The lists of groups by size, and the least number of rows of their groups.
const LISTS: [(&str, u64); 3] = [("few", 1), ("some", FEW + 1), ("many", SOME + 1)];

/// The threads that run a function on one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Team {
    Thread,
    /// One thread of a warp: the loops of several groups in one warp would all wait for each other's memory accesses.
    Lane,
    Warp,
    Block,
}

impl Team {
    /// The team for each group of list `list`, by the text of the function.
    fn of(text: &str, list: usize) -> Self {
        match (list, has_loop(text), has_reduction(text)) {
            (2, true, false) => Team::Lane,
            (0, ..) | (_, true, false) => Team::Thread,
            (1, ..) | (_, true, true) => Team::Warp,
            _ => Team::Block,
        }
    }

    /// C++ name in `kernels/udf/rows.cuh`.
    fn name(self) -> &'static str {
        match self {
            Team::Thread | Team::Lane => "udf::OneThread",
            Team::Warp => "udf::OneWarp",
            Team::Block => "udf::OneBlock",
        }
    }

    /// Threads of a block. Few for sequential loops, to spread their memory latency over more multiprocessors.
    fn block(self) -> u32 {
        match self {
            Team::Thread | Team::Lane => 64,
            Team::Warp => 128,
            Team::Block => 1024,
        }
    }

    /// Threads per group.
    fn threads(self) -> u64 {
        match self {
            Team::Thread => 1,
            Team::Lane | Team::Warp => 32,
            Team::Block => self.block().into(),
        }
    }
}

/// Largest number of rows of a group that a loop processes sequentially on a device.
const MOST_ROWS_IN_TURN: u64 = 1 << 20;

/// Refuses loops in the functions of `sink` that would run longer on a device than on the host, for `rows` rows in `groups` groups of about equal
/// size.
pub fn check_loops(sink: &Sink, rows: f64, groups: f64) -> Result<(), Unsupported> {
    let Sink::Functions { calls, .. } = sink else { return Ok(()) };
    let in_turn = rows / groups;
    match calls.iter().find(|call| in_turn > MOST_ROWS_IN_TURN as f64 && has_loop(&call.function.text)) {
        Some(call) => {
            let reason = format!("a loop over about {in_turn:.0} rows of a group, one after the other");
            Err(Unsupported::new(&call.function.name, reason))
        }
        None => Ok(()),
    }
}

impl Grouped {
    /// The layout of the functions of `sink` for `capacity` rows, and the columns that rows are appended to. Sorting looks at `text_words` words of
    /// strings.
    ///
    /// # Errors
    /// More rows than 32-bit row numbers allow.
    pub fn of(id: SinkId, sink: &Sink, capacity: u64, text_words: u32) -> Result<(Vec<FlatColumn>, Self), Unsupported> {
        let Sink::Functions { groups, calls, fields } = sink else { unreachable!("called for functions of groups") };
        if capacity >= u64::from(u32::MAX) {
            return Err(Unsupported::new("functions of groups", format!("of {capacity} rows")));
        }
        let owner = format!("sink{id}.groups");
        let mut operands: Vec<Operand> = vec![];
        let mut operand = |expr: &Expr| {
            operands.iter().position(|known| known.expr == *expr).unwrap_or_else(|| {
                let column = FlatColumn::new(&format!("{owner}.operand"), operands.len(), &expr.ty);
                operands.push(Operand { expr: expr.clone(), column, own: false });
                operands.len() - 1
            })
        };
        let keys: Vec<usize> = groups.iter().map(&mut operand).collect();
        let calls = calls.iter().map(|call| call.arguments.iter().map(&mut operand).collect()).collect();
        let mut sorted_by = keys.clone();
        sorted_by.sort_unstable();
        sorted_by.dedup();
        let key = |&operand: &usize| {
            let expr = Expr::column(operand, operands[operand].expr.ty.clone());
            SortKey { expr, descending: false, nulls_first: false }
        };
        let sort_keys: Vec<SortKey> = sorted_by.iter().map(key).collect();
        let sorted = (!keys.is_empty()).then(|| Sorted::in_place(id, &sort_keys, capacity, text_words));
        let columns = operands.iter().map(|operand| operand.column.clone()).collect();
        let partitions = Windowed::of_partitions(format!("{owner}.window"), operands, (sort_keys, sorted), capacity);
        let rows = RowsLayout { columns: FlatColumn::all(&owner, fields), capacity, ..RowsLayout::default() };
        Ok((columns, Self { partitions, keys, calls, rows, owner }))
    }

    /// The buffers besides the columns: names, bytes, and whether they are zero initially.
    pub fn buffers(&self) -> Vec<(String, u64, bool)> {
        let rows = self.partitions.capacity;
        let mut buffers = self.partitions.buffers();
        let mut add = |what: &str, bytes: u64, zero: bool| buffers.push((self.name(what), bytes, zero));
        add("offsets", 8 * (rows + 1), false);
        add("counts", 4 * LISTS.len() as u64, true);
        for (list, least) in LISTS {
            add(list, 4 * self.most_groups(least), false);
        }
        for argument in self.arguments() {
            let column = &self.partitions.operands[argument].column;
            add(&format!("argument{argument}"), rows * in_text(column.ty).1, false);
            if column.nullable {
                add(&format!("argument{argument}.present"), rows, false);
            }
        }
        for call in 0..self.calls.len() {
            add(&format!("results{call}"), 8 * rows, false);
            add(&format!("known{call}"), rows, false);
            add(&format!("status{call}"), 4 * rows, false);
        }
        buffers
    }

    /// Largest number of groups of at least `least` rows, plus one for a single group without rows.
    fn most_groups(&self, least: u64) -> u64 {
        self.partitions.capacity / least + 1
    }

    /// Operands that are arguments, without duplicates.
    fn arguments(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.calls.iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn name(&self, what: &str) -> String {
        format!("{}.{what}", self.owner)
    }

    fn named(&self, what: &str) -> Binding {
        Binding::Named(self.name(what))
    }
}

/// C++ type and bytes of an argument of type `ty` in function texts.
fn in_text(ty: CType) -> (&'static str, u64) {
    match ty {
        CType::Bool => ("u8", 1),
        CType::F64 => ("double", 8),
        _ => ("i64", 8),
    }
}

/// Appends the active rows, each at position `rank` if given.
pub fn append(g: &mut Generator, id: SinkId, layout: &RowsLayout, grouped: &Grouped, rank: Option<&str>) -> Result<()> {
    let mut values = vec![];
    for operand in &grouped.partitions.operands {
        let value = g.eval(&operand.expr)?;
        values.push(widened(&mut g.code, value, operand.expr.ty.phys));
    }
    let at = build::append(g, id);
    build::append_at(g, layout, &values, rank.unwrap_or(&at));
    Ok(())
}

/// The kernels that make groups and function results from the rows of sink `id`, after all have arrived.
pub fn kernels(id: SinkId, layout: &RowsLayout, sink: &Sink, pipeline: usize) -> Result<Vec<Kernel>> {
    let Some(grouped) = &layout.grouped else { return Ok(vec![]) };
    let (mut kernels, side) = window::partitions(id, &grouped.partitions, (layout, sink), pipeline)?;
    let finishing = Finishing { id, layout, grouped, sink, side, pipeline };
    kernels.push(finishing.list());
    kernels.push(finishing.arguments()?);
    for call in 0..grouped.calls.len() {
        kernels.extend((0..LISTS.len()).map(|list| finishing.call(call, list)));
    }
    kernels.push(finishing.rows()?);
    Ok(kernels)
}

/// The kernels after the sort.
struct Finishing<'a> {
    id: SinkId,
    layout: &'a RowsLayout,
    grouped: &'a Grouped,
    sink: &'a Sink,
    /// The side of the sort buffers with the ordered row numbers.
    side: u32,
    pipeline: usize,
}

impl Finishing<'_> {
    fn finish(&self, mut g: Generator, entry: String, (threads, work): (u32, Work), what: &str) -> Kernel {
        g.params.require(Library::Groups);
        g.code.close_to(1);
        let label = format!("pipeline {}: functions of groups: {what}", self.pipeline);
        kernel(g, entry, threads, work, self.pipeline, label)
    }

    fn by_row(&self, g: Generator, entry: &str, what: &str) -> Kernel {
        let work = (BLOCK, Work::Rows(self.layout.capacity));
        self.finish(g, format!("{entry}_{}", self.id), work, what)
    }

    /// An operand for the number of rows.
    fn row_count(&self, g: &mut Generator) -> String {
        state_count(g, &format!("sink{}.state", self.id), self.layout.capacity)
    }

    /// The first positions of groups, if there are keys.
    fn starts(&self, g: &mut Generator) -> Option<String> {
        let starts = self.grouped.partitions.partition_starts()?;
        Some(g.params.pointer("u32", "starts", starts))
    }

    /// A C++ expression for the row number at a position.
    fn row_at(&self, g: &mut Generator, position: &str) -> String {
        match &self.grouped.partitions.sorted {
            Some(sorted) => {
                let order = g.params.pointer("u32", "order", sorted.numbers(self.side));
                format!("{order}[{position}]")
            }
            None => format!("(u32){position}"),
        }
    }

    /// Counts the groups, and lists them by size.
    fn list(&self) -> Kernel {
        let mut g = Generator::new();
        g.code.line("const u32 lane = threadIdx.x & 31;");
        let state = g.params.output("SinkState", "groups", Binding::Named(sort::state(self.id)));
        let offsets = g.params.output("i64", "offsets", self.grouped.named("offsets"));
        let counts = g.params.output("u32", "counts", self.grouped.named("counts"));
        let lists = LISTS.map(|(name, _)| g.params.output("u32", "list", self.grouped.named(name)));
        let limits = [FEW, SOME].map(|rows| g.params.value(CType::U64, "limit", rows.to_le_bytes().to_vec()));
        let count = self.row_count(&mut g);
        g.code.line(format!("const u64 all = {count};"));
        let starts = self.starts(&mut g);
        match self.grouped.partitions.partition_numbers() {
            Some(of) => {
                let of = g.params.pointer("u32", "of", of);
                g.code.line(format!("const u64 groups = all > 0 ? (u64){of}[all - 1] + 1 : 0;"));
            }
            None => g.code.line("const u64 groups = 1;"),
        }
        g.code.line(format!("if (blockIdx.x == 0 && threadIdx.x == 0) {state}->count = groups;"));
        source::flat(&mut g, "groups");
        match starts {
            Some(starts) => {
                g.code.line(format!(
                    "const u64 start = present ? {starts}[row] : 0, end = present ? {starts}[row + 1] : 0;"
                ));
            }
            None => g.code.line("const u64 start = 0, end = all;"),
        }
        g.code.line(format!("if (present) {offsets}[row] = (i64)start;"));
        g.code.line(format!("if (present && row + 1 == groups) {offsets}[row + 1] = (i64)end;"));
        let [few, some] = limits;
        let mut all = "present".to_string();
        if let Sink::Functions { calls, .. } = self.sink
            && calls.iter().any(|call| has_loop(&call.function.text))
        {
            g.code.comment("A loop over so many rows is the host's.");
            let most = g.params.value(CType::U64, "limit", MOST_ROWS_IN_TURN.to_le_bytes().to_vec());
            let query = g.params.state();
            g.code.line(format!("if (present && end - start > {most}) raise({query}, {ERROR_GROUP}u);"));
            all = format!("present && end - start <= {most}");
        }
        let sizes = [
            format!("end - start <= {few}"),
            format!("end - start > {few} && end - start <= {some}"),
            format!("end - start > {some}"),
        ];
        for (at, (list, size)) in lists.iter().zip(sizes).enumerate() {
            g.code.line(format!("list_group(GroupList{{{list}, {counts} + {at}}}, {all} && {size}, row, lane);"));
        }
        self.by_row(g, "group_lists", "groups by size")
    }

    /// Copies the arguments into group order.
    fn arguments(&self) -> Result<Kernel> {
        let mut g = Generator::new();
        g.code.line("const u32 lane = threadIdx.x & 31;");
        let count = self.row_count(&mut g);
        let from = self.row_at(&mut g, "row");
        source::flat(&mut g, &count);
        g.code.line(format!("const u32 from = present ? {from} : 0u;"));
        let operands = &self.grouped.partitions.operands;
        for argument in self.grouped.arguments() {
            let column = &operands[argument].column;
            let (ty, name) = (in_text(column.ty).0, format!("argument{argument}"));
            let out = g.params.output(ty, "argument", self.grouped.named(&name));
            let there =
                column.nullable.then(|| g.params.output("u8", "there", self.grouped.named(&format!("{name}.present"))));
            let loads = g.flat_loads(std::slice::from_ref(column), "from", None);
            g.push_loads(loads);
            let value = g.column(g.scope(), 0)?;
            g.code.line(format!("if (present) {out}[row] = ({ty}){};", value.text));
            if let Some(there) = there {
                g.code.line(format!("if (present) {there}[row] = {};", value.valid_text()));
            }
        }
        Ok(self.by_row(g, "group_arguments", "arguments in order"))
    }

    /// Runs a call's function on the groups of a list. The kernel text depends only on the function, the types and the team.
    fn call(&self, call: usize, list: usize) -> Kernel {
        let Sink::Functions { calls, .. } = self.sink else { unreachable!("called for functions of groups") };
        let (function, grouped) = (&calls[call].function, self.grouped);
        let team = Team::of(&function.text, list);
        let mut g = Generator::new();
        g.params.require(Library::Functions);
        let (mut values, mut present) = (vec![], vec![]);
        for argument in &grouped.calls[call] {
            let column = &grouped.partitions.operands[*argument].column;
            let name = format!("argument{argument}");
            values.push(g.params.pointer(in_text(column.ty).0, "argument", grouped.named(&name)));
            present.push(match column.nullable {
                true => g.params.pointer("u8", "there", grouped.named(&format!("{name}.present"))),
                false => "nullptr".into(),
            });
        }
        g.code.line(format!("const void* const values[] = {{{}}};", values.join(", ")));
        g.code.line(format!("const u8* const there[] = {{{}}};", present.join(", ")));
        let mut words = |element: &str, words: Vec<u8>| match words.is_empty() {
            true => "nullptr".into(),
            false => g.params.pointer(element, "constants", Binding::Data(words.into())),
        };
        let whole = words("i64", function.whole.iter().flat_map(|word| word.to_le_bytes()).collect());
        let floats = words("double", function.floats.iter().flat_map(|word| word.to_le_bytes()).collect());
        let offsets = g.params.pointer("i64", "offsets", grouped.named("offsets"));
        let results = g.params.output("u64", "results", grouped.named(&format!("results{call}")));
        let known = g.params.output("u8", "known", grouped.named(&format!("known{call}")));
        let status = g.params.output("i32", "status", grouped.named(&format!("status{call}")));
        let (name, least) = LISTS[list];
        let groups = g.params.pointer("u32", "list", grouped.named(name));
        let counts = g.params.pointer("u32", "counts", grouped.named("counts"));
        // A parameter, so that kernels for other lists and queries have the same text if the team is the same.
        let number = g.params.value(CType::U32, "number", (list as u32).to_le_bytes().to_vec());
        g.code.line(format!("const u64 count = {counts}[{number}];"));
        g.code.line(format!(
            "const udf::Launch k = {{values, there, {offsets}, {whole}, {floats}, {results}, {known}, {status}, nullptr, (i64)count}};"
        ));
        let (first, stride) = match team {
            Team::Thread => ("(u64)blockIdx.x * blockDim.x + threadIdx.x", "(u64)gridDim.x * blockDim.x"),
            Team::Lane | Team::Warp => {
                ("((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32", "(u64)gridDim.x * blockDim.x / 32")
            }
            Team::Block => ("(u64)blockIdx.x", "(u64)gridDim.x"),
        };
        if team == Team::Lane {
            g.code.line("if (threadIdx.x & 31) return;");
        }
        g.code.open(format!("for (u64 at = {first}; at < count; at += {stride})"));
        g.code.line(format!("udf::run<{}>(k, {groups}[at]);", team.name()));
        g.threads = team.block();
        let work = (team.block(), Work::Rows(team.threads() * grouped.most_groups(least)));
        let what = format!("{}, {name} rows each", function.name);
        let kernel = self.finish(g, "group_function".into(), work, &what);
        Kernel { text: format!("{}\n{}", function.text, kernel.text), ..kernel }
    }

    /// Makes rows of the groups' keys and results.
    fn rows(&self) -> Result<Kernel> {
        let Sink::Functions { groups, fields, .. } = self.sink else { unreachable!("called for functions of groups") };
        let (grouped, mut g) = (self.grouped, Generator::new());
        g.code.line("const u32 lane = threadIdx.x & 31;");
        let count = state_count(&mut g, &sort::state(self.id), self.layout.capacity);
        let arrived = g.params.pointer("SinkState", "arrived", Binding::Named(format!("sink{}.state", self.id)));
        let room = g.params.value(CType::U64, "room", self.layout.capacity.to_le_bytes().to_vec());
        let starts = self.starts(&mut g);
        let from = starts.map(|starts| self.row_at(&mut g, &format!("{starts}[row]")));
        source::flat(&mut g, &count);
        let mut values = vec![];
        if let Some(from) = from {
            g.code.line(format!("const u32 from = present ? {from} : 0u;"));
            let columns: Vec<FlatColumn> =
                grouped.keys.iter().map(|&key| grouped.partitions.operands[key].column.clone()).collect();
            let loads = g.flat_loads(&columns, "from", None);
            g.push_loads(loads);
            for (key, field) in fields[..groups.len()].iter().enumerate() {
                let value = g.column(g.scope(), key)?;
                values.push(widened(&mut g.code, value, field.ty.phys));
            }
        }
        g.code.comment("Of rows for which there is no room some are missing: the program is run again.");
        g.code.line(format!("const bool whole = {arrived}->count <= {room};"));
        let state = g.params.state();
        for (call, field) in fields[groups.len()..].iter().enumerate() {
            let element = if field.ty.phys == Phys::F64 { "double" } else { "i64" };
            let ty = CType::of(field.ty.phys);
            let results = g.params.pointer(element, "results", grouped.named(&format!("results{call}")));
            let known = g.params.pointer("u8", "known", grouped.named(&format!("known{call}")));
            let status = g.params.pointer("i32", "status", grouped.named(&format!("status{call}")));
            g.code.line(format!("if (present && whole && {status}[row]) raise({state}, {ERROR_GROUP}u);"));
            let valid = g.code.define(CType::Bool, "ok", format!("present && {known}[row] && !{status}[row]"));
            let text = match ty {
                CType::Bool => format!("{valid} && {results}[row] != 0"),
                _ => format!("{valid} ? ({}){results}[row] : {}", ty.name(), ty.zero()),
            };
            values.push(Value::new(g.code.define(ty, "v", text), ty).with_valid(Some(valid)));
        }
        build::append_at(&mut g, &grouped.rows, &values, "row");
        Ok(self.by_row(g, "group_rows", "groups to rows"))
    }
}

#[cfg(test)]
mod tests;
