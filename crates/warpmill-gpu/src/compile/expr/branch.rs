//! Conditional values: CASE, COALESCE, NULLIF, GREATEST, LEAST; scalar subqueries.

use warpmill_ir::{CompareOp, Expr, Function, Unsupported};

use super::compare::relation_where_valid;
use super::context::{Context, all_of, null};
use super::logic::truth;
use crate::compile::cpp::{CType, Value};

/// Variables assigned in one of several branches; NULL until assigned.
struct Slot {
    value: String,
    valid: Option<String>,
}

impl Slot {
    fn new(ty: CType, nullable: bool, context: &mut Context<'_>) -> Self {
        let value = context.code.variable(ty, "v", ty.zero());
        let valid = nullable.then(|| context.code.variable(CType::Bool, "valid", "false"));
        Self { value, valid }
    }

    /// Assigns the value of `expr`.
    fn assign(&self, expr: &Expr, context: &mut Context<'_>) -> Result<(), Unsupported> {
        let value = context.emit(expr)?;
        context.code.line(format!("{} = {};", self.value, value.text));
        if let Some(valid) = &self.valid {
            context.code.line(format!("{valid} = {};", value.valid_text()));
        }
        Ok(())
    }

    fn into_value(self, ty: CType) -> Value {
        Value::new(self.value, ty).with_valid(self.valid)
    }
}

/// CASE: evaluates each condition for rows that no earlier branch took, and each value for the rows of its branch.
pub(super) fn case(
    expr: &Expr,
    branches: &[(Expr, Expr)],
    otherwise: Option<&Expr>,
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    let ty = CType::of(expr.ty.phys);
    let conditions_later = branches.iter().skip(1).map(|(when, _)| when);
    let mut unconditional = branches.iter().map(|(_, then)| then).chain(otherwise).chain(conditions_later);
    if unconditional.all(|expr| context.is_simple(expr)) {
        return choice(ty, branches, otherwise, context);
    }
    let nullable = otherwise.is_none_or(|e| e.ty.nullable) || branches.iter().any(|(_, then)| then.ty.nullable);
    let slot = Slot::new(ty, nullable, context);
    alternatives(&slot, branches, otherwise, context)?;
    Ok(slot.into_value(ty))
}

/// A choice among values that are all computed.
fn choice(
    ty: CType,
    branches: &[(Expr, Expr)],
    otherwise: Option<&Expr>,
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    let mut chosen = Vec::with_capacity(branches.len());
    for (when, then) in branches {
        let when = truth(when, context)?;
        chosen.push((context.named(CType::Bool, "when", &when), context.emit(then)?));
    }
    let last = otherwise.map(|otherwise| context.emit(otherwise)).transpose()?.unwrap_or_else(|| null(ty));
    let choose = |part: &dyn Fn(&Value) -> String| {
        chosen.iter().rev().fold(part(&last), |rest, (when, value)| format!("{when} ? {} : {rest}", part(value)))
    };
    let nullable = last.valid.is_some() || chosen.iter().any(|(_, value)| value.valid.is_some());
    let valid = nullable.then(|| choose(&|value| value.valid_text().to_owned()));
    let valid = valid.map(|valid| context.named(CType::Bool, "valid", &valid));
    Ok(context.define(ty, &choose(&|value| value.text.clone()), valid))
}

fn alternatives(
    slot: &Slot,
    branches: &[(Expr, Expr)],
    otherwise: Option<&Expr>,
    context: &mut Context<'_>,
) -> Result<(), Unsupported> {
    let Some(((when, then), rest)) = branches.split_first() else {
        return match otherwise {
            Some(otherwise) if context.guard == "true" || context.is_simple(otherwise) => {
                slot.assign(otherwise, context)
            }
            Some(otherwise) => {
                let guard = context.guard.clone();
                context.scope(&guard, |context| slot.assign(otherwise, context))
            }
            None => Ok(()),
        };
    };
    let when = truth(when, context)?;
    let taken = all_of(&[&context.guard, &when]);
    context.scope(&taken, |context| slot.assign(then, context))?;
    if rest.is_empty() && otherwise.is_none() {
        return Ok(());
    }
    // Rows out of the guard reach the else branch, too.
    let guard = context.guard.clone();
    context.block("else", guard, |context| alternatives(slot, rest, otherwise, context))
}

/// COALESCE: evaluates each argument for rows in which all earlier ones are NULL.
pub(super) fn coalesce(expr: &Expr, args: &[Expr], context: &mut Context<'_>) -> Result<Value, Unsupported> {
    let ty = CType::of(expr.ty.phys);
    let Some((first, rest)) = args.split_first() else { return Ok(null(ty)) };
    let mut result = context.emit(first)?;
    for (i, arg) in rest.iter().enumerate() {
        let Some(valid) = result.valid.clone() else { return Ok(result) };
        if !context.is_simple(arg) {
            return coalesce_rest(result, &rest[i..], context);
        }
        let next = context.emit(arg)?;
        let either = next.valid.as_ref().map(|next| context.named(CType::Bool, "valid", &format!("{valid} || {next}")));
        result = context.define(ty, &format!("{valid} ? {} : {}", result.text, next.text), either);
    }
    Ok(result)
}

fn coalesce_rest(first: Value, rest: &[Expr], context: &mut Context<'_>) -> Result<Value, Unsupported> {
    let value = context.code.variable(first.ty, "v", &first.text);
    let valid = context.code.variable(CType::Bool, "valid", first.valid_text());
    let slot = Slot { value, valid: Some(valid.clone()) };
    let open = all_of(&[&context.guard, &format!("!{valid}")]);
    for arg in rest {
        context.scope(&open, |context| slot.assign(arg, context))?;
    }
    Ok(slot.into_value(first.ty))
}

/// The value of a scalar subquery, whose number of rows is the second argument; more than one raises an error.
pub(super) fn only_row(expr: &Expr, args: &[Expr], context: &mut Context<'_>) -> Result<Value, Unsupported> {
    let [value, rows] = args else { return Err(Unsupported::new(expr, "arguments of another number")) };
    let (value, rows) = (context.emit(value)?, context.emit(rows)?);
    context.raise(&format!("{} > 1", rows.text), rows.valid.as_deref(), "ERROR_VALUE");
    Ok(value)
}

/// NULLIF: the first argument, or NULL if it equals the second.
pub(super) fn null_if(expr: &Expr, args: &[Expr], context: &mut Context<'_>) -> Result<Value, Unsupported> {
    let [value, other] = args else { return Err(Unsupported::new(expr, "arguments of another number")) };
    let (value, other) = (context.emit(value)?, context.emit(other)?);
    let both = context.both_valid(&[&value, &other]);
    let same = relation_where_valid(CompareOp::Eq, &value, &other, both.as_deref(), context);
    let same = context.named(CType::Bool, "same", &same);
    let valid = match (&value.valid, &both) {
        (Some(valid), Some(both)) => format!("{valid} && !({both} && {same})"),
        (None, Some(both)) => format!("!({both} && {same})"),
        (_, None) => format!("!{same}"),
    };
    let valid = context.named(CType::Bool, "valid", &valid);
    Ok(value.with_valid(Some(valid)))
}

/// GREATEST and LEAST: NULLs are ignored.
pub(super) fn extreme(
    expr: &Expr,
    args: &[Expr],
    function: Function,
    context: &mut Context<'_>,
) -> Result<Value, Unsupported> {
    let op = if function == Function::Greatest { CompareOp::Gt } else { CompareOp::Lt };
    let mut args = args.iter();
    let first = args.next().ok_or_else(|| Unsupported::new(expr, "no arguments"))?;
    let mut best = context.emit(first)?;
    for arg in args {
        let next = context.emit(arg)?;
        let both = context.both_valid(&[&next, &best]);
        let better = relation_where_valid(op, &next, &best, both.as_deref(), context);
        let better = context.named(CType::Bool, "better", &better);
        let taken = match (&best.valid, &both) {
            (None, None) => better,
            (None, Some(both)) => format!("{both} && {better}"),
            (Some(valid), Some(both)) => format!("!{valid} || ({both} && {better})"),
            (Some(_), None) => unreachable!("the best so far is NULL at times, so both are not always valid"),
        };
        let taken = context.named(CType::Bool, "taken", &taken);
        let valid = match (&best.valid, &next.valid) {
            (Some(a), Some(b)) => Some(context.named(CType::Bool, "valid", &format!("{a} || {b}"))),
            _ => None,
        };
        best = context.define(best.ty, &format!("{taken} ? {} : {}", next.text, best.text), valid);
    }
    Ok(best)
}
