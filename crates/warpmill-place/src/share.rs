//! Pipelines whose scan several sites share at the granularity of row segments (Yogatama, thesis section 4.2.1).
//!
//! Each of the other sites runs a separate program: the pipeline on the row segments that it claims, preceded by the hash builds that it probes,
//! which exist at every site that probes them. The CPU merges the sites' results at the sink and runs all later pipelines, so that no row is sent
//! back.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use warpmill_functions::{Aggregation, Partial};
use warpmill_ir::graph::{below, expressions, has_limit, probes, renumber, sets_flags, used};
use warpmill_ir::{
    AggregateExpr, AggregateFunction, Expr, ExprKind, Function, Phys, Pipeline, Program, Sink, SinkId, Source,
    Unsupported,
};

/// The form of another site's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrives {
    /// Groups with accumulator states.
    States,
    /// Rows.
    Rows,
}

/// A shareable pipeline, and the program of the other sites.
#[derive(Debug, Clone)]
pub struct Share {
    /// The pipeline's number in the whole program.
    pub pipeline: usize,
    /// Row segments of its table.
    pub segments: usize,
    /// The program of the other sites; its last sink has the results.
    pub program: Arc<Program>,
    /// The pipeline's number in that.
    pub own: usize,
    /// The whole program's numbers of the pipelines before it.
    pub below: Vec<usize>,
    /// The pipelines of `below` that no other pipeline needs.
    pub only: Vec<usize>,
    /// The form of the other sites' results.
    pub arrives: Arrives,
}

impl Share {
    /// Finds the shareable pipeline that reads most; it has to read at least half of all bytes.
    ///
    /// # Errors
    /// The reason why the pipeline that reads most cannot be shared, if there is none.
    pub fn new(program: &Program) -> Result<Self, Unsupported> {
        if program.calls_functions() {
            return Err(refusal("functions of groups run on a device only"));
        }
        let bytes = |pipeline: &Pipeline| match &pipeline.source {
            Source::Scan(scan) => scan.plain_bytes(),
            _ => 0,
        };
        let all: u64 = program.pipelines.iter().map(bytes).sum();
        let mut order: Vec<usize> =
            (0..program.pipelines.len()).filter(|&index| is_scan(&program.pipelines[index])).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(bytes(&program.pipelines[index])));
        let mut refused = Unsupported::new("program", "it scans no tables");
        for (position, index) in order.into_iter().enumerate() {
            // The CPU cannot help with the rest.
            if bytes(&program.pipelines[index]) < all / 2 {
                if position == 0 {
                    refused = refusal("no scan reads half of all bytes");
                }
                break;
            }
            match Self::of(program, index) {
                Ok(share) => return Ok(share),
                Err(reason) if position == 0 => refused = reason,
                Err(_) => {}
            }
        }
        Err(refused)
    }

    /// Pipeline `index` of `program`.
    ///
    /// # Errors
    /// The reason why it cannot be shared.
    pub fn of(program: &Program, index: usize) -> Result<Self, Unsupported> {
        let pipeline = &program.pipelines[index];
        let Source::Scan(scan) = &pipeline.source else { return Err(refusal("its source is no table")) };
        let (before, sinks) = below(program, index);
        check(program, pipeline, &before)?;
        let segments = scan.table.num_segments();
        if segments < 2 {
            return Err(refusal("the table has one row segment"));
        }
        let numbers: HashMap<SinkId, SinkId> = sinks.iter().enumerate().map(|(new, &old)| (old, new)).collect();
        let mut pipelines: Vec<Pipeline> = before
            .iter()
            .map(|&other| {
                let whole = &program.pipelines[other];
                let mut pipeline = Pipeline { sink: numbers[&whole.sink], ..whole.clone() };
                renumber(&mut pipeline, &numbers);
                pipeline
            })
            .collect();
        let mut all: Vec<Sink> = sinks.iter().map(|&id| program.sinks[id].clone()).collect();
        let mut own = Pipeline { sink: all.len(), ..pipeline.clone() };
        renumber(&mut own, &numbers);
        pipelines.push(own);
        let own = pipelines.len() - 1;
        let arrives = finish(&program.sinks[pipeline.sink], pipeline, &mut pipelines, &mut all)?;
        let schema = schema_of(&all);
        let only = only_for(program, &[index], &before);
        Ok(Self {
            pipeline: index,
            segments,
            program: Arc::new(Program::new(pipelines, all, schema)),
            own,
            below: before.into_iter().collect(),
            only,
            arrives,
        })
    }
}

/// The schema of a program's last sink.
pub(crate) fn schema_of(sinks: &[Sink]) -> SchemaRef {
    let fields = sinks.last().map(Sink::fields).unwrap_or_default();
    let named = |field: &warpmill_ir::Field| {
        arrow::datatypes::Field::new(&field.name, field.ty.logical.clone(), field.ty.nullable)
    };
    Arc::new(Schema::new(fields.iter().map(named).collect::<Vec<_>>()))
}

pub(crate) fn is_scan(pipeline: &Pipeline) -> bool {
    matches!(pipeline.source, Source::Scan(_))
}

fn refusal(reason: &str) -> Unsupported {
    Unsupported::new("shared scan", reason)
}

/// Refuses pipelines whose parts do not add up to the whole.
fn check(program: &Program, pipeline: &Pipeline, before: &BTreeSet<usize>) -> Result<(), Unsupported> {
    if has_limit(pipeline) {
        return Err(refusal("a limit counts all rows"));
    }
    if probes(pipeline).any(|(_, probe)| sets_flags(probe)) {
        return Err(refusal("a join asks which rows of its build have found no partner at all"));
    }
    if before.iter().any(|&other| probes(&program.pipelines[other]).any(|(_, probe)| probe.asof.is_some()))
        || probes(pipeline).any(|(_, probe)| probe.asof.is_some())
    {
        return Err(refusal("an ASOF join: of rows of the same time each site may take another"));
    }
    let all = || before.iter().map(|&other| &program.pipelines[other]).chain([pipeline]);
    if all().any(|other| matches!(&other.source, Source::Scan(scan) if scan.table.is_parquet())) {
        return Err(refusal("a scan of Parquet files"));
    }
    if program.pipelines.iter().any(|other| matches!(other.source, Source::Input { .. })) {
        return Err(refusal("rows from outside are read once"));
    }
    if all().any(|other| rounds(program, other)) {
        return Err(refusal("functions of floats, of which each site rounds the last digits in its own way"));
    }
    let has_varying = |sink: SinkId| match &program.sinks[sink] {
        Sink::Aggregate { aggregates, .. } => aggregates.iter().any(varies),
        // Peers are numbered in the order in which they come.
        Sink::Window { .. } => true,
        _ => false,
    };
    if before.iter().any(|&other| has_varying(program.pipelines[other].sink)) {
        return Err(refusal(
            "what it joins with are aggregates of floats, any values, or windows, which may be others at each site",
        ));
    }
    let picks = |sink: SinkId| matches!(program.sinks[sink], Sink::Sort { fetch: Some(_), .. });
    if before.iter().any(|&other| has_limit(&program.pipelines[other]) || picks(program.pipelines[other].sink)) {
        return Err(refusal("what it joins with is any rows of a limit, which may be others at each site"));
    }
    Ok(())
}

/// Whether an aggregate of the same rows may be another value at another site.
pub(crate) fn varies(aggregate: &AggregateExpr) -> bool {
    use AggregateFunction as F;
    let of_floats =
        || aggregate.argument.as_ref().is_some_and(|argument| matches!(argument.ty.phys, Phys::F32 | Phys::F64));
    match aggregate.function {
        F::CountStar | F::Count | F::Min | F::Max | F::BoolAnd | F::BoolOr => false,
        F::Sum | F::Avg => of_floats(),
        F::StddevSamp | F::StddevPop | F::VarSamp | F::VarPop | F::AnyValue | F::OfPairs(_) => true,
    }
}

/// Whether a pipeline has functions whose last digits are the library's: equal keys would differ between sites.
fn rounds(program: &Program, pipeline: &Pipeline) -> bool {
    fn inexact(expr: &Expr) -> bool {
        use Function::{Exp, Ln, Log10, Power};
        matches!(expr.kind, ExprKind::Call { function: Power | Exp | Ln | Log10, .. })
            || expr.children().into_iter().any(inexact)
    }
    expressions(program, pipeline).into_iter().any(inexact)
}

/// Adds the sinks, and the pipelines after the shared one, of which the last gives what arrives.
pub(crate) fn finish(
    sink: &Sink,
    pipeline: &Pipeline,
    pipelines: &mut Vec<Pipeline>,
    sinks: &mut Vec<Sink>,
) -> Result<Arrives, Unsupported> {
    match sink {
        Sink::Aggregate { groups, aggregates, fields } => {
            let counts_rows = aggregates.iter().any(|aggregate| AggregateExpr::safe_rows(aggregate).is_some());
            let aggregation = Aggregation::new(groups, aggregates, fields, None)?;
            let Partial { aggregates, fields, .. } = Partial::new(&aggregation, fields, counts_rows)?;
            let last = sinks.len() + 1;
            let source = Source::Rows { sink: sinks.len(), fields: fields.clone() };
            sinks.push(Sink::Aggregate { groups: groups.clone(), aggregates, fields: fields.clone() });
            pipelines.push(Pipeline { source, operators: vec![], sink: last });
            sinks.push(Sink::Collect { fields });
            Ok(Arrives::States)
        }
        Sink::Sort { keys, skip, fetch: Some(fetch), fields } => {
            // The first rows of all are among the first rows of each part.
            let (keys, fields) = (keys.clone(), fields.clone());
            sinks.push(Sink::Sort { keys, skip: 0, fetch: Some(skip.saturating_add(*fetch)), fields });
            Ok(Arrives::Rows)
        }
        Sink::Sort { fields, .. } | Sink::Collect { fields } => {
            sinks.push(Sink::Collect { fields: fields.clone() });
            Ok(Arrives::Rows)
        }
        Sink::Window { .. } => {
            sinks.push(Sink::Collect { fields: pipeline.fields() });
            Ok(Arrives::Rows)
        }
        Sink::HashBuild { .. } => Err(refusal("it makes a hash build")),
        Sink::Functions { .. } => Err(refusal("functions of groups run on a device only")),
    }
}

/// The builds whose keys prune the scan of a pipeline.
fn prunes(pipeline: &Pipeline) -> impl Iterator<Item = SinkId> {
    let scan = match &pipeline.source {
        Source::Scan(scan) => Some(scan),
        _ => None,
    };
    scan.into_iter().flat_map(|scan| scan.prune.iter().map(|key| key.build))
}

/// The pipelines of `before` whose sinks are used by pipelines `last` and by each other only.
pub(crate) fn only_for(program: &Program, last: &[usize], before: &BTreeSet<usize>) -> Vec<usize> {
    let mut only = before.clone();
    loop {
        let needed: BTreeSet<SinkId> = program
            .pipelines
            .iter()
            .enumerate()
            .filter(|(other, _)| !last.contains(other) && !only.contains(other))
            .flat_map(|(_, pipeline)| used(pipeline).chain([pipeline.sink]).chain(prunes(pipeline)))
            .collect();
        let kept: BTreeSet<usize> =
            only.iter().copied().filter(|&other| !needed.contains(&program.pipelines[other].sink)).collect();
        if kept.len() == only.len() {
            return kept.into_iter().collect();
        }
        only = kept;
    }
}
