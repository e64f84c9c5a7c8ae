//! Tables with a column of every type.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, TimestampMicrosecondArray,
};

/// The values that are NULL.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Nulls {
    None,
    Some,
    All,
}

pub const NULLS: [Nulls; 3] = [Nulls::None, Nulls::Some, Nulls::All];

/// The columns, besides `id`, the row number: a truth value, integers of a narrow and of a wide range, decimals of 64 and of 128 bits, floats, a
/// float with special values, times, strings with a dictionary and (in large tables) without.
pub const COLUMNS: [&str; 12] = ["b", "i", "l", "d", "w", "f", "x", "y", "day", "ts", "code", "name"];

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound
    }
}

/// `rows` rows. All values come from sets of `values` distinct ones per type, the same for all seeds.
pub fn table(seed: u64, rows: usize, values: u64, nulls: Nulls) -> RecordBatch {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut picks = || -> Vec<Option<u64>> {
        let mut pick = |_| {
            let value = random.below(values);
            match nulls {
                Nulls::None => Some(value),
                Nulls::Some => (random.below(4) > 0).then_some(value),
                Nulls::All => None,
            }
        };
        (0..rows).map(&mut pick).collect()
    };
    // A hash: well mixed, but deterministic.
    let mixed = |pick: u64| Random(pick.wrapping_mul(0xD6E8_FEB8_6659_FD93) | 1).next();
    let wide = |pick: u64| {
        let sign = if pick.is_multiple_of(2) { 1 } else { -1 };
        sign * i128::from(mixed(pick)) * i128::from(mixed(pick + 7) >> 20)
    };
    let decimal = |picks: Vec<Option<u64>>, of: &dyn Fn(u64) -> i128, precision, scale| {
        let values: Decimal128Array = picks.into_iter().map(|pick| pick.map(of)).collect();
        Arc::new(values.with_precision_and_scale(precision, scale).unwrap()) as ArrayRef
    };
    fn column<T, A: FromIterator<Option<T>> + arrow::array::Array + 'static>(
        picks: Vec<Option<u64>>,
        of: impl Fn(u64) -> T,
    ) -> ArrayRef {
        Arc::new(picks.into_iter().map(|pick| pick.map(&of)).collect::<A>())
    }
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new((0..rows as i32).map(Some).collect::<Int32Array>())),
        ("grp", column::<_, Int32Array>(picks(), |p| (p % 5) as i32)),
        ("b", column::<_, BooleanArray>(picks(), |p| p.is_multiple_of(3))),
        ("i", column::<_, Int32Array>(picks(), |p| p as i32 * 7 - 100)),
        ("l", column::<_, Int64Array>(picks(), |p| mixed(p) as i64)),
        ("d", decimal(picks(), &|p| i128::from(mixed(p) as i64 % 10_000_000_000), 12, 2)),
        ("w", decimal(picks(), &wide, 38, 4)),
        ("f", column::<_, Float32Array>(picks(), |p| (mixed(p) as i32 % 10_000) as f32 / 8.0)),
        ("x", column::<_, Float64Array>(picks(), |p| 1e6 + (mixed(p) as i32 % 1_000_000) as f64 / 1e3)),
        ("y", column::<_, Float64Array>(picks(), anything)),
        ("day", column::<_, Date32Array>(picks(), |p| (p * 37 % 20_000) as i32 - 3_000)),
        ("ts", column::<_, TimestampMicrosecondArray>(picks(), |p| mixed(p) as i64 >> 9)),
        ("code", column::<_, StringArray>(picks(), |p| format!("kind {}", p % 23))),
        ("name", column::<_, StringArray>(picks(), text)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn anything(pick: u64) -> f64 {
    match pick % 40 {
        0 => f64::NAN,
        1 => -f64::NAN,
        2 => f64::INFINITY,
        3 => f64::NEG_INFINITY,
        4 => 0.0,
        5 => -0.0,
        _ => (pick as f64 - 20.0) * 10f64.powi((pick % 60) as i32 - 30),
    }
}

/// Strings with long common prefixes, prefixes of each other, non-ASCII characters, and the empty string.
fn text(pick: u64) -> String {
    let start = ["", "Customer#0000000", "\u{e9}t\u{e9} ", "http://example.com/a/rather/long/path/"][pick as usize % 4];
    match pick {
        0 => String::new(),
        _ => format!("{start}{}", pick / 4),
    }
}
