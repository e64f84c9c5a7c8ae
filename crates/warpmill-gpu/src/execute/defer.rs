//! Sorts below joins, deferred to the end.
//!
//! DataFusion moves a sort below a join that keeps the order of its probe side. A device keeps no order while it appends rows,
//! so where the sort keys are still there at the end, the rows are sorted there instead.

use warpmill_plan::{Expr, ExprKind, Operator, Pipeline, Program, Sink, SortKey, Source};

/// `program` with a sort that only orders the final rows moved to its end; `None` where there is none to move.
pub fn defer_sort(program: &Program) -> Option<Program> {
    let last = program.sinks.len() - 1;
    let Sink::Collect { fields: result } = &program.sinks[last] else { return None };
    let mut feeding = program.pipelines.iter().filter(|pipeline| pipeline.sink == last);
    let (pipeline, None) = (feeding.next()?, feeding.next()) else { return None };
    let Source::Rows { sink: sorted, .. } = pipeline.source else { return None };
    let Sink::Sort { keys, skip: 0, fetch: None, fields } = &program.sinks[sorted] else { return None };
    let joins = pipeline.operators.iter().any(|operator| matches!(operator, Operator::Probe(_)));
    let readers = program.pipelines.iter().filter(|other| matches!(other.source, Source::Rows { sink, .. } if sink == sorted));
    if !joins || readers.count() != 1 {
        return None;
    }
    let keys = keys.iter().map(|key| key_at_end(key, pipeline)).collect::<Option<Vec<SortKey>>>()?;
    let sinks = program.sinks.iter().enumerate().map(|(id, sink)| match sink {
        _ if id == last => Sink::Sort { keys: keys.clone(), skip: 0, fetch: None, fields: result.clone() },
        _ if id == sorted => Sink::Collect { fields: fields.clone() },
        sink => sink.clone(),
    });
    Some(Program { pipelines: program.pipelines.clone(), sinks: sinks.collect(), schema: program.schema.clone() })
}

/// The key, over the columns that reach the sink of `pipeline`.
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
