//! Three-valued logic. Terms are evaluated in order. A term that costs more than a branch, or can raise an error, is evaluated only for rows that
//! earlier terms left undecided, as on the CPU.

use warpmill_ir::{Expr, ExprKind, Unsupported};

use super::context::{Context, all_of, is_operand};
use crate::compile::cpp::{CType, Value};

/// Whether `expr` is true, as a C++ expression. In conjunctions and disjunctions false and NULL are not distinguished, so that a conjunct is
/// evaluated only where all earlier ones are true.
pub(super) fn truth(expr: &Expr, context: &mut Context<'_>) -> Result<String, Unsupported> {
    match &expr.kind {
        ExprKind::And(list) if context.known(expr).is_none() => all(list, context),
        ExprKind::Or(list) if context.known(expr).is_none() => any(list, context),
        _ => Ok(context.emit(expr)?.is_true()),
    }
}

fn all(list: &[Expr], context: &mut Context<'_>) -> Result<String, Unsupported> {
    let mut terms: Vec<String> = Vec::new();
    for (i, expr) in list.iter().enumerate() {
        if i > 0 && !context.is_simple(expr) {
            let terms: Vec<&str> = terms.iter().map(String::as_str).collect();
            let found = context.code.variable(CType::Bool, "all", all_of(&terms));
            let open = all_of(&[&context.guard, &found]);
            context.scope(&open, |context| {
                let rest = all(&list[i..], context)?;
                context.code.line(format!("{found} = {rest};"));
                Ok(())
            })?;
            return Ok(found);
        }
        terms.push(operand(truth(expr, context)?));
    }
    let terms: Vec<&str> = terms.iter().map(String::as_str).collect();
    let text = all_of(&terms);
    Ok(context.named(CType::Bool, "all", &text))
}

fn any(list: &[Expr], context: &mut Context<'_>) -> Result<String, Unsupported> {
    let mut terms: Vec<String> = Vec::new();
    for (i, expr) in list.iter().enumerate() {
        if i > 0 && !context.is_simple(expr) {
            let found = context.code.variable(CType::Bool, "any", any_of(&terms));
            let open = all_of(&[&context.guard, &format!("!{found}")]);
            context.scope(&open, |context| {
                let rest = any(&list[i..], context)?;
                context.code.line(format!("{found} = {rest};"));
                Ok(())
            })?;
            return Ok(found);
        }
        terms.push(operand(truth(expr, context)?));
    }
    let text = any_of(&terms);
    Ok(context.named(CType::Bool, "any", &text))
}

fn any_of(terms: &[String]) -> String {
    if terms.is_empty() { "false".into() } else { terms.join(" || ") }
}

/// `text`, in parentheses if it needs them within a larger expression.
fn operand(text: String) -> String {
    let enclosed = text.starts_with('(') && text.ends_with(')');
    if is_operand(&text) || enclosed { text } else { format!("({text})") }
}

/// The truth of a list of terms: whether all (or any) are true, and, if that does not follow, whether the result is false.
struct Kleene {
    truth: String,
    /// For a conjunction: whether one term is false; for a disjunction: whether all are. `None`: the negation of `truth`.
    falsehood: Option<String>,
}

/// The conjunction (or disjunction) of a list.
pub(super) fn connect(list: &[Expr], conjunction: bool, context: &mut Context<'_>) -> Result<Value, Unsupported> {
    let Kleene { truth, falsehood } = kleene(list, conjunction, context)?;
    let valid = falsehood.map(|falsehood| context.named(CType::Bool, "valid", &format!("{truth} || {falsehood}")));
    Ok(Value::new(truth, CType::Bool).with_valid(valid))
}

fn kleene(list: &[Expr], conjunction: bool, context: &mut Context<'_>) -> Result<Kleene, Unsupported> {
    let (for_truth, for_falsehood) = if conjunction { (" && ", " || ") } else { (" || ", " && ") };
    let (mut truths, mut falsehoods, mut nullable) = (Vec::new(), Vec::new(), false);
    let neutral = |list: &[String], separator: &str, empty: bool| {
        if list.is_empty() { empty.to_string() } else { list.join(separator) }
    };
    for (i, expr) in list.iter().enumerate() {
        if i > 0 && !context.is_simple(expr) {
            let nullable = nullable || list[i..].iter().any(|expr| expr.ty.nullable);
            let truth = context.code.variable(CType::Bool, "yes", neutral(&truths, for_truth, conjunction));
            let falsehood = nullable
                .then(|| context.code.variable(CType::Bool, "no", neutral(&falsehoods, for_falsehood, !conjunction)));
            let open = match (conjunction, &falsehood) {
                (true, Some(falsehood)) => format!("!{falsehood}"),
                (true, None) => truth.clone(),
                (false, _) => format!("!{truth}"),
            };
            let open = all_of(&[&context.guard, &open]);
            context.scope(&open, |context| {
                let rest = kleene(&list[i..], conjunction, context)?;
                context.code.line(format!("{truth} = {truth}{for_truth}{};", rest.truth));
                if let Some(falsehood) = &falsehood {
                    let rest = rest.falsehood.unwrap_or_else(|| format!("!{}", rest.truth));
                    context.code.line(format!("{falsehood} = {falsehood}{for_falsehood}{rest};"));
                }
                Ok(())
            })?;
            return Ok(Kleene { truth, falsehood });
        }
        let value = context.emit(expr)?;
        nullable |= value.valid.is_some();
        truths.push(value.is_true());
        falsehoods.push(match &value.valid {
            Some(valid) => format!("({valid} && !{})", value.text),
            None => format!("!{}", value.text),
        });
    }
    let truth = context.named(CType::Bool, "yes", &neutral(&truths, for_truth, conjunction));
    let falsehood =
        nullable.then(|| context.named(CType::Bool, "no", &neutral(&falsehoods, for_falsehood, !conjunction)));
    Ok(Kleene { truth, falsehood })
}

/// Three-valued negation.
pub(super) fn not(input: &Expr, context: &mut Context<'_>) -> Result<Value, Unsupported> {
    let value = context.emit(input)?;
    Ok(context.define(CType::Bool, &format!("!{}", value.text), value.valid))
}

/// Whether the input is (or, without `null`, is not) NULL.
pub(super) fn is_null(input: &Expr, null: bool, context: &mut Context<'_>) -> Result<Value, Unsupported> {
    let value = context.emit(input)?;
    let text = match (&value.valid, null) {
        (None, _) => (!null).to_string(),
        (Some(valid), true) => format!("!{valid}"),
        (Some(valid), false) => valid.clone(),
    };
    Ok(context.define(CType::Bool, &text, None))
}
