//! Comparison of intervals by length, with months of 30 days and days of 24 hours.
//!
//! Arrow compares months, then days, then the rest, so that 25 hours are less than a day.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::{DFSchema, Result, not_impl_err};
use datafusion::logical_expr::expr::{AggregateFunction, InList, ScalarFunction, Sort, WindowFunction};
use datafusion::logical_expr::{
    Between, BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast,
};

use super::casts::of_one;
use super::operators::strict_cast;
use super::types::HUGEINT;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Refuses a plan node that takes rows with equal intervals for one: equal lengths are written in several ways.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    let has = |schema: &DFSchema| schema.fields().iter().any(|field| is_interval(field.data_type()));
    let refused = match plan {
        LogicalPlan::Distinct(distinct) => has(distinct.input().schema()),
        LogicalPlan::Aggregate(aggregate) => {
            let schema = aggregate.input.schema();
            let is = |key: &Expr| key.get_type(schema).is_ok_and(|ty| is_interval(&ty));
            aggregate.group_expr.iter().any(|key| match key {
                Expr::GroupingSet(sets) => sets.distinct_expr().into_iter().any(is),
                key => is(key),
            })
        }
        LogicalPlan::Join(join) => {
            join.on.iter().any(|(key, _)| key.get_type(join.left.schema()).is_ok_and(|ty| is_interval(&ty)))
        }
        _ => false,
    };
    if refused { not_impl_err!("groups, sets and joins of equal values of the type INTERVAL") } else { Ok(()) }
}

/// A key of ORDER BY.
pub(super) fn sorted(mut key: Sort, schema: &DFSchema) -> Result<Sort> {
    if is_interval(&key.expr.get_type(schema)?) {
        key.expr = length(key.expr);
    }
    Ok(key)
}

/// Rewrites one expression whose operands are bound.
pub(super) fn expression(e: Expr, schema: &DFSchema) -> Result<Expr> {
    let is = |e: &Expr| e.get_type(schema).map(|ty| is_interval(&ty));
    match e {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) && (is(&left)? || is(&right)?) => {
            let [left, right] = [*left, *right].map(|e| Box::new(length(e)));
            Ok(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::Between(Between { expr, negated, low, high }) if is(&expr)? || is(&low)? || is(&high)? => {
            let [expr, low, high] = [*expr, *low, *high].map(|e| Box::new(length(e)));
            Ok(Expr::Between(Between { expr, negated, low, high }))
        }
        Expr::InList(InList { expr, list, negated }) if is(&expr)? => {
            let list = list.into_iter().map(length).collect();
            Ok(Expr::InList(InList { expr: Box::new(length(*expr)), list, negated }))
        }
        Expr::InSubquery(list) if is(&list.expr)? => not_impl_err!("IN (SELECT ...) of the type INTERVAL"),
        Expr::SetComparison(set) if is(&set.expr)? => not_impl_err!("ANY and ALL of the type INTERVAL"),
        Expr::ScalarFunction(call) if matches!(call.func.name(), "greatest" | "least" | "nullif") => {
            refuse_of(call.func.name(), &call.args, schema)?;
            Ok(Expr::ScalarFunction(call))
        }
        Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
            let compares = matches!(func.name(), "min" | "max" | "median");
            if compares || params.distinct && func.name() != "mean" {
                refuse_of(func.name(), &params.args, schema)?;
            }
            params.order_by = params.order_by.into_iter().map(|key| sorted(key, schema)).collect::<Result<_>>()?;
            Ok(Expr::AggregateFunction(AggregateFunction { func, params }))
        }
        Expr::WindowFunction(mut window) => {
            if matches!(window.fun.name(), "min" | "max") {
                refuse_of(window.fun.name(), &window.params.args, schema)?;
            }
            refuse_of("PARTITION BY", &window.params.partition_by, schema)?;
            let order = std::mem::take(&mut window.params.order_by);
            let order_by = order.into_iter().map(|key| sorted(key, schema)).collect::<Result<_>>()?;
            let params = datafusion::logical_expr::expr::WindowFunctionParams { order_by, ..window.params };
            Ok(Expr::from(WindowFunction { fun: window.fun, params }))
        }
        e => Ok(e),
    }
}

fn refuse_of(name: &str, args: &[Expr], schema: &DFSchema) -> Result<()> {
    match args.iter().any(|arg| arg.get_type(schema).is_ok_and(|ty| is_interval(&ty))) {
        true => not_impl_err!("{name} of the type INTERVAL"),
        false => Ok(()),
    }
}

fn is_interval(ty: &DataType) -> bool {
    matches!(ty, DataType::Interval(_))
}

pub(super) fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// The length of an interval, or of a difference of timestamps.
fn length(e: Expr) -> Expr {
    let function = Arc::new(ScalarUDF::from(Length { signature: Signature::any(1, Volatility::Immutable) }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![cast(e, INTERVAL)]))
}

/// The nanoseconds of an interval.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Length {
    signature: Signature,
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        "interval_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(HUGEINT)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_one(&args.args, |array| {
            let lengths = lengths(&strict_cast(array, &INTERVAL)?);
            Ok(Arc::new(lengths.with_precision_and_scale(38, 0)?) as ArrayRef)
        })
    }
}

/// The nanoseconds of intervals.
pub(super) fn lengths(intervals: &ArrayRef) -> Decimal128Array {
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    intervals.iter().map(|interval| interval.map(nanos)).collect()
}

fn nanos(interval: IntervalMonthDayNano) -> i128 {
    const DAY: i128 = 86_400_000_000_000;
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    days * DAY + i128::from(interval.nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_count_months_of_30_days() {
        let of = |months, days, hours: i64| nanos(IntervalMonthDayNano::new(months, days, hours * 3_600_000_000_000));
        assert_eq!(of(1, 0, 0), of(0, 30, 0));
        assert_eq!(of(0, 1, 0), of(0, 0, 24));
        assert!(of(0, 0, 25) > of(0, 1, 0) && of(-1, 31, 0) > of(0, 0, 23));
        assert!(of(i32::MIN, i32::MIN, 0) < of(i32::MAX, i32::MAX, 0));
    }
}
