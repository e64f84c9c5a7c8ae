//! Direct-address tables: arrays indexed by the key's code. No hash, no comparison, one load per lookup.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rayon::prelude::*;

use super::Matches;
use super::keys::Word;
use crate::vector::NULL_ROW;

/// Rows by code. Index `range` (one past the last code) stands for "no match".
#[derive(Debug)]
pub(super) enum Direct {
    /// Distinct keys: the row, or [`NULL_ROW`].
    Unique(Vec<u32>),
    /// Repeated keys: rows `offsets[code] .. offsets[code + 1]`.
    Runs(Vec<u32>),
}

/// Smallest number of rows that are built in parallel.
const PARALLEL: usize = 1 << 16;

impl Direct {
    /// Whether an array over `range` codes is worth its memory for `rows` rows.
    pub fn pays(range: u64, rows: usize) -> bool {
        let rows = rows as u64;
        range < u64::from(u32::MAX) && (range <= 8 * rows + (64 << 10) || range <= (4 << 20).min(64 * rows))
    }

    /// Bytes of a table over `range` codes.
    pub fn bytes(range: u64) -> usize {
        (range as usize).saturating_add(2).saturating_mul(4)
    }

    /// The first row and the number of rows of each repeated key, in row order.
    pub fn runs_of_rows(&self) -> Vec<(u32, u32)> {
        match self {
            Direct::Unique(_) => vec![],
            Direct::Runs(offsets) => {
                let runs = offsets.windows(2).map(|pair| (pair[0], pair[1] - pair[0]));
                runs.filter(|(_, len)| *len > 1).collect()
            }
        }
    }

    /// A table of rows with these codes (all below `range`) and, for repeated keys, the row order that it assumes.
    pub fn build(codes: &[u64], range: u64) -> (Self, Option<Vec<u32>>) {
        match Self::unique(codes, range as usize) {
            Some(rows) => (Direct::Unique(rows), None),
            None => {
                let (offsets, order) = Self::runs(codes, range as usize);
                (Direct::Runs(offsets), Some(order))
            }
        }
    }

    fn unique(codes: &[u64], range: usize) -> Option<Vec<u32>> {
        if codes.len() > range {
            return None;
        }
        let mut rows = vec![NULL_ROW; range + 1];
        if codes.len() < PARALLEL || rayon::current_num_threads() == 1 {
            for (row, &code) in codes.iter().enumerate() {
                if std::mem::replace(&mut rows[code as usize], row as u32) != NULL_ROW {
                    return None;
                }
            }
            return Some(rows);
        }
        let cells: Vec<AtomicU32> = rows.into_iter().map(AtomicU32::new).collect();
        let distinct = codes.par_chunks(PARALLEL / 4).enumerate().all(|(block, codes)| {
            let first = (block * (PARALLEL / 4)) as u32;
            codes.iter().zip(first..).all(|(&code, row)| cells[code as usize].swap(row, Relaxed) == NULL_ROW)
        });
        distinct.then(|| into_plain(cells))
    }

    /// Counting sort. The count of code `k` is gathered at `k + 2`; the prefix sum makes `k + 1` its cursor, which ends
    /// where the next code starts.
    fn runs(codes: &[u64], range: usize) -> (Vec<u32>, Vec<u32>) {
        if codes.len() < PARALLEL || rayon::current_num_threads() == 1 {
            let (mut offsets, mut order) = (vec![0u32; range + 2], vec![0u32; codes.len()]);
            codes.iter().for_each(|&code| offsets[code as usize + 2] += 1);
            prefix_sum(&mut offsets);
            for (row, &code) in codes.iter().enumerate() {
                let cursor = &mut offsets[code as usize + 1];
                order[*cursor as usize] = row as u32;
                *cursor += 1;
            }
            return (offsets, order);
        }
        let cells: Vec<AtomicU32> = (0..range + 2).map(|_| AtomicU32::new(0)).collect();
        codes.par_iter().with_min_len(PARALLEL / 4).for_each(|&code| {
            cells[code as usize + 2].fetch_add(1, Relaxed);
        });
        let mut offsets = into_plain(cells);
        prefix_sum(&mut offsets);
        let cells: Vec<AtomicU32> = offsets.into_iter().map(AtomicU32::new).collect();
        let order: Vec<AtomicU32> = (0..codes.len()).map(|_| AtomicU32::new(0)).collect();
        codes.par_iter().with_min_len(PARALLEL / 4).enumerate().for_each(|(row, &code)| {
            let at = cells[code as usize + 1].fetch_add(1, Relaxed);
            order[at as usize].store(row as u32, Relaxed);
        });
        (into_plain(cells), into_plain(order))
    }

    /// Looks up rows by code.
    pub fn lookup_codes(&self, codes: &[u64], out: &mut Matches) {
        self.lookup(codes.iter().copied(), out);
    }

    /// Looks up rows by value, where the code is `value - min`.
    pub fn lookup_values<T: Word>(&self, values: &[T], min: i64, out: &mut Matches) {
        self.lookup(values.iter().map(|value| value.word().wrapping_sub(min) as u64), out);
    }

    #[inline(always)]
    fn lookup(&self, codes: impl Iterator<Item = u64>, out: &mut Matches) {
        match self {
            Direct::Unique(rows) => {
                let none = rows.len() as u64 - 1;
                out.starts.extend(codes.map(|code| rows[code.min(none) as usize]));
            }
            Direct::Runs(offsets) => {
                let none = offsets.len() as u64 - 2;
                for code in codes {
                    let at = code.min(none) as usize;
                    let start = offsets[at];
                    out.starts.push(start);
                    out.lens.push(offsets[at + 1] - start);
                }
            }
        }
    }
}

fn prefix_sum(values: &mut [u32]) {
    let mut sum = 0;
    for value in values {
        sum += *value;
        *value = sum;
    }
}

/// Converts in place: the layouts agree.
fn into_plain(cells: Vec<AtomicU32>) -> Vec<u32> {
    cells.into_iter().map(AtomicU32::into_inner).collect()
}
