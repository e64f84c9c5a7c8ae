//! Tables of few groups in the shared memory of each block, in front of the global table: many rows of few groups would all wait for the same words
//! there. Rows of groups without room go to the global table.

use warpmill_ir::SinkId;

use super::cpp::{CType, Value};
use super::generator::Generator;
use super::group;
use super::layout::{GroupLayout, GroupTable};
use super::updates::{self, Inputs};

/// Generates the code before the row loop: an empty table of `slots` slots.
pub fn prologue(g: &mut Generator, layout: &GroupLayout, slots: u64) {
    let (slots, words) = (slots as usize, layout.words);
    let at = g.shared_memory(slots * (words + 1) * 8 + 8);
    g.code.line(format!("u64* const own_keys = shared + {at};"));
    g.code.line(format!("u64* const records = own_keys + {slots};"));
    g.code.line(format!("u32* const own_full = (u32*)(records + {});", slots * words));
    let total = slots * (words + 1) + 1;
    g.code.line(format!(
        "for (u32 i = threadIdx.x; i < {total}; i += blockDim.x) own_keys[i] = i < {slots} ? EMPTY_KEY : 0;"
    ));
    g.code.line("__syncthreads();");
}

/// Adds the active rows to their groups. Only rows without room remain active.
pub fn accumulate(g: &mut Generator, layout: &GroupLayout, slots: u64, keys: &[Value], inputs: &Inputs<'_>) {
    let (key, _) = g.packed_key(&layout.keys, keys, false);
    let active = g.active.clone();
    g.code.line("bool fresh_own = false;");
    let claim = format!("{active} ? claim_slot(own_keys, {}, {key}, &fresh_own, own_full) : {slots}", slots - 1);
    let own = g.code.define(CType::U64, "own", claim);
    let shared = GroupLayout { table: GroupTable::Shared, ..layout.clone() };
    let depth = g.code.depth();
    g.code.open(format!("if ({own} < {slots})"));
    for slot in &layout.slots {
        let update = updates::update(&shared, slot, &inputs.of(slot), &own, updates::NO_KEEP);
        updates::update_if(g, &inputs.conditions(slot), &update);
    }
    g.code.close_to(depth);
    g.active = g.code.define(CType::Bool, "beyond", format!("{active} && {own} >= {slots}"));
}

/// Generates the code after the row loop: adds the groups to those of the global table.
pub fn merge(g: &mut Generator, id: SinkId, layout: &GroupLayout, slots: u64) {
    let (table, mask) = group::global_table(g, id, layout);
    let state = g.sink_state(id);
    g.code.line("__syncthreads();");
    let depth = g.code.depth();
    g.code.open(format!("for (u32 cell = threadIdx.x; cell < {slots}; cell += blockDim.x)"));
    g.code.line("if (own_keys[cell] == EMPTY_KEY) continue;");
    g.code.line("bool fresh_group = false;");
    let claim = format!("claim_slot({table}, {mask}, own_keys[cell], &fresh_group, &{state}->overflow)");
    g.code.line(format!("const u64 slot = {claim};"));
    g.code.line(format!("if (slot > {mask}) continue;"));
    for slot in &layout.slots {
        let read = |i: usize| format!("records[cell * {} + {}]", layout.words, slot.word + i);
        let target = format!("groups + (slot * {} + {})", layout.words, slot.word);
        g.code.line(updates::merge_global(slot, read, &target, updates::NO_KEEP));
    }
    g.code.close_to(depth);
}
