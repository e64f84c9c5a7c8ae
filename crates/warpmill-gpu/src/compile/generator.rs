//! State of generating one kernel: statements, parameters, and the columns of each operator's input, which are loaded when an expression first needs
//! them.

use std::collections::BTreeSet;

use warpmill_ir::{Expr, Field, Phys, SinkId, Unsupported};

use super::cpp::{CType, Code, Value};
use super::expr;
use super::expr::context::{Context, Memo};
use super::keys::KeyShape;
use super::params::{Binding, Params};
use super::scan_shape::BLOCK;
use super::storage::FlatColumn;
use crate::data::shape::ColumnShape;
use crate::kernels::library::Library;

/// Name of the memory for streamed segments, and of its size in bytes.
pub const SLOTS: &str = "slots";
/// See [`SLOTS`].
pub const SLOT_BYTES: &str = "slots.bytes";

/// Name of the host memory for strings of hash builds, and of its size in bytes.
pub const HOSTED: &str = "hosted";
/// See [`HOSTED`].
pub const HOSTED_BYTES: &str = "hosted.bytes";

/// Name of the `QueryState` for the strings of build `id` in host memory.
pub fn host_text(id: SinkId) -> String {
    format!("sink{id}.texts")
}

/// The source of a column's value.
#[derive(Debug, Clone)]
pub enum Load {
    /// A column of a scan's segments; see [`super::source`].
    Segment {
        /// Index among the scan's columns.
        column: usize,
        /// Encoding of the column.
        shape: ColumnShape,
    },
    /// `data[row]`, or NULL unless `present` (a `bool` operand) holds.
    Flat {
        /// The column.
        column: FlatColumn,
        /// Operand of the data array.
        data: String,
        /// Operand of the validity array.
        valid: Option<String>,
        /// Operand of the row number.
        row: String,
        /// Operand for whether there is a row; `None`: wherever the thread has one.
        present: Option<String>,
    },
}

/// A column of an operator's input, in its current state.
#[derive(Debug, Clone)]
enum Slot {
    /// Loaded or computed.
    Ready(Value),
    /// Not loaded yet.
    Load(Load),
    /// Not computed yet: an expression over an earlier scope.
    Expr(Expr, usize),
    /// A column of another scope.
    Same(usize, usize),
}

/// A bitmap test that all remaining rows of a kernel have passed: the bit of their value in a column of the scan is set.
#[derive(Debug, Clone)]
pub struct Tested {
    /// The scan's column.
    pub column: usize,
    /// Buffer name of the bitmap.
    pub buffer: String,
    /// A `bool` operand: whether the test was skipped.
    pub unless: Option<String>,
}

/// The columns of an operator's input, and expressions computed over them.
#[derive(Default)]
struct Scope {
    slots: Vec<Slot>,
    /// For each slot, the scan's column that it equals, if any.
    origins: Vec<Option<usize>>,
    memo: Memo,
}

/// Generates one kernel.
pub struct Generator {
    /// Statements.
    pub code: Code,
    /// Parameters.
    pub params: Params,
    /// Scopes from the outermost to the innermost.
    scopes: Vec<Scope>,
    /// A `bool` operand: whether this thread has a row here.
    pub active: String,
    /// Builds of which the code before the row loop reads whether keys repeat.
    pub repeats: BTreeSet<SinkId>,
    /// Bitmap tests that every remaining row has passed.
    pub tested: Vec<Tested>,
    /// Whether strings of the scan are invalid after the kernel, because segments are streamed.
    pub passing: bool,
    /// Whether there are strings of hash builds in host memory, invalid after the query is done with the builds.
    pub hosted: bool,
    /// Bytes of dynamic shared memory.
    pub shared: usize,
    /// Whether each thread sums consecutive rows of its own, whose order must not change.
    pub runs: bool,
    /// Threads of a block.
    pub threads: u32,
    /// Blocks per multiprocessor that register allocation must allow; 0: no constraint.
    pub min_blocks: u32,
}

/// Result of generating code.
pub type Result<T, E = Unsupported> = std::result::Result<T, E>;

impl Default for Generator {
    fn default() -> Self {
        Self::new()
    }
}

impl Generator {
    /// A generator without code.
    pub fn new() -> Self {
        Self {
            code: Code::at_depth(1),
            threads: BLOCK,
            min_blocks: 0,
            params: Params::default(),
            scopes: vec![],
            active: "false".into(),
            repeats: BTreeSet::new(),
            tested: vec![],
            passing: false,
            hosted: false,
            runs: false,
            shared: 0,
        }
    }

    /// The innermost scope.
    pub fn scope(&self) -> usize {
        self.scopes.len() - 1
    }

    /// Opens a scope of columns that are loaded on demand.
    pub fn push_loads(&mut self, loads: impl IntoIterator<Item = Load>) {
        let slots = loads.into_iter().map(Slot::Load).collect();
        self.push_scope(slots);
    }

    fn push_scope(&mut self, slots: Vec<Slot>) {
        let origin = |slot: &Slot| match slot {
            Slot::Load(Load::Segment { column, .. }) => Some(*column),
            Slot::Same(scope, index) => self.scopes[*scope].origins[*index],
            _ => None,
        };
        let origins = slots.iter().map(origin).collect();
        self.scopes.push(Scope { slots, origins, memo: Memo::default() });
    }

    /// The scan's column that column `index` of the innermost scope equals, if any.
    pub fn origin(&self, index: usize) -> Option<usize> {
        self.scopes.last().and_then(|scope| scope.origins[index])
    }

    /// Opens the scope of a projection.
    pub fn push_exprs<'a>(&mut self, exprs: impl IntoIterator<Item = &'a Expr>) {
        let from = self.scope();
        let slot = |expr: &Expr| match expr.kind {
            warpmill_ir::ExprKind::Column(index) => Slot::Same(from, index),
            _ => Slot::Expr(expr.clone(), from),
        };
        let slots = exprs.into_iter().map(slot).collect();
        self.push_scope(slots);
    }

    /// Opens the scope of a probe's pairs: the columns of the current scope, then `payload`.
    pub fn push_pairs(&mut self, payload: impl IntoIterator<Item = Load>) {
        let from = self.scope();
        let input = (0..self.width()).map(|i| Slot::Same(from, i));
        let slots = input.chain(payload.into_iter().map(Slot::Load)).collect();
        self.push_scope(slots);
    }

    /// Number of columns of the innermost scope.
    pub fn width(&self) -> usize {
        self.scopes.last().map_or(0, |scope| scope.slots.len())
    }

    /// Closes the scopes after `scope`.
    pub fn pop_to(&mut self, scope: usize) {
        self.scopes.truncate(scope + 1);
    }

    /// Loads the columns of the innermost scope that `expr` reads; indexes beyond its width are ignored.
    pub fn load_columns(&mut self, expr: &Expr) -> Result<()> {
        let mut read = vec![];
        expr.visit_columns(&mut |index| read.push(index));
        self.load_output(&read, None)
    }

    /// Loads `columns` of the innermost scope, and those that `expr` reads.
    pub fn load_output(&mut self, columns: &[usize], expr: Option<&Expr>) -> Result<()> {
        let mut read = columns.to_vec();
        if let Some(expr) = expr {
            expr.visit_columns(&mut |index| read.push(index));
        }
        let (scope, width) = (self.scope(), self.width());
        for index in read.into_iter().filter(|&index| index < width) {
            self.column(scope, index)?;
        }
        Ok(())
    }

    /// Loads `columns` of the innermost scope that come unchanged from the scan and are no strings.
    pub fn load_scanned(&mut self, columns: impl IntoIterator<Item = usize>) -> Result<()> {
        let (scope, width) = (self.scope(), self.width());
        for index in columns.into_iter().filter(|&index| index < width) {
            if self.origin(index).is_some_and(|column| self.is_packed(column)) {
                self.column(scope, index)?;
            }
        }
        Ok(())
    }

    /// Whether the scan's column `column` has packed values in all segments.
    fn is_packed(&self, column: usize) -> bool {
        let packed = |slot: &Slot| matches!(slot, Slot::Load(Load::Segment { column: of, shape: ColumnShape::Lane { .. } }) if *of == column);
        self.scopes.first().is_some_and(|scope| scope.slots.iter().any(packed))
    }

    /// Adds a computed column to the innermost scope.
    pub fn push_value(&mut self, value: Value) {
        let scope = self.scopes.last_mut().expect("a scope");
        scope.slots.push(Slot::Ready(value));
        scope.origins.push(None);
    }

    /// Opens a scope of some columns of the innermost one.
    pub fn push_selection(&mut self, columns: &[usize]) {
        let from = self.scope();
        let slots = columns.iter().map(|&column| Slot::Same(from, column)).collect();
        self.push_scope(slots);
    }

    /// The value of column `index` of `scope`, loaded or computed on first use.
    pub fn column(&mut self, scope: usize, index: usize) -> Result<Value> {
        let value = match self.scopes[scope].slots[index].clone() {
            Slot::Ready(value) => return Ok(value),
            Slot::Same(scope, index) => self.column(scope, index)?,
            Slot::Expr(expr, scope) => self.eval_in(&expr, scope)?,
            Slot::Load(load) => self.load(&load),
        };
        self.scopes[scope].slots[index] = Slot::Ready(value.clone());
        Ok(value)
    }

    fn load(&mut self, load: &Load) -> Value {
        match load {
            Load::Segment { column, shape } => super::scan::load_segment(self, *column, shape),
            Load::Flat { column, data, valid, row, present } => {
                let guard = match present {
                    Some(present) => format!("({} && {present})", self.active),
                    None => self.active.clone(),
                };
                let zero = column.ty.zero();
                let cast = column.ty.name();
                let text = self.code.define(column.ty, "x", format!("{guard} ? ({cast}){data}[{row}] : {zero}"));
                let valid = match (valid, present) {
                    (Some(valid), _) => Some(self.code.define(CType::Bool, "ok", format!("{guard} && {valid}[{row}]"))),
                    (None, Some(present)) => Some(present.clone()),
                    (None, None) => None,
                };
                Value { text, ty: column.ty, valid }
            }
        }
    }

    /// The value of `expr` over the innermost scope.
    pub fn eval(&mut self, expr: &Expr) -> Result<Value> {
        self.eval_in(expr, self.scope())
    }

    /// Keeps the rows for which `predicate` is true.
    pub fn filter_by(&mut self, predicate: &Expr) -> Result<()> {
        let condition = self.over_columns(predicate, self.scope(), expr::emit_predicate)?;
        self.filter(&condition);
        Ok(())
    }

    fn eval_in(&mut self, expr: &Expr, scope: usize) -> Result<Value> {
        self.over_columns(expr, scope, |expr, context| context.emit(expr))
    }

    /// Loads the columns that `expr` reads, and generates it.
    fn over_columns<T>(
        &mut self,
        expr: &Expr,
        scope: usize,
        generate: impl FnOnce(&Expr, &mut Context<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut read = vec![];
        expr.visit_columns(&mut |index| read.push(index));
        let mut columns: Vec<Option<Value>> = vec![None; self.scopes[scope].slots.len()];
        for index in read {
            if columns[index].is_none() {
                columns[index] = Some(self.column(scope, index)?);
            }
        }
        let memo = std::mem::take(&mut self.scopes[scope].memo);
        let guard = self.active.clone();
        let mut context = Context { code: &mut self.code, params: &mut self.params, columns: &columns, guard, memo };
        let result = generate(expr, &mut context);
        self.scopes[scope].memo = context.memo;
        result
    }

    /// Restricts `active` to rows for which `condition` holds; the following code is skipped by warps without such a row.
    pub fn filter(&mut self, condition: &str) {
        let init = format!("{} && {condition}", self.active);
        self.active = self.code.define(CType::Bool, "row", init);
        let header = format!("if (__any_sync(FULL_WARP, {}))", self.active);
        self.code.open(header);
    }

    /// The packed key of `values`, and a `bool` operand for whether all of them are in range and not NULL. `checked`: values may be out of the
    /// shape's ranges.
    pub fn packed_key(&mut self, shape: &KeyShape, values: &[Value], checked: bool) -> (String, String) {
        let KeyShape::Packed { parts, .. } = shape else { unreachable!("keys that are packed") };
        let mut conditions = vec![];
        let mut terms = vec![];
        for (part, value) in parts.iter().zip(values) {
            let min = self.params.value(CType::U64, "min", (part.min as u64).to_le_bytes().to_vec());
            let size = self.params.value(CType::U64, "size", part.size.to_le_bytes().to_vec());
            let offset = self.code.define(CType::U64, "k", format!("(u64){} - {min}", value.text));
            let offset = match (&value.valid, part.null_slot) {
                (Some(valid), true) => {
                    let slot = format!("{valid} ? {offset} : {size} - 1");
                    self.code.define(CType::U64, "k", slot)
                }
                (Some(valid), false) => {
                    conditions.push(valid.clone());
                    offset
                }
                (None, _) => offset,
            };
            if checked {
                let limit = if part.null_slot { format!("{size} - 1") } else { size.clone() };
                let inside = match (value.ty, part.null_slot, &value.valid) {
                    (CType::I128, ..) => {
                        let low = self.params.value(CType::I128, "low", part.min.to_le_bytes().to_vec());
                        format!("{} >= {low} && (u128)({} - {low}) < {limit}", value.text, value.text)
                    }
                    _ => format!("{offset} < {limit}"),
                };
                conditions.push(match (part.null_slot, &value.valid) {
                    (true, Some(valid)) => format!("(!{valid} || ({inside}))"),
                    _ => format!("({inside})"),
                });
            }
            terms.push(if part.stride == 1 && terms.is_empty() {
                offset
            } else {
                let stride = self.params.value(CType::U64, "stride", part.stride.to_le_bytes().to_vec());
                format!("{offset} * {stride}")
            });
        }
        let key = self.code.define(CType::U64, "key", terms.join(" + "));
        let inside = if conditions.is_empty() { "true".into() } else { conditions.join(" && ") };
        (key, inside)
    }

    /// Reserves `bytes` bytes of dynamic shared memory; returns an operand for the offset from `shared` in 8-byte words.
    pub fn shared_memory(&mut self, bytes: usize) -> String {
        let offset = (self.shared / 8) as u32;
        self.shared += bytes.next_multiple_of(16);
        self.params.value(CType::U32, "shared", offset.to_le_bytes().to_vec())
    }

    /// Evaluates a list of expressions over the innermost scope.
    pub fn eval_all(&mut self, exprs: &[Expr]) -> Result<Vec<Value>> {
        exprs.iter().map(|expr| self.eval(expr)).collect()
    }

    /// The arrays of `columns` as parameters: data and validity operands.
    pub fn arrays(&mut self, columns: &[FlatColumn], written: bool) -> Vec<(String, Option<String>)> {
        let mut add = |element: &str, name: String| match written {
            true => self.params.output(element, "col", Binding::Named(name)),
            false => self.params.pointer(element, "col", Binding::Named(name)),
        };
        columns
            .iter()
            .map(|column| {
                let data = add(column.storage.name(), column.buffer.clone());
                let valid = column.nullable.then(|| add("u8", column.valid_buffer()));
                (data, valid)
            })
            .collect()
    }

    /// Loads of row `row` of `columns`.
    pub fn flat_loads(&mut self, columns: &[FlatColumn], row: &str, present: Option<&str>) -> Vec<Load> {
        let arrays = self.arrays(columns, false);
        columns
            .iter()
            .zip(arrays)
            .map(|(column, (data, valid))| Load::Flat {
                column: column.clone(),
                data,
                valid,
                row: row.to_string(),
                present: present.map(str::to_string),
            })
            .collect()
    }

    /// Stores `values` as row `row` of `columns`; the caller has checked that it is within the capacity.
    pub fn store(&mut self, columns: &[FlatColumn], values: &[Value], row: &str) {
        self.store_in(columns, values, row, None);
    }

    /// Like [`Generator::store`]; strings are copied to the memory of build `on_host`, if given.
    pub fn store_in(&mut self, columns: &[FlatColumn], values: &[Value], row: &str, on_host: Option<SinkId>) {
        let arrays = self.arrays(columns, true);
        for ((column, value), (data, valid)) in columns.iter().zip(values).zip(arrays) {
            let keep = if value.ty == CType::Str { self.keep_in(on_host) } else { None };
            let text = keep.map_or_else(|| value.text.clone(), |keep| format!("keep_text({}, {keep})", value.text));
            self.code.line(format!("{data}[{row}] = ({}){text};", column.storage.name()));
            if let Some(valid) = valid {
                self.code.line(format!("{valid}[{row}] = {};", value.valid_text()));
            }
        }
    }

    /// The `Keep` (kernels/text.cuh) that copies strings so that they outlive the kernel; `None` if they do anyway.
    pub fn keep(&mut self) -> Option<String> {
        self.keep_in(None)
    }

    /// Like [`Generator::keep`], with the copies in the memory of build `on_host`, if given.
    fn keep_in(&mut self, on_host: Option<SinkId>) -> Option<String> {
        if !self.passing {
            return None;
        }
        self.params.require(Library::Text);
        let own = if on_host.is_none() { self.params.state() } else { String::new() };
        let mut named = |ty: &str, prefix: &str, name: &str| {
            let binding = Binding::Named(name.into());
            let known =
                self.params.members().iter().find(|member| matches!(&member.binding, Binding::Named(n) if n == name));
            match known {
                Some(member) => format!("p.{}", member.name),
                None => self.params.add(ty.into(), 8, prefix, binding),
            }
        };
        let state = on_host.map_or(own, |id| named("QueryState*", "texts", &host_text(id)));
        let (slots, bytes) = (named("const u8*", "passing", SLOTS), named("u64", "bytes", SLOT_BYTES));
        if !self.hosted {
            return Some(format!("Keep{{{state}, {slots}, {bytes}, nullptr, 0}}"));
        }
        let (hosted, host_bytes) = (named("const u8*", "hosted", HOSTED), named("u64", "bytes", HOSTED_BYTES));
        Some(format!("Keep{{{state}, {slots}, {bytes}, {hosted}, {host_bytes}}}"))
    }

    /// An operand for a value that outlives the kernel. It may copy a string, so it is evaluated only for rows that are stored.
    pub fn lasting(&mut self, value: &Value) -> String {
        let keep = if value.ty == CType::Str { self.keep() } else { None };
        keep.map_or_else(|| value.text.clone(), |keep| format!("keep_text({}, {keep})", value.text))
    }

    /// All columns of the innermost scope, loaded.
    pub fn all_columns(&mut self, fields: &[Field]) -> Result<Vec<Value>> {
        let scope = self.scope();
        (0..fields.len())
            .map(|i| {
                let value = self.column(scope, i)?;
                Ok(widened(&mut self.code, value, fields[i].ty.phys))
            })
            .collect()
    }

    /// The state of sink `id`, which the kernel writes.
    pub fn sink_state(&mut self, id: usize) -> String {
        self.params.output("SinkState", "sink", Binding::Named(format!("sink{id}.state")))
    }
}

/// `value` in representation `phys`, if a sink's field is wider than the column that feeds it.
pub(super) fn widened(code: &mut Code, value: Value, phys: Phys) -> Value {
    let ty = CType::of(phys);
    if value.ty == ty || ty == CType::Str {
        return value;
    }
    let text = code.define(ty, "w", format!("({}){}", ty.name(), value.text));
    Value { text, ty, valid: value.valid }
}
