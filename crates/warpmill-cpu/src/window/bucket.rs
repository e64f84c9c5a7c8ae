//! Sorts keys with their rows: into buckets by the upper bits of keys, then each bucket separately within a cache. Rows come in order, and every step
//! is stable, so that only key bits are compared.

use std::ops::Range;

use rayon::prelude::*;

/// Aimed number of entries of a bucket.
const BUCKET: usize = 1 << 12;
/// Largest number of buckets, which is the number of output streams that are written at once.
const MOST_BUCKETS: usize = 1 << 11;
/// A bucket with more entries is sorted by all threads.
const LARGE: usize = 1 << 17;
/// Number of key bits of a radix sort step.
const DIGIT: u32 = 8;
/// With more digits a comparison sort is faster.
const MOST_DIGITS: u32 = 5;

/// A row as an integer that has the normalized key above the row number, where both fit.
pub(crate) trait Entry: Copy + Ord + Default + Send + Sync {
    /// The entry of row `row`, a number of `row_bits` bits.
    fn new(prefix: u128, row: u32, row_bits: u32) -> Self;
    /// The row.
    fn row(self, row_bits: u32) -> u32;
    /// The entry with the same key and row 0.
    fn first(self, row_bits: u32) -> Self;
    /// Whether at most the lowest `bits` bits differ.
    fn agrees(self, other: Self, bits: u32) -> bool;
    /// Number of bits of the distance to `greatest`.
    fn span(self, greatest: Self) -> u32;
    /// The distance to `least`, without its lowest `shift` bits.
    fn bucket(self, least: Self, shift: u32) -> usize;
}

macro_rules! entry {
    ($($t:ty),*) => {$(
        impl Entry for $t {
            #[inline(always)]
            fn new(prefix: u128, row: u32, row_bits: u32) -> Self {
                (prefix as $t) << row_bits | <$t>::from(row)
            }
            #[inline(always)]
            fn row(self, row_bits: u32) -> u32 {
                (self & ((1 << row_bits) - 1)) as u32
            }
            fn first(self, row_bits: u32) -> Self {
                self >> row_bits << row_bits
            }
            #[inline(always)]
            fn agrees(self, other: Self, bits: u32) -> bool {
                (self ^ other).checked_shr(bits).unwrap_or(0) == 0
            }
            fn span(self, greatest: Self) -> u32 {
                <$t>::BITS - (greatest - self).leading_zeros()
            }
            #[inline(always)]
            fn bucket(self, least: Self, shift: u32) -> usize {
                // Keys that differ in all bits share one bucket.
                (self - least).checked_shr(shift).unwrap_or(0) as usize
            }
        }
    )*};
}
entry!(u64, u128);

impl Entry for (u128, u32) {
    fn new(prefix: u128, row: u32, _: u32) -> Self {
        (prefix, row)
    }
    fn row(self, _: u32) -> u32 {
        self.1
    }
    fn first(self, _: u32) -> Self {
        (self.0, 0)
    }
    fn agrees(self, other: Self, bits: u32) -> bool {
        self.0.agrees(other.0, bits)
    }
    fn span(self, greatest: Self) -> u32 {
        self.0.span(greatest.0)
    }
    fn bucket(self, least: Self, shift: u32) -> usize {
        self.0.bucket(least.0, shift)
    }
}

/// Sorts the entries of all parts. Rows ascend over the parts and have `row_bits` bits.
pub(crate) fn sort<E: Entry>(parts: Vec<Vec<E>>, row_bits: u32) -> Vec<E> {
    let len: usize = parts.iter().map(Vec::len).sum();
    if len <= BUCKET {
        let mut all = parts.concat();
        all.sort_unstable();
        return all;
    }
    let bounds = |part: &Vec<E>| Some((*part.iter().min()?, *part.iter().max()?));
    let bounds = parts.par_iter().filter_map(bounds).reduce_with(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let (least, greatest) = bounds.unwrap_or_default();
    let least = least.first(row_bits);
    let buckets = (len / BUCKET).next_power_of_two().min(MOST_BUCKETS);
    let shift = least.span(greatest).saturating_sub(buckets.trailing_zeros()).max(row_bits);
    let parts: Vec<Part<E>> = parts.into_par_iter().map(|part| Part::new(&part, buckets, least, shift)).collect();
    let mut all = vec![E::default(); len];
    let mut places: Vec<&mut [E]> = Vec::with_capacity(buckets);
    let mut rest = all.as_mut_slice();
    for bucket in 0..buckets {
        let size = parts.iter().map(|part| part.bucket(bucket).len()).sum();
        let (place, after) = rest.split_at_mut(size);
        places.push(place);
        rest = after;
    }
    places.into_par_iter().enumerate().for_each(|(bucket, place)| {
        let mut at = 0;
        for part in &parts {
            let entries = part.bucket(bucket);
            place[at..at + entries.len()].copy_from_slice(entries);
            at += entries.len();
        }
        if place.len() > LARGE {
            place.par_sort_unstable();
        } else if shift - row_bits > MOST_DIGITS * DIGIT || place.len() < 1 << DIGIT {
            place.sort_unstable();
        } else {
            by_digits(place, least, row_bits..shift);
        }
    });
    all
}

/// Sorts `entries` by bits `bits` of their distance to `least`.
fn by_digits<E: Entry>(entries: &mut [E], least: E, bits: Range<u32>) {
    let mut scratch = vec![E::default(); entries.len()];
    let mut sorted = false;
    for low in bits.clone().step_by(DIGIT as usize) {
        let mask = (1usize << DIGIT.min(bits.end - low)) - 1;
        let digit = |entry: E| entry.bucket(least, low) & mask;
        let (from, to) = if sorted { (&mut *scratch, &mut *entries) } else { (&mut *entries, &mut *scratch) };
        let mut places = [0u32; 1 << DIGIT];
        from.iter().for_each(|&entry| places[digit(entry)] += 1);
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        for &entry in from.iter() {
            let place = &mut places[digit(entry)];
            to[*place as usize] = entry;
            *place += 1;
        }
        sorted = !sorted;
    }
    if sorted {
        entries.copy_from_slice(&scratch);
    }
}

/// Entries grouped by bucket.
struct Part<E> {
    entries: Vec<E>,
    /// Offset of each bucket, then the number of entries.
    starts: Vec<u32>,
}

impl<E: Entry> Part<E> {
    fn new(entries: &[E], buckets: usize, least: E, shift: u32) -> Self {
        let mut starts = vec![0u32; buckets + 1];
        entries.iter().for_each(|entry| starts[entry.bucket(least, shift) + 1] += 1);
        for bucket in 0..buckets {
            starts[bucket + 1] += starts[bucket];
        }
        let mut next = starts.clone();
        let mut placed = vec![E::default(); entries.len()];
        for &entry in entries {
            let place = &mut next[entry.bucket(least, shift)];
            placed[*place as usize] = entry;
            *place += 1;
        }
        Self { entries: placed, starts }
    }

    fn bucket(&self, bucket: usize) -> &[E] {
        &self.entries[self.starts[bucket] as usize..self.starts[bucket + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of random keys of `bits` bits, in parts.
    fn parts<E: Entry>(rows: u32, bits: u32, row_bits: u32) -> Vec<Vec<E>> {
        let key = |row: u32| {
            (u128::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) >> 3) & ((1 << bits) - 1)
        };
        let all: Vec<E> = (0..rows).map(|row| E::new(key(row) + 77, row, row_bits)).collect();
        all.chunks(10_000).map(<[E]>::to_vec).collect()
    }

    #[test]
    fn keys_that_differ_in_all_bits_are_sorted() {
        // More than one bucket's entries, less than two buckets'.
        let keys = (0..6000u64).map(|row| row.wrapping_mul(0x9e37_79b9_7f4a_7c15)).chain([0, u64::MAX]);
        let keys: Vec<u64> = keys.collect();
        let mut expected = keys.clone();
        expected.sort_unstable();
        assert_eq!(sort(vec![keys.clone()], 0), expected);
        let wide: Vec<u128> = keys.iter().map(|&key| u128::from(key) << 64 | u128::from(key)).collect();
        let mut expected = wide.clone();
        expected.sort_unstable();
        assert_eq!(sort(vec![wide], 0), expected);
    }

    #[test]
    fn keys_are_sorted_and_rows_with_them() {
        for rows in [0, 1, 100, 5000, 70_000, 300_000] {
            for bits in [1, 7, 13, 30, 44] {
                let mut expected = parts::<u64>(rows, bits, 19).concat();
                expected.sort_unstable();
                assert_eq!(sort(parts::<u64>(rows, bits, 19), 19), expected, "{rows} rows of {bits} bits");
                let mut expected = parts::<(u128, u32)>(rows, 2 * bits, 0).concat();
                expected.sort_unstable();
                assert_eq!(sort(parts::<(u128, u32)>(rows, 2 * bits, 0), 0), expected, "{rows} rows of {bits} bits");
            }
        }
    }
}
