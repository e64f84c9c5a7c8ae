//! Rewrites `combine_aggr` to aggregates over the parts of states.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err, not_impl_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_aggregate::bit_and_or_xor::{bit_and_udaf, bit_or_udaf, bit_xor_udaf};
use datafusion::functions_aggregate::bool_and_or::{bool_and_udaf, bool_or_udaf};
use datafusion::functions_aggregate::first_last::{first_value_udaf, last_value_udaf};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::string_agg::string_agg_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::functions_nested::expr_fn::{array_repeat, flatten};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Expr, ExprSchemable, LogicalPlan, Operator, Projection, binary_expr, lit,
};

use super::State;
use super::bound::{arithmetic, constant_expr, when};
use super::kind::Kind;
use super::numbers::{self, What};
use super::packed::{packed, part};
use super::placeholders::Combined;
use crate::dialect::operators::{Op, convert};
use crate::dialect::{aggregates, casts, lists};

/// Splits an aggregation with `combine_aggr` into aggregates over parts of states, and a projection that packs their results into states.
pub(in crate::dialect) fn split(aggregate: Aggregate) -> Result<LogicalPlan> {
    if !aggregate.aggr_expr.iter().any(is_combined) {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let keys = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    let names: Vec<_> = aggregate.schema.iter().map(|(of, field)| (of.cloned(), field.name().clone())).collect();
    let mut parts = vec![];
    let mut wholes = vec![];
    for (e, (_, name)) in aggregate.aggr_expr.iter().zip(&names[keys..]) {
        let found = match e.clone().unalias() {
            Expr::AggregateFunction(call) if is_combined(e) => Some(Parts::of(&call, aggregate.input.schema())?),
            _ => None,
        };
        let at = parts.len();
        match &found {
            Some(found) => parts.extend(
                found.aggregates.iter().enumerate().map(|(at, e)| e.clone().alias(format!("{name}\u{1f}{at}"))),
            ),
            None => parts.push(e.clone()),
        }
        wholes.push((at, found));
    }
    let whole = LogicalPlan::Aggregate(Aggregate::try_new(aggregate.input, aggregate.group_expr, parts)?);
    let columns = whole.schema().columns();
    let schema = Arc::clone(whole.schema());
    let column = |at: usize| Expr::Column(columns[at].clone());
    let mut made: Vec<Expr> = (0..keys).map(column).collect();
    for ((at, found), (qualifier, name)) in wholes.into_iter().zip(names.into_iter().skip(keys)) {
        made.push(match found {
            Some(found) => {
                let results = (0..found.aggregates.len()).map(|part| column(keys + at + part)).collect();
                found.whole(results, &schema)?.alias_qualified(qualifier, name)
            }
            None => column(keys + at),
        });
    }
    Ok(LogicalPlan::Projection(Projection::try_new(made, Arc::new(whole))?))
}

fn is_combined(e: &Expr) -> bool {
    match e {
        Expr::Alias(alias) => is_combined(&alias.expr),
        Expr::AggregateFunction(call) => call.func.inner().downcast_ref::<Combined>().is_some(),
        _ => false,
    }
}

/// The call of another aggregate over those rows of `call` for which `present` holds.
fn over(call: &AggregateFunction, func: Arc<AggregateUDF>, args: Vec<Expr>, present: Option<Expr>) -> Expr {
    let mut params = AggregateFunctionParams { args, ..call.params.clone() };
    if let Some(present) = present {
        params.filter = Some(Box::new(match params.filter.take() {
            Some(filter) => present.and(*filter),
            None => present,
        }));
    }
    Expr::AggregateFunction(AggregateFunction { func, params })
}

/// The aggregates that replace a call of `combine_aggr`.
struct Parts {
    state: State,
    ty: DataType,
    aggregates: Vec<Expr>,
}

impl Parts {
    /// The aggregates for a call over rows of `schema`.
    fn of(call: &AggregateFunction, schema: &DFSchema) -> Result<Self> {
        let (given, times) = match call.params.args.as_slice() {
            [state] => (state, None),
            [state, times] => (state, Some(times)),
            args => return internal_err!("combine_aggr of {} arguments", args.len()),
        };
        let ty = given.get_type(schema)?;
        let Some(state) = State::of(&ty) else { return internal_err!("combine_aggr of what is no state") };
        if call.params.distinct {
            return not_impl_err!("combine_aggr of distinct states");
        }
        let given = match times {
            Some(times) => state.repeated(given, times, &ty, schema)?,
            None => given.clone(),
        };
        let there = given.clone().is_not_null();
        let types = state.part_types(&ty);
        let aggregates = match state.kind() {
            Kind::Moments(_) => vec![over(call, Arc::clone(&call.func), vec![given], None)],
            Kind::First => {
                let first = if state.takes_later(&ty) { last_value_udaf() } else { first_value_udaf() };
                vec![over(call, first, vec![given], Some(there))]
            }
            Kind::Extreme { greatest } => {
                let by = part(&given, 1, &types[1]);
                let mut first = over(call, first_value_udaf(), vec![given], Some(there));
                if let Expr::AggregateFunction(call) = &mut first {
                    call.params.order_by = vec![by.sort(!greatest, false)];
                }
                vec![first]
            }
            _ => {
                let combined = |(at, ty): (usize, &DataType)| {
                    let e = part(&given, at, ty);
                    let (func, args) = state.aggregate(e.clone(), schema)?;
                    let present = matches!(func.name(), "array_agg").then(|| e.is_not_null());
                    Ok(over(call, func, args, present))
                };
                types.iter().enumerate().map(combined).collect::<Result<_>>()?
            }
        };
        Ok(Self { state, ty, aggregates })
    }

    /// The state that the results of the aggregates, which are columns of `schema`, make.
    fn whole(&self, mut results: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
        let kind = self.state.kind();
        if matches!(kind, Kind::Moments(_) | Kind::First | Kind::Extreme { .. }) {
            return Ok(results.swap_remove(0));
        }
        let counts = matches!(kind, Kind::Count | Kind::PairCount | Kind::Average);
        let parts = results.into_iter().zip(self.state.part_types(&self.ty)).map(|(result, ty)| {
            let result = match kind {
                Kind::List | Kind::Values(_) => flatten(result),
                Kind::Product => lists::product(result),
                _ => result,
            };
            let result = casts::bind(result, &ty, false, schema)?;
            Ok(if counts { coalesce(vec![result, lit(ScalarValue::new_zero(&ty)?)]) } else { result })
        });
        Ok(packed(&self.ty, parts.collect::<Result<_>>()?))
    }
}

impl State {
    /// The aggregate that combines the parts `e` of states, with its arguments.
    fn aggregate(&self, e: Expr, schema: &DFSchema) -> Result<(Arc<AggregateUDF>, Vec<Expr>)> {
        let func = match self.kind() {
            Kind::Least => min_udaf(),
            Kind::Greatest => max_udaf(),
            Kind::All => bool_and_udaf(),
            Kind::Any => bool_or_udaf(),
            Kind::BitAnd => bit_and_udaf(),
            Kind::BitOr => bit_or_udaf(),
            Kind::BitXor => bit_xor_udaf(),
            Kind::List | Kind::Values(_) | Kind::Product => array_agg_udaf(),
            Kind::Text => {
                let by = self.constant.as_ref().map_or_else(|| lit(","), constant_expr);
                return Ok((string_agg_udaf(), vec![e, by]));
            }
            _ => sum_udaf(),
        };
        let args = aggregates::arguments(func.name(), vec![e], schema)?;
        let func = aggregates::checked(func, &args, schema)?;
        Ok((func, args))
    }

    /// A state `e` of type `ty` with weight `times`; NULL where `times` is 0.
    fn repeated(&self, e: &Expr, times: &Expr, ty: &DataType, schema: &DFSchema) -> Result<Expr> {
        let times =
            numbers::call(What::Times, &DataType::Int64, vec![convert(times.clone(), &DataType::Int64, schema)?]);
        let types = self.part_types(ty);
        let parts = types.iter().enumerate().map(|(at, ty)| {
            let e = part(e, at, ty);
            Ok(match self.kind() {
                Kind::Product => {
                    datafusion::functions::expr_fn::power(e, convert(times.clone(), &DataType::Float64, schema)?)
                }
                Kind::BitXor => {
                    let odd = binary_expr(times.clone(), Operator::Modulo, lit(2i64)).eq(lit(1i64));
                    when(odd, e.clone(), Some(binary_expr(e.clone(), Operator::BitwiseXor, e)))
                }
                Kind::List | Kind::Values(_) => {
                    let all = flatten(array_repeat(e.clone(), times.clone()));
                    when(e.is_not_null(), all, None)
                }
                Kind::Text => {
                    let by = self.constant.as_ref().map_or_else(|| lit(","), constant_expr);
                    let all = datafusion::functions_nested::expr_fn::array_to_string(
                        array_repeat(e.clone(), times.clone()),
                        by,
                    );
                    when(e.is_not_null(), all, None)
                }
                _ => arithmetic(Op::Multiply, e, convert(times.clone(), ty, schema)?, ty, schema)?,
            })
        });
        let repeated = match self.kind() {
            Kind::Moments(_) => numbers::call(What::Repeated, ty, vec![e.clone(), times.clone()]),
            Kind::Least
            | Kind::Greatest
            | Kind::All
            | Kind::Any
            | Kind::BitAnd
            | Kind::BitOr
            | Kind::First
            | Kind::Extreme { .. } => e.clone(),
            _ => packed(ty, parts.collect::<Result<_>>()?),
        };
        Ok(when(times.gt(lit(0i64)), repeated, None))
    }
}
