//! Predicates that are a range of one integer column: scans evaluate them on encoded values and prune by them.

use warpmill_ir::{CompareOp, Expr, ExprKind, Scalar};

/// The column and inclusive bounds, if `expr` is true exactly where the column is not NULL and within them. An empty range
/// has `lo > hi`.
pub fn int_range(expr: &Expr) -> Option<(usize, i128, i128)> {
    match &expr.kind {
        ExprKind::And(list) => {
            let mut ranges = list.iter().map(int_range);
            let first = ranges.next()??;
            ranges.try_fold(first, |(column, lo, hi), next| {
                let (other, l, h) = next?;
                (other == column).then(|| (column, lo.max(l), hi.min(h)))
            })
        }
        ExprKind::Compare { op, left, right } => match (column(left), literal(right)) {
            (Some(column), Some(value)) => bounds(*op, value).map(|(lo, hi)| (column, lo, hi)),
            _ => bounds(op.mirrored(), literal(left)?).map(|(lo, hi)| Some((column(right)?, lo, hi)))?,
        },
        _ => None,
    }
}

/// The column of integers that `expr` is, perhaps widened (which keeps values).
fn column(expr: &Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Column(index) if expr.ty.phys.is_int() => Some(*index),
        ExprKind::Widen(input) if input.ty.phys.is_int() => column(input),
        _ => None,
    }
}

fn literal(expr: &Expr) -> Option<i128> {
    match &expr.kind {
        ExprKind::Literal(Scalar::Int(value)) => Some(*value),
        ExprKind::Widen(input) => literal(input),
        _ => None,
    }
}

fn bounds(op: CompareOp, value: i128) -> Option<(i128, i128)> {
    Some(match op {
        CompareOp::Eq => (value, value),
        CompareOp::Lt => (i128::MIN, value.checked_sub(1)?),
        CompareOp::Le => (i128::MIN, value),
        CompareOp::Gt => (value.checked_add(1)?, i128::MAX),
        CompareOp::Ge => (value, i128::MAX),
        CompareOp::Ne | CompareOp::IsDistinct | CompareOp::IsNotDistinct => return None,
    })
}
