//! Numeric functions.

use warpmill_ir::{ColType, Expr, Function, Phys, Unsupported};

use super::arith::{outside, scale_of};
use super::cast::held_as;
use super::context::Context;
use crate::compile::cpp::{CType, Value};
use crate::kernels::library::Library;

/// `function(args)`.
pub(super) fn call(
    expr: &Expr,
    function: Function,
    args: &[Expr],
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    let first = args.first().ok_or_else(|| Unsupported::new(expr, "no arguments"))?;
    context.params.require(Library::Math);
    let value = context.emit(first)?;
    let second = args.get(1).map(|arg| context.emit(arg)).transpose()?;
    if first.ty.phys.is_int() {
        return exact(expr, function, (first, value), second, context);
    }
    if !matches!(first.ty.phys, Phys::F32 | Phys::F64) {
        return Err(Unsupported::new(expr, format!("{function:?} of {:?}", first.ty.phys)));
    }
    let valid = context.both_valid(&[&value].into_iter().chain(&second).collect::<Vec<_>>());
    let x = &value.text;
    let name = match function {
        Function::Abs => "absolute",
        Function::Sign => "sign",
        Function::Round => "rounded",
        Function::Floor => "floored",
        Function::Ceil => "raised",
        Function::Trunc => "truncated",
        Function::Sqrt => {
            context.raise(&format!("{x} < 0"), valid.as_deref(), "ERROR_VALUE");
            "square_root"
        }
        Function::Exp => "exponential",
        Function::Ln => "natural_logarithm",
        Function::Log10 => "decimal_logarithm",
        Function::Power => {
            let exponent = second.as_ref().ok_or_else(|| Unsupported::new(expr, "no exponent"))?;
            let text = format!("power({x}, {})", exponent.text);
            return Ok(context.define(value.ty, &text, valid));
        }
        other => return Err(Unsupported::new(expr, format!("{other:?} of floats"))),
    };
    let text = match second {
        Some(places) if matches!(function, Function::Round | Function::Trunc) => {
            let places = held_as(places, CType::I64, context);
            format!("{name}({x}, {})", places.text)
        }
        _ => format!("{name}({x})"),
    };
    Ok(context.define(value.ty, &text, valid))
}

/// Functions of integers and decimals, computed on unscaled integers.
fn exact(
    expr: &Expr,
    function: Function,
    (first, value): (&Expr, Value),
    places: Option<Value>,
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    let ty = CType::of(expr.ty.phys);
    let valid = context.both_valid(&[&value].into_iter().chain(&places).collect::<Vec<_>>());
    let bad = context.code.variable(CType::Bool, "bad", "false");
    let result = if function == Function::Abs {
        let text = format!("absolute_checked({}, {bad})", value.text);
        context.define(value.ty, &text, valid)
    } else {
        let scale = scale_of(&first.ty.logical);
        let wide = held_as(value, CType::I128, context);
        let places = places.map(|places| held_as(places, CType::I64, context));
        let places = places.map_or_else(|| "0ll".to_owned(), |places| places.text);
        let x = &wide.text;
        let text = match function {
            Function::Floor | Function::Ceil if scale <= 0 => x.clone(),
            Function::Floor => format!("floored({x}, {scale})"),
            Function::Ceil => format!("raised({x}, {scale})"),
            Function::Trunc => format!("truncated({x}, {scale}, {places})"),
            Function::Round => format!("rounded({x}, {scale}, {places}, {}, {bad})", scale_of(&expr.ty.logical)),
            other => return Err(Unsupported::new(expr, format!("{other:?} of exact numbers"))),
        };
        context.define(CType::I128, &text, valid)
    };
    let bounds = ColType::range_of(&expr.ty.logical).unwrap_or((i128::MIN, i128::MAX));
    let failed = match outside(&result.text, result.ty, bounds) {
        Some(outside) => format!("({bad} || {outside})"),
        None => bad,
    };
    context.raise(&failed, result.valid.as_deref(), "ERROR_OVERFLOW");
    Ok(held_as(result, ty, context))
}
