//! Expressions to C++.
//!
//! Each distinct sub-expression becomes one definition (`const T v7 = ...;`) with a validity of its own where it can be
//! NULL. What can be an error, reads memory through a value or costs more than a branch is computed only where the CPU back
//! end needs it: under `if (guard && ...)`. Nothing here uses warp collectives, so that branches may diverge.
//!
//! - `lookup`: sub-expressions of one dictionary column are tables, made on the CPU, indexed by code;
//! - `leaf`, `arith`, `compare`, `members`, `logic`, `branch`: what their names say;
//! - `cast`, `convert`: conversions between numbers and times; from and to text;
//! - `text`, `like`, `math`, `dates`: functions.

use warpmill_ir::{ArithOp, Expr, ExprKind, Function, Phys, Unsupported};

use super::cpp::{CType, Code, Value};
use super::library::Library;
use super::params::Params;

mod arith;
mod branch;
mod cast;
mod compare;
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

/// The state of the generator of an expression.
pub struct Context<'a> {
    /// Takes the statements.
    pub code: &'a mut Code,
    /// Takes literals and tables.
    pub params: &'a mut Params,
    /// The columns of the operator's input: present (as variables of an enclosing scope) for every column that the
    /// expression reads.
    pub columns: &'a [Option<Value>],
    /// A `bool` operand: whether this thread has a row. Where it is false columns hold anything, nothing may be
    /// reported as an error and no memory be read through what they hold.
    pub guard: String,
    /// The values computed so far, where `guard` holds, in this scope or an enclosing one.
    pub memo: Memo,
}

/// Values of expressions over the same columns, so that each is computed once.
#[derive(Debug, Default)]
pub struct Memo(Vec<(Expr, Value)>);

impl Memo {
    fn get(&self, expr: &Expr) -> Option<Value> {
        self.0.iter().rev().find(|(known, _)| known == expr).map(|(_, value)| value.clone())
    }
}

/// Adds the statements that compute `expr` for the current row, and gives its value.
///
/// # Errors
/// Expressions that the device cannot compute.
pub fn emit(expr: &Expr, context: &mut Context<'_>) -> Result<Value, Unsupported> {
    match &expr.kind {
        ExprKind::Column(index) => return leaf::column(expr, *index, context),
        ExprKind::Literal(value) => return leaf::literal(expr, value, context),
        _ => {}
    }
    if let Some(value) = context.known(expr) {
        return Ok(value);
    }
    let value = node(expr, context)?;
    debug_assert_eq!(value.ty, CType::of(expr.ty.phys), "{expr}");
    context.memo.0.push((expr.clone(), value.clone()));
    Ok(value)
}

/// Adds the statements that decide whether the predicate `expr` is true (neither false nor NULL) for the current row, and
/// gives a `bool` operand. Conjuncts that cost more than a branch are evaluated for rows that pass those before them.
///
/// # Errors
/// Expressions that the device cannot compute.
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
        ExprKind::AddInterval { input, months, days, nanos } => {
            dates::add_interval(expr, input, (*months, *days, *nanos), context)
        }
        ExprKind::Call { function, args } => match function {
            Function::Coalesce => branch::coalesce(expr, args, context),
            Function::NullIf => branch::null_if(expr, args, context),
            Function::Greatest | Function::Least => branch::extreme(expr, args, *function, context),
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
            _ => text::call(expr, *function, args, context),
        },
    }
}

impl<'a> Context<'a> {
    /// A context without values computed before.
    pub fn new(
        code: &'a mut Code,
        params: &'a mut Params,
        columns: &'a [Option<Value>],
        guard: impl Into<String>,
    ) -> Self {
        Self { code, params, columns, guard: guard.into(), memo: Memo::default() }
    }

    /// The value of `expr` if it was computed before, is constant or can be looked up.
    fn known(&mut self, expr: &Expr) -> Option<Value> {
        if let Some(value) = self.memo.get(expr) {
            return Some(value);
        }
        let value = lookup::constant(expr, self).or_else(|| lookup::by_code(expr, self))?;
        self.memo.0.push((expr.clone(), value.clone()));
        Some(value)
    }

    /// An operand for `text`: itself where it is one, else a new variable.
    fn named(&mut self, ty: CType, prefix: &str, text: &str) -> String {
        if is_operand(text) { text.to_owned() } else { self.code.define(ty, prefix, text) }
    }

    /// Defines a value.
    fn define(&mut self, ty: CType, init: &str, valid: Option<String>) -> Value {
        Value::new(self.named(ty, "v", init), ty).with_valid(valid)
    }

    /// The validity of what is NULL where one of `values` is.
    fn both_valid(&mut self, values: &[&Value]) -> Option<String> {
        let mut parts: Vec<&str> = Vec::new();
        for valid in values.iter().filter_map(|value| value.valid.as_deref()) {
            if !parts.contains(&valid) {
                parts.push(valid);
            }
        }
        if parts.is_empty() { None } else { Some(self.named(CType::Bool, "valid", &all_of(&parts))) }
    }

    /// A condition: there is a row, and its value is not NULL.
    fn ok(&self, valid: Option<&str>) -> String {
        all_of(&[&self.guard, valid.unwrap_or("true")])
    }

    /// `text` for rows that are there and not NULL, else a value of no meaning.
    fn where_ok(&self, ty: CType, text: &str, valid: Option<&str>) -> String {
        match self.ok(valid).as_str() {
            "true" => text.to_owned(),
            "false" => ty.zero().to_owned(),
            ok if ty == CType::Bool => format!("{ok} && {text}"),
            ok => format!("{ok} ? {text} : {}", ty.zero()),
        }
    }

    /// Reports `error` for rows that are there, whose value is not NULL and for which `bad` holds.
    fn raise(&mut self, bad: &str, valid: Option<&str>, error: &str) {
        let condition = all_of(&[&self.guard, valid.unwrap_or("true"), bad]);
        if condition != "false" {
            let state = self.params.state();
            self.code.line(format!("if ({condition}) raise({state}, {error});"));
        }
    }

    /// `if (condition) {` ... `}`, where `condition` implies that there is a row.
    fn scope<T>(
        &mut self,
        condition: &str,
        body: impl FnOnce(&mut Context<'_>) -> Result<T, Unsupported>,
    ) -> Result<T, Unsupported> {
        self.block(&format!("if ({condition})"), "true".into(), body)
    }

    /// `header {` ... `}` with another guard; values computed inside are not known after it.
    fn block<T>(
        &mut self,
        header: &str,
        guard: String,
        body: impl FnOnce(&mut Context<'_>) -> Result<T, Unsupported>,
    ) -> Result<T, Unsupported> {
        let known = self.memo.0.len();
        let Context { code, params, columns, memo, .. } = self;
        code.block(header, |code| {
            let mut inner = Context { code, params, columns, guard, memo: std::mem::take(memo) };
            let result = body(&mut inner);
            *memo = inner.memo;
            memo.0.truncate(known);
            result
        })
    }

    /// Whether computing `expr` for rows that do not need it is cheaper than a branch, reads no memory and is no error.
    fn is_simple(&self, expr: &Expr) -> bool {
        let own = match &expr.kind {
            _ if self.memo.get(expr).is_some() => return true,
            ExprKind::Column(_) | ExprKind::Literal(_) => true,
            ExprKind::Arith { op, checked, .. } => {
                !checked
                    && matches!(op, ArithOp::Add | ArithOp::Sub | ArithOp::Mul)
                    && (*op != ArithOp::Mul || expr.ty.phys != Phys::I128)
            }
            ExprKind::Negate { checked, .. } => !checked,
            ExprKind::Compare { left, .. } => left.ty.phys != Phys::Str,
            ExprKind::And(_) | ExprKind::Or(_) | ExprKind::Not(_) | ExprKind::IsNull(_) | ExprKind::IsNotNull(_) => {
                true
            }
            ExprKind::Widen(input) => input.ty.phys != Phys::Code,
            ExprKind::InList { input, list, .. } => input.ty.phys != Phys::Str && list.len() <= members::FEW,
            _ => false,
        };
        own && expr.children().into_iter().all(|child| self.is_simple(child))
    }
}

/// The conjunction of operands.
fn all_of(parts: &[&str]) -> String {
    if parts.contains(&"false") {
        return "false".into();
    }
    let parts: Vec<&str> = parts.iter().copied().filter(|part| *part != "true").collect();
    if parts.is_empty() { "true".into() } else { parts.join(" && ") }
}

/// Whether `text` may be repeated freely: a name, a parameter, a number.
fn is_operand(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.')
}

/// NULL.
fn null(ty: CType) -> Value {
    Value::new(ty.zero(), ty).with_valid(Some("false".into()))
}
