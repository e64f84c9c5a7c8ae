//! Classes of equal columns: the scan columns from which join keys come.

use std::collections::HashMap;

use warpmill_ir::{Expr, ExprKind, Operator, Pipeline, Program, Sink, SinkId, Source};

/// A column of a scan: the pipeline, and the output column of its scan.
pub type ScanColumn = (usize, usize);

/// The column of an expression, ignoring widening.
pub fn column(expr: &Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Column(index) => Some(*index),
        ExprKind::Widen(input) if input.ty.phys.is_int() && expr.ty.phys.is_int() => column(input),
        _ => None,
    }
}

/// The number of columns before operator `position` of a pipeline.
pub fn width(pipeline: &Pipeline, position: usize) -> usize {
    let last = pipeline.operators[..position].iter().rev().find_map(|operator| match operator {
        Operator::Project(list) => Some(list.len()),
        Operator::Probe(probe) => Some(probe.fields.len()),
        Operator::Filter(_) | Operator::Limit { .. } => None,
    });
    last.unwrap_or_else(|| pipeline.source.fields().len())
}

/// Equivalence classes of scan columns that joins compare, each with a representative.
#[derive(Default)]
pub struct Classes {
    parents: HashMap<ScanColumn, ScanColumn>,
}

impl Classes {
    /// Makes the classes of the scan columns that the joins of a program compare.
    pub fn new(program: &Program) -> Self {
        let mut classes = Self::default();
        for (index, pipeline) in program.pipelines.iter().enumerate() {
            for (position, probe) in warpmill_ir::graph::probes(pipeline) {
                // ASOF joins are not partitioned.
                if probe.asof.is_some() {
                    continue;
                }
                let Sink::HashBuild { keys, .. } = &program.sinks[probe.build] else { continue };
                for (own, built) in probe.keys.iter().zip(keys) {
                    let own = column(own).and_then(|own| origin(program, index, own, position));
                    let built = column(built).and_then(|built| into_sink(program, probe.build, built));
                    if let (Some(own), Some(built)) = (own, built) {
                        classes.join(own, built);
                    }
                }
            }
        }
        classes
    }

    /// The representative of the class of `of`.
    pub fn find(&self, mut of: ScanColumn) -> ScanColumn {
        while let Some(&parent) = self.parents.get(&of) {
            of = parent;
        }
        of
    }

    fn join(&mut self, one: ScanColumn, other: ScanColumn) {
        let (one, other) = (self.find(one), self.find(other));
        if one != other {
            self.parents.insert(one, other);
        }
    }

    /// The scan columns of the class of `of`, one for each pipeline that has any.
    pub fn members(&self, of: ScanColumn) -> HashMap<usize, usize> {
        let class = self.find(of);
        let all = self.parents.keys().chain(self.parents.values()).filter(|&&member| self.find(member) == class);
        let mut members: Vec<ScanColumn> = all.copied().chain([of]).collect();
        members.sort_unstable();
        let mut members: HashMap<usize, usize> = members.into_iter().rev().collect();
        members.insert(of.0, of.1);
        members
    }
}

/// The scan column from which column `index` before operator `position` of pipeline `of` comes.
pub fn origin(program: &Program, of: usize, mut index: usize, position: usize) -> Option<ScanColumn> {
    let pipeline = &program.pipelines[of];
    for (at, operator) in pipeline.operators[..position].iter().enumerate().rev() {
        match operator {
            Operator::Filter(_) | Operator::Limit { .. } => {}
            Operator::Project(list) => index = column(&list.get(index)?.1)?,
            Operator::Probe(probe) => {
                let (from, width) = (*probe.output.get(index)?, width(pipeline, at));
                if from >= width {
                    let Sink::HashBuild { payload, .. } = &program.sinks[probe.build] else { return None };
                    return into_sink(program, probe.build, *payload.get(from - width)?);
                }
                index = from;
            }
        }
    }
    match &pipeline.source {
        Source::Scan(_) => Some((of, index)),
        Source::Rows { sink, .. } => of_rows(program, *sink, index),
        Source::Build { sink, .. } => {
            let Sink::HashBuild { payload, .. } = &program.sinks[*sink] else { return None };
            into_sink(program, *sink, *payload.get(index)?)
        }
        Source::Input { .. } | Source::Values { .. } => None,
    }
}

/// The origin of column `index` of the rows that reach a sink.
fn into_sink(program: &Program, sink: SinkId, index: usize) -> Option<ScanColumn> {
    let (of, pipeline) = program.pipelines.iter().enumerate().find(|(_, pipeline)| pipeline.sink == sink)?;
    origin(program, of, index, pipeline.operators.len())
}

/// The origin of column `index` of the rows of a finished sink.
fn of_rows(program: &Program, sink: SinkId, index: usize) -> Option<ScanColumn> {
    match &program.sinks[sink] {
        Sink::Aggregate { groups, .. } | Sink::Functions { groups, .. } => {
            into_sink(program, sink, column(groups.get(index)?)?)
        }
        Sink::Sort { .. } | Sink::Collect { .. } => into_sink(program, sink, index),
        Sink::Window { payload, .. } => into_sink(program, sink, *payload.get(index)?),
        Sink::HashBuild { .. } => None,
    }
}
