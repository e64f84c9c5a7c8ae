//! A column of integers in any encoding, with loops over its vectors.

use super::gpu::GpuPacked;
use super::lane_delta::LaneDelta;
use super::lane_for::LaneFor;
use super::lane_rle::LaneRle;
use super::plain::PlainIntegers;
use super::select::{self, RowMask};
use super::word::Word;
use crate::VECTOR_ROWS;

/// Room for one decoded vector.
pub(crate) type Scratch<T> = [T; VECTOR_ROWS];

/// Number of requested rows of a vector from which on a gather decodes the whole vector.
const DENSE_GROUP: usize = 24;

/// Integer values (or codes) of a segment.
pub(crate) enum Integers {
    Constant(i128),
    Plain(PlainIntegers),
    LaneFor(LaneFor),
    LaneDelta(LaneDelta),
    LaneRle(Box<LaneRle>),
    Gpu(GpuPacked),
}

impl Integers {
    /// Decodes vector `v`; rows past the end are unspecified.
    #[inline]
    fn vector<T: Word>(&self, v: usize, out: &mut Scratch<T>) {
        match self {
            Integers::Constant(value) => out.fill(T::from_i128(*value)),
            Integers::Plain(values) => values.vector(v, out),
            Integers::LaneFor(values) => values.vector(v, out),
            Integers::LaneDelta(values) => values.vector(v, out),
            Integers::LaneRle(values) => values.vector(v, out),
            Integers::Gpu(values) => values.vector(v, out),
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
            Integers::LaneDelta(values) => self.gather_by_vector(rows, out, |row| values.get(row)),
            Integers::LaneRle(values) => self.gather_by_vector(rows, out, |row| values.get(row)),
            Integers::Gpu(values) => self.gather_by_vector(rows, out, |row| values.get(row)),
        }
    }

    /// Gathers from encodings without single-load random access: decodes a vector once for many neighbouring rows.
    fn gather_by_vector<T: Word>(&self, rows: &[u32], out: &mut [T], get: impl Fn(usize) -> T) {
        let mut scratch = [T::default(); VECTOR_ROWS];
        let mut out = out;
        for group in rows.chunk_by(|&a, &b| a as usize / VECTOR_ROWS == b as usize / VECTOR_ROWS) {
            let (head, rest) = out.split_at_mut(group.len());
            if group.len() < DENSE_GROUP {
                head.iter_mut().zip(group).for_each(|(x, &row)| *x = get(row as usize));
            } else {
                self.vector(group[0] as usize / VECTOR_ROWS, &mut scratch);
                head.iter_mut().zip(group).for_each(|(x, &row)| *x = scratch[row as usize % VECTOR_ROWS]);
            }
            out = rest;
        }
    }

    /// Clears in `mask` the rows of `start .. start + len` that are not in `lo ..= hi`.
    pub(crate) fn and_range(&self, start: usize, len: usize, lo: i128, hi: i128, mask: &mut [u64]) {
        let mut qualifies: RowMask = [0; VECTOR_ROWS / 64];
        for (from, words) in (0..len).step_by(VECTOR_ROWS).zip(mask.chunks_mut(VECTOR_ROWS / 64)) {
            if words.iter().any(|&word| word != 0) {
                self.select_vector((start + from) / VECTOR_ROWS, lo, hi, &mut qualifies);
                words.iter_mut().zip(&qualifies).for_each(|(word, bits)| *word &= bits);
            }
        }
    }

    fn select_vector(&self, v: usize, lo: i128, hi: i128, mask: &mut RowMask) {
        match self {
            Integers::Constant(value) => mask.fill(if (lo..=hi).contains(value) { u64::MAX } else { 0 }),
            Integers::LaneFor(values) => values.select(v, lo, hi, mask),
            Integers::LaneRle(values) => values.select(v, lo, hi, mask),
            Integers::Plain(PlainIntegers::I128(_) | PlainIntegers::U64(_)) => {
                self.select_decoded(v, lo, hi, false, mask)
            }
            Integers::Plain(_) | Integers::LaneDelta(_) => self.select_decoded(v, lo, hi, true, mask),
            Integers::Gpu(_) => self.select_decoded(v, lo, hi, false, mask),
        }
    }

    /// Decodes and compares, for encodings without a faster method. `narrow`: every value fits `i64`.
    fn select_decoded(&self, v: usize, lo: i128, hi: i128, narrow: bool, mask: &mut RowMask) {
        if narrow {
            let clamp = |x: i128| x.clamp(i64::MIN.into(), i64::MAX.into()) as i64 as u64;
            if lo > i64::MAX.into() || hi < i64::MIN.into() {
                return mask.fill(0);
            }
            let mut values = [0u64; VECTOR_ROWS];
            self.vector(v, &mut values);
            return select::compare(&values, clamp(lo), clamp(hi), mask);
        }
        let mut values = [0u128; VECTOR_ROWS];
        self.vector(v, &mut values);
        select::compare(&values, lo as u128, hi as u128, mask);
    }
}
