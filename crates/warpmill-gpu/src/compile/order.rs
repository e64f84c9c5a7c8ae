//! The sorts that the device does, and the readers that keep their order.
//!
//! A device appends rows in any order. Rows that it has sorted are stored in order, and a pipeline that neither drops nor joins rows keeps their
//! ranks; after other operators the order is lost.

use warpmill_ir::{Operator, Pipeline, Program, Sink, SinkId, Source};

use super::layout::SinkLayout;

/// Whether only one pipeline feeds sink `id`.
pub fn feeds_alone(program: &Program, id: SinkId) -> bool {
    program.pipelines.iter().filter(|pipeline| pipeline.sink == id).count() == 1
}

/// Whether the device can process the rows of sort `id` in order.
pub fn device_reads(program: &Program, id: SinkId) -> bool {
    readers(program, id).all(|pipeline| {
        let mut ordered = true;
        let possible = pipeline.operators.iter().all(|operator| match operator {
            Operator::Project(_) => true,
            Operator::Limit { .. } => ordered,
            Operator::Filter(_) | Operator::Probe(_) => {
                ordered = false;
                true
            }
        });
        let last = pipeline.sink + 1 == program.sinks.len();
        let shows = last && matches!(program.sinks[pipeline.sink], Sink::Collect { .. });
        // Rows of a window stay in order of arrival.
        let windows = ordered && is_window(program, pipeline.sink) && feeds_alone(program, pipeline.sink);
        possible
            && (ordered || !(shows && feeds_alone(program, pipeline.sink)))
            && (!windows || device_reads(program, pipeline.sink))
    })
}

fn is_window(program: &Program, id: SinkId) -> bool {
    matches!(program.sinks[id], Sink::Window { .. })
}

/// Whether a pipeline reads rows whose order matters: rows that the device has sorted, or rows of a window over such rows.
pub fn reads_sorted(program: &Program, layouts: &[SinkLayout], pipeline: &Pipeline) -> bool {
    let Source::Rows { sink, .. } = &pipeline.source else { return false };
    let SinkLayout::Rows(rows) = &layouts[*sink] else { return false };
    let keeps = |operator: &Operator| matches!(operator, Operator::Project(_) | Operator::Limit { .. });
    let ordered = |feeding: &Pipeline| feeding.operators.iter().all(keeps) && reads_sorted(program, layouts, feeding);
    let mut feeding = program.pipelines.iter().filter(|pipeline| pipeline.sink == *sink);
    rows.sorted.is_some() || is_window(program, *sink) && feeds_alone(program, *sink) && feeding.all(ordered)
}

/// Whether the host can process the rows of sort `id`: it does not join them.
pub fn host_reads(program: &Program, id: SinkId) -> bool {
    let mut on_host = vec![false; program.sinks.len()];
    on_host[id] = true;
    for pipeline in &program.pipelines {
        let reads = match &pipeline.source {
            Source::Rows { sink, .. } | Source::Build { sink, .. } => on_host[*sink],
            _ => false,
        };
        for operator in &pipeline.operators {
            if matches!(operator, Operator::Probe(probe) if reads || on_host[probe.build]) {
                return false;
            }
        }
        // Group functions run on the device only.
        if reads && matches!(program.sinks[pipeline.sink], Sink::Functions { .. }) {
            return false;
        }
        on_host[pipeline.sink] |= reads;
    }
    true
}

/// The pipelines that read the rows of sink `id`.
fn readers(program: &Program, id: SinkId) -> impl Iterator<Item = &Pipeline> {
    let reads = move |pipeline: &&Pipeline| matches!(pipeline.source, Source::Rows { sink, .. } if sink == id);
    program.pipelines.iter().filter(reads)
}
