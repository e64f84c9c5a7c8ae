//! AVX2 unpacking of the lane-quad layout.
//!
//! A register holds one quad row of two neighbouring lanes, a lane per 128-bit half. Four consecutive values of a lane are within one 16-byte window
//! of its words, at the same position for all lanes: per width and group of four values, one byte alignment (if the window straddles two quads), one
//! byte shuffle, one variable shift and one mask, all constant at compile time,
//! unpack eight values.
//!
//! The module exists only in builds that enable AVX2 for all code, which makes calls of its intrinsics sound.

use std::arch::x86_64::*;

use super::lane::vector_words;
use super::select::RowMask;
use crate::VECTOR_ROWS;

/// Receives unpacked fields: values `4 * g ..` of lane `2 * pair` in the low half, of the next lane in the high half. For a fixed pair, groups are in
/// ascending order.
trait Sink {
    fn put(&mut self, pair: usize, g: usize, fields: __m256i);
}

#[repr(align(32))]
struct Table([u8; 32]);

/// Geometry of values `4 * G ..` of a lane at width `B`.
struct Group<const B: usize, const G: usize>;

impl<const B: usize, const G: usize> Group<B, G> {
    const FIRST_BYTE: usize = 4 * G * B / 8;
    const QUAD: usize = Self::FIRST_BYTE / 16;
    /// Whether the window straddles two quads.
    const STRADDLES: bool = (4 * (G + 1) * B - 1) / 8 / 16 != Self::QUAD;
    const ALIGN: usize = if Self::STRADDLES { Self::FIRST_BYTE % 16 } else { 0 };
    /// Byte shuffle to the four bytes with a field's low bits, and to the four one byte further.
    const LOW: Table = Self::shuffle(0);
    const HIGH: Table = Self::shuffle(1);
    const RIGHT: [u32; 4] = Self::shifts();
    /// Whether some field reaches past its first four bytes.
    const WIDE: bool = {
        let (mut i, mut wide) = (0, false);
        while i < 4 {
            wide |= Self::RIGHT[i] as usize + B > 32;
            i += 1;
        }
        wide
    };

    /// First bit of value `i` in the window.
    const fn bit(i: usize) -> usize {
        4 * G * B % 8 + i * B + if Self::STRADDLES { 0 } else { 8 * (Self::FIRST_BYTE % 16) }
    }

    const fn shuffle(further: usize) -> Table {
        let (mut table, mut i) = ([0x80; 32], 0);
        while i < 16 {
            let byte = Self::bit(i / 4) / 8 + i % 4 + further;
            // Whole-byte fields need no mask: bytes past the field come out zero.
            if byte < 16 && (!B.is_multiple_of(8) || i % 4 < B / 8) {
                (table[i], table[i + 16]) = (byte as u8, byte as u8);
            }
            i += 1;
        }
        Table(table)
    }

    const fn shifts() -> [u32; 4] {
        [Self::bit(0) as u32 % 8, Self::bit(1) as u32 % 8, Self::bit(2) as u32 % 8, Self::bit(3) as u32 % 8]
    }

    #[inline(always)]
    fn fields(quads: &[__m256i; 9]) -> __m256i {
        // SAFETY: AVX2 is enabled for the whole build (see the module).
        unsafe {
            let window = align(quads[Self::QUAD + usize::from(Self::STRADDLES)], quads[Self::QUAD], Self::ALIGN);
            if B == 32 {
                return window;
            }
            let low = _mm256_shuffle_epi8(window, load_table(&Self::LOW));
            if B.is_multiple_of(8) {
                return low;
            }
            let [a, b, c, d] = Self::RIGHT.map(|s| s as i32);
            let mut fields = _mm256_srlv_epi32(low, _mm256_setr_epi32(a, b, c, d, a, b, c, d));
            if Self::WIDE {
                let high = _mm256_shuffle_epi8(window, load_table(&Self::HIGH));
                let left = _mm256_setr_epi32(8 - a, 8 - b, 8 - c, 8 - d, 8 - a, 8 - b, 8 - c, 8 - d);
                fields = _mm256_or_si256(fields, _mm256_sllv_epi32(high, left));
            }
            _mm256_and_si256(fields, _mm256_set1_epi32(((1u64 << B) - 1) as i32))
        }
    }
}

#[inline(always)]
fn load_table(table: &Table) -> __m256i {
    // SAFETY: 32 bytes, aligned by the type.
    unsafe { _mm256_load_si256(table.0.as_ptr().cast()) }
}

/// The 16 bytes from `bytes` on of `low` followed by `high`, per half.
#[inline(always)]
fn align(high: __m256i, low: __m256i, bytes: usize) -> __m256i {
    // SAFETY: AVX2 is enabled for the whole build (see the module).
    unsafe {
        macro_rules! cases {
        ($($n:literal)*) => {
            match bytes {
                $($n => _mm256_alignr_epi8::<$n>(high, low),)*
                _ => low,
            }
        };
    }
        cases!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    }
}

/// The words of lanes `2 * pair` and the next, one quad per register.
#[inline(always)]
fn load<const B: usize>(words: &[u32], pair: usize) -> [__m256i; 9] {
    assert!(words.len() == vector_words(B as u32) && pair < 16);
    // SAFETY: AVX2 is enabled for the whole build (see the module).
    let mut quads = [unsafe { _mm256_setzero_si256() }; 9];
    // SAFETY: a vector is B / 4 rows of 128 words, then 64 words if B & 2, then 32 if B & 1, and the length is B * 32; each
    // load lies inside its row: 8 words from 8 * pair, 4 from 4 * pair, 2 from 2 * pair, pair < 16.
    unsafe {
        let words = words.as_ptr();
        for (k, quad) in quads.iter_mut().enumerate().take(B / 4) {
            *quad = _mm256_loadu_si256(words.add(128 * k + 8 * pair).cast());
        }
        if !B.is_multiple_of(4) {
            let zero = _mm_setzero_si128();
            let two = if B & 2 != 0 { _mm_loadu_si128(words.add(B / 4 * 128 + 4 * pair).cast()) } else { zero };
            let one = if B & 1 != 0 { _mm_loadl_epi64(words.add((B - 1) * 32 + 2 * pair).cast()) } else { zero };
            let one = _mm_cvtepu32_epi64(one);
            let (a, b) = if B & 2 != 0 { (two, one) } else { (one, zero) };
            quads[B / 4] = _mm256_set_m128i(_mm_unpackhi_epi64(a, b), _mm_unpacklo_epi64(a, b));
        }
    }
    quads
}

#[inline(always)]
fn run<const B: usize, S: Sink>(words: &[u32], sink: &mut S) {
    for pair in 0..16 {
        let quads = load::<B>(words, pair);
        sink.put(pair, 0, Group::<B, 0>::fields(&quads));
        sink.put(pair, 1, Group::<B, 1>::fields(&quads));
        sink.put(pair, 2, Group::<B, 2>::fields(&quads));
        sink.put(pair, 3, Group::<B, 3>::fields(&quads));
        sink.put(pair, 4, Group::<B, 4>::fields(&quads));
        sink.put(pair, 5, Group::<B, 5>::fields(&quads));
        sink.put(pair, 6, Group::<B, 6>::fields(&quads));
        sink.put(pair, 7, Group::<B, 7>::fields(&quads));
    }
}

/// Dispatches on the width; width 0 must be handled before.
#[inline(always)]
fn dispatch<S: Sink>(words: &[u32], width: u32, sink: &mut S) {
    macro_rules! widths {
        ($($b:literal)*) => {
            match width {
                $($b => run::<$b, S>(words, sink),)*
                _ => unreachable!("field width {width}"),
            }
        };
    }
    widths!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)
}

struct Add32<'a> {
    base: __m256i,
    out: &'a mut [u32; VECTOR_ROWS],
}

impl Sink for Add32<'_> {
    #[inline(always)]
    fn put(&mut self, pair: usize, g: usize, fields: __m256i) {
        // SAFETY: AVX2 is enabled for the whole build (see the module).
        unsafe {
            let out = &mut self.out[128 * g + 8 * pair..][..8];
            // Exactly eight u32.
            _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_add_epi32(fields, self.base));
        }
    }
}

struct Add64<'a> {
    base: __m256i,
    out: &'a mut [u64; VECTOR_ROWS],
}

impl Sink for Add64<'_> {
    #[inline(always)]
    fn put(&mut self, pair: usize, g: usize, fields: __m256i) {
        // SAFETY: AVX2 is enabled for the whole build (see the module).
        unsafe {
            let out = &mut self.out[128 * g + 8 * pair..][..8];
            let low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(fields));
            let high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(fields));
            // Exactly eight u64, stored as two times four.
            _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_add_epi64(low, self.base));
            _mm256_storeu_si256(out.as_mut_ptr().add(4).cast(), _mm256_add_epi64(high, self.base));
        }
    }
}

struct Between<'a> {
    low: __m256i,
    span: __m256i,
    mask: &'a mut [u8; VECTOR_ROWS / 8],
}

impl Sink for Between<'_> {
    #[inline(always)]
    fn put(&mut self, pair: usize, g: usize, fields: __m256i) {
        // SAFETY: AVX2 is enabled for the whole build (see the module).
        unsafe {
            let offset = _mm256_sub_epi32(fields, self.low);
            let inside = _mm256_cmpeq_epi32(_mm256_min_epu32(offset, self.span), offset);
            self.mask[16 * g + pair] = _mm256_movemask_ps(_mm256_castsi256_ps(inside)) as u8;
        }
    }
}

/// Prefix sums inside each lane, in the blocked row order.
struct Prefix<'a> {
    step: __m256i,
    /// The running sum of each half, in all its elements.
    sum: __m256i,
    /// Per lane, the value before its first delta.
    starts: &'a [u32; 32],
    out: &'a mut [u32; VECTOR_ROWS],
}

impl Sink for Prefix<'_> {
    #[inline(always)]
    fn put(&mut self, pair: usize, g: usize, fields: __m256i) {
        // SAFETY: AVX2 is enabled for the whole build (see the module).
        unsafe {
            if g == 0 {
                let [a, b] = [self.starts[2 * pair], self.starts[2 * pair + 1]].map(|x| _mm_set1_epi32(x as i32));
                self.sum = _mm256_set_m128i(b, a);
            }
            let x = _mm256_add_epi32(fields, self.step);
            let x = _mm256_add_epi32(x, _mm256_slli_si256::<4>(x));
            let x = _mm256_add_epi32(x, _mm256_slli_si256::<8>(x));
            let x = _mm256_add_epi32(x, self.sum);
            self.sum = _mm256_shuffle_epi32::<0xFF>(x);
            let rows = &mut self.out[64 * pair..][..64];
            // Four u32 at 4 * g and at 32 + 4 * g of 64, g < 8.
            _mm_storeu_si128(rows.as_mut_ptr().add(4 * g).cast(), _mm256_castsi256_si128(x));
            _mm_storeu_si128(rows.as_mut_ptr().add(32 + 4 * g).cast(), _mm256_extracti128_si256::<1>(x));
        }
    }
}

/// Unpacks a vector of width 1 to 32 in striped order and adds `base`.
pub(crate) fn unpack_u32(words: &[u32], width: u32, base: u32, out: &mut [u32; VECTOR_ROWS]) {
    // SAFETY: AVX2 is enabled for the whole build (see the module).
    unsafe {
        dispatch(words, width, &mut Add32 { base: _mm256_set1_epi32(base as i32), out });
    }
}

/// As [`unpack_u32`], widening to 64 bits before adding `base`.
pub(crate) fn unpack_u64(words: &[u32], width: u32, base: u64, out: &mut [u64; VECTOR_ROWS]) {
    // SAFETY: AVX2 is enabled for the whole build (see the module).
    unsafe {
        dispatch(words, width, &mut Add64 { base: _mm256_set1_epi64x(base as i64), out });
    }
}

/// The rows of a vector of width 1 to 32, in striped order, whose field is in `low ..= high`.
pub(crate) fn unpack_select(words: &[u32], width: u32, low: u32, high: u32, mask: &mut RowMask) {
    // SAFETY: AVX2 is enabled for the whole build (see the module).
    let (low, span) = unsafe { (_mm256_set1_epi32(low as i32), _mm256_set1_epi32(high.wrapping_sub(low) as i32)) };
    let mut bytes = [0u8; VECTOR_ROWS / 8];
    dispatch(words, width, &mut Between { low, span, mask: &mut bytes });
    for (word, chunk) in mask.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*chunk);
    }
}

/// Prefix sums of a vector of width 1 to 32 in blocked order: value `j` of lane `l` is `starts[l]` plus `j + 1` times `step`
/// plus its fields up to `j`.
pub(crate) fn prefix_sums(words: &[u32], width: u32, step: u32, starts: &[u32; 32], out: &mut [u32; VECTOR_ROWS]) {
    // SAFETY: AVX2 is enabled for the whole build (see the module).
    unsafe {
        let step = _mm256_set1_epi32(step as i32);
        dispatch(words, width, &mut Prefix { step, sum: _mm256_setzero_si256(), starts, out });
    }
}

#[cfg(test)]
mod tests {
    use super::super::lane::{self, Order};
    use super::super::select;
    use super::*;

    #[test]
    fn simd_equals_scalar_at_every_width() {
        let mut state = 1u32;
        for width in 1..=32 {
            let words: Vec<u32> = (0..vector_words(width))
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    state ^ state >> 15
                })
                .collect();
            let (mut scalar, mut simd) = ([0u32; VECTOR_ROWS], [1u32; VECTOR_ROWS]);
            lane::unpack_scalar(&words, width, Order::Striped, state, &mut scalar);
            unpack_u32(&words, width, state, &mut simd);
            assert_eq!(scalar, simd, "width {width}");
            let (mut scalar, mut simd) = ([0u64; VECTOR_ROWS], [1u64; VECTOR_ROWS]);
            lane::unpack_scalar(&words, width, Order::Striped, u64::MAX - 5, &mut scalar);
            unpack_u64(&words, width, u64::MAX - 5, &mut simd);
            assert_eq!(scalar, simd, "width {width}");
            let mut fields = [0u32; VECTOR_ROWS];
            lane::unpack_scalar(&words, width, Order::Striped, 0, &mut fields);
            let (low, high) = (fields[3].min(fields[900]), fields[3].max(fields[900]));
            let (mut expected, mut mask) = ([0; 16], [1; 16]);
            select::compare(&fields, low, high, &mut expected);
            unpack_select(&words, width, low, high, &mut mask);
            assert_eq!(expected, mask, "width {width}");
            let starts = std::array::from_fn(|l| state.wrapping_mul(l as u32));
            let mut sums = [0u32; VECTOR_ROWS];
            prefix_sums(&words, width, state, &starts, &mut sums);
            lane::unpack_scalar(&words, width, Order::Blocked, 0, &mut fields);
            for l in 0..32 {
                let mut sum = starts[l];
                for j in 0..32 {
                    sum = sum.wrapping_add(state).wrapping_add(fields[32 * l + j]);
                    assert_eq!(sums[32 * l + j], sum, "width {width} lane {l} value {j}");
                }
            }
        }
    }
}
