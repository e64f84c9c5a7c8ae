//! Conversions between numbers, truth values and times. Conversions from and to text are in `convert`.

use arrow::datatypes::{DataType, TimeUnit};
use warpmill_ir::{ColType, Expr, ExprKind, Phys, Unsupported};

use super::arith::{outside, range_of, scale_of};
use super::context::Context;
use super::convert;
use super::leaf::{constant, float_constant};
use crate::compile::cpp::{CType, Value};
use crate::compile::params::Binding;
use crate::kernels::library::Library;

/// Rounding of quotients.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rounding {
    /// Half away from zero.
    Nearest,
    TowardZero,
    Down,
}

/// Multiplication or division of unscaled integers by a factor.
struct Rescale {
    factor: i128,
    divide: Option<Rounding>,
}

pub(super) fn units_per_second(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

pub(super) fn is_decimal(logical: &DataType) -> bool {
    matches!(logical, DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..))
}

pub(super) fn is_string(logical: &DataType) -> bool {
    matches!(logical, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Ticks per second of a timestamp without a time zone, or a date in milliseconds.
fn ticks(logical: &DataType) -> Option<i128> {
    match logical {
        DataType::Timestamp(unit, None) => Some(units_per_second(*unit)),
        DataType::Date64 => Some(1_000),
        _ => None,
    }
}

/// Whether a type's 64-bit ticks are convertible to and from numbers.
fn is_ticks(logical: &DataType) -> bool {
    matches!(logical, DataType::Timestamp(_, None) | DataType::Duration(_))
}

fn is_float(logical: &DataType) -> bool {
    matches!(logical, DataType::Float32 | DataType::Float64)
}

impl Rescale {
    const NONE: Option<Rescale> = Some(Rescale { factor: 1, divide: None });

    /// The rescaling that converts unscaled integers of `from` to those of `to`, if that is the whole conversion.
    fn between(from: &DataType, to: &DataType) -> Option<Self> {
        const DAY: i128 = 86_400;
        let exact = |t: &DataType| t.is_integer() || is_decimal(t);
        Some(match (from, to) {
            (DataType::Date32, to) if ticks(to).is_some() => Self { factor: DAY * ticks(to)?, divide: None },
            (DataType::Int32, DataType::Date64) => Self { factor: DAY * 1_000, divide: None },
            (DataType::Int64, DataType::Date64) | (DataType::Date64, DataType::Int32 | DataType::Int64) => {
                return Self::NONE;
            }
            (DataType::Date64, DataType::Date32) => Self { factor: DAY * 1_000, divide: Some(Rounding::TowardZero) },
            (from, DataType::Date32) if ticks(from).is_some() => {
                Self { factor: DAY * ticks(from)?, divide: Some(Rounding::Down) }
            }
            (from, to) if ticks(from).is_some() && ticks(to).is_some() => {
                let (a, b) = (ticks(from)?, ticks(to)?);
                let divide = (b < a).then_some(Rounding::TowardZero);
                Self { factor: if b >= a { b / a } else { a / b }, divide }
            }
            (from, DataType::Date32) | (DataType::Date32, from)
                if matches!(from, DataType::Int32 | DataType::Int64) =>
            {
                return Self::NONE;
            }
            (from, to) if is_ticks(to) && from.is_integer() || is_ticks(from) && to.is_integer() => return Self::NONE,
            (from, to) if exact(from) && exact(to) => {
                let exponent = scale_of(to) - scale_of(from);
                let factor = 10i128.checked_pow(exponent.unsigned_abs())?;
                let rounding = if to.is_integer() { Rounding::TowardZero } else { Rounding::Nearest };
                Self { factor, divide: (exponent < 0).then_some(rounding) }
            }
            _ => return None,
        })
    }

    /// The image of a bound of the input; `None` beyond 128 bits.
    fn apply(&self, value: i128) -> Option<i128> {
        match self.divide {
            None => value.checked_mul(self.factor),
            Some(Rounding::TowardZero) => Some(value / self.factor),
            Some(Rounding::Down) => Some(value.div_euclid(self.factor)),
            Some(Rounding::Nearest) => {
                let (quotient, rest) = (value / self.factor, value % self.factor);
                Some(if rest.abs() >= self.factor - rest.abs() { quotient + value.signum() } else { quotient })
            }
        }
    }
}

/// `CAST(input AS ...)`; with `try_cast`, values that cannot be converted become NULL.
pub(super) fn cast(expr: &Expr, input: &Expr, try_cast: bool, context: &mut Context<'_>) -> Result<Value, Unsupported> {
    if input.ty.phys == Phys::Code {
        return cast(expr, &input.clone().widen(Phys::Str), try_cast, context);
    }
    let (from, to) = (&input.ty.logical, &expr.ty.logical);
    if from == to || is_string(from) && is_string(to) {
        let value = context.emit(input)?;
        return Ok(held_as(value, CType::of(expr.ty.phys), context));
    }
    if let Some(rescale) = Rescale::between(from, to) {
        let value = context.emit(input)?;
        return Ok(rescaled(&value, &input.ty, &expr.ty, &rescale, try_cast, context));
    }
    if is_string(to) {
        return convert::to_text(expr, input, context);
    }
    if is_string(from) {
        let value = context.emit(input)?;
        return convert::from_text(expr, value, try_cast, context);
    }
    if is_ticks(from) && to.is_numeric() || from.is_numeric() && is_ticks(to) {
        let ty = ColType::of(&DataType::Int64, input.ty.nullable || try_cast);
        let ty = ty.ok_or_else(|| Unsupported::new(expr, "no integers"))?;
        let whole = Expr { kind: ExprKind::Cast { input: Box::new(input.clone()), try_cast }, ty };
        return cast(expr, &whole, try_cast, context);
    }
    match (from, to) {
        (_, to) if is_float(to) && (from.is_integer() || is_decimal(from)) => {
            let value = context.emit(input)?;
            Ok(float(&value, scale_of(from), CType::of(expr.ty.phys), context))
        }
        (from, to)
            if is_float(from) && is_float(to) || *from == DataType::Boolean && (to.is_integer() || is_float(to)) =>
        {
            let value = context.emit(input)?;
            Ok(held_as(value, CType::of(expr.ty.phys), context))
        }
        (from, DataType::Boolean) if from.is_integer() || is_float(from) => {
            let value = context.emit(input)?;
            Ok(context.define(CType::Bool, &format!("{} != 0", value.text), value.valid))
        }
        (from, to) if is_float(from) && (to.is_integer() || is_decimal(to)) => {
            let value = context.emit(input)?;
            Ok(from_float(&value, &expr.ty, try_cast, context))
        }
        _ => Err(Unsupported::new(expr, format!("a conversion of {from} to {to}"))),
    }
}

/// The same value in representation `ty`.
pub(super) fn held_as(value: Value, ty: CType, context: &mut Context<'_>) -> Value {
    if value.ty == ty {
        return value;
    }
    let text = format!("({}){}", ty.name(), value.text);
    context.define(ty, &text, value.valid)
}

/// Converts integers to a wider representation, or codes to strings.
pub(super) fn widen(expr: &Expr, input: &Expr, context: &mut Context<'_>) -> Result<Value, Unsupported> {
    let ty = CType::of(expr.ty.phys);
    let value = context.emit(input)?;
    if input.ty.phys != Phys::Code {
        return Ok(held_as(value, ty, context));
    }
    let dictionary = input.ty.dictionary.clone();
    let dictionary = dictionary.ok_or_else(|| Unsupported::new(expr, "codes without a dictionary"))?;
    let strings = context.params.pointer("Str", "dictionary", Binding::Dictionary(dictionary));
    let text = context.where_ok(ty, &format!("{strings}[{}]", value.text), value.valid.as_deref());
    Ok(context.define(ty, &text, value.valid))
}

fn rescaled(
    value: &Value,
    from: &ColType,
    to: &ColType,
    rescale: &Rescale,
    try_cast: bool,
    context: &mut Context<'_>,
) -> Value {
    let ty = CType::of(to.phys);
    let (low, high) = range_of(from);
    let results = rescale.apply(low).zip(rescale.apply(high));
    // The narrowest representation in which nothing overflows.
    let work = match results {
        None => CType::I128,
        Some((first, last)) => {
            let least = [low, first, rescale.factor].into_iter().min().unwrap_or(low);
            let most = [high, last, rescale.factor].into_iter().max().unwrap_or(high);
            CType::of(Phys::for_range((least, most)))
        }
    };
    let input = held_as(value.clone(), work, context);
    let factor = constant(rescale.factor, work);
    let mut bad = None;
    let (x, name) = (&input.text, work.name());
    context.params.require(Library::Arith);
    if rescale.divide == Some(Rounding::Nearest) {
        context.params.require(Library::Cast);
    }
    let text = match rescale.divide {
        None if rescale.factor == 1 => x.clone(),
        None if results.is_some() => format!("mul<{name}>({x}, {factor})"),
        None => {
            let overflow = context.code.variable(CType::Bool, "bad", "false");
            bad = Some(overflow.clone());
            format!("mul_checked({x}, {factor}, {overflow})")
        }
        Some(Rounding::TowardZero) => format!("quotient<{name}>({x}, {factor})"),
        Some(Rounding::Nearest) => format!("quotient_nearest<{name}>({x}, {factor})"),
        Some(Rounding::Down) => format!("floor_div<{name}>({x}, {factor})"),
    };
    let result = context.define(work, &text, value.valid.clone());
    let bounds = ColType::range_of(&to.logical).unwrap_or((i128::MIN, i128::MAX));
    let proven = results.is_some_and(|(first, last)| bounds.0 <= first && last <= bounds.1);
    let outside = if proven { None } else { outside(&result.text, work, bounds) };
    let bad: Vec<String> = bad.into_iter().chain(outside).collect();
    let valid = failing(&bad.join(" || "), result.valid.clone(), try_cast, "ERROR_CAST", context);
    held_as(result.with_valid(valid), ty, context)
}

/// The validity of a conversion that fails if `bad` holds: raises an error, or, with `try_cast`, makes NULL.
pub(super) fn failing(
    bad: &str,
    valid: Option<String>,
    try_cast: bool,
    error: &str,
    context: &mut Context<'_>,
) -> Option<String> {
    if bad.is_empty() {
        return valid;
    }
    if try_cast {
        let kept = match &valid {
            Some(valid) => format!("{valid} && !({bad})"),
            None => format!("!({bad})"),
        };
        return Some(context.named(CType::Bool, "valid", &kept));
    }
    context.raise(&format!("({bad})"), valid.as_deref(), error);
    valid
}

/// Unscaled integers as floats.
fn float(value: &Value, scale: i32, ty: CType, context: &mut Context<'_>) -> Value {
    let name = ty.name();
    let x = &value.text;
    if value.ty == CType::I128 {
        context.params.require(Library::Cast);
    }
    let wide = if value.ty == CType::I128 { format!("f64_of({x})") } else { format!("(double){x}") };
    let text = match (scale, value.ty, ty) {
        (0, CType::I128, CType::F32) => format!("f32_of({x})"),
        (0, _, CType::F64) => wide,
        (0, ..) => format!("({name}){x}"),
        (_, _, CType::F64) => format!("{wide} / {}", float_constant(10f64.powi(scale))),
        _ => format!("({name})({wide} / {})", float_constant(10f64.powi(scale))),
    };
    context.define(ty, &text, value.valid.clone())
}

/// Converts floats to integers (truncating) or decimals (rounding).
fn from_float(value: &Value, to: &ColType, try_cast: bool, context: &mut Context<'_>) -> Value {
    let ty = CType::of(to.phys);
    context.params.require(Library::Cast);
    let (low, high) = ColType::range_of(&to.logical).unwrap_or((i128::MIN, i128::MAX));
    let whole = if is_decimal(&to.logical) {
        let scale = float_constant(10f64.powi(scale_of(&to.logical)));
        format!("round({scale} * (double){})", value.text)
    } else {
        format!("trunc((double){})", value.text)
    };
    let whole = context.code.define(CType::F64, "whole", whole);
    if is_decimal(&to.logical) {
        // Decimal bounds are not exact as doubles, so integers are compared.
        let limit = float_constant(2f64.powi(127));
        let fits = context.code.define(CType::Bool, "fits", format!("is_within({whole}, -{limit}, {limit})"));
        let exact = context.code.define(CType::I128, "exact", format!("{fits} ? i128_of_f64({whole}) : 0"));
        let bad = match outside(&exact, CType::I128, (low, high)) {
            Some(outside) => format!("!{fits} || {outside}"),
            None => format!("!{fits}"),
        };
        let valid = failing(&bad, value.valid.clone(), try_cast, "ERROR_CAST", context);
        return held_as(Value::new(exact, CType::I128).with_valid(valid), ty, context);
    }
    let (low, end) = (float_constant(low as f64), float_constant((high as f64).max(1.0)));
    let end = if high < 1 << 53 { float_constant((high + 1) as f64) } else { end };
    let fits = context.code.define(CType::Bool, "fits", format!("is_within({whole}, {low}, {end})"));
    let valid = failing(&format!("!{fits}"), value.valid.clone(), try_cast, "ERROR_CAST", context);
    let converted = if ty == CType::I128 { format!("i128_of_f64({whole})") } else { format!("({}){whole}", ty.name()) };
    context.define(ty, &format!("{fits} ? {converted} : 0"), valid)
}

/// `input` as a string; codes are looked up in their dictionary.
pub(super) fn string(input: &Expr, context: &mut Context<'_>) -> Result<Value, Unsupported> {
    if input.ty.phys == Phys::Code {
        let ty = input.ty.widened(Phys::Str);
        return context.emit(&Expr { kind: ExprKind::Widen(Box::new(input.clone())), ty });
    }
    let value = context.emit(input)?;
    if value.ty == CType::Str { Ok(value) } else { Err(Unsupported::new(input, "a value that is no string")) }
}
