//! Conversions between types, and the common type of several expressions.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use warpmill_ir::{ColType, Expr, ExprKind, Phys, Scalar, Unsupported};

use super::arith::int_literal;
use super::is_string;

/// Digits after the point: 0 for integers, `None` for types that are not exact numbers.
pub(super) fn scale(logical: &DataType) -> Option<i32> {
    Some(match logical {
        DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => (*s).into(),
        _ if logical.is_integer() => 0,
        _ => return None,
    })
}

/// Converts `expr` to type `logical`. If the unscaled integer stays the same and provably fits, only the type changes.
pub(crate) fn convert(expr: Expr, logical: &DataType, try_cast: bool) -> Result<Expr, Unsupported> {
    if expr.ty.logical == *logical || is_string(&expr.ty.logical) && is_string(logical) {
        return Ok(relabel(expr, logical));
    }
    let unsupported = || Unsupported::new(format!("CAST to {logical}"), "a type that the engine does not execute");
    if has_zone(&expr.ty.logical) || has_zone(logical) {
        return Err(Unsupported::new(format!("CAST to {logical}"), "a timestamp with a time zone"));
    }
    let bounds = ColType::range_of(logical);
    let ty = ColType::of(logical, expr.ty.nullable || try_cast).ok_or_else(unsupported)?;
    if let ExprKind::Literal(Scalar::Null) = expr.kind {
        let ty = if ty.phys.is_int() { ty.narrowed((0, 0)) } else { ty };
        return Ok(Expr::literal(Scalar::Null, ty));
    }
    if let (Some(range), Some(bounds)) = (expr.ty.range, bounds) {
        let exact = converted_range(range, &expr.ty.logical, logical);
        let fits = exact.filter(|(lo, hi)| bounds.0 <= *lo && *hi <= bounds.1);
        if let (Some(_), ExprKind::Literal(Scalar::Int(value))) = (fits, &expr.kind)
            && let Some((value, high)) = converted_range((*value, *value), &expr.ty.logical, logical)
            && value == high
        {
            return Ok(int_literal(value, logical, ty.nullable));
        }
        match fits {
            Some(range) if range == expr.ty.range.unwrap_or_default() && same_unit(&expr.ty.logical, logical) => {
                return Ok(relabel(expr, logical));
            }
            // A proven conversion cannot fail, so TRY_CAST makes no NULLs.
            Some(range) => return Ok(cast(expr.clone(), ty.with_nullable(expr.ty.nullable).narrowed(range), try_cast)),
            None => return Ok(cast(expr, ty, try_cast)),
        }
    }
    if let (Some(scale), ExprKind::Literal(Scalar::Int(value)), true) =
        (scale(&expr.ty.logical), &expr.kind, *logical == DataType::Float64)
    {
        return Ok(Expr::literal(Scalar::Float(*value as f64 / 10f64.powi(scale)), ty));
    }
    let input = if expr.ty.phys == Phys::Code { expr.widen(Phys::Str) } else { expr };
    Ok(cast(input, ty, try_cast))
}

fn has_zone(logical: &DataType) -> bool {
    matches!(logical, DataType::Timestamp(_, Some(_)))
}

/// Changes the logical type without a computation. An expression whose computation may depend on its type is kept, inside a `Widen` of the new type.
fn relabel(expr: Expr, logical: &DataType) -> Expr {
    let ty = ColType { logical: logical.clone(), ..expr.ty.clone() };
    let typed = matches!(expr.kind, ExprKind::Cast { .. } | ExprKind::Call { .. } | ExprKind::AddInterval { .. });
    if typed && expr.ty.logical != *logical && !is_string(logical) {
        return Expr { kind: ExprKind::Widen(Box::new(expr)), ty };
    }
    Expr { kind: expr.kind, ty }
}

fn cast(input: Expr, ty: ColType, try_cast: bool) -> Expr {
    Expr { kind: ExprKind::Cast { input: Box::new(input), try_cast }, ty }
}

/// Whether equal values of both types have equal unscaled integers.
fn same_unit(from: &DataType, to: &DataType) -> bool {
    match (scale(from), scale(to)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => match (from, to) {
            (DataType::Timestamp(a, _), DataType::Timestamp(b, _)) => a == b,
            _ => false,
        },
        _ => matches!((from, to), (DataType::Date32, DataType::Int32) | (DataType::Int32, DataType::Date32)),
    }
}

/// Bounds of the unscaled integers after conversion; `None` if unknown.
fn converted_range((lo, hi): (i128, i128), from: &DataType, to: &DataType) -> Option<(i128, i128)> {
    if same_unit(from, to) {
        return Some((lo, hi));
    }
    if let (Some(from), Some(to)) = (scale(from), scale(to)) {
        let factor = 10i128.checked_pow(from.abs_diff(to))?;
        return if to > from {
            lo.checked_mul(factor).zip(hi.checked_mul(factor))
        } else if lo == hi && lo % factor == 0 {
            Some((lo / factor, hi / factor))
        } else {
            // Rounding is half away from zero.
            Some((lo / factor - 1, hi / factor + 1))
        };
    }
    let (from, to) = (ticks_per_day(from)?, ticks_per_day(to)?);
    if to % from == 0 {
        lo.checked_mul(to / from).zip(hi.checked_mul(to / from))
    } else {
        Some((lo.div_euclid(from / to) - 1, hi.div_euclid(from / to) + 1))
    }
}

fn ticks_per_day(logical: &DataType) -> Option<i128> {
    const SECONDS: i128 = 86_400;
    Some(match logical {
        DataType::Date32 => 1,
        DataType::Timestamp(TimeUnit::Second, None) => SECONDS,
        DataType::Timestamp(TimeUnit::Millisecond, None) => SECONDS * 1_000,
        DataType::Timestamp(TimeUnit::Microsecond, None) => SECONDS * 1_000_000,
        DataType::Timestamp(TimeUnit::Nanosecond, None) => SECONDS * 1_000_000_000,
        _ => return None,
    })
}

/// Converts an exact number to `to` (no fewer) digits after the point; `None` for other types.
pub(super) fn rescale(expr: Expr, to: i32) -> Option<Expr> {
    let from = scale(&expr.ty.logical)?;
    if from == to {
        return Some(expr);
    }
    let logical = DataType::Decimal128(38, i8::try_from(to).ok().filter(|_| to > from)?);
    convert(expr, &logical, false).ok()
}

/// Converts all of `list` to `logical` in one representation. Returns them with the type that fits any of them.
pub(crate) fn unify(list: Vec<Expr>, logical: &DataType) -> Result<(Vec<Expr>, ColType), Unsupported> {
    let list: Vec<Expr> = list.into_iter().map(|e| convert(e, logical, false)).collect::<Result<_, _>>()?;
    let ty = common_type(list.iter().map(|e| &e.ty))
        .ok_or_else(|| Unsupported::new("CASE", format!("branches of type {logical}")))?;
    let list = list.into_iter().map(|e| e.widen(ty.phys)).collect();
    Ok((list, ty))
}

/// The narrowest type for values of all `types`, whose logical types agree; `None` for an empty list.
pub(crate) fn common_type<'a>(types: impl Iterator<Item = &'a ColType>) -> Option<ColType> {
    types.fold(None, |common: Option<ColType>, ty| {
        let Some(common) = common else { return Some(ty.clone()) };
        let nullable = common.nullable || ty.nullable;
        if common.phys == Phys::Code || ty.phys == Phys::Code {
            let same = matches!((&common.dictionary, &ty.dictionary), (Some(a), Some(b)) if Arc::ptr_eq(a, b));
            return Some(common.widened(if same { Phys::Code } else { Phys::Str }).with_nullable(nullable));
        }
        let range = common.range.zip(ty.range).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1)));
        Some(ColType { phys: common.phys.max(ty.phys), range, nullable, ..common })
    })
}
