//! Split programs: the device runs everything below the joins that are larger than its memory, the CPU back end the rest. These are the two CPU
//! strategies of GOLAP (Boeschen et al., SIGMOD 2024, section 5).
//!
//! A program is cut where rows meet a sink that only the host has: a hash build that does not fit, results of such joins, a sort. The part below a
//! cut becomes a program of its own, a [`Piece`], whose result is the rows at the cut with the columns that are read later; the device runs one piece
//! after the other. The CPU back end runs the original program, except that pipelines start from the received rows.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::datatypes::Schema;
use warpmill_eval::rows::RowSet;
use warpmill_eval::{Data, Vector};
use warpmill_ir::graph::{has_limit, probes, read, renumber, sets_flags};
use warpmill_ir::{
    AggregateExpr, ColType, Expr, Field, Operator, Phys, Pipeline, Program, Sink, SinkId, Source, Unsupported,
};

use super::join::{JoinStrategy, Side};

/// A split program.
#[derive(Debug)]
pub struct Split {
    /// The program of the CPU: without pruning by builds that it does not have.
    pub program: Arc<Program>,
    /// The processor of each pipeline.
    pub sides: Vec<Side>,
    /// The pieces, in the order in which the device runs them.
    pub pieces: Vec<Piece>,
}

/// The part of a program below a cut, run by the device.
#[derive(Debug)]
pub struct Piece {
    /// A program whose result is the rows at the cut.
    pub program: Arc<Program>,
    /// The number of each of its pipelines in the whole program.
    pub pipelines: Vec<usize>,
    /// The number of each of its sinks except the last in the whole program.
    pub sinks: Vec<SinkId>,
    /// The cut pipelines, each with the number of operators that the device runs; all return rows of the same types.
    pub cut: Vec<(usize, usize)>,
    /// The columns at the cut.
    fields: Vec<Field>,
    /// Indexes of the columns that the piece returns.
    columns: Vec<usize>,
}

impl Split {
    /// Cuts `program` below hash builds `builds`.
    ///
    /// # Errors
    /// The device would have nothing to run, or the CPU would have to scan Parquet files.
    pub fn new(program: &Program, builds: &[SinkId], strategy: JoinStrategy) -> Result<Self, Unsupported> {
        let mut cutter = Cutter::new(program, builds, strategy);
        let pieces = loop {
            cutter.assign();
            let pieces = cutter.pieces();
            match cutter.shared(&pieces) {
                Some(sink) => cutter.host[sink] = true,
                None => break pieces,
            }
        };
        let refuse = |reason: &str| {
            Err(Unsupported::new("joins larger than device memory", format!("{}: {reason}", strategy.name())))
        };
        if pieces.is_empty() {
            return refuse("there is nothing for the device below them");
        }
        let scans_files = |(pipeline, side): (&Pipeline, &Side)| {
            *side == Side::Cpu && matches!(&pipeline.source, Source::Scan(scan) if scan.table.is_parquet())
        };
        if program.pipelines.iter().zip(&cutter.sides).any(scans_files) {
            return refuse("the CPU back end would have to scan Parquet files, which DataFusion does for it");
        }
        Ok(Self { program: Arc::new(cutter.for_host()), sides: cutter.sides, pieces })
    }
}

/// State of cutting a program.
struct Cutter<'a> {
    program: &'a Program,
    /// Pipelines that the CPU runs completely.
    whole: Vec<bool>,
    /// Sinks that only the host has.
    host: Vec<bool>,
    /// Sinks that the host needs as well.
    needed: Vec<bool>,
    sides: Vec<Side>,
}

impl<'a> Cutter<'a> {
    fn new(program: &'a Program, builds: &[SinkId], strategy: JoinStrategy) -> Self {
        let last = program.sinks.len() - 1;
        let is_host =
            |(id, sink): (SinkId, &Sink)| id == last || builds.contains(&id) || matches!(sink, Sink::Sort { .. });
        let host = program.sinks.iter().enumerate().map(is_host).collect();
        let (needed, sides) = (vec![false; last + 1], vec![]);
        let mut whole = vec![false; program.pipelines.len()];
        if strategy == JoinStrategy::Naive {
            let mut wanted: Vec<bool> = (0..=last).map(|id| builds.contains(&id)).collect();
            // Sinks are fed by earlier pipelines than those that use them.
            for (index, pipeline) in program.pipelines.iter().enumerate().rev() {
                whole[index] = wanted[pipeline.sink];
                if whole[index] {
                    used(pipeline, 0).into_iter().for_each(|id| wanted[id] = true);
                }
            }
        }
        Self { program, whole, host, needed, sides }
    }

    /// The point at which a pipeline meets a sink that only the host has; `None`: it does not. The source precedes all operators.
    fn meets(&self, pipeline: &Pipeline) -> Option<Side> {
        if read(pipeline).is_some_and(|id| self.host[id]) {
            return Some(Side::Cpu);
        }
        probes(pipeline).find(|(_, probe)| self.host[probe.build]).map(|(at, _)| Side::Split(at))
    }

    /// Assigns each pipeline to a processor.
    fn assign(&mut self) {
        let pipelines = &self.program.pipelines;
        for pipeline in pipelines {
            self.host[pipeline.sink] |= self.meets(pipeline).is_some();
        }
        self.needed.fill(false);
        self.sides = vec![Side::Device; pipelines.len()];
        for (index, pipeline) in pipelines.iter().enumerate().rev() {
            let end = Side::Split(pipeline.operators.len());
            let wanted = self.host[pipeline.sink] || self.needed[pipeline.sink];
            let mut side = match self.meets(pipeline) {
                Some(side) => side,
                None if wanted => end,
                None => Side::Device,
            };
            if let Side::Split(at) = side
                && !is_worth_it(pipeline, at)
            {
                side = Side::Cpu;
            }
            if self.whole[index] {
                side = Side::Cpu;
            }
            let own = match side {
                Side::Device => vec![],
                Side::Split(at) => used(pipeline, at + 1),
                Side::Cpu => used(pipeline, 0),
            };
            own.into_iter().for_each(|id| self.needed[id] = true);
            self.sides[index] = side;
        }
    }

    /// The pieces; equal kinds of rows for one sink come from one piece.
    fn pieces(&self) -> Vec<Piece> {
        let mut groups: Vec<Vec<(usize, usize)>> = vec![];
        for (index, side) in self.sides.iter().enumerate() {
            let Side::Split(at) = *side else { continue };
            let alike = |group: &&mut Vec<(usize, usize)>| self.arrive_alike((index, at), group[0]);
            match groups.iter_mut().find(alike) {
                Some(group) => group.push((index, at)),
                None => groups.push(vec![(index, at)]),
            }
        }
        groups.into_iter().map(|cut| self.piece(cut)).collect()
    }

    /// Whether two pipelines are cut at their common sink, with rows of the same types.
    fn arrive_alike(&self, (index, at): (usize, usize), (other, end): (usize, usize)) -> bool {
        let (pipeline, other) = (&self.program.pipelines[index], &self.program.pipelines[other]);
        let (fields, others) = (pipeline.fields(), other.fields());
        pipeline.sink == other.sink
            && at == pipeline.operators.len()
            && end == other.operators.len()
            && fields.len() == others.len()
            && fields.iter().zip(&others).all(|(a, b)| a.ty == b.ty)
    }

    /// The uncut pipelines, and the sinks, that the rows at cuts depend on.
    fn below(&self, cut: &[(usize, usize)]) -> (BTreeSet<usize>, BTreeSet<SinkId>) {
        let pipelines = &self.program.pipelines;
        let (mut below, mut sinks) = (BTreeSet::new(), BTreeSet::new());
        let mut pending: Vec<SinkId> = cut.iter().flat_map(|&(index, at)| used_before(&pipelines[index], at)).collect();
        while let Some(sink) = pending.pop() {
            if !sinks.insert(sink) {
                continue;
            }
            for (index, pipeline) in pipelines.iter().enumerate() {
                // Readers of a build may need to know which of its rows have found a partner.
                let flags = probes(pipeline).any(|(_, probe)| probe.build == sink && sets_flags(probe));
                let is_cut = cut.iter().any(|(other, _)| *other == index);
                if !is_cut && (pipeline.sink == sink || flags) && below.insert(index) {
                    pending.extend(used(pipeline, 0));
                    pending.push(pipeline.sink);
                }
            }
        }
        (below, sinks)
    }

    fn piece(&self, cut: Vec<(usize, usize)>) -> Piece {
        let (mut below, sinks) = self.below(&cut);
        below.extend(cut.iter().map(|(index, _)| index));
        let (first, at) = (&self.program.pipelines[cut[0].0], cut[0].1);
        let all = cut.iter().map(|&(index, at)| before(&self.program.pipelines[index], at).fields());
        let fields = all.reduce(|a, b| a.into_iter().zip(&b).map(|(a, b)| common(a, b)).collect()).unwrap_or_default();
        let columns = self.columns(first, at, fields.len());
        let taken: Vec<Field> = columns.iter().map(|&column| fields[column].clone()).collect();
        let numbers: HashMap<SinkId, SinkId> = sinks.iter().enumerate().map(|(new, &old)| (old, new)).collect();
        let pipelines = below.iter().map(|&index| {
            let whole = &self.program.pipelines[index];
            let mut pipeline = match cut.iter().find(|(other, _)| *other == index) {
                Some(&(_, at)) => picking(before(whole, at), &columns, sinks.len()),
                None => Pipeline { sink: numbers[&whole.sink], ..whole.clone() },
            };
            renumber(&mut pipeline, &numbers);
            pipeline
        });
        let pipelines = pipelines.collect();
        let named = |field: &Field| arrow::datatypes::Field::new(&field.name, field.ty.logical.clone(), true);
        let schema = Arc::new(Schema::new(taken.iter().map(named).collect::<Vec<_>>()));
        let all = sinks.iter().map(|&id| self.program.sinks[id].clone());
        let program = Program::new(pipelines, all.chain([Sink::Collect { fields: taken }]).collect(), schema);
        let (pipelines, sinks) = (below.into_iter().collect(), sinks.into_iter().collect());
        Piece { program: Arc::new(program), pipelines, sinks, cut, fields, columns }
    }

    /// The columns among the first `width` that are read from operator `at` of a pipeline on; at least one.
    fn columns(&self, pipeline: &Pipeline, at: usize, width: usize) -> Vec<usize> {
        let mut columns = BTreeSet::new();
        let mut add = |expr: &Expr| expr.visit_columns(&mut |column| columns.extend([column]));
        match (pipeline.operators.get(at), &self.program.sinks[pipeline.sink]) {
            (Some(Operator::Probe(probe)), _) => {
                probe.expressions().for_each(&mut add);
                columns.extend(&probe.output);
            }
            (None, Sink::HashBuild { keys, order, payload, .. }) => {
                keys.iter().chain(order).for_each(&mut add);
                columns.extend(payload);
            }
            (None, Sink::Aggregate { groups, aggregates, .. }) => {
                groups.iter().for_each(&mut add);
                let used = aggregates.iter().flat_map(AggregateExpr::expressions);
                used.for_each(add);
            }
            _ => columns.extend(0..width),
        }
        columns.retain(|&column| column < width);
        if columns.is_empty() {
            columns.insert(0);
        }
        columns.into_iter().collect()
    }

    /// A sink that must be built once, but would be built by several pieces, or whose match flags would be incomplete: the host builds it instead.
    fn shared(&self, pieces: &[Piece]) -> Option<SinkId> {
        let pipelines = &self.program.pipelines;
        (0..self.program.sinks.len()).filter(|&id| !self.host[id]).find(|&id| {
            let is_read = |(pipeline, side): (&Pipeline, &Side)| {
                *side == Side::Cpu && matches!(pipeline.source, Source::Build { sink, .. } if sink == id)
            };
            let read_by_host = pipelines.iter().zip(&self.sides).any(is_read);
            let places = pieces.iter().filter(|piece| piece.sinks.contains(&id)).count() + usize::from(self.needed[id]);
            let same = matches!(self.program.sinks[id], Sink::HashBuild { track_matches: false, .. })
                && !pipelines.iter().any(|pipeline| pipeline.sink == id && has_limit(pipeline));
            read_by_host || (places > 1 && !same)
        })
    }

    /// The program without pruning by builds that the host does not have.
    fn for_host(&self) -> Program {
        let mut pipelines = self.program.pipelines.clone();
        for pipeline in &mut pipelines {
            if let Source::Scan(scan) = &mut pipeline.source {
                scan.prune.retain(|prune| self.needed[prune.build]);
            }
        }
        Program::new(pipelines, self.program.sinks.clone(), self.program.schema.clone())
    }
}

/// Whether the device has work before operator `at` of a pipeline.
fn is_worth_it(pipeline: &Pipeline, at: usize) -> bool {
    let given = matches!(pipeline.source, Source::Input { .. } | Source::Values { .. });
    let joins = probes(pipeline).any(|(position, _)| position < at);
    (!given || joins) && !before(pipeline, at).fields().is_empty()
}

/// The pipeline up to operator `at`.
fn before(pipeline: &Pipeline, at: usize) -> Pipeline {
    Pipeline { operators: pipeline.operators[..at].to_vec(), source: pipeline.source.clone(), sink: pipeline.sink }
}

/// A column that can hold the values of either of two columns of the same type.
fn common(a: Field, b: &Field) -> Field {
    let range = a.ty.range.zip(b.ty.range).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1)));
    let nullable = a.ty.nullable || b.ty.nullable;
    Field { ty: ColType { range, nullable, ..a.ty }, ..a }
}

/// The pipeline reduced to some of its columns, with sink `sink`.
fn picking(mut pipeline: Pipeline, columns: &[usize], sink: SinkId) -> Pipeline {
    let fields = pipeline.fields();
    let pick = |&column: &usize| (fields[column].clone(), Expr::column(column, fields[column].ty.clone()));
    pipeline.operators.push(Operator::Project(columns.iter().map(pick).collect()));
    Pipeline { sink, ..pipeline }
}

/// The sinks that a pipeline uses from operator `from - 1` on; if `from` is 0, including its source.
fn used(pipeline: &Pipeline, from: usize) -> Vec<SinkId> {
    let source = read(pipeline).filter(|_| from == 0);
    let probed = probes(pipeline).filter(|(at, _)| at + 1 >= from).map(|(_, probe)| probe.build);
    source.into_iter().chain(probed).collect()
}

/// The sinks that a pipeline uses before operator `at`, including its source.
fn used_before(pipeline: &Pipeline, at: usize) -> Vec<SinkId> {
    let probed = probes(pipeline).filter(|(position, _)| *position < at).map(|(_, probe)| probe.build);
    read(pipeline).into_iter().chain(probed).collect()
}

impl Piece {
    /// The columns that the piece returns.
    pub fn taken(&self) -> &[Field] {
        self.program.sinks.last().map(Sink::fields).unwrap_or_default()
    }

    /// Extends the piece's rows to all columns at the cut, with zeros for unread ones.
    pub fn spread(&self, rows: RowSet) -> RowSet {
        let longest = rows.batches.iter().map(|(_, rows)| *rows).max().unwrap_or(0);
        let mut zeros: HashMap<Phys, Arc<Vector>> = HashMap::new();
        for field in self.fields.iter().enumerate().filter(|(column, _)| !self.columns.contains(column)) {
            let phys = field.1.ty.phys;
            zeros.entry(phys).or_insert_with(|| Arc::new(Vector::new(Data::zeros(phys, longest))));
        }
        let spread = |(vectors, rows): (Vec<Arc<Vector>>, usize)| {
            let mut taken = self.columns.iter().zip(vectors).peekable();
            let all = self.fields.iter().enumerate().map(|(column, field)| {
                let own = taken.next_if(|(at, _)| **at == column);
                own.map_or_else(|| zeros[&field.ty.phys].clone(), |(_, vector)| vector)
            });
            (all.collect(), rows)
        };
        RowSet { batches: rows.batches.into_iter().map(spread).collect() }
    }
}
