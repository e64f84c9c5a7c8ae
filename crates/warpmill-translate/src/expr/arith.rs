//! Arithmetic: representations proven by ranges, checked arithmetic where nothing is proven.

use arrow::datatypes::DataType;
use warpmill_ir::{ArithOp, ColType, Expr, ExprKind, Phys, Scalar};

use super::cast::{rescale, scale};

type Range = (i128, i128);

/// `left op right` with a result of type `logical`; `None` for types without arithmetic.
pub(crate) fn arith(op: ArithOp, left: Expr, right: Expr, logical: &DataType) -> Option<Expr> {
    let nullable = left.ty.nullable || right.ty.nullable;
    if let DataType::Float32 | DataType::Float64 = logical {
        let ty = ColType::of(logical, nullable)?;
        let left = super::convert(left, logical, false).ok()?;
        let right = super::convert(right, logical, false).ok()?;
        return Some(Expr { kind: kind(op, left, right, false), ty });
    }
    if left.ty.logical == right.ty.logical && is_temporal(&left.ty.logical) {
        // Differences of dates are in days, of timestamps in their own unit; other results need a conversion of units.
        let same_unit = match (&left.ty.logical, logical) {
            (DataType::Date32, DataType::Int64 | DataType::Int32) => true,
            (DataType::Timestamp(a, _), DataType::Duration(b)) => a == b,
            _ => false,
        };
        return if op == ArithOp::Sub && same_unit { integers(op, left, right, logical, nullable) } else { None };
    }
    scale(&left.ty.logical).zip(scale(&right.ty.logical))?;
    integers(op, left, right, logical, nullable)
}

/// `-input`; `None` for types without negation.
pub(crate) fn negate(input: Expr) -> Option<Expr> {
    let logical = input.ty.logical.clone();
    match input.ty.phys {
        Phys::F32 | Phys::F64 => {
            let ty = input.ty.clone();
            Some(Expr { kind: ExprKind::Negate { input: Box::new(input), checked: false }, ty })
        }
        phys if phys.is_int() => {
            scale(&logical)?;
            let (lo, hi) = input.ty.range?;
            let range = lo.checked_neg().zip(hi.checked_neg()).map(|(a, b)| (b, a));
            if let (ExprKind::Literal(Scalar::Int(value)), Some(_)) = (&input.kind, range) {
                return Some(int_literal(-value, &logical, input.ty.nullable));
            }
            let (range, phys, checked) = settle(range, &logical, phys)?;
            let ty = ColType { logical, phys, nullable: input.ty.nullable, range: Some(range), dictionary: None };
            Some(Expr { kind: ExprKind::Negate { input: Box::new(input.widen(phys)), checked }, ty })
        }
        _ => None,
    }
}

fn integers(op: ArithOp, left: Expr, right: Expr, logical: &DataType, nullable: bool) -> Option<Expr> {
    let (left, right) = match op {
        ArithOp::Add | ArithOp::Sub | ArithOp::Mod if !is_temporal(&left.ty.logical) => {
            let scale = scale(logical)?;
            (rescale(left, scale)?, rescale(right, scale)?)
        }
        _ => (left, right),
    };
    let (a, b) = (left.ty.range?, right.ty.range?);
    let least = left.ty.phys.max(right.ty.phys);
    let (range, least) = match op {
        ArithOp::Add => (a.0.checked_add(b.0).zip(a.1.checked_add(b.1)), least),
        ArithOp::Sub => (a.0.checked_sub(b.1).zip(a.1.checked_sub(b.0)), least),
        ArithOp::Mul => (product(a, b), least),
        ArithOp::Div => quotient(a, least, exponent(&left, &right, logical)?),
        ArithOp::Mod => (Some(remainder(a, b)), least),
    };
    if let (ExprKind::Literal(Scalar::Int(x)), ExprKind::Literal(Scalar::Int(y))) = (&left.kind, &right.kind) {
        let folded = match op {
            ArithOp::Add => x.checked_add(*y),
            ArithOp::Sub => x.checked_sub(*y),
            ArithOp::Mul => x.checked_mul(*y),
            ArithOp::Div | ArithOp::Mod => None,
        };
        if let Some(value) = folded.filter(|value| within((*value, *value), logical)) {
            return Some(int_literal(value, logical, nullable));
        }
    }
    let (range, phys, checked) = settle(range, logical, least)?;
    let ty = ColType { logical: logical.clone(), phys, nullable, range: Some(range), dictionary: None };
    Some(Expr { kind: kind(op, left.widen(phys), right.widen(phys), checked), ty })
}

/// Range and representation of a result in `range` (`None`: beyond i128) with operands of type `least` or narrower, and whether the arithmetic must
/// be checked.
///
/// A result that fits the logical type needs no check. Otherwise, if the logical type's own representation holds the operands, the arithmetic is
/// checked in it; if not, the result is computed exactly in a wider representation, and converted with a check when it leaves the program.
fn settle(range: Option<Range>, logical: &DataType, least: Phys) -> Option<(Range, Phys, bool)> {
    let bounds = ColType::range_of(logical)?;
    let decimal = matches!(logical, DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..));
    let natural = Phys::for_range(bounds);
    Some(match range {
        Some(range) if within(range, logical) => (range, Phys::for_range(range).max(least), false),
        _ if decimal => (bounds, natural.max(least), true),
        _ if least <= natural && bounds == bounds_of(natural) => (bounds, natural, true),
        Some(range) => (range, Phys::for_range(range).max(least), false),
        None => (bounds_of(Phys::I128), Phys::I128, true),
    })
}

fn bounds_of(phys: Phys) -> Range {
    match phys {
        Phys::I32 => (i32::MIN.into(), i32::MAX.into()),
        Phys::I64 => (i64::MIN.into(), i64::MAX.into()),
        _ => (i128::MIN, i128::MAX),
    }
}

fn within(range: Range, logical: &DataType) -> bool {
    ColType::range_of(logical).is_some_and(|(lo, hi)| lo <= range.0 && range.1 <= hi)
}

fn product(a: Range, b: Range) -> Option<Range> {
    let corners = [a.0.checked_mul(b.0)?, a.0.checked_mul(b.1)?, a.1.checked_mul(b.0)?, a.1.checked_mul(b.1)?];
    Some((*corners.iter().min()?, *corners.iter().max()?))
}

/// The number of digits by which the dividend is scaled up; `None` if negative.
fn exponent(left: &Expr, right: &Expr, logical: &DataType) -> Option<u32> {
    let exponent = scale(logical)? - scale(&left.ty.logical)? + scale(&right.ty.logical)?;
    u32::try_from(exponent).ok()
}

/// Range of a quotient, and a representation that also fits the scaled dividend.
fn quotient(a: Range, least: Phys, exponent: u32) -> (Option<Range>, Phys) {
    let scaled = 10i128.checked_pow(exponent).and_then(|factor| product(a, (factor, factor)));
    // The divisor's magnitude is at least 1, with either sign.
    let range = scaled.and_then(|(lo, hi)| {
        let max = lo.checked_abs()?.max(hi.checked_abs()?);
        Some((-max, max))
    });
    match range {
        Some(range) => (Some(range), least.max(Phys::for_range(range))),
        None => (None, Phys::I128),
    }
}

fn remainder(a: Range, b: Range) -> Range {
    let divisor = b.0.unsigned_abs().max(b.1.unsigned_abs()).saturating_sub(1);
    let max = i128::try_from(divisor).unwrap_or(i128::MAX);
    (if a.0 >= 0 { 0 } else { (-max).max(a.0) }, if a.1 <= 0 { 0 } else { max.min(a.1) })
}

pub(super) fn int_literal(value: i128, logical: &DataType, nullable: bool) -> Expr {
    let range = (value, value);
    let phys = Phys::for_range(range);
    let ty = ColType { logical: logical.clone(), phys, nullable, range: Some(range), dictionary: None };
    Expr::literal(Scalar::Int(value), ty)
}

fn kind(op: ArithOp, left: Expr, right: Expr, checked: bool) -> ExprKind {
    ExprKind::Arith { op, left: Box::new(left), right: Box::new(right), checked }
}

fn is_temporal(logical: &DataType) -> bool {
    matches!(
        logical,
        DataType::Date32
            | DataType::Date64
            | DataType::Timestamp(..)
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Duration(_)
    )
}
