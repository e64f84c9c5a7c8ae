//! Aggregation: accumulators in registers, shared or global memory, and the kernel that turns records into rows.

use arrow::datatypes::DataType;
use warpmill_ir::{AggregateFunction, ColType, Expr, Field, PairFunction, Phys, SinkId, Unsupported};

use super::build::append_at;
use super::cpp::{CType, Value};
use super::generator::{Generator, Result};
use super::keys::KeyShape;
use super::layout::{Accumulator, GroupLayout, GroupTable, Slot};
use super::own_groups;
use super::params::Binding;
use super::partition;
use super::updates::{self, Inputs, PAIR_COUNT};
use super::wide::{self, WideSet};
use crate::kernels::library::Library;

/// Threads of a block with a record per thread: few enough for the records to fit.
pub const PRIVATE_BLOCK: u32 = 128;

/// Generates the code before the row loop: accumulators in registers or shared memory.
pub fn prologue(g: &mut Generator, id: SinkId, layout: &GroupLayout) {
    let records = g.params.output("u64", "groups", Binding::Named(format!("sink{id}.groups")));
    g.code.line(format!("u64* const groups = {records};"));
    let words = layout.words;
    let cells = layout.cells;
    layout.slots.iter().filter_map(|slot| slot.accumulator.library()).for_each(|part| g.params.require(part));
    g.code.line("u64 input = 0;");
    match layout.table {
        GroupTable::One => {
            for word in 0..words {
                g.code.line(format!("u64 acc{word} = 0;"));
            }
        }
        GroupTable::Private => {
            let at = g.shared_memory(cells as usize * words * 8 * PRIVATE_BLOCK as usize);
            g.code.comment("records[word][thread]: no two threads share a word, and a warp's words lie side by side.");
            g.code.line(format!("u64* const records = shared + {at};"));
            g.code.line(format!(
                "for (u32 i = 0; i < {}; i++) records[i * blockDim.x + threadIdx.x] = 0;",
                cells as usize * words
            ));
        }
        GroupTable::Shared => {
            let at = g.shared_memory(cells as usize * words * 8);
            g.code.line(format!("u64* const records = shared + {at};"));
            let total = cells as usize * words;
            g.code.line(format!("for (u32 i = threadIdx.x; i < {total}; i += blockDim.x) records[i] = 0;"));
            g.code.line("__syncthreads();");
        }
        GroupTable::Dense if layout.combined => {
            g.runs = true;
            g.code.line("u64 run = EMPTY_KEY;");
            for word in 0..words {
                g.code.line(format!("u64 acc{word} = 0;"));
            }
        }
        GroupTable::Hash => {
            if let Some(slots) = layout.own_slots {
                own_groups::prologue(g, layout, slots);
            }
        }
        GroupTable::Dense | GroupTable::Wide => {}
    }
}

/// Adds the active rows to their groups.
pub fn accumulate(g: &mut Generator, id: SinkId, layout: &GroupLayout, groups: &[Expr]) -> Result<()> {
    let mut active = g.active.clone();
    if let Some(partition) = &layout.partition {
        let keys = g.eval_all(groups)?;
        partition.keep_own(g, id, &layout.keys, &keys, &active);
        active = g.active.clone();
    }
    g.code.line(format!("input += {active};"));
    let keys = g.eval_all(groups)?;
    let arguments = g.eval_all(&layout.arguments)?;
    let filters = g.eval_all(&layout.filters)?;
    let depth = g.code.depth();
    let inputs = Inputs { arguments: &arguments, filters: &filters };
    if let Some(slots) = layout.own_slots {
        own_groups::accumulate(g, layout, slots, &keys, &inputs);
    }
    let cell = find_group(g, id, layout, &keys);
    let fresh = distinct(g, id, layout, &arguments, &filters, &cell);
    if layout.table != GroupTable::One {
        g.code.open(format!("if ({})", g.active));
    }
    let is_counted = layout.counted.is_some_and(|slot| inputs.conditions(&layout.slots[slot]).is_empty());
    let mark = (layout.marked && !is_counted).then(|| {
        let marks = g.params.output("u32", "marks", Binding::Named(format!("sink{id}.marks")));
        format!("if (!bit_test({marks}, {cell})) bit_set({marks}, {cell});")
    });
    if layout.combined {
        let inner = g.code.depth();
        g.code.open(format!("if (run != {cell})"));
        end_run(g, layout);
        g.code.line(format!("run = {cell};"));
        mark.into_iter().for_each(|mark| g.code.line(mark));
        g.code.close_to(inner);
    } else {
        mark.into_iter().for_each(|mark| g.code.line(mark));
    }
    for slot in &layout.slots {
        let mut conditions = inputs.conditions(slot);
        if let Some(set) = slot.input.distinct {
            conditions.push(fresh[set].clone());
        }
        if layout.table == GroupTable::One {
            conditions.insert(0, g.active.clone());
        }
        let keep = updates::keep(g, slot);
        let update = updates::update(layout, slot, &inputs.of(slot), &cell, &keep);
        updates::update_if(g, &conditions, &update);
    }
    g.code.close_to(depth);
    g.active = active;
    Ok(())
}

/// The record index of each active row's group, a `u64` variable; rows without room become inactive.
fn find_group(g: &mut Generator, id: SinkId, layout: &GroupLayout, keys: &[Value]) -> String {
    let active = g.active.clone();
    match layout.table {
        GroupTable::One => "0".into(),
        GroupTable::Private | GroupTable::Shared | GroupTable::Dense => {
            let (key, _) = g.packed_key(&layout.keys, keys, false);
            partition::within(g, layout.partition.as_ref(), id, key)
        }
        GroupTable::Hash => {
            let (key, _) = g.packed_key(&layout.keys, keys, false);
            let (table, mask) = global_table(g, id, layout);
            let state = g.sink_state(id);
            g.code.line("bool fresh_group = false;");
            let slot = format!("{active} ? claim_slot({table}, {mask}, {key}, &fresh_group, &{state}->overflow) : 0");
            let slot = g.code.define(CType::U64, "slot", slot);
            g.active = g.code.define(CType::Bool, "room", format!("{active} && {slot} <= {mask}"));
            slot
        }
        GroupTable::Wide => {
            let owner = format!("sink{id}");
            let quick = layout.quick.as_deref();
            let set = WideSet { owner, columns: &layout.key_columns, capacity: layout.cells, marks: true, quick };
            let (group, _) = wide::claim(g, id, &set, &active, keys);
            g.active = g.code.define(CType::Bool, "room", format!("{active} && {group} != EMPTY_KEY"));
            group
        }
    }
}

/// For each distinct set, a `bool` variable: whether the row's value is new to its group.
fn distinct(
    g: &mut Generator,
    id: SinkId,
    layout: &GroupLayout,
    arguments: &[Value],
    filters: &[Value],
    cell: &str,
) -> Vec<String> {
    let mut fresh = vec![];
    for (index, set) in layout.distinct.iter().enumerate() {
        let value = arguments[set.argument].clone();
        let mut guard = g.active.clone();
        for condition in value.valid.iter().cloned().chain(set.filter.map(|filter| filters[filter].is_true())) {
            guard = format!("{guard} && {condition}");
        }
        fresh.push(match set.columns.is_empty() {
            true => packed_member(g, id, layout, index, &value, (&guard, cell)),
            false => {
                let owner = format!("sink{id}.set{index}");
                let capacity = layout.distinct_slots / 2;
                let members = WideSet { owner, columns: &set.columns, capacity, marks: false, quick: None };
                let group = g.code.define(CType::U64, "of", format!("(u64){cell}"));
                wide::claim(g, id, &members, &guard, &[Value::new(group, CType::U64), value.with_valid(None)]).1
            }
        });
    }
    fresh
}

/// Whether a value is new to distinct set `index`, for values that pack into an integer with their group `cell`.
fn packed_member(
    g: &mut Generator,
    id: SinkId,
    layout: &GroupLayout,
    index: usize,
    value: &Value,
    (guard, cell): (&str, &str),
) -> String {
    let ty = layout.arguments[layout.distinct[index].argument].ty.clone();
    let table = g.params.output("u64", "set", Binding::Named(format!("sink{id}.set{index}")));
    let mask = g.params.value(CType::U64, "mask", (layout.distinct_slots - 1).to_le_bytes().to_vec());
    let state = g.sink_state(id);
    let shape = KeyShape::of([&ty.with_nullable(false)], false);
    let KeyShape::Packed { parts, cells } = shape else { unreachable!("checked with the layout") };
    let min = g.params.value(CType::U64, "min", (parts[0].min as u64).to_le_bytes().to_vec());
    let size = g.params.value(CType::U64, "size", cells.to_le_bytes().to_vec());
    let flag = g.code.variable(CType::Bool, "fresh", "false");
    g.code.when(guard, |code| {
        code.line(format!("const u64 member = (u64){cell} * {size} + ((u64){} - {min});", value.text));
        code.line(format!("claim_slot({table}, {mask}, member, &{flag}, &{state}->overflow);"));
    });
    flag
}

/// Generates the code after the row loop: adds registers and shared memory to the records in global memory.
pub fn epilogue(g: &mut Generator, id: SinkId, layout: &GroupLayout) {
    let state = g.sink_state(id);
    g.code.line("input = warp_sum(input);");
    g.code.line(format!("if (lane == 0 && input) atomicAdd(&{state}->input, input);"));
    match layout.table {
        GroupTable::One => {
            for slot in &layout.slots {
                let own = |i: usize| format!("acc{}", slot.word + i);
                updates::merge_warp(g, slot, &format!("groups + {}", slot.word), own);
            }
        }
        GroupTable::Private => {
            g.code.comment("Each warp adds up some of the records' words over all threads.");
            g.code.line("__syncthreads();");
            let depth = g.code.depth();
            g.code.open(format!("for (u32 cell = threadIdx.x / 32; cell < {}; cell += blockDim.x / 32)", layout.cells));
            for slot in &layout.slots {
                let inner = g.code.depth();
                g.code.open("");
                for word in 0..slot.accumulator.own_words() {
                    g.code.line(format!("u64 acc{} = 0;", slot.word + word));
                }
                g.code.open("for (u32 thread = lane; thread < blockDim.x; thread += 32)");
                let read =
                    |i: usize| format!("records[(cell * {} + {}) * blockDim.x + thread]", layout.words, slot.word + i);
                let merge = updates::merge_words(slot, read, |i| format!("acc{}", slot.word + i));
                g.code.line(merge);
                g.code.close_to(inner + 1);
                let target = format!("groups + ((u64)cell * {} + {})", layout.words, slot.word);
                updates::merge_warp(g, slot, &target, |i| format!("acc{}", slot.word + i));
                g.code.close_to(inner);
            }
            g.code.close_to(depth);
        }
        GroupTable::Shared => {
            g.code.line("__syncthreads();");
            let depth = g.code.depth();
            g.code.open(format!("for (u32 cell = threadIdx.x; cell < {}; cell += blockDim.x)", layout.cells));
            let presence = layout.presence.map_or(0, |slot| layout.slots[slot].word);
            g.code.line(format!("if (!records[cell * {} + {presence}]) continue;", layout.words));
            for slot in &layout.slots {
                let read = |i: usize| format!("records[cell * {} + {}]", layout.words, slot.word + i);
                let target = format!("groups + ((u64)cell * {} + {})", layout.words, slot.word);
                let keep = updates::keep(g, slot);
                g.code.line(updates::merge_global(slot, read, &target, &keep));
            }
            g.code.close_to(depth);
        }
        GroupTable::Dense if layout.combined => end_run(g, layout),
        GroupTable::Hash => {
            if let Some(slots) = layout.own_slots {
                own_groups::merge(g, id, layout, slots);
            }
        }
        GroupTable::Dense | GroupTable::Wide => {}
    }
}

/// Operands of the keys of the global table, and the mask of its slots.
pub(super) fn global_table(g: &mut Generator, id: SinkId, layout: &GroupLayout) -> (String, String) {
    let table = g.params.output("u64", "keys", Binding::Named(format!("sink{id}.keys")));
    (table, g.params.value(CType::U64, "mask", (layout.cells - 1).to_le_bytes().to_vec()))
}

/// Adds a thread's sums over consecutive rows of one group to the group's record.
fn end_run(g: &mut Generator, layout: &GroupLayout) {
    let depth = g.code.depth();
    g.code.open("if (run != EMPTY_KEY)");
    for slot in &layout.slots {
        let target = format!("groups + (run * {} + {})", layout.words, slot.word);
        let keep = updates::keep(g, slot);
        let merge = updates::merge_global(slot, |i| format!("acc{}", slot.word + i), &target, &keep);
        g.code.line(merge);
        for word in 0..slot.accumulator.words() {
            g.code.line(format!("acc{} = 0;", slot.word + word));
        }
    }
    g.code.close_to(depth);
}

/// Generates the kernel that turns records into rows, one thread per record.
pub fn finish(g: &mut Generator, id: SinkId, layout: &GroupLayout, groups: &[Expr], fields: &[Field]) -> Result<()> {
    let words = layout.words;
    let records = g.params.pointer("u64", "records", Binding::Named(format!("sink{id}.groups")));
    let exists = match layout.table {
        GroupTable::One => "present".to_string(),
        GroupTable::Dense if layout.marked => {
            let marks = g.params.pointer("u32", "marks", Binding::Named(format!("sink{id}.marks")));
            let counted =
                layout.counted.map(|slot| format!(" || {records}[row * {words} + {}] != 0", layout.slots[slot].word));
            format!("present && (bit_test({marks}, row){})", counted.unwrap_or_default())
        }
        GroupTable::Private | GroupTable::Shared | GroupTable::Dense => {
            let word = layout.presence.map_or(0, |slot| layout.slots[slot].word);
            format!("present && {records}[row * {words} + {word}] != 0")
        }
        GroupTable::Hash => {
            let keys = g.params.pointer("u64", "keys", Binding::Named(format!("sink{id}.keys")));
            g.code.line(format!("const u64 packed = present ? {keys}[row] : EMPTY_KEY;"));
            "packed != EMPTY_KEY".into()
        }
        GroupTable::Wide => {
            let used = g.params.pointer("u8", "used", Binding::Named(format!("sink{id}.used")));
            format!("present && {used}[row]")
        }
    };
    g.active = g.code.define(CType::Bool, "group", exists);
    g.code.line(format!("if (!__any_sync(FULL_WARP, {})) continue;", g.active));
    let state = g.sink_state(id);
    let active = g.active.clone();
    let at = match layout.rows.reserves {
        true => format!("append_reserved({state}, {active}, lane, &reserved)"),
        false => format!("append({state}, {active}, lane)"),
    };
    let at = g.code.define(CType::U64, "at", at);
    if layout.rows.reserves {
        let live = g.params.output("u8", "live", Binding::Named(format!("sink{id}.live")));
        let capacity = g.params.value(CType::U64, "capacity", layout.rows.capacity.to_le_bytes().to_vec());
        g.code.line(format!("if ({active} && {at} < {capacity}) {live}[{at}] = 1;"));
    }
    let mut values = key_values(g, id, layout, groups, fields);
    g.code.line(format!("const u64* const record = {records} + (present ? row : 0) * {words};"));
    for (output, field) in layout.outputs.iter().zip(&fields[groups.len()..]) {
        let argument = output.argument.map(|argument| layout.arguments[argument].ty.clone());
        let count = output.count.map(|slot| format!("record[{}]", layout.slots[slot].word));
        // The variance of a sample of one value is NULL.
        let least = u32::from(matches!(output.function, AggregateFunction::VarSamp | AggregateFunction::StddevSamp));
        let enough = |count: &String| g.code.define(CType::Bool, "any", format!("{active} && {count} > {least}"));
        let valid = count.as_ref().map(enough);
        let value = result(g, layout.slots[output.slot], output.function, argument.as_ref(), field, valid, count)?;
        values.push(value);
    }
    append_at(g, &layout.rows, &values, &at);
    Ok(())
}

/// The group keys of record `row`.
fn key_values(g: &mut Generator, id: SinkId, layout: &GroupLayout, groups: &[Expr], fields: &[Field]) -> Vec<Value> {
    let KeyShape::Packed { parts, .. } = &layout.keys else {
        if layout.table != GroupTable::Wide {
            return vec![];
        }
        let loads = g.flat_loads(&layout.key_columns, "row", None);
        g.push_loads(loads);
        let scope = g.scope();
        return (0..groups.len()).map(|i| g.column(scope, i).expect("stored columns load")).collect();
    };
    let packed = match (layout.table, &layout.partition) {
        (GroupTable::Hash, _) => "packed".into(),
        (_, Some(partition)) => format!("({} + row)", partition.bounds(g, id).0),
        (_, None) => "row".to_string(),
    };
    let mut values = vec![];
    // Rows without a group have some key, whose dictionary entry is loaded in vain.
    let mut rest = g.code.define(CType::U64, "rest", format!("{} ? {packed} : 0", g.active));
    for (index, ((part, group), field)) in parts.iter().zip(groups).zip(fields).enumerate() {
        let min = g.params.value(CType::U64, "min", (part.min as u64).to_le_bytes().to_vec());
        let size = g.params.value(CType::U64, "size", part.size.to_le_bytes().to_vec());
        let mut offset = rest.clone();
        if index + 1 < parts.len() {
            // One division for each key but the last: they take most of the time.
            let others = g.code.define(CType::U64, "others", format!("{rest} / {size}"));
            offset = g.code.define(CType::U64, "k", format!("{rest} - {others} * {size}"));
            rest = others;
        }
        let ty = CType::of(field.ty.phys);
        let from = CType::of(group.ty.phys);
        let text = match (from, ty) {
            (CType::Bool, _) => format!("{offset} != 0"),
            (CType::U32, CType::Str) => {
                let dictionary = group.ty.dictionary.clone().expect("codes have a dictionary");
                let strings = g.params.pointer("Str", "strings", Binding::Dictionary(dictionary));
                let last = if part.null_slot {
                    format!("{offset} == {size} - 1 ? Str{{nullptr, 0}} : ")
                } else {
                    String::new()
                };
                format!("{last}{strings}[{offset}]")
            }
            (CType::I128, _) => {
                let low = g.params.value(CType::I128, "low", part.min.to_le_bytes().to_vec());
                format!("({})({low} + (i128){offset})", ty.name())
            }
            _ => format!("({})(i64)({offset} + {min})", ty.name()),
        };
        let text = g.code.define(ty, "key", text);
        let valid = part.null_slot.then(|| g.code.define(CType::Bool, "ok", format!("{offset} != {size} - 1")));
        values.push(Value { text, ty, valid });
    }
    values
}

/// An aggregate's value from its accumulator.
fn result(
    g: &mut Generator,
    slot: Slot,
    function: AggregateFunction,
    argument: Option<&ColType>,
    field: &Field,
    valid: Option<String>,
    count: Option<String>,
) -> Result<Value> {
    let word = format!("record[{}]", slot.word);
    let wide = format!("load_i128(record + {})", slot.word);
    let ty = CType::of(field.ty.phys);
    let name = ty.name();
    let state = g.params.state();
    let text = match (slot.accumulator, function) {
        (Accumulator::Pairs, AggregateFunction::OfPairs(PairFunction::Count)) => {
            format!("({name})(i64)record[{}]", slot.word + PAIR_COUNT)
        }
        (Accumulator::Pairs, AggregateFunction::OfPairs(function)) => return Ok(of_pairs(g, slot, function, ty)),
        (Accumulator::Pairs, function) => {
            return Err(Unsupported::new(format!("{function:?}"), "from sums of pairs"));
        }
        (_, AggregateFunction::Avg) => {
            let count = count.unwrap_or("1".into());
            let guard = valid.clone().unwrap_or("true".into());
            return average(g, slot, argument, field, &guard, &count).map(|value| value.with_valid(valid));
        }
        (Accumulator::Count | Accumulator::Presence | Accumulator::SumI64, _) => format!("({name})(i64){word}"),
        (Accumulator::SumI128 | Accumulator::SumWide, _) if field.ty.phys == Phys::I128 => {
            let sum = g.code.define(CType::I128, "sum", wide);
            let (low, high) = ColType::range_of(&field.ty.logical).unwrap_or((i128::MIN, i128::MAX));
            let low = g.params.value(CType::I128, "low", low.to_le_bytes().to_vec());
            let high = g.params.value(CType::I128, "high", high.to_le_bytes().to_vec());
            let guard = valid.as_deref().unwrap_or("true");
            let beyond = if slot.accumulator == Accumulator::SumWide {
                format!("wraps(record + {}) != 0 || ", slot.word)
            } else {
                String::new()
            };
            g.code.line(format!(
                "if ({guard} && ({beyond}{sum} < {low} || {sum} > {high})) raise({state}, ERROR_OVERFLOW);"
            ));
            sum
        }
        (Accumulator::SumWide, _) => return Err(Unsupported::new("sum", "of more than 128 bits as another type")),
        (Accumulator::SumI128, _) if !field.ty.phys.is_int() => format!("({name}){wide}"),
        (Accumulator::SumI128, _) => {
            let sum = g.code.define(CType::I128, "sum", wide);
            g.code.line(format!("if ((i128)({name}){sum} != {sum}) raise({state}, ERROR_OVERFLOW);"));
            format!("({name}){sum}")
        }
        (Accumulator::SumF64, _) => format!("({name})bits_double({word})"),
        (Accumulator::Min | Accumulator::Max, _) => {
            let not = if slot.accumulator == Accumulator::Min { "~" } else { "" };
            extreme(g, &format!("{not}{word}"), argument, ty)?
        }
        (Accumulator::MinWide | Accumulator::MaxWide, _) => {
            let not = if slot.accumulator == Accumulator::MinWide { "~" } else { "" };
            format!("({name})order_i128({not}load_u128(record + {}))", slot.word)
        }
        (Accumulator::MinText | Accumulator::MaxText, _) => {
            let (data, length) = (format!("record[{}]", slot.word + 1), format!("record[{}]", slot.word + 2));
            format!("{length} ? Str{{(const u8*){data}, (u32)({length} - 1)}} : Str{{nullptr, 0}}")
        }
        (Accumulator::Moments, function) => {
            g.params.require(Library::Moments);
            let sample = matches!(function, AggregateFunction::VarSamp | AggregateFunction::StddevSamp);
            let root = matches!(function, AggregateFunction::StddevSamp | AggregateFunction::StddevPop);
            let (guard, count) = (valid.as_deref().unwrap_or("true"), count.as_deref().unwrap_or("0"));
            let sums = [1, 2].map(|i| format!("bits_double(record[{}])", slot.word + i)).join(", ");
            let variance =
                g.code.define(CType::F64, "var", format!("{guard} ? variance({count}, {sums}, {sample}) : 0"));
            if root { format!("({name})sqrt({variance})") } else { format!("({name}){variance}") }
        }
    };
    let text = g.code.define(ty, "r", text);
    Ok(Value { text, ty, valid })
}

/// The value of a function of pairs; NULL without pairs.
fn of_pairs(g: &mut Generator, slot: Slot, function: PairFunction, ty: CType) -> Value {
    g.params.require(Library::Pairs);
    let name = match function {
        PairFunction::Correlation => "PAIR_CORRELATION",
        PairFunction::Covariance => "PAIR_COVARIANCE",
        PairFunction::SampleCovariance => "PAIR_SAMPLE_COVARIANCE",
        PairFunction::Slope => "PAIR_SLOPE",
        PairFunction::Intercept => "PAIR_INTERCEPT",
        PairFunction::Determination => "PAIR_DETERMINATION",
        PairFunction::AverageX => "PAIR_AVERAGE_X",
        PairFunction::AverageY => "PAIR_AVERAGE_Y",
        PairFunction::SquaresX => "PAIR_SQUARES_X",
        PairFunction::SquaresY => "PAIR_SQUARES_Y",
        PairFunction::Count | PairFunction::Products => "PAIR_PRODUCTS",
    };
    let some = g.code.variable(CType::Bool, "some", format!("record[{}] != 0", slot.word + PAIR_COUNT));
    let value = format!("{some} ? value_of_pairs({name}, record + {}, {some}) : 0", slot.word);
    let value = g.code.define(CType::F64, "of_pairs", value);
    Value { text: format!("({}){value}", ty.name()), ty, valid: Some(some) }
}

/// The value whose `order_bits` are `bits`.
pub(super) fn extreme(g: &mut Generator, bits: &str, argument: Option<&ColType>, ty: CType) -> Result<String> {
    let phys = argument.map_or(Phys::I64, |argument| argument.phys);
    Ok(match (phys, ty) {
        (Phys::Bool, _) => format!("({bits}) != 0"),
        (Phys::Code, CType::Str) => {
            let dictionary = argument.and_then(|argument| argument.dictionary.clone());
            let dictionary = dictionary.ok_or_else(|| Unsupported::new("min or max", "codes without a dictionary"))?;
            let len = dictionary.len();
            let strings = g.params.pointer("Str", "strings", Binding::Dictionary(dictionary));
            let code = g.code.define(CType::U64, "code", bits);
            format!("{code} < {len} ? {strings}[{code}] : Str{{nullptr, 0}}")
        }
        (Phys::Code, _) => format!("(u32)({bits})"),
        (Phys::F32 | Phys::F64, _) => format!("({})order_f64({bits})", ty.name()),
        _ => format!("({})order_i64({bits})", ty.name()),
    })
}

/// An average, as on the CPU: for decimals, the scaled exact sum divided by the count, truncated; for other integers, a float.
pub(super) fn average(
    g: &mut Generator,
    slot: Slot,
    argument: Option<&ColType>,
    field: &Field,
    guard: &str,
    count: &str,
) -> Result<Value> {
    let ty = CType::of(field.ty.phys);
    let count = g.code.define(CType::I64, "n", format!("{guard} ? (i64){count} : 1"));
    let sum = match slot.accumulator {
        Accumulator::SumF64 => {
            let text = format!("({})(bits_double(record[{}]) / (double){count})", ty.name(), slot.word);
            return Ok(Value::new(g.code.define(ty, "avg", text), ty));
        }
        Accumulator::SumI64 => format!("(i128)(i64)record[{}]", slot.word),
        _ => format!("load_i128(record + {})", slot.word),
    };
    let sum = g.code.define(CType::I128, "sum", sum);
    let wraps = match slot.accumulator {
        Accumulator::SumWide => Some(g.code.define(CType::I64, "wraps", format!("wraps(record + {})", slot.word))),
        _ => None,
    };
    let from = argument.map_or(0, scale);
    if !field.ty.phys.is_int() {
        let unit = 10f64.powi(from);
        let beyond = wraps.map_or(String::new(), |wraps| format!(" + (double){wraps} * {:?}", 2f64.powi(128)));
        let text = format!("({})(((double){sum}{beyond}) / (double){count} / {unit:?})", ty.name());
        return Ok(Value::new(g.code.define(ty, "avg", text), ty));
    }
    let digits = u32::try_from(scale(&field.ty) - from)
        .map_err(|_| Unsupported::new("avg", "of fewer digits than its argument"))?;
    let up = 10i128.checked_pow(digits).ok_or_else(|| Unsupported::new("avg", "of too many digits"))?;
    let (lo, hi) = ColType::range_of(&field.ty.logical).unwrap_or((i128::MIN, i128::MAX));
    let whole = [lo / up, hi / up].map(|end| g.params.value(CType::I128, "whole", end.to_le_bytes().to_vec()));
    let up = g.params.value(CType::I128, "up", up.to_le_bytes().to_vec());
    // Quotient and remainder have the sign of the sum, so both truncate in the same direction.
    let quotient = g.code.define(CType::I128, "quotient", format!("{sum} / {count}"));
    let average = format!("{quotient} * {up} + {sum} % {count} * {up} / {count}");
    let average = g.code.define(CType::I128, "avg", average);
    let lo = g.params.value(CType::I128, "low", lo.to_le_bytes().to_vec());
    let hi = g.params.value(CType::I128, "high", hi.to_le_bytes().to_vec());
    let state = g.params.state();
    let beyond = wraps.map_or(String::new(), |wraps| format!("{wraps} != 0 || "));
    let [least, most] = whole;
    g.code.line(format!(
        "if ({guard} && ({beyond}{quotient} < {least} || {quotient} > {most} || {average} < {lo} || {average} > {hi})) raise({state}, ERROR_OVERFLOW);"
    ));
    let text = g.code.define(ty, "avg", format!("({}){average}", ty.name()));
    Ok(Value::new(text, ty))
}

/// Decimal scale.
fn scale(ty: &ColType) -> i32 {
    match ty.logical {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => scale.into(),
        _ => 0,
    }
}
