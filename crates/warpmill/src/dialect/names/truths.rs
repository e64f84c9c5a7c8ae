//! Numbers, texts and columns as conditions: DuckDB converts them to booleans.

use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr, Function, UnaryOperator, Value};

use super::calls::cast;
use super::scope::nested;

/// Casts the operands of `expr` that are conditions, if they may not be booleans.
pub(super) fn operands(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            condition(left);
            condition(right);
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => condition(expr),
        Expr::Case { operand: None, conditions, .. } => {
            conditions.iter_mut().for_each(|branch| condition(&mut branch.condition));
        }
        Expr::Function(Function { filter: Some(filter), .. }) => condition(filter),
        _ => {}
    }
}

/// Casts a condition that may not be a boolean; the cast has no effect on booleans.
pub(super) fn condition(expr: &mut Expr) {
    if may_be_other(expr) {
        let of = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        *expr = cast(nested(of), DataType::Boolean);
    }
}

fn may_be_other(expr: &Expr) -> bool {
    use BinaryOperator::{Divide, DuckIntegerDivide, Minus, Modulo, Multiply, Plus};
    match expr {
        Expr::Value(value) => matches!(value.value, Value::Number(..) | Value::SingleQuotedString(_)),
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::BinaryOp { op: Plus | Minus | Multiply | Divide | DuckIntegerDivide | Modulo, .. } => true,
        Expr::Nested(inner) => may_be_other(inner),
        _ => false,
    }
}
