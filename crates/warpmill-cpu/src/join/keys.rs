//! Join keys as integers: where the sizes of all key columns' value ranges have a product below 2^64, a row's keys pack into one `u64` code, and
//! equal codes mean equal keys.

use std::sync::Arc;

use rayon::prelude::*;
use warpmill_format::Bitmap;
use warpmill_ir::Phys;

use crate::vector::{Data, Vector};

/// The code of a row that cannot match: a value outside the build's range, or a NULL.
pub(super) const MISS: u64 = u64::MAX;

/// A key value that fits a 64-bit word: equal words mean equal keys.
pub(super) trait Word: Copy + Send + Sync {
    /// The word; ordered as the values are for integers, arbitrary for floats (0.0 = -0.0, NaN = NaN).
    fn word(self) -> i64;
}

macro_rules! integer_word {
    ($($ty:ty),*) => {$(
        impl Word for $ty {
            #[inline(always)]
            fn word(self) -> i64 {
                i64::from(self)
            }
        }
    )*};
}
integer_word!(bool, i32, i64, u32);

impl Word for f32 {
    #[inline(always)]
    fn word(self) -> i64 {
        f64::from(self).word()
    }
}

impl Word for f64 {
    #[inline(always)]
    fn word(self) -> i64 {
        // Adding 0.0 turns -0.0 into 0.0.
        (if self.is_nan() { f64::NAN } else { self + 0.0 }).to_bits() as i64
    }
}

/// Smallest and largest non-NULL value among the first `rows`, as words (`I128` unchanged). `None` for strings; `(MAX, MIN)` without values.
pub(super) fn word_range(key: &Vector, rows: usize) -> Option<(i128, i128)> {
    const BLOCK: usize = 1 << 16;
    const EMPTY: (i128, i128) = (i128::MAX, i128::MIN);
    let join = |a: (i128, i128), b: (i128, i128)| (a.0.min(b.0), a.1.max(b.1));
    fn words<T: Word>(key: &Vector, values: &[T], start: usize) -> (i128, i128) {
        let (mut lo, mut hi) = (i64::MAX, i64::MIN);
        for (i, value) in values.iter().enumerate() {
            if key.is_valid(start + i) {
                lo = lo.min(value.word());
                hi = hi.max(value.word());
            }
        }
        if lo > hi { EMPTY } else { (i128::from(lo), i128::from(hi)) }
    }
    macro_rules! range {
        ($values:expr, $f:expr) => {
            $values[..rows]
                .par_chunks(BLOCK)
                .enumerate()
                .map(|(block, values)| $f(key, values, block * BLOCK))
                .reduce(|| EMPTY, join)
        };
    }
    let wide = |key: &Vector, values: &[i128], start: usize| {
        let valid = values.iter().enumerate().filter(|(i, _)| key.is_valid(start + i));
        valid.fold(EMPTY, |range, (_, &v)| join(range, (v, v)))
    };
    Some(match &key.data {
        Data::Bool(v) => range!(v, words),
        Data::I32(v) => range!(v, words),
        Data::I64(v) => range!(v, words),
        Data::I128(v) => range!(v, wide),
        Data::F32(v) => range!(v, words),
        Data::F64(v) => range!(v, words),
        Data::Code(v) => range!(v, words),
        Data::Str(_) => return None,
    })
}

/// The contribution of one key column to the code.
#[derive(Debug)]
struct Part {
    min: i128,
    /// Number of values in range, without NULL.
    values: u64,
    /// Whether NULL has its own code (`values`).
    nulls: bool,
    stride: u64,
}

/// Packs key columns into codes `0 .. range`.
#[derive(Debug)]
pub(super) struct PackedKeys {
    parts: Vec<Part>,
    /// One more than the largest code.
    pub range: u64,
}

impl PackedKeys {
    /// A packing for values within `ranges` (see [`word_range`]), with a code for NULL if `nulls`; `None` if the codes would not fit.
    pub fn new(ranges: &[Option<(i128, i128)>], nulls: bool) -> Option<Self> {
        let mut parts = Vec::with_capacity(ranges.len());
        let mut range = 1u64;
        for bounds in ranges {
            let (lo, hi) = (*bounds)?;
            let values = if lo > hi { 0 } else { u64::try_from(hi.checked_sub(lo)?).ok()?.checked_add(1)? };
            parts.push(Part { min: if lo > hi { 0 } else { lo }, values, nulls, stride: range });
            range = range.checked_mul(values.checked_add(u64::from(nulls))?)?;
        }
        // Codes stay below MISS.
        Some(Self { parts, range }).filter(|packed| !packed.parts.is_empty())
    }

    /// The smallest value if the key is one column without a NULL code: the code is `value - min` then.
    pub fn single(&self) -> Option<i64> {
        match self.parts.as_slice() {
            [part] if !part.nulls => i64::try_from(part.min).ok(),
            _ => None,
        }
    }

    /// The codes of rows `start .. start + out.len()`.
    pub fn encode(&self, keys: &[Arc<Vector>], start: usize, out: &mut [u64]) {
        for (i, (part, key)) in self.parts.iter().zip(keys).enumerate() {
            let rows = Rows { start, validity: key.validity.as_ref(), first: i == 0 };
            match &key.data {
                Data::Bool(v) => part.encode(v, rows, out),
                Data::I32(v) => part.encode(v, rows, out),
                Data::I64(v) => part.encode(v, rows, out),
                Data::I128(v) => part.encode_wide(v, rows, out),
                Data::F32(v) => part.encode(v, rows, out),
                Data::F64(v) => part.encode(v, rows, out),
                Data::Code(v) => part.encode(v, rows, out),
                Data::Str(_) => unreachable!("strings do not pack"),
            }
        }
    }
}

/// Rows of a column to encode.
#[derive(Clone, Copy)]
struct Rows<'a> {
    start: usize,
    validity: Option<&'a Bitmap>,
    /// Whether this is the first column, which initialises the codes.
    first: bool,
}

impl Part {
    fn encode<T: Word>(&self, values: &[T], rows: Rows, out: &mut [u64]) {
        let min = self.min as i64;
        self.put_all(values, rows, out, |value| value.word().wrapping_sub(min) as u64);
    }

    fn encode_wide(&self, values: &[i128], rows: Rows, out: &mut [u64]) {
        let offset = |value: i128| u64::try_from(value.wrapping_sub(self.min) as u128).unwrap_or(MISS);
        self.put_all(values, rows, out, offset);
    }

    #[inline(always)]
    fn put_all<T: Copy>(&self, values: &[T], rows: Rows, out: &mut [u64], offset: impl Fn(T) -> u64) {
        let values = &values[rows.start..rows.start + out.len()];
        let put = |out: &mut u64, offset: u64, hit: bool| {
            *out = match (rows.first, hit && (rows.first || *out != MISS)) {
                (_, false) => MISS,
                (true, true) => offset,
                (false, true) => *out + offset * self.stride,
            }
        };
        match rows.validity {
            None => {
                for (out, &value) in out.iter_mut().zip(values) {
                    let offset = offset(value);
                    put(out, offset, offset < self.values);
                }
            }
            Some(validity) => {
                for (i, (out, &value)) in out.iter_mut().zip(values).enumerate() {
                    if validity.get(rows.start + i) {
                        let offset = offset(value);
                        put(out, offset, offset < self.values);
                    } else {
                        put(out, self.values, self.nulls);
                    }
                }
            }
        }
    }
}

/// Whether row `a` of `left` and row `b` of `right` have equal keys; NULLs equal each other.
pub(super) fn equal_keys(left: &[Arc<Vector>], a: usize, right: &[Arc<Vector>], b: usize) -> bool {
    left.iter().zip(right).all(|(left, right)| match (left.is_valid(a), right.is_valid(b)) {
        (true, true) => equal_values(&left.data, a, &right.data, b),
        (left, right) => left == right,
    })
}

/// Whether row `a` of `left` and row `b` of `right` may be equal: each column is equal, or NULL on either side.
pub(super) fn maybe_equal_keys(left: &[Arc<Vector>], a: usize, right: &[Arc<Vector>], b: usize) -> bool {
    left.iter()
        .zip(right)
        .all(|(left, right)| !left.is_valid(a) || !right.is_valid(b) || equal_values(&left.data, a, &right.data, b))
}

fn equal_values(left: &Data, a: usize, right: &Data, b: usize) -> bool {
    match (left, right) {
        (Data::Bool(l), Data::Bool(r)) => l[a] == r[b],
        (Data::I32(l), Data::I32(r)) => l[a] == r[b],
        (Data::I64(l), Data::I64(r)) => l[a] == r[b],
        (Data::I128(l), Data::I128(r)) => l[a] == r[b],
        (Data::F32(l), Data::F32(r)) => l[a].word() == r[b].word(),
        (Data::F64(l), Data::F64(r)) => l[a].word() == r[b].word(),
        (Data::Str(l), Data::Str(r)) => l[a] == r[b],
        (Data::Code(l), Data::Code(r)) => l[a] == r[b],
        (l, r) => unreachable!("keys of {:?} and {:?} in one join", l.phys(), r.phys()),
    }
}

/// Whether words are in the order of the SQL values (float words are bit patterns, which are not).
pub(super) fn ordered(phys: Phys) -> bool {
    phys.is_int() || matches!(phys, Phys::Code | Phys::Bool)
}
