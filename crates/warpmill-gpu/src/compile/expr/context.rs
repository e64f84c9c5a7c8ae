//! State of generating an expression: inputs, and values defined by earlier expressions.

use warpmill_ir::{ArithOp, Expr, ExprKind, Phys, Unsupported};

use crate::compile::cpp::{CType, Code, Value};
use crate::compile::params::Params;

/// Largest length of IN lists that are compared one by one.
pub(super) const FEW: usize = 8;

/// The state of the generator of an expression.
pub struct Context<'a> {
    /// Receives the statements.
    pub code: &'a mut Code,
    /// Receives literals and tables.
    pub params: &'a mut Params,
    /// The columns of the operator's input; `Some`, as variables of an enclosing scope, for every column that the expression reads.
    pub columns: &'a [Option<Value>],
    /// A `bool` operand: whether this thread has a row. Without one, columns are unspecified: no error may be raised, and no memory read through
    /// their values.
    pub guard: String,
    /// The values computed so far, valid where `guard` holds, in this or an enclosing scope.
    pub memo: Memo,
}

/// Computed values of expressions over the same columns, so that each is computed once.
#[derive(Debug, Default)]
pub struct Memo(pub(super) Vec<(Expr, Value)>);

impl Memo {
    pub(super) fn get(&self, expr: &Expr) -> Option<Value> {
        self.0.iter().rev().find(|(known, _)| known == expr).map(|(_, value)| value.clone())
    }
}

impl<'a> Context<'a> {
    /// A context without computed values.
    pub fn new(
        code: &'a mut Code,
        params: &'a mut Params,
        columns: &'a [Option<Value>],
        guard: impl Into<String>,
    ) -> Self {
        Self { code, params, columns, guard: guard.into(), memo: Memo::default() }
    }

    /// An operand for `text`: `text` itself if it is one, otherwise a new variable.
    pub(super) fn named(&mut self, ty: CType, prefix: &str, text: &str) -> String {
        if is_operand(text) { text.to_owned() } else { self.code.define(ty, prefix, text) }
    }

    /// Defines a value.
    pub(super) fn define(&mut self, ty: CType, init: &str, valid: Option<String>) -> Value {
        Value::new(self.named(ty, "v", init), ty).with_valid(valid)
    }

    /// The common validity of `values`.
    pub(super) fn both_valid(&mut self, values: &[&Value]) -> Option<String> {
        let mut parts: Vec<&str> = Vec::new();
        for valid in values.iter().filter_map(|value| value.valid.as_deref()) {
            if !parts.contains(&valid) {
                parts.push(valid);
            }
        }
        if parts.is_empty() { None } else { Some(self.named(CType::Bool, "valid", &all_of(&parts))) }
    }

    /// A condition: there is a row, and the value is not NULL.
    pub(super) fn ok(&self, valid: Option<&str>) -> String {
        all_of(&[&self.guard, valid.unwrap_or("true")])
    }

    /// `text` where there is a row and the value is not NULL, otherwise a placeholder.
    pub(super) fn where_ok(&self, ty: CType, text: &str, valid: Option<&str>) -> String {
        match self.ok(valid).as_str() {
            "true" => text.to_owned(),
            "false" => ty.zero().to_owned(),
            ok if ty == CType::Bool => format!("{ok} && {text}"),
            ok => format!("{ok} ? {text} : {}", ty.zero()),
        }
    }

    /// Raises `error` where there is a row, the value is not NULL, and `bad` holds.
    pub(super) fn raise(&mut self, bad: &str, valid: Option<&str>, error: &str) {
        let condition = all_of(&[&self.guard, valid.unwrap_or("true"), bad]);
        if condition != "false" {
            let state = self.params.state();
            self.code.line(format!("if ({condition}) raise({state}, {error});"));
        }
    }

    /// `if (condition) {` ... `}`, where `condition` implies that there is a row.
    pub(super) fn scope<T>(
        &mut self,
        condition: &str,
        body: impl FnOnce(&mut Context<'_>) -> Result<T, Unsupported>,
    ) -> Result<T, Unsupported> {
        self.block(&format!("if ({condition})"), "true".into(), body)
    }

    /// `header {` ... `}` with another guard; values computed inside are not available after it.
    pub(super) fn block<T>(
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

    /// Whether `expr` is cheaper to compute for all rows than to skip by a branch, reads no memory, and raises no error.
    pub(super) fn is_simple(&self, expr: &Expr) -> bool {
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
            ExprKind::InList { input, list, .. } => input.ty.phys != Phys::Str && list.len() <= FEW,
            _ => false,
        };
        own && expr.children().into_iter().all(|child| self.is_simple(child))
    }
}

/// The conjunction of operands.
pub(super) fn all_of(parts: &[&str]) -> String {
    if parts.contains(&"false") {
        return "false".into();
    }
    let parts: Vec<&str> = parts.iter().copied().filter(|part| *part != "true").collect();
    if parts.is_empty() { "true".into() } else { parts.join(" && ") }
}

/// Whether `text` may be repeated without computation: a name, a parameter, a number.
pub(super) fn is_operand(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.')
}

/// A NULL of type `ty`.
pub(super) fn null(ty: CType) -> Value {
    Value::new(ty.zero(), ty).with_valid(Some("false".into()))
}
