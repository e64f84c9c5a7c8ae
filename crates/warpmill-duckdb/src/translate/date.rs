//! Functions of dates and timestamps.

use datafusion::common::DFSchemaRef;
use datafusion::functions::expr_fn as functions;
use datafusion::logical_expr::{Case, Expr, Operator, lit};

use super::expr::{binary, cast_to};
use super::function::arithmetic;
use super::text::constant;
use crate::Refused;
use crate::types::Type;

/// DuckDB's function `name` of dates and timestamps with a result of type `ty`; `None` for others.
pub(super) fn date_function(
    name: &str,
    args: &[Expr],
    types: &[Type],
    ty: Type,
    schema: &DFSchemaRef,
) -> Result<Option<Expr>, Refused> {
    use Type::{Date, Interval, Timestamp, Varchar};
    let timestamp = |e: &Expr| cast_to(e.clone(), &Timestamp.arrow(), schema);
    let days = |e: &Expr| cast_to(e.clone(), &Type::Integer.arrow(), schema);
    Ok(Some(match (name, args, types) {
        ("+", [at, by], [Date | Timestamp, Interval]) | ("+", [by, at], [Interval, Date | Timestamp]) => {
            binary(timestamp(at)?, Operator::Plus, by.clone())
        }
        ("-", [at, by], [Date | Timestamp, Interval]) => binary(timestamp(at)?, Operator::Minus, by.clone()),
        ("+" | "-", [at, by], [Date, rt]) if rt.is_integer() && ty == Date => {
            let op = if name == "+" { Operator::Plus } else { Operator::Minus };
            let moved = arithmetic(days(at)?, op, by.clone(), Type::Integer, schema)?;
            cast_to(moved, &Type::Integer.arrow(), schema)?
        }
        ("-", [to, from], [Date, Date]) => arithmetic(days(to)?, Operator::Minus, days(from)?, ty, schema)?,
        ("date_diff" | "datediff", [unit, from, to], [Varchar, Date, Date]) if is_day(unit) => {
            arithmetic(days(to)?, Operator::Minus, days(from)?, ty, schema)?
        }
        ("date_part" | "datepart", [field, at], [Varchar, ty]) => {
            return Ok(constant(field).and_then(|f| part(f, at, *ty)));
        }
        ("date_trunc" | "datetrunc", [unit, at], [Varchar, Date | Timestamp]) => match truncation(unit) {
            Some(unit) => functions::date_trunc(lit(unit), timestamp(at)?),
            None => return Ok(None),
        },
        ("dayofmonth", [at], [ty]) => return Ok(part("day", at, *ty)),
        ("weekday", [at], [ty]) => return Ok(part("dow", at, *ty)),
        ("weekofyear", [at], [ty]) => return Ok(part("week", at, *ty)),
        ("year" | "month" | "day" | "quarter" | "week" | "dayofweek" | "isodow" | "dayofyear", [at], [ty])
        | ("hour" | "minute" | "second", [at], [ty]) => return Ok(part(name, at, *ty)),
        _ => return Ok(None),
    }))
}

/// A field that both systems number alike, or that can be numbered alike.
fn part(field: &str, at: &Expr, ty: Type) -> Option<Expr> {
    let time = ty == Type::Timestamp;
    let of = |name: &str| functions::date_part(lit(name), at.clone());
    if !matches!(ty, Type::Date | Type::Timestamp) {
        return None;
    }
    Some(match field.to_ascii_lowercase().as_str() {
        "year" | "years" | "yr" | "y" => of("year"),
        "month" | "months" | "mon" => of("month"),
        "day" | "days" | "d" | "dayofmonth" => of("day"),
        "quarter" | "quarters" => of("quarter"),
        "week" | "weeks" | "w" | "weekofyear" => of("week"),
        "dow" | "dayofweek" | "weekday" => of("dow"),
        "doy" | "dayofyear" => of("doy"),
        "isodow" => {
            // Sunday is 7.
            let sunday = (Box::new(of("dow").eq(lit(0i32))), Box::new(lit(7i32)));
            Expr::Case(Case::new(None, vec![sunday], Some(Box::new(of("dow")))))
        }
        "hour" | "hours" | "hr" | "h" if time => of("hour"),
        "minute" | "minutes" | "min" | "m" if time => of("minute"),
        "second" | "seconds" | "sec" | "s" if time => of("second"),
        _ => return None,
    })
}

fn is_day(unit: &Expr) -> bool {
    constant(unit).is_some_and(|unit| matches!(unit.to_ascii_lowercase().as_str(), "day" | "days" | "d"))
}

fn truncation(e: &Expr) -> Option<&'static str> {
    Some(match constant(e)?.to_ascii_lowercase().as_str() {
        "year" => "year",
        "quarter" => "quarter",
        "month" => "month",
        "week" => "week",
        "day" => "day",
        "hour" => "hour",
        "minute" => "minute",
        "second" => "second",
        _ => return None,
    })
}
