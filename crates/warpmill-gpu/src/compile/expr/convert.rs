//! Conversions from and to text.

use arrow::datatypes::DataType;
use warpmill_ir::{ColType, Expr, Unsupported};

use super::arith::scale_of;
use super::cast::{self, failing, held_as, is_decimal, string};
use super::context::Context;
use super::leaf::constant;
use crate::compile::cpp::{CType, Value};
use crate::kernels::library::Library;

/// `input` as text.
pub(super) fn to_text(expr: &Expr, input: &Expr, context: &mut Context<'_>) -> Result<Value, Unsupported> {
    let value = context.emit(input)?;
    context.params.require(Library::Format);
    let state = context.params.state();
    let x = &value.text;
    let call = match &input.ty.logical {
        DataType::Boolean => format!("format_bool({state}, {x})"),
        DataType::Float32 | DataType::Float64 => format!("format_float({state}, {x})"),
        DataType::Date32 => format!("format_date({state}, {x})"),
        DataType::Timestamp(unit, None) => {
            format!("format_timestamp({state}, {x}, {})", constant(cast::units_per_second(*unit), CType::I64))
        }
        logical if logical.is_integer() || is_decimal(logical) && scale_of(logical) >= 0 => {
            format!("format_decimal({state}, {x}, {})", scale_of(logical))
        }
        other => return Err(Unsupported::new(expr, format!("a conversion of {other} to text"))),
    };
    let text = context.where_ok(CType::Str, &call, value.valid.as_deref());
    Ok(context.define(CType::Str, &text, value.valid))
}

/// Text as a value of the type of `expr`.
pub(super) fn from_text(
    expr: &Expr,
    value: Value,
    try_cast: bool,
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    let to = &expr.ty.logical;
    context.params.require(Library::Parse);
    let state = context.params.state();
    let s = &value.text;
    let bad = context.code.variable(CType::Bool, "bad", "false");
    let bounds = || {
        let (low, high) = ColType::range_of(to).unwrap_or((i128::MIN, i128::MAX));
        format!("{}, {}", constant(low, CType::I128), constant(high, CType::I128))
    };
    let (ty, call) = match to {
        DataType::Boolean => (CType::Bool, format!("parse_bool({state}, {s}, {bad})")),
        DataType::Float32 => (CType::F32, format!("parse_f32({state}, {s})")),
        DataType::Float64 => (CType::F64, format!("parse_f64({state}, {s})")),
        DataType::Date32 => (CType::I64, format!("parse_date({state}, {s}, {bad})")),
        DataType::Timestamp(unit, None) => {
            let units = constant(cast::units_per_second(*unit), CType::I64);
            (CType::I64, format!("parse_timestamp({state}, {s}, {units}, {bad})"))
        }
        to if to.is_integer() => (CType::I128, format!("parse_int({s}, {}, {bad})", bounds())),
        to if is_decimal(to) && scale_of(to) >= 0 => {
            (CType::I128, format!("parse_decimal({state}, {s}, {}, {}, {bad})", scale_of(to), bounds()))
        }
        other => return Err(Unsupported::new(expr, format!("a conversion of text to {other}"))),
    };
    let text = context.where_ok(ty, &call, value.valid.as_deref());
    let parsed = context.define(ty, &text, value.valid);
    let valid = failing(&bad, parsed.valid.clone(), try_cast, "ERROR_CAST", context);
    Ok(held_as(parsed.with_valid(valid), CType::of(expr.ty.phys), context))
}

/// Parses text as a date or a timestamp by DuckDB's rules.
pub(super) fn read_moment(
    expr: &Expr,
    input: &Expr,
    or_null: bool,
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    let value = string(input, context)?;
    context.params.require(Library::Parse);
    let (state, s) = (context.params.state(), &value.text);
    let bad = context.code.variable(CType::Bool, "bad", "false");
    let call = match units_per_second(&expr.ty.logical) {
        None => format!("read_date({state}, {s}, {bad})"),
        Some(units) => format!("read_timestamp({state}, {s}, {}, {bad})", constant(units, CType::I64)),
    };
    let text = context.where_ok(CType::I64, &call, value.valid.as_deref());
    let read = context.define(CType::I64, &text, value.valid);
    let valid = failing(&bad, read.valid.clone(), or_null, "ERROR_CAST", context);
    Ok(held_as(read.with_valid(valid), CType::of(expr.ty.phys), context))
}

/// Formats a date or a timestamp by DuckDB's rules.
pub(super) fn write_moment(input: &Expr, context: &mut Context<'_>) -> Result<Value, Unsupported> {
    let value = context.emit(input)?;
    let value = held_as(value, CType::I64, context);
    context.params.require(Library::Format);
    let (state, x) = (context.params.state(), &value.text);
    let call = match units_per_second(&input.ty.logical) {
        None => format!("write_date({state}, {x})"),
        Some(units) => format!("write_timestamp({state}, {x}, {})", constant(units, CType::I64)),
    };
    let text = context.where_ok(CType::Str, &call, value.valid.as_deref());
    Ok(context.define(CType::Str, &text, value.valid))
}

/// Ticks per second of a timestamp; `None` for dates.
fn units_per_second(ty: &DataType) -> Option<i128> {
    match ty {
        DataType::Timestamp(unit, _) => Some(cast::units_per_second(*unit)),
        _ => None,
    }
}
