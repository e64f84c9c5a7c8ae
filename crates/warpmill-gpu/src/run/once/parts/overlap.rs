//! Parts of different sinks that may have rows in common.
//!
//! A pipeline that uses several sinks in parts is run for combinations of their parts. If sinks have the same column of its source as their key, a
//! row belongs to one part of each: the part with its value. Of such sinks only parts with common values are combined; their number is about the sum,
//! not the product, of the numbers of parts.

use warpmill_ir::origin::width;
use warpmill_ir::{Expr, ExprKind, JoinKind, Operator, Pipeline, Probe, Program, Sink, SinkId, Source};

use super::state::Parts;
use crate::compile::keys::KeyShape;
use crate::compile::layout::SinkLayout;
use crate::compile::ranges::Range;

/// The key values whose rows belong to a part, or probe it.
struct Values {
    /// Half-open range of values.
    part: [i128; 2],
    /// Half-open range of all parts together.
    all: [i128; 2],
    /// Whether the part includes values outside of all ranges.
    rest: bool,
    /// Whether the part includes NULL.
    null: bool,
}

impl Values {
    /// The values of part `range` of a sink with layout `layout`; `None` if parts are not ranges of a single column.
    fn of(layout: &SinkLayout, range: Range) -> Option<Self> {
        let keys = match layout {
            SinkLayout::Build(build) => &build.keys,
            SinkLayout::Groups(groups) => &groups.keys,
            SinkLayout::Rows(_) => return None,
        };
        let KeyShape::Packed { parts, cells } = keys else { return None };
        let [key] = parts[..] else { return None };
        let (from, to) = (range.from, range.from + range.size);
        // NULL has the last slot, or, if the key has no slot for it, belongs to the first part.
        let null = if key.null_slot { to == *cells } else { from == 0 };
        let at = |value: u64| key.min + i128::from(value.min(cells - u64::from(key.null_slot)));
        Some(Self { part: [at(from), at(to)], all: [key.min, at(*cells)], rest: from == 0, null })
    }

    /// Whether some value may be in both.
    fn meet(&self, other: &Self) -> bool {
        let within = |part: [i128; 2], all: [i128; 2]| part[0] >= all[0] && part[1] <= all[1];
        self.rest && other.rest
            || self.null && other.null
            || self.part[0] < other.part[1] && other.part[0] < self.part[1]
            || self.rest && !within(other.part, self.all)
            || other.rest && !within(self.part, other.all)
    }
}

impl Parts<'_, '_> {
    /// Whether a row of pipeline `number` may be in all `chosen` parts, and in the part of its own sink that is being built.
    pub(super) fn may_meet(&self, number: usize, chosen: &[(SinkId, usize)]) -> bool {
        let pipeline = &self.structure.program.pipelines[number];
        let parts = chosen.iter().map(|&(id, part)| (id, self.divided[&id].ranges[part]));
        // The own sink's part may restrict the pipeline only if no other sink needs the skipped rows.
        let pure = !self.structure.sets_flags(number) && !self.structure.asks_for_nulls(pipeline.sink);
        let own = self.divided.get(&pipeline.sink).filter(|_| pure).and_then(|divided| divided.making);
        let parts: Vec<(SinkId, Range)> = parts.chain(own.map(|range| (pipeline.sink, range))).collect();
        if parts.len() < 2 {
            return true;
        }
        let values = |&(id, column): &(SinkId, usize)| {
            let (_, range) = *parts.iter().find(|(other, _)| *other == id)?;
            Some((column, Values::of(&self.structure.layouts[id], range)?))
        };
        let known: Vec<(usize, Values)> = self.keys[number].iter().filter_map(values).collect();
        let meet = |(index, (column, values)): (usize, &(usize, Values))| {
            known[index + 1..].iter().all(|(other, others)| other != column || values.meet(others))
        };
        known.iter().enumerate().all(meet)
    }
}

/// The sinks that the pipeline reads, probes or feeds and whose only key is a column of its source, with that column.
pub(super) fn keys(program: &Program, pipeline: &Pipeline) -> Vec<(SinkId, usize)> {
    let mut found = vec![];
    // Rows read from a part have its key values.
    if let Source::Build { sink, .. } = &pipeline.source
        && let Sink::HashBuild { keys, payload, .. } = &program.sinks[*sink]
        && let [key] = &keys[..]
        && let Some(column) = payload.iter().position(|&kept| column_of(key) == Some(kept))
    {
        found.push((*sink, column));
    }
    let mut add = |id: SinkId, keys: &[Expr], end: usize| {
        if let [key] = keys
            && let Some(column) = column_of(key)
            && let Some(column) = source_column(program, pipeline, end, column)
        {
            found.push((id, column));
        }
    };
    for (at, operator) in pipeline.operators.iter().enumerate() {
        if let Operator::Probe(probe) = operator {
            add(probe.build, &probe.keys, at);
        }
    }
    match &program.sinks[pipeline.sink] {
        Sink::HashBuild { keys, .. } => add(pipeline.sink, keys, pipeline.operators.len()),
        Sink::Aggregate { groups, .. } => add(pipeline.sink, groups, pipeline.operators.len()),
        _ => {}
    }
    found
}

/// The column of the pipeline's source that equals column `column` before operator `end`.
fn source_column(program: &Program, pipeline: &Pipeline, end: usize, mut column: usize) -> Option<usize> {
    for at in (0..end).rev() {
        match &pipeline.operators[at] {
            Operator::Filter(_) | Operator::Limit { .. } => {}
            Operator::Project(list) => column = column_of(&list[column].1)?,
            Operator::Probe(probe) => {
                let (from, inputs) = (probe.output[column], width(pipeline, at));
                column = if from < inputs { from } else { partner(program, probe, from - inputs)? };
            }
        }
    }
    Some(column)
}

/// The probe-side column that `probe` compares with column `payload` of its build, if it is a key of an inner pair.
fn partner(program: &Program, probe: &Probe, payload: usize) -> Option<usize> {
    let Sink::HashBuild { keys, payload: kept, .. } = &program.sinks[probe.build] else { return None };
    if !matches!(probe.kind, JoinKind::Inner | JoinKind::BuildOuter) {
        return None;
    }
    let kept = *kept.get(payload)?;
    let number = keys.iter().position(|key| column_of(key) == Some(kept))?;
    column_of(&probe.keys[number])
}

/// The column that a key expression is, possibly widened.
fn column_of(expr: &Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Column(column) => Some(*column),
        ExprKind::Widen(input) if input.ty.phys.is_int() => column_of(input),
        _ => None,
    }
}
