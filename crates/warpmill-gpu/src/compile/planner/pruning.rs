//! Keys of hash builds by which scans are pruned.

use warpmill_ir::{Expr, Operator, Pipeline, Scan, Source};

use super::{Planner, estimate};
use crate::compile::keys::{KeyPart, KeyShape};
use crate::compile::scan_shape::coarse_of_keys;

/// Density from which keys are considered surrogate numbers, of which a condition rarely selects a range.
const NUMBERED: f64 = 0.5;

/// Fraction of the keys between the least and the greatest that counts as all of them.
const NEARLY_ALL: f64 = 0.7;

/// Expected fraction of a column's values among the rows of a build from which scans are not pruned by it. Estimates of rows are often several times
/// too large, and a test in vain costs less than one that is missing.
const SPREAD: f64 = 0.95;

/// Number of keys that a bitmap for scans may always have.
const SMALL_BITMAP: u64 = 1 << 28;

/// Largest expected fraction of other keys that pass a folded bitmap.
const MOST_FOLDED: f64 = 0.3;

impl Planner<'_> {
    /// Keys by which scans are pruned. Keys of which nearly all values are expected are left out: tests against them would remove few rows.
    fn wanted_keys(&self, keys: &[Expr]) -> Vec<usize> {
        let scans = self.program.pipelines.iter().filter_map(|pipeline| match &pipeline.source {
            Source::Scan(scan) => Some(scan),
            _ => None,
        });
        let mut wanted: Vec<usize> =
            scans.flat_map(|scan| &scan.prune).filter(|prune| prune.build == self.id).map(|prune| prune.key).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|&key| !self.is_spread(&keys[key]));
        wanted
    }

    /// Whether nearly all values of `key` are expected among the build's rows: they repeat, and the rows are selected by other columns.
    fn is_spread(&self, key: &Expr) -> bool {
        let Some((pipeline, scan)) = self.scanned() else { return false };
        let Some(column) = estimate::source_column(pipeline, key) else { return false };
        let Some(distinct) = scan.table.column_stats(scan.columns[column]).distinct else { return false };
        let expected = 1.0 - (-self.estimate / (distinct.max(1) as f64)).exp();
        expected >= SPREAD && !self.selects_by(pipeline, scan, column)
    }

    /// The pipeline of the build and its scan, if all rows come from one scan.
    fn scanned(&self) -> Option<(&Pipeline, &Scan)> {
        let mut feeding = self.program.pipelines.iter().filter(|pipeline| pipeline.sink == self.id);
        match (feeding.next(), feeding.next()) {
            (Some(pipeline), None) => match &pipeline.source {
                Source::Scan(scan) => Some((pipeline, scan)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether `pipeline` selects rows by column `column` of its scan.
    fn selects_by(&self, pipeline: &Pipeline, scan: &Scan, column: usize) -> bool {
        let reads = |expr: &Expr| {
            let mut reads = false;
            expr.visit_columns(&mut |read| reads |= read == column);
            reads
        };
        let probed = |(at, operator): (usize, &Operator)| match operator {
            Operator::Probe(probe) => {
                let before = Pipeline { operators: pipeline.operators[..at].to_vec(), ..pipeline.clone() };
                let by_column = |key: &Expr| estimate::source_column(&before, key) == Some(column);
                coarse_of_keys(self.fractions[probe.build]).is_some() && probe.keys.iter().any(by_column)
            }
            Operator::Filter(_) => true,
            Operator::Project(_) | Operator::Limit { .. } => false,
        };
        scan.filters.iter().any(reads) || pipeline.operators.iter().enumerate().any(probed)
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
        self.wanted_keys(keys).into_iter().filter_map(bitmap).collect()
    }

    /// Keys by which scans are pruned whose density in their table is known from statistics.
    pub(super) fn bounds(&self, keys: &[Expr]) -> Vec<(usize, KeyPart, f64)> {
        let Some((pipeline, scan)) = self.scanned() else { return vec![] };
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
        self.wanted_keys(keys).into_iter().filter_map(bounds).collect()
    }

    /// Number of bits into which a bitmap of the build's keys may be folded; `None`: too many of them would be set.
    pub(super) fn folded_bits(&self) -> Option<u32> {
        let most = (8 * self.limits.folded_bytes + 1).next_power_of_two() / 2;
        let bits = ((8.0 * self.estimate) as u32).max(1 << 10).checked_next_power_of_two()?.min(most.max(1 << 10));
        let passed = 1.0 - (-self.estimate / f64::from(bits)).exp();
        (bits <= most && passed <= MOST_FOLDED).then_some(bits)
    }
}
