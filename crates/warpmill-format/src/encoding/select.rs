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

/// Appends `base + row` for every one of the first `len` rows whose code is set in `set` (codes past its end are not).
pub(crate) fn append_members(codes: &[u32; VECTOR_ROWS], len: usize, set: &Bitmap, base: u32, out: &mut Vec<u32>) {
    let mut mask: RowMask = [0; VECTOR_ROWS / 64];
    let member = |code: u32| (code as usize) < set.len() && set.get(code as usize);
    for (word, chunk) in mask.iter_mut().zip(codes.chunks_exact(64)) {
        *word = chunk.iter().enumerate().fold(0, |w, (i, &code)| w | u64::from(member(code)) << i);
    }
    append(&mask, len, base, out);
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
pub(crate) fn append(mask: &RowMask, len: usize, base: u32, out: &mut Vec<u32>) {
    out.reserve(VECTOR_ROWS + 8);
    for (w, &word) in mask.iter().enumerate().take(len.div_ceil(64)) {
        let word = if len >= w * 64 + 64 { word } else { word & ((1 << (len - w * 64)) - 1) };
        append_word(word, base + 64 * w as u32, out);
    }
}

#[inline(always)]
fn append_word(mut word: u64, base: u32, out: &mut Vec<u32>) {
    while word != 0 {
        out.push(base + word.trailing_zeros());
        word &= word - 1;
    }
}
