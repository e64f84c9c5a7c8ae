//! Removal of pipelines that repeat earlier ones, as for a common table expression that is used several times.
//!
//! Sinks are compared in the order in which they finish: two are equal if equal pipelines feed them, where references to equal sinks are equal.
//! Readers of a sink's rows then read the first sink that equals it. Probes are not redirected to an equal hash build: a build is removed where the
//! pipelines that probe it are.
//!
//! The second sink's scans may be pruned by more builds than the first one's: the rows missing there make no difference.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use warpmill_format::TableSnapshot;

use crate::graph::{below, renumber, sets_flags};
use crate::program::{Field, Operator, Pipeline, Probe, Program, PruneKey, Scan, Sink, SinkId, Source};

/// Number of pipelines from which on nothing is compared: each sink is compared with all before it.
const MOST_PIPELINES: usize = 1024;

/// Merges sinks with equal rows, and removes pipelines that are unused afterwards.
pub fn merge_equal_sinks(program: &mut Program) {
    if program.pipelines.len() > MOST_PIPELINES {
        return;
    }
    let firsts = Classes::of(program).firsts;
    if firsts.iter().enumerate().all(|(sink, &first)| sink == first) {
        return;
    }
    for pipeline in &mut program.pipelines {
        if let Source::Rows { sink, .. } = &mut pipeline.source {
            *sink = firsts[*sink];
        }
    }
    remove_unused(program);
}

/// Removes pipelines, and their sinks, that do not affect the result.
fn remove_unused(program: &mut Program) {
    let last = program.sinks.len() - 1;
    let (mut pipelines, mut sinks) = (BTreeSet::new(), BTreeSet::from([last]));
    for (index, _) in program.pipelines.iter().enumerate().filter(|(_, pipeline)| pipeline.sink == last) {
        let (needed, made) = below(program, index);
        pipelines.extend(needed);
        pipelines.insert(index);
        sinks.extend(made);
    }
    // A pipeline that only sets a build's match flags feeds a sink without readers.
    sinks.extend(pipelines.iter().map(|&index| program.pipelines[index].sink));
    let numbers: HashMap<SinkId, SinkId> = sinks.iter().enumerate().map(|(new, &old)| (old, new)).collect();
    let mut kept = vec![];
    for (index, mut pipeline) in std::mem::take(&mut program.pipelines).into_iter().enumerate() {
        if pipelines.contains(&index) {
            renumber(&mut pipeline, &numbers);
            pipeline.sink = numbers[&pipeline.sink];
            kept.push(pipeline);
        }
    }
    program.pipelines = kept;
    let mut number = 0..;
    program.sinks.retain(|_| number.next().is_some_and(|sink| numbers.contains_key(&sink)));
}

/// Classes of equal sinks.
struct Classes<'a> {
    program: &'a Program,
    /// By sink: the first equal sink.
    firsts: Vec<SinkId>,
    /// By sink: the pipelines that feed it.
    feeds: Vec<Vec<usize>>,
}

impl<'a> Classes<'a> {
    fn of(program: &'a Program) -> Self {
        let mut feeds = vec![vec![]; program.sinks.len()];
        program.pipelines.iter().enumerate().for_each(|(index, pipeline)| feeds[pipeline.sink].push(index));
        let mut classes = Self { program, firsts: (0..program.sinks.len()).collect(), feeds };
        let mut finished: Vec<SinkId> = vec![];
        for (index, pipeline) in program.pipelines.iter().enumerate() {
            let sink = pipeline.sink;
            // The result has no readers, and match flags depend on the build's own probes.
            let is_own = sink + 1 == program.sinks.len() || classes.has_flags(sink);
            if classes.feeds[sink].last() != Some(&index) || is_own {
                continue;
            }
            match finished.iter().find(|&&before| classes.are_equal(before, sink)) {
                Some(&first) => classes.firsts[sink] = first,
                None => finished.push(sink),
            }
        }
        classes
    }

    fn has_flags(&self, sink: SinkId) -> bool {
        matches!(self.program.sinks[sink], Sink::HashBuild { track_matches: true, .. })
    }

    fn are_equal(&self, one: SinkId, other: SinkId) -> bool {
        let (feeds, others) = (&self.feeds[one], &self.feeds[other]);
        let pipeline = |index: usize| &self.program.pipelines[index];
        are_equal_sinks(&self.program.sinks[one], &self.program.sinks[other])
            && feeds.len() == others.len()
            && feeds.iter().zip(others).all(|(&a, &b)| self.are_equal_pipelines(pipeline(a), pipeline(b)))
    }

    fn are_equal_pipelines(&self, one: &Pipeline, other: &Pipeline) -> bool {
        let operators = || one.operators.iter().zip(&other.operators);
        one.operators.len() == other.operators.len()
            && self.are_equal_sources(&one.source, &other.source)
            && operators().all(|(a, b)| self.are_equal_operators(a, b))
    }

    fn are_equal_sources(&self, one: &Source, other: &Source) -> bool {
        if !same_types(one.fields(), other.fields()) {
            return false;
        }
        match (one, other) {
            (Source::Scan(a), Source::Scan(b)) => self.are_equal_scans(a, b),
            (Source::Rows { sink: a, .. }, Source::Rows { sink: b, .. }) => self.firsts[*a] == self.firsts[*b],
            (Source::Build { sink: a, rows: of_a, .. }, Source::Build { sink: b, rows: of_b, .. }) => {
                (a, of_a) == (b, of_b)
            }
            (Source::Values { rows: a, .. }, Source::Values { rows: b, .. }) => a == b,
            // Rows from outside are read once.
            _ => false,
        }
    }

    /// Whether rows of scan `one` may be read instead of those of `other`, which may be pruned by more builds. Programs have no sideways filters yet
    /// when sinks are merged.
    fn are_equal_scans(&self, one: &Scan, other: &Scan) -> bool {
        is_same_table(&one.table, &other.table)
            && one.columns == other.columns
            && one.filters == other.filters
            && one.pruning == other.pruning
            && one.sideways.is_empty()
            && other.sideways.is_empty()
            && one.prune.iter().all(|key| other.prune.iter().any(|own| self.are_equal_prunes(key, own)))
    }

    fn are_equal_prunes(&self, one: &PruneKey, other: &PruneKey) -> bool {
        (one.column, one.key, self.firsts[one.build]) == (other.column, other.key, self.firsts[other.build])
    }

    fn are_equal_operators(&self, one: &Operator, other: &Operator) -> bool {
        match (one, other) {
            (Operator::Filter(a), Operator::Filter(b)) => a == b,
            (Operator::Project(a), Operator::Project(b)) => {
                let same = |((own, a), (field, b)): (&(Field, _), &(Field, _))| same_type(own, field) && a == b;
                a.len() == b.len() && a.iter().zip(b).all(same)
            }
            (Operator::Probe(a), Operator::Probe(b)) => self.are_equal_probes(a, b),
            (Operator::Limit { skip, fetch }, Operator::Limit { skip: after, fetch: most }) => {
                (skip, fetch) == (after, most)
            }
            _ => false,
        }
    }

    fn are_equal_probes(&self, one: &Probe, other: &Probe) -> bool {
        // A range repeats a part of the residual.
        let asof = match (&one.asof, &other.asof) {
            (None, None) => true,
            (Some(a), Some(b)) => a.value == b.value && a.nearest == b.nearest,
            _ => false,
        };
        asof && !sets_flags(one)
            && one.kind == other.kind
            && self.firsts[one.build] == self.firsts[other.build]
            && one.keys == other.keys
            && one.residual == other.residual
            && one.null_aware == other.null_aware
            && one.output == other.output
            && same_types(&one.fields, &other.fields)
    }
}

/// Whether two sinks compute the same from the same rows.
fn are_equal_sinks(one: &Sink, other: &Sink) -> bool {
    let same = match (one, other) {
        (
            Sink::HashBuild { keys, payload, null_equals_null, order, .. },
            Sink::HashBuild { keys: k, payload: p, null_equals_null: n, order: o, .. },
        ) => keys == k && payload == p && null_equals_null == n && order == o,
        (Sink::Aggregate { groups, aggregates, .. }, Sink::Aggregate { groups: g, aggregates: a, .. }) => {
            groups == g && aggregates == a
        }
        (Sink::Functions { groups, calls, .. }, Sink::Functions { groups: g, calls: c, .. }) => {
            groups == g && calls == c
        }
        (Sink::Sort { keys, skip, fetch, .. }, Sink::Sort { keys: k, skip: s, fetch: f, .. }) => {
            keys == k && skip == s && fetch == f
        }
        (
            Sink::Window { partition, order, calls, payload, .. },
            Sink::Window { partition: p, order: o, calls: c, payload: l, .. },
        ) => partition == p && order == o && calls == c && payload == l,
        (Sink::Collect { .. }, Sink::Collect { .. }) => true,
        _ => false,
    };
    same && same_types(one.fields(), other.fields())
}

/// Whether two scans read the same version of a table.
fn is_same_table(one: &Arc<TableSnapshot>, other: &Arc<TableSnapshot>) -> bool {
    let known = || one.identity().is_some() && one.path().is_some();
    Arc::ptr_eq(one, other)
        || known()
            && (one.path(), one.identity(), one.version()) == (other.path(), other.identity(), other.version())
            && one.schema() == other.schema()
}

/// Whether columns have the same types; names may differ.
fn same_types(one: &[Field], other: &[Field]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same_type(a, b))
}

fn same_type(Field { ty: a, .. }: &Field, Field { ty: b, .. }: &Field) -> bool {
    a == b && a.nullable == b.nullable && a.range == b.range
}

#[cfg(test)]
mod tests;
