//! Statistics of the values of a segment or of a whole column.

use serde::{Deserialize, Serialize};

use crate::encoding::word::Value;

/// A bound of a column: integer-like types by their unscaled value.
#[derive(Debug, Clone, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum StatValue {
    /// Booleans, integers, decimals (unscaled), dates (days), timestamps (ticks).
    Int(i128),
    /// Floating-point numbers; never NaN (a column with NaN has no bounds).
    Float(f64),
    /// Strings (may be truncated: a lower bound to a prefix, an upper bound rounded up).
    Str(String),
}

/// Statistics of one segment, or of one column over all its segments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ColumnStats {
    /// Rows, nulls included.
    pub rows: u64,
    /// Rows that are null.
    pub nulls: u64,
    /// A value no larger than any non-null value; `None` when unknown or when all rows are null.
    pub min: Option<StatValue>,
    /// A value no smaller than any non-null value; `None` when unknown or when all rows are null.
    pub max: Option<StatValue>,
    /// Estimated number of distinct non-null values (exact where a dictionary makes it so).
    pub distinct: Option<u64>,
    /// Uncompressed size in bytes (integers at their type's width, strings as bytes + 4 per row).
    pub plain_bytes: u64,
    /// Stored size in bytes.
    pub stored_bytes: u64,
}

impl ColumnStats {
    /// The bounds as unscaled integers, if both are known.
    pub fn int_range(&self) -> Option<(i128, i128)> {
        match (&self.min, &self.max) {
            (Some(StatValue::Int(lo)), Some(StatValue::Int(hi))) => Some((*lo, *hi)),
            _ => None,
        }
    }

    /// Merges the statistics of further rows. Distinct counts are merged as the larger of the two, limited by the number of rows: a lower estimate,
    /// which the writer refines if it knows better.
    pub fn merge(&mut self, other: &ColumnStats) {
        fn pick(a: &mut Option<StatValue>, b: &Option<StatValue>, empty: bool, other_empty: bool, less: bool) {
            if other_empty {
                return;
            }
            *a = match (a.take(), b) {
                (_, _) if empty => b.clone(),
                (Some(x), Some(y)) => Some(if (*y < x) == less { y.clone() } else { x }),
                _ => None,
            };
        }
        let (empty, other_empty) = (self.rows == self.nulls, other.rows == other.nulls);
        pick(&mut self.min, &other.min, empty, other_empty, true);
        pick(&mut self.max, &other.max, empty, other_empty, false);
        self.rows += other.rows;
        self.nulls += other.nulls;
        self.distinct = match (self.distinct, other.distinct) {
            (Some(a), Some(b)) => Some(a.max(b).min(self.rows)),
            (a, b) => a.or(b),
        };
        // A manifest may claim anything.
        self.plain_bytes = self.plain_bytes.saturating_add(other.plain_bytes);
        self.stored_bytes = self.stored_bytes.saturating_add(other.stored_bytes);
    }
}

/// Bytes that a string bound may take.
const STRING_BOUND: usize = 64;

/// Bounds of strings, truncated to [`STRING_BOUND`] bytes: the lower one is cut, the upper one rounded up.
pub(crate) fn string_bounds<'a>(
    values: impl Iterator<Item = &'a str> + Clone,
) -> (Option<StatValue>, Option<StatValue>) {
    let min = values.clone().min().map(|s| StatValue::Str(s[..s.floor_char_boundary(STRING_BOUND)].to_owned()));
    (min, values.max().and_then(upper_bound).map(StatValue::Str))
}

/// A string of at most [`STRING_BOUND`] bytes that is no smaller than `s`, if there is one.
fn upper_bound(s: &str) -> Option<String> {
    if s.len() <= STRING_BOUND {
        return Some(s.to_owned());
    }
    // Room for the successor of the last character, which may be one byte longer.
    let mut prefix: Vec<char> = s[..s.floor_char_boundary(STRING_BOUND - 3)].chars().collect();
    while let Some(last) = prefix.pop() {
        let next = if last == '\u{D7FF}' { Some('\u{E000}') } else { char::from_u32(last as u32 + 1) };
        if let Some(next) = next {
            prefix.push(next);
            return Some(prefix.into_iter().collect());
        }
    }
    None
}

/// Counts distinct values: exactly if they are in a small range, otherwise by HyperLogLog (Flajolet et al. 2007; linear counting while sparse, 4096
/// registers, about 1.6% standard error).
pub(crate) enum DistinctCounter {
    /// One byte per possible value: bits would wait for each other.
    Dense { low: i128, seen: Vec<u8> },
    /// The largest rank seen per register.
    Hashed { registers: Vec<u8> },
}

impl DistinctCounter {
    const REGISTERS: usize = 4096;
    const DENSE_RANGE: i128 = 1 << 21;

    /// A counter of values in `low ..= high`.
    pub(crate) fn new(low: i128, high: i128) -> Self {
        match high.checked_sub(low) {
            Some(span) if span < Self::DENSE_RANGE => Self::Dense { low, seen: vec![0; span as usize + 1] },
            _ => Self::hashed(),
        }
    }

    /// A counter of any values.
    pub(crate) fn hashed() -> Self {
        Self::Hashed { registers: vec![0; Self::REGISTERS] }
    }

    #[inline]
    pub(crate) fn add(&mut self, value: i128) {
        match self {
            Self::Dense { low, seen } => {
                seen[(value - *low) as usize] = 1;
            }
            Self::Hashed { .. } => self.add_hash(hash(value)),
        }
    }

    /// Adds integers; `low` is the lower bound of the counter's range.
    pub(crate) fn add_all<V: Value>(&mut self, values: &[V], low: V) {
        match self {
            Self::Dense { seen, .. } => values.iter().for_each(|x| seen[x.offset64(low) as usize] = 1),
            Self::Hashed { registers } => {
                let registers: &mut [u8; Self::REGISTERS] =
                    registers.as_mut_slice().try_into().expect("as many as made");
                for x in values {
                    let (register, rank) = Self::place(hash(x.to_i128()));
                    let held = &mut registers[register];
                    *held = (*held).max(rank);
                }
            }
        }
    }

    /// The register of a hash, and its rank.
    #[inline(always)]
    fn place(hash: u64) -> (usize, u8) {
        const BITS: u32 = DistinctCounter::REGISTERS.ilog2();
        ((hash >> (64 - BITS)) as usize, (hash << BITS).leading_zeros().min(64 - BITS) as u8 + 1)
    }

    pub(crate) fn add_bytes(&mut self, value: &[u8]) {
        self.add_hash(xxhash_rust::xxh3::xxh3_64(value));
    }

    #[inline]
    fn add_hash(&mut self, hash: u64) {
        if let Self::Hashed { registers } = self {
            let (register, rank) = Self::place(hash);
            registers[register] = registers[register].max(rank);
        }
    }

    pub(crate) fn estimate(&self) -> u64 {
        match self {
            Self::Dense { seen, .. } => seen.iter().map(|&seen| u64::from(seen)).sum(),
            Self::Hashed { registers } => {
                let m = Self::REGISTERS as f64;
                let zeros = registers.iter().filter(|&&r| r == 0).count() as f64;
                let raw =
                    0.7213 / (1.0 + 1.079 / m) * m * m / registers.iter().map(|&r| 0.5f64.powi(r.into())).sum::<f64>();
                let estimate = if zeros > 0.0 && raw <= 2.5 * m { m * (m / zeros).ln() } else { raw };
                estimate.round() as u64
            }
        }
    }
}

/// Counts the distinct values of a sample, one row in [`SampleCounter::STEP`], and estimates the number for all rows: for columns that are encoded
/// while a query waits. Counting all values would cost more than the rest of the encoding.
pub(crate) struct SampleCounter {
    /// Hash table with open addressing: 32 other bits of the hash, never 0; 0 is free. Different values rarely have equal bits.
    seen: Vec<u32>,
    distinct: u64,
    rows: u64,
    random: u64,
}

impl SampleCounter {
    /// Sampling interval in rows.
    pub(crate) const STEP: usize = 16;

    /// A counter for `rows` rows, which should be some thousands.
    pub(crate) fn new(rows: usize) -> Self {
        let slots = (2 * (rows / Self::STEP)).next_power_of_two().max(16);
        Self { seen: vec![0; slots], distinct: 0, rows: 0, random: 1 }
    }

    /// The offset of the sampled row within the next [`SampleCounter::STEP`] rows: random, since values at equal distances may be alike.
    #[inline(always)]
    pub(crate) fn next_row(&mut self) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % Self::STEP
    }

    #[inline(always)]
    fn add_hash(&mut self, hash: u64) {
        let mask = self.seen.len() - 1;
        let (tag, mut slot) = ((hash as u32).max(1), (hash >> 32) as usize & mask);
        self.rows += 1;
        while self.seen[slot] != tag {
            if self.seen[slot] == 0 {
                self.seen[slot] = tag;
                self.distinct += 1;
                return;
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Takes a sample of integers.
    pub(crate) fn add_all<V: Value>(&mut self, values: &[V]) {
        for rows in values.as_chunks::<{ Self::STEP }>().0 {
            let row = self.next_row();
            self.add_hash(hash(rows[row].to_i128()));
        }
    }

    /// Adds a row of the sample.
    #[inline]
    pub(crate) fn add_bytes(&mut self, value: &[u8]) {
        self.add_hash(xxhash_rust::xxh3::xxh3_64(value));
    }

    /// Estimates the distinct values of all `rows` rows, at most `most`. Assumes that all values are equally frequent, so that a sample of a fraction
    /// `f` of the rows has `D (1 - (1 - f)^(rows / D))` of `D` values: nearly all of few values, few of a key's.
    pub(crate) fn estimate(&self, rows: u64, most: u64) -> u64 {
        let most = most.max(self.distinct);
        let rows = rows as f64;
        let missed: f64 = 1.0 - (self.rows as f64 / rows.max(1.0)).min(1.0);
        let expected = |values: f64| values * (1.0 - missed.powf(rows / values));
        let (mut low, mut high) = (self.distinct as f64, most as f64);
        if self.distinct == 0 || expected(high) <= self.distinct as f64 {
            return most.min(rows as u64);
        }
        for _ in 0..50 {
            let middle = (low + high) / 2.0;
            if expected(middle) < self.distinct as f64 { low = middle } else { high = middle }
        }
        (high.round() as u64).clamp(self.distinct, most)
    }
}

/// Mixes both halves of a value. Nearly all upper halves only repeat the sign.
#[inline]
fn hash(value: i128) -> u64 {
    const SALT: u64 = 0x9E37_79B9_7F4A_7C15;
    const POSITIVE: u64 = mix(SALT);
    const NEGATIVE: u64 = mix(!SALT);
    let high = match (value >> 64) as u64 {
        0 => POSITIVE,
        u64::MAX => NEGATIVE,
        high => mix(high ^ SALT),
    };
    mix(value as u64 ^ high)
}

/// The finalizer of splitmix64: a bijection; every output bit depends on all input bits.
#[inline]
const fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_tell_how_many_values_there_are() {
        let rows = 1i64 << 20;
        let scattered = |i: i64, values: i64| (i * 7_919_777 % 1_048_583) * values / 1_048_583;
        let random = |i: i64, values: i64| (mix(i as u64) % values as u64) as i64;
        type Case = (&'static str, i64, Box<dyn Fn(i64) -> i64>);
        let cases: [Case; 8] = [
            ("a key", rows, Box::new(|i| i * 1_000_003 % 1_048_583)),
            ("20 values", 20, Box::new(|i| i % 20)),
            ("16 in turn", 16, Box::new(|i| i % 16)),
            ("30000, even", 30_000, Box::new(move |i| scattered(i, 30_000))),
            ("260000, even", 260_000, Box::new(move |i| scattered(i, 260_000))),
            ("500000, even", 500_000, Box::new(move |i| scattered(i, 500_000))),
            ("100000, at random", 100_000, Box::new(move |i| random(i, 100_000))),
            ("two of each", rows / 2, Box::new(|i| i / 2)),
        ];
        for (name, distinct, f) in cases {
            let values: Vec<i64> = (0..rows).map(f).collect();
            let mut counter = SampleCounter::new(values.len());
            counter.add_all(&values);
            // Direct repetitions are detected elsewhere.
            let most = if name == "two of each" { distinct } else { rows };
            let estimate = counter.estimate(rows as u64, most as u64) as f64;
            let error = (estimate / distinct as f64 - 1.0).abs();
            assert!(error < 0.1, "{name}: {estimate} of {distinct}");
        }
        assert_eq!(SampleCounter::new(100).estimate(0, 0), 0);
    }
}
