//! Comparisons: conversion of operands to one representation, and comparisons decided by ranges.

use std::sync::Arc;

use warpmill_ir::{CompareOp, Expr, ExprKind, Phys, Scalar};

use super::cast::{rescale, scale};
use super::{connective, is_string, negation};

/// `left op right`; `None` for types that do not compare.
pub(crate) fn compare(op: CompareOp, left: Expr, right: Expr) -> Option<Expr> {
    let (left, right) = comparable(left, right)?;
    let never_null = matches!(op, CompareOp::IsDistinct | CompareOp::IsNotDistinct);
    let nullable = !never_null && (left.ty.nullable || right.ty.nullable);
    if !left.ty.nullable
        && !right.ty.nullable
        && let Some(value) = decided(op, &left, &right)
    {
        return Some(Expr::bool(value));
    }
    let ty = Expr::bool(true).ty.with_nullable(nullable);
    Some(Expr { kind: ExprKind::Compare { op, left: Box::new(left), right: Box::new(right) }, ty })
}

/// Converts both expressions to one representation, scale and dictionary for a comparison.
pub(crate) fn comparable(left: Expr, right: Expr) -> Option<(Expr, Expr)> {
    if is_string(&left.ty.logical) && is_string(&right.ty.logical) {
        let same = matches!((&left.ty.dictionary, &right.ty.dictionary), (Some(a), Some(b)) if Arc::ptr_eq(a, b));
        return Some(if same { (left, right) } else { (left.widen(Phys::Str), right.widen(Phys::Str)) });
    }
    let (left, right) = match (scale(&left.ty.logical), scale(&right.ty.logical)) {
        (Some(_), Some(_)) => align(left, right)?,
        _ if left.ty.logical == right.ty.logical => (left, right),
        _ => return None,
    };
    let phys = left.ty.phys.max(right.ty.phys);
    Some((left.widen(phys), right.widen(phys)))
}

/// Converts exact numbers to equal scales. If one side is a constant, a widening cast of the other side is removed.
fn align(left: Expr, right: Expr) -> Option<(Expr, Expr)> {
    let (left, right) = unscaled(left, right);
    let (right, left) = unscaled(right, left);
    let to = scale(&left.ty.logical)?.max(scale(&right.ty.logical)?);
    Some((rescale(left, to)?, rescale(right, to)?))
}

/// Rewrites `(CAST(x AS more digits), constant)` to `(x, the constant with fewer digits)` if the constant needs no more digits.
fn unscaled(value: Expr, constant: Expr) -> (Expr, Expr) {
    let stripped = (|| {
        let ExprKind::Cast { input, .. } = &value.kind else { return None };
        let ExprKind::Literal(Scalar::Int(digits)) = constant.kind else { return None };
        let (from, to) = (scale(&input.ty.logical)?, scale(&constant.ty.logical)?);
        let factor = 10i128.checked_pow(u32::try_from(to - from).ok()?)?;
        // The bounds of a cast that could fail come from its type, not its input.
        let proven = input.ty.range?.0.checked_mul(factor)? == value.ty.range?.0
            && input.ty.range?.1.checked_mul(factor)? == value.ty.range?.1;
        let same_scale = scale(&value.ty.logical)? == to;
        (proven && same_scale && digits % factor == 0).then(|| {
            let constant = super::arith::int_literal(digits / factor, &input.ty.logical, constant.ty.nullable);
            ((**input).clone(), constant)
        })
    })();
    stripped.unwrap_or((value, constant))
}

/// The result of comparing two non-null integers if their ranges decide it.
fn decided(op: CompareOp, left: &Expr, right: &Expr) -> Option<bool> {
    let (a, b) = (left.ty.range?, right.ty.range?);
    let (less, greater) = (a.1 < b.0, a.0 > b.1);
    let equal = a.0 == a.1 && a == b;
    match op {
        CompareOp::Eq | CompareOp::IsNotDistinct if less || greater => Some(false),
        CompareOp::Eq | CompareOp::IsNotDistinct if equal => Some(true),
        CompareOp::Ne | CompareOp::IsDistinct if less || greater => Some(true),
        CompareOp::Ne | CompareOp::IsDistinct if equal => Some(false),
        CompareOp::Lt if less => Some(true),
        CompareOp::Lt if a.0 >= b.1 => Some(false),
        CompareOp::Le if a.1 <= b.0 => Some(true),
        CompareOp::Le if greater => Some(false),
        CompareOp::Gt if greater => Some(true),
        CompareOp::Gt if a.1 <= b.0 => Some(false),
        CompareOp::Ge if a.0 >= b.1 => Some(true),
        CompareOp::Ge if less => Some(false),
        _ => None,
    }
}

/// `input IN (items)`; `None` for types that do not compare.
pub(super) fn in_list(input: Expr, items: Vec<Expr>, negated: bool) -> Option<Expr> {
    let has_null = items.iter().any(|item| matches!(item.kind, ExprKind::Literal(Scalar::Null)));
    let mut constants = Vec::new();
    for item in items.iter().filter(|item| !matches!(item.kind, ExprKind::Literal(Scalar::Null))) {
        let same_units = item.ty.logical == input.ty.logical
            || is_string(&item.ty.logical) && is_string(&input.ty.logical)
            || matches!((scale(&item.ty.logical), scale(&input.ty.logical)), (Some(a), Some(b)) if a == b);
        match &item.kind {
            ExprKind::Literal(scalar) if same_units => constants.push(scalar.clone()),
            _ => return any_equal(input, items, negated),
        }
    }
    let input = if input.ty.phys == Phys::Code { input.widen(Phys::Str) } else { input };
    if let Some((lo, hi)) = input.ty.range {
        // Constants outside of the column's range never match (and may not fit the representation).
        constants.retain(|constant| matches!(constant, Scalar::Int(value) if lo <= *value && *value <= hi));
    }
    let ty = Expr::bool(true).ty.with_nullable(input.ty.nullable || has_null);
    Some(Expr { kind: ExprKind::InList { input: Box::new(input), list: constants, has_null, negated }, ty })
}

/// `input = item OR ...` for lists that are not constant.
fn any_equal(input: Expr, items: Vec<Expr>, negated: bool) -> Option<Expr> {
    let equal: Vec<Expr> =
        items.into_iter().map(|item| compare(CompareOp::Eq, input.clone(), item)).collect::<Option<_>>()?;
    let any = equal.into_iter().reduce(|a, b| connective(false, a, b))?;
    Some(if negated { negation(any) } else { any })
}
