//! Precedence of operators as in DuckDB: `||`, `&`, `|`, `<<` and `>>` bind less than arithmetic, and all alike, from left to right; `~` has all that
//! arithmetic joins. The parser has C's levels, and reads `||` as it reads `*`.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitMut, VisitorMut};

use super::walk;

/// Puts the operators of a statement in order.
pub(super) fn rewrite(statement: &mut Statement) {
    let _: ControlFlow<()> = walk::statement(statement, &mut Order);
}

/// Puts the operators of an expression in order.
pub(crate) fn order(expr: &mut Expr) {
    let _: ControlFlow<()> = expr.visit(&mut Order);
}

struct Order;

impl VisitorMut for Order {
    type Break = ();

    /// Joins two operands whose own operators are in order: an operation goes into the right edge of its left operand, and the left edge of its right
    /// one, as far as these bind less.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::BinaryOp { left, op, right } => {
                if let Some(level) = level(op)
                    && (binds_less(left, level) || begins_less(right, level))
                {
                    let (left, op, right) = (take(left), op.clone(), take(right));
                    *expr = joined(left, op, right, level);
                }
            }
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: operand } if begins_less(operand, OTHER) => {
                let mut all = take(operand);
                let first = first_operand(&mut all, OTHER);
                let operand = Box::new(take(first));
                *first = Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: operand };
                *expr = all;
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// How tightly an operator binds, of those that the parser orders otherwise.
fn level(op: &BinaryOperator) -> Option<u8> {
    use BinaryOperator::{
        BitwiseAnd, BitwiseOr, Divide, DuckIntegerDivide, Minus, Modulo, Multiply, PGBitwiseShiftLeft,
        PGBitwiseShiftRight, Plus, StringConcat,
    };
    match op {
        StringConcat | BitwiseAnd | BitwiseOr | PGBitwiseShiftLeft | PGBitwiseShiftRight => Some(OTHER),
        Plus | Minus => Some(OTHER + 1),
        Multiply | Divide | DuckIntegerDivide | Modulo => Some(OTHER + 2),
        _ => None,
    }
}

/// The level of operators that are not arithmetic.
const OTHER: u8 = 0;

/// Whether an operand at the end of `left` belongs to what follows at level `next`.
fn binds_less(left: &Expr, next: u8) -> bool {
    match left {
        Expr::BinaryOp { op, right, .. } => {
            level(op).is_some_and(|own| own < next || next > OTHER && ends_in_complement(right))
        }
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, .. } => next > OTHER,
        _ => false,
    }
}

/// Whether the last operand of `expr` is that of a `~`.
fn ends_in_complement(mut expr: &Expr) -> bool {
    while let Expr::BinaryOp { op, right, .. } = expr
        && level(op).is_some()
    {
        expr = right;
    }
    matches!(expr, Expr::UnaryOp { op: UnaryOperator::BitwiseNot, .. })
}

/// Whether the operation `right` was read as the operand of an operator that binds as tightly, or more.
fn begins_less(right: &Expr, before: u8) -> bool {
    matches!(right, Expr::BinaryOp { op, .. } if level(op).is_some_and(|own| own <= before))
}

/// `left op right`, with the operators of both in order.
fn joined(mut left: Expr, op: BinaryOperator, mut right: Expr, level: u8) -> Expr {
    if begins_less(&right, level) {
        let first = first_operand(&mut right, level);
        let operand = take(first);
        *first = joined(left, op, operand, level);
        return right;
    }
    let mut last = &mut left;
    while binds_less(last, level) {
        last = match last {
            Expr::BinaryOp { right, .. } => right,
            Expr::UnaryOp { expr, .. } => expr,
            other => unreachable!("no operation: {other}"),
        };
    }
    let inner = take(last);
    *last = Expr::BinaryOp { left: Box::new(inner), op, right: Box::new(right) };
    left
}

/// The first operand of the operations at the left edge of `expr` that bind at most as tightly as `level`.
fn first_operand(mut expr: &mut Expr, level: u8) -> &mut Expr {
    while begins_less(expr, level) {
        expr = match expr {
            Expr::BinaryOp { left, .. } => left,
            other => unreachable!("no operation: {other}"),
        };
    }
    expr
}

fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Value(Value::Null.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    /// `text` with brackets around each operation.
    fn shown(text: &str) -> String {
        fn brackets(expr: &Expr) -> String {
            match expr {
                Expr::BinaryOp { left, op, right } => format!("({} {op} {})", brackets(left), brackets(right)),
                Expr::UnaryOp { op, expr } => format!("({op}{})", brackets(expr)),
                Expr::Nested(inner) => brackets(inner),
                other => other.to_string(),
            }
        }
        let mut expr = Parser::new(&DuckDbDialect).try_with_sql(text).unwrap().parse_expr().unwrap();
        order(&mut expr);
        brackets(&expr)
    }

    #[test]
    fn arithmetic_binds_more_than_other_operators() {
        assert_eq!(shown("'a' || b + c"), "('a' || (b + c))");
        assert_eq!(shown("a + b || 'c' || d * e || f"), "((((a + b) || 'c') || (d * e)) || f)");
        assert_eq!(shown("a * b || c + d * e - f"), "((a * b) || ((c + (d * e)) - f))");
        assert_eq!(shown("a - b - c || d - e - f"), "(((a - b) - c) || ((d - e) - f))");
        assert_eq!(shown("a % b || c % d = e || f"), "(((a % b) || (c % d)) = (e || f))");
        assert_eq!(shown("(a || b) + c"), "((a || b) + c)");
        assert_eq!(shown("-a || b"), "((-a) || b)");
    }

    #[test]
    fn other_operators_go_from_left_to_right() {
        assert_eq!(shown("5 | 2 & 1"), "((5 | 2) & 1)");
        assert_eq!(shown("1 | 1 << 2"), "((1 | 1) << 2)");
        assert_eq!(shown("a || b & c || d"), "(((a || b) & c) || d)");
        assert_eq!(shown("a << b + c >> d | e"), "(((a << (b + c)) >> d) | e)");
        assert_eq!(shown("a & b + c * d | e"), "((a & (b + (c * d))) | e)");
    }

    #[test]
    fn the_complement_has_what_arithmetic_joins() {
        assert_eq!(shown("~a + b"), "(~(a + b))");
        assert_eq!(shown("~a * b - c & d"), "((~((a * b) - c)) & d)");
        assert_eq!(shown("~a || b || c"), "(((~a) || b) || c)");
        assert_eq!(shown("a + ~b + c || d"), "((a + (~(b + c))) || d)");
    }

    #[test]
    fn long_chains_are_put_in_order() {
        let text = vec!["a + 1"; 300].join(" || ");
        assert_eq!(shown(&text).matches("(a + 1)").count(), 300);
    }
}
