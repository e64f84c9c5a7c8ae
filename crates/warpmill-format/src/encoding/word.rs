//! Output words: values are decoded modulo 2^32, 2^64 or 2^128, whichever the caller's type needs.

use super::kernels;
use crate::VECTOR_ROWS;

/// The unsigned type of decoded values; all arithmetic wraps.
pub(crate) trait Word: Copy + Default + Ord + Send + Sync + 'static {
    /// Bits of the word.
    const BITS: u32;
    fn from_u32(x: u32) -> Self;
    fn from_u64(x: u64) -> Self;
    fn from_i64(x: i64) -> Self;
    fn from_i128(x: i128) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    /// `self` shifted left by `bits` (0 for shifts by the whole word or more).
    fn shl(self, bits: u32) -> Self;
    /// Unpacks a lane-packed vector (width 1 to 32) in striped order and adds `base`.
    fn unpack(words: &[u32], width: u32, base: Self, out: &mut [Self; VECTOR_ROWS]);
}

macro_rules! word {
    ($($t:ty => $unpack:ident),*) => { $(
        impl Word for $t {
            const BITS: u32 = <$t>::BITS;
            #[inline(always)]
            fn from_u32(x: u32) -> Self { x as $t }
            #[inline(always)]
            fn from_u64(x: u64) -> Self { x as $t }
            #[inline(always)]
            fn from_i64(x: i64) -> Self { x as $t }
            #[inline(always)]
            fn from_i128(x: i128) -> Self { x as $t }
            #[inline(always)]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn shl(self, bits: u32) -> Self { if bits >= Self::BITS { 0 } else { self << bits } }
            #[inline]
            fn unpack(words: &[u32], width: u32, base: Self, out: &mut [Self; VECTOR_ROWS]) {
                kernels::$unpack(words, width, base, out);
            }
        }
    )* };
}
word!(u32 => unpack_u32, u64 => unpack_u64, u128 => unpack_u128);

/// A value while it is being encoded: `i64` nearly always, `i32` for dictionary codes, `i128` where the values need it.
pub(crate) trait Value: Copy + Ord + Default + Send + Sync + 'static {
    fn to_i128(self) -> i128;
    /// `self - reference` as an unsigned number; `reference <= self` or the result wraps.
    fn offset(self, reference: Self) -> u128;
    /// The low 64 bits of [`Value::offset`].
    fn offset64(self, reference: Self) -> u64;
    /// `next - self`, if it fits.
    fn delta(self, next: Self) -> Option<i64>;
    /// Number of bits of the offset from `reference`; 129 if `self` is below the reference.
    fn bits(self, reference: Self) -> u32;
}

impl Value for i32 {
    #[inline(always)]
    fn to_i128(self) -> i128 {
        i128::from(self)
    }
    #[inline(always)]
    fn offset(self, reference: Self) -> u128 {
        u128::from(self.offset64(reference))
    }
    #[inline(always)]
    fn offset64(self, reference: Self) -> u64 {
        (i64::from(self) - i64::from(reference)) as u64
    }
    #[inline(always)]
    fn delta(self, next: Self) -> Option<i64> {
        Some(i64::from(next) - i64::from(self))
    }
    #[inline(always)]
    fn bits(self, reference: Self) -> u32 {
        if self < reference { 129 } else { 64 - self.offset64(reference).leading_zeros() }
    }
}

impl Value for i64 {
    #[inline(always)]
    fn to_i128(self) -> i128 {
        i128::from(self)
    }
    #[inline(always)]
    fn offset(self, reference: Self) -> u128 {
        u128::from(self.wrapping_sub(reference) as u64)
    }
    #[inline(always)]
    fn offset64(self, reference: Self) -> u64 {
        self.wrapping_sub(reference) as u64
    }
    #[inline(always)]
    fn delta(self, next: Self) -> Option<i64> {
        next.checked_sub(self)
    }
    #[inline(always)]
    fn bits(self, reference: Self) -> u32 {
        if self < reference { 129 } else { 64 - self.offset64(reference).leading_zeros() }
    }
}

impl Value for i128 {
    #[inline(always)]
    fn to_i128(self) -> i128 {
        self
    }
    #[inline(always)]
    fn offset(self, reference: Self) -> u128 {
        self.wrapping_sub(reference) as u128
    }
    #[inline(always)]
    fn offset64(self, reference: Self) -> u64 {
        self.wrapping_sub(reference) as u64
    }
    #[inline(always)]
    fn delta(self, next: Self) -> Option<i64> {
        i64::try_from(next.checked_sub(self)?).ok()
    }
    #[inline(always)]
    fn bits(self, reference: Self) -> u32 {
        if self < reference { 129 } else { 128 - self.offset(reference).leading_zeros() }
    }
}
