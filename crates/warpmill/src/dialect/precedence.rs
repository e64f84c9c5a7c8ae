//! Precedence of operators as in DuckDB: `||`, `&`, `|`, `<<` and `>>` bind less than arithmetic, and all alike, from left to right; `~` has all that
//! arithmetic joins; `^` binds most. The parser has C's levels, and reads `||` as it reads `*`. Parts of statements are written as text and parsed
//! again, so that operations get brackets where the parser would read them otherwise.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitorMut};

use super::walk;
use crate::visit::visit_mut;

/// Puts the operators of a statement in order.
pub(super) fn rewrite(statement: &mut Statement) {
    let mut order = Order::default();
    let _: ControlFlow<()> = walk::statement(statement, &mut order);
    if order.has_moved {
        let _: ControlFlow<()> = walk::statement(statement, &mut Brackets);
    }
}

/// Puts the operators of an expression in order.
pub(crate) fn order(expr: &mut Expr) {
    let mut order = Order::default();
    let _: ControlFlow<()> = visit_mut(expr, &mut order);
    if order.has_moved {
        let _: ControlFlow<()> = visit_mut(expr, &mut Brackets);
    }
}

#[derive(Default)]
struct Order {
    has_moved: bool,
}

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
                    self.has_moved = true;
                }
            }
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: operand } if begins_less(operand, OTHER) => {
                let mut all = take(operand);
                let first = first_operand(&mut all, OTHER);
                let operand = Box::new(take(first));
                *first = Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: operand };
                *expr = all;
                self.has_moved = true;
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Puts brackets where the parser would read operations in order otherwise.
struct Brackets;

impl VisitorMut for Brackets {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let bracket = |operand: &mut Expr| *operand = Expr::Nested(Box::new(take(operand)));
        match expr {
            Expr::BinaryOp { left, op, right } => {
                [left, right].into_iter().filter(|operand| is_read_otherwise(operand, op)).for_each(|e| bracket(e));
            }
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: operand } if root_level(operand).is_some() => {
                bracket(operand);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Whether the parser may take the operand of `outer` apart: it has the same levels for arithmetic alone.
fn is_read_otherwise(operand: &Expr, outer: &BinaryOperator) -> bool {
    let Some(own) = level(outer) else { return false };
    let is_arithmetic = |level: u8| (OTHER + 1..=OTHER + 2).contains(&level);
    match operand {
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, .. } => true,
        Expr::BinaryOp { op, .. } => {
            level(op).is_some_and(|inner| op != outer && !(is_arithmetic(inner) && is_arithmetic(own)))
        }
        _ => false,
    }
}

/// How tightly an operator binds, of those that the parser orders otherwise.
fn level(op: &BinaryOperator) -> Option<u8> {
    use BinaryOperator::{
        BitwiseAnd, BitwiseOr, BitwiseXor, Divide, DuckIntegerDivide, Minus, Modulo, Multiply, PGBitwiseShiftLeft,
        PGBitwiseShiftRight, Plus, StringConcat,
    };
    match op {
        StringConcat | BitwiseAnd | BitwiseOr | PGBitwiseShiftLeft | PGBitwiseShiftRight => Some(OTHER),
        Plus | Minus => Some(OTHER + 1),
        Multiply | Divide | DuckIntegerDivide | Modulo => Some(OTHER + 2),
        // A power, as DuckDB writes it.
        BitwiseXor => Some(OTHER + 3),
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
    root_level(right).is_some_and(|own| own <= before)
}

/// `left op right`, with the operators of both in order.
fn joined(mut left: Expr, op: BinaryOperator, mut right: Expr, level: u8) -> Expr {
    // The last operator that binds least has the others in its operands.
    let least = root_level(&left).map_or(level, |own| own.min(level));
    if begins_less(&right, least) {
        let first = first_operand(&mut right, least);
        let operand = take(first);
        *first = joined(left, op, operand, level);
        return right;
    }
    if binds_less(&left, level)
        && let Expr::BinaryOp { right: last, .. } | Expr::UnaryOp { expr: last, .. } = &mut left
    {
        let operand = take(last);
        **last = joined(operand, op, right, level);
        return left;
    }
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// The level of an operation of two operands.
fn root_level(expr: &Expr) -> Option<u8> {
    if let Expr::BinaryOp { op, .. } = expr { level(op) } else { None }
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
        let parsed = |text: &str| Parser::new(&DuckDbDialect).try_with_sql(text).unwrap().parse_expr().unwrap();
        let mut expr = parsed(text);
        order(&mut expr);
        // Its text means the same to the parser.
        assert_eq!(brackets(&parsed(&expr.to_string())), brackets(&expr));
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
    fn powers_bind_most() {
        assert_eq!(shown("a + b ^ c * d"), "(a + ((b ^ c) * d))");
        assert_eq!(shown("a - b ^ 2 - c || d ^ e + 1"), "(((a - (b ^ 2)) - c) || ((d ^ e) + 1))");
        assert_eq!(shown("x || a + b ^ c"), "(x || (a + (b ^ c)))");
        assert_eq!(shown("x || a * b + c ^ 2 - d"), "(x || (((a * b) + (c ^ 2)) - d))");
        assert_eq!(shown("a ^ b ^ c"), "((a ^ b) ^ c)");
        assert_eq!(shown("a & b ^ 2 | -c ^ 2"), "((a & (b ^ 2)) | ((-c) ^ 2))");
    }

    #[test]
    fn long_chains_are_put_in_order() {
        let text = vec!["a + 1"; 300].join(" || ");
        assert_eq!(shown(&text).matches("(a + 1)").count(), 300);
    }
}
