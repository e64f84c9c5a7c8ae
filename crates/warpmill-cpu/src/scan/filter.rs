//! The predicates of a scan, and how each is evaluated: on encoded values, on decoded vectors, on statistics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpmill_format::{ColumnStats, Segment};
use warpmill_plan::Expr;

use crate::context::Result;
use crate::expr::PreparedExpr;
use crate::join::KeyFilter;
use crate::vector::{Data, Vector};

/// One conjunct of a scan's WHERE clause.
#[derive(Debug)]
pub struct ScanFilter {
    /// The predicate over the scan's columns.
    pub expr: PreparedExpr,
    /// As EXPLAIN shows it.
    pub text: String,
}

impl ScanFilter {
    /// Prepares `expr`.
    pub fn new(expr: &Expr) -> Result<Self> {
        Ok(Self { expr: PreparedExpr::new(expr)?, text: expr.to_string() })
    }

    /// Whether statistics prove that no row qualifies.
    pub fn excludes(&self, stats: impl Fn(usize) -> ColumnStats) -> bool {
        if let Some((column, lo, hi)) = self.expr.as_int_range() {
            let stats = stats(column);
            return stats.nulls == stats.rows || stats.int_range().is_some_and(|(min, max)| hi < min || lo > max);
        }
        false
    }

    /// The scan column whose encoded values decide this predicate, if they do.
    pub fn encoded_column(&self) -> Option<usize> {
        match (self.expr.as_int_range(), self.expr.as_code_set()) {
            (Some((column, ..)), _) | (None, Some((column, _))) => Some(column),
            _ => None,
        }
    }

    /// Appends the qualifying rows of `start .. start + len`, relative to `start`, reading `segment` of
    /// [`ScanFilter::encoded_column`].
    pub fn select_encoded(&self, segment: &Segment, start: usize, len: usize, out: &mut Vec<u32>) {
        if let Some((_, lo, hi)) = self.expr.as_int_range() {
            segment.select_range(start, len, lo, hi, out);
        } else if let Some((_, set)) = self.expr.as_code_set() {
            segment.select_codes(start, len, set, out);
        }
        if let Some(validity) = segment.validity(start, len) {
            out.retain(|&row| validity.get(row as usize));
        }
    }
}

/// The keys of a hash build that a scan column must be among (an inner or semi join further up).
#[derive(Debug)]
pub struct KeyPrune {
    /// The scan's column.
    pub column: usize,
    /// Bounds of the build's keys; `None` for keys without bounds. An empty build has `(1, 0)`.
    pub range: Option<(i128, i128)>,
    /// Which keys within the bounds exist.
    pub filter: Option<Arc<KeyFilter>>,
    tested: AtomicU64,
    passed: AtomicU64,
}

impl KeyPrune {
    /// A prune of `column`.
    pub fn new(column: usize, range: Option<(i128, i128)>, filter: Option<Arc<KeyFilter>>) -> Self {
        Self { column, range, filter, tested: AtomicU64::new(0), passed: AtomicU64::new(0) }
    }

    /// Whether no key of a segment with these statistics can match.
    pub fn excludes(&self, stats: &ColumnStats) -> bool {
        match (self.range, stats.int_range()) {
            (Some((lo, hi)), _) if lo > hi => true,
            (Some((lo, hi)), Some((min, max))) => hi < min || lo > max || stats.nulls == stats.rows,
            _ => false,
        }
    }

    /// Whether testing rows has paid so far: a filter that lets nearly all pass only costs.
    pub fn pays(&self) -> bool {
        let tested = self.tested.load(Ordering::Relaxed);
        tested < 32 * 1024 || self.passed.load(Ordering::Relaxed) * 4 < tested * 3
    }

    /// Appends the rows of `keys` that may be among the build's keys.
    pub fn select(filter: &KeyFilter, keys: &Vector, rows: &mut Vec<u32>) {
        match &keys.data {
            Data::I32(values) => filter.select_i32(values, rows),
            Data::I64(values) => filter.select_i64(values, rows),
            Data::Code(values) => filter.select_codes(values, rows),
            other => rows.extend(0..other.len() as u32),
        }
        if let Some(validity) = &keys.validity {
            rows.retain(|&row| validity.get(row as usize));
        }
    }

    /// Notes the outcome of a test.
    pub fn note(&self, tested: usize, passed: usize) {
        self.tested.fetch_add(tested as u64, Ordering::Relaxed);
        self.passed.fetch_add(passed as u64, Ordering::Relaxed);
    }

    /// Rows that the filter dropped.
    pub fn dropped(&self) -> u64 {
        self.tested.load(Ordering::Relaxed) - self.passed.load(Ordering::Relaxed)
    }
}
