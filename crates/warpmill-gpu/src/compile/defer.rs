//! Removal and deferral of sorts.
//!
//! DataFusion moves a sort below a join that keeps the order of its probe side. A device does not keep an order while it appends rows. If the sort
//! keys are still available at the end, the rows are sorted there instead; if later operators do not need an order, they are not sorted.

use warpmill_ir::{Expr, ExprKind, Operator, Pipeline, Program, Sink, SinkId, SortKey, Source};

/// `program` with intermediate sorts removed or deferred; `None` if there are none.
pub fn defer_sorts(program: &Program) -> Option<Program> {
    let mut changed = drop_useless(program);
    if let Some(moved) = move_to_end(changed.as_ref().unwrap_or(program)) {
        changed = Some(moved);
    }
    changed
}

/// The pipelines that read `sink`.
fn readers(program: &Program, sink: SinkId) -> Vec<&Pipeline> {
    let reads = |pipeline: &&Pipeline| matches!(pipeline.source, Source::Rows { sink: read, .. } if read == sink);
    program.pipelines.iter().filter(reads).collect()
}

fn joins(pipeline: &Pipeline) -> bool {
    pipeline.operators.iter().any(|operator| matches!(operator, Operator::Probe(_)))
}

/// Turns sorts into plain rows if all readers join and end in a sink without an order.
fn drop_useless(program: &Program) -> Option<Program> {
    let useless = |id: SinkId, sink: &Sink| {
        let readers = readers(program, id);
        let unordered = |pipeline: &&Pipeline| {
            let limits = pipeline.operators.iter().any(|operator| matches!(operator, Operator::Limit { .. }));
            joins(pipeline) && !limits && !matches!(program.sinks[pipeline.sink], Sink::Collect { .. })
        };
        matches!(sink, Sink::Sort { skip: 0, fetch: None, .. }) && !readers.is_empty() && readers.iter().all(unordered)
    };
    let sinks: Vec<(bool, &Sink)> =
        program.sinks.iter().enumerate().map(|(id, sink)| (useless(id, sink), sink)).collect();
    sinks.iter().any(|(useless, _)| *useless).then(|| {
        let plain = |(useless, sink): (bool, &Sink)| match useless {
            true => Sink::Collect { fields: sink.fields().to_vec() },
            false => sink.clone(),
        };
        let sinks = sinks.into_iter().map(plain).collect();
        Program::new(program.pipelines.clone(), sinks, program.schema.clone())
    })
}

/// Defers a sort that only orders the final rows to the end.
fn move_to_end(program: &Program) -> Option<Program> {
    let last = program.sinks.len() - 1;
    let Sink::Collect { fields: result } = &program.sinks[last] else { return None };
    let mut feeding = program.pipelines.iter().filter(|pipeline| pipeline.sink == last);
    let (pipeline, None) = (feeding.next()?, feeding.next()) else { return None };
    let Source::Rows { sink: sorted, .. } = pipeline.source else { return None };
    let Sink::Sort { keys, skip: 0, fetch: None, fields } = &program.sinks[sorted] else { return None };
    if !joins(pipeline) || readers(program, sorted).len() != 1 {
        return None;
    }
    let keys = keys.iter().map(|key| key_at_end(key, pipeline)).collect::<Option<Vec<SortKey>>>()?;
    let sinks = program.sinks.iter().enumerate().map(|(id, sink)| match sink {
        _ if id == last => Sink::Sort { keys: keys.clone(), skip: 0, fetch: None, fields: result.clone() },
        _ if id == sorted => Sink::Collect { fields: fields.clone() },
        sink => sink.clone(),
    });
    Some(Program::new(program.pipelines.clone(), sinks.collect(), program.schema.clone()))
}

/// The sort key in terms of the columns at the end of `pipeline`.
fn key_at_end(key: &SortKey, pipeline: &Pipeline) -> Option<SortKey> {
    let ExprKind::Column(mut column) = key.expr.kind else { return None };
    for operator in &pipeline.operators {
        column = match operator {
            Operator::Filter(_) => column,
            Operator::Limit { .. } => return None,
            Operator::Project(list) => {
                list.iter().position(|(_, expr)| matches!(expr.kind, ExprKind::Column(from) if from == column))?
            }
            Operator::Probe(probe) => probe.output.iter().position(|&from| from == column)?,
        };
    }
    Some(SortKey { expr: Expr::column(column, key.expr.ty.clone()), ..key.clone() })
}
