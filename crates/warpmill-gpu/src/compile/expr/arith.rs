//! Arithmetic: proven not to overflow by value ranges, or checked.

use arrow::datatypes::DataType;
use warpmill_ir::{ArithOp, ColType, Expr, Phys, Unsupported};

use super::context::Context;
use super::leaf::constant;
use crate::compile::cpp::{CType, Value};
use crate::kernels::library::Library;

/// The scale of a decimal type, zero for other types.
pub(super) fn scale_of(logical: &DataType) -> i32 {
    match logical {
        DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => i32::from(*s),
        _ => 0,
    }
}

/// The bounds of an integer representation.
pub(super) fn bounds_of(ty: CType) -> (i128, i128) {
    match ty {
        CType::I32 => (i32::MIN.into(), i32::MAX.into()),
        CType::I64 => (i64::MIN.into(), i64::MAX.into()),
        _ => (i128::MIN, i128::MAX),
    }
}

/// The bounds of an integer expression's values.
pub(super) fn range_of(ty: &ColType) -> (i128, i128) {
    ty.range.unwrap_or(bounds_of(CType::of(ty.phys)))
}

/// The tests among `value < low || value > high` that can be true for type `ty`; `None` if neither can.
pub(super) fn outside(value: &str, ty: CType, (low, high): (i128, i128)) -> Option<String> {
    let (least, most) = bounds_of(ty);
    let below = (low > least).then(|| format!("{value} < {}", constant(low, ty)));
    let above = (high < most).then(|| format!("{value} > {}", constant(high, ty)));
    let tests: Vec<String> = below.into_iter().chain(above).collect();
    (!tests.is_empty()).then(|| tests.join(" || "))
}

fn fits_i64((low, high): (i128, i128)) -> bool {
    i64::try_from(low).is_ok() && i64::try_from(high).is_ok()
}

/// `left op right`.
pub(super) fn arith(
    expr: &Expr,
    op: ArithOp,
    left: &Expr,
    right: &Expr,
    checked: bool,
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    let scale = match op {
        ArithOp::Div if expr.ty.phys.is_int() => dividend_scale(expr, left, right)?,
        _ => 1,
    };
    let (a, b) = (context.emit(left)?, context.emit(right)?);
    let valid = context.both_valid(&[&a, &b]);
    let ty = CType::of(expr.ty.phys);
    context.params.require(Library::Arith);
    let name = match op {
        ArithOp::Add => "add",
        ArithOp::Sub => "sub",
        ArithOp::Mul => "mul",
        ArithOp::Div => "quotient",
        ArithOp::Mod => "modulo",
    };
    let (x, y) = (&a.text, &b.text);
    if !expr.ty.phys.is_int() {
        if !matches!(expr.ty.phys, Phys::F32 | Phys::F64) {
            return Err(Unsupported::new(expr, format!("arithmetic on {:?}", expr.ty.phys)));
        }
        return Ok(context.define(ty, &format!("{name}({x}, {y})"), valid));
    }
    if matches!(op, ArithOp::Div | ArithOp::Mod) {
        let (low, high) = range_of(&right.ty);
        if low <= 0 && high >= 0 {
            context.raise(&format!("{y} == 0"), valid.as_deref(), "ERROR_DIVISION");
        }
    }
    if scale != 1 {
        return Ok(scaled_division(expr, (left, &a), (right, &b), scale, checked, valid, context));
    }
    if !checked {
        let narrow = op == ArithOp::Mul && ty == CType::I128;
        let text = if narrow && fits_i64(range_of(&left.ty)) && fits_i64(range_of(&right.ty)) {
            format!("mul_wide((i64){x}, (i64){y})")
        } else {
            format!("{name}({x}, {y})")
        };
        return Ok(context.define(ty, &text, valid));
    }
    if op == ArithOp::Mod {
        let text = format!("modulo({x}, {y})");
        let value = context.define(ty, &text, valid);
        if let Some(bad) = decimal_bounds(expr).and_then(|bounds| outside(&value.text, ty, bounds)) {
            context.raise(&format!("({bad})"), value.valid.as_deref(), "ERROR_OVERFLOW");
        }
        return Ok(value);
    }
    let text = format!("{name}_checked({x}, {y}, ");
    Ok(checked_value(expr, &text, valid, context))
}

/// The value of the C++ call `call bad)`; raises an error if `bad` is set, or the result is outside the range of its type.
fn checked_value(expr: &Expr, call: &str, valid: Option<String>, context: &mut Context<'_>) -> Value {
    let ty = CType::of(expr.ty.phys);
    let bad = context.code.variable(CType::Bool, "bad", "false");
    let value = context.define(ty, &format!("{call}{bad})"), valid);
    let bad = match decimal_bounds(expr).and_then(|bounds| outside(&value.text, ty, bounds)) {
        Some(outside) => format!("({bad} || {outside})"),
        None => bad,
    };
    context.raise(&bad, value.valid.as_deref(), "ERROR_OVERFLOW");
    value
}

/// Value range of the logical type, if it is narrower than the representation.
fn decimal_bounds(expr: &Expr) -> Option<(i128, i128)> {
    ColType::range_of(&expr.ty.logical)
}

fn dividend_scale(expr: &Expr, left: &Expr, right: &Expr) -> Result<i128, Unsupported> {
    let exponent = scale_of(&expr.ty.logical) - scale_of(&left.ty.logical) + scale_of(&right.ty.logical);
    let scale = u32::try_from(exponent).ok().and_then(|e| 10i128.checked_pow(e));
    scale.ok_or_else(|| Unsupported::new(expr, format!("a dividend scaled by 10^{exponent}")))
}

/// `left * scale / right`, in 64 bits if that is proven to suffice.
fn scaled_division(
    expr: &Expr,
    (left, a): (&Expr, &Value),
    (right, b): (&Expr, &Value),
    scale: i128,
    checked: bool,
    valid: Option<String>,
    context: &mut Context<'_>,
) -> Value {
    let ty = CType::of(expr.ty.phys);
    let (low, high) = range_of(&left.ty);
    let dividend = low.checked_mul(scale).zip(high.checked_mul(scale));
    if !checked && dividend.is_some_and(fits_i64) && fits_i64(range_of(&right.ty)) {
        let factor = constant(scale, CType::I64);
        let text = format!("({})quotient(mul((i64){}, {factor}), (i64){})", ty.name(), a.text, b.text);
        return context.define(ty, &text, valid);
    }
    let (low, high) = decimal_bounds(expr).filter(|_| checked).unwrap_or((i128::MIN, i128::MAX));
    let constants = [scale, low, high].map(|value| constant(value, CType::I128)).join(", ");
    let bad = context.code.variable(CType::Bool, "bad", "false");
    let value = context.define(ty, &format!("quotient_scaled({}, {}, {constants}, {bad})", a.text, b.text), valid);
    context.raise(&bad, value.valid.as_deref(), "ERROR_OVERFLOW");
    value
}

/// `-input`.
pub(super) fn negate(
    expr: &Expr,
    input: &Expr,
    checked: bool,
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    let ty = CType::of(expr.ty.phys);
    let a = context.emit(input)?;
    context.params.require(Library::Arith);
    if checked && expr.ty.phys.is_int() {
        let text = format!("sub_checked(({})0, {}, ", ty.name(), a.text);
        return Ok(checked_value(expr, &text, a.valid, context));
    }
    match expr.ty.phys {
        Phys::I32 | Phys::I64 | Phys::I128 | Phys::F32 | Phys::F64 => {
            Ok(context.define(ty, &format!("negate({})", a.text), a.valid))
        }
        other => Err(Unsupported::new(expr, format!("negation of {other:?}"))),
    }
}
