//! Selections of a vector's rows: bit masks, and their compaction to row numbers.

use super::word::Word;
use crate::{Bitmap, VECTOR_ROWS};

/// One bit per row of a vector, least significant first.
pub(crate) type RowMask = [u64; VECTOR_ROWS / 64];

/// Sets bit `row` to `value`.
#[inline(always)]
pub(crate) fn set(mask: &mut RowMask, row: usize, value: bool) {
    let word = &mut mask[row / 64];
    *word = *word & !(1 << (row % 64)) | u64::from(value) << (row % 64);
}

/// The rows whose value is in `low ..= high`.
pub(crate) fn compare<T: Word>(values: &[T; VECTOR_ROWS], low: T, high: T, mask: &mut RowMask) {
    let span = high.sub(low);
    for (word, chunk) in mask.iter_mut().zip(values.chunks_exact(64)) {
        *word = chunk.iter().enumerate().fold(0, |w, (i, x)| w | u64::from(x.sub(low) <= span) << i);
    }
}

/// Clears in `mask` the rows whose `value - min` (modulo 2^32) is not the number of a set bit of `set`, which has at most `i32::MAX` bits.
/// Words of `mask` without a set bit are not looked at.
pub(crate) fn and_members(values: &[u32; VECTOR_ROWS], min: u32, set: &Bitmap, mask: &mut [u64]) {
    let (words, bits) = (set.words(), set.len());
    assert!(i32::try_from(bits).is_ok(), "a set of {bits} bits");
    if bits == 0 {
        return mask.fill(0);
    }
    let words_of_rows = mask.iter_mut().zip(values.as_chunks::<64>().0).filter(|(word, _)| **word != 0);
    if bits <= 64 {
        // One register holds the set: a shift per value, which vectorizes.
        let set = words[0];
        for (word, values) in words_of_rows {
            let member = |value: u32| set >> (value & 63) & u64::from(value < 64);
            let bits = values.iter().enumerate();
            *word &= bits.fold(0, |w, (i, &value)| w | member(value.wrapping_sub(min)) << i);
        }
        return;
    }
    for (word, values) in words_of_rows {
        *word &= members(values, min, words, bits as u32);
    }
}

/// A bit for each value, see [`and_members`]. `bits` is neither 0 nor greater than there are in `words`.
#[cfg(target_feature = "avx2")]
#[inline(always)]
fn members(values: &[u32; 64], min: u32, words: &[u64], bits: u32) -> u64 {
    let eights = values.as_chunks::<8>().0.iter().enumerate();
    eights.fold(0, |w, (i, values)| w | u64::from(super::members_avx2::members_8(values, min, words, bits)) << (8 * i))
}

/// The same without SIMD.
#[cfg(not(target_feature = "avx2"))]
#[inline(always)]
fn members(values: &[u32; 64], min: u32, words: &[u64], bits: u32) -> u64 {
    values.iter().enumerate().fold(0, |w, (i, &value)| {
        let at = value.wrapping_sub(min);
        // A value past the set reads its first word and is masked out: no branch per row.
        let inside = at < bits;
        w | (words[if inside { at as usize / 64 } else { 0 }] >> (at % 64) & u64::from(inside)) << i
    })
}

/// Sets the bits of rows `from .. to`, clearing none.
pub(crate) fn set_range(mask: &mut RowMask, from: usize, to: usize) {
    for (w, word) in mask.iter_mut().enumerate() {
        let (a, b) = (from.clamp(w * 64, w * 64 + 64) - w * 64, to.clamp(w * 64, w * 64 + 64) - w * 64);
        if a < b {
            *word |= (u64::MAX >> (64 - (b - a))) << a;
        }
    }
}

/// Appends `base + row` for every set bit of the first `len` rows.
pub(crate) fn append(mask: &[u64], len: usize, base: u32, out: &mut Vec<u32>) {
    out.reserve(len + 8);
    for (w, &word) in mask.iter().enumerate().take(len.div_ceil(64)) {
        let word = if len >= w * 64 + 64 { word } else { word & ((1 << (len - w * 64)) - 1) };
        append_word(word, base + 64 * w as u32, out);
    }
}

/// Per byte of a mask, the positions of its set bits, in order.
static POSITIONS: [[u8; 8]; 256] = {
    let (mut table, mut byte) = ([[0; 8]; 256], 0);
    while byte < 256 {
        let (mut n, mut bit) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 != 0 {
                table[byte][n] = bit;
                n += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// Up to this number of set bits, a word's bits are extracted one by one.
const SPARSE_BITS: u32 = 8;

/// Appends the set bits of `word`. The caller has reserved room for 8 more than needed.
#[inline(always)]
fn append_word(mut word: u64, base: u32, out: &mut Vec<u32>) {
    let n = word.count_ones();
    let len = out.len();
    assert!(out.capacity() - len >= n as usize + 8);
    let mut at = out.as_mut_ptr().wrapping_add(len);
    if n <= SPARSE_BITS {
        while word != 0 {
            // SAFETY: one write per set bit, within the capacity asserted above.
            unsafe { at.write(base + word.trailing_zeros()) };
            at = at.wrapping_add(1);
            word &= word - 1;
        }
    } else {
        for (i, byte) in word.to_le_bytes().into_iter().enumerate() {
            let rows = POSITIONS[byte as usize].map(|p| base + 8 * i as u32 + u32::from(p));
            // SAFETY: writes eight values from `n` or fewer past the length, within the capacity asserted above; those past the byte's set bits are
            // overwritten or stay beyond the new length.
            unsafe { at.cast::<[u32; 8]>().write_unaligned(rows) };
            at = at.wrapping_add(byte.count_ones() as usize);
        }
    }
    // SAFETY: the first `n` values past the old length were written, and the capacity covers them.
    unsafe { out.set_len(len + n as usize) };
}
