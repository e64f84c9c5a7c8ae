//! Filters made from the keys of hash builds: scans drop rows with them before they decode other columns.

use std::ops::Range;

use warpmill_format::{Bitmap, Segment, mask_rows};
use warpmill_ir::pruning::Ranges;

use super::hash::mix;
use super::keys::Word;
use crate::chunk::SPARSE;
use crate::vector::Data;

/// A filter that tells whether a value may be a key of a hash build.
#[derive(Debug)]
pub struct KeyFilter {
    min: i64,
    /// Largest key minus `min`.
    span: u64,
    keys: u64,
    set: Set,
}

#[derive(Debug)]
enum Set {
    /// A filter by the bounds only: (nearly) every value within them is a key.
    Range,
    /// An exact bitmap: bit `value - min`.
    Bits(Bitmap),
    /// A blocked Bloom filter: four bits in one word per key. A hash shifted right by `shift` selects the word.
    Bloom { words: Vec<u64>, shift: u32 },
    /// No keys.
    Nothing,
}

/// Number of bits of the largest bitmap.
const MAX_BITS: u64 = 64 << 20;
/// Number of keys of the largest Bloom filter (64 MiB).
const MAX_KEYS: usize = 32 << 20;

impl KeyFilter {
    /// A filter for the first `rows` values of a key column, which lie within `range`; `None` for representations that scans cannot filter, and
    /// for too many keys.
    pub(super) fn build(keys: &Data, rows: usize, range: (i128, i128)) -> Option<Self> {
        match keys {
            Data::I32(v) => Self::of(&v[..rows], range),
            Data::I64(v) => Self::of(&v[..rows], range),
            Data::Code(v) => Self::of(&v[..rows], range),
            _ => None,
        }
    }

    fn of<T: Word>(keys: &[T], (lo, hi): (i128, i128)) -> Option<Self> {
        if keys.is_empty() {
            return Some(Self { min: 0, span: 0, keys: 0, set: Set::Nothing });
        }
        let (min, span) = (lo as i64, (hi - lo) as u64);
        if span < MAX_BITS {
            let mut words = vec![0u64; span as usize / 64 + 1];
            for key in keys {
                let bit = key.word().wrapping_sub(min) as u64;
                words[bit as usize / 64] |= 1 << (bit % 64);
            }
            let ones: u64 = words.iter().map(|word| u64::from(word.count_ones())).sum();
            let bits = || Set::Bits(Bitmap::from_words(words, span as usize + 1));
            let set = if ones * 10 > span * 9 { Set::Range } else { bits() };
            return Some(Self { min, span, keys: ones, set });
        }
        if keys.len() > MAX_KEYS {
            return None;
        }
        // About 16 bits a key: below 1% false positives.
        let bits = (keys.len() / 4).max(2).next_power_of_two().ilog2();
        let mut filter = Self { min, span, keys: keys.len() as u64, set: Set::Range };
        let (mut words, shift) = (vec![0u64; 1 << bits], 64 - bits);
        for key in keys {
            let (at, mask) = bloom(key.word(), shift);
            words[at] |= mask;
        }
        filter.set = Set::Bloom { words, shift };
        Some(filter)
    }

    /// An upper bound of the number of keys: repeated keys are counted once in bitmaps.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// At most `count` ranges that contain all keys; `None` if more than `words` words of the bitmap would have to be read, or if the ranges are no
    /// better than the bounds.
    pub fn ranges(&self, words: u64, count: usize) -> Option<Ranges> {
        match &self.set {
            Set::Nothing => Some(Ranges::default()),
            Set::Bits(bits) if bits.words().len() as u64 <= words => {
                Some(Ranges::of_words(bits.words(), self.min.into(), count))
            }
            Set::Bits(_) | Set::Range | Set::Bloom { .. } => None,
        }
    }

    /// Clears in `mask` the rows of `rows` whose value in `segment` is no key. Bit `i` of `mask` is row `rows.start + i`, least significant first,
    /// and no bits are set past the end. The segment has integers of at most 64 bits, or codes. For NULLs the stored value is tested. Returns the
    /// number of decoded values.
    pub fn apply(&self, segment: &Segment, rows: Range<usize>, mask: &mut [u64]) -> usize {
        let (start, len) = (rows.start, rows.len());
        let left = count_rows(mask);
        match &self.set {
            _ if left == 0 => return 0,
            Set::Nothing => mask.fill(0),
            Set::Range => {
                let lo = i128::from(self.min);
                segment.and_range(start, len, lo, lo + i128::from(self.span), mask);
            }
            Set::Bits(set) if left * SPARSE >= len => segment.and_members(start, len, self.min, set, mask),
            Set::Bits(set) => {
                let offset = |value: i64| value.wrapping_sub(self.min) as u64;
                let is_key = |value| offset(value) <= self.span && set.get(offset(value) as usize);
                return each(segment, rows, mask, is_key);
            }
            Set::Bloom { words, shift } => {
                let offset = |value: i64| value.wrapping_sub(self.min) as u64;
                return each(segment, rows, mask, |value| {
                    let (at, bits) = bloom(value, *shift);
                    offset(value) <= self.span && words[at] & bits == bits
                });
            }
        }
        len
    }
}

/// The number of set bits.
pub fn count_rows(mask: &[u64]) -> usize {
    mask.iter().map(|word| word.count_ones() as usize).sum()
}

/// Clears in `mask` the rows whose value does not pass `test`; otherwise like [`KeyFilter::apply`].
fn each(segment: &Segment, rows: Range<usize>, mask: &mut [u64], test: impl Fn(i64) -> bool) -> usize {
    let mut left = Vec::new();
    mask_rows(mask, rows.len(), &mut left);
    let sparse = left.len() * SPARSE < rows.len();
    let values = if sparse { picked(segment, rows.start, &left) } else { decoded(segment, &rows, &left) };
    for (&row, value) in left.iter().zip(values) {
        mask[row as usize / 64] &= !(u64::from(!test(value)) << (row % 64));
    }
    if sparse { left.len() } else { rows.len() }
}

/// The values of rows `start + rows[i]`, extracted one by one.
fn picked(segment: &Segment, start: usize, rows: &[u32]) -> Vec<i64> {
    let rows: Vec<u32> = rows.iter().map(|row| row + start as u32).collect();
    if segment.is_dictionary() {
        let mut codes = vec![0; rows.len()];
        segment.gather_codes(&rows, &mut codes);
        return codes.into_iter().map(i64::from).collect();
    }
    let mut values = vec![0; rows.len()];
    segment.gather_i64(&rows, &mut values);
    values
}

/// The values of rows `run.start + rows[i]`, after decoding `run` as a whole.
fn decoded(segment: &Segment, run: &Range<usize>, rows: &[u32]) -> Vec<i64> {
    if segment.is_dictionary() {
        let mut codes = vec![0; run.len()];
        segment.decode_codes(run.start, &mut codes);
        return rows.iter().map(|&row| codes[row as usize].into()).collect();
    }
    let mut values = vec![0; run.len()];
    segment.decode_i64(run.start, &mut values);
    rows.iter().map(|&row| values[row as usize]).collect()
}

#[inline(always)]
fn bloom(value: i64, shift: u32) -> (usize, u64) {
    let hash = mix(value as u64);
    let bit = |n: u32| 1u64 << (hash >> (6 * n) & 63);
    ((hash >> shift) as usize, bit(0) | bit(1) | bit(2) | bit(3))
}
