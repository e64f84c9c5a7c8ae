//! Sinks that store rows: hash builds, collected and sorted rows.

use warpmill_ir::{Expr, Field, SinkId};

use super::cpp::{CType, Value};
use super::generator::{Generator, Result};
use super::hashing::{same_keys, slot_mask, wide_hash};
use super::layout::{BuildLayout, RowsLayout, Table};
use super::params::Binding;
use super::partition;

/// Number of keys of a bitmap from which bits are set without a look at them.
const MANY_KEYS: u64 = 1 << 22;

/// Appends the active rows to `rows` of sink `id`.
pub fn append_rows(g: &mut Generator, id: SinkId, rows: &RowsLayout, fields: &[Field]) -> Result<()> {
    let values = g.all_columns(fields)?;
    let at = append(g, id);
    append_at(g, rows, &values, &at);
    Ok(())
}

/// Appends the active rows, each at the position `rank`, a `u64` operand.
pub fn append_in_order(g: &mut Generator, id: SinkId, rows: &RowsLayout, fields: &[Field], rank: &str) -> Result<()> {
    let values = g.all_columns(fields)?;
    // Only to count the rows.
    append(g, id);
    append_at(g, rows, &values, rank);
    Ok(())
}

/// Reserves a position for each active row; returns the `u64` variable.
pub fn append(g: &mut Generator, id: SinkId) -> String {
    let state = g.sink_state(id);
    let active = g.active.clone();
    g.code.define(CType::U64, "at", format!("append({state}, {active}, lane)"))
}

/// Generates the code before the row loop of a build.
pub fn prologue(g: &mut Generator, layout: &BuildLayout) {
    if layout.reserves {
        g.code.line("Reserved reserved = {0, 0};");
    }
    if layout.is_linked() {
        g.code.line("u64 linked = NOT_LINKED;");
        g.code.line("u32 before = 0;");
    }
    for (key, ..) in &layout.bounds {
        g.code.line(format!("u64 least{key} = 0, greatest{key} = 0, rows{key} = 0;"));
    }
}

/// Generates the code after the row loop of build `id`.
pub fn epilogue(g: &mut Generator, id: SinkId, layout: &BuildLayout) {
    if layout.is_linked() {
        end_link(g, id);
    }
    if layout.flags_unused {
        let [flags, capacity] = flags(g, id, layout);
        g.code.line(format!("flag_unused({flags}, {capacity}, lane, reserved);"));
    }
    for (key, ..) in &layout.bounds {
        let bounds = g.params.output("KeyBounds", "bounds", Binding::Named(format!("sink{id}.bounds{key}")));
        g.code.line(format!("add_bounds({bounds}, least{key}, greatest{key}, rows{key}, lane);"));
    }
}

/// Like [`append`], for layouts that tolerate unused positions.
fn append_reserved(g: &mut Generator, id: SinkId, layout: &BuildLayout) -> String {
    let state = g.sink_state(id);
    let active = g.active.clone();
    if layout.flags_unused {
        let [flags, capacity] = flags(g, id, layout);
        let at = format!("append_flagged({state}, {active}, lane, &reserved, {flags}, {capacity})");
        return g.code.define(CType::U64, "at", at);
    }
    g.code.define(CType::U64, "at", format!("append_reserved({state}, {active}, lane, &reserved)"))
}

/// Operands of the match flags, and of the number of rows that have one.
fn flags(g: &mut Generator, id: SinkId, layout: &BuildLayout) -> [String; 2] {
    let flags = g.params.output("u8", "flags", Binding::Named(format!("sink{id}.flags")));
    [flags, g.params.value(CType::U64, "capacity", layout.capacity.to_le_bytes().to_vec())]
}

/// Stores `values` at position `at`, if it is within the capacity.
pub fn append_at(g: &mut Generator, rows: &RowsLayout, values: &[Value], at: &str) {
    let capacity = g.params.value(CType::U64, "capacity", rows.capacity.to_le_bytes().to_vec());
    let depth = g.code.depth();
    g.code.open(format!("if ({} && {at} < {capacity})", g.active));
    g.store(&rows.columns, values, at);
    g.code.close_to(depth);
}

/// Adds the active rows to hash build `id`. `payload` are input columns.
pub fn build(g: &mut Generator, id: SinkId, layout: &BuildLayout, keys: &[Expr], payload: &[usize]) -> Result<()> {
    let key_values = g.eval_all(keys)?;
    let scope = g.scope();
    let values = payload.iter().map(|&column| g.column(scope, column)).collect::<Result<Vec<_>>>()?;
    let state = g.sink_state(id);
    let named = |what: &str| Binding::Named(format!("sink{id}.{what}"));
    let active = g.active.clone();
    let mut keyed = active.clone();
    if !layout.null_equals_null {
        let valid: Vec<String> = key_values.iter().filter_map(|value| value.valid.clone()).collect();
        if !valid.is_empty() {
            keyed = g.code.define(CType::Bool, "keyed", format!("{active} && {}", valid.join(" && ")));
            g.code.line(format!("if ({active} && !{keyed}) {state}->has_null = 1;"));
        }
    }
    if let Some(partition) = &layout.partition {
        // Existence of rows, and of NULLs, is recorded for all parts together.
        g.code.line(format!("if ({active} && !{state}->seen) {state}->seen = 1;"));
        let had = keyed != active;
        partition.keep_own(g, id, &layout.keys, &key_values, &keyed);
        let active = g.active.clone();
        keyed = if had { g.code.define(CType::Bool, "keyed", format!("{active} && {keyed}")) } else { active };
    }
    note_keys(g, id, layout, &key_values, &keyed);
    let on_host = layout.on_host.then_some(id);
    match layout.table {
        Table::Bitmap => {
            let (key, _) = g.packed_key(&layout.keys, &key_values, false);
            let key = partition::within(g, layout.partition.as_ref(), id, key);
            let bits = g.params.output("u32", "bits", named("bits"));
            let depth = g.code.depth();
            g.code.open(format!("if ({keyed})"));
            g.code.line(format!("if (bit_set({bits}, {key})) {state}->duplicate = 1;"));
            g.code.line(format!("if ({state}->count == 0) {state}->count = 1;"));
            g.store_in(&layout.payload, &values, &key, on_host);
            g.code.close_to(depth);
        }
        Table::All | Table::Direct | Table::Hash | Table::Wide => {
            let at = if layout.reserves { append_reserved(g, id, layout) } else { append(g, id) };
            let depth = g.code.depth();
            store_row(g, id, layout, &at, &values);
            match layout.table {
                Table::Direct | Table::Hash => link(g, id, layout, &key_values, &keyed, &at),
                Table::Wide => {
                    g.store(&layout.key_columns, &key_values, &at);
                    let linked = g.params.output("u8", "keyed", named("keyed"));
                    g.code.line(format!("{linked}[{at}] = {keyed};"));
                }
                _ => {}
            }
            g.code.close_to(depth);
        }
    }
    Ok(())
}

/// Records the keys of a row whose keys are not NULL, for scans that they prune.
pub fn note_keys(g: &mut Generator, id: SinkId, layout: &BuildLayout, keys: &[Value], keyed: &str) {
    for (key, part) in &layout.bitmaps {
        let bits = g.params.output("u32", "bits", Binding::Named(format!("sink{id}.bits{key}")));
        let min = g.params.value(CType::U64, "min", (part.min as u64).to_le_bytes().to_vec());
        let bit = g.code.define(CType::U64, "bit", format!("{keyed} ? (u64){} - {min} : 0", keys[*key].text));
        // Bits of few keys are set already when most rows arrive; those of many are spread over memory, and waiting for them takes longer than setting.
        let unset = if part.size < MANY_KEYS { format!(" && !bit_test({bits}, {bit})") } else { String::new() };
        g.code.line(format!("if ({keyed}{unset}) bit_set({bits}, {bit});"));
    }
    for (key, part, _) in &layout.bounds {
        let min = g.params.value(CType::U64, "min", (part.min as u64).to_le_bytes().to_vec());
        let offset = g.code.define(CType::U64, "k", format!("(u64){} - {min}", keys[*key].text));
        g.code.when(keyed, |code| {
            code.line(format!("if (~{offset} > least{key}) least{key} = ~{offset};"));
            code.line(format!("if ({offset} > greatest{key}) greatest{key} = {offset};"));
            code.line(format!("rows{key}++;"));
        });
    }
}

/// Stores the payload of each active row at position `at`, if it is within the capacity. Leaves the block open for the row's other data.
pub fn store_row(g: &mut Generator, id: SinkId, layout: &BuildLayout, at: &str, payload: &[Value]) {
    let capacity = g.params.value(CType::U64, "capacity", layout.capacity.to_le_bytes().to_vec());
    g.code.open(format!("if ({} && {at} < {capacity})", g.active));
    g.store_in(&layout.payload, payload, at, layout.on_host.then_some(id));
}

/// Stores the link of the row that a thread inserted last. That is done when the next one is inserted, instead of waiting for the exchange of heads.
fn end_link(g: &mut Generator, id: SinkId) {
    let next = g.params.output("u32", "next", Binding::Named(format!("sink{id}.next")));
    let state = g.sink_state(id);
    g.code.when("linked != NOT_LINKED", |code| {
        code.line(format!("{next}[linked] = before;"));
        code.line(format!("if (before) {state}->duplicate = 1;"));
    });
}

/// Inserts row `at` at the head of its key's list.
fn link(g: &mut Generator, id: SinkId, layout: &BuildLayout, keys: &[Value], keyed: &str, at: &str) {
    let named = |what: &str| Binding::Named(format!("sink{id}.{what}"));
    let state = g.sink_state(id);
    let heads = g.params.output("u32", "heads", named("heads"));
    let next = g.params.output("u32", "next", named("next"));
    g.code.line(format!("{next}[{at}] = 0;"));
    let (key, _) = g.packed_key(&layout.keys, keys, false);
    let depth = g.code.depth();
    g.code.open(format!("if ({keyed})"));
    let slot = match layout.table {
        Table::Hash => {
            let mask = slot_mask(g, layout);
            let table = g.params.output("u64", "keys", named("keys"));
            g.code.line("bool fresh = false;");
            let slot = format!("claim_slot({table}, {mask}, {key}, &fresh, &{state}->overflow)");
            let slot = g.code.define(CType::U64, "slot", slot);
            g.code.open(format!("if ({slot} <= {mask})"));
            slot
        }
        _ => partition::within(g, layout.partition.as_ref(), id, key),
    };
    end_link(g, id);
    g.code.line(format!("before = atomicExch({heads} + {slot}, (u32){at} + 1);"));
    g.code.line(format!("linked = {at};"));
    g.code.close_to(depth);
}

/// Links the rows of a [`Table::Wide`] build, after all have been appended. The caller has opened a loop over its rows.
pub fn link_wide(g: &mut Generator, id: SinkId, layout: &BuildLayout) {
    let named = |what: &str| Binding::Named(format!("sink{id}.{what}"));
    let state = g.sink_state(id);
    let heads = g.params.output("u32", "heads", named("heads"));
    let next = g.params.output("u32", "next", named("next"));
    let linked = g.params.pointer("u8", "keyed", named("keyed"));
    let mask = slot_mask(g, layout);
    g.code.line(format!("const bool keyed = present && {linked}[row];"));
    g.active = "keyed".into();
    let loads = g.flat_loads(&layout.key_columns, "row", None);
    g.push_loads(loads);
    let scope = g.scope();
    let values: Vec<Value> =
        (0..layout.key_columns.len()).map(|i| g.column(scope, i).expect("stored columns load")).collect();
    let arrays = g.arrays(&layout.key_columns, false);
    g.code.line(format!("if (present) {next}[row] = 0;"));
    let depth = g.code.depth();
    g.code.open("if (keyed)");
    let hash = wide_hash(g, &values);
    g.code.open(format!("for (u64 slot = {hash} & {mask}; ; slot = (slot + 1) & {mask})"));
    g.code.line(format!("const u32 head = atomicCAS({heads} + slot, 0u, (u32)row + 1);"));
    g.code.line("if (head == 0) break;");
    let same = same_keys(&arrays, &values, |array| format!("{array}[head - 1]"));
    g.code.open(format!("if ({same})"));
    g.code.comment("Behind the first row of the key: its link is only ever exchanged.");
    g.code.line(format!("atomicExch({next} + row, atomicExch({next} + (head - 1), (u32)row + 1));"));
    g.code.line(format!("{state}->duplicate = 1;"));
    g.code.line("break;");
    g.code.close_to(depth);
}
