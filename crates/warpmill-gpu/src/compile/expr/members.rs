//! IN lists of constants: a few comparisons, or a search in a sorted list in device memory.

use std::sync::Arc;

use warpmill_ir::{CompareOp, Expr, Phys, Scalar, Unsupported};

use super::compare::relation;
use super::context::{Context, FEW};
use super::leaf::{image, literal};
use crate::compile::cpp::{CType, Value};
use crate::compile::params::Binding;
use crate::kernels::library::Library;

/// `input [NOT] IN (list)`.
pub(super) fn in_list(
    input: &Expr,
    list: &[Scalar],
    has_null: bool,
    negated: bool,
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    let value = context.emit(input)?;
    let found = if list.len() <= FEW || input.ty.phys == Phys::Bool {
        few(input, &value, list, context)?
    } else {
        many(input, &value, list, context)?
    };
    let found = context.named(CType::Bool, "found", &found);
    let valid = match (&value.valid, has_null) {
        (valid, false) => valid.clone(),
        // Not found in a list with NULL: the result is NULL.
        (None, true) => Some(found.clone()),
        (Some(valid), true) => Some(context.named(CType::Bool, "valid", &format!("{valid} && {found}"))),
    };
    let text = if negated { format!("!{found}") } else { found };
    Ok(context.define(CType::Bool, &text, valid))
}

fn few(input: &Expr, value: &Value, list: &[Scalar], context: &mut Context<'_>) -> Result<String, Unsupported> {
    let mut tests = Vec::with_capacity(list.len());
    for member in list {
        let member = literal(&Expr::literal(member.clone(), input.ty.clone()), member, context)?;
        tests.push(relation(CompareOp::Eq, value, &member, context));
    }
    if tests.is_empty() {
        return Ok("false".into());
    }
    let any = tests.join(" || ");
    if value.ty == CType::Str {
        let any = if tests.len() > 1 { format!("({any})") } else { any };
        return Ok(context.where_ok(CType::Bool, &any, value.valid.as_deref()));
    }
    Ok(any)
}

fn many(input: &Expr, value: &Value, list: &[Scalar], context: &mut Context<'_>) -> Result<String, Unsupported> {
    let (binding, count) = match input.ty.phys {
        Phys::Str => {
            let mut strings: Vec<String> = list.iter().filter_map(string).collect();
            strings.sort_unstable();
            strings.dedup();
            let count = strings.len();
            (Binding::Strings(Arc::new(strings)), count)
        }
        phys => {
            let sorted = sorted(list, phys);
            let bytes: Option<Vec<Vec<u8>>> = sorted.iter().map(|member| image(member, phys)).collect();
            let bytes = bytes.ok_or_else(|| Unsupported::new(input, "a list of constants of another type"))?;
            (Binding::Data(bytes.concat().into()), sorted.len())
        }
    };
    let ordered = if value.ty == CType::Str { Library::Strings } else { Library::Compare };
    context.params.require(ordered);
    let list = context.params.pointer(value.ty.name(), "list", binding);
    let count = context.params.value(CType::U32, "members", (count as u32).to_le_bytes().to_vec());
    let text = format!("is_member({list}, {count}, {})", value.text);
    Ok(if value.ty == CType::Str { context.where_ok(CType::Bool, &text, value.valid.as_deref()) } else { text })
}

fn string(value: &Scalar) -> Option<String> {
    if let Scalar::Str(value) = value { Some(value.to_string()) } else { None }
}

/// Distinct numbers in comparison order.
fn sorted(list: &[Scalar], phys: Phys) -> Vec<Scalar> {
    let mut ints: Vec<i128> =
        list.iter().filter_map(|v| if let Scalar::Int(v) = v { Some(*v) } else { None }).collect();
    ints.sort_unstable();
    ints.dedup();
    // Normalize zeros, and NaNs, which are greater than all numbers.
    let float = |v: f64| if v.is_nan() { f64::NAN } else { v + 0.0 };
    let narrow = |v: f64| if phys == Phys::F32 { f64::from(v as f32) } else { v };
    let floats = list.iter().filter_map(|v| if let Scalar::Float(v) = v { Some(float(narrow(*v))) } else { None });
    let mut floats: Vec<f64> = floats.collect();
    floats.sort_unstable_by(f64::total_cmp);
    floats.dedup_by(|a, b| a.to_bits() == b.to_bits());
    ints.into_iter().map(Scalar::Int).chain(floats.into_iter().map(Scalar::Float)).collect()
}
