//! Exchange of rows between devices within a program: rows of a scan that is not sorted by the partition key, or the groups of an aggregation whose
//! rows are on several devices (Yogatama, thesis section 5.2: partitioned joins and aggregations).

use std::sync::Arc;

use warpmill_ir::needed_columns::keep_needed_columns;
use warpmill_ir::{
    AggregateExpr, AggregateFunction, Expr, Field, Phys, Pipeline, Program, Route, Sink, SinkId, Source, Unsupported,
};

use super::refusal;

/// An exchange of rows between devices' first programs and the programs that process the exchanged rows.
#[derive(Debug, Clone)]
pub struct Shuffle {
    /// The first program of each device; its last sink collects the rows.
    pub firsts: Vec<Arc<Program>>,
    /// The rule that assigns rows to devices.
    pub route: Route,
    /// Largest number of rows that the aggregates of all first programs together may add before an accumulator could overflow.
    pub safe_rows: Option<u64>,
    /// Description of the rows.
    pub what: String,
}

/// A program that reads exchanged rows in place of a scan or sink.
pub(super) struct Rest {
    /// The same pipelines, one of which reads the rows.
    pub program: Program,
    /// Index of that pipeline.
    pub pipeline: usize,
    /// The columns of the rows.
    pub fields: Vec<Field>,
    /// The table columns of the rows, if they come from a scan.
    pub columns: Vec<usize>,
}

/// Average bytes of a string that devices read over their links.
const TEXT: u64 = 24;

/// Largest size of a row of `fields`, in bytes.
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

/// The program that reads exchanged rows in place of the scan of pipeline `index`, and the position of the table's column `column` in them.
pub(super) fn instead_of_scan(program: &Program, index: usize, column: usize) -> Result<(Rest, usize), Unsupported> {
    let mut rest = Program::new(program.pipelines.clone(), program.sinks.clone(), program.schema.clone());
    let Source::Scan(scan) = &mut rest.pipelines[index].source else { return Err(refusal("no scan")) };
    // Filters are done before the rows are sent; the key is read in any case.
    (scan.filters, scan.prune, scan.sideways) = Default::default();
    keep_needed_columns(&mut rest);
    let mut same = rest.sinks.iter().zip(&program.sinks).all(|(one, other)| one.fields() == other.fields());
    let mut others = rest.pipelines.iter().zip(&program.pipelines).enumerate().filter(|(other, _)| *other != index);
    // Unused columns had been removed from everything else before.
    same &= others.all(|(_, (one, other))| one.source.fields() == other.source.fields());
    let Source::Scan(scan) = &rest.pipelines[index].source else { return Err(refusal("no scan")) };
    let at = scan.columns.iter().position(|&other| other == column);
    let (Some(at), true) = (at, same) else { return Err(refusal("no operator reads the key")) };
    let (fields, columns) = (scan.fields.clone(), scan.columns.clone());
    rest.pipelines[index].source = Source::Input { input: 0, fields: fields.clone() };
    Ok((Rest { program: rest, pipeline: index, fields, columns }, at))
}

/// The program that scans the rows for `rest`: pipeline `rest.pipeline` of `program`, reduced to the exchanged columns.
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

/// The program that reads exchanged groups in place of sink `sink`, which only pipeline `index` feeds: merges a device's groups first.
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

/// The aggregate that merges partial results `state` of `own`.
fn merge(own: &AggregateExpr, state: &Expr) -> Result<AggregateExpr, Unsupported> {
    use AggregateFunction as F;
    let function = match own.function {
        _ if own.distinct => return Err(refusal("aggregates of different values")),
        // A device would check the sum of its rows against the result's type, which only fits the total.
        F::Sum if own.ty.phys == Phys::I128 => return Err(refusal("sums of more than 64 bits")),
        F::CountStar | F::Count | F::Sum => F::Sum,
        F::Min | F::Max | F::BoolAnd | F::BoolOr | F::AnyValue => own.function,
        F::Avg | F::StddevSamp | F::StddevPop | F::VarSamp | F::VarPop | F::OfPairs(_) => {
            return Err(refusal("averages, variances and correlations, whose results do not add up"));
        }
    };
    // The total is proven, or checked by the number of rows; a sum of sums adds fewer but larger values.
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

/// Largest number of rows that `aggregates` may add in total.
pub(super) fn safe_rows(sink: &Sink) -> Option<u64> {
    match sink {
        Sink::Aggregate { aggregates, .. } => aggregates.iter().filter_map(AggregateExpr::safe_rows).min(),
        _ => None,
    }
}
