//! Comparisons.

use warpmill_ir::{CompareOp, Expr, Unsupported};

use super::context::Context;
use crate::compile::cpp::{CType, Value};
use crate::kernels::library::Library;

/// `left op right`.
pub(super) fn compare(
    op: CompareOp,
    left: &Expr,
    right: &Expr,
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    let (a, b) = (context.emit(left)?, context.emit(right)?);
    if !matches!(op, CompareOp::IsDistinct | CompareOp::IsNotDistinct) {
        let valid = context.both_valid(&[&a, &b]);
        let text = relation_where_valid(op, &a, &b, valid.as_deref(), context);
        return Ok(context.define(CType::Bool, &text, valid));
    }
    let valid = context.both_valid(&[&a, &b]);
    let equal = relation_where_valid(CompareOp::Eq, &a, &b, valid.as_deref(), context);
    let same = match (&a.valid, &b.valid) {
        (None, None) => equal,
        _ => {
            let equal = context.named(CType::Bool, "equal", &equal);
            let (a, b) = (a.valid_text(), b.valid_text());
            format!("{a} == {b} && (!{a} || {equal})")
        }
    };
    let text = if op == CompareOp::IsDistinct { format!("!({same})") } else { same };
    Ok(context.define(CType::Bool, &text, None))
}

/// The truth value of `a op b` where `valid` holds; `op` is not one of the NULL-aware operators.
pub(super) fn relation_where_valid(
    op: CompareOp,
    a: &Value,
    b: &Value,
    valid: Option<&str>,
    context: &mut Context<'_>,
) -> String {
    let text = relation(op, a, b, context);
    if a.ty == CType::Str { context.where_ok(CType::Bool, &text, valid) } else { text }
}

/// Like [`relation_where_valid`], for rows that are known to exist and be valid.
pub(super) fn relation(op: CompareOp, a: &Value, b: &Value, context: &mut Context<'_>) -> String {
    let (x, y) = (&a.text, &b.text);
    let ordered = match a.ty {
        CType::Str => Library::Strings,
        CType::F32 | CType::F64 => Library::Compare,
        _ => {
            let sign = match op {
                CompareOp::Eq | CompareOp::IsNotDistinct => "==",
                CompareOp::Ne | CompareOp::IsDistinct => "!=",
                CompareOp::Lt => "<",
                CompareOp::Le => "<=",
                CompareOp::Gt => ">",
                CompareOp::Ge => ">=",
            };
            return format!("{x} {sign} {y}");
        }
    };
    context.params.require(ordered);
    match op {
        CompareOp::Eq | CompareOp::IsNotDistinct => format!("same({x}, {y})"),
        CompareOp::Ne | CompareOp::IsDistinct => format!("!same({x}, {y})"),
        CompareOp::Lt => format!("less({x}, {y})"),
        CompareOp::Gt => format!("less({y}, {x})"),
        CompareOp::Ge => format!("!less({x}, {y})"),
        CompareOp::Le => format!("!less({y}, {x})"),
    }
}
