//! Statements that update accumulators, and merge them into records.

use super::cpp::Value;
use super::generator::Generator;
use super::layout::{Accumulator, GroupLayout, GroupTable, Slot};

/// Word index of the number of pairs in a record of pairs (kernels/pairs.cuh).
pub const PAIR_COUNT: usize = 2;

/// The values of aggregates' arguments and filters in a row.
pub struct Inputs<'a> {
    /// One per distinct argument expression.
    pub arguments: &'a [Value],
    /// One per distinct filter expression.
    pub filters: &'a [Value],
}

impl<'a> Inputs<'a> {
    /// The arguments of accumulator `slot`.
    pub fn of(&self, slot: &Slot) -> Vec<&'a Value> {
        slot.input.argument.into_iter().chain(slot.input.second).map(|argument| &self.arguments[argument]).collect()
    }

    /// The conditions under which accumulator `slot` takes the row: its filter, and arguments that are not NULL.
    pub fn conditions(&self, slot: &Slot) -> Vec<String> {
        let filter = slot.input.filter.map(|filter| self.filters[filter].is_true());
        filter.into_iter().chain(self.of(slot).into_iter().filter_map(|argument| argument.valid.clone())).collect()
    }
}

/// Generates `update` under `conditions`.
pub fn update_if(g: &mut Generator, conditions: &[String], update: &str) {
    match conditions {
        [] => g.code.line(update),
        _ => g.code.line(format!("if ({}) {{ {update} }}", conditions.join(" && "))),
    }
}

/// The statement that adds a row with these arguments to an accumulator.
pub fn update(layout: &GroupLayout, slot: &Slot, arguments: &[&Value], cell: &str, keep: &str) -> String {
    let x = match arguments {
        [] => "1",
        [x] => x.text.as_str(),
        [y, x, ..] => &format!("{}, {}", y.text, x.text),
    };
    let word = slot.word;
    let global = format!("groups + ({cell} * {} + {word})", layout.words);
    match layout.table {
        _ if layout.combined => own_update(slot.accumulator, x, |i| format!("acc{}", word + i), &global),
        GroupTable::One => {
            let own = |i: usize| format!("acc{}", word + i);
            own_update(slot.accumulator, x, own, &format!("groups + {word}"))
        }
        GroupTable::Private => {
            let own = |i: usize| {
                format!("records[((u32){cell} * {} + {}) * blockDim.x + threadIdx.x]", layout.words, word + i)
            };
            own_update(slot.accumulator, x, own, &global)
        }
        GroupTable::Shared => {
            let record = format!("records + ((u32){cell} * {} + {word})", layout.words);
            match slot.accumulator {
                Accumulator::Count => format!("add_i64_shared({record}, 1);"),
                Accumulator::SumI64 => format!("add_i64_shared({record}, (i64){x});"),
                _ => shared_update(slot.accumulator, x, (&record, &global), NO_KEEP),
            }
        }
        GroupTable::Dense | GroupTable::Hash | GroupTable::Wide => {
            shared_update(slot.accumulator, x, (&global, &global), keep)
        }
    }
}

/// The `Keep` for strings that live as long as the query anyway.
pub const NO_KEEP: &str = "Keep{nullptr, nullptr, 0, nullptr, 0}";

/// The `Keep` for strings in accumulators of `slot` (kernels/text.cuh).
pub fn keep(g: &mut Generator, slot: &Slot) -> String {
    match slot.accumulator {
        Accumulator::MinText | Accumulator::MaxText => g.keep().unwrap_or_else(|| NO_KEEP.into()),
        _ => NO_KEEP.into(),
    }
}

/// Whether the accumulator keeps the least string, as a template argument.
fn least_text(accumulator: Accumulator) -> bool {
    accumulator == Accumulator::MinText
}

/// Updates words that only this thread uses; `global` is the record that they are merged into at the end.
fn own_update(accumulator: Accumulator, x: &str, word: impl Fn(usize) -> String, global: &str) -> String {
    let w = word(0);
    match accumulator {
        Accumulator::Count => format!("{w} += 1;"),
        Accumulator::Presence => format!("{w} = 1;"),
        Accumulator::SumI64 => format!("{w} += (u64)(i64){x};"),
        Accumulator::SumI128 => {
            let high = word(1);
            format!(
                "{{ const u128 sum = ((u128){high} << 64 | {w}) + (u128)(i128){x}; {w} = (u64)sum; {high} = (u64)(sum >> 64); }}"
            )
        }
        Accumulator::SumWide => format!("own_add_wide({w}, {}, {}, (i128){x});", word(1), word(2)),
        Accumulator::SumF64 => format!("{w} = double_bits(bits_double({w}) + (double){x});"),
        Accumulator::Min => format!("{{ const u64 bits = ~order_bits({x}); if (bits > {w}) {w} = bits; }}"),
        Accumulator::Max => format!("{{ const u64 bits = order_bits({x}); if (bits > {w}) {w} = bits; }}"),
        Accumulator::MinWide | Accumulator::MaxWide => {
            let not = if accumulator == Accumulator::MinWide { "~" } else { "" };
            let high = word(1);
            format!(
                "{{ const u128 bits = {not}order_bits_wide({x}); if (bits > ((u128){high} << 64 | {w})) {{ {w} = (u64)bits; {high} = (u64)(bits >> 64); }} }}"
            )
        }
        Accumulator::MinText | Accumulator::MaxText => {
            format!("own_string<{}>({}, {}, {x});", least_text(accumulator), word(1), word(2))
        }
        Accumulator::Moments => format!("add_moments({w}, {}, {}, {global}, (double){x});", word(1), word(2)),
        Accumulator::Pairs => {
            let words = (0..accumulator.words()).map(word).collect::<Vec<_>>().join(", ");
            format!("add_pair({words}, {global}, {x});")
        }
    }
}

/// Updates words that other threads update too; `global` is the record that they are merged into at the end. Strings are copied as `keep` demands.
fn shared_update(accumulator: Accumulator, x: &str, (cell, global): (&str, &str), keep: &str) -> String {
    match accumulator {
        Accumulator::Count => format!("atomicAdd({cell}, 1ull);"),
        Accumulator::Presence => format!("mark({cell});"),
        Accumulator::SumI64 => format!("add_i64({cell}, (i64){x});"),
        Accumulator::SumI128 => format!("add_i128({cell}, (i128){x});"),
        Accumulator::SumWide => format!("add_wide({cell}, (i128){x});"),
        Accumulator::SumF64 => format!("atomicAdd((double*)({cell}), (double){x});"),
        Accumulator::Min => format!("atomicMax({cell}, ~order_bits({x}));"),
        Accumulator::Max => format!("atomicMax({cell}, order_bits({x}));"),
        Accumulator::MinWide => format!("max_u128({cell}, ~order_bits_wide({x}));"),
        Accumulator::MaxWide => format!("max_u128({cell}, order_bits_wide({x}));"),
        Accumulator::MinText | Accumulator::MaxText => {
            format!("best_string<{}>({cell}, {x}, {keep});", least_text(accumulator))
        }
        Accumulator::Moments => format!("add_moments({cell}, {global}, (double){x});"),
        Accumulator::Pairs => format!("add_pair({cell}, {global}, {x});"),
    }
}

/// Merges words `from` into words `to`, both of this thread.
pub fn merge_words(slot: &Slot, from: impl Fn(usize) -> String, to: impl Fn(usize) -> String) -> String {
    let (a, x) = (to(0), from(0));
    match slot.accumulator {
        Accumulator::Count | Accumulator::SumI64 => format!("{a} += {x};"),
        Accumulator::Presence => format!("{a} |= {x};"),
        Accumulator::SumF64 => format!("{a} = double_bits(bits_double({a}) + bits_double({x}));"),
        Accumulator::Min | Accumulator::Max => format!("if ({x} > {a}) {a} = {x};"),
        Accumulator::SumI128 => format!(
            "{{ const u128 sum = ((u128){} << 64 | {a}) + ((u128){} << 64 | {x}); {a} = (u64)sum; {} = (u64)(sum >> 64); }}",
            to(1),
            from(1),
            to(1)
        ),
        Accumulator::SumWide => {
            format!("own_add_wide({a}, {}, {}, (u128){} << 64 | {x}, {});", to(1), to(2), from(1), from(2))
        }
        Accumulator::MinWide | Accumulator::MaxWide => format!(
            "{{ const u128 bits = (u128){} << 64 | {x}; if (bits > ((u128){} << 64 | {a})) {{ {a} = (u64)bits; {} = (u64)(bits >> 64); }} }}",
            from(1),
            to(1),
            to(1)
        ),
        Accumulator::MinText | Accumulator::MaxText => format!(
            "if ({}) own_string<{}>({}, {}, Str{{(const u8*){}, (u32)({} - 1)}});",
            from(2),
            least_text(slot.accumulator),
            to(1),
            to(2),
            from(1),
            from(2)
        ),
        // The shift is that of the record.
        Accumulator::Moments => {
            let sum = |i: usize| format!("{} = double_bits(bits_double({}) + bits_double({}));", to(i), to(i), from(i));
            format!("{} {}", sum(1), sum(2))
        }
        Accumulator::Pairs => {
            let sum = |i: usize| format!("add_double({}, bits_double({}));", to(i), from(i));
            let sums: Vec<String> = (PAIR_COUNT + 1..slot.accumulator.words()).map(sum).collect();
            format!("{} += {}; {}", to(PAIR_COUNT), from(PAIR_COUNT), sums.join(" "))
        }
    }
}

/// Merges words of this thread into a record in global memory.
pub fn merge_global(slot: &Slot, from: impl Fn(usize) -> String, target: &str, keep: &str) -> String {
    let x = from(0);
    match slot.accumulator {
        Accumulator::Count | Accumulator::SumI64 => format!("atomicAdd({target}, {x});"),
        Accumulator::Presence => format!("*({target}) = 1;"),
        Accumulator::SumF64 => format!("atomicAdd((double*)({target}), bits_double({x}));"),
        Accumulator::Min | Accumulator::Max => format!("atomicMax({target}, {x});"),
        Accumulator::SumI128 => format!("add_i128({target}, (i128)((u128){} << 64 | {x}));", from(1)),
        Accumulator::SumWide => format!("add_wide({target}, (u128){} << 64 | {x}, {});", from(1), from(2)),
        Accumulator::MinWide | Accumulator::MaxWide => format!("max_u128({target}, (u128){} << 64 | {x});", from(1)),
        Accumulator::MinText | Accumulator::MaxText => format!(
            "if ({}) best_string<{}>({target}, Str{{(const u8*){}, (u32)({} - 1)}}, {keep});",
            from(2),
            least_text(slot.accumulator),
            from(1),
            from(2)
        ),
        Accumulator::Moments => {
            let sum = |i: usize| format!("atomicAdd((double*)({target} + {i}), bits_double({}));", from(i));
            format!("{} {}", sum(1), sum(2))
        }
        Accumulator::Pairs => {
            let sum = |i: usize| format!("atomicAdd((double*)({target} + {i}), bits_double({}));", from(i));
            let sums: Vec<String> = (PAIR_COUNT + 1..slot.accumulator.words()).map(sum).collect();
            format!("atomicAdd({target} + {PAIR_COUNT}, {}); {}", from(PAIR_COUNT), sums.join(" "))
        }
    }
}

/// Merges the words of all lanes into a record in global memory.
pub fn merge_warp(g: &mut Generator, slot: &Slot, target: &str, own: impl Fn(usize) -> String) {
    let keep = keep(g, slot);
    let a = own(0);
    let wide = |sum: &str| format!("{{ const u128 all = {sum}; if (lane == 0 && all) {{");
    let line = match slot.accumulator {
        Accumulator::Count | Accumulator::SumI64 => {
            format!("{{ const u64 all = warp_sum({a}); if (lane == 0 && all) atomicAdd({target}, all); }}")
        }
        Accumulator::Presence => {
            format!("{{ const bool all = __any_sync(FULL_WARP, {a} != 0); if (lane == 0 && all) *({target}) = 1; }}")
        }
        Accumulator::SumF64 => format!(
            "{{ const double all = warp_sum(bits_double({a})); if (lane == 0 && all != 0) atomicAdd((double*)({target}), all); }}"
        ),
        Accumulator::Min | Accumulator::Max => {
            format!("{{ const u64 all = warp_max({a}); if (lane == 0 && all) atomicMax({target}, all); }}")
        }
        Accumulator::SumI128 => format!(
            "{} add_i128({target}, (i128)all); }} }}",
            wide(&format!("(u128)warp_sum((i128)((u128){} << 64 | {a}))", own(1)))
        ),
        Accumulator::SumWide => format!("add_wide_of_warp({target}, {a}, {}, {}, lane);", own(1), own(2)),
        Accumulator::MinWide | Accumulator::MaxWide => {
            format!("{} max_u128({target}, all); }} }}", wide(&format!("warp_max((u128){} << 64 | {a})", own(1))))
        }
        Accumulator::MinText | Accumulator::MaxText => {
            let least = least_text(slot.accumulator);
            format!("best_string_of_warp<{least}>({target}, {}, {}, lane, {keep});", own(1), own(2))
        }
        Accumulator::Moments => {
            let sum = |i: usize| {
                let all = format!("const double all = warp_sum(bits_double({}));", own(i));
                format!("{{ {all} if (lane == 0 && all != 0) atomicAdd((double*)({target} + {i}), all); }}")
            };
            format!("{} {}", sum(1), sum(2))
        }
        Accumulator::Pairs => {
            let sum = |i: usize| {
                let all = format!("const double all = warp_sum(bits_double({}));", own(i));
                format!("{{ {all} if (lane == 0 && all != 0) atomicAdd((double*)({target} + {i}), all); }}")
            };
            let sums: Vec<String> = (PAIR_COUNT + 1..slot.accumulator.words()).map(sum).collect();
            let count = format!("const u64 all = warp_sum({});", own(PAIR_COUNT));
            let count = format!("{{ {count} if (lane == 0 && all) atomicAdd({target} + {PAIR_COUNT}, all); }}");
            format!("{count} {}", sums.join(" "))
        }
    };
    g.code.line(line);
}
