//! Filters made from build keys, with which scans drop rows before they decode other columns.

use warpmill_ir::pruning::Ranges;

use super::hash::mix;
use super::keys::Word;
use crate::vector::Data;

/// Says of a value that it is certainly not, or may be, a key of a hash build.
#[derive(Debug)]
pub struct KeyFilter {
    min: i64,
    /// Largest key minus `min`.
    span: u64,
    set: Set,
}

#[derive(Debug)]
enum Set {
    /// (Nearly) every value of the range is a key: the bounds are all there is to check.
    Range,
    /// Bit `value - min`. Exact.
    Bits(Vec<u64>),
    /// Blocked Bloom filter: four bits in one word per key. `shift` leaves the hash bits that select the word.
    Bloom { words: Vec<u64>, shift: u32 },
    /// There are no keys.
    Nothing,
}

/// Bits of the largest bitmap.
const MAX_BITS: u64 = 64 << 20;
/// Keys of the largest Bloom filter (64 MiB).
const MAX_KEYS: usize = 32 << 20;

impl KeyFilter {
    /// A filter of the first `rows` values of a key column, which lie within `range`; `None` for representations that
    /// scans do not filter by, and for too many keys.
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
            return Some(Self { min: 0, span: 0, set: Set::Nothing });
        }
        let (min, span) = (lo as i64, (hi - lo) as u64);
        if span < MAX_BITS {
            let mut words = vec![0u64; span as usize / 64 + 1];
            for key in keys {
                let bit = key.word().wrapping_sub(min) as u64;
                words[bit as usize / 64] |= 1 << (bit % 64);
            }
            let ones: u64 = words.iter().map(|word| u64::from(word.count_ones())).sum();
            let set = if ones * 10 > span * 9 { Set::Range } else { Set::Bits(words) };
            return Some(Self { min, span, set });
        }
        if keys.len() > MAX_KEYS {
            return None;
        }
        // About 16 bits a key: below 1% false positives.
        let bits = (keys.len() / 4).max(2).next_power_of_two().ilog2();
        let mut filter = Self { min, span, set: Set::Range };
        let (mut words, shift) = (vec![0u64; 1 << bits], 64 - bits);
        for key in keys {
            let (at, mask) = bloom(key.word(), shift);
            words[at] |= mask;
        }
        filter.set = Set::Bloom { words, shift };
        Some(filter)
    }

    /// Whether every value within `lo ..= hi` passes: then the filter need not be applied.
    pub fn covers(&self, lo: i128, hi: i128) -> bool {
        matches!(self.set, Set::Range)
            && lo >= i128::from(self.min)
            && hi <= i128::from(self.min) + i128::from(self.span)
    }

    /// Whether the filter passes no value that is not a key.
    pub fn is_exact(&self) -> bool {
        matches!(self.set, Set::Bits(_) | Set::Nothing)
    }

    /// At most `count` ranges that all keys are in; `None` where more than `words` words of keys would have to be gone through, or they
    /// say no more than the bounds.
    pub fn ranges(&self, words: u64, count: usize) -> Option<Ranges> {
        match &self.set {
            Set::Nothing => Some(Ranges::default()),
            Set::Bits(bits) if bits.len() as u64 <= words => Some(Ranges::of_words(bits, self.min.into(), count)),
            Set::Bits(_) | Set::Range | Set::Bloom { .. } => None,
        }
    }

    /// Appends to `rows`, ascending, each `i` whose `values[i]` may be a key.
    pub fn select_i32(&self, values: &[i32], rows: &mut Vec<u32>) {
        self.select(values, rows);
    }

    /// As [`KeyFilter::select_i32`].
    pub fn select_i64(&self, values: &[i64], rows: &mut Vec<u32>) {
        self.select(values, rows);
    }

    /// As [`KeyFilter::select_i32`], for dictionary codes.
    pub fn select_codes(&self, values: &[u32], rows: &mut Vec<u32>) {
        self.select(values, rows);
    }

    fn select<T: Word>(&self, values: &[T], rows: &mut Vec<u32>) {
        let (min, span) = (self.min, self.span);
        let offset = |value: T| value.word().wrapping_sub(min) as u64;
        match &self.set {
            Set::Nothing => {}
            Set::Range => keep(values, rows, |value| offset(value) <= span),
            Set::Bits(words) => keep(values, rows, |value| {
                let bit = offset(value);
                bit <= span && words[bit as usize / 64] >> (bit % 64) & 1 != 0
            }),
            Set::Bloom { words, shift } => keep(values, rows, |value| {
                let (at, mask) = bloom(value.word(), *shift);
                offset(value) <= span && words[at] & mask == mask
            }),
        }
    }
}

#[inline(always)]
fn bloom(value: i64, shift: u32) -> (usize, u64) {
    let hash = mix(value as u64);
    let bit = |n: u32| 1u64 << (hash >> (6 * n) & 63);
    ((hash >> shift) as usize, bit(0) | bit(1) | bit(2) | bit(3))
}

/// Appends the positions that `test` passes, without branches on its outcome.
#[inline(always)]
fn keep<T: Copy>(values: &[T], rows: &mut Vec<u32>, test: impl Fn(T) -> bool) {
    let mut len = rows.len();
    rows.resize(len + values.len(), 0);
    for (i, &value) in values.iter().enumerate() {
        rows[len] = i as u32;
        len += usize::from(test(value));
    }
    rows.truncate(len);
}
