//! Intermediate values of expressions: whole columns, broadcast constants, and truth values as bits.

use std::sync::Arc;

use warpmill_format::{Bitmap, StrView};
use warpmill_ir::Phys;

use crate::vector::{Data, Vector};

/// The Rust type of a [`Phys`].
pub(super) trait Native: Copy + Default + Send + Sync + 'static {
    /// The values of a vector of this type.
    fn values(data: &Data) -> &[Self];
    /// The values of a vector of this type, to be written.
    fn values_mut(data: &mut Data) -> &mut Vec<Self>;
    /// A vector's values.
    fn wrap(values: Vec<Self>) -> Data;
}

macro_rules! native {
    ($($type:ty => $variant:ident),*) => {$(
        impl Native for $type {
            #[inline]
            fn values(data: &Data) -> &[Self] {
                match data {
                    Data::$variant(values) => values,
                    other => unreachable!(concat!("an operand of ", stringify!($variant), " is {:?}"), other.phys()),
                }
            }
            #[inline]
            fn values_mut(data: &mut Data) -> &mut Vec<Self> {
                match data {
                    Data::$variant(values) => values,
                    other => unreachable!(concat!("an operand of ", stringify!($variant), " is {:?}"), other.phys()),
                }
            }
            #[inline]
            fn wrap(values: Vec<Self>) -> Data {
                Data::$variant(values)
            }
        }
    )*};
}

native!(bool => Bool, i32 => I32, i64 => I64, i128 => I128, f32 => F32, f64 => F64, StrView => Str, u32 => Code);

/// Runs `$body` with the type alias `$T` for the Rust type of a [`Phys`].
macro_rules! with_native {
    ($phys:expr, $T:ident => $body:expr) => {
        match $phys {
            warpmill_ir::Phys::Bool => {
                type $T = bool;
                $body
            }
            warpmill_ir::Phys::I32 => {
                type $T = i32;
                $body
            }
            warpmill_ir::Phys::I64 => {
                type $T = i64;
                $body
            }
            warpmill_ir::Phys::I128 => {
                type $T = i128;
                $body
            }
            warpmill_ir::Phys::F32 => {
                type $T = f32;
                $body
            }
            warpmill_ir::Phys::F64 => {
                type $T = f64;
                $body
            }
            warpmill_ir::Phys::Str => {
                type $T = warpmill_format::StrView;
                $body
            }
            warpmill_ir::Phys::Code => {
                type $T = u32;
                $body
            }
        }
    };
}
pub(super) use with_native;

/// An operand: a value per row, or one for all rows (not materialized per row).
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// A value per row.
    Rows(Arc<Vector>),
    /// A single row that represents all.
    Const(Arc<Vector>),
}

/// The typed values of an operand.
#[derive(Clone, Copy)]
pub(super) enum Side<'a, T> {
    /// One per row.
    Many(&'a [T]),
    /// One value for all rows.
    One(T),
}

impl<T: Copy> Side<'_, T> {
    /// The value of row `i`.
    #[inline(always)]
    pub fn at(&self, i: usize) -> T {
        match self {
            Side::Many(values) => values[i],
            Side::One(value) => *value,
        }
    }
}

/// The strings of an operand; valid while it is borrowed.
#[derive(Clone, Copy)]
pub(super) enum Texts<'a> {
    /// One per row.
    Many(&'a [StrView]),
    /// One value for all rows.
    One(&'a StrView),
}

impl<'a> Texts<'a> {
    /// The view of row `i`.
    #[inline(always)]
    pub fn view(&self, i: usize) -> &'a StrView {
        match self {
            Texts::Many(values) => &values[i],
            Texts::One(value) => value,
        }
    }

    /// The string of row `i`.
    #[inline(always)]
    pub fn at(&self, i: usize) -> &'a str {
        self.view(i).as_str()
    }
}

impl Value {
    /// A value per row.
    pub fn rows(vector: Vector) -> Self {
        Value::Rows(Arc::new(vector))
    }

    /// NULL for all rows.
    pub fn null(phys: Phys) -> Self {
        Value::Const(Arc::new(Vector::nulls(phys, 1)))
    }

    /// The typed values.
    pub fn side<T: Native>(&self) -> Side<'_, T> {
        match self {
            Value::Rows(vector) => Side::Many(T::values(&vector.data)),
            Value::Const(vector) => Side::One(T::values(&vector.data)[0]),
        }
    }

    /// The strings.
    pub fn texts(&self) -> Texts<'_> {
        match self {
            Value::Rows(vector) => Texts::Many(StrView::values(&vector.data)),
            Value::Const(vector) => Texts::One(&StrView::values(&vector.data)[0]),
        }
    }

    /// The vector: all rows, or the single row that represents them.
    pub fn vector(&self) -> &Arc<Vector> {
        match self {
            Value::Rows(vector) | Value::Const(vector) => vector,
        }
    }

    /// Whether this is NULL for all rows.
    pub fn is_null_const(&self) -> bool {
        matches!(self, Value::Const(vector) if !vector.is_valid(0))
    }

    /// Validity of rows of a value that is not the NULL constant.
    pub fn validity(&self) -> Option<&Bitmap> {
        match self {
            Value::Rows(vector) => vector.validity.as_ref(),
            Value::Const(_) => None,
        }
    }

    /// Whether row `i` is not NULL.
    pub fn is_valid(&self, i: usize) -> bool {
        match self {
            Value::Rows(vector) => vector.is_valid(i),
            Value::Const(vector) => vector.is_valid(0),
        }
    }

    /// The value as a vector of `len` rows.
    pub fn into_vector(self, len: usize) -> Arc<Vector> {
        match self {
            Value::Rows(vector) => vector,
            Value::Const(one) if len == 1 => one,
            Value::Const(one) => Arc::new(broadcast(&one, len)),
        }
    }
}

/// `len` copies of the only row of `one`.
pub(super) fn broadcast(one: &Vector, len: usize) -> Vector {
    let data = with_native!(one.data.phys(), T => T::wrap(vec![T::values(&one.data)[0]; len]));
    if one.is_valid(0) { Vector::new(data) } else { Vector::with_validity(data, Some(Bitmap::new(len, false))) }
}

/// Rows valid in both.
pub(super) fn both(a: Option<&Bitmap>, b: Option<&Bitmap>) -> Option<Bitmap> {
    match (a, b) {
        (None, None) => None,
        (Some(a), None) | (None, Some(a)) => Some(a.clone()),
        (Some(a), Some(b)) => {
            let mut a = a.clone();
            a.and_assign(b);
            Some(a)
        }
    }
}

/// Three-valued results as bits. The truth bit of a NULL row is clear.
#[derive(Debug, Clone)]
pub(super) struct Bits {
    /// Rows that are true.
    pub truth: Bitmap,
    /// Rows that are not NULL; `None`: all.
    pub valid: Option<Bitmap>,
}

impl Bits {
    /// Truth values with the given validity.
    pub fn new(mut truth: Bitmap, valid: Option<Bitmap>) -> Self {
        if let Some(valid) = &valid {
            truth.and_assign(valid);
        }
        Self { truth, valid }
    }

    /// NULL for `len` rows.
    pub fn nulls(len: usize) -> Self {
        Self { truth: Bitmap::new(len, false), valid: Some(Bitmap::new(len, false)) }
    }

    /// The truth values of a boolean operand.
    pub fn of(value: &Value, len: usize) -> Self {
        if value.is_null_const() {
            return Self::nulls(len);
        }
        match value.side::<bool>() {
            Side::One(value) => Self { truth: Bitmap::new(len, value), valid: None },
            Side::Many(values) => Self::new(pack(values), value.validity().cloned()),
        }
    }

    /// Rows that are false.
    pub fn falsehood(&self) -> Bitmap {
        match &self.valid {
            None => self.truth.not(),
            Some(valid) => zip(valid, &self.truth, |valid, truth| valid & !truth),
        }
    }

    /// Three-valued negation.
    pub fn not(self) -> Self {
        Self { truth: self.falsehood(), valid: self.valid }
    }

    /// Three-valued conjunction.
    pub fn and(self, other: Self) -> Self {
        let truth = zip(&self.truth, &other.truth, |a, b| a & b);
        let valid = (self.valid.is_some() || other.valid.is_some()).then(|| {
            let falsehood = zip(&self.falsehood(), &other.falsehood(), |a, b| a | b);
            zip(&truth, &falsehood, |a, b| a | b)
        });
        Self { truth, valid }
    }

    /// Three-valued disjunction.
    pub fn or(self, other: Self) -> Self {
        let truth = zip(&self.truth, &other.truth, |a, b| a | b);
        let valid = (self.valid.is_some() || other.valid.is_some()).then(|| {
            let falsehood = zip(&self.falsehood(), &other.falsehood(), |a, b| a & b);
            zip(&truth, &falsehood, |a, b| a | b)
        });
        Self { truth, valid }
    }

    /// The same values as a boolean vector.
    pub fn into_vector(self) -> Vector {
        Vector::with_validity(Data::Bool(unpack(&self.truth)), self.valid)
    }
}

/// Combines two bitmaps of equal length word by word.
pub(super) fn zip(a: &Bitmap, b: &Bitmap, f: impl Fn(u64, u64) -> u64) -> Bitmap {
    debug_assert_eq!(a.len(), b.len());
    Bitmap::from_words(a.words().iter().zip(b.words()).map(|(&a, &b)| f(a, b)).collect(), a.len())
}

/// 64 truth values as bytes 0 or 1 to a word of bits.
#[inline(always)]
pub(super) fn pack_word(bytes: &[u8; 64]) -> u64 {
    let mut word = 0;
    for (i, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        // Byte `i` is moved to bit `56 + i`; the products do not overlap.
        word |= (u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
    }
    word
}

/// Truth values to bits.
pub(super) fn pack(values: &[bool]) -> Bitmap {
    bits_of(values, |value| value)
}

/// Bit `i` is `f(values[i])`; vectorized in blocks of 64.
#[inline(always)]
pub(super) fn bits_of<T: Copy>(values: &[T], f: impl Fn(T) -> bool) -> Bitmap {
    let (blocks, tail) = values.as_chunks::<64>();
    let mut words = Vec::with_capacity(blocks.len() + 1);
    for block in blocks {
        let bytes: [u8; 64] = std::array::from_fn(|i| u8::from(f(block[i])));
        words.push(pack_word(&bytes));
    }
    if !tail.is_empty() {
        words.push(tail.iter().enumerate().fold(0, |word, (i, &value)| word | u64::from(f(value)) << i));
    }
    Bitmap::from_words(words, values.len())
}

/// Bit `i` is `f(a[i], b[i])`; vectorized in blocks of 64.
#[inline(always)]
pub(super) fn bits_of_pairs<T: Copy>(a: &[T], b: &[T], f: impl Fn(T, T) -> bool) -> Bitmap {
    debug_assert_eq!(a.len(), b.len());
    let ((a_blocks, a_tail), (b_blocks, b_tail)) = (a.as_chunks::<64>(), b.as_chunks::<64>());
    let mut words = Vec::with_capacity(a_blocks.len() + 1);
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        let bytes: [u8; 64] = std::array::from_fn(|i| u8::from(f(a[i], b[i])));
        words.push(pack_word(&bytes));
    }
    if !a_tail.is_empty() {
        let pairs = a_tail.iter().zip(b_tail).enumerate();
        words.push(pairs.fold(0, |word, (i, (&a, &b))| word | u64::from(f(a, b)) << i));
    }
    Bitmap::from_words(words, a.len())
}

/// Bits to truth values.
pub(super) fn unpack(bits: &Bitmap) -> Vec<bool> {
    let mut out = Vec::with_capacity(bits.words().len() * 64);
    for word in bits.words() {
        for byte in word.to_le_bytes() {
            // Moves bit `i` of the byte to byte `i`, then changes any non-zero byte to 1.
            let spread = u64::from(byte).wrapping_mul(0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
            let ones = (spread + 0x7f7f_7f7f_7f7f_7f7f) >> 7 & 0x0101_0101_0101_0101;
            out.extend(ones.to_le_bytes().map(|b| b != 0));
        }
    }
    out.truncate(bits.len());
    out
}

/// The positions of set bits, ascending.
pub(super) fn rows_of(bits: &Bitmap) -> Vec<u32> {
    let mut rows = Vec::with_capacity(bits.count_ones());
    for (w, &word) in bits.words().iter().enumerate() {
        let base = w as u32 * 64;
        if word == u64::MAX {
            rows.extend(base..base + 64);
            continue;
        }
        let mut word = word;
        while word != 0 {
            rows.push(base + word.trailing_zeros());
            word &= word - 1;
        }
    }
    rows
}

/// The bitmap of `len` bits in which the given ones are set.
pub(super) fn bits_at(rows: impl IntoIterator<Item = u32>, len: usize) -> Bitmap {
    let mut words = vec![0u64; len.div_ceil(64)];
    for row in rows {
        words[row as usize / 64] |= 1 << (row % 64);
    }
    Bitmap::from_words(words, len)
}

/// `f` of every value, validity kept; a constant stays one.
#[inline(always)]
pub(super) fn map<T: Native, U: Native>(input: &Value, f: impl Fn(T) -> U) -> Value {
    let vector = input.vector();
    let data = U::wrap(T::values(&vector.data).iter().map(|&value| f(value)).collect());
    let mapped = Vector { data, validity: vector.validity.clone() };
    match input {
        Value::Rows(_) => Value::rows(mapped),
        Value::Const(_) => Value::Const(mapped.into()),
    }
}
