//! Normalized sort keys: integers that compare as rows do (Graefe, Implementing Sorting in Database Systems, section 3).
//!
//! Keys with proven bounds take only the bits of their span, most significant key first. Keys that do not fit (long strings, very wide keys) are cut
//! off, and rows with equal prefixes are compared value by value.

use std::cmp::Ordering;
use std::sync::Arc;

use warpmill_format::StrView;
use warpmill_ir::{ColType, Phys, SortKey};

use crate::vector::{Data, Vector};

/// An integer wide enough for normalized keys.
pub(crate) trait Prefix: Copy + Ord + Send + Sync + Default + 'static {
    /// The prefix in 128 bits.
    fn wide(self) -> u128;
    /// Appends the low `bits` bits of `code` as the new lowest bits.
    fn append(self, code: u128, bits: u32) -> Self;
    /// As `append`, for up to 64 bits.
    fn append_word(self, code: u64, bits: u32) -> Self;
    /// Prefixes as a column, for spilling.
    fn column(prefixes: Vec<Self>) -> Data;
    /// The inverse of `column`.
    fn of_column(column: Data) -> Vec<Self>;
}

macro_rules! prefix {
    ($($t:ty as $signed:ty: $variant:ident),*) => {$(
        impl Prefix for $t {
            #[inline(always)]
            fn wide(self) -> u128 {
                self as u128
            }
            #[inline(always)]
            fn append(self, code: u128, bits: u32) -> Self {
                self.checked_shl(bits).unwrap_or(0) | code as $t
            }
            #[inline(always)]
            fn append_word(self, code: u64, bits: u32) -> Self {
                self.checked_shl(bits).unwrap_or(0) | <$t>::from(code)
            }
            fn column(prefixes: Vec<Self>) -> Data {
                Data::$variant(prefixes.into_iter().map(|prefix| prefix as $signed).collect())
            }
            fn of_column(column: Data) -> Vec<Self> {
                match column {
                    Data::$variant(prefixes) => prefixes.into_iter().map(|prefix| prefix as $t).collect(),
                    data => unreachable!("prefixes held as {:?}", data.phys()),
                }
            }
        }
    )*};
}
prefix!(u64 as i64: I64, u128 as i128: I128);

#[derive(Debug, Clone, Copy)]
struct Part {
    nullable: bool,
    nulls_first: bool,
    descending: bool,
    /// Least value (integers).
    lo: i128,
    /// Significant bits of the whole value's code.
    width: u32,
    /// Number of them, from the top, that are in the prefix.
    bits: u32,
}

/// How rows become prefixes.
#[derive(Debug)]
pub(crate) struct Normalizer {
    parts: Vec<Part>,
    /// Number of bits of a prefix.
    bits: u32,
    /// The first key that prefixes do not hold completely: equal prefixes leave the order open from there.
    pub open: usize,
}

impl Normalizer {
    pub fn new(keys: &[SortKey]) -> Self {
        let mut parts = vec![];
        let mut used = 0u32;
        let mut open = keys.len();
        for (index, key) in keys.iter().enumerate() {
            let ty = &key.expr.ty;
            let (lo, width) = span(ty);
            let null_bits = u32::from(ty.nullable);
            if used + null_bits >= 128 {
                open = index;
                break;
            }
            let bits = width.min(128 - used - null_bits);
            used += bits + null_bits;
            parts.push(Part {
                nullable: ty.nullable,
                nulls_first: key.nulls_first,
                descending: key.descending,
                lo,
                width,
                bits,
            });
            // Prefixes do not distinguish strings that are longer or contain zero bytes.
            if bits < width || ty.phys == Phys::Str {
                open = index;
                break;
            }
        }
        Self { parts, bits: used, open }
    }

    /// Whether prefixes fit 64 bits.
    pub fn is_narrow(&self) -> bool {
        self.bits <= 64
    }

    /// Number of bits of a prefix.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Number of bits of a prefix for the first `keys` keys.
    pub fn bits_of(&self, keys: usize) -> u32 {
        self.parts.iter().take(keys).map(|part| part.bits + u32::from(part.nullable)).sum()
    }

    /// The prefix of every row.
    pub fn encode<P: Prefix>(&self, keys: &[Arc<Vector>], rows: usize) -> Vec<P> {
        let mut prefixes = vec![P::default(); rows];
        for (part, key) in self.parts.iter().zip(keys) {
            part.append(key, &mut prefixes);
        }
        prefixes
    }
}

/// Least value and number of code bits of a type's values.
fn span(ty: &ColType) -> (i128, u32) {
    let (lo, hi) = match ty.phys {
        Phys::Bool => return (0, 1),
        Phys::F32 => return (0, 32),
        Phys::F64 => return (0, 64),
        Phys::Str => return (0, 128),
        Phys::Code => (0, ty.dictionary.as_ref().map_or(u32::MAX.into(), |d| d.len().max(1) as i128 - 1)),
        Phys::I32 => ty.range.unwrap_or((i32::MIN.into(), i32::MAX.into())),
        Phys::I64 => ty.range.unwrap_or((i64::MIN.into(), i64::MAX.into())),
        Phys::I128 => ty.range.unwrap_or((i128::MIN, i128::MAX)),
    };
    (lo, (128 - (hi.max(lo).wrapping_sub(lo) as u128).leading_zeros()).max(1))
}

impl Part {
    fn append<P: Prefix>(&self, key: &Vector, prefixes: &mut [P]) {
        if self.nullable {
            // The flag is 0 for the side that sorts first.
            for (row, prefix) in prefixes.iter_mut().enumerate() {
                *prefix = prefix.append_word(u64::from(key.is_valid(row) == self.nulls_first), 1);
            }
        }
        let lo = self.lo as u64;
        match &key.data {
            Data::Bool(v) => self.words(key, prefixes, v, u64::from),
            Data::Code(v) => self.words(key, prefixes, v, u64::from),
            Data::I32(v) => self.words(key, prefixes, v, |v| (i64::from(v) as u64).wrapping_sub(lo)),
            Data::I64(v) => self.words(key, prefixes, v, |v| (v as u64).wrapping_sub(lo)),
            Data::F32(v) => self.words(key, prefixes, v, |v| u64::from(ordered_f32(v))),
            Data::F64(v) => self.words(key, prefixes, v, ordered_f64),
            Data::I128(v) => self.wide(key, prefixes, v, |v| v.wrapping_sub(self.lo) as u128),
            Data::Str(v) => self.wide(key, prefixes, v, leading_bytes),
        }
    }

    #[inline(always)]
    fn words<P: Prefix, T: Copy>(&self, key: &Vector, prefixes: &mut [P], values: &[T], code: impl Fn(T) -> u64) {
        let mask = u64::MAX >> (64 - self.width.min(64));
        let flip = if self.descending { mask } else { 0 };
        let cut = self.width - self.bits;
        for (row, prefix) in prefixes.iter_mut().enumerate() {
            let code = if key.is_valid(row) { (code(values[row]) ^ flip) & mask } else { 0 };
            *prefix = prefix.append_word(code.checked_shr(cut).unwrap_or(0), self.bits);
        }
    }

    #[inline(always)]
    fn wide<P: Prefix, T: Copy>(&self, key: &Vector, prefixes: &mut [P], values: &[T], code: impl Fn(T) -> u128) {
        let mask = u128::MAX >> (128 - self.width);
        let flip = if self.descending { mask } else { 0 };
        let cut = self.width - self.bits;
        for (row, prefix) in prefixes.iter_mut().enumerate() {
            let code = if key.is_valid(row) { (code(values[row]) ^ flip) & mask } else { 0 };
            *prefix = prefix.append(code.checked_shr(cut).unwrap_or(0), self.bits);
        }
    }
}

/// Bits in the order of floats: one zero, one NaN, which is greatest.
pub(crate) fn ordered_f64(value: f64) -> u64 {
    let bits = if value.is_nan() { f64::NAN } else { value + 0.0 }.to_bits();
    if bits >> 63 != 0 { !bits } else { bits | 1 << 63 }
}

pub(crate) fn ordered_f32(value: f32) -> u32 {
    let bits = if value.is_nan() { f32::NAN } else { value + 0.0 }.to_bits();
    if bits >> 31 != 0 { !bits } else { bits | 1 << 31 }
}

/// The first 16 bytes of a string, big endian, padded with zeros.
fn leading_bytes(string: StrView) -> u128 {
    let bytes = string.as_bytes();
    if let Some(head) = bytes.first_chunk::<16>() {
        return u128::from_be_bytes(*head);
    }
    let mut head = [0; 16];
    head[..bytes.len()].copy_from_slice(bytes);
    u128::from_be_bytes(head)
}

/// Direction and NULL order of a key that is compared value by value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Direction {
    pub descending: bool,
    pub nulls_first: bool,
}

impl Direction {
    /// Compares row `i` of `a` with row `j` of `b`.
    pub fn compare(self, a: &Vector, i: usize, b: &Vector, j: usize) -> Ordering {
        match (a.is_valid(i), b.is_valid(j)) {
            (true, true) => {
                let order = compare_values(&a.data, i, &b.data, j);
                if self.descending { order.reverse() } else { order }
            }
            (false, false) => Ordering::Equal,
            (valid, _) => {
                if valid == self.nulls_first {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
        }
    }
}

/// Compares value `i` of `a` with value `j` of `b`.
pub(crate) fn compare_values(a: &Data, i: usize, b: &Data, j: usize) -> Ordering {
    match (a, b) {
        (Data::Str(a), Data::Str(b)) => a[i].cmp(&b[j]),
        (Data::I32(a), Data::I32(b)) => a[i].cmp(&b[j]),
        (Data::I64(a), Data::I64(b)) => a[i].cmp(&b[j]),
        (Data::I128(a), Data::I128(b)) => a[i].cmp(&b[j]),
        (Data::Code(a), Data::Code(b)) => a[i].cmp(&b[j]),
        (Data::Bool(a), Data::Bool(b)) => a[i].cmp(&b[j]),
        (Data::F32(a), Data::F32(b)) => ordered_f32(a[i]).cmp(&ordered_f32(b[j])),
        (Data::F64(a), Data::F64(b)) => ordered_f64(a[i]).cmp(&ordered_f64(b[j])),
        (a, b) => unreachable!("vectors of {:?} and {:?} in one column", a.phys(), b.phys()),
    }
}
