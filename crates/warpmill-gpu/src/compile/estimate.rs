//! Estimates of numbers of rows and groups. They affect sizes and the order of tests, never correctness.

use warpmill_ir::origin::width;
use warpmill_ir::{Expr, ExprKind, JoinKind, Operator, Pipeline, Program, Scan, Sink, SinkId, Source};

use super::scan_shape::PackedTest;

/// Selectivity of a condition without statistics.
pub const UNKNOWN: f64 = 0.4;

/// Selectivity of a condition on groups: HAVING usually selects a few.
const HAVING: f64 = 0.05;

/// Estimated rows at the end of `pipeline`, whose scan filters have selectivity `selectivity`. `sinks` has the rows of earlier sinks; `fraction`
/// returns the fraction of its source's rows that a hash build holds.
pub fn rows(
    pipeline: &Pipeline,
    selectivity: f64,
    inputs: &[u64],
    sinks: &[f64],
    fraction: impl Fn(SinkId) -> f64,
) -> f64 {
    let mut rows = match &pipeline.source {
        Source::Scan(scan) => scan.table.num_rows() as f64 * selectivity,
        Source::Rows { sink, .. } | Source::Build { sink, .. } => sinks[*sink],
        Source::Input { input, .. } => inputs.get(*input).copied().unwrap_or(0) as f64,
        Source::Values { rows, .. } => rows.len() as f64,
    };
    for operator in &pipeline.operators {
        rows *= match operator {
            Operator::Filter(_) if matches!(pipeline.source, Source::Rows { .. }) => HAVING,
            Operator::Filter(_) => UNKNOWN,
            Operator::Project(_) | Operator::Limit { .. } => 1.0,
            Operator::Probe(probe) => match probe.kind {
                JoinKind::Inner | JoinKind::BuildOuter | JoinKind::ProbeSemi => {
                    fraction(probe.build) * if probe.residual.is_some() { UNKNOWN } else { 1.0 }
                }
                JoinKind::ProbeAnti => 1.0 - 0.5 * fraction(probe.build),
                JoinKind::ProbeOuter | JoinKind::ProbeMark | JoinKind::Full => 1.0,
                JoinKind::BuildOnly => 0.0,
            },
        };
    }
    rows
}

/// Selectivity of a test on column `column` of a scan.
pub fn packed_fraction(scan: &Scan, column: usize, test: &PackedTest) -> f64 {
    match test {
        PackedTest::Codes(set) => set.count_ones() as f64 / set.len().max(1) as f64,
        PackedTest::Range(lo, hi) => {
            let stats = scan.table.column_stats(scan.columns[column]);
            let codes = scan.fields[column].ty.dictionary.as_ref().map(|d| (0, d.len() as i128 - 1));
            let Some((min, max)) = codes.or_else(|| stats.int_range()) else { return UNKNOWN };
            let passed = i128::from(*hi).min(max) - i128::from(*lo).max(min) + 1;
            (passed.max(0) as f64 / (max - min + 1).max(1) as f64).clamp(0.0, 1.0)
        }
    }
}

/// The column of the source that equals `key`, an expression over the columns at the end of `pipeline`.
pub fn source_column(pipeline: &Pipeline, key: &Expr) -> Option<usize> {
    let ExprKind::Column(mut column) = key.kind else { return None };
    for (position, operator) in pipeline.operators.iter().enumerate().rev() {
        match operator {
            Operator::Filter(_) | Operator::Limit { .. } => {}
            Operator::Project(list) => match list[column].1.kind {
                ExprKind::Column(from) => column = from,
                _ => return None,
            },
            Operator::Probe(probe) => {
                let from = probe.output[column];
                if from >= width(pipeline, position) {
                    return None;
                }
                column = from;
            }
        }
    }
    Some(column)
}

/// Estimated number of groups by keys `groups` at the end of `pipeline`; `None` if a key's number of values is unknown.
pub fn groups(program: &Program, pipeline: &Pipeline, groups: &[Expr]) -> Option<f64> {
    let values = |key: &Expr| {
        let range = match (&key.ty.dictionary, key.ty.range) {
            (Some(dictionary), _) => Some(dictionary.len() as f64),
            (None, Some((lo, hi))) => Some(hi as f64 - lo as f64 + 1.0),
            _ => None,
        };
        let distinct = source_column(pipeline, key).and_then(|column| match &pipeline.source {
            Source::Scan(scan) => {
                scan.table.column_stats(scan.columns[column]).distinct.map(|distinct| distinct as f64)
            }
            Source::Rows { sink, .. } if matches!(program.sinks[*sink], Sink::Aggregate { .. }) => None,
            _ => None,
        });
        match (range, distinct) {
            (Some(range), Some(distinct)) => Some(range.min(distinct) + 1.0),
            (range, distinct) => range.or(distinct).map(|values| values + 1.0),
        }
    };
    groups.iter().map(values).product()
}
