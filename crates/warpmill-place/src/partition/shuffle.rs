//! Parts whose rows are sent to other devices in the middle: a scan that does not lie in the order of the key that the others are split by, or
//! the groups of an aggregation whose rows are on several devices (Yogatama, thesis section 5.2: partitioned joins and aggregations).

use std::sync::Arc;

use warpmill_ir::needed_columns::keep_needed_columns;
use warpmill_ir::{
    AggregateExpr, AggregateFunction, Expr, Field, Phys, Pipeline, Program, Route, Sink, SinkId, Source, Unsupported,
};

use super::refusal;

/// Rows that devices send to each other between their first programs and those that go on with the rows.
#[derive(Debug, Clone)]
pub struct Shuffle {
    /// The first program of each device; its last sink collects the rows.
    pub firsts: Vec<Arc<Program>>,
    /// The device that gets a row.
    pub route: Route,
    /// Rows that the aggregates of all first programs together may take in before their accumulators could overflow.
    pub safe_rows: Option<u64>,
    /// The rows, in words.
    pub what: String,
}

/// A program that goes on with rows that were sent, in the place of what made them.
pub(super) struct Rest {
    /// The same pipelines; one of them has the rows as its source.
    pub program: Program,
    /// That pipeline.
    pub pipeline: usize,
    /// The columns of the rows.
    pub fields: Vec<Field>,
    /// The columns of the table that they are, where they are of a scan.
    pub columns: Vec<usize>,
}

/// Bytes of a string that devices read over their links, on average.
const TEXT: u64 = 24;

/// Bytes of a row of `fields` at most.
pub(super) fn row_bytes(fields: &[Field]) -> u64 {
    let width = |phys: Phys| match phys {
        Phys::Bool => 1,
        Phys::I32 | Phys::F32 | Phys::Code => 4,
        Phys::I64 | Phys::F64 => 8,
        Phys::I128 => 16,
        Phys::Str => 16 + TEXT,
    };
    fields.iter().map(|field| width(field.ty.phys) + u64::from(field.ty.nullable)).sum()
}

/// The program that goes on with the rows of the scan of pipeline `index`, and the position among them of `column`, a column of the table.
pub(super) fn instead_of_scan(program: &Program, index: usize, column: usize) -> Result<(Rest, usize), Unsupported> {
    let mut rest = Program::new(program.pipelines.clone(), program.sinks.clone(), program.schema.clone());
    let Source::Scan(scan) = &mut rest.pipelines[index].source else { return Err(refusal("no scan")) };
    // Filters are done before the rows are sent; the key is read in any case.
    (scan.filters, scan.prune, scan.sideways) = Default::default();
    keep_needed_columns(&mut rest);
    let mut same = rest.sinks.iter().zip(&program.sinks).all(|(one, other)| one.fields() == other.fields());
    let mut others = rest.pipelines.iter().zip(&program.pipelines).enumerate().filter(|(other, _)| *other != index);
    // All else has been without columns that nobody reads before.
    same &= others.all(|(_, (one, other))| one.source.fields() == other.source.fields());
    let Source::Scan(scan) = &rest.pipelines[index].source else { return Err(refusal("no scan")) };
    let at = scan.columns.iter().position(|&other| other == column);
    let (Some(at), true) = (at, same) else { return Err(refusal("nobody reads the key")) };
    let (fields, columns) = (scan.fields.clone(), scan.columns.clone());
    rest.pipelines[index].source = Source::Input { input: 0, fields: fields.clone() };
    Ok((Rest { program: rest, pipeline: index, fields, columns }, at))
}

/// The program that scans what `rest` goes on with: pipeline `rest.pipeline` of `program`, up to the columns that are sent.
pub(super) fn scan_of(program: &Program, rest: &Rest) -> Result<(Pipeline, Sink), Unsupported> {
    let Source::Scan(scan) = &program.pipelines[rest.pipeline].source else { return Err(refusal("no scan")) };
    let mut scan = scan.clone();
    scan.prune.clear();
    let place = |column: &usize| scan.columns.iter().position(|own| own == column);
    let places = rest.columns.iter().map(place).collect::<Option<Vec<_>>>();
    let places = places.ok_or_else(|| refusal("columns that the scan has not"))?;
    let list = rest.fields.iter().zip(places);
    let list = list.map(|(field, at)| (field.clone(), Expr::column(at, field.ty.clone()))).collect();
    let operators = vec![warpmill_ir::Operator::Project(list)];
    Ok((Pipeline { source: Source::Scan(scan), operators, sink: 0 }, Sink::Collect { fields: rest.fields.clone() }))
}

/// The program that goes on with the groups of sink `sink`, which pipeline `index` alone feeds: those of a device are merged first.
pub(super) fn instead_of_groups(program: &Program, sink: SinkId, index: usize) -> Result<Rest, Unsupported> {
    let Sink::Aggregate { groups, aggregates, fields } = &program.sinks[sink] else {
        return Err(refusal("rows that are not grouped"));
    };
    let is_key = |key: &Expr| !matches!(key.ty.phys, Phys::F32 | Phys::F64);
    if groups.is_empty() || !groups.iter().all(is_key) {
        return Err(refusal("groups without keys, or with floats as keys"));
    }
    if program.pipelines.iter().filter(|other| other.sink == sink).count() != 1 {
        return Err(refusal("groups that several pipelines make"));
    }
    let columns = fields.iter().enumerate().map(|(at, field)| Expr::column(at, field.ty.clone()));
    let columns: Vec<Expr> = columns.collect();
    let (keys, states) = columns.split_at(groups.len());
    let merged = aggregates.iter().zip(states).map(|(own, state)| merge(own, state)).collect::<Result<_, _>>()?;
    let mut rest = Program::new(program.pipelines.clone(), program.sinks.clone(), program.schema.clone());
    rest.sinks[sink] = Sink::Aggregate { groups: keys.to_vec(), aggregates: merged, fields: fields.clone() };
    let source = Source::Input { input: 0, fields: fields.clone() };
    rest.pipelines[index] = Pipeline { source, operators: vec![], sink };
    Ok(Rest { program: rest, pipeline: index, fields: fields.clone(), columns: vec![] })
}

/// The aggregate of results of `own` of some of the rows each, in `state`, that is its result of all rows.
fn merge(own: &AggregateExpr, state: &Expr) -> Result<AggregateExpr, Unsupported> {
    use AggregateFunction as F;
    let function = match own.function {
        _ if own.distinct => return Err(refusal("aggregates of different values")),
        // A device would check the sum of its rows against the type of the result, which holds the sum of all.
        F::Sum if own.ty.phys == Phys::I128 => return Err(refusal("sums of more than 64 bits")),
        F::CountStar | F::Count | F::Sum => F::Sum,
        F::Min | F::Max | F::BoolAnd | F::BoolOr | F::AnyValue => own.function,
        F::Avg | F::StddevSamp | F::StddevPop | F::VarSamp | F::VarPop | F::OfPairs(_) => {
            return Err(refusal("averages, variances and correlations, whose results do not add up"));
        }
    };
    // The sum of all is proven, or checked by the number of rows; a sum of sums takes few of them, of greater values.
    let range = if function == F::Sum { None } else { state.ty.range };
    let argument = Expr { ty: warpmill_ir::ColType { range, ..state.ty.clone() }, ..state.clone() };
    Ok(AggregateExpr {
        function,
        argument: Some(argument),
        second: None,
        filter: None,
        distinct: false,
        ty: own.ty.clone(),
    })
}

/// Rows that `aggregates` may take in all together.
pub(super) fn safe_rows(sink: &Sink) -> Option<u64> {
    match sink {
        Sink::Aggregate { aggregates, .. } => aggregates.iter().filter_map(AggregateExpr::safe_rows).min(),
        _ => None,
    }
}
