//! The graph of a program: the sinks that pipelines feed, read and probe.

use std::collections::{BTreeSet, HashMap};

use crate::expr::Expr;
use crate::program::{AggregateExpr, JoinKind, Operator, Pipeline, Probe, Program, Sink, SinkId, Source};

/// The probes of a pipeline, with their positions among its operators.
pub fn probes(pipeline: &Pipeline) -> impl Iterator<Item = (usize, &Probe)> {
    pipeline.operators.iter().enumerate().filter_map(|(position, operator)| match operator {
        Operator::Probe(probe) => Some((position, probe)),
        _ => None,
    })
}

/// Whether a probe sets the build's match flags.
pub fn sets_flags(probe: &Probe) -> bool {
    matches!(probe.kind, JoinKind::BuildOuter | JoinKind::Full | JoinKind::BuildOnly)
}

/// Whether a pipeline has a limit.
pub fn has_limit(pipeline: &Pipeline) -> bool {
    pipeline.operators.iter().any(|operator| matches!(operator, Operator::Limit { .. }))
}

/// The expressions of a pipeline and of its sink.
pub fn expressions<'a>(program: &'a Program, pipeline: &'a Pipeline) -> Vec<&'a Expr> {
    let mut all: Vec<&Expr> = match &pipeline.source {
        Source::Scan(scan) => scan.filters.iter().collect(),
        _ => vec![],
    };
    for operator in &pipeline.operators {
        match operator {
            Operator::Filter(predicate) => all.push(predicate),
            Operator::Project(list) => all.extend(list.iter().map(|(_, expr)| expr)),
            Operator::Probe(probe) => all.extend(probe.expressions()),
            Operator::Limit { .. } => {}
        }
    }
    match &program.sinks[pipeline.sink] {
        Sink::HashBuild { keys, order, .. } => all.extend(keys.iter().chain(order)),
        Sink::Aggregate { groups, aggregates, .. } => {
            all.extend(groups);
            all.extend(aggregates.iter().flat_map(AggregateExpr::expressions));
        }
        Sink::Functions { groups, calls, .. } => {
            all.extend(groups);
            all.extend(calls.iter().flat_map(|call| &call.arguments));
        }
        Sink::Sort { keys, .. } => all.extend(keys.iter().map(|key| &key.expr)),
        Sink::Window { partition, order, calls, .. } => {
            all.extend(partition);
            all.extend(order.iter().map(|key| &key.expr));
            all.extend(calls.iter().filter_map(|call| call.argument.as_ref()));
        }
        Sink::Collect { .. } => {}
    }
    all
}

/// The sink whose rows a pipeline reads.
pub fn read(pipeline: &Pipeline) -> Option<SinkId> {
    match &pipeline.source {
        Source::Rows { sink, .. } | Source::Build { sink, .. } => Some(*sink),
        _ => None,
    }
}

/// The sinks that a pipeline reads and probes.
pub fn used(pipeline: &Pipeline) -> impl Iterator<Item = SinkId> {
    read(pipeline).into_iter().chain(probes(pipeline).map(|(_, probe)| probe.build))
}

/// Renumbers the sinks that a pipeline uses; drops prunes by sinks without a new number.
pub fn renumber(pipeline: &mut Pipeline, numbers: &HashMap<SinkId, SinkId>) {
    match &mut pipeline.source {
        Source::Rows { sink, .. } | Source::Build { sink, .. } => *sink = numbers[sink],
        Source::Scan(scan) => {
            scan.prune.retain(|prune| numbers.contains_key(&prune.build));
            scan.prune.iter_mut().for_each(|prune| prune.build = numbers[&prune.build]);
        }
        Source::Input { .. } | Source::Values { .. } => {}
    }
    for operator in &mut pipeline.operators {
        if let Operator::Probe(probe) = operator {
            probe.build = numbers[&probe.build];
        }
    }
}

/// The pipelines, and the sinks that they feed, that have to run before pipeline `index`, in order.
pub fn below(program: &Program, index: usize) -> (BTreeSet<usize>, BTreeSet<SinkId>) {
    let (mut pipelines, mut sinks) = (BTreeSet::new(), BTreeSet::new());
    let mut pending: Vec<SinkId> = used(&program.pipelines[index]).collect();
    while let Some(sink) = pending.pop() {
        if !sinks.insert(sink) {
            continue;
        }
        for (other, pipeline) in program.pipelines.iter().enumerate() {
            // Readers of a build may need its match flags.
            let flags = probes(pipeline).any(|(_, probe)| probe.build == sink && sets_flags(probe));
            if other != index && (pipeline.sink == sink || flags) && pipelines.insert(other) {
                pending.extend(used(pipeline));
                pending.push(pipeline.sink);
            }
        }
    }
    (pipelines, sinks)
}
