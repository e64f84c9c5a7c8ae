//! A column of integers in any encoding, and the loops over its vectors.

use super::lane_for::LaneFor;
use super::plain::PlainIntegers;
use super::select::{self, RowMask};
use super::word::Word;
use crate::VECTOR_ROWS;

/// Room for one decoded vector.
pub(crate) type Scratch<T> = [T; VECTOR_ROWS];

/// Integer values (or codes) of a segment.
pub(crate) enum Integers {
    Constant(i128),
    Plain(PlainIntegers),
    LaneFor(LaneFor),
}

impl Integers {
    /// Decodes vector `v`; what rows past the end hold is unspecified.
    #[inline]
    fn vector<T: Word>(&self, v: usize, out: &mut Scratch<T>) {
        match self {
            Integers::Constant(value) => out.fill(T::from_i128(*value)),
            Integers::Plain(values) => values.vector(v, out),
            Integers::LaneFor(values) => values.vector(v, out),
        }
    }

    /// Decodes the rows from `start` (a multiple of the vector size) into `out`.
    pub(crate) fn decode<T: Word>(&self, start: usize, out: &mut [T]) {
        let first = start / VECTOR_ROWS;
        let (whole, rest) = out.as_chunks_mut::<VECTOR_ROWS>();
        for (i, chunk) in whole.iter_mut().enumerate() {
            self.vector(first + i, chunk);
        }
        if !rest.is_empty() {
            let mut scratch = [T::default(); VECTOR_ROWS];
            self.vector(first + whole.len(), &mut scratch);
            rest.copy_from_slice(&scratch[..rest.len()]);
        }
    }

    /// `out[i]` = the value of row `rows[i]`; rows must be in range.
    pub(crate) fn gather<T: Word>(&self, rows: &[u32], out: &mut [T]) {
        match self {
            Integers::Constant(value) => out.fill(T::from_i128(*value)),
            Integers::Plain(values) => values.gather(rows, out),
            Integers::LaneFor(values) => values.gather(rows, out),
        }
    }

    /// Appends the rows of `start .. start + len`, relative to `start`, whose value is in `lo ..= hi`.
    pub(crate) fn select_range(&self, start: usize, len: usize, lo: i128, hi: i128, out: &mut Vec<u32>) {
        let mut mask: RowMask = [0; VECTOR_ROWS / 64];
        for from in (0..len).step_by(VECTOR_ROWS) {
            self.select_vector((start + from) / VECTOR_ROWS, lo, hi, &mut mask);
            select::append(&mask, (len - from).min(VECTOR_ROWS), from as u32, out);
        }
    }

    fn select_vector(&self, v: usize, lo: i128, hi: i128, mask: &mut RowMask) {
        match self {
            Integers::Constant(value) => mask.fill(if (lo..=hi).contains(value) { u64::MAX } else { 0 }),
            Integers::LaneFor(values) => values.select(v, lo, hi, mask),
            _ => self.select_decoded(v, lo, hi, mask),
        }
    }

    /// Decode and compare, for encodings without a shorter way.
    fn select_decoded(&self, v: usize, lo: i128, hi: i128, mask: &mut RowMask) {
        let mut values = [0u128; VECTOR_ROWS];
        self.vector(v, &mut values);
        select::compare(&values, lo as u128, hi as u128, mask);
    }
}
