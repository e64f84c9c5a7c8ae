//! The context of generating an expression: its inputs, and the values that earlier expressions have defined.

use warpmill_ir::{ArithOp, Expr, ExprKind, Phys, Unsupported};

use crate::compile::cpp::{CType, Code, Value};
use crate::compile::params::Params;

/// Lists up to this long are compared one by one.
pub(super) const FEW: usize = 8;

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
pub struct Memo(pub(super) Vec<(Expr, Value)>);

impl Memo {
    pub(super) fn get(&self, expr: &Expr) -> Option<Value> {
        self.0.iter().rev().find(|(known, _)| known == expr).map(|(_, value)| value.clone())
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

    /// An operand for `text`: itself where it is one, else a new variable.
    pub(super) fn named(&mut self, ty: CType, prefix: &str, text: &str) -> String {
        if is_operand(text) { text.to_owned() } else { self.code.define(ty, prefix, text) }
    }

    /// Defines a value.
    pub(super) fn define(&mut self, ty: CType, init: &str, valid: Option<String>) -> Value {
        Value::new(self.named(ty, "v", init), ty).with_valid(valid)
    }

    /// The validity of what is NULL where one of `values` is.
    pub(super) fn both_valid(&mut self, values: &[&Value]) -> Option<String> {
        let mut parts: Vec<&str> = Vec::new();
        for valid in values.iter().filter_map(|value| value.valid.as_deref()) {
            if !parts.contains(&valid) {
                parts.push(valid);
            }
        }
        if parts.is_empty() { None } else { Some(self.named(CType::Bool, "valid", &all_of(&parts))) }
    }

    /// A condition: there is a row, and its value is not NULL.
    pub(super) fn ok(&self, valid: Option<&str>) -> String {
        all_of(&[&self.guard, valid.unwrap_or("true")])
    }

    /// `text` for rows that are there and not NULL, else a value of no meaning.
    pub(super) fn where_ok(&self, ty: CType, text: &str, valid: Option<&str>) -> String {
        match self.ok(valid).as_str() {
            "true" => text.to_owned(),
            "false" => ty.zero().to_owned(),
            ok if ty == CType::Bool => format!("{ok} && {text}"),
            ok => format!("{ok} ? {text} : {}", ty.zero()),
        }
    }

    /// Reports `error` for rows that are there, whose value is not NULL and for which `bad` holds.
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

    /// `header {` ... `}` with another guard; values computed inside are not known after it.
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

    /// Whether computing `expr` for rows that do not need it is cheaper than a branch, reads no memory and is no error.
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

/// Whether `text` may be repeated freely: a name, a parameter, a number.
pub(super) fn is_operand(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.')
}

/// NULL.
pub(super) fn null(ty: CType) -> Value {
    Value::new(ty.zero(), ty).with_valid(Some("false".into()))
}
