//! The numbers of rows and groups to expect: for sizes and for the order of tests, never for correctness.

use warpmill_ir::{Expr, ExprKind, JoinKind, Operator, Pipeline, Program, Scan, Sink, SinkId, Source};

use super::scan_shape::PackedTest;

/// The share of rows that pass a condition of which nothing is known.
pub const UNKNOWN: f64 = 0.4;

/// The share of groups that pass a condition on groups: it is there to pick a few.
const HAVING: f64 = 0.05;

/// Rows that are expected to reach the end of `pipeline`, where the filters of its scan let so large a part of the rows pass. `sinks` are the rows
/// of the sinks before it, `fraction` what part of its source's rows a hash build holds.
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

/// The part of a table's rows that a test of column `column` of its scan lets pass.
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

/// The column of the source that `key`, over the columns at the end of `pipeline`, is.
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
                if from >= width_before(pipeline, position) {
                    return None;
                }
                column = from;
            }
        }
    }
    Some(column)
}

/// Columns that reach operator `position` of `pipeline`.
pub fn width_before(pipeline: &Pipeline, position: usize) -> usize {
    let before = Pipeline { operators: pipeline.operators[..position].to_vec(), ..pipeline.clone() };
    before.fields().len()
}

/// The number of groups to expect of `groups` at the end of `pipeline`; `None` where a key's number of values is not known.
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
