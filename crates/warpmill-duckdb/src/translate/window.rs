//! Window functions.
//!
//! Their arguments are columns of a projection below, so that the window operator, which DataFusion may run, evaluates no expressions.

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchemaRef, ScalarValue};
use datafusion::functions_aggregate as aggregates;
use datafusion::functions_window as windows;
use datafusion::logical_expr::expr::{NullTreatment, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Case, Expr, LogicalPlan, LogicalPlanBuilder, Operator, SortExpr, WindowFrame, WindowFrameBound, WindowFrameUnits,
    WindowFunctionDefinition, lit,
};

use super::Translator;
use super::exact;
use super::expr::{binary, cast_to};
use crate::Refused;
use crate::encoding::{Node, WindowCall};
use crate::types::Type;

/// The number of digits of summed values: with any number of rows, their sums fit 128 bits.
const SUMMED_DIGITS: u8 = 28;

/// The aggregates from which a call is computed, and its value.
struct Parts {
    calls: Vec<Expr>,
    value: fn(&[Expr], Type, &DFSchemaRef) -> Result<Expr, Refused>,
    ty: Type,
    argument: Option<Type>,
}

impl<'a> Translator<'a> {
    /// The rows of `child`, with a column for each of `calls`.
    pub(super) fn window(
        &mut self,
        table: u64,
        calls: &'a [WindowCall],
        child: &'a Node,
    ) -> Result<LogicalPlan, Refused> {
        let input = self.node(child)?;
        let kept: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
        let mut read = Columns { prefix: format!("{}w{table}_", self.prefix), list: kept.clone(), own: 0 };
        let parts = calls.iter().map(|call| self.window_call(call, input.schema(), &mut read));
        let parts = parts.collect::<Result<Vec<_>, Refused>>()?;
        let plan = LogicalPlanBuilder::from(input).project(read.list)?.build()?;
        let mut all: Vec<Expr> = Vec::new();
        for call in parts.iter().flat_map(|parts| &parts.calls) {
            if !all.contains(call) {
                all.push(call.clone());
            }
        }
        // Calls over whole partitions come first: DataFusion requires the sort of the others' rows right below them.
        let whole = |call: &Expr| matches!(call, Expr::WindowFunction(call) if call.params.order_by.is_empty());
        let (unordered, ordered): (Vec<Expr>, Vec<Expr>) = all.into_iter().partition(whole);
        let mut plan = plan;
        for calls in [unordered, ordered] {
            if !calls.is_empty() {
                plan = LogicalPlanBuilder::window_plan(plan, calls)?;
            }
        }
        let mut list = kept;
        for (i, parts) in parts.iter().enumerate() {
            let column = |call: &Expr| Expr::Column(Column::new_unqualified(call.schema_name().to_string()));
            let columns: Vec<Expr> = parts.calls.iter().map(column).collect();
            let value = match (parts.argument, columns.as_slice()) {
                (Some(argument), [sum, count]) => average(sum, count, argument, plan.schema())?,
                _ => (parts.value)(&columns, parts.ty, plan.schema())?,
            };
            let value = cast_to(value, &parts.ty.arrow(), plan.schema())?;
            list.push(value.alias(self.name((table, i as u64))));
        }
        Ok(LogicalPlanBuilder::from(plan).project(list)?.build()?)
    }

    fn window_call(
        &mut self,
        call: &'a WindowCall,
        schema: &DFSchemaRef,
        read: &mut Columns,
    ) -> Result<Parts, Refused> {
        let ty = Type::parse(&call.t)?;
        let types = call.at.iter().map(|name| Type::parse(name)).collect::<Result<Vec<_>, Refused>>()?;
        let refused = || Refused::new(format!("the window function {}({})", call.f, call.at.join(", ")));
        let partition_by = call.partition.iter().map(|e| {
            let key = self.expr(e, schema)?;
            Ok(read.add(comparable(key, schema)?))
        });
        let partition_by = partition_by.collect::<Result<Vec<_>, Refused>>()?;
        let order_by = call.by.iter().map(|key| {
            let e = comparable(self.expr(&key.e, schema)?, schema)?;
            Ok(SortExpr::new(read.add(e), !key.desc, key.nulls_first))
        });
        let order_by = order_by.collect::<Result<Vec<_>, Refused>>()?;
        let args = call.a.iter().map(|e| self.expr(e, schema)).collect::<Result<Vec<_>, Refused>>()?;
        let frame = frame(call)?;
        let over = |fun: WindowFunctionDefinition, args: Vec<Expr>| {
            let null_treatment = call.ignore_nulls.then_some(NullTreatment::IgnoreNulls);
            let params = WindowFunctionParams {
                args,
                partition_by: partition_by.clone(),
                order_by: order_by.clone(),
                window_frame: frame.clone(),
                filter: None,
                null_treatment,
                distinct: false,
            };
            Expr::WindowFunction(Box::new(WindowFunction { fun, params }))
        };
        let is = |call: Expr| Parts { calls: vec![call], value: |c, _, _| Ok(c[0].clone()), ty, argument: None };
        let aggregate = |udf| WindowFunctionDefinition::AggregateUDF(udf);
        let function = |udf| WindowFunctionDefinition::WindowUDF(udf);
        let (argument, rest) = (args.first().cloned().zip(types.first().copied()), &args[1.min(args.len())..]);
        let whole = frame.start_bound == WindowFrameBound::Preceding(ScalarValue::UInt64(None));
        if !call.aggregate && (order_by.is_empty() || call.f == "ntile") {
            return Err(Refused::new(format!("{} without an order", call.f)));
        }
        Ok(match (call.f.as_str(), argument, rest) {
            ("row_number", None, []) => is(over(function(windows::row_number::row_number_udwf()), vec![])),
            ("rank", None, []) => is(over(function(windows::rank::rank_udwf()), vec![])),
            ("dense_rank" | "rank_dense", None, []) => is(over(function(windows::rank::dense_rank_udwf()), vec![])),
            ("percent_rank", None, []) => is(over(function(windows::rank::percent_rank_udwf()), vec![])),
            ("cume_dist", None, []) => is(over(function(windows::cume_dist::cume_dist_udwf()), vec![])),
            ("first_value" | "first", Some((x, _)), []) if !call.aggregate => {
                is(over(function(windows::nth_value::first_value_udwf()), vec![read.add(x)]))
            }
            ("last_value" | "last", Some((x, _)), []) if !call.aggregate => {
                is(over(function(windows::nth_value::last_value_udwf()), vec![read.add(x)]))
            }
            ("lag", Some((x, _)), rest) => {
                is(over(function(windows::lead_lag::lag_udwf()), shifted(read.add(x), rest, schema, ty)?))
            }
            ("lead", Some((x, _)), rest) => {
                is(over(function(windows::lead_lag::lead_udwf()), shifted(read.add(x), rest, schema, ty)?))
            }
            ("count" | "count_star", None, []) => is(over(aggregate(aggregates::count::count_udaf()), vec![lit(1i64)])),
            ("count", Some((x, _)), []) => is(over(aggregate(aggregates::count::count_udaf()), vec![read.add(x)])),
            ("min", Some((x, t)), []) if t.is_column() && !t.is_float() => {
                is(over(aggregate(aggregates::min_max::min_udaf()), vec![read.add(x)]))
            }
            ("max", Some((x, t)), []) if t.is_column() && !t.is_float() => {
                is(over(aggregate(aggregates::min_max::max_udaf()), vec![read.add(x)]))
            }
            // Rows that leave a frame are subtracted, which gives other sums of floats.
            ("sum", Some((x, Type::Double)), []) if whole => {
                is(over(aggregate(aggregates::sum::sum_udaf()), vec![read.add(x)]))
            }
            ("avg", Some((x, Type::Double)), []) if whole => {
                is(over(aggregate(aggregates::average::avg_udaf()), vec![read.add(x)]))
            }
            ("sum", Some((x, t)), []) if t.scale().is_some() => {
                let x = read.add(cast_to(x, &summed(t), schema)?);
                is(over(aggregate(aggregates::sum::sum_udaf()), vec![x]))
            }
            ("avg", Some((x, t)), []) if t.scale().is_some() && t != Type::HugeInt => {
                let x = read.add(cast_to(x, &summed(t), schema)?);
                let sum = over(aggregate(aggregates::sum::sum_udaf()), vec![x.clone()]);
                let count = over(aggregate(aggregates::count::count_udaf()), vec![x]);
                Parts { argument: Some(t), calls: vec![sum, count], ..is(lit(true)) }
            }
            _ => return Err(refused()),
        })
    }
}

/// The columns of the projection below.
struct Columns {
    prefix: String,
    list: Vec<Expr>,
    own: usize,
}

impl Columns {
    /// The column of the value of `e`.
    fn add(&mut self, e: Expr) -> Expr {
        if let Expr::Column(_) = e {
            return e;
        }
        let same = |other: &&Expr| matches!(other, Expr::Alias(alias) if *alias.expr == e);
        if let Some(Expr::Alias(known)) = self.list.iter().find(same) {
            return Expr::Column(Column::new_unqualified(known.name.clone()));
        }
        let name = format!("{}{}", self.prefix, self.own);
        self.own += 1;
        self.list.push(e.alias(name.as_str()));
        Expr::Column(Column::new_unqualified(name))
    }
}

/// A key whose equal values are also equal in DataFusion: floats with a single zero and a single NaN.
fn comparable(key: Expr, schema: &DFSchemaRef) -> Result<Expr, Refused> {
    use datafusion::logical_expr::ExprSchemable;
    if !matches!(key.get_type(schema)?, DataType::Float64 | DataType::Float32) {
        return Ok(key);
    }
    let key = cast_to(key, &DataType::Float64, schema)?;
    let infinite = key.clone().gt(lit(f64::INFINITY)).or(key.clone().lt(lit(f64::NEG_INFINITY)));
    let number = binary(key, Operator::Plus, lit(0.0));
    Ok(Expr::Case(Case::new(None, vec![(Box::new(infinite), Box::new(lit(f64::NAN)))], Some(Box::new(number)))))
}

/// The type in which values of an exact type are summed; larger values end the query on Warpmill.
fn summed(ty: Type) -> DataType {
    match ty {
        Type::Decimal(width, scale) => DataType::Decimal128(width.min(SUMMED_DIGITS), scale),
        Type::HugeInt => DataType::Decimal128(SUMMED_DIGITS, 0),
        _ => DataType::Decimal128(20, 0),
    }
}

fn average(sum: &Expr, count: &Expr, argument: Type, schema: &DFSchemaRef) -> Result<Expr, Refused> {
    let scale = argument.scale().unwrap_or(0).unsigned_abs();
    let sum = cast_to(sum.clone(), &DataType::Decimal128(38, scale as i8), schema)?;
    let sum = exact::decimal_to_float(sum, 38, scale);
    Ok(binary(sum, Operator::Divide, cast_to(count.clone(), &DataType::Float64, schema)?))
}

/// The arguments of `lag` and `lead`: the value, the number of rows, and the default.
fn shifted(x: Expr, rest: &[Expr], schema: &DFSchemaRef, ty: Type) -> Result<Vec<Expr>, Refused> {
    let refused = || Refused::new("lag or lead by a number of rows, or with a default, that is not constant");
    let mut args = vec![x];
    match rest {
        [] => return Ok(args),
        [Expr::Literal(ScalarValue::Int64(Some(rows)), _), ..] => args.push(lit(*rows)),
        _ => return Err(refused()),
    }
    match &rest[1..] {
        [] => {}
        [Expr::Literal(value, _)] if value.is_null() => {}
        [default @ Expr::Literal(..)] => match cast_to(default.clone(), &ty.arrow(), schema)? {
            default @ Expr::Literal(..) => args.push(default),
            _ => return Err(refused()),
        },
        _ => return Err(refused()),
    }
    Ok(args)
}

fn frame(call: &WindowCall) -> Result<WindowFrame, Refused> {
    let refused = || Refused::new(format!("a window from {} to {}", call.start.0, call.end.0));
    let rows = |bound: &(String, Option<u64>)| Some(ScalarValue::UInt64(Some(bound.1?)));
    let ordered = !call.by.is_empty();
    Ok(match (call.start.0.as_str(), call.end.0.as_str()) {
        ("unbounded_preceding", "unbounded_following") => WindowFrame::new(None),
        ("unbounded_preceding", "current_row_range") => WindowFrame::new(ordered.then_some(false)),
        // Without ORDER BY, the rows have no order.
        _ if !ordered => return Err(refused()),
        (start, end) => {
            let unbounded = || WindowFrameBound::Preceding(ScalarValue::UInt64(None));
            let start = match start {
                "unbounded_preceding" => unbounded(),
                "current_row_rows" => WindowFrameBound::CurrentRow,
                "preceding_rows" => WindowFrameBound::Preceding(rows(&call.start).ok_or_else(refused)?),
                "following_rows" => WindowFrameBound::Following(rows(&call.start).ok_or_else(refused)?),
                _ => return Err(refused()),
            };
            let end = match end {
                "unbounded_following" => WindowFrameBound::Following(ScalarValue::UInt64(None)),
                "current_row_rows" => WindowFrameBound::CurrentRow,
                "preceding_rows" => WindowFrameBound::Preceding(rows(&call.end).ok_or_else(refused)?),
                "following_rows" => WindowFrameBound::Following(rows(&call.end).ok_or_else(refused)?),
                _ => return Err(refused()),
            };
            WindowFrame::new_bounds(WindowFrameUnits::Rows, start, end)
        }
    })
}
