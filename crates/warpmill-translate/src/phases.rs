//! The two phases of a distributed aggregation: each site aggregates its rows to *states*, which are merged per group.
//!
//! States are columns in DataFusion's format (`AggregateUDFImpl::state_fields`), so that either phase may be Warpmill's or DataFusion's: the state of
//! a count is a count, of a sum a sum, of a minimum a value, and of an average the count and the sum of its values.

use arrow::datatypes::{DataType, Field as ArrowField, SchemaRef};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use warpmill_ir::{
    AggregateExpr, AggregateFunction, ArithOp, ColType, Expr, ExprKind, Field, Function, Phys, Scalar, Sink, Source,
    Unsupported,
};

use super::aggregate::{Context, before_float_cast, group_counts, named, partial};
use super::expr::{Limit, convert};
use super::stream::Stream;
use super::{Translator, scope};

/// A phase of an aggregation whose other phase runs elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Rows to states.
    First,
    /// States to results.
    Second,
}

impl Phase {
    /// The phase of `node`; `None` if it is a whole aggregation together with the node below.
    pub fn of(node: &AggregateExec) -> Option<Self> {
        match node.mode() {
            AggregateMode::Partial => Some(Self::First),
            AggregateMode::Final | AggregateMode::FinalPartitioned if partial(node.input()).is_none() => {
                Some(Self::Second)
            }
            _ => None,
        }
    }
}

/// Largest number of digits of an integer sum.
const WIDEST: u8 = 38;

impl Translator<'_> {
    /// Translates the phase from rows to states.
    pub(super) fn first_phase(&mut self, node: &AggregateExec) -> Result<Stream, Unsupported> {
        if node.group_expr().has_grouping_set() {
            return Err(Unsupported::new("AggregateExec", "grouping sets"));
        }
        let (stream, groups) = self.rows_and_keys(node)?;
        let schema = node.input().schema();
        let scope = scope(&stream, &schema);
        let context =
            Context { scope: &scope, rows: stream.rows, grouped: !groups.is_empty(), wide: self.options.wide_sums };
        let mut aggregates = vec![];
        for (call, filter) in node.aggr_expr().iter().zip(node.filter_expr()) {
            match kind(call)? {
                Kind::Average => {
                    let [count, sum] = average_states(&context, call, context.aggregate(call, filter.as_ref())?)?;
                    aggregates.extend([count, sum]);
                }
                Kind::Count | Kind::Sum | Kind::Same => aggregates.push(context.aggregate(call, filter.as_ref())?),
            }
        }
        self.states(node, stream, groups, aggregates)
    }

    /// Ends `stream` in an aggregation that returns the states of `node`.
    fn states(
        &mut self,
        node: &AggregateExec,
        stream: Stream,
        groups: Vec<Expr>,
        aggregates: Vec<AggregateExpr>,
    ) -> Result<Stream, Unsupported> {
        let schema = node.schema();
        if groups.len() + aggregates.len() != schema.fields().len() {
            return Err(Unsupported::new("AggregateExec", "states that are not DataFusion's"));
        }
        let types = groups.iter().map(|group| &group.ty).chain(aggregates.iter().map(|aggregate| &aggregate.ty));
        let fields: Vec<Field> = named_fields(&schema, types);
        let (rows, distinct) = group_counts(&stream, &groups, aggregates.len());
        let sink = self.finish(stream, Sink::Aggregate { groups, aggregates, fields: fields.clone() });
        let mut stream = Stream { distinct, ..Stream::of_source(Source::Rows { sink, fields: fields.clone() }, rows) };
        if fields.iter().zip(schema.fields()).any(|(own, field)| own.ty.logical != *field.data_type()) {
            let list = fields.into_iter().zip(schema.fields()).enumerate();
            let list = list.map(|(at, (own, field))| column_as(at, own, field)).collect::<Result<_, _>>()?;
            stream.project(list);
        }
        Ok(stream)
    }

    /// Translates the phase from states to results.
    pub(super) fn second_phase(&mut self, node: &AggregateExec) -> Result<Stream, Unsupported> {
        let stream = self.stream(node.input())?;
        let input = node.input().schema();
        let scope = scope(&stream, &input);
        let limit = Limit::of_keys(stream.rows.likely);
        let groups = node.group_expr().expr().iter().map(|(group, _)| Ok(limit.encode(scope.expr(group)?)));
        let groups = groups.collect::<Result<Vec<_>, Unsupported>>()?;
        let context =
            Context { scope: &scope, rows: stream.rows, grouped: !groups.is_empty(), wide: self.options.wide_sums };
        let state = |at: usize| -> Result<Expr, Unsupported> {
            let column = stream.columns.get(at).copied();
            let column = column.ok_or_else(|| Unsupported::new("AggregateExec", "states that are not DataFusion's"))?;
            Ok(Expr::column(column, stream.fields[column].ty.clone()))
        };
        let (mut aggregates, mut at, mut results) = (vec![], groups.len(), vec![]);
        for call in node.aggr_expr() {
            let kind = kind(call)?;
            let merged: &[AggregateFunction] = match kind {
                Kind::Count | Kind::Sum => &[AggregateFunction::Sum],
                Kind::Average => &[AggregateFunction::Sum, AggregateFunction::Sum],
                Kind::Same => &[named(call.fun().name()).expect("its kind is known")],
            };
            results.push((kind, groups.len() + aggregates.len()));
            for (part, &function) in merged.iter().enumerate() {
                // The count of an average is an unsigned 64-bit integer.
                let counts = kind == Kind::Average && part == 0;
                let logical = if counts { DataType::Decimal128(WIDEST, 0) } else { call.field().data_type().clone() };
                aggregates.push(merge(&context, call, function, &logical, state(at)?)?);
                at += 1;
            }
        }
        if at != stream.columns.len() {
            return Err(Unsupported::new("AggregateExec", "states that are not DataFusion's"));
        }
        self.merged(node, stream, groups, aggregates, &results)
    }

    /// Ends `stream` in an aggregation of states, and computes `results`: each call's kind and the first column of its merged states.
    fn merged(
        &mut self,
        node: &AggregateExec,
        stream: Stream,
        groups: Vec<Expr>,
        aggregates: Vec<AggregateExpr>,
        results: &[(Kind, usize)],
    ) -> Result<Stream, Unsupported> {
        let types = groups.iter().map(|group| &group.ty).chain(aggregates.iter().map(|aggregate| &aggregate.ty));
        let fields: Vec<Field> =
            types.enumerate().map(|(at, ty)| Field { name: format!("state {at}"), ty: ty.clone() }).collect();
        let (rows, distinct) = group_counts(&stream, &groups, aggregates.len());
        let keys = groups.len();
        let sink = self.finish(stream, Sink::Aggregate { groups, aggregates, fields: fields.clone() });
        let mut stream = Stream { distinct, ..Stream::of_source(Source::Rows { sink, fields: fields.clone() }, rows) };
        let column = |at: usize| Expr::column(at, fields[at].ty.clone());
        let groups = (0..keys).map(|at| Ok(column(at)));
        let results = results.iter().map(|&(kind, at)| match kind {
            Kind::Same | Kind::Sum => Ok(column(at)),
            Kind::Count => Ok(or_zero(column(at))),
            Kind::Average => {
                let (count, sum) = (convert(column(at), &DataType::Float64, false)?, column(at + 1));
                let ty = sum.ty.clone().with_nullable(true);
                let (left, right) = (Box::new(sum), Box::new(count));
                Ok(Expr { kind: ExprKind::Arith { op: ArithOp::Div, left, right, checked: false }, ty })
            }
        });
        let schema = node.schema();
        let list = groups.chain(results).zip(schema.fields()).map(|(expr, field): (Result<Expr, Unsupported>, _)| {
            let expr = expr?;
            Ok((Field { name: field.name().clone(), ty: expr.ty.clone() }, expr))
        });
        let list = list.collect::<Result<Vec<_>, Unsupported>>()?;
        stream.project(list);
        Ok(stream)
    }
}

/// How the states of a call are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Counts are summed.
    Count,
    /// Sums are summed.
    Sum,
    /// Merged with the aggregate function itself.
    Same,
    /// A count and a sum are summed.
    Average,
}

fn kind(call: &AggregateFunctionExpr) -> Result<Kind, Unsupported> {
    let refuse = |reason: &str| Unsupported::new(call.name(), format!("{reason} whose phases are apart"));
    let function = named(call.fun().name()).ok_or_else(|| refuse("this aggregate function"))?;
    if call.is_distinct() && !matches!(function, AggregateFunction::Min | AggregateFunction::Max) {
        return Err(refuse("DISTINCT"));
    }
    match function {
        AggregateFunction::Count | AggregateFunction::CountStar => Ok(Kind::Count),
        AggregateFunction::Sum => Ok(Kind::Sum),
        AggregateFunction::Min | AggregateFunction::Max | AggregateFunction::BoolAnd | AggregateFunction::BoolOr => {
            Ok(Kind::Same)
        }
        AggregateFunction::Avg if *call.field().data_type() == DataType::Float64 => Ok(Kind::Average),
        _ => Err(refuse("this aggregate function")),
    }
}

/// The count and the sum for `average`.
fn average_states(
    context: &Context<'_>,
    call: &AggregateFunctionExpr,
    average: AggregateExpr,
) -> Result<[AggregateExpr; 2], Unsupported> {
    let unsupported = || Unsupported::new(call.name(), "an average of this type whose phases are apart");
    let AggregateExpr { argument, filter, distinct, .. } = average;
    let argument = before_float_cast(argument.ok_or_else(unsupported)?);
    let filtered = filter.is_some();
    let state = |function, logical: &DataType, argument: Option<Expr>| {
        let ty = context.ty(function, logical, argument.as_ref(), filtered).ok_or_else(unsupported)?;
        Ok(AggregateExpr { function, argument, second: None, filter: filter.clone(), distinct, ty })
    };
    let count = match argument.ty.nullable {
        true => state(AggregateFunction::Count, &DataType::Int64, Some(argument.clone()))?,
        false => state(AggregateFunction::CountStar, &DataType::Int64, None)?,
    };
    // Exact in any order of rows; the final result is a float.
    let logical = match &argument.ty.logical {
        DataType::Decimal128(_, scale) => DataType::Decimal128(WIDEST, *scale),
        ty if ty.is_integer() => DataType::Decimal128(WIDEST, 0),
        DataType::Float64 => DataType::Float64,
        _ => return Err(unsupported()),
    };
    Ok([count, state(AggregateFunction::Sum, &logical, Some(argument))?])
}

/// The aggregate that merges states.
fn merge(
    context: &Context<'_>,
    call: &AggregateFunctionExpr,
    function: AggregateFunction,
    logical: &DataType,
    state: Expr,
) -> Result<AggregateExpr, Unsupported> {
    let fits = match logical {
        DataType::Decimal128(WIDEST, 0) => state.ty.phys.is_int(),
        logical => state.ty.logical == *logical,
    };
    let ty = context.ty(function, logical, Some(&state), false).filter(|_| fits);
    let ty = ty.ok_or_else(|| Unsupported::new(call.name(), "states of this type"))?;
    Ok(AggregateExpr { function, argument: Some(state), second: None, filter: None, distinct: false, ty })
}

/// `count`, or zero if it is NULL.
fn or_zero(count: Expr) -> Expr {
    if !count.ty.nullable {
        return count;
    }
    let ty = count.ty.clone().with_nullable(false);
    let zero = Expr::literal(Scalar::Int(0), ty.clone());
    Expr { kind: ExprKind::Call { function: Function::Coalesce, args: vec![count, zero] }, ty }
}

/// Column `at`, converted to `field`.
fn column_as(at: usize, own: Field, field: &ArrowField) -> Result<(Field, Expr), Unsupported> {
    let column = Expr::column(at, own.ty);
    let column = if column.ty.logical == *field.data_type() || column.ty.phys == Phys::Code {
        column
    } else {
        convert(column, field.data_type(), false)?
    };
    Ok((Field { name: own.name, ty: column.ty.clone() }, column))
}

/// Names from the plan's schema, types as translated.
fn named_fields<'a>(schema: &SchemaRef, types: impl Iterator<Item = &'a ColType>) -> Vec<Field> {
    let named = schema.fields().iter().zip(types);
    named.map(|(field, ty)| Field { name: field.name().clone(), ty: ty.clone() }).collect()
}
