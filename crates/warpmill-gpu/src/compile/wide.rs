//! Sets of rows with keys of several columns, or one that does not pack into an integer: open addressing on a hash of the columns, which are then
//! compared.

use warpmill_ir::SinkId;

use super::cpp::{CType, Value};
use super::generator::Generator;
use super::hashing::{same_keys, wide_hash};
use super::params::Binding;
use super::storage::FlatColumn;

/// A set of rows. Its buffers are `{owner}.heads` (per slot the row number + 1, or 0), `{owner}.taken` (numbers taken) and the columns; with `marks`
/// also `{owner}.used` (whether a number has a row).
pub struct WideSet<'a> {
    /// Prefix of its buffer names.
    pub owner: String,
    /// Key columns.
    pub columns: &'a [FlatColumn],
    /// Capacity in rows.
    pub capacity: u64,
    /// Whether its rows are enumerated later.
    pub marks: bool,
    /// The columns that distinguish most rows and are cheap to hash: their hash selects the first slots to look at. `None`: the hash of all columns
    /// does.
    pub quick: Option<&'a [usize]>,
}

/// Number of slots looked at by the hash of the quick columns before that of all columns: even if many rows differ in other columns only, probe
/// sequences stay short.
const QUICK_SLOTS: u32 = 4;

/// Slots of a set of `capacity` rows: a power of two.
pub fn slots(capacity: u64) -> u64 {
    (2 * capacity).next_power_of_two().max(1024)
}

/// Finds or inserts the row `values`. Returns a `u64` variable with its number (`EMPTY_KEY` if there is no room, or `guard` does not hold), and a
/// `bool` variable for whether it is new.
///
/// A new row's number is taken and its columns are written before the slot that makes it visible is claimed; a thread that loses the race leaves its
/// number unused.
pub fn claim(g: &mut Generator, id: SinkId, set: &WideSet<'_>, guard: &str, values: &[Value]) -> (String, String) {
    let named = |what: &str| Binding::Named(format!("{}.{what}", set.owner));
    let state = g.sink_state(id);
    let heads = g.params.output("u32", "heads", named("heads"));
    let used = set.marks.then(|| g.params.output("u8", "used", named("used")));
    let taken = g.params.output("u64", "taken", named("taken"));
    let mask = g.params.value(CType::U64, "mask", (slots(set.capacity) - 1).to_le_bytes().to_vec());
    let capacity = g.params.value(CType::U64, "capacity", set.capacity.to_le_bytes().to_vec());
    let arrays: Vec<_> = g.arrays(set.columns, true);
    let found = g.code.variable(CType::U64, "group", "EMPTY_KEY");
    let fresh = g.code.variable(CType::Bool, "fresh", "false");
    let depth = g.code.depth();
    g.code.open(format!("if ({guard})"));
    g.code.line("u32 own = 0;");
    match set.quick {
        Some(columns) => {
            let quick: Vec<Value> = columns.iter().map(|&column| values[column].clone()).collect();
            let hash = wide_hash(g, &quick);
            g.code.line(format!("u64 slot = {hash} & {mask};"));
            g.code.open("for (u32 looked = 1; ; looked++)");
        }
        None => {
            let hash = wide_hash(g, values);
            g.code.open(format!("for (u64 slot = {hash} & {mask}; ; slot = (slot + 1) & {mask})"));
        }
    }
    g.code.line(format!("u32 head = atomicAdd({heads} + slot, 0u);"));
    g.code.open("if (head == 0)");
    g.code.open("if (own == 0)");
    g.code.comment("Once one row has found that there is no room, the others need not count on.");
    g.code.line(format!("if (*(volatile u32*)&{state}->overflow) break;"));
    g.code.line(format!("const u64 number = atomicAdd({taken}, 1ull);"));
    g.code.when(&format!("number >= {capacity}"), |code| {
        code.line(format!("{state}->overflow = 1;"));
        code.line("break;");
    });
    g.code.line("own = (u32)number + 1;");
    for ((column, value), (data, valid)) in set.columns.iter().zip(values).zip(&arrays) {
        let text = g.lasting(value);
        g.code.line(format!("{data}[number] = ({})({text});", column.storage.name()));
        if let Some(valid) = valid {
            g.code.line(format!("{valid}[number] = {};", value.valid_text()));
        }
    }
    g.code.line("__threadfence();");
    g.code.close_to(g.code.depth() - 1);
    g.code.line(format!("head = atomicCAS({heads} + slot, 0u, own);"));
    g.code.when("head == 0", |code| {
        if let Some(used) = used {
            code.line(format!("{used}[own - 1] = 1;"));
        }
        code.line(format!("{fresh} = true;"));
        code.line("head = own;");
    });
    g.code.close_to(g.code.depth() - 1);
    g.code.line("__threadfence();");
    // The columns may have been written by another multiprocessor.
    let same = same_keys(&arrays, values, |array| format!("fresh({array} + (head - 1))"));
    g.code.when(&format!("head == own || ({same})"), |code| {
        code.line(format!("{found} = head - 1;"));
        code.line("break;");
    });
    if set.quick.is_some() {
        g.code.line(format!("slot = (slot + 1) & {mask};"));
        let inner = g.code.depth();
        g.code.open(format!("if (looked == {QUICK_SLOTS})"));
        let hash = wide_hash(g, values);
        g.code.line(format!("slot = {hash} & {mask};"));
        g.code.close_to(inner);
    }
    g.code.close_to(depth);
    (found, fresh)
}
