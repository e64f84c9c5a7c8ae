//! Keys of hash builds by which scans are pruned.

use warpmill_ir::{Expr, Pipeline, Source};

use super::{Planner, estimate};
use crate::compile::keys::{KeyPart, KeyShape};

/// Density from which keys are considered surrogate numbers, of which a condition rarely selects a range.
const NUMBERED: f64 = 0.5;

/// Fraction of the keys between the least and the greatest that counts as all of them.
const NEARLY_ALL: f64 = 0.7;

/// Number of keys that a bitmap for scans may always have.
const SMALL_BITMAP: u64 = 1 << 28;

/// Largest expected fraction of other keys that pass a folded bitmap.
const MOST_FOLDED: f64 = 0.3;

impl Planner<'_> {
    /// Keys by which scans are pruned.
    fn wanted_keys(&self) -> Vec<usize> {
        let scans = self.program.pipelines.iter().filter_map(|pipeline| match &pipeline.source {
            Source::Scan(scan) => Some(scan),
            _ => None,
        });
        let mut wanted: Vec<usize> =
            scans.flat_map(|scan| &scan.prune).filter(|prune| prune.build == self.id).map(|prune| prune.key).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// Keys by which scans are pruned, with a bitmap of their values if it is small.
    pub(super) fn bitmaps(&self, keys: &[Expr]) -> Vec<(usize, KeyPart)> {
        let is_small = |cells: u64| {
            cells <= SMALL_BITMAP || (cells < u64::from(u32::MAX) && cells / 8 <= self.limits.table_bytes / 32)
        };
        let bitmap = |key: usize| match KeyShape::of([&keys[key].ty.with_nullable(false)], false) {
            KeyShape::Packed { parts, cells } if is_small(cells) => Some((key, parts[0])),
            _ => None,
        };
        self.wanted_keys().into_iter().filter_map(bitmap).collect()
    }

    /// Keys by which scans are pruned whose density in their table is known from statistics.
    pub(super) fn bounds(&self, keys: &[Expr]) -> Vec<(usize, KeyPart, f64)> {
        let feeding: Vec<&Pipeline> = self.program.pipelines.iter().filter(|p| p.sink == self.id).collect();
        let [pipeline] = feeding.as_slice() else { return vec![] };
        let Source::Scan(scan) = &pipeline.source else { return vec![] };
        let bounds = |key: usize| {
            let shape = KeyShape::of([&keys[key].ty.with_nullable(false)], false);
            let KeyShape::Packed { parts, .. } = shape else { return None };
            let column = estimate::source_column(pipeline, &keys[key])?;
            let stats = scan.table.column_stats(scan.columns[column]);
            let ((least, greatest), distinct) = (stats.int_range()?, stats.distinct?);
            let density = distinct as f64 / (greatest - least + 1).max(1) as f64;
            // Conditions rarely select a range of surrogate numbers.
            (density < NUMBERED).then_some((key, parts[0], density * NEARLY_ALL))
        };
        self.wanted_keys().into_iter().filter_map(bounds).collect()
    }

    /// Number of bits into which a bitmap of the build's keys may be folded; `None`: too many of them would be set.
    pub(super) fn folded_bits(&self) -> Option<u32> {
        let most = (8 * self.limits.folded_bytes + 1).next_power_of_two() / 2;
        let bits = ((8.0 * self.estimate) as u32).max(1 << 10).checked_next_power_of_two()?.min(most.max(1 << 10));
        let passed = 1.0 - (-self.estimate / f64::from(bits)).exp();
        (bits <= most && passed <= MOST_FOLDED).then_some(bits)
    }
}
