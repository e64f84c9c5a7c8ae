//! Lane-packed run lengths, for columns whose neighbours repeat.
//!
//! Runs are split at vector boundaries. Run ends (the last row in the vector) and run values are two lane-packed columns with one entry per run
//! ([`LaneFor`]); a u32 per vector is the index of its first run.
//!
//! Sections: number of runs (u64), run starts (u32 per vector + 1), the sections of the ends, the sections of the values.

use super::lane_for::LaneFor;
use super::select::{self, RowMask};
use super::word::{Value, Word};
use crate::segment::RunsLayout;
use crate::segment::bytes::{SectionReader, SectionWriter, View, corrupt};
use crate::{Result, VECTOR_ROWS};

/// A run-length encoded column of integers.
pub(crate) struct LaneRle {
    starts: View<u32>,
    ends: LaneFor,
    values: LaneFor,
}

/// Above this number of runs in a vector they are decoded together instead of one by one.
const FEW_RUNS: usize = 96;

impl LaneRle {
    /// Positions of the sections, in bytes from `base`.
    pub(crate) fn layout(&self, base: *const u8) -> RunsLayout {
        RunsLayout {
            starts: self.starts.as_ptr() as usize - base as usize,
            ends: self.ends.layout(base),
            values: self.values.layout(base),
        }
    }

    /// Packs `values`.
    pub(crate) fn encode<V: Value>(values: &[V], out: &mut SectionWriter) {
        let (mut starts, mut ends, mut heads) = (vec![0u32], Vec::<i64>::new(), Vec::<V>::new());
        for vector in values.chunks(VECTOR_ROWS) {
            for (row, &x) in vector.iter().enumerate() {
                if vector.get(row + 1) != Some(&x) {
                    ends.push(row as i64);
                    heads.push(x);
                }
            }
            starts.push(ends.len() as u32);
        }
        out.push(&[ends.len() as u64]);
        out.push(&starts);
        LaneFor::encode(&ends, out);
        LaneFor::encode(&heads, out);
    }

    /// Reads the sections of [`LaneRle::encode`] for `rows` rows.
    pub(crate) fn read(reader: &mut SectionReader<'_>, rows: usize) -> Result<Self> {
        let runs = reader.exactly::<u64>(1)?[0];
        if runs > rows as u64 {
            return Err(corrupt(format!("{runs} runs of {rows} rows")));
        }
        let starts = reader.exactly::<u32>(rows.div_ceil(VECTOR_ROWS) + 1)?;
        if !starts.is_sorted() || starts[0] != 0 || starts.last() != Some(&(runs as u32)) {
            return Err(corrupt("run starts do not fit the runs"));
        }
        let ends = LaneFor::read(reader, runs as usize)?;
        Ok(Self { starts, ends, values: LaneFor::read(reader, runs as usize)? })
    }

    /// Calls `run(from, to, value)` for the rows of each run of vector `v`, in order.
    #[inline(always)]
    fn runs<T: Word>(&self, v: usize, mut run: impl FnMut(usize, usize, T)) {
        let (first, end) = (self.starts[v] as usize, self.starts[v + 1] as usize);
        let mut from = 0;
        let mut next = |last: u32, value: T| {
            // Damaged ends must not exceed the vector.
            let to = (last as usize).min(VECTOR_ROWS - 1).max(from.max(1) - 1) + 1;
            run(from, to, value);
            from = to;
        };
        if end - first <= FEW_RUNS {
            (first..end).for_each(|r| next(self.ends.get(r), self.values.get(r)));
            return;
        }
        let (mut ends, mut values) = ([0u32; VECTOR_ROWS], [T::default(); VECTOR_ROWS]);
        for packed in first / VECTOR_ROWS..end.div_ceil(VECTOR_ROWS) {
            self.ends.vector(packed, &mut ends);
            self.values.vector(packed, &mut values);
            let base = packed * VECTOR_ROWS;
            for r in first.max(base)..end.min(base + VECTOR_ROWS) {
                next(ends[r - base], values[r - base]);
            }
        }
    }

    /// Decodes vector `v`.
    pub(crate) fn vector<T: Word>(&self, v: usize, out: &mut [T; VECTOR_ROWS]) {
        self.runs(v, |from, to, value| out[from..to].fill(value));
    }

    /// The value of `row`, by binary search among its vector's runs.
    pub(crate) fn get<T: Word>(&self, row: usize) -> T {
        let (v, row) = (row / VECTOR_ROWS, row % VECTOR_ROWS);
        let (mut low, mut high) = (self.starts[v] as usize, self.starts[v + 1] as usize);
        let end = high;
        while low < high {
            let mid = (low + high) / 2;
            if (self.ends.get::<u32>(mid) as usize) < row { low = mid + 1 } else { high = mid }
        }
        // Past the last run only where the bytes are damaged.
        if low < end { self.values.get(low) } else { T::default() }
    }

    /// The rows of vector `v` whose value is in `lo ..= hi`: one comparison per run.
    pub(crate) fn select(&self, v: usize, lo: i128, hi: i128, mask: &mut RowMask) {
        mask.fill(0);
        self.runs(v, |from, to, value: u128| {
            if (lo..=hi).contains(&(value as i128)) {
                select::set_range(mask, from, to);
            }
        });
    }
}
