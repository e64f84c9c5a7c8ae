//! Expressions to C++.
//!
//! Each distinct sub-expression becomes one definition (`const T v7 = ...;`), with a validity if it can be NULL. Code that can raise an error, reads
//! memory through a value or costs more than a branch runs only where the CPU back end would run it: under `if (guard && ...)`. No code here uses
//! warp collectives, so branches may diverge.
//!
//! - [`context`]: inputs and state of the generation;
//! - `lookup`: expressions over one dictionary column, tabulated on the CPU and indexed by code;
//! - `leaf`, `arith`, `compare`, `members`, `logic`, `branch`: columns and literals, arithmetic, comparisons, IN lists, logic, conditionals;
//! - `cast`, `convert`: conversions between numbers and times; from and to text;
//! - `text`, `like`, `math`, `dates`: functions.

use warpmill_ir::{Expr, ExprKind, Function, Unsupported};

use super::cpp::{CType, Value};
use context::Context;

mod arith;
mod branch;
mod cast;
mod compare;
pub mod context;
mod convert;
mod dates;
mod leaf;
mod like;
mod logic;
mod lookup;
mod math;
mod members;
mod text;

#[cfg(test)]
mod tests;

impl Context<'_> {
    /// Adds the statements that compute `expr` for the current row, and returns its value.
    ///
    /// # Errors
    /// Expressions that the device does not support.
    pub fn emit(&mut self, expr: &Expr) -> Result<Value, Unsupported> {
        match &expr.kind {
            ExprKind::Column(index) => return leaf::column(expr, *index, self),
            ExprKind::Literal(value) => return leaf::literal(expr, value, self),
            _ => {}
        }
        if let Some(value) = self.known(expr) {
            return Ok(value);
        }
        let value = node(expr, self)?;
        debug_assert_eq!(value.ty, CType::of(expr.ty.phys), "{expr}");
        self.memo.0.push((expr.clone(), value.clone()));
        Ok(value)
    }

    /// The value of `expr`, if it is already computed, constant, or tabulated by code.
    fn known(&mut self, expr: &Expr) -> Option<Value> {
        if let Some(value) = self.memo.get(expr) {
            return Some(value);
        }
        let value = lookup::constant(expr, self).or_else(|| lookup::by_code(expr, self))?;
        self.memo.0.push((expr.clone(), value.clone()));
        Some(value)
    }
}

/// Adds the statements that evaluate the predicate `expr` for the current row, and returns a `bool` operand that is true if it is neither false nor
/// NULL. Conjuncts that cost more than a branch are evaluated for rows that pass all earlier ones.
///
/// # Errors
/// Expressions that the device does not support.
pub fn emit_predicate(expr: &Expr, context: &mut Context<'_>) -> Result<String, Unsupported> {
    let truth = logic::truth(expr, context)?;
    Ok(context.named(CType::Bool, "is", &truth))
}

fn node(expr: &Expr, context: &mut Context<'_>) -> Result<Value, Unsupported> {
    match &expr.kind {
        ExprKind::Column(index) => leaf::column(expr, *index, context),
        ExprKind::Literal(value) => leaf::literal(expr, value, context),
        ExprKind::Arith { op, left, right, checked } => arith::arith(expr, *op, left, right, *checked, context),
        ExprKind::Negate { input, checked } => arith::negate(expr, input, *checked, context),
        ExprKind::Compare { op, left, right } => compare::compare(*op, left, right, context),
        ExprKind::And(list) => logic::connect(list, true, context),
        ExprKind::Or(list) => logic::connect(list, false, context),
        ExprKind::Not(input) => logic::not(input, context),
        ExprKind::IsNull(input) => logic::is_null(input, true, context),
        ExprKind::IsNotNull(input) => logic::is_null(input, false, context),
        ExprKind::Case { branches, otherwise } => branch::case(expr, branches, otherwise.as_deref(), context),
        ExprKind::Cast { input, try_cast } => cast::cast(expr, input, *try_cast, context),
        ExprKind::Widen(input) => cast::widen(expr, input, context),
        ExprKind::InList { input, list, has_null, negated } => {
            members::in_list(input, list, *has_null, *negated, context)
        }
        ExprKind::Like { input, pattern, escape, case_insensitive, negated } => {
            let shape = like::Shape::new(pattern, escape.unwrap_or('\\'), *case_insensitive);
            like::like(input, &shape, *negated, context)
        }
        ExprKind::Recode(recoding) => lookup::recode(expr, recoding, context),
        ExprKind::AddInterval { input, months, days, nanos } => {
            dates::add_interval(expr, input, (*months, *days, *nanos), context)
        }
        ExprKind::Call { function, args } => match function {
            Function::Coalesce => branch::coalesce(expr, args, context),
            Function::NullIf => branch::null_if(expr, args, context),
            Function::Greatest | Function::Least => branch::extreme(expr, args, *function, context),
            Function::OnlyRow => branch::only_row(expr, args, context),
            Function::Abs
            | Function::Sign
            | Function::Round
            | Function::Floor
            | Function::Ceil
            | Function::Trunc
            | Function::Sqrt
            | Function::Power
            | Function::Exp
            | Function::Ln
            | Function::Log10 => math::call(expr, *function, args, context),
            Function::DatePart | Function::DateTrunc => dates::call(expr, *function, args, context),
            Function::ReadMoment | Function::TryReadMoment => {
                convert::read_moment(expr, &args[0], *function == Function::TryReadMoment, context)
            }
            Function::WriteMoment => convert::write_moment(&args[0], context),
            _ => text::call(expr, *function, args, context),
        },
    }
}
