//! Inputs that need not be read, because tables without rows drop all of their rows. Reading an input may never end.

use warpmill_ir::{JoinKind, Operator, Pipeline, Program, Sink, SinkId, Source};

/// The inputs of `program` that need not be read: each of their rows meets an inner or a semi join with an empty build.
pub(crate) fn unread_inputs(program: &Program) -> Vec<usize> {
    // For each sink, whether an earlier pipeline may give it rows.
    let mut filled = vec![false; program.sinks.len()];
    let mut unread = vec![];
    for pipeline in &program.pipelines {
        let barren = is_barren(pipeline, &|sink| !filled[sink]);
        match &pipeline.source {
            Source::Input { input, .. } if barren => unread.push(*input),
            _ => {}
        }
        filled[pipeline.sink] |= !barren || gives_without_rows(&program.sinks[pipeline.sink]);
    }
    unread
}

/// Whether no row reaches the sink of `pipeline`, and no match flags depend on its rows.
fn is_barren(pipeline: &Pipeline, is_empty: &dyn Fn(SinkId) -> bool) -> bool {
    let without_rows = match &pipeline.source {
        Source::Scan(scan) => scan.table.num_rows() == 0,
        Source::Rows { sink, .. } => is_empty(*sink),
        Source::Values { rows, .. } => rows.is_empty(),
        Source::Build { .. } | Source::Input { .. } => false,
    };
    if without_rows {
        return true;
    }
    for operator in &pipeline.operators {
        let Operator::Probe(probe) = operator else { continue };
        match probe.kind {
            JoinKind::BuildOuter | JoinKind::Full | JoinKind::BuildOnly => return false,
            JoinKind::Inner | JoinKind::ProbeSemi if is_empty(probe.build) => return true,
            _ => {}
        }
    }
    false
}

/// Whether a sink returns rows although it received none.
fn gives_without_rows(sink: &Sink) -> bool {
    matches!(sink, Sink::Aggregate { groups, .. } if groups.is_empty()) || matches!(sink, Sink::Functions { .. })
}
