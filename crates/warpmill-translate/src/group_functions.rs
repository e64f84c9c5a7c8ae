//! User-defined aggregate functions in the host's language that devices run: an aggregation with them becomes a separate sink.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use warpmill_ir::{
    ColType, Expr, Field, FunctionCall, GroupFunction, JoinKind, Operator, Phys, Probe, Sink, Source, Unsupported,
};

use super::aggregate::{Context, group_counts};
use super::expr::{Scope, convert};
use super::stream::Stream;
use super::{Translator, scope};

/// Looks up the translated function of an aggregate function for argument types, or the reason why it is not translated; `None` for other aggregate
/// functions.
pub type GroupFunctions<'a> = dyn Fn(&AggregateUDF, &[DataType]) -> Option<Result<Arc<GroupFunction>, String>> + 'a;

impl Translator<'_> {
    /// Whether an aggregation calls a host-language function that devices may run.
    pub(super) fn calls_functions(&self, node: &AggregateExec) -> bool {
        node.aggr_expr().iter().any(|call| self.function_of(node, call).is_some())
    }

    fn function_of(
        &self,
        node: &AggregateExec,
        call: &AggregateFunctionExpr,
    ) -> Option<Result<Arc<GroupFunction>, String>> {
        let schema = node.input_schema();
        let types = call.expressions().iter().map(|arg| arg.data_type(&schema)).collect::<Result<Vec<_>, _>>();
        (self.options.group_functions)(call.fun(), &types.ok()?)
    }

    /// Translates `node`, whose rows are grouped by `first`. Other aggregates are computed from the same rows and joined on the groups.
    pub(super) fn functions(&mut self, node: &AggregateExec, first: &AggregateExec) -> Result<Stream, Unsupported> {
        let (stream, groups) = self.rows_and_keys(first)?;
        let schema = first.input().schema();
        let scope = scope(&stream, &schema);
        let context =
            Context { scope: &scope, rows: stream.rows, grouped: !groups.is_empty(), wide: self.options.wide_sums };
        let (mut calls, mut aggregates, mut results) = (vec![], vec![], vec![]);
        for (call, filter) in first.aggr_expr().iter().zip(first.filter_expr()) {
            match self.function_of(first, call) {
                Some(function) => {
                    results.push(Computed::Function(calls.len()));
                    calls.push(function_call(&scope, call, (function, filter.is_some()))?);
                }
                None => {
                    results.push(Computed::Aggregate(aggregates.len()));
                    aggregates.push(context.aggregate(call, filter.as_ref())?);
                }
            }
        }
        if first.group_expr().has_grouping_set() {
            if !aggregates.is_empty() {
                return Err(Unsupported::new("functions of groups", "beside other aggregates, over grouping sets"));
            }
            return self.function_sets((node, first), stream, (groups, calls));
        }
        let names = Names { schema: node.schema(), keys: groups.len(), results };
        if aggregates.is_empty() {
            return Ok(self.of_functions(stream, &names, groups, calls));
        }
        if groups.iter().any(|group| matches!(group.ty.phys, Phys::F32 | Phys::F64)) {
            return Err(Unsupported::new("functions of groups", "beside other aggregates, by floats"));
        }
        let kept = self.kept(stream);
        let functions = self.of_functions(kept.again(), &names, groups.clone(), calls);
        let (rows, _) = group_counts(&kept, &groups, aggregates.len());
        let types = groups.iter().map(|key| &key.ty).chain(aggregates.iter().map(|aggregate| &aggregate.ty));
        let fields: Vec<Field> = names.fields(|of| matches!(of, Computed::Aggregate(_)), types);
        let sink = self.finish(kept, Sink::Aggregate { groups, aggregates, fields: fields.clone() });
        let aggregates = Stream::of_source(Source::Rows { sink, fields }, rows);
        Ok(self.joined_by_groups(&names, functions, aggregates))
    }

    /// Ends `stream` in a sink of group functions.
    fn of_functions(&mut self, stream: Stream, names: &Names, groups: Vec<Expr>, calls: Vec<FunctionCall>) -> Stream {
        let types = groups.iter().map(|group| &group.ty).chain(calls.iter().map(|call| &call.ty));
        let fields: Vec<Field> = names.fields(|of| matches!(of, Computed::Function(_)), types);
        let (rows, distinct) = group_counts(&stream, &groups, calls.len());
        let sink = self.finish(stream, Sink::Functions { groups, calls, fields: fields.clone() });
        Stream { distinct, ..Stream::of_source(Source::Rows { sink, fields }, rows) }
    }

    /// Joins the groups of `functions` with the results of `aggregates` for the same groups.
    fn joined_by_groups(&mut self, names: &Names, mut functions: Stream, aggregates: Stream) -> Stream {
        let count = names.keys;
        let column = |stream: &Stream, at: usize| Expr::column(at, stream.fields[at].ty.clone());
        let built: Vec<Expr> = (0..count).map(|at| column(&aggregates, at)).collect();
        let keys = (0..count).map(|at| column(&functions, at)).collect();
        let payload: Vec<usize> = (count..aggregates.fields.len()).collect();
        let fields = aggregates.fields[count..].to_vec();
        let build = self.finish(
            aggregates,
            Sink::HashBuild {
                keys: built,
                payload,
                fields: fields.clone(),
                null_equals_null: true,
                track_matches: false,
                order: None,
            },
        );
        let width = functions.fields.len();
        let places = names.results.iter().map(|of| match of {
            Computed::Function(at) => count + at,
            Computed::Aggregate(at) => width + at,
        });
        let output: Vec<usize> = (0..count).chain(places).collect();
        let both: Vec<Field> = functions.fields.iter().chain(&fields).cloned().collect();
        let fields: Vec<Field> = output.iter().map(|&at| both[at].clone()).collect();
        functions.distinct = output.iter().map(|&at| functions.distinct.get(at).copied().flatten()).collect();
        functions.columns = (0..fields.len()).collect();
        functions.fields.clone_from(&fields);
        let (kind, residual, asof, range, null_aware) = (JoinKind::Inner, None, None, None, false);
        let probe = Probe { build, kind, keys, residual, asof, range, null_aware, output, fields };
        for branch in &mut functions.branches {
            branch.origin = vec![vec![]; probe.fields.len()];
            branch.operators.push(Operator::Probe(probe.clone()));
        }
        functions
    }
}

/// The stream that computes a call's result, and the result's index there.
#[derive(Debug, Clone, Copy)]
enum Computed {
    Function(usize),
    Aggregate(usize),
}

/// The result columns of an aggregation.
struct Names {
    schema: SchemaRef,
    keys: usize,
    results: Vec<Computed>,
}

impl Names {
    /// The fields of the keys and of the results of one stream, with `types`.
    fn fields<'a>(&self, here: impl Fn(Computed) -> bool, types: impl Iterator<Item = &'a ColType>) -> Vec<Field> {
        let results = self.results.iter().enumerate().filter(|(_, of)| here(**of)).map(|(at, _)| self.keys + at);
        let named = (0..self.keys).chain(results).zip(types);
        named.map(|(at, ty)| Field { name: self.schema.field(at).name().clone(), ty: ty.clone() }).collect()
    }
}

/// Translates a call of a group function, which may have a filter.
fn function_call(
    scope: &Scope<'_>,
    call: &AggregateFunctionExpr,
    (function, is_filtered): (Result<Arc<GroupFunction>, String>, bool),
) -> Result<FunctionCall, Unsupported> {
    let refuse = |reason: &str| Unsupported::new(call.fun().name(), reason);
    if is_filtered {
        return Err(refuse("FILTER"));
    }
    if call.is_distinct() || !call.order_bys().is_empty() {
        return Err(refuse("DISTINCT or ORDER BY"));
    }
    let function = function.map_err(|reason| refuse(&reason))?;
    let arguments = call.expressions();
    let arguments = arguments.iter().map(|argument| in_text(scope.expr(argument)?));
    let arguments = arguments.collect::<Result<Vec<_>, Unsupported>>()?;
    let ty = ColType::of(call.field().data_type(), true).ok_or_else(|| refuse("results of this type"))?;
    Ok(FunctionCall { function, arguments, ty })
}

/// Converts an argument to a type that translated functions take: booleans, 64-bit integers, and 64-bit floats for all other numbers.
fn in_text(argument: Expr) -> Result<Expr, Unsupported> {
    let is_decimal = matches!(
        argument.ty.logical,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..)
    );
    match argument.ty.phys {
        Phys::Bool | Phys::F64 => Ok(argument),
        Phys::I32 | Phys::I64 if !is_decimal => Ok(argument),
        phys if phys.is_int() && !is_decimal => {
            Err(Unsupported::new("functions of groups", "whole numbers that may have more than 64 bits"))
        }
        _ => convert(argument, &DataType::Float64, false),
    }
}
