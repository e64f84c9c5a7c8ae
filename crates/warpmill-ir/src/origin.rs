//! Origins of columns: the scan columns that their values come from.

use std::collections::HashMap;

use crate::{Expr, ExprKind, Operator, Pipeline, Program, Sink, SinkId, Source};

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

/// Largest number of origins that are looked for: parts of a query that are read repeatedly multiply them.
const MOST_ORIGINS: usize = 64;

/// A step on the way to the origin of a column.
enum From {
    Scan(ScanColumn),
    /// A column of the rows that reach a sink.
    Sink(SinkId, usize),
}

/// The scan columns from which column `index` before operator `position` of pipeline `of` comes; several where several pipelines feed a sink. `None`:
/// some values come from elsewhere, or from very many scans.
pub fn origins(program: &Program, of: usize, index: usize, position: usize) -> Option<Vec<ScanColumn>> {
    let first = from(program, of, index, position)?;
    all_origins(program, first)
}

/// The origins of column `index` of the rows that reach a sink.
pub fn into_sink(program: &Program, sink: SinkId, index: usize) -> Option<Vec<ScanColumn>> {
    all_origins(program, From::Sink(sink, index))
}

fn all_origins(program: &Program, first: From) -> Option<Vec<ScanColumn>> {
    let (mut found, mut open) = (vec![], vec![first]);
    while let Some(next) = open.pop() {
        match next {
            From::Scan(column) => found.push(column),
            From::Sink(sink, index) => {
                let pipelines = program.pipelines.iter().enumerate();
                let feeds = pipelines.filter(|(_, pipeline)| pipeline.sink == sink);
                let before = open.len();
                for (of, pipeline) in feeds {
                    open.push(from(program, of, index, pipeline.operators.len())?);
                }
                open[before..].reverse();
            }
        }
        if found.len() + open.len() > MOST_ORIGINS {
            return None;
        }
    }
    (!found.is_empty()).then_some(found)
}

/// The next step from column `index` before operator `position` of pipeline `of`.
fn from(program: &Program, of: usize, mut index: usize, position: usize) -> Option<From> {
    let pipeline = &program.pipelines[of];
    for (at, operator) in pipeline.operators[..position].iter().enumerate().rev() {
        match operator {
            Operator::Filter(_) | Operator::Limit { .. } => {}
            Operator::Project(list) => index = column(&list.get(index)?.1)?,
            Operator::Probe(probe) => {
                let (from, width) = (*probe.output.get(index)?, width(pipeline, at));
                if from >= width {
                    return of_build(program, probe.build, from - width);
                }
                index = from;
            }
        }
    }
    match &pipeline.source {
        Source::Scan(_) => Some(From::Scan((of, index))),
        Source::Rows { sink, .. } => of_rows(program, *sink, index),
        Source::Build { sink, .. } => of_build(program, *sink, index),
        Source::Input { .. } | Source::Values { .. } => None,
    }
}

/// Payload column `index` of a hash build.
fn of_build(program: &Program, sink: SinkId, index: usize) -> Option<From> {
    let Sink::HashBuild { payload, .. } = &program.sinks[sink] else { return None };
    Some(From::Sink(sink, *payload.get(index)?))
}

/// Column `index` of the rows of a finished sink.
fn of_rows(program: &Program, sink: SinkId, index: usize) -> Option<From> {
    let index = match &program.sinks[sink] {
        Sink::Aggregate { groups, .. } | Sink::Functions { groups, .. } => column(groups.get(index)?)?,
        Sink::Sort { .. } | Sink::Collect { .. } => index,
        Sink::Window { payload, .. } => *payload.get(index)?,
        Sink::HashBuild { .. } => return None,
    };
    Some(From::Sink(sink, index))
}

/// Equivalence classes of scan columns that joins compare, each with a representative.
#[derive(Debug, Default)]
pub struct Classes {
    parents: HashMap<ScanColumn, ScanColumn>,
}

impl Classes {
    /// The representative of the class of `of`.
    pub fn find(&self, mut of: ScanColumn) -> ScanColumn {
        while let Some(&parent) = self.parents.get(&of) {
            of = parent;
        }
        of
    }

    /// Makes the classes of two columns one.
    pub fn join(&mut self, one: ScanColumn, other: ScanColumn) {
        let (one, other) = (self.find(one), self.find(other));
        if one != other {
            self.parents.insert(one, other);
        }
    }

    /// The scan columns of the class of `of`, one for each scan that has any: scans with their columns.
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
