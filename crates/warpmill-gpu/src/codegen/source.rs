//! Sources: loops over the rows of segments, of sinks and of uploaded columns.

use warpmill_cpu::expr::PreparedExpr;
use warpmill_format::{Bitmap, LaneLayout, ValueLayout};
use warpmill_plan::{BuildRows, Expr, Field, Phys, Scan, SinkId, Unsupported};

use super::cpp::{CType, Value};
use super::generator::{Generator, Load, Result};
use super::layout::{BuildLayout, Table};
use super::params::Binding;

/// How the segments of a column that one launch reads are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnShape {
    /// Lane-packed offsets of one width (at most 32 bits) in all segments, without patches or translated codes.
    Lane {
        /// Bits.
        width: u32,
        /// How values are held.
        phys: Phys,
        /// Whether there are NULLs.
        nullable: bool,
    },
    /// Any encoding: looked up per row.
    Any {
        /// How values are held.
        phys: Phys,
        /// Whether there are NULLs.
        nullable: bool,
    },
}

impl ColumnShape {
    /// The shape of a single segment.
    pub fn of_segment(values: &ValueLayout, remapped: bool, phys: Phys, nullable: bool) -> Self {
        match values {
            ValueLayout::LaneFor(LaneLayout { width, patches: None, .. })
                if *width <= 32 && !remapped && matches!(phys, Phys::I32 | Phys::I64 | Phys::Code | Phys::Bool) =>
            {
                ColumnShape::Lane { width: *width, phys, nullable }
            }
            _ => ColumnShape::Any { phys, nullable },
        }
    }

    /// A shape for segments of this shape and of another of the same column.
    pub fn or(self, other: Self) -> Self {
        if self == other {
            return self;
        }
        ColumnShape::Any { phys: self.phys(), nullable: self.nullable() || other.nullable() }
    }

    fn phys(self) -> Phys {
        match self {
            ColumnShape::Lane { phys, .. } | ColumnShape::Any { phys, .. } => phys,
        }
    }

    fn nullable(self) -> bool {
        match self {
            ColumnShape::Lane { nullable, .. } | ColumnShape::Any { nullable, .. } => nullable,
        }
    }
}

/// A scan predicate that packed values decide.
#[derive(Debug, Clone)]
pub enum PackedTest {
    /// Values in `lo ..= hi`.
    Range(i64, i64),
    /// Codes in a set.
    Codes(Bitmap),
}

/// The predicates of a scan: those that packed values decide, and the rest.
#[derive(Debug, Clone, Default)]
pub struct ScanFilters {
    /// Column and test.
    pub packed: Vec<(usize, PackedTest)>,
    /// Evaluated per row.
    pub rest: Vec<Expr>,
}

impl ScanFilters {
    /// Splits the filters of `scan`.
    pub fn of(scan: &Scan) -> Result<Self> {
        let mut filters = Self::default();
        for expr in &scan.filters {
            let prepared = PreparedExpr::new(expr).map_err(|error| Unsupported::new(expr, error))?;
            // Bounds of tests are 64 bits.
            let narrow = |(column, _): &(usize, PackedTest)| scan.fields[*column].ty.phys != Phys::I128;
            match test(&prepared).filter(narrow) {
                Some(test) => filters.packed.push(test),
                None => filters.rest.push(expr.clone()),
            }
        }
        Ok(filters)
    }
}

fn test(prepared: &PreparedExpr) -> Option<(usize, PackedTest)> {
    if let Some((column, lo, hi)) = prepared.as_int_range() {
        let clamp = |x: i128| x.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let test = match lo > i64::MAX.into() || hi < i64::MIN.into() || lo > hi {
            true => PackedTest::Range(1, 0),
            false => PackedTest::Range(clamp(lo), clamp(hi)),
        };
        return Some((column, test));
    }
    let (column, set) = prepared.as_code_set()?;
    let mut codes = (0..set.len()).filter(|&code| set.get(code));
    let (first, count) = (codes.next(), set.count_ones());
    let test = match first {
        None => PackedTest::Range(1, 0),
        // Codes in a row are a range.
        Some(first) if (first..first + count).all(|code| code < set.len() && set.get(code)) => {
            PackedTest::Range(first as i64, (first + count) as i64 - 1)
        }
        Some(_) => PackedTest::Codes(set.clone()),
    };
    Some((column, test))
}

/// A test of a scan's column against the bitmap of a hash build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyTest {
    /// The scan's column.
    pub column: usize,
    /// The bitmap.
    pub buffer: String,
    /// The key of the first bit.
    pub min: i64,
    /// How many bits there are.
    pub keys: u32,
    /// Whether each block copies it into shared memory.
    pub shared: bool,
}

/// Threads of a block.
pub const BLOCK: u32 = 256;

/// Opens the loop over the rows of a scan: a warp takes a vector (or a part of one), decides packed predicates for all its
/// rows, and then goes through the rows that are left, 32 at a time.
pub fn scan(g: &mut Generator, filters: &ScanFilters, shapes: &[ColumnShape], prunes: &[KeyTest]) -> Result<()> {
    let columns = shapes.len();
    let segments = g.params.pointer("SegmentColumn", "segments", Binding::Named("scan.segments".into()));
    let rows = g.params.pointer("u32", "rows", Binding::Named("scan.rows".into()));
    let count = g.params.add("u32".into(), 4, "count", Binding::Named("scan.count".into()));
    let split = g.params.add("u32".into(), 4, "split", Binding::Named("scan.split".into()));
    let bitmaps: Vec<String> = prunes.iter().enumerate().map(|(number, test)| key_bits(g, number, test)).collect();
    if prunes.iter().any(|test| test.shared) {
        g.code.line("__syncthreads();");
    }
    g.code.line("__shared__ u16 queues[8][1024];");
    g.code.line("u16* const queue = queues[threadIdx.x / 32];");
    g.code.comment("A warp takes 1 / 2^split of a vector at a time: vectors of 1024 rows, 1024 vectors to a segment.");
    g.code.line(format!("const u64 tasks = ((u64){count} * 1024) << {split};"));
    let stride = "(u64)gridDim.x * (blockDim.x / 32)";
    g.code.open(format!(
        "for (u64 task = (u64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; task < tasks; task += {stride})"
    ));
    g.code.line(format!("const u32 segment = (u32)(task >> (10 + {split}));"));
    g.code.line(format!("const u32 vector = (u32)(task >> {split}) & 1023;"));
    g.code.line(format!("const i64 left = (i64){rows}[segment] - 1024 * (i64)vector;"));
    g.code.line("if (left <= 0) continue;");
    g.code.line("u32 mask = lane_rows_mask(lane, left < 1024 ? (u32)left : 1024u);");
    g.code.when(&format!("{split} > 0"), |code| {
        code.line(format!("const u32 part = 32u >> {split};"));
        code.line(format!("mask &= lane_field_mask(part) << (part * ((u32)task & ((1u << {split}) - 1)));"));
    });
    for (column, shape) in shapes.iter().enumerate() {
        g.code.line(format!("const SegmentColumn& c{column} = {segments}[(u64)segment * {columns} + {column}];"));
        if let ColumnShape::Lane { width, .. } = shape {
            g.code.line(format!(
                "const u32* const c{column}_words = (const u32*)c{column}.data + (u64)vector * {};",
                32 * width
            ));
            g.code.line(format!("const i64 c{column}_reference = (i64)segment_reference(c{column}, vector);"));
        }
    }
    let mut rest = vec![];
    for (column, test) in &filters.packed {
        match shapes[*column] {
            ColumnShape::Lane { width, nullable, .. } => packed_test(g, *column, width, nullable, test),
            ColumnShape::Any { .. } => rest.push((*column, test)),
        }
    }
    for (prune, bits) in prunes.iter().zip(&bitmaps) {
        if let ColumnShape::Lane { width, .. } = shapes[prune.column] {
            key_test(g, prune, bits, width);
        }
    }
    g.code.line("if (!__any_sync(FULL_WARP, mask)) continue;");
    g.code.comment("Few rows are queued, so that every lane gets one; of many, each lane takes its own.");
    g.code.line("const u32 survivors = __reduce_add_sync(FULL_WARP, (u32)__popc(mask));");
    g.code.line(format!("const bool queued = survivors * 2 < (1024u >> {split});"));
    g.code.line("if (queued) queue_rows(mask, lane, queue);");
    g.code.line("const u32 batches = queued ? (survivors + 31) / 32 : 32;");
    g.code.open("for (u32 batch = 0; batch < batches; batch++)");
    g.code.line("const bool present = queued ? batch * 32 + lane < survivors : (mask >> batch & 1) != 0;");
    g.code.line("if (!__any_sync(FULL_WARP, present)) continue;");
    g.code.line("const u32 row = !queued ? striped_row(lane, batch) : present ? (u32)queue[batch * 32 + lane] : 0u;");
    g.active = "present".into();
    let loads = shapes.iter().enumerate().map(|(column, &shape)| Load::Segment { column, shape });
    g.push_loads(loads.collect::<Vec<_>>());
    for (column, test) in rest {
        row_test(g, column, test)?;
    }
    for expr in &filters.rest {
        g.filter_by(expr)?;
    }
    Ok(())
}

/// Narrows `mask` by a test of packed values.
fn packed_test(g: &mut Generator, column: usize, width: u32, nullable: bool, test: &PackedTest) {
    let (words, reference) = (format!("c{column}_words"), format!("c{column}_reference"));
    match test {
        PackedTest::Range(lo, hi) => {
            let lo = g.params.value(CType::I64, "lo", lo.to_le_bytes().to_vec());
            let hi = g.params.value(CType::I64, "hi", hi.to_le_bytes().to_vec());
            g.code.line(format!("mask &= lane_values_mask<{width}>({words}, lane, {lo}, {hi}, {reference});"));
        }
        PackedTest::Codes(set) => {
            let (bits, len) = code_set(g, set);
            g.code.line(format!("mask &= lane_set_mask<{width}>({words}, lane, {bits}, (u32){reference}, {len});"));
        }
    }
    if nullable {
        g.code.line(format!("mask &= valid_mask(c{column}, vector, lane);"));
    }
    g.code.line("if (!__any_sync(FULL_WARP, mask)) continue;");
}

/// Narrows `mask` to rows whose key a hash build has; `bits` is the bitmap.
fn key_test(g: &mut Generator, test: &KeyTest, bits: &str, width: u32) {
    let column = test.column;
    let min = g.params.value(CType::I64, "min", test.min.to_le_bytes().to_vec());
    let keys = g.params.value(CType::U32, "keys", test.keys.to_le_bytes().to_vec());
    let first = format!("(u32)((u64)c{column}_reference - (u64){min})");
    g.code.line("if (!__any_sync(FULL_WARP, mask)) continue;");
    let call = format!("lane_keys_mask<{width}, {}>", test.shared);
    g.code.line(format!("mask = {call}(mask, c{column}_words, lane, {bits}, {first}, {keys});"));
}

/// The bitmap of a test, copied into shared memory where it is small.
fn key_bits(g: &mut Generator, number: usize, test: &KeyTest) -> String {
    let bits = g.params.pointer("u32", "bits", Binding::Named(test.buffer.clone()));
    if !test.shared {
        return bits;
    }
    let words = test.keys / 32 + 1;
    let at = g.shared_memory(words as usize * 4);
    let words = g.params.value(CType::U32, "words", words.to_le_bytes().to_vec());
    let copy = format!("bits{number}");
    g.code.line(format!("u32* const {copy} = (u32*)(shared + {at});"));
    g.code.line(format!("for (u32 i = threadIdx.x; i < {words}; i += blockDim.x) {copy}[i] = {bits}[i];"));
    copy
}

fn code_set(g: &mut Generator, set: &Bitmap) -> (String, String) {
    let words: Vec<u8> = set.words().iter().flat_map(|word| word.to_le_bytes()).collect();
    let bits = g.params.pointer("u32", "set", Binding::Data(words.into()));
    let len = g.params.value(CType::U32, "codes", (set.len() as u32).to_le_bytes().to_vec());
    (bits, len)
}

/// The same test on a decoded value.
fn row_test(g: &mut Generator, column: usize, test: &PackedTest) -> Result<()> {
    let value = g.column(g.scope(), column)?;
    let x = &value.text;
    let condition = match test {
        PackedTest::Range(lo, hi) => {
            let lo = g.params.value(CType::I64, "lo", lo.to_le_bytes().to_vec());
            let hi = g.params.value(CType::I64, "hi", hi.to_le_bytes().to_vec());
            format!("(i64){x} >= {lo} && (i64){x} <= {hi}")
        }
        PackedTest::Codes(set) => {
            let (bits, len) = code_set(g, set);
            format!("{x} < {len} && bit_test({bits}, {x})")
        }
    };
    let valid = value.valid.map_or(String::new(), |valid| format!("{valid} && "));
    g.filter(&format!("{valid}{condition}"));
    Ok(())
}

/// The value of a scan's column at `row` of `vector`.
pub fn load_segment(g: &mut Generator, column: usize, shape: &ColumnShape) -> Value {
    let (phys, active) = (shape.phys(), g.active.clone());
    let ty = CType::of(phys);
    let text = match shape {
        ColumnShape::Lane { width, .. } => {
            let offset = format!("lane_at<{width}>(c{column}_words, row)");
            match phys {
                Phys::I64 => format!("(i64)((u64)c{column}_reference + {offset})"),
                Phys::Bool => format!("((u32)c{column}_reference + {offset}) != 0"),
                _ => format!("({})((u32)c{column}_reference + {offset})", ty.name()),
            }
        }
        ColumnShape::Any { .. } => match phys {
            Phys::I128 => format!("segment_i128(c{column}, vector, row)"),
            Phys::Code => format!("segment_code(c{column}, vector, row)"),
            Phys::Str => format!("segment_str(c{column}, vector, row)"),
            Phys::Bool => format!("segment_i64(c{column}, vector, row) != 0"),
            Phys::I32 | Phys::I64 => format!("({})segment_i64(c{column}, vector, row)", ty.name()),
            Phys::F32 | Phys::F64 => {
                format!("((const {}*)c{column}.data)[vector * 1024 + row]", ty.name())
            }
        },
    };
    let text = g.code.define(ty, "x", format!("{active} ? {text} : {}", ty.zero()));
    let valid = shape
        .nullable()
        .then(|| g.code.define(CType::Bool, "ok", format!("{active} && segment_valid(c{column}, vector, row)")));
    Value { text, ty, valid }
}

/// Opens the loop over `count` rows (a `u64` operand) of columns in device memory: `row` is a thread's row.
pub fn flat(g: &mut Generator, count: &str) {
    g.code.line(format!("const u64 rows = {count};"));
    g.code.line("const u64 stride = (u64)gridDim.x * blockDim.x;");
    g.code.comment("All lanes of a warp stay in the loop until the last of them is done.");
    g.code.open("for (u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x - lane; first < rows; first += stride)");
    g.code.line("const u64 row = first + lane;");
    g.code.line("const bool present = row < rows;");
    g.active = "present".into();
}

/// Opens the loop over the rows of a hash build that `rows` selects: its payload, NULLs for what `fields` has more, and the
/// mark of [`BuildRows::Marked`].
pub fn build_rows(g: &mut Generator, id: SinkId, layout: &BuildLayout, rows: BuildRows, fields: &[Field]) {
    let named = |what: &str| Binding::Named(format!("sink{id}.{what}"));
    let flags = g.params.pointer("u8", "flags", named("flags"));
    match layout.table {
        Table::Bitmap => {
            let bits = g.params.pointer("u32", "bits", named("bits"));
            let keys = g.params.value(CType::U64, "keys", layout.capacity.to_le_bytes().to_vec());
            flat(g, &keys);
            g.filter(&format!("bit_test({bits}, row)"));
        }
        _ => {
            let count = super::program::sink_count(g, id, layout.capacity);
            flat(g, &count);
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
