//! Sources: loops over the rows of sinks and of uploaded columns. Loops over segments are in [`super::scan`].

use warpmill_ir::{BuildRows, Field, SinkId};

use super::cpp::{CType, Value};
use super::generator::Generator;
use super::kernel::sink_count;
use super::layout::{BuildLayout, Table};
use super::params::Binding;

/// Like [`flat`], over the range of rows that the executor passes to each launch.
pub fn window(g: &mut Generator, count: &str) {
    let from = g.params.add("u64".into(), 8, "from", Binding::Named(FROM.into()));
    let to = g.params.add("u64".into(), 8, "to", Binding::Named(TO.into()));
    g.code.line(format!("const u64 all = {count};"));
    flat_between(g, &from, &format!("all < {to} ? all : {to}"));
}

/// Names of the half-open range of rows of a window.
pub const FROM: &str = "window.from";
/// See [`FROM`].
pub const TO: &str = "window.to";

/// Opens the loop over `count` rows (a `u64` operand) of columns in device memory; `row` is the thread's row.
pub fn flat(g: &mut Generator, count: &str) {
    flat_between(g, "", count);
}

fn flat_between(g: &mut Generator, from: &str, count: &str) {
    let from = if from.is_empty() { String::new() } else { format!("{from} + ") };
    g.code.line(format!("const u64 rows = {count};"));
    g.code.line("const u64 stride = (u64)gridDim.x * blockDim.x;");
    g.code.comment("All lanes of a warp stay in the loop until the last of them is done.");
    g.code.open(format!(
        "for (u64 first = {from}(u64)blockIdx.x * blockDim.x + threadIdx.x - lane; first < rows; first += stride)"
    ));
    g.code.line("const u64 row = first + lane;");
    g.code.line("const bool present = row < rows;");
    g.active = "present".into();
}

/// Opens the loop over the rows of a hash build that `rows` selects, with its payload, NULLs for the other `fields`, and the mark of
/// [`BuildRows::Marked`]. `open` opens the loop over a number of rows.
pub fn build_rows(
    g: &mut Generator,
    (id, layout): (SinkId, &BuildLayout),
    rows: BuildRows,
    fields: &[Field],
    open: impl FnOnce(&mut Generator, &str),
) {
    let named = |what: &str| Binding::Named(format!("sink{id}.{what}"));
    let flags = g.params.pointer("u8", "flags", named("flags"));
    match layout.table {
        Table::Bitmap => {
            let bits = g.params.pointer("u32", "bits", named("bits"));
            let keys = g.params.value(CType::U64, "keys", layout.capacity.to_le_bytes().to_vec());
            open(g, &keys);
            g.filter(&format!("bit_test({bits}, row)"));
        }
        _ => {
            let count = sink_count(g, id, layout.capacity);
            open(g, &count);
        }
    }
    match rows {
        BuildRows::Matched => g.filter(&format!("{flags}[row]")),
        BuildRows::Unmatched => g.filter(&format!("!{flags}[row]")),
        BuildRows::Marked => {}
    }
    let loads = g.flat_loads(&layout.payload, "row", None);
    let width = loads.len();
    g.push_loads(loads);
    let marked = rows == BuildRows::Marked;
    let nulls = fields.len() - width - usize::from(marked);
    for field in fields.iter().skip(width).take(nulls) {
        let ty = CType::of(field.ty.phys);
        let zero = g.code.define(ty, "null", ty.zero());
        g.push_value(Value { text: zero, ty, valid: Some("false".into()) });
    }
    if marked {
        let mark = g.code.define(CType::Bool, "mark", format!("{} && {flags}[row]", g.active));
        g.push_value(Value::new(mark, CType::Bool));
    }
}
