//! `a IS [NOT] DISTINCT FROM b AND c`: the parser reads `b AND c`, and everything that follows, as the second operand.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use super::scope::operation;

/// Corrects the operands of AND and OR after IS DISTINCT FROM.
pub(super) fn reassociate(expr: &mut Expr) {
    if !is_greedy(expr) {
        return;
    }
    let (mut operands, mut operators) = (Vec::new(), Vec::new());
    flatten(expr.clone(), &mut operands, &mut operators);
    let mut operands = operands.into_iter();
    let mut conjunction = operands.next().expect("an expression has an operand");
    let mut alternatives = Vec::new();
    for (operator, operand) in operators.into_iter().zip(operands) {
        match operator {
            BinaryOperator::And => conjunction = operation(conjunction, BinaryOperator::And, operand),
            _ => alternatives.push(std::mem::replace(&mut conjunction, operand)),
        }
    }
    alternatives.push(conjunction);
    *expr = alternatives
        .into_iter()
        .reduce(|one, other| operation(one, BinaryOperator::Or, other))
        .expect("there is one alternative at least");
}

fn is_greedy(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            is_greedy(left) || is_greedy(right)
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => is_greedy(expr),
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => is_chain(right),
        _ => false,
    }
}

fn is_chain(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. })
}

/// The operands and operators of AND and OR in textual order.
fn flatten(expr: Expr, operands: &mut Vec<Expr>, operators: &mut Vec<BinaryOperator>) {
    let at = operands.len();
    match expr {
        Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
            flatten(*left, operands, operators);
            operators.push(op);
            flatten(*right, operands, operators);
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } if is_greedy(&expr) => {
            flatten(*expr, operands, operators);
            let first = operands[at].clone();
            operands[at] = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(first) };
        }
        Expr::IsDistinctFrom(left, right) if is_chain(&right) => {
            flatten(*right, operands, operators);
            operands[at] = Expr::IsDistinctFrom(left, Box::new(operands[at].clone()));
        }
        Expr::IsNotDistinctFrom(left, right) if is_chain(&right) => {
            flatten(*right, operands, operators);
            operands[at] = Expr::IsNotDistinctFrom(left, Box::new(operands[at].clone()));
        }
        other => operands.push(other),
    }
}
