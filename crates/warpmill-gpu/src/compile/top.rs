//! Top-k: the first rows of a sort. Each appended row has an image of its first sort key, an unsigned number in the order of the key. The image at
//! the last wanted rank is a threshold for all rows that may be in the result; these are copied to separate columns, which the host fetches and
//! sorts. Rows with equal images are all kept: the host decides between them.

use warpmill_ir::{ColType, Expr, ExprKind, Field, Phys, Sink, SinkId, SortKey};

use super::build::{append, append_at};
use super::cpp::{CType, Code, Value};
use super::expr::context::{Context, Memo};
use super::generator::{Generator, Result};
use super::keys::bounds;
use super::layout::{Digit, RowsLayout, Top};
use super::params::{Binding, Params};
use super::source;
use super::storage::{FlatColumn, Storage};
use crate::kernels::library::Library;

/// Bytes of a `Selection` (kernels/topk.cuh).
pub const SELECTION_BYTES: u64 = 24 + 8 * (1 << DIGIT_BITS);

/// Bits per launch of a radix select (kernels/topk.cuh).
const DIGIT_BITS: u32 = 11;

/// Number of rows up to which all rows are fetched and sorted.
const FEW_ROWS: u64 = 16 << 10;

/// Least capacity for selected rows.
const ROOM: u64 = 64 << 10;

impl Top {
    /// The selection for sort `sink` of capacity `capacity`; `None` if it is not a sort with a small limit, has few rows, or its first key is not
    /// computed on the device.
    pub fn of(id: SinkId, sink: &Sink, capacity: u64) -> Option<Self> {
        let Sink::Sort { keys, skip, fetch: Some(fetch), fields } = sink else { return None };
        let limit = skip.saturating_add(*fetch);
        let key = keys.first().filter(|key| is_computable(&key.expr, fields))?;
        if limit == 0 || capacity <= FEW_ROWS || limit > capacity / 8 {
            return None;
        }
        let owner = format!("sink{id}.top");
        let order = FlatColumn {
            buffer: format!("{owner}.order"),
            ty: CType::U64,
            storage: Storage::Whole(CType::U64),
            nullable: false,
        };
        let columns = FlatColumn::all(&owner, fields);
        let rows = RowsLayout { columns, capacity: ROOM.max(4 * limit).min(capacity), ..RowsLayout::default() };
        // Enough rows that another launch would cost more than copying them to the host.
        let enough = (2 * limit).max(256);
        Some(Self { limit, enough, order, bits: Image::of(&key.expr.ty).bits(), rows, owner })
    }

    /// Name of the buffer of the `Selection`.
    pub fn selection(&self) -> String {
        format!("{}.selection", self.owner)
    }

    /// The digits of the images, most significant first.
    pub fn digits(&self) -> Vec<Digit> {
        let count = self.bits.div_ceil(DIGIT_BITS);
        let digit = |index: u32| {
            let end = 64 - DIGIT_BITS * index;
            let bits = DIGIT_BITS.min(end);
            Digit { shift: end - bits, bits, last: index + 1 == count }
        };
        (0..count).map(digit).collect()
    }
}

/// Name of the `SinkState` of the selected rows of sink `id`.
pub fn state(id: SinkId) -> String {
    format!("sink{id}.top.state")
}

/// The mapping of a value to 64 bits in the order of values; different values may have the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Image {
    /// The distance from the least value, in the upper bits.
    Distance {
        /// The least value.
        least: i128,
        /// Bits of the greatest distance: 1 to 64.
        bits: u32,
    },
    /// `order_bits`.
    Bits,
    /// `order_bits` of the nearest float: for 128-bit values, whose upper halves are mostly equal.
    Float,
}

impl Image {
    fn of(ty: &ColType) -> Self {
        if matches!(ty.phys, Phys::F32 | Phys::F64 | Phys::Str) {
            return Image::Bits;
        }
        let (least, most) = bounds(ty);
        match 128 - (most.max(least).wrapping_sub(least) as u128).leading_zeros() {
            bits @ 0..=64 => Image::Distance { least, bits: bits.max(1) },
            _ => Image::Float,
        }
    }

    fn bits(self) -> u32 {
        match self {
            Image::Distance { bits, .. } => bits,
            Image::Bits | Image::Float => 64,
        }
    }
}

/// Whether the device can compute `expr` over rows of `fields` for all values, without errors or strings.
pub fn is_computable(expr: &Expr, fields: &[Field]) -> bool {
    if matches!(expr.kind, ExprKind::Column(_)) {
        return true;
    }
    let column = |field: &Field| {
        let value = Value::new("x", CType::of(field.ty.phys));
        Some(value.with_valid(field.ty.nullable.then(|| "ok".into())))
    };
    let columns: Vec<Option<Value>> = fields.iter().map(column).collect();
    let (mut code, mut params) = (Code::default(), Params::default());
    let mut context = Context {
        code: &mut code,
        params: &mut params,
        columns: &columns,
        guard: "true".into(),
        memo: Memo::default(),
    };
    let supported = context.emit(expr).is_ok();
    // Expressions that use the query's state raise errors, or make strings.
    supported && !params.members().iter().any(|member| matches!(member.binding, Binding::State))
}

/// The image of the current row's key; smaller images come first.
fn image(g: &mut Generator, key: &SortKey) -> Result<Value> {
    let value = g.eval(&key.expr)?;
    let x = &value.text;
    g.params.require(Library::TopK);
    let bits = match Image::of(&key.expr.ty) {
        Image::Distance { least, bits } => {
            let least = g.params.value(CType::U64, "least", (least as u64).to_le_bytes().to_vec());
            let unused = g.params.value(CType::U32, "unused", (64 - bits).to_le_bytes().to_vec());
            format!("((u64){x} - {least}) << {unused}")
        }
        Image::Bits => format!("order_bits({x})"),
        Image::Float => {
            g.params.require(Library::Cast);
            format!("order_bits(f64_of((i128){x}))")
        }
    };
    let bits = if key.descending { format!("~({bits})") } else { bits };
    let null = if key.nulls_first { "0ull" } else { "~0ull" };
    let there = value.valid.map_or(g.active.clone(), |valid| format!("{} && {valid}", g.active));
    let text = g.code.define(CType::U64, "order", format!("{there} ? {bits} : {null}"));
    Ok(Value::new(text, CType::U64))
}

/// Appends the active rows, with their images, to `rows` of sink `id`.
pub fn append_rows(
    g: &mut Generator,
    id: SinkId,
    rows: &RowsLayout,
    top: &Top,
    key: &SortKey,
    fields: &[Field],
) -> Result<()> {
    let mut values = g.all_columns(fields)?;
    // The key refers to the sink's columns, which may be wider than the input.
    g.push_loads([]);
    values.iter().for_each(|value| g.push_value(value.clone()));
    values.push(image(g, key)?);
    let at = append(g, id);
    let columns = rows.columns.iter().chain([&top.order]).cloned().collect();
    append_at(g, &RowsLayout { columns, capacity: rows.capacity, ..RowsLayout::default() }, &values, &at);
    Ok(())
}

/// Generates the selection of one digit of the threshold. `count` is the number of rows.
pub fn select(g: &mut Generator, top: &Top, digit: &Digit, count: &str) {
    g.params.require(Library::TopK);
    let words = g.arrays(std::slice::from_ref(&top.order), false)[0].0.clone();
    let selection = g.params.output("Selection", "selection", Binding::Named(top.selection()));
    let limits = [top.limit, top.enough].map(|rows| g.params.value(CType::U64, "rows", rows.to_le_bytes().to_vec()));
    let digit = [digit.shift, digit.bits, digit.last.into()];
    let digit = digit.map(|word| g.params.value(CType::U32, "digit", word.to_le_bytes().to_vec()));
    g.code.line(format!("const SelectDigit digit = {{{}, {}}};", limits.join(", "), digit.join(", ")));
    g.code.line(format!("select_digit({words}, {count}, digit, {selection});"));
}

/// Generates the copy of the rows whose images do not exceed the threshold. `count` is the number of rows.
pub fn copy_rows(g: &mut Generator, id: SinkId, rows: &RowsLayout, top: &Top, count: &str) -> Result<()> {
    g.params.require(Library::TopK);
    let words = g.arrays(std::slice::from_ref(&top.order), false)[0].0.clone();
    let selection = g.params.pointer("Selection", "selection", Binding::Named(top.selection()));
    g.code.line(format!("const u64 threshold = {selection}->threshold;"));
    source::flat(g, count);
    g.filter(&format!("{words}[row] <= threshold"));
    let loads = g.flat_loads(&rows.columns, "row", None);
    g.push_loads(loads);
    let scope = g.scope();
    let values = (0..rows.columns.len()).map(|i| g.column(scope, i)).collect::<Result<Vec<_>>>()?;
    let state = g.params.output("SinkState", "sink", Binding::Named(state(id)));
    let active = g.active.clone();
    let at = g.code.define(CType::U64, "at", format!("append({state}, {active}, lane)"));
    append_at(g, &top.rows, &values, &at);
    g.code.close_to(1);
    Ok(())
}

#[cfg(test)]
mod tests;
