//! Filters on other tables in which a scan's rows need a partner.

use super::SidewaysFilter;
use crate::{Expr, ExprKind, Operator, Pipeline, Program, Scan, Sink, SinkId, Source};

/// Finds the sideways filters of every scan in `program` that has metadata of other tables.
///
/// A scan's [`PruneKey`](crate::PruneKey) says that rows without a partner in a hash build make no difference. If the build's key is a column of
/// another scan, the build contains only rows that satisfy that scan's filters.
pub fn attach(program: &mut Program) {
    let mut found = vec![];
    for (index, pipeline) in program.pipelines.iter().enumerate() {
        let Source::Scan(scan) = &pipeline.source else { continue };
        for prune in &scan.prune {
            let own = scan.columns[prune.column];
            if !scan.table.zone_maps().iter().any(|map| map.has_attributes(own)) {
                continue;
            }
            let Some((other, key)) = build_key(program, prune.build, prune.key) else { continue };
            if !other.filters.is_empty() {
                let filter = SidewaysFilter {
                    column: prune.column,
                    table: other.table.clone(),
                    key: other.columns[key],
                    columns: other.columns.clone(),
                    filters: other.filters.clone(),
                };
                found.push((index, filter));
            }
        }
    }
    for (index, filter) in found {
        if let Source::Scan(scan) = &mut program.pipelines[index].source {
            scan.sideways.push(filter);
        }
    }
}

/// The only pipeline that feeds `sink`.
fn feeder(program: &Program, sink: SinkId) -> Option<&Pipeline> {
    let mut feeders = program.pipelines.iter().filter(|pipeline| pipeline.sink == sink);
    feeders.next().filter(|_| feeders.next().is_none())
}

/// The scan, and its output column, from which key `key` of a hash build comes.
fn build_key(program: &Program, build: SinkId, key: usize) -> Option<(&Scan, usize)> {
    let Sink::HashBuild { keys, null_equals_null: false, .. } = &program.sinks[build] else { return None };
    let pipeline = feeder(program, build)?;
    origin(program, pipeline, pipeline.operators.len(), column_of(&keys[key])?)
}

fn column_of(expr: &Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Column(column) => Some(*column),
        ExprKind::Widen(input) if input.ty.phys.is_int() => column_of(input),
        _ => None,
    }
}

/// The scan, and its output column, from which column `column` before operator `end` of a pipeline comes (or is NULL).
fn origin<'a>(program: &'a Program, pipeline: &'a Pipeline, end: usize, column: usize) -> Option<(&'a Scan, usize)> {
    let mut column = column;
    for at in (0..end).rev() {
        match &pipeline.operators[at] {
            Operator::Filter(_) | Operator::Limit { .. } => {}
            Operator::Project(list) => column = column_of(&list[column].1)?,
            Operator::Probe(probe) => {
                let inputs = width(pipeline, at);
                column = probe.output[column];
                if column >= inputs {
                    return payload(program, probe.build, column - inputs);
                }
            }
        }
    }
    match &pipeline.source {
        Source::Scan(scan) => Some((scan, column)),
        Source::Build { sink, .. } => payload(program, *sink, column),
        Source::Rows { .. } | Source::Input { .. } | Source::Values { .. } => None,
    }
}

/// As [`origin`], of a column of a hash build's payload.
fn payload(program: &Program, build: SinkId, column: usize) -> Option<(&Scan, usize)> {
    let Sink::HashBuild { payload, .. } = &program.sinks[build] else { return None };
    let pipeline = feeder(program, build)?;
    origin(program, pipeline, pipeline.operators.len(), *payload.get(column)?)
}

/// Number of columns before operator `position`.
fn width(pipeline: &Pipeline, position: usize) -> usize {
    let mut width = pipeline.source.fields().len();
    for operator in &pipeline.operators[..position] {
        match operator {
            Operator::Project(list) => width = list.len(),
            Operator::Probe(probe) => width = probe.fields.len(),
            Operator::Filter(_) | Operator::Limit { .. } => {}
        }
    }
    width
}
