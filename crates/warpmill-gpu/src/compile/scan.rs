//! The loop over the rows of a scan's segments.
//!
//! A warp takes a few vectors of 1024 rows. In each it decides the predicates on packed values (ranges, code sets, keys of hash builds) as a mask of
//! 32 rows per lane. If few rows are left they are queued, so that later columns are loaded for them only and every lane has one. The queue persists
//! across the vectors of a task.

use warpmill_ir::{Phys, Scan};

use super::cpp::{CType, Value};
use super::generator::{Generator, Load, Result, Tested};
use super::params::{Binding, TestPart};
use super::scan_shape::TestShape;
use crate::data::shape::ColumnShape;

/// A test of a scan's column against the keys of a hash build.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyTest {
    /// The scan's column.
    pub column: usize,
    /// Buffer name of the bitmap.
    pub buffer: String,
    /// Key of the first bit.
    pub min: i64,
    /// The number of bits.
    pub keys: u32,
    /// Whether statistics prove that all keys are within the bitmap.
    pub within: bool,
    /// Whether each block copies the bitmap into shared memory.
    pub shared: bool,
    /// Number of bits into which each block folds the bitmap, for a first test in shared memory.
    pub folded: Option<u32>,
    /// Coarse estimated selectivity.
    pub fraction: f64,
    /// Buffer with the least and greatest key, and the density of keys between them if none is missing: if none is, a range test replaces the bitmap.
    pub bounds: Option<(String, f64)>,
}

impl KeyTest {
    /// Cost in units of a range test. Reads of bits from a cache take about eight times as long as from shared memory; where a range probably
    /// suffices, the cost is nearly one.
    pub fn cost(&self) -> f64 {
        match (&self.bounds, self.shared) {
            (Some(_), true) => 1.2,
            (None, true) => 1.5,
            _ if self.folded.is_some() => 3.0,
            _ => 8.0,
        }
    }
}

/// Remaining fraction of rows below which a further column is not loaded for whole vectors: later tests are done row by row. Key tests take longer
/// than range tests.
const FEW_IN_RANGE: f64 = 0.02;
const FEW_KEYS: f64 = 0.06;

/// Threads of a block that shares large tables: one block, and one copy, per multiprocessor.
pub const WIDE_BLOCK: u32 = 1024;

/// The same if two key columns are in registers at once: more threads would have too few registers.
pub const TWO_KEYS_BLOCK: u32 = 768;

/// Entries of a warp's queue: less than a batch that is waiting, plus less than half a vector.
const QUEUE: usize = 544;

/// Number of words per lane that are loaded ahead of use; limited by registers.
const STAGE_WORDS: u32 = 40;

/// A test that is decided before a row's other columns are loaded.
enum Test<'a> {
    Packed(&'a TestShape),
    Key(&'a KeyTest, KeyOperands),
}

impl Test<'_> {
    fn column(&self) -> usize {
        match self {
            Test::Packed(test) => test.column,
            Test::Key(test, _) => test.column,
        }
    }
}

/// Operands of a [`KeyTest`] in a kernel.
struct KeyOperands {
    bits: String,
    min: String,
    keys: String,
    /// The folded bitmap, and operand of its number of words.
    folded: Option<[String; 2]>,
    /// Operands for whether a range test replaces the bitmap, and its ends `lo ..= hi`.
    range: Option<[String; 3]>,
}

/// Opens the loop over the rows of a scan with segments of shapes `shapes`. `scan` has only the filters that are not decided on packed values.
pub fn scan(g: &mut Generator, scan: &Scan, shapes: &[ColumnShape], choice: &Choice<'_>) -> Result<()> {
    let tests = choice.tests(g);
    let [segments, rows, count, bits, split, run] = operands(g);
    let queues = g.shared_memory(g.threads as usize / 32 * QUEUE * 2);
    g.code.line(format!("u16* const queue = (u16*)(shared + {queues}) + (threadIdx.x / 32) * {QUEUE};"));
    if tests.iter().any(|test| matches!(test, Test::Key(key, _) if key.shared || key.folded.is_some())) {
        g.code.line("__syncthreads();");
    }
    g.code.comment(
        "A warp takes 2^run vectors of 1024 rows at a time, or 1 / 2^split of one; up to 2^bits vectors of a segment lie together.",
    );
    g.code.line(format!("const u64 tasks = ((u64){count} << {bits} >> {run}) << {split};"));
    let stride = "(u64)gridDim.x * (blockDim.x / 32)";
    g.code.open(format!(
        "for (u64 task = (u64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; task < tasks; task += {stride})"
    ));
    g.code.line(format!("const u64 at = task >> {split} << {run};"));
    g.code.line(format!("const u32 segment = (u32)(at >> {bits});"));
    g.code.line(format!("const u32 base = (u32)at & ((1u << {bits}) - 1);"));
    g.code.line(format!("const i64 rows = (i64){rows}[segment] - 1024 * (i64)base;"));
    g.code.line("if (rows <= 0) continue;");
    for (column, shape) in shapes.iter().enumerate() {
        g.code
            .line(format!("const SegmentColumn& c{column} = {segments}[(u64)segment * {} + {column}];", shapes.len()));
        if let ColumnShape::Lane { width, .. } = shape {
            g.code.line(format!(
                "const u32* const c{column}_words = (const u32*)c{column}.data + (u64)base * {};",
                32 * width
            ));
        }
    }
    g.code.line("u32 held = 0;");
    g.code.open(format!("for (u32 step = 0; step >> {run} == 0; step++)"));
    g.code.line("const u32 vector = base + step;");
    g.code.line("const i64 left = rows - 1024 * (i64)step;");
    g.code.comment("What lies behind is no vector of these rows, or none at all; the queue is empty by then.");
    g.code.line("if (left <= 0) break;");
    g.code.line(format!("const bool last = left <= 1024 || (step + 1) >> {run} != 0;"));
    g.code.line("u32 mask = lane_rows_mask(lane, left < 1024 ? (u32)left : 1024u);");
    g.code.when(&format!("{split} > 0"), |code| {
        code.line(format!("const u32 part = 32u >> {split};"));
        code.line(format!("mask &= lane_field_mask(part) << (part * ((u32)task & ((1u << {split}) - 1)));"));
    });
    narrow(g, choice.pipeline, &tests, shapes);
    g.code.comment("Few rows are queued, so that every lane gets one; of many, each lane takes its own.");
    g.code.line("const u32 survivors = __reduce_add_sync(FULL_WARP, (u32)__popc(mask));");
    g.code.line(format!("const bool direct = survivors * 2 >= (1024u >> {split});"));
    g.code.line("if (!direct && survivors) queue_rows(mask, lane, step * 1024, queue + held);");
    g.code.line("if (!direct) held += survivors;");
    g.code.line("const u32 own = direct ? 32 : 0, batches = own + (last ? held + 31 : held) / 32;");
    g.code.open("for (u32 batch = 0; batch < batches; batch++)");
    g.code.line("const u32 taken = batch < own ? 0 : held < 32 ? held : 32;");
    g.code.line("held -= taken;");
    // Strings of consecutive rows share cache lines; packed values of a lane's own rows are at the same bits in all lanes.
    let (own, own_row) = match reads_text(shapes) && !g.runs {
        true => ("lane_mask_row(mask, lane, batch)", "32 * batch + lane"),
        false => ("(mask >> batch & 1) != 0", "striped_row(lane, batch)"),
    };
    g.code.line(format!("const bool present = batch < own ? {own} : lane < taken;"));
    g.code.line("if (!__any_sync(FULL_WARP, present)) continue;");
    g.code.line(format!(
        "const u32 row = batch < own ? step * 1024 + {own_row} : present ? (u32)queue[held + lane] : 0u;"
    ));
    g.active = "present".into();
    let loads = shapes.iter().enumerate().map(|(column, &shape)| Load::Segment { column, shape });
    g.push_loads(loads.collect::<Vec<_>>());
    for test in &tests {
        if let Test::Key(key, operands) = test {
            let ranged = operands.range.as_ref().map(|[ranged, ..]| ranged.clone());
            g.tested.push(Tested { column: key.column, buffer: key.buffer.clone(), unless: ranged });
        }
    }
    for test in &choice.rest {
        row_test(g, choice.pipeline, test)?;
    }
    for expr in &scan.filters {
        g.filter_by(expr)?;
    }
    Ok(())
}

/// Whether strings are read from memory.
fn reads_text(shapes: &[ColumnShape]) -> bool {
    shapes.iter().any(|shape| matches!(shape, ColumnShape::Any { phys: Phys::Str, .. }))
}

fn operands(g: &mut Generator) -> [String; 6] {
    let named = |what: &str| Binding::Named(format!("scan.{what}"));
    [
        g.params.pointer("SegmentColumn", "segments", named("segments")),
        g.params.pointer("u32", "rows", named("rows")),
        g.params.add("u32".into(), 4, "count", named("count")),
        g.params.add("u32".into(), 4, "bits", named("bits")),
        g.params.add("u32".into(), 4, "split", named("split")),
        g.params.add("u32".into(), 4, "run", named("run")),
    ]
}

/// The order and place of a scan's tests.
pub struct Choice<'a> {
    /// The pipeline of the scan.
    pipeline: usize,
    /// Tests on whole vectors, by savings per cost, until few rows are expected to be left. Remaining key tests are left to the joins.
    whole: Vec<Condition<'a>>,
    /// Filters that are decided row by row.
    rest: Vec<&'a TestShape>,
}

enum Condition<'a> {
    Packed(&'a TestShape),
    Key(&'a KeyTest),
}

impl<'a> Choice<'a> {
    /// Orders the tests for the scan of `pipeline` with segments of shapes `shapes`.
    pub fn new(pipeline: usize, tests: &'a [TestShape], shapes: &[ColumnShape], prunes: &'a [KeyTest]) -> Self {
        let packed = tests.iter().map(|test| (Condition::Packed(test), test.column, test.fraction, 1.0));
        let keys = prunes.iter().map(|prune| (Condition::Key(prune), prune.column, prune.fraction, prune.cost()));
        let mut candidates: Vec<_> = packed.chain(keys).collect();
        candidates.sort_by(|(.., f, a), (.., g, b)| ((1.0 - g) / b).total_cmp(&((1.0 - f) / a)));
        let (mut choice, mut left) = (Self { pipeline, whole: vec![], rest: vec![] }, 1.0);
        for (condition, column, fraction, _) in candidates {
            let few = if matches!(condition, Condition::Key(_)) { FEW_KEYS } else { FEW_IN_RANGE };
            match condition {
                _ if matches!(shapes[column], ColumnShape::Lane { .. }) && left > few => {
                    left *= fraction;
                    choice.whole.push(condition);
                }
                Condition::Packed(test) => choice.rest.push(test),
                Condition::Key(_) => {}
            }
        }
        choice
    }

    /// Key tests among those on whole vectors.
    pub fn keys(&self) -> impl Iterator<Item = &'a KeyTest> + '_ {
        self.whole.iter().filter_map(|condition| match condition {
            Condition::Key(test) => Some(*test),
            Condition::Packed(..) => None,
        })
    }

    fn tests(&self, g: &mut Generator) -> Vec<Test<'a>> {
        let test = |(number, condition): (usize, &Condition<'a>)| match condition {
            Condition::Packed(test) => Test::Packed(test),
            Condition::Key(test) => Test::Key(test, key_operands(g, number, test)),
        };
        self.whole.iter().enumerate().map(test).collect()
    }
}

/// Narrows `mask` by the tests. Columns are loaded together as long as all of them are likely to be needed.
fn narrow(g: &mut Generator, pipeline: usize, tests: &[Test<'_>], shapes: &[ColumnShape]) {
    if tests.is_empty() {
        return;
    }
    let depth = g.code.depth();
    let (mut from, mut expected) = (0, 1024.0);
    while from < tests.len() {
        let (mut to, mut words) = (from, 0);
        let mut columns = vec![];
        while to < tests.len() && (to == from || expected >= 4.0) {
            let column = tests[to].column();
            let ColumnShape::Lane { width, .. } = shapes[column] else { unreachable!("tests of packed columns") };
            if !columns.contains(&column) {
                if to > from && words + width > STAGE_WORDS {
                    break;
                }
                words += width;
                columns.push(column);
            }
            expected *= match &tests[to] {
                Test::Packed(test) => test.fraction,
                Test::Key(test, _) => test.fraction,
            };
            to += 1;
        }
        if from > 0 {
            g.code.open("if (__any_sync(FULL_WARP, mask))");
        }
        for column in columns {
            let ColumnShape::Lane { width, .. } = shapes[column] else { unreachable!("tests of packed columns") };
            g.code.line(format!("u32 w{column}[{}];", width.max(1)));
            let words = format!("c{column}_words + (u64)step * {}", 32 * width);
            g.code.line(format!("lane_load<{width}>(w{column}, {words}, lane);"));
        }
        for test in &tests[from..to] {
            apply(g, pipeline, test, shapes);
        }
        from = to;
    }
    g.code.close_to(depth);
}

/// Narrows `mask` by one test, with its column's words in registers.
fn apply(g: &mut Generator, pipeline: usize, test: &Test<'_>, shapes: &[ColumnShape]) {
    let column = test.column();
    let ColumnShape::Lane { width, nullable, local, .. } = shapes[column] else {
        unreachable!("tests of packed columns")
    };
    let reference = match local {
        true => format!("(i64)segment_reference(c{column}, vector)"),
        false => format!("(i64)c{column}.reference_low"),
    };
    match test {
        Test::Packed(test) if !test.is_set => {
            let [lo, hi] = range(g, pipeline, test);
            g.code.line(format!("mask &= lane_values_mask<{width}>(w{column}, {lo}, {hi}, {reference});"));
        }
        Test::Packed(test) => {
            let [bits, len] = code_set(g, pipeline, test);
            g.code.line(format!("mask &= lane_words_set_mask<{width}>(w{column}, {bits}, (u32){reference}, {len});"));
        }
        Test::Key(test, KeyOperands { bits, min, keys, folded, range }) => {
            let first = format!("(u32)((u64){reference} - (u64){min})");
            let folded = folded.as_ref().map_or(String::new(), |[folded, folds]| {
                format!("mask = lane_folded_mask<{width}>(mask, w{column}, {folded}, {first}, {folds}); ")
            });
            let within = if test.within && !nullable { "left >= 1024" } else { "false" };
            let bitmap = format!(
                "{folded}mask = lane_keys_mask<{width}, {}>(mask, w{column}, {bits}, {first}, {keys}, {within});",
                test.shared
            );
            match range {
                Some([ranged, lo, hi]) => {
                    g.code.line(format!(
                        "if ({ranged}) mask &= lane_values_mask<{width}>(w{column}, {lo}, {hi}, {reference});"
                    ));
                    g.code.line(format!("else {{ {bitmap} }}"));
                }
                None => g.code.line(bitmap),
            }
            return;
        }
    }
    if nullable {
        g.code.line(format!("mask &= valid_mask(c{column}, vector, lane);"));
    }
}

/// Generates the code before the loop for key test `number`: copies a small bitmap into shared memory, and computes the range that may replace it.
fn key_operands(g: &mut Generator, number: usize, test: &KeyTest) -> KeyOperands {
    let mut bits = g.params.pointer("u32", "bits", Binding::Named(test.buffer.clone()));
    let min = g.params.value(CType::I64, "min", test.min.to_le_bytes().to_vec());
    let keys = g.params.value(CType::U32, "keys", test.keys.to_le_bytes().to_vec());
    if test.shared {
        let words = test.keys / 32 + 1;
        let at = g.shared_memory(words as usize * 4);
        let words = g.params.value(CType::U32, "words", words.to_le_bytes().to_vec());
        let copy = format!("bits{number}");
        g.code.line(format!("u32* const {copy} = (u32*)(shared + {at});"));
        g.code.line(format!("for (u32 i = threadIdx.x; i < {words}; i += blockDim.x) {copy}[i] = {bits}[i];"));
        bits = copy;
    }
    let range = test.bounds.as_ref().map(|(buffer, density)| {
        let bounds = g.params.pointer("KeyBounds", "bounds", Binding::Named(buffer.clone()));
        let density = g.params.value(CType::F64, "density", density.to_le_bytes().to_vec());
        let [ranged, lo, hi] = ["ranged", "lo", "hi"].map(|name| format!("{name}{number}"));
        g.code.line(format!("const bool {ranged} = keys_in_a_row({bounds}, {density});"));
        g.code.line(format!("const i64 {lo} = first_key({bounds}, {min}), {hi} = last_key({bounds}, {min});"));
        [ranged, lo, hi]
    });
    let whole = bits.clone();
    let folded = test.folded.map(|bits| {
        let at = g.shared_memory(bits as usize / 8);
        let folds = g.params.value(CType::U32, "folds", (bits / 32).to_le_bytes().to_vec());
        let folded = format!("folded{number}");
        g.code.line(format!("u32* const {folded} = (u32*)(shared + {at});"));
        g.code.line(format!("fold_bits({folded}, {folds}, {whole}, {keys} / 32 + 1);"));
        [folded, folds]
    });
    KeyOperands { bits, min, keys, folded, range }
}

/// Operands for the ends of a range.
fn range(g: &mut Generator, pipeline: usize, test: &TestShape) -> [String; 2] {
    let mut end = |name, part| {
        let binding = Binding::Test { pipeline, number: test.number, part };
        g.params.add(CType::I64.name().into(), CType::I64.size(), name, binding)
    };
    [end("lo", TestPart::Least), end("hi", TestPart::Greatest)]
}

/// Operands for the bits of a code set, and the number of codes.
fn code_set(g: &mut Generator, pipeline: usize, test: &TestShape) -> [String; 2] {
    let binding = |part| Binding::Test { pipeline, number: test.number, part };
    let bits = g.params.pointer("u32", "set", binding(TestPart::Set));
    [bits, g.params.add(CType::U32.name().into(), CType::U32.size(), "codes", binding(TestPart::Codes))]
}

/// The same test on a decoded value.
fn row_test(g: &mut Generator, pipeline: usize, test: &TestShape) -> Result<()> {
    let value = g.column(g.scope(), test.column)?;
    let x = &value.text;
    let condition = if test.is_set {
        let [bits, len] = code_set(g, pipeline, test);
        format!("{x} < {len} && bit_test({bits}, {x})")
    } else {
        let [lo, hi] = range(g, pipeline, test);
        format!("(i64){x} >= {lo} && (i64){x} <= {hi}")
    };
    let valid = value.valid.map_or(String::new(), |valid| format!("{valid} && "));
    g.filter(&format!("{valid}{condition}"));
    Ok(())
}

/// The value of a scan's column at `row`, relative to vector `base`.
pub fn load_segment(g: &mut Generator, column: usize, shape: &ColumnShape) -> Value {
    let (phys, active) = (shape.phys(), g.active.clone());
    let ty = CType::of(phys);
    let at = "base + (row >> 10), row & 1023";
    let text = match shape {
        ColumnShape::Lane { width, local, .. } => {
            let offset = format!("lane_at<{width}>(c{column}_words, row)");
            let reference = match local {
                true => format!("(u64)segment_reference(c{column}, base + (row >> 10))"),
                false => format!("c{column}.reference_low"),
            };
            match phys {
                Phys::I64 => format!("(i64)({reference} + {offset})"),
                Phys::Bool => format!("((u32){reference} + {offset}) != 0"),
                _ => format!("({})((u32){reference} + {offset})", ty.name()),
            }
        }
        ColumnShape::Any { .. } => match phys {
            Phys::I128 => format!("segment_i128(c{column}, {at})"),
            Phys::Code => format!("segment_code(c{column}, {at})"),
            Phys::Str => format!("segment_str(c{column}, {at})"),
            Phys::Bool => format!("segment_i64(c{column}, {at}) != 0"),
            Phys::I32 | Phys::I64 => format!("({})segment_i64(c{column}, {at})", ty.name()),
            Phys::F32 | Phys::F64 => {
                format!("((const {}*)c{column}.data)[base * 1024 + row]", ty.name())
            }
        },
    };
    let text = g.code.define(ty, "x", format!("{active} ? {text} : {}", ty.zero()));
    let valid = shape
        .nullable()
        .then(|| g.code.define(CType::Bool, "ok", format!("{active} && segment_valid(c{column}, {at})")));
    Value { text, ty, valid }
}
