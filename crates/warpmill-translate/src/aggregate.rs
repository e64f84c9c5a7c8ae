//! Aggregations: two-phase plans become one sink.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use warpmill_ir::{
    AggregateExpr, AggregateFunction, ColType, Expr, ExprKind, Field, PairFunction, Phys, Sink, SinkId, Source,
    Unsupported,
};

use super::expr::{Limit, Scope};
use super::join::pruning_column;
use super::phases::Phase;
use super::stream::{Origin, Rows, Stream};
use super::{Translator, moved, scope};

/// Factor by which a row count may exceed its estimate before a 64-bit sum could overflow. Estimates ignore filters, and execution counts rows in any
/// case: 600 M rows of TPC-H's revenue are summed in 64 bits.
const ESTIMATE_MARGIN: f64 = 4.0;

impl Translator<'_> {
    pub(super) fn aggregate(&mut self, node: &AggregateExec) -> Result<Stream, Unsupported> {
        match Phase::of(node) {
            Some(Phase::First) => return self.first_phase(node),
            Some(Phase::Second) => return self.second_phase(node),
            None => {}
        }
        let first = first_phase(node)?;
        if self.calls_functions(first) {
            return self.functions(node, first);
        }
        if first.group_expr().has_grouping_set() {
            return self.grouping_sets(node, first);
        }
        let (stream, groups) = self.rows_and_keys(first)?;
        let schema = first.input().schema();
        let scope = scope(&stream, &schema);
        let calls = first.aggr_expr().iter().zip(first.filter_expr());
        let context =
            Context { scope: &scope, rows: stream.rows, grouped: !groups.is_empty(), wide: self.options.wide_sums };
        let aggregates = calls
            .map(|(call, filter)| context.aggregate(call, filter.as_ref()))
            .collect::<Result<Vec<_>, Unsupported>>()?;

        let fields = output_fields(&node.schema(), &groups, &aggregates);
        let (rows, distinct) = group_counts(&stream, &groups, aggregates.len());
        let total = aggregates.iter().all(|aggregate| is_total(aggregate, stream.rows));
        let origin = if total { group_origins(&stream, &groups, &aggregates, self.sinks.len()) } else { vec![] };
        let sink = self.finish(stream, Sink::Aggregate { groups, aggregates, fields: fields.clone() });
        let mut stream = Stream { distinct, ..Stream::of_source(Source::Rows { sink, fields }, rows) };
        if total {
            stream.branches[0].origin = origin;
        }
        Ok(stream)
    }

    /// The rows that `node` aggregates, with the subquery values that it reads, and its group keys.
    pub(super) fn rows_and_keys(&mut self, node: &AggregateExec) -> Result<(Stream, Vec<Expr>), Unsupported> {
        let mut stream = self.stream(node.input())?;
        let groups: Vec<_> = node.group_expr().expr().iter().map(|(expr, _)| Arc::clone(expr)).collect();
        let arguments: Vec<_> = node.aggr_expr().iter().flat_map(|call| call.expressions()).collect();
        let filters = node.filter_expr().iter().flatten();
        self.attach_subqueries(&mut stream, groups.iter().chain(&arguments).chain(filters))?;
        let schema = node.input().schema();
        let scope = scope(&stream, &schema);
        let limit = Limit::of_keys(stream.rows.likely);
        let groups = groups.iter().map(|group| Ok(limit.encode(scope.expr(group)?)));
        let groups = groups.collect::<Result<Vec<_>, Unsupported>>()?;
        Ok((stream, groups))
    }
}

/// Whether an aggregate succeeds for every part of `rows`: no partial sum exceeds its accumulator.
fn is_total(aggregate: &AggregateExpr, rows: Rows) -> bool {
    let argument = aggregate.argument.as_ref();
    match aggregate.function {
        AggregateFunction::Sum | AggregateFunction::Avg
            if argument.is_some_and(|argument| argument.ty.phys.is_int()) =>
        {
            let most = argument
                .and_then(|argument| argument.ty.range)
                .map(|(lo, hi)| lo.unsigned_abs().max(hi.unsigned_abs()));
            let largest = most.zip(rows.bound).and_then(|(most, rows)| most.checked_mul(rows));
            let bounds = ColType::range_of(&aggregate.ty.logical).map_or(u128::MAX, |(_, hi)| hi.unsigned_abs());
            // The quotient of an average is scaled up.
            let scaled =
                |largest: u128| largest.checked_mul(AVERAGE_SCALE).is_some_and(|scaled| scaled <= i128::MAX as u128);
            largest.is_some_and(|largest| match aggregate.function {
                AggregateFunction::Sum => largest <= bounds && largest <= i128::MAX as u128,
                _ => scaled(largest),
            })
        }
        _ => true,
    }
}

/// Largest factor by which the total of a decimal average is scaled up before the division.
const AVERAGE_SCALE: u128 = 1_000_000_000_000;

/// The origins of the output columns of the aggregation `sink` of `stream`: a join that drops all rows with a group's key drops the group, so that
/// the scan may skip its rows.
fn group_origins(stream: &Stream, groups: &[Expr], aggregates: &[AggregateExpr], sink: SinkId) -> Vec<Vec<Origin>> {
    let mut read = groups.iter().chain(aggregates.iter().flat_map(AggregateExpr::expressions));
    let total = read.all(Expr::is_total);
    let of = |group: &Expr| -> Vec<Origin> {
        let Some(column) = pruning_column(group) else { return vec![] };
        let branches = stream.branches.iter().enumerate();
        let origins = branches.flat_map(|(i, branch)| branch.origins_below(column, sink, i));
        origins.filter(|origin| total || !origin.grouped).map(|origin| Origin { grouped: true, ..origin }).collect()
    };
    groups.iter().map(of).chain(aggregates.iter().map(|_| vec![])).collect()
}

/// The node that reads the rows that `node` aggregates: `node` itself, or the partial aggregation below a final one.
fn first_phase(node: &AggregateExec) -> Result<&AggregateExec, Unsupported> {
    match node.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => Ok(node),
        AggregateMode::Final | AggregateMode::FinalPartitioned => partial(node.input())
            .ok_or_else(|| Unsupported::new("AggregateExec", "a final aggregation without its partial one")),
        mode => Err(Unsupported::new("AggregateExec", format!("mode {mode:?} without a final aggregation"))),
    }
}

pub(super) fn partial(plan: &Arc<dyn ExecutionPlan>) -> Option<&AggregateExec> {
    if let Some(node) = plan.downcast_ref::<AggregateExec>() {
        return match node.mode() {
            AggregateMode::Partial => Some(node),
            AggregateMode::PartialReduce => partial(node.input()),
            _ => None,
        };
    }
    partial(moved(plan)?)
}

/// Names from the plan's schema, types as translated.
fn output_fields(schema: &SchemaRef, groups: &[Expr], aggregates: &[AggregateExpr]) -> Vec<Field> {
    let types = groups.iter().map(|e| &e.ty).chain(aggregates.iter().map(|a| &a.ty));
    let named = schema.fields().iter().zip(types);
    named.map(|(field, ty)| Field { name: field.name().clone(), ty: ty.clone() }).collect()
}

/// The number of groups, and estimated distinct values of each output column.
pub(super) fn group_counts(stream: &Stream, groups: &[Expr], aggregates: usize) -> (Rows, Vec<Option<u64>>) {
    if groups.is_empty() {
        return (Rows::at_most(1), vec![Some(1); aggregates]);
    }
    let distinct = groups.iter().map(|group| stream.distinct_of(group));
    let distinct: Vec<Option<u64>> = distinct.collect();
    let product: f64 = distinct.iter().map(|n| n.map_or(f64::INFINITY, |n| n as f64 + 1.0)).product();
    let rows = Rows { bound: stream.rows.bound, likely: stream.rows.likely.min(product) };
    // A single group key is unique in the output.
    let estimate = |n: Option<u64>| n.or((groups.len() == 1 && rows.likely.is_finite()).then_some(rows.likely as u64));
    let columns = distinct.into_iter().map(estimate).chain(vec![None; aggregates]).collect();
    (rows, columns)
}

/// The input columns and row counts of aggregates.
pub(super) struct Context<'a> {
    pub scope: &'a Scope<'a>,
    pub rows: Rows,
    pub grouped: bool,
    /// Whether sums use 128 bits wherever the row count is not proven.
    pub wide: bool,
}

impl Context<'_> {
    pub fn aggregate(
        &self,
        call: &AggregateFunctionExpr,
        filter: Option<&Arc<dyn PhysicalExpr>>,
    ) -> Result<AggregateExpr, Unsupported> {
        self.aggregate_of(call, &call.expressions(), filter)
    }

    /// The same with other arguments than those of `call`.
    pub fn aggregate_of(
        &self,
        call: &AggregateFunctionExpr,
        arguments: &[Arc<dyn PhysicalExpr>],
        filter: Option<&Arc<dyn PhysicalExpr>>,
    ) -> Result<AggregateExpr, Unsupported> {
        let unsupported = |reason: &str| Unsupported::new(call.name(), reason);
        let filter = filter.map(|filter| self.scope.expr(filter)).transpose()?;
        let mut function = named(call.fun().name()).ok_or_else(|| unsupported("this aggregate function"))?;
        if function == AggregateFunction::AnyValue && !call.order_bys().is_empty() {
            return Err(unsupported("an ordered aggregate"));
        }
        let of_pairs = matches!(function, AggregateFunction::OfPairs(_));
        let second = match arguments {
            [_, second] if of_pairs => Some(self.scope.expr(second)?),
            _ => None,
        };
        let argument = match arguments {
            [] if function == AggregateFunction::Count => None,
            [y, _] if of_pairs => Some(self.scope.expr(y)?),
            [argument] if !of_pairs => Some(Limit::of_keys(self.rows.likely).encode(self.scope.expr(argument)?)),
            _ => return Err(unsupported("this number of arguments")),
        };
        // `first_value` may return a NULL; any other value is NULL only if all are.
        let may_be_null = argument.as_ref().is_some_and(|argument| argument.ty.nullable);
        if may_be_null && call.fun().name() == "first_value" && !call.ignore_nulls() {
            return Err(unsupported("the first value, which may be NULL"));
        }
        let mut distinct = call.is_distinct();
        if of_pairs && distinct {
            return Err(unsupported("different pairs"));
        }
        let mut argument = argument;
        match function {
            AggregateFunction::Count if !distinct && argument.as_ref().is_none_or(|a| !a.ty.nullable) => {
                (function, argument) = (AggregateFunction::CountStar, None);
            }
            // An exact sum, whatever the order of rows.
            AggregateFunction::Avg => argument = argument.map(before_float_cast),
            AggregateFunction::Sum => argument = argument.map(|argument| self.before_widening(argument)),
            AggregateFunction::Min
            | AggregateFunction::Max
            | AggregateFunction::BoolAnd
            | AggregateFunction::BoolOr => {
                distinct = false;
            }
            _ => {}
        }
        let ty = self.ty(function, call.field().data_type(), argument.as_ref(), filter.is_some());
        let ty = ty.ok_or_else(|| unsupported("this aggregate function of this type"))?;
        Ok(AggregateExpr { function, argument, second, filter, distinct, ty })
    }

    /// Drops a widening cast of a decimal column: the sum for an average of the column is the same.
    fn before_widening(&self, argument: Expr) -> Expr {
        let ExprKind::Column(column) = argument.kind else { return argument };
        let Some((_, own)) = self.scope.columns.iter().find(|(index, _)| *index == column) else { return argument };
        match (&own.logical, &argument.ty.logical) {
            (DataType::Decimal128(_, a), DataType::Decimal128(_, b)) if a == b => Expr::column(column, (*own).clone()),
            _ => argument,
        }
    }

    /// The type of an aggregate's result. Its integer representation also is the accumulator's.
    pub fn ty(
        &self,
        function: AggregateFunction,
        logical: &DataType,
        argument: Option<&Expr>,
        filtered: bool,
    ) -> Option<ColType> {
        let counts = matches!(function, AggregateFunction::Count | AggregateFunction::CountStar);
        // The variance of a sample of one value is NULL.
        let sample = matches!(function, AggregateFunction::VarSamp | AggregateFunction::StddevSamp);
        let absent = !self.grouped || filtered || sample || argument.is_some_and(|a| a.ty.nullable);
        let nullable = !counts && absent;
        let ty = ColType::of(logical, nullable)?;
        Some(match function {
            AggregateFunction::Count | AggregateFunction::CountStar => {
                let most = self.rows.bound.and_then(|n| i128::try_from(n).ok()).unwrap_or(i128::MAX);
                ColType { phys: Phys::I64, ..ty.narrowed((0, most)) }
            }
            AggregateFunction::Min | AggregateFunction::Max | AggregateFunction::AnyValue => {
                ColType { logical: logical.clone(), ..argument?.ty.with_nullable(nullable) }
            }
            AggregateFunction::Sum if ty.phys.is_int() => self.sum(ty, argument?)?,
            AggregateFunction::Sum => Some(ty).filter(|ty| argument.is_some_and(|a| a.ty.phys == ty.phys))?,
            AggregateFunction::Avg if ty.phys.is_int() => average(ty, argument?)?,
            AggregateFunction::Avg if argument.is_some_and(|a| a.ty.phys.is_int()) => ty,
            AggregateFunction::Avg => Some(ty).filter(|ty| argument.is_some_and(|a| a.ty.phys == ty.phys))?,
            AggregateFunction::StddevSamp
            | AggregateFunction::StddevPop
            | AggregateFunction::VarSamp
            | AggregateFunction::VarPop => {
                Some(ty).filter(|ty| ty.phys == Phys::F64 && argument.is_some_and(|a| a.ty.phys == Phys::F64))?
            }
            AggregateFunction::BoolAnd | AggregateFunction::BoolOr => ty,
            AggregateFunction::OfPairs(PairFunction::Count) => ty.with_nullable(false),
            AggregateFunction::OfPairs(_) => Some(ty.with_nullable(true))
                .filter(|ty| ty.phys == Phys::F64 && argument.is_some_and(|a| a.ty.phys == Phys::F64))?,
        })
    }

    /// The type of an integer sum: the narrowest accumulator that cannot overflow.
    pub fn sum(&self, ty: ColType, argument: &Expr) -> Option<ColType> {
        let (lo, hi) = argument.ty.range?;
        let (lo, hi) = (lo.min(0), hi.max(0));
        let total = |value: i128| i128::try_from(self.rows.bound?).ok()?.checked_mul(value);
        let proven = total(lo).zip(total(hi));
        let bounds = ColType::range_of(&ty.logical)?;
        let clipped = |(lo, hi): (i128, i128)| (lo.max(bounds.0), hi.min(bounds.1));
        let (range, phys) = match proven {
            // Narrower than 64 bits would save nothing: rows are added up in registers.
            Some(range) if Phys::for_range(range) <= Phys::I64 => (clipped(range), Phys::I64),
            proven => {
                let max = lo.unsigned_abs().max(hi.unsigned_abs()) as f64;
                let likely = self.rows.likely * max * ESTIMATE_MARGIN;
                let phys = if !self.wide && likely < i64::MAX as f64 { Phys::I64 } else { Phys::I128 };
                let widest =
                    if phys == Phys::I64 { (i64::MIN.into(), i64::MAX.into()) } else { (i128::MIN, i128::MAX) };
                let range = clipped(proven.unwrap_or(widest));
                ((range.0.max(widest.0), range.1.min(widest.1)), phys)
            }
        };
        Some(ColType { range: Some(range), phys, ..ty })
    }
}

/// The exact number that `argument` casts to a float, if it does: averages of it are floats, too.
pub(super) fn before_float_cast(argument: Expr) -> Expr {
    match argument.kind {
        ExprKind::Cast { input, .. }
            if argument.ty.phys == Phys::F64 && input.ty.phys.is_int() && input.ty.logical.is_numeric() =>
        {
            *input
        }
        kind => Expr { kind, ..argument },
    }
}

/// The type of a decimal average, which lies between the least and the greatest value.
fn average(ty: ColType, argument: &Expr) -> Option<ColType> {
    let scale = |logical: &DataType| match logical {
        DataType::Decimal128(_, s) => Some(i32::from(*s)),
        _ => None,
    };
    let digits = u32::try_from(scale(&ty.logical)? - scale(&argument.ty.logical)?).ok()?;
    let (factor, (lo, hi)) = (10i128.checked_pow(digits)?, argument.ty.range?);
    Some(match lo.checked_mul(factor).zip(hi.checked_mul(factor)) {
        Some(range) => ty.narrowed(range),
        None => ty,
    })
}

pub(super) fn named(name: &str) -> Option<AggregateFunction> {
    Some(match name {
        "count" => AggregateFunction::Count,
        "sum" => AggregateFunction::Sum,
        "min" => AggregateFunction::Min,
        "max" => AggregateFunction::Max,
        "avg" => AggregateFunction::Avg,
        "stddev" => AggregateFunction::StddevSamp,
        "stddev_pop" => AggregateFunction::StddevPop,
        "var" => AggregateFunction::VarSamp,
        "var_pop" => AggregateFunction::VarPop,
        "bool_and" => AggregateFunction::BoolAnd,
        "bool_or" => AggregateFunction::BoolOr,
        "first_value" | "any_value" => AggregateFunction::AnyValue,
        _ => AggregateFunction::OfPairs(PairFunction::named(name)?),
    })
}
