//! Dates and moments.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err, not_impl_err};
use datafusion::functions::datetime::expr_fn::to_local_time;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    BinaryExpr, Case, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, cast, lit,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use warpmill_translate::kept;

use super::library;
use super::operators::{Op, call};
use super::types::{self, TIMESTAMP, is_number};

/// `left op right` with a date operand; `None` if DataFusion's meaning is DuckDB's.
pub(super) fn arithmetic(op: Op, left: (&Expr, &DataType), right: (&Expr, &DataType)) -> Result<Option<Expr>> {
    use DataType::{Date32, Int32, Int64, Interval, Time64, Timestamp};
    let ((l, lt), (r, rt)) = (left, right);
    let moment = |e: &Expr| cast(e.clone(), TIMESTAMP);
    let days = |e: &Expr| recounted(e.clone(), Int32);
    let plain = |l: Expr, r: Expr| {
        let op = if op == Op::Add { Operator::Plus } else { Operator::Minus };
        Expr::BinaryExpr(BinaryExpr::new(Box::new(l), op, Box::new(r)))
    };
    Ok(Some(match (op, lt, rt) {
        (Op::Add | Op::Subtract, Date32, Interval(_)) => plain(moment(l), r.clone()),
        (Op::Add, Interval(_), Date32) => plain(l.clone(), moment(r)),
        (Op::Add | Op::Subtract, Date32, by) if by.is_integer() => recounted(call(op, vec![days(l), small(r)]), Date32),
        (Op::Add, by, Date32) if by.is_integer() => recounted(call(op, vec![small(l), days(r)]), Date32),
        (Op::Add, Date32, Time64(_)) => at_time(l, r),
        (Op::Add, Time64(_), Date32) => at_time(r, l),
        (Op::Subtract, Date32, Date32) => call(op, [l, r].map(|e| cast(days(e), Int64)).into()),
        (Op::Subtract, Date32, Timestamp(..)) => plain(cast(l.clone(), rt.clone()), r.clone()),
        (Op::Subtract, Timestamp(..), Date32) => plain(l.clone(), cast(r.clone(), lt.clone())),
        (Op::Multiply, Interval(_), by) if by.is_integer() => {
            return Ok(library::call("interval_times", vec![l.clone(), r.clone()]));
        }
        (Op::Multiply, by, Interval(_)) if by.is_integer() => {
            return Ok(library::call("interval_times", vec![r.clone(), l.clone()]));
        }
        (Op::Multiply, Interval(_), by) if is_number(by) => {
            return Ok(library::call("interval_scaled", vec![l.clone(), r.clone()]));
        }
        (Op::Multiply, by, Interval(_)) if is_number(by) => {
            return Ok(library::call("interval_scaled", vec![r.clone(), l.clone()]));
        }
        (Op::Divide, Interval(_), by) if is_number(by) => {
            return Ok(library::call("interval_divided", vec![l.clone(), r.clone()]));
        }
        _ => return Ok(None),
    }))
}

/// The timestamp of a date and a time of day.
fn at_time(date: &Expr, time: &Expr) -> Expr {
    let microseconds = |e: Expr| recounted(e, DataType::Int64);
    let time = cast(time.clone(), DataType::Time64(TimeUnit::Microsecond));
    let moment = cast(date.clone(), TIMESTAMP);
    recounted(call(Op::Add, vec![microseconds(moment), microseconds(time)]), TIMESTAMP)
}

/// Converts a date to its number of days, or back.
fn recounted(e: Expr, to: DataType) -> Expr {
    kept::kept(cast(kept::counted(e), to))
}

/// A number of days as an INTEGER.
fn small(e: &Expr) -> Expr {
    match e {
        Expr::Literal(value, _) => {
            value.cast_to(&DataType::Int32).map_or_else(|_| cast(e.clone(), DataType::Int32), lit)
        }
        e => cast(e.clone(), DataType::Int32),
    }
}

/// A constant timestamp at midnight as a date for a comparison with a date, because statistics and encodings support dates. A literal with metadata
/// is not converted: it is a parameter, whose values may be at another time of day.
pub(super) fn midnight(e: &Expr) -> Option<Expr> {
    const DAY: i64 = 86_400_000_000;
    let constant = match e {
        Expr::Literal(..) => e.clone(),
        e if e.column_refs().is_empty() && !e.is_volatile() && !e.contains_outer() => {
            let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
            simplifier.simplify(simplifier.coerce(e.clone(), &DFSchema::empty()).ok()?).ok()?
        }
        _ => return None,
    };
    let Expr::Literal(ScalarValue::TimestampMicrosecond(Some(micros), None), _) = constant else { return None };
    let date = i32::try_from(micros / DAY).ok().filter(|_| micros % DAY == 0)?;
    match e.exists(|e| Ok(matches!(e, Expr::Literal(_, Some(_))))) {
        Ok(false) => Some(lit(ScalarValue::Date32(Some(date)))),
        _ => Some(
            ScalarUDF::from(DateAtMidnight { signature: Signature::any(1, Volatility::Immutable) })
                .call(vec![e.clone()]),
        ),
    }
}

/// The date of a timestamp at midnight; an error for other timestamps.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DateAtMidnight {
    signature: Signature,
}

impl ScalarUDFImpl for DateAtMidnight {
    fn name(&self) -> &str {
        "date_at_midnight"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Date32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let moment = args.args[0].cast_to(&TIMESTAMP, None)?;
        let date = moment.cast_to(&DataType::Date32, None)?;
        let (ColumnarValue::Scalar(moment), ColumnarValue::Scalar(midnight)) =
            (&moment, date.cast_to(&TIMESTAMP, None)?)
        else {
            return not_impl_err!("dates of moments that are not constant");
        };
        if *moment != midnight { exec_err!("a moment that is not at midnight") } else { Ok(date) }
    }
}

/// Whether a call was inserted by [`midnight`] for a constant.
pub(super) fn is_date_at_midnight(call: &ScalarFunction) -> bool {
    call.func.inner().downcast_ref::<DateAtMidnight>().is_some()
}

/// `date_part` and `date_trunc` with DuckDB's types; `None` for other functions.
pub(super) fn function(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let [field, at] = function.args.as_slice() else { return Ok(None) };
    let Expr::Literal(name, _) = field else { return Ok(None) };
    let name = name.try_as_str().flatten().unwrap_or_default();
    let name = name.trim_matches('\'');
    let lower = name.to_ascii_lowercase();
    let ty = at.get_type(schema)?;
    let with = |field: &str, at: Expr| {
        Expr::ScalarFunction(ScalarFunction { func: function.func.clone(), args: vec![lit(field), at] })
    };
    Ok(match function.func.name() {
        "date_part" if matches!(ty, DataType::Interval(_) | DataType::Duration(_)) => match lower.as_str() {
            "epoch" => library::call("interval_epoch", vec![at.clone()]),
            _ => library::call("interval_part", vec![field.clone(), at.clone()]),
        },
        "date_part" if matches!(ty, DataType::Date32 | DataType::Timestamp(..)) && !is_known(&lower) => {
            library::call("moment_part", vec![field.clone(), at.clone()])
        }
        "date_trunc" if !is_truncated(&lower) && matches!(ty, DataType::Date32 | DataType::Timestamp(_, None)) => {
            library::call("moment_trunc", vec![field.clone(), at.clone()])
        }
        "date_part" if matches!(ty, DataType::Date32 | DataType::Timestamp(..)) => match lower.as_str() {
            "epoch" => None,
            // Sunday is 7.
            "isodow" => {
                let dow = cast(with("dow", at.clone()), DataType::Int64);
                let sunday = (Box::new(dow.clone().eq(lit(0i64))), Box::new(lit(7i64)));
                Some(Expr::Case(Case::new(None, vec![sunday], Some(Box::new(dow)))))
            }
            name => Some(cast(with(name, at.clone()), DataType::Int64)),
        },
        "timezone" => match &ty {
            DataType::Timestamp(_, Some(_)) => Some(to_local_time(vec![cast(at.clone(), zoned(name))])),
            _ => Some(cast(cast(cast(at.clone(), TIMESTAMP), zoned(name)), types::timestamptz())),
        },
        "date_trunc" if ty == DataType::Date32 => Some(with(&lower, cast(at.clone(), TIMESTAMP))),
        _ => None,
    })
}

/// Whether programs and DataFusion compute a part as DuckDB does.
fn is_known(part: &str) -> bool {
    matches!(
        part,
        "year"
            | "quarter"
            | "month"
            | "week"
            | "day"
            | "hour"
            | "minute"
            | "second"
            | "dow"
            | "doy"
            | "isodow"
            | "isoyear"
            | "epoch"
    )
}

fn is_truncated(part: &str) -> bool {
    matches!(part, "year" | "quarter" | "month" | "week" | "day" | "hour" | "minute" | "second")
}

fn zoned(zone: &str) -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some(zone.into()))
}

/// `timezone(zone, timestamp)`, the form of `AT TIME ZONE`: the local time of a zone at an instant, or the instant of a local time. [`function`]
/// replaces its calls.
pub(super) fn timezone() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(TimeZone { signature: Signature::any(2, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeZone {
    signature: Signature,
}

impl ScalarUDFImpl for TimeZone {
    fn name(&self) -> &str {
        "timezone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match types {
            [_, DataType::Timestamp(_, Some(_))] => TIMESTAMP,
            _ => types::timestamptz(),
        })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        not_impl_err!("AT TIME ZONE with a zone that is not constant")
    }
}
