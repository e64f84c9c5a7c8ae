//! Sets of ranks as ranges.

use warpmill_format::Bitmap;

/// Inclusive ranges, ascending and disjoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ranges(Vec<(i128, i128)>);

/// Number of ranges per wanted range up to which all are compared: to read millions takes longer than the pruning that they are for.
const EXACT: usize = 64;

/// Number of runs of set bits.
fn count_runs(words: &[u64]) -> usize {
    let starts = |(before, word): (u64, u64)| (word & !(word << 1 | before >> 63)).count_ones() as usize;
    let before = std::iter::once(0).chain(words.iter().copied());
    before.zip(words.iter().copied()).map(starts).sum()
}

impl Ranges {
    /// All ranks.
    pub fn all() -> Self {
        Self(vec![(i128::MIN, i128::MAX)])
    }

    /// `lo ..= hi`; empty if `lo > hi`.
    pub fn of(lo: i128, hi: i128) -> Self {
        Self(if lo <= hi { vec![(lo, hi)] } else { vec![] })
    }

    /// The union of ranges in any order.
    pub fn union(mut parts: Vec<(i128, i128)>) -> Self {
        parts.retain(|(lo, hi)| lo <= hi);
        parts.sort_unstable();
        let mut out: Vec<(i128, i128)> = Vec::with_capacity(parts.len());
        for (lo, hi) in parts {
            match out.last_mut() {
                Some(last) if lo <= last.1.saturating_add(1) => last.1 = last.1.max(hi),
                _ => out.push((lo, hi)),
            }
        }
        Self(out)
    }

    /// The set bits of `bits`, as positions plus `least`; if these are more than `most` ranges, the narrowest gaps are filled.
    pub fn of_bits(bits: &Bitmap, least: i128, most: usize) -> Self {
        Self::of_words(bits.words(), least, most)
    }

    /// As [`Ranges::of_bits`], of a bitmap's words. Of very many ranges, only gaps that contain a whole word are kept, and the narrowest of these
    /// filled.
    pub fn of_words(words: &[u64], least: i128, most: usize) -> Self {
        let mut out: Vec<(i128, i128)> = vec![];
        let is_exact = count_runs(words) <= most.saturating_mul(EXACT);
        for (w, &word) in words.iter().enumerate().filter(|(_, word)| **word != 0) {
            let base = least + 64 * w as i128;
            if !is_exact {
                let (first, last) = (word.trailing_zeros(), 63 - word.leading_zeros());
                let (lo, hi) = (base + i128::from(first), base + i128::from(last));
                match out.last_mut() {
                    Some(before) if w > 0 && words[w - 1] != 0 => before.1 = hi,
                    _ => out.push((lo, hi)),
                }
                continue;
            }
            let mut left = word;
            while left != 0 {
                let first = left.trailing_zeros();
                let len = (left >> first).trailing_ones();
                let (lo, hi) = (base + i128::from(first), base + i128::from(first + len - 1));
                match out.last_mut() {
                    Some(last) if last.1 + 1 == lo => last.1 = hi,
                    _ => out.push((lo, hi)),
                }
                left = if first + len == 64 { 0 } else { left >> (first + len) << (first + len) };
            }
        }
        Self(out).with_at_most(most)
    }

    /// The same ranges; if there are more than `most`, the narrowest gaps are filled.
    pub fn with_at_most(self, most: usize) -> Self {
        if self.0.len() <= most {
            return self;
        }
        let mut gaps: Vec<u128> = self.0.windows(2).map(|pair| pair[1].0.abs_diff(pair[0].1)).collect();
        let widest = gaps.len().saturating_sub(most.max(1));
        let narrow = *gaps.select_nth_unstable(widest).1;
        let mut out: Vec<(i128, i128)> = vec![];
        for (lo, hi) in self.0 {
            match out.last_mut() {
                Some(last) if lo.abs_diff(last.1) <= narrow => last.1 = hi,
                _ => out.push((lo, hi)),
            }
        }
        Self(out)
    }

    /// The ranks in both.
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut out, mut i, mut j) = (vec![], 0, 0);
        while let (Some(a), Some(b)) = (self.0.get(i), other.0.get(j)) {
            let (lo, hi) = (a.0.max(b.0), a.1.min(b.1));
            if lo <= hi {
                out.push((lo, hi));
            }
            if a.1 < b.1 { i += 1 } else { j += 1 }
        }
        Self(out)
    }

    /// All other ranks.
    pub fn complement(&self) -> Self {
        let (mut out, mut from) = (vec![], Some(i128::MIN));
        for &(lo, hi) in &self.0 {
            if let Some(from) = from.filter(|from| *from < lo) {
                out.push((from, lo - 1));
            }
            from = hi.checked_add(1);
        }
        out.extend(from.map(|from| (from, i128::MAX)));
        Self(out)
    }

    /// The ranges.
    pub fn as_slice(&self) -> &[(i128, i128)] {
        &self.0
    }

    /// Positions of the ranges that overlap `lo ..= hi`.
    pub fn within(&self, (lo, hi): (i128, i128)) -> std::ops::Range<usize> {
        let first = self.0.partition_point(|range| range.1 < lo);
        first..first + self.0[first..].partition_point(|range| range.0 <= hi)
    }

    /// Whether there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a range contains `rank`.
    pub fn contains(&self, rank: i128) -> bool {
        !self.within((rank, rank)).is_empty()
    }

    /// Maps each range by `f`; `None` removes it.
    pub fn map(&self, f: impl FnMut(&(i128, i128)) -> Option<(i128, i128)>) -> Self {
        Self::union(self.0.iter().filter_map(f).collect())
    }

    /// The codes that a remap maps to codes of this set.
    pub fn before(&self, remap: &[u32]) -> Self {
        self.map(|&(lo, hi)| {
            let from = remap.partition_point(|&code| i128::from(code) < lo);
            let to = remap.partition_point(|&code| i128::from(code) <= hi);
            (from < to).then(|| (from as i128, to as i128 - 1))
        })
    }
}
