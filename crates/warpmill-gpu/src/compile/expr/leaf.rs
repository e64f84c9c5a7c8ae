//! Columns, literals, and constants in kernel texts.

use warpmill_ir::{Expr, Phys, Scalar, Unsupported};

use super::context::{Context, null};
use crate::compile::cpp::{CType, Value};

/// Column `index` of the input.
pub(super) fn column(expr: &Expr, index: usize, context: &Context<'_>) -> Result<Value, Unsupported> {
    let value = context.columns.get(index).and_then(Option::as_ref);
    let value = value.ok_or_else(|| Unsupported::new(expr, format!("column {index} is not loaded")))?;
    if value.ty == CType::of(expr.ty.phys) {
        Ok(value.clone())
    } else {
        Err(Unsupported::new(expr, format!("held as {}, not {:?}", value.ty.name(), expr.ty.phys)))
    }
}

/// A literal: a parameter, so that the kernel text does not depend on it.
pub(super) fn literal(expr: &Expr, value: &Scalar, context: &mut Context<'_>) -> Result<Value, Unsupported> {
    let ty = CType::of(expr.ty.phys);
    if let Scalar::Null = value {
        return Ok(null(ty));
    }
    if let Scalar::Bool(value) = value {
        return Ok(Value::new(if *value { "true" } else { "false" }, ty));
    }
    if let (Scalar::Str(text), Phys::Str) = (value, expr.ty.phys) {
        return Ok(Value::new(context.params.text("text", text.clone()), ty));
    }
    let bytes = image(value, expr.ty.phys).ok_or_else(|| Unsupported::new(expr, "a constant of another type"))?;
    Ok(Value::new(context.params.value(ty, "lit", bytes), ty))
}

/// The bytes of a number in representation `phys`; `None` if it does not fit.
pub(super) fn image(value: &Scalar, phys: Phys) -> Option<Vec<u8>> {
    Some(match (value, phys) {
        (Scalar::Int(value), Phys::I32) => i32::try_from(*value).ok()?.to_le_bytes().to_vec(),
        (Scalar::Int(value), Phys::I64) => i64::try_from(*value).ok()?.to_le_bytes().to_vec(),
        (Scalar::Int(value), Phys::I128) => value.to_le_bytes().to_vec(),
        (Scalar::Int(value), Phys::Code) => u32::try_from(*value).ok()?.to_le_bytes().to_vec(),
        (Scalar::Float(value), Phys::F32) => (*value as f32).to_le_bytes().to_vec(),
        (Scalar::Float(value), Phys::F64) => value.to_le_bytes().to_vec(),
        _ => return None,
    })
}

/// An integer constant in the kernel text: a scale factor, or a type's bound.
pub(super) fn constant(value: i128, ty: CType) -> String {
    match ty {
        CType::I128 => format!("i128_of(0x{:x}ull, 0x{:x}ull)", (value >> 64) as u64, value as u64),
        CType::I64 if value == i64::MIN.into() => "(-9223372036854775807ll - 1)".into(),
        CType::I64 => format!("{value}ll"),
        _ if value == i32::MIN.into() => "(-2147483647 - 1)".into(),
        _ => value.to_string(),
    }
}

/// A float constant in the kernel text.
pub(super) fn float_constant(value: f64) -> String {
    format!("{value:?}")
}
