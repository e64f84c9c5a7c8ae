//! Dates and timestamps: fields, truncation, intervals.

use arrow::datatypes::{DataType, TimeUnit};
use warpmill_ir::{Expr, ExprKind, Function, Scalar, Unsupported};

use super::arith::range_of;
use super::cast::{held_as, units_per_second};
use super::context::Context;
use super::leaf::{constant, float_constant};
use crate::compile::cpp::{CType, Value};
use crate::kernels::library::Library;

/// The unit of a time value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Clock {
    Days,
    Units(TimeUnit),
}

impl Clock {
    /// The clock of a date, or of a timestamp without a time zone or in UTC.
    fn of(logical: &DataType) -> Option<Self> {
        match logical {
            DataType::Date32 => Some(Clock::Days),
            DataType::Date64 => Some(Clock::Units(TimeUnit::Millisecond)),
            DataType::Timestamp(unit, None) => Some(Clock::Units(*unit)),
            DataType::Timestamp(unit, Some(zone)) if matches!(&**zone, "UTC" | "+00:00" | "Z" | "+00") => {
                Some(Clock::Units(*unit))
            }
            _ => None,
        }
    }

    fn per_second(self) -> i64 {
        match self {
            Clock::Days => 0,
            Clock::Units(unit) => units_per_second(unit) as i64,
        }
    }

    fn per_day(self) -> i64 {
        match self {
            Clock::Days => 1,
            Clock::Units(_) => 86_400 * self.per_second(),
        }
    }
}

fn units(value: i64) -> String {
    constant(value.into(), CType::I64)
}

/// `date_part` and `date_trunc`; the first argument names the field.
pub(super) fn call(
    expr: &Expr,
    function: Function,
    args: &[Expr],
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    let [Expr { kind: ExprKind::Literal(Scalar::Str(field)), .. }, input] = args else {
        return Err(Unsupported::new(expr, "a field that is not constant"));
    };
    let clock = Clock::of(&input.ty.logical)
        .ok_or_else(|| Unsupported::new(expr, format!("fields of {}", input.ty.logical)))?;
    context.params.require(Library::Dates);
    let value = context.emit(input)?;
    let quote = |c| c == '\'' || c == '"';
    match function {
        Function::DatePart => {
            let field = field.strip_prefix(quote).and_then(|name| name.strip_suffix(quote)).unwrap_or(field);
            part(expr, &field.to_lowercase(), clock, (input, value), context)
        }
        _ => trunc(expr, &field.to_lowercase(), clock, value, context),
    }
}

/// Range of days that the 32-bit calendar functions support.
const FAST: (i128, i128) = (-12_699_422, 1_061_042_401);

fn part(
    expr: &Expr,
    field: &str,
    clock: Clock,
    (input, value): (&Expr, Value),
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    let ty = CType::of(expr.ty.phys);
    let valid = value.valid.clone();
    let of_second = match field {
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds" => Some(1_000),
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds" => Some(1_000_000),
        "nanosecond" | "nanoseconds" => Some(1_000_000_000),
        _ => None,
    };
    let of_day = match field {
        "h" | "hr" | "hrs" | "hour" | "hours" => Some((3600, 24)),
        "m" | "min" | "mins" | "minute" | "minutes" => Some((60, 60)),
        "s" | "sec" | "secs" | "second" | "seconds" => Some((1, 60)),
        _ => None,
    };
    if (of_second.is_some() || of_day.is_some()) && clock == Clock::Days {
        return Ok(context.define(ty, ty.zero(), valid));
    }
    let per_second = clock.per_second();
    let text = if let Some(parts) = of_second {
        let wide = held_as(value, CType::I64, context);
        let of_minute = format!("floor_mod({}, {})", wide.text, units(60 * per_second));
        if parts >= per_second {
            format!("{of_minute} * {}", units(parts / per_second))
        } else {
            format!("{of_minute} / {}", units(per_second / parts))
        }
    } else if let Some((length, count)) = of_day {
        let wide = held_as(value, CType::I64, context);
        format!("floor_mod(floor_div({}, {}), {})", wide.text, units(length * per_second), units(count))
    } else if field == "epoch" {
        let wide = held_as(value, CType::I64, context);
        let text = match clock {
            Clock::Days => format!("(double){} * 86400.0", wide.text),
            Clock::Units(_) => format!("(double){} / {}", wide.text, float_constant(per_second as f64)),
        };
        return Ok(context.define(CType::F64, &text, valid));
    } else {
        calendar(expr, field, clock, input, value, context)?
    };
    Ok(context.define(ty, &format!("({})({text})", ty.name()), valid))
}

/// A field of the calendar.
fn calendar(
    expr: &Expr,
    field: &str,
    clock: Clock,
    input: &Expr,
    value: Value,
    context: &mut Context<'_>,
) -> Result<String, Unsupported> {
    let (low, high) = range_of(&input.ty);
    let per_day = i128::from(clock.per_day());
    let narrow = FAST.0 <= low.div_euclid(per_day) && high.div_euclid(per_day) <= FAST.1;
    let days = match clock {
        Clock::Days => value,
        Clock::Units(_) => {
            let wide = held_as(value, CType::I64, context);
            let text = format!("(i32)floor_div({}, {})", wide.text, units(clock.per_day()));
            context.define(CType::I32, &text, wide.valid)
        }
    };
    let days = held_as(days, if narrow { CType::I32 } else { CType::I64 }, context).text;
    Ok(match field {
        "y" | "yr" | "yrs" | "year" | "years" => format!("civil({days}).year"),
        "qtr" | "quarter" => format!("(civil({days}).month + 2) / 3"),
        "mon" | "mons" | "month" | "months" => format!("civil({days}).month"),
        "d" | "day" | "days" => format!("civil({days}).day"),
        "isoyear" => format!("iso_year({days})"),
        "w" | "week" | "weeks" => format!("iso_week({days})"),
        "doy" => format!("day_of_year({days})"),
        "dow" => format!("weekday({days})"),
        "isodow" => format!("weekday_from_monday({days}) + 1"),
        _ => return Err(Unsupported::new(expr, format!("the field '{field}'"))),
    })
}

fn trunc(
    expr: &Expr,
    field: &str,
    clock: Clock,
    value: Value,
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    let (per_day, per_second) = (clock.per_day(), clock.per_second());
    let wide = held_as(value, CType::I64, context);
    let x = wide.text.clone();
    let call = match field {
        "microsecond" => to_units(&x, per_second / 1_000_000),
        "millisecond" => to_units(&x, per_second / 1_000),
        "second" => to_units(&x, per_second),
        "minute" => to_units(&x, 60 * per_second),
        "hour" => to_units(&x, 3600 * per_second),
        "day" => to_units(&x, per_day),
        "week" => Some(format!("trunc_to_week({x}, {}", units(per_day))),
        "month" => Some(format!("trunc_to_months({x}, {}, 1ll", units(per_day))),
        "quarter" => Some(format!("trunc_to_months({x}, {}, 3ll", units(per_day))),
        "year" => Some(format!("trunc_to_months({x}, {}, 12ll", units(per_day))),
        _ => return Err(Unsupported::new(expr, format!("truncation to '{field}'"))),
    };
    match call {
        Some(call) => Ok(fitting(expr, &call, wide.valid, context)),
        // The value is a multiple of a coarser unit already.
        None => Ok(held_as(wide, CType::of(expr.ty.phys), context)),
    }
}

fn to_units(value: &str, count: i64) -> Option<String> {
    (count > 1).then(|| format!("trunc_to_units({value}, {}", units(count)))
}

/// The value of the C++ call `call, bad)` in 64-bit days or units; raises an error if it does not fit the representation of `expr`.
fn fitting(expr: &Expr, call: &str, valid: Option<String>, context: &mut Context<'_>) -> Value {
    let ty = CType::of(expr.ty.phys);
    let bad = context.code.variable(CType::Bool, "bad", "false");
    let value = context.define(CType::I64, &format!("{call}, {bad})"), valid);
    let failed = match ty {
        CType::I32 => format!("({bad} || {} != (i32){})", value.text, value.text),
        _ => bad,
    };
    context.raise(&failed, value.valid.as_deref(), "ERROR_OVERFLOW");
    held_as(value, ty, context)
}

/// `input` plus a constant interval; calendar months are added first.
pub(super) fn add_interval(
    expr: &Expr,
    input: &Expr,
    (months, days, nanos): (i32, i32, i64),
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    const NANOS: i128 = 1_000_000_000;
    let clock = Clock::of(&expr.ty.logical)
        .ok_or_else(|| Unsupported::new(expr, format!("an interval added to {}", expr.ty.logical)))?;
    let value = if input.ty.logical == expr.ty.logical {
        context.emit(input)?
    } else {
        // A date becomes a timestamp.
        let kind = ExprKind::Cast { input: Box::new(input.clone()), try_cast: false };
        context.emit(&Expr { kind, ty: expr.ty.with_nullable(input.ty.nullable) })?
    };
    context.params.require(Library::Dates);
    let per_day = i128::from(clock.per_day());
    let offset = match clock {
        // A date keeps whole days only.
        Clock::Days => i128::from(nanos) / (86_400 * NANOS),
        Clock::Units(unit) => i128::from(nanos).div_euclid(NANOS / units_per_second(unit)),
    };
    let offset = i64::try_from(offset + i128::from(days) * per_day);
    let offset = offset.map_err(|_| Unsupported::new(expr, "an interval beyond 64 bits"))?;
    let wide = held_as(value, CType::I64, context);
    let offset = context.params.value(CType::I64, "offset", offset.to_le_bytes().to_vec());
    if months == 0 {
        return Ok(fitting(expr, &format!("add_checked({}, {offset}", wide.text), wide.valid, context));
    }
    let bad = context.code.variable(CType::Bool, "bad", "false");
    let months = context.params.value(CType::I32, "months", months.to_le_bytes().to_vec());
    let text = format!("add_months_to_time({}, {}, {months}, {bad})", wide.text, units(per_day as i64));
    let moved = context.define(CType::I64, &text, wide.valid);
    context.raise(&bad, moved.valid.as_deref(), "ERROR_OVERFLOW");
    Ok(fitting(expr, &format!("add_checked({}, {offset}", moved.text), moved.valid, context))
}
