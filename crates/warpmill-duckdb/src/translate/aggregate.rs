//! Aggregations.

use datafusion::common::{Column, DFSchemaRef, ScalarValue};
use datafusion::functions_aggregate::expr_fn as aggregates;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{
    Aggregate, Case, Expr, ExprSchemable, GroupingSet, LogicalPlan, LogicalPlanBuilder, Operator, lit,
};

use super::Translator;
use super::exact;
use super::expr::{binary, cast_to};
use crate::Refused;
use crate::encoding::{self, Node};
use crate::types::{DIGITS, Type};

/// An aggregate of DuckDB's, computed from aggregates of DataFusion's.
struct Call {
    parts: Vec<Expr>,
    /// Computes the value from the columns of the parts.
    value: fn(&[Expr], Type, &Parts<'_>) -> Result<Expr, Refused>,
    ty: Type,
    argument: Option<Type>,
}

impl Call {
    /// The value of the call over an aggregation of its parts.
    fn result(&self, plan: &LogicalPlan, exact: bool) -> Result<Expr, Refused> {
        let column = |part: &Expr| Expr::Column(Column::new_unqualified(part.schema_name().to_string()));
        let columns: Vec<Expr> = self.parts.iter().map(column).collect();
        let context = Parts { schema: plan.schema(), argument: self.argument, exact };
        let value = (self.value)(&columns, self.ty, &context)?;
        cast_to(value, &self.ty.arrow(), plan.schema())
    }
}

/// The numbers of grouping sets in DataFusion: a bit for each key that a set does not have, with keys in the order of their first
/// occurrence and the last one in the lowest bit; in the bits above, the number of equal sets before.
fn numbers(sets: &[Vec<usize>]) -> Vec<u64> {
    let mut order: Vec<usize> = vec![];
    for &key in sets.iter().flatten() {
        if !order.contains(&key) {
            order.push(key);
        }
    }
    let own = |set: &Vec<usize>| order.iter().fold(0u64, |bits, key| bits << 1 | u64::from(!set.contains(key)));
    let all: Vec<u64> = sets.iter().map(own).collect();
    let before = |at: usize| all[..at].iter().filter(|other| **other == all[at]).count() as u64;
    (0..all.len()).map(|at| all[at] | before(at).checked_shl(order.len() as u32).unwrap_or(0)).collect()
}

/// The value of `of` for the grouping set of each row of `plan`, an aggregation by `sets`.
fn by_set(sets: &[Vec<usize>], plan: &LogicalPlan, of: impl Fn(&Vec<usize>) -> i64) -> Result<Expr, Refused> {
    let number = Expr::Column(Column::new_unqualified(Aggregate::INTERNAL_GROUPING_ID));
    let ty = number.get_type(plan.schema())?;
    let is = |value: u64| Ok::<_, Refused>(number.clone().eq(lit(ScalarValue::from(value).cast_to(&ty)?)));
    let branches = numbers(sets).into_iter().zip(sets);
    let branches = branches.map(|(value, set)| Ok((Box::new(is(value)?), Box::new(lit(of(set))))));
    let when_then_expr = branches.collect::<Result<Vec<_>, Refused>>()?;
    Ok(Expr::Case(Case { expr: None, when_then_expr, else_expr: None }))
}

struct Parts<'a> {
    schema: &'a DFSchemaRef,
    argument: Option<Type>,
    /// Whether an average is a value of the query's result, and DuckDB does not compute it from a sum and a count.
    exact: bool,
}

impl<'a> Translator<'a> {
    pub(super) fn aggregate(&mut self, node: &'a Node, top: bool) -> Result<LogicalPlan, Refused> {
        let Node::Aggregate { group, agg, groupings, groups, sets, grouping_functions, aggs, child } = node else {
            return Err(Refused::new("an aggregation of another kind"));
        };
        let (input, keys) = self.keys(*group, groups, child)?;
        let schema = input.schema().clone();
        let calls = aggs.iter().map(|call| self.call(call, &schema)).collect::<Result<Vec<_>, Refused>>()?;
        let mut parts: Vec<Expr> = Vec::new();
        for part in calls.iter().flat_map(|call| &call.parts) {
            if !parts.contains(part) {
                parts.push(part.clone());
            }
        }
        if keys.is_empty() && parts.is_empty() {
            return Err(Refused::new("an aggregation of nothing"));
        }
        let whole: Vec<usize> = (0..keys.len()).collect();
        let sets = if sets.is_empty() { std::slice::from_ref(&whole) } else { sets.as_slice() };
        let is_single = sets.len() == 1;
        let grouped = match sets {
            [set] => set.iter().map(|&key| keys[key].clone()).collect(),
            sets => {
                let sets = sets.iter().map(|set| set.iter().map(|&key| keys[key].clone()).collect()).collect();
                vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets))]
            }
        };
        let plan = LogicalPlanBuilder::from(input).aggregate(grouped, parts)?.build()?;
        let has = |key: usize| sets.iter().any(|set| set.contains(&key));
        let mut list = Vec::with_capacity(keys.len() + calls.len());
        for (i, key) in keys.iter().enumerate() {
            let name = self.name((*group, i as u64));
            let missing = || Ok::<_, Refused>(lit(ScalarValue::try_from(&key.get_type(&schema)?)?));
            list.push(if has(i) { key.clone() } else { missing()?.alias(name) });
        }
        for (i, call) in calls.iter().enumerate() {
            let shared = self.statement.duckdb >= 20_000 && (groups.is_empty() || is_shared(&aggs[i], aggs));
            let value = call.result(&plan, top && !shared)?;
            list.push(value.alias(self.name((*agg, i as u64))));
        }
        for (i, columns) in grouping_functions.iter().enumerate() {
            let table = groupings.ok_or_else(|| Refused::new("GROUPING without a name"))?;
            let bits = |set: &Vec<usize>| {
                columns.iter().fold(0i64, |bits, column| bits << 1 | i64::from(!set.contains(column)))
            };
            let value = if is_single { lit(bits(&sets[0])) } else { by_set(sets, &plan, bits)? };
            list.push(value.alias(self.name((table, i as u64))));
        }
        Ok(LogicalPlanBuilder::from(plan).project(list)?.build()?)
    }

    /// The input with the group keys as columns under the names of this node.
    fn keys(
        &mut self,
        group: u64,
        groups: &'a [encoding::Expr],
        child: &'a Node,
    ) -> Result<(LogicalPlan, Vec<Expr>), Refused> {
        let input = self.node(child)?;
        if groups.is_empty() {
            return Ok((input, vec![]));
        }
        let mut list: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
        let mut keys = Vec::with_capacity(groups.len());
        for (i, key) in groups.iter().enumerate() {
            let name = self.name((group, i as u64));
            list.push(self.expr(key, input.schema())?.alias(name.as_str()));
            keys.push(Expr::Column(Column::new_unqualified(name)));
        }
        Ok((LogicalPlanBuilder::from(input).project(list)?.build()?, keys))
    }

    fn call(&mut self, call: &'a encoding::Expr, schema: &DFSchemaRef) -> Result<Call, Refused> {
        let encoding::Expr::Agg { f, t, distinct, at, a, filter } = call else {
            return Err(Refused::new("an aggregate of another kind"));
        };
        let ty = Type::parse(t)?;
        let argument = at.first().map(|name| Type::parse(name)).transpose()?;
        let args = a.iter().map(|e| self.expr(e, schema)).collect::<Result<Vec<_>, Refused>>()?;
        let filter = filter.as_deref().map(|e| self.expr(e, schema)).transpose()?;
        let refused = || Refused::new(format!("the aggregate {f}({})", at.join(", ")));
        let with = |part: Expr| modified(part, *distinct, filter.clone());
        let one = |args: Vec<Expr>| <[Expr; 1]>::try_from(args).map_err(|_| refused()).map(|[x]| x);
        let is = |part: Expr| Call { parts: vec![with(part)], value: |c, _, _| Ok(c[0].clone()), ty, argument };
        let moment = |part: Expr| Call { parts: vec![with(part)], value: finite, ty, argument };
        Ok(match (f.as_str(), argument) {
            ("count_star", _) => is(aggregates::count(lit(1i64))),
            ("count", Some(_)) => is(aggregates::count(one(args)?)),
            ("min", Some(_)) => is(aggregates::min(one(args)?)),
            ("max", Some(_)) => is(aggregates::max(one(args)?)),
            ("sum", Some(from)) if is_summed_in_all_digits(from) => {
                Call { value: checked_digits, ..is(aggregates::sum(one(args)?)) }
            }
            ("sum", Some(Type::Double | Type::Decimal(..))) => is(aggregates::sum(one(args)?)),
            // Sums of integers have 128 bits.
            ("sum", Some(from)) if from.is_integer() => {
                let wide = arrow::datatypes::DataType::Decimal128(20, 0);
                is(aggregates::sum(cast_to(one(args)?, &wide, schema)?))
            }
            ("avg", Some(Type::Double)) => is(aggregates::avg(one(args)?)),
            ("avg", Some(from)) if from.scale().is_some() && from != Type::HugeInt => {
                let x = one(args)?;
                let wide = match from {
                    Type::Decimal(..) => x.clone(),
                    _ => cast_to(x.clone(), &arrow::datatypes::DataType::Decimal128(20, 0), schema)?,
                };
                Call {
                    parts: vec![with(aggregates::sum(wide)), with(aggregates::count(x))],
                    value: average_of,
                    ty,
                    argument,
                }
            }
            ("stddev_samp" | "stddev", Some(Type::Double)) => moment(aggregates::stddev(one(args)?)),
            ("stddev_pop", Some(Type::Double)) => moment(aggregates::stddev_pop(one(args)?)),
            ("var_samp" | "variance", Some(Type::Double)) => moment(aggregates::var_sample(one(args)?)),
            ("var_pop", Some(Type::Double)) => moment(aggregates::var_pop(one(args)?)),
            // Any value is allowed: the smallest one.
            ("any_value", Some(_)) => is(aggregates::min(one(args)?)),
            ("bool_and", Some(Type::Boolean)) => is(aggregates::bool_and(one(args)?)),
            ("bool_or", Some(Type::Boolean)) => is(aggregates::bool_or(one(args)?)),
            _ => return Err(refused()),
        })
    }
}

/// Whether a sum may have more digits than a decimal has.
fn is_summed_in_all_digits(ty: Type) -> bool {
    /// The number of digits that the number of rows adds.
    const ROWS: u8 = 10;
    match ty {
        Type::HugeInt => true,
        Type::Decimal(width, _) => width + ROWS > DIGITS,
        _ => false,
    }
}

/// A sum with one digit less than a decimal has; larger sums end the query on Warpmill.
fn checked_digits(columns: &[Expr], ty: Type, parts: &Parts<'_>) -> Result<Expr, Refused> {
    use arrow::datatypes::DataType::Decimal128;
    let scale = ty.scale().unwrap_or(0);
    let checked = cast_to(columns[0].clone(), &Decimal128(DIGITS - 1, scale), parts.schema)?;
    cast_to(checked, &Decimal128(DIGITS, scale), parts.schema)
}

fn modified(part: Expr, distinct: bool, filter: Option<Expr>) -> Expr {
    match part {
        Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
            params.distinct = distinct;
            params.filter = filter.map(Box::new);
            Expr::AggregateFunction(AggregateFunction { func, params })
        }
        part => part,
    }
}

/// Whether DuckDB computes an average from a sum or count of the same argument that the query has, too.
fn is_shared(average: &encoding::Expr, aggs: &[encoding::Expr]) -> bool {
    let encoding::Expr::Agg { a: argument, .. } = average else { return false };
    let argument = format!("{argument:?}");
    aggs.iter().any(|other| match other {
        encoding::Expr::Agg { f, a, distinct: false, filter: None, .. } if f == "sum" || f == "count" => {
            format!("{a:?}") == argument
        }
        _ => false,
    })
}

/// A variance or its root. Values that are not finite are an error, as in DuckDB.
fn finite(columns: &[Expr], _: Type, parts: &Parts<'_>) -> Result<Expr, Refused> {
    let value = columns[0].clone();
    // NaN is greater than all numbers; neither is a decimal.
    let decimal = arrow::datatypes::DataType::Decimal128(38, 0);
    let fails = cast_to(cast_to(value.clone(), &decimal, parts.schema)?, &Type::Double.arrow(), parts.schema)?;
    let other = (Box::new(value.clone().gt(lit(f64::MAX))), Box::new(fails));
    Ok(Expr::Case(Case::new(None, vec![other], Some(Box::new(value)))))
}

fn average_of(columns: &[Expr], _: Type, parts: &Parts<'_>) -> Result<Expr, Refused> {
    use arrow::datatypes::DataType::Float64;
    let scale = parts.argument.and_then(Type::scale).unwrap_or(0);
    let (mut sum, count) = (columns[0].clone(), columns[1].clone());
    if let Some(argument) = parts.argument.filter(|argument| is_summed_in_all_digits(*argument)) {
        sum = checked_digits(&[sum], argument, parts)?;
    }
    if parts.exact {
        let ty = sum.get_type(parts.schema)?;
        return Ok(exact::average(sum, count, scale.unsigned_abs(), ty));
    }
    let (sum, count) = (cast_to(sum, &Float64, parts.schema)?, cast_to(count, &Float64, parts.schema)?);
    Ok(binary(sum, Operator::Divide, count))
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn sets_have_numbers_by_their_keys() {
        let sets = [vec![2, 0], vec![0], vec![], vec![1], vec![0], vec![0]];
        // The keys in the order in which they come: 2, 0, 1.
        assert_eq!(numbers(&sets), [0b001, 0b101, 0b111, 0b110, 0b1_101, 0b10_101]);
        assert_eq!(numbers(&[vec![], vec![]]), [0, 1]);
    }
}
