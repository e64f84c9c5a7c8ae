//! Probes of hash builds.
//!
//! A probe with at most one output row per input row is straight-line code. Other probes are a loop in which every lane takes one step per iteration:
//! a pair, or the row's NULL-extended copy once no pair is left. The rest of the pipeline is inside that loop.

use warpmill_ir::{ExprKind, JoinKind, Probe, SinkId};

use super::cpp::{CType, Value};
use super::generator::{Generator, Load, Result};
use super::hashing::{same_keys, slot_mask, wide_hash};
use super::layout::{BuildLayout, Table};
use super::params::Binding;
use super::partition;

/// The row number that means no row.
pub(super) const NONE: &str = "0xFFFFFFFFu";

/// Number of slots from which a hash table is too large for the cache: then its keys and heads are loaded together. From a cache, the heads of keys that
/// are not found cost more.
const FAR_SLOTS: u64 = 1 << 21;

/// Operands for a build's lookup structure.
struct Names {
    state: String,
    /// Whether some keys repeat.
    repeats: String,
    /// `heads` or `bits`, depending on the table.
    table: String,
    next: String,
    keys: String,
    flags: Option<String>,
}

/// The name of the variable that says whether keys of build `id` repeat.
fn repeats(id: SinkId) -> String {
    format!("repeats_of_{id}")
}

/// Generates the code before the row loop for probes of the builds `builds`, which are complete: the loop would load the same word for each row.
pub fn prologue(g: &mut Generator, builds: impl IntoIterator<Item = SinkId>) {
    for id in builds {
        if g.repeats.insert(id) {
            let state = g.params.pointer("SinkState", "build", Binding::Named(format!("sink{id}.state")));
            g.code.line(format!("const bool {} = {state}->duplicate != 0;", repeats(id)));
        }
    }
}

/// Generates `probe` of the build with layout `build`. `likely`: most rows have partners here and in the probes after this one.
pub fn probe(g: &mut Generator, probe: &Probe, build: &BuildLayout, likely: bool) -> Result<()> {
    let matches = matches!(probe.kind, JoinKind::BuildOuter | JoinKind::Full | JoinKind::BuildOnly);
    let names = Names::new(g, probe, build, matches);
    let values = g.eval_all(&probe.keys)?;
    if let Some(partition) = &build.partition {
        partition.keep_probed(g, probe.build, build, &values);
    }
    if likely {
        // Loads of columns that are needed later overlap with the lookup.
        g.load_scanned(probe.output.iter().copied())?;
    }
    let head = find(g, probe, build, &names, &values);
    match probe.kind {
        JoinKind::ProbeSemi | JoinKind::ProbeAnti | JoinKind::ProbeMark => {
            let matched = exists(g, probe, build, &names, &head)?;
            let unknown = match compares_unknown(probe) {
                true => Some(unknown(g, probe, build, &names, (&values, &matched))?),
                false => None,
            };
            one_row(g, (probe, build), &names, &values, (&matched, unknown));
        }
        JoinKind::Inner if build.table == Table::Bitmap => {
            let pair = g.code.define(CType::Bool, "pair", format!("{head} != {NONE}"));
            g.filter(&pair);
            pairs(g, probe, build, &head, None)?;
            residual(g, probe)?;
            g.push_selection(&probe.output);
        }
        _ => each_pair(g, probe, build, &names, &head)?,
    }
    Ok(())
}

impl Names {
    fn new(g: &mut Generator, probe: &Probe, build: &BuildLayout, matches: bool) -> Self {
        let id = probe.build;
        let named = |what: &str| Binding::Named(format!("sink{id}.{what}"));
        let state = g.params.pointer("SinkState", "build", named("state"));
        let (mut next, mut keys) = (String::new(), String::new());
        let table = match build.table {
            Table::Bitmap => g.params.pointer("u32", "bits", named("bits")),
            Table::All => String::new(),
            Table::Direct | Table::Hash | Table::Wide => {
                next = g.params.pointer("u32", "next", named("next"));
                if build.table == Table::Hash {
                    keys = g.params.pointer("u64", "keys", named("keys"));
                }
                g.params.pointer("u32", "heads", named("heads"))
            }
        };
        let flags = matches.then(|| g.params.output("u8", "flags", named("flags")));
        let repeats = if g.repeats.contains(&id) { repeats(id) } else { format!("{state}->duplicate") };
        Self { state, repeats, table, next, keys, flags }
    }
}

/// A `u32` variable with the first candidate row for the keys, or `NONE`.
fn find(g: &mut Generator, probe: &Probe, build: &BuildLayout, names: &Names, values: &[Value]) -> String {
    let active = g.active.clone();
    match build.table {
        Table::All => {
            let state = &names.state;
            g.code.define(CType::U32, "m", format!("{active} && {state}->count > 0 ? 0u : {NONE}"))
        }
        Table::Bitmap | Table::Direct => {
            let (key, inside) = g.packed_key(&build.keys, values, true);
            let ok = g.code.define(CType::Bool, "in", format!("{active} && {inside}"));
            let key = partition::within(g, build.partition.as_ref(), probe.build, key);
            let table = &names.table;
            let found = match build.table {
                Table::Bitmap => match tested(g, probe) {
                    // The scan has tested the same bit.
                    Some(None) => format!("{ok} ? (u32){key} : {NONE}"),
                    Some(Some(unless)) => {
                        format!("{ok} && (!{unless} || bit_test({table}, {key})) ? (u32){key} : {NONE}")
                    }
                    None => format!("{ok} && bit_test({table}, {key}) ? (u32){key} : {NONE}"),
                },
                _ => format!("{ok} ? {table}[{key}] - 1 : {NONE}"),
            };
            g.code.define(CType::U32, "m", found)
        }
        Table::Hash => {
            let (key, inside) = g.packed_key(&build.keys, values, true);
            let mask = slot_mask(g, build);
            let (keys, heads) = (&names.keys, &names.table);
            let found = format!("{active} && {inside} ? ");
            if build.slots >= FAR_SLOTS {
                let head = format!("{found}find_head({keys}, {heads}, {mask}, {key}) - 1 : {NONE}");
                return g.code.define(CType::U32, "m", head);
            }
            let slot = format!("{found}find_slot({keys}, {mask}, {key}) : {mask} + 1");
            let slot = g.code.define(CType::U64, "slot", slot);
            g.code.define(CType::U32, "m", format!("{slot} <= {mask} ? {heads}[{slot}] - 1 : {NONE}"))
        }
        Table::Wide => find_wide(g, build, (&names.table, "head - 1"), (values, &active)),
    }
}

/// Whether all rows have passed the bitmap of this probe's build already; the inner value is the condition under which that test was skipped.
fn tested(g: &Generator, probe: &Probe) -> Option<Option<String>> {
    let [key] = probe.keys.as_slice() else { return None };
    let ExprKind::Column(index) = key.kind else { return None };
    let column = g.origin(index)?;
    let buffer = format!("sink{}.bits", probe.build);
    let test = g.tested.iter().find(|test| test.column == column && test.buffer == buffer)?;
    Some(test.unless.clone())
}

/// Looks up the keys of rows for which `active` holds in the hash table `heads`. Returns a `u32` variable: the value of `found`, an expression over
/// `slot` and its `head`, or `NONE`.
pub(super) fn find_wide(
    g: &mut Generator,
    build: &BuildLayout,
    (heads, found): (&str, &str),
    (values, active): (&[Value], &str),
) -> String {
    let mut ok = active.to_string();
    if !build.null_equals_null {
        for valid in values.iter().filter_map(|value| value.valid.clone()) {
            ok = format!("{ok} && {valid}");
        }
    }
    let ok = g.code.define(CType::Bool, "in", ok);
    let arrays = g.arrays(&build.key_columns, false);
    let mask = slot_mask(g, build);
    let m = g.code.variable(CType::U32, "m", NONE);
    let depth = g.code.depth();
    g.code.open(format!("if ({ok})"));
    let hash = wide_hash(g, values);
    g.code.open(format!("for (u64 slot = {hash} & {mask}; ; slot = (slot + 1) & {mask})"));
    g.code.line(format!("const u32 head = {heads}[slot];"));
    g.code.line("if (head == 0) break;");
    let same = same_keys(&arrays, values, |array| format!("{array}[head - 1]"));
    g.code.when(&same, |code| {
        code.line(format!("{m} = {found};"));
        code.line("break;");
    });
    g.code.close_to(depth);
    m
}

/// The row after `m` with the same key, or `NONE`.
fn following(build: &BuildLayout, names: &Names, m: &str) -> String {
    match build.table {
        Table::All => format!("({m} + 1 < {}->count ? {m} + 1 : {NONE})", names.state),
        Table::Bitmap => NONE.into(),
        _ => format!("({} ? {}[{m}] - 1 : {NONE})", names.repeats, names.next),
    }
}

/// Opens the scope of pairs with row `m` of the build.
pub(super) fn pairs(
    g: &mut Generator,
    probe: &Probe,
    build: &BuildLayout,
    m: &str,
    present: Option<&str>,
) -> Result<()> {
    let used: Vec<bool> = used_payload(g, probe, build.payload.len());
    let columns: Vec<_> = build.payload.iter().zip(&used).filter(|(_, used)| **used).map(|(c, _)| c.clone()).collect();
    let mut loads = g.flat_loads(&columns, m, present).into_iter();
    let unused = |column: &super::storage::FlatColumn| Load::Flat {
        column: column.clone(),
        data: String::new(),
        valid: None,
        row: String::new(),
        present: None,
    };
    let all: Vec<Load> = build
        .payload
        .iter()
        .zip(&used)
        .map(|(column, used)| if *used { loads.next().expect("one per used column") } else { unused(column) })
        .collect();
    g.push_pairs(all);
    Ok(())
}

/// The payload columns that the probe's output or residual read.
fn used_payload(g: &Generator, probe: &Probe, payload: usize) -> Vec<bool> {
    let input = g.width();
    let mut used = vec![false; payload];
    let mut mark = |index: usize| {
        if index >= input && index < input + payload {
            used[index - input] = true;
        }
    };
    probe.output.iter().copied().for_each(&mut mark);
    if let Some(residual) = &probe.residual {
        residual.visit_columns(&mut mark);
    }
    used
}

/// Drops pairs that fail the residual condition.
fn residual(g: &mut Generator, probe: &Probe) -> Result<()> {
    if let Some(residual) = &probe.residual {
        g.filter_by(residual)?;
    }
    Ok(())
}

/// A `bool` operand: whether any build row matches.
fn exists(g: &mut Generator, probe: &Probe, build: &BuildLayout, names: &Names, head: &str) -> Result<String> {
    let Some(residual) = &probe.residual else {
        return Ok(g.code.define(CType::Bool, "match", format!("{head} != {NONE}")));
    };
    let (before, depth) = (g.active.clone(), g.code.depth());
    let scopes = g.scope();
    let matched = g.code.variable(CType::Bool, "match", "false");
    let m = g.code.variable(CType::U32, "m", head);
    g.load_columns(residual)?;
    g.code.open(format!("while (__any_sync(FULL_WARP, {m} != {NONE}))"));
    g.active = g.code.define(CType::Bool, "pair", format!("{m} != {NONE}"));
    pairs(g, probe, build, &m, None)?;
    let value = g.eval(residual)?;
    let (pair, next) = (g.active.clone(), following(build, names, &m));
    g.code.line(format!("if ({pair} && {}) {matched} = true;", value.is_true()));
    g.code.line(format!("{m} = {pair} && !{matched} ? {next} : {NONE};"));
    g.code.close_to(depth);
    g.pop_to(scopes);
    g.active = before;
    Ok(matched)
}

/// Whether a probe without a match must look at the build's rows to decide between false and NULL: then the build is [`Table::Wide`], which keeps all
/// keys.
pub fn compares_unknown(probe: &Probe) -> bool {
    probe.null_aware && !probe.keys.is_empty() && (probe.residual.is_some() || probe.keys.len() > 1)
}

/// For rows without a match, whether `IN` is NULL: some pair passes the condition, and its keys are not known to differ. Rows without NULLs are
/// compared only with build rows that have NULLs.
fn unknown(
    g: &mut Generator,
    probe: &Probe,
    build: &BuildLayout,
    names: &Names,
    (values, matched): (&[Value], &str),
) -> Result<String> {
    let (before, depth, scopes) = (g.active.clone(), g.code.depth(), g.scope());
    if let Some(residual) = &probe.residual {
        g.load_columns(residual)?;
    }
    let state = &names.state;
    let nulls: Vec<String> =
        values.iter().filter_map(|value| value.valid.as_ref()).map(|ok| format!("!{ok}")).collect();
    let null = if nulls.is_empty() { "false".into() } else { nulls.join(" || ") };
    let null = g.code.define(CType::Bool, "null", null);
    let capacity = g.params.value(CType::U64, "capacity", build.capacity.to_le_bytes().to_vec());
    let count = format!("{state}->count < {capacity} ? {state}->count : {capacity}");
    let count = g.code.define(CType::U64, "count", count);
    let keyed = g.params.pointer("u8", "keyed", Binding::Named(format!("sink{}.keyed", probe.build)));
    let arrays = g.arrays(&build.key_columns, false);
    let unknown = g.code.variable(CType::Bool, "unknown", "false");
    let asked = format!("{before} && !{matched} && ({null} || {state}->has_null) && {count} > 0");
    let m = g.code.variable(CType::U32, "m", format!("{asked} ? 0u : {NONE}"));
    g.code.open(format!("while (__any_sync(FULL_WARP, {m} != {NONE}))"));
    let mut pair = format!("{m} != {NONE} && ({null} || !{keyed}[{m}])");
    for (value, (data, valid)) in values.iter().zip(&arrays) {
        let mut same = format!("same_value({}, ({}){data}[{m}])", value.text, value.ty.name());
        for known in value.valid.iter().cloned().chain(valid.as_ref().map(|valid| format!("{valid}[{m}]"))) {
            same = format!("!{known} || {same}");
        }
        pair.push_str(&format!(" && ({same})"));
    }
    g.active = g.code.define(CType::Bool, "pair", pair);
    pairs(g, probe, build, &m, None)?;
    let mut passes = g.active.clone();
    if let Some(residual) = &probe.residual {
        passes = format!("{passes} && {}", g.eval(residual)?.is_true());
    }
    g.code.line(format!("if ({passes}) {unknown} = true;"));
    g.code.line(format!("{m} = {m} != {NONE} && !{unknown} && {m} + 1 < {count} ? {m} + 1 : {NONE};"));
    g.code.close_to(depth);
    g.pop_to(scopes);
    g.active = before;
    Ok(unknown)
}

/// Semi, anti and mark joins, with at most one output row. `unknown`: the operand for a NULL result, if it was computed.
fn one_row(
    g: &mut Generator,
    (probe, build): (&Probe, &BuildLayout),
    names: &Names,
    values: &[Value],
    (matched, unknown): (&str, Option<String>),
) {
    let key_valid = values.first().map_or("true".to_string(), |value| value.valid_text().to_string());
    let state = &names.state;
    let empty = match build.partition {
        Some(_) => format!("!{state}->seen"),
        None => format!("({state}->count == 0 && !{state}->has_null)"),
    };
    match probe.kind {
        JoinKind::ProbeSemi => g.filter(matched),
        JoinKind::ProbeAnti if probe.null_aware && !probe.keys.is_empty() => {
            if let Some(unknown) = unknown {
                g.filter(&format!("!{matched} && !{unknown}"));
                g.push_selection(&probe.output);
                return;
            }
            // NOT IN: true for an empty list; otherwise NULL, so filtered out, if there is a NULL on either side and no match.
            g.filter(&format!("({empty} || ({key_valid} && !{matched} && !{state}->has_null))"));
        }
        JoinKind::ProbeAnti => g.filter(&format!("!{matched}")),
        _ => {
            let valid = probe.null_aware.then(|| {
                let known = match &unknown {
                    Some(unknown) => format!("!{unknown}"),
                    None => format!("{matched} || {empty} || ({key_valid} && !{state}->has_null)"),
                };
                g.code.define(CType::Bool, "known", known)
            });
            let mark = Value::new(matched, CType::Bool).with_valid(valid);
            g.push_pairs([]);
            // The mark's index comes after the payload, of which a mark join outputs nothing.
            let width = g.width();
            g.push_value(mark);
            let output: Vec<usize> = probe.output.iter().map(|&i| i.min(width)).collect();
            g.push_selection(&output);
            return;
        }
    }
    g.push_selection(&probe.output);
}

/// Joins that output every pair: a loop over each row's matches.
fn each_pair(g: &mut Generator, probe: &Probe, build: &BuildLayout, names: &Names, head: &str) -> Result<()> {
    let outer = matches!(probe.kind, JoinKind::ProbeOuter | JoinKind::Full);
    // Expressions over the input row are computed once, not once per pair.
    g.load_output(&probe.output, probe.residual.as_ref())?;
    let input = g.active.clone();
    let m = g.code.variable(CType::U32, "m", head);
    let open = g.code.variable(CType::Bool, "open", if outer { input } else { format!("{m} != {NONE}") });
    let any = outer.then(|| g.code.variable(CType::Bool, "any", "false"));
    g.code.open(format!("while (__any_sync(FULL_WARP, {open}))"));
    let row = g.code.define(CType::U32, "r", &m);
    let pair = g.code.define(CType::Bool, "pair", format!("{open} && {m} != {NONE}"));
    let next = following(build, names, &m);
    g.active = pair.clone();
    pairs(g, probe, build, &row, Some(&pair))?;
    let mut emit = pair.clone();
    if let Some(residual) = &probe.residual {
        let value = g.eval(residual)?;
        emit = g.code.define(CType::Bool, "emit", format!("{pair} && {}", value.is_true()));
    }
    if let Some(flags) = &names.flags {
        // Most flags are set already, and a load is cheaper than a store.
        g.code.line(format!("if ({emit} && !{flags}[{row}]) {flags}[{row}] = 1;"));
    }
    g.code.line(format!("if ({pair}) {m} = {next};"));
    match &any {
        Some(any) => {
            g.code.line(format!("if ({emit}) {any} = true;"));
            let extend = g.code.define(CType::Bool, "extend", format!("{open} && !{pair} && !{any}"));
            // A row without a match stays for one more step; others end with their last candidate.
            g.code.line(format!("{open} = {pair} && ({m} != {NONE} || !{any});"));
            g.active = g.code.define(CType::Bool, "row", format!("{emit} || {extend}"));
            // The payload of the extended row is NULL, but pairs were loaded where `pair` holds, and the residual may have rejected them.
            if probe.residual.is_some() {
                pairs_again(g, probe, build, &row, &emit)?;
            }
        }
        None => {
            g.code.line(format!("{open} = {pair} && {m} != {NONE};"));
            g.active = emit;
        }
    }
    if probe.kind == JoinKind::BuildOnly {
        g.active = "false".into();
        g.push_selection(&probe.output);
        return Ok(());
    }
    let header = format!("if (__any_sync(FULL_WARP, {}))", g.active);
    g.code.open(header);
    g.push_selection(&probe.output);
    Ok(())
}

/// Reopens the scope of pairs, with payload NULL where `emit` does not hold.
fn pairs_again(g: &mut Generator, probe: &Probe, build: &BuildLayout, row: &str, emit: &str) -> Result<()> {
    let scope = g.scope();
    g.pop_to(scope - 1);
    pairs(g, probe, build, row, Some(emit))
}
