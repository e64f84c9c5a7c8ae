//! Scalar functions.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use warpmill_ir::{ArithOp, ColType, CompareOp, Expr, ExprKind, Function, Phys, Scalar, Unsupported};

use super::{Scope, arith, compare, connective, convert, is_string, negate, unify};
use crate::kept;

impl Scope<'_> {
    /// Translates a call of a DataFusion function.
    pub(super) fn call(&self, expr: &Arc<dyn PhysicalExpr>, call: &ScalarFunctionExpr) -> Result<Expr, Unsupported> {
        let unsupported = |reason: &str| Unsupported::new(expr, reason);
        let args: Vec<Expr> = call.args().iter().map(|arg| self.expr(arg)).collect::<Result<_, _>>()?;
        if call.fun().name() == kept::NAME {
            return args.into_iter().next().ok_or_else(|| unsupported("this function"));
        }
        if let Some(ops) = operators(call.fun().name()) {
            return operation(&ops, args, call.return_type()).ok_or_else(|| unsupported("arithmetic on these types"));
        }
        if call.fun().name() == "round_even" {
            return round_even(args).ok_or_else(|| unsupported("this rounding of this type"));
        }
        if let Some(function) = exact_rounding(call.fun().name()) {
            return rounded(function, args, call.return_type())
                .ok_or_else(|| unsupported("this rounding of this type"))?;
        }
        let function = named(call.fun().name()).ok_or_else(|| unsupported("this function"))?;
        let result = call.return_type();
        match function {
            Function::OnlyRow => {
                let [value, rows] = <[Expr; 2]>::try_from(args).map_err(|_| unsupported("this number of arguments"))?;
                return Ok(only_row(value, rows));
            }
            Function::Coalesce | Function::Greatest | Function::Least | Function::NullIf | Function::Abs => {
                return same_type(function, args, result);
            }
            Function::Sign
            | Function::Round
            | Function::Floor
            | Function::Ceil
            | Function::Trunc
            | Function::Sqrt
            | Function::Power
            | Function::Exp
            | Function::Ln
            | Function::Log10 => {
                let digits = matches!(function, Function::Round | Function::Trunc);
                let floats = if digits { &args[..1] } else { &args[..] };
                if !floats.iter().all(|arg| arg.ty.logical == *result)
                    || !matches!(result, DataType::Float32 | DataType::Float64)
                {
                    return Err(unsupported("this function of exact numbers"));
                }
            }
            Function::ReadMoment | Function::TryReadMoment => {
                return read_moment(function, args, result).ok_or_else(|| unsupported("texts of this type"));
            }
            Function::WriteMoment => {
                return write_moment(args, result).ok_or_else(|| unsupported("texts of this type"));
            }
            Function::DatePart | Function::DateTrunc => {
                return date_function(function, args, result).ok_or_else(|| unsupported("this part of this type"));
            }
            Function::RegexpLike | Function::RegexpReplace => {
                if !args[1..].iter().all(|arg| matches!(arg.kind, ExprKind::Literal(Scalar::Str(_)))) {
                    return Err(unsupported("a regular expression that is not constant"));
                }
            }
            Function::Concat => {
                let args = args.into_iter().map(to_string).collect::<Result<Vec<_>, _>>()?;
                let ty = ColType::of(result, false).ok_or_else(|| unsupported("this result type"))?;
                return Ok(Expr { kind: ExprKind::Call { function, args }, ty });
            }
            _ => {
                if !is_string(&args[0].ty.logical) {
                    return Err(unsupported("this function of this type"));
                }
            }
        }
        let nullable = args.iter().any(|arg| arg.ty.nullable);
        let ty = ColType::of(result, nullable).ok_or_else(|| unsupported("this result type"))?;
        let ty = if ty.phys.is_int() { ty.narrowed((0, i32::MAX.into())) } else { ty };
        let args = args.into_iter().map(held_as_argument).collect();
        Ok(Expr { kind: ExprKind::Call { function, args }, ty })
    }
}

/// The operators of the checked-arithmetic function `name`, for exact numbers: one, or several that are applied from left to right with results of
/// one type.
fn operators(name: &str) -> Option<Vec<ArithOp>> {
    name.split(' ').map(operator).collect()
}

fn operator(name: &str) -> Option<ArithOp> {
    Some(match name {
        "+" => ArithOp::Add,
        "-" => ArithOp::Sub,
        "*" => ArithOp::Mul,
        "//" => ArithOp::Div,
        "%" => ArithOp::Mod,
        _ => return None,
    })
}

fn operation(ops: &[ArithOp], args: Vec<Expr>, result: &DataType) -> Option<Expr> {
    if matches!(result, DataType::Float32 | DataType::Float64) {
        return None;
    }
    if args.len() == 1 {
        return negate(args.into_iter().next()?);
    }
    let mut args = args.into_iter();
    let first = args.next()?;
    ops.iter().zip(args).try_fold(first, |left, (op, right)| arith(*op, left, right, result))
}

/// Rounds a float to the nearest whole number, ties to even.
fn round_even(args: Vec<Expr>) -> Option<Expr> {
    let [x] = <[Expr; 1]>::try_from(args).ok()?;
    let ty = x.ty.clone();
    if !matches!(ty.phys, Phys::F32 | Phys::F64) {
        return None;
    }
    let constant = |value: f64| Expr::literal(Scalar::Float(value), ty.with_nullable(false));
    let floor = |x: Expr| {
        let ty = x.ty.clone();
        Expr { kind: ExprKind::Call { function: Function::Floor, args: vec![x] }, ty }
    };
    let below = floor(x.clone());
    let rest = arith(ArithOp::Sub, x, below.clone(), &ty.logical)?;
    let half = arith(ArithOp::Mul, below.clone(), constant(0.5), &ty.logical)?;
    let even = compare(CompareOp::Eq, floor(half.clone()), half)?;
    let middle = connective(true, compare(CompareOp::Eq, rest.clone(), constant(0.5))?, even);
    let stays = connective(false, compare(CompareOp::Lt, rest, constant(0.5))?, middle);
    let above = arith(ArithOp::Add, below.clone(), constant(1.0), &ty.logical)?;
    Some(Expr { kind: ExprKind::Case { branches: vec![(stays, below)], otherwise: Some(Box::new(above)) }, ty })
}

/// Functions that remove the digits of a decimal after the point.
fn exact_rounding(name: &str) -> Option<Function> {
    Some(match name {
        "floor_exact" => Function::Floor,
        "ceil_exact" => Function::Ceil,
        "trunc_exact" => Function::Trunc,
        _ => return None,
    })
}

/// A decimal without its digits after the point. Rounding may add a digit before the point.
fn rounded(function: Function, args: Vec<Expr>, result: &DataType) -> Option<Result<Expr, Unsupported>> {
    let [x] = <[Expr; 1]>::try_from(args).ok()?;
    let DataType::Decimal128(width, scale) = x.ty.logical else { return None };
    if !matches!(result, DataType::Decimal128(_, 0)) || scale <= 0 {
        return None;
    }
    let ty = ColType::of(&DataType::Decimal128(width.saturating_add(1).min(38), scale), x.ty.nullable)?;
    let call = Expr { kind: ExprKind::Call { function, args: vec![x] }, ty };
    Some(convert(call, result, false))
}

/// Whether [`Function::ReadMoment`] and [`Function::WriteMoment`] support a type.
fn has_texts(ty: &DataType) -> bool {
    matches!(ty, DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, None))
}

fn read_moment(function: Function, args: Vec<Expr>, result: &DataType) -> Option<Expr> {
    let [text] = <[Expr; 1]>::try_from(args).ok()?;
    if !is_string(&text.ty.logical) || !has_texts(result) {
        return None;
    }
    let ty = ColType::of(result, text.ty.nullable || function == Function::TryReadMoment)?;
    let args = vec![held_as_argument(text)];
    Some(Expr { kind: ExprKind::Call { function, args }, ty })
}

fn write_moment(args: Vec<Expr>, result: &DataType) -> Option<Expr> {
    let [moment] = <[Expr; 1]>::try_from(args).ok()?;
    let ty = ColType::of(result, moment.ty.nullable)?;
    let call = |moment| Expr { kind: ExprKind::Call { function: Function::WriteMoment, args: vec![moment] }, ty };
    has_texts(&moment.ty.logical).then(|| call(held_as_argument(moment)))
}

fn named(name: &str) -> Option<Function> {
    Some(match name {
        "substr" => Function::Substr,
        "character_length" => Function::CharLength,
        "octet_length" => Function::OctetLength,
        "upper" => Function::Upper,
        "lower" => Function::Lower,
        "simple_upper" => Function::SimpleUpper,
        "simple_lower" => Function::SimpleLower,
        "btrim" => Function::Trim,
        "ltrim" => Function::LTrim,
        "rtrim" => Function::RTrim,
        "concat" => Function::Concat,
        "starts_with" => Function::StartsWith,
        "ends_with" => Function::EndsWith,
        "contains" => Function::Contains,
        "strpos" => Function::StrPos,
        "left" => Function::Left,
        "right" => Function::Right,
        "replace" => Function::Replace,
        "regexp_like" => Function::RegexpLike,
        "regexp_replace" => Function::RegexpReplace,
        "abs" => Function::Abs,
        "signum" => Function::Sign,
        "round" => Function::Round,
        "floor" => Function::Floor,
        "ceil" => Function::Ceil,
        "trunc" => Function::Trunc,
        "sqrt" => Function::Sqrt,
        "power" => Function::Power,
        "exp" => Function::Exp,
        "ln" => Function::Ln,
        "log10" => Function::Log10,
        "date_part" => Function::DatePart,
        "date_trunc" => Function::DateTrunc,
        "read_moment" => Function::ReadMoment,
        "try_read_moment" => Function::TryReadMoment,
        "write_text" => Function::WriteMoment,
        "coalesce" => Function::Coalesce,
        "nullif" => Function::NullIf,
        "greatest" => Function::Greatest,
        "least" => Function::Least,
        "only_row" => Function::OnlyRow,
        _ => return None,
    })
}

/// Converts an argument to the representation that functions take.
fn held_as_argument(arg: Expr) -> Expr {
    let phys = match arg.ty.phys {
        Phys::Code => Phys::Str,
        Phys::I32 if arg.ty.logical != DataType::Date32 => Phys::I64,
        other => other,
    };
    arg.widen(phys)
}

fn to_string(arg: Expr) -> Result<Expr, Unsupported> {
    let arg = if is_string(&arg.ty.logical) { arg } else { convert(arg, &DataType::Utf8, false)? };
    Ok(arg.widen(Phys::Str))
}

/// The value of a scalar subquery with `rows` rows: an error for more than one.
pub(crate) fn only_row(value: Expr, rows: Expr) -> Expr {
    if matches!(rows.kind, ExprKind::Literal(Scalar::Int(..=1))) {
        return value;
    }
    let ty = value.ty.clone();
    Expr { kind: ExprKind::Call { function: Function::OnlyRow, args: vec![value, rows.widen(Phys::I64)] }, ty }
}

/// Functions whose arguments have the representation of the result.
fn same_type(function: Function, args: Vec<Expr>, result: &DataType) -> Result<Expr, Unsupported> {
    let (args, ty) = unify(args, result)?;
    let every = args.iter().all(|arg| arg.ty.nullable);
    let ty = match function {
        Function::NullIf => args[0].ty.with_nullable(true),
        Function::Abs => match ty.range {
            Some((lo, hi)) => {
                let most = lo.unsigned_abs().max(hi.unsigned_abs());
                let most = i128::try_from(most).map_err(|_| Unsupported::new("abs", "a value of 128 bits"))?;
                let least = if lo <= 0 && hi >= 0 { 0 } else { lo.unsigned_abs().min(hi.unsigned_abs()) as i128 };
                ColType { phys: ty.phys.max(Phys::for_range((least, most))), range: Some((least, most)), ..ty }
            }
            None => ty,
        },
        // NULL only if all arguments are.
        _ => ty.with_nullable(every),
    };
    let args = args.into_iter().map(|arg| arg.widen(ty.phys)).collect();
    Ok(Expr { kind: ExprKind::Call { function, args }, ty })
}

/// Translates `date_part` and `date_trunc`, whose first argument names the part.
fn date_function(function: Function, args: Vec<Expr>, result: &DataType) -> Option<Expr> {
    let [part, value] = <[Expr; 2]>::try_from(args).ok()?;
    let ExprKind::Literal(Scalar::Str(name)) = &part.kind else { return None };
    if !matches!(value.ty.logical, DataType::Date32 | DataType::Timestamp(_, None)) {
        return None;
    }
    let ty = ColType::of(result, value.ty.nullable)?;
    let ty = match (function, part_range(&name.to_lowercase(), &value.ty)) {
        (Function::DatePart, Some(range)) if ty.phys.is_int() => ty.narrowed(range),
        _ => ty,
    };
    let phys = if value.ty.logical == DataType::Date32 { Phys::I32 } else { Phys::I64 };
    Some(Expr { kind: ExprKind::Call { function, args: vec![part, value.widen(phys)] }, ty })
}

/// Bounds of a part of dates and timestamps of type `ty`.
fn part_range(part: &str, ty: &ColType) -> Option<(i128, i128)> {
    Some(match part {
        "year" => {
            let ticks = match &ty.logical {
                DataType::Date32 => 1,
                DataType::Timestamp(TimeUnit::Second, _) => 86_400,
                DataType::Timestamp(TimeUnit::Millisecond, _) => 86_400_000,
                DataType::Timestamp(TimeUnit::Microsecond, _) => 86_400_000_000,
                DataType::Timestamp(TimeUnit::Nanosecond, _) => 86_400_000_000_000,
                _ => return None,
            };
            let (lo, hi) = ty.range?;
            (year_of(lo.div_euclid(ticks)), year_of(hi.div_euclid(ticks)))
        }
        "quarter" => (1, 4),
        "month" => (1, 12),
        "week" => (1, 53),
        "day" => (1, 31),
        "doy" => (1, 366),
        "dow" | "isodow" => (0, 7),
        "hour" => (0, 23),
        "minute" => (0, 59),
        "second" => (0, 59),
        _ => return None,
    })
}

/// The (proleptic Gregorian) year of a day since 1970-01-01, after Hinnant, "chrono-compatible low-level date algorithms".
fn year_of(day: i128) -> i128 {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let day_of_era = day.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Years of this calendar begin in March: its days from 306 on are January and February of the next year.
    year_of_era + era * 400 + i128::from(day_of_year >= 306)
}

/// `left || right`: NULL if either is, unlike `concat`.
pub(super) fn concat_operator(left: Expr, right: Expr) -> Result<Expr, Unsupported> {
    let (left, right) = (to_string(left)?, to_string(right)?);
    let nullable = left.ty.nullable || right.ty.nullable;
    let conditions: Vec<Expr> = [&left, &right]
        .into_iter()
        .filter(|side| side.ty.nullable)
        .map(|side| Expr { kind: ExprKind::IsNotNull(Box::new(side.clone())), ty: Expr::bool(true).ty })
        .collect();
    let ty = left.ty.with_nullable(false);
    let call = Expr { kind: ExprKind::Call { function: Function::Concat, args: vec![left, right] }, ty: ty.clone() };
    if !nullable {
        return Ok(call);
    }
    let branches = vec![(Expr::all(conditions), call)];
    Ok(Expr { kind: ExprKind::Case { branches, otherwise: None }, ty: ty.with_nullable(true) })
}

/// `input ~ pattern`; `None` where the pattern is not constant.
pub(super) fn regexp_like(input: Expr, pattern: Expr, flags: Option<&str>) -> Option<Expr> {
    if !matches!(pattern.kind, ExprKind::Literal(Scalar::Str(_))) || !is_string(&input.ty.logical) {
        return None;
    }
    let ty = Expr::bool(true).ty.with_nullable(input.ty.nullable);
    let flags = flags.map(|flags| Expr::literal(Scalar::Str(flags.into()), pattern.ty.clone()));
    let args = [input.widen(Phys::Str), pattern].into_iter().chain(flags).collect();
    Some(Expr { kind: ExprKind::Call { function: Function::RegexpLike, args }, ty })
}

#[cfg(test)]
mod tests {
    use super::year_of;

    #[test]
    fn years_of_days_around_new_year_and_leap_days() {
        // 1970-01-01, 1969-12-31, 2000-02-29, 2000-12-31, 2001-01-01, 0000-01-01, 1600-01-01 and the day before.
        let days = [0, -1, 11_016, 11_322, 11_323, -719_528, -135_140, -135_141];
        let years: Vec<i128> = days.into_iter().map(year_of).collect();
        assert_eq!(years, [1970, 1969, 2000, 2000, 2001, 0, 1600, 1599]);
    }
}
