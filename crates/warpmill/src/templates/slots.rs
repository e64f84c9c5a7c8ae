//! The constants of a statement that can be parameters: operands of comparisons that are conditions of WHERE, HAVING or ON.
//!
//! What a comparison with a constant means does not depend on its value, as what `LIMIT 0`, `x LIKE 'a%'` or `round(x, 2)` mean does.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as AnyStatement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, DateTimeField, Expr, Interval, JoinConstraint, JoinOperator, Select, UnaryOperator,
    Value, ValueWithSpan, VisitMut, VisitorMut,
};

use super::constant::{Constant, Unit, wildcards_of};
use super::shape::LiteralText;

/// Puts parameters `$1`, `$2`, ... in the place of such constants. With `only_single`, those that are written more than once stay: rules
/// may find that conditions are the same.
pub(crate) fn replace(statement: &mut AnyStatement, literals: &[LiteralText], only_single: bool) -> Vec<Constant> {
    let AnyStatement::Statement(statement) = statement else { return vec![] };
    let mut found = Finder { literals, times: HashMap::new(), only_single, replaces: false, constants: vec![] };
    let _ = statement.visit(&mut found);
    found.replaces = true;
    let _ = statement.visit(&mut found);
    found.constants
}

struct Finder<'a> {
    literals: &'a [LiteralText],
    /// How often each constant is written.
    times: HashMap<String, usize>,
    only_single: bool,
    replaces: bool,
    constants: Vec<Constant>,
}

impl VisitorMut for Finder<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for join in select.from.iter_mut().flat_map(|table| &mut table.joins) {
            use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
            if let Join(on) | Inner(on) | Left(on) | LeftOuter(on) | Right(on) | RightOuter(on) | FullOuter(on) =
                &mut join.join_operator
                && let JoinConstraint::On(condition) = on
            {
                self.condition(condition);
            }
        }
        select.selection.iter_mut().chain(&mut select.having).for_each(|condition| self.condition(condition));
        ControlFlow::Continue(())
    }
}

impl Finder<'_> {
    fn condition(&mut self, condition: &mut Expr) {
        use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
        match condition {
            Expr::BinaryOp { left, op: And | Or, right } => {
                self.condition(left);
                self.condition(right);
            }
            Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } => self.condition(inner),
            Expr::BinaryOp { left, op: Eq | NotEq | Lt | LtEq | Gt | GtEq, right } => {
                match (is_constant(left), is_constant(right)) {
                    (false, true) => self.operand(right),
                    (true, false) => self.operand(left),
                    _ => {}
                }
            }
            Expr::Between { expr, low, high, .. } if !is_constant(expr) => {
                self.operand(low);
                self.operand(high);
            }
            Expr::InList { expr, list, .. } if !is_constant(expr) => {
                list.iter_mut().for_each(|item| self.operand(item));
            }
            Expr::Like { any: false, expr, pattern, escape_char: None, .. } if !is_constant(expr) => {
                if let Expr::Value(value) = pattern.as_ref()
                    && let Some(text) = self.literal(value)
                {
                    let wildcards = wildcards_of(&self.literals[text].text);
                    self.put(pattern, Constant::Pattern { text, wildcards });
                }
            }
            _ => {}
        }
    }

    fn operand(&mut self, operand: &mut Expr) {
        if let Some(constant) = self.constant(operand) {
            self.put(operand, constant);
        }
    }

    /// Counts a constant, or puts a parameter in its place.
    fn put(&mut self, operand: &mut Expr, constant: Constant) {
        let texts = constant.literals().into_iter().map(|at| self.literals[at].text.as_str());
        let text = format!("{}:{:?}", kind(&constant), texts.collect::<Vec<_>>());
        if !self.replaces {
            *self.times.entry(text).or_default() += 1;
        } else if !self.only_single || self.times.get(&text) == Some(&1) {
            self.constants.push(constant);
            *operand = Expr::Value(Value::Placeholder(format!("${}", self.constants.len())).into());
        }
    }

    /// The constant that an operand is; `None` for others.
    fn constant(&self, operand: &Expr) -> Option<Constant> {
        match operand {
            Expr::Value(value) => match &value.value {
                Value::Number(_, false) => self.literal(value).map(Constant::Number),
                Value::SingleQuotedString(_) => self.literal(value).map(Constant::Text),
                _ => None,
            },
            Expr::Nested(inner) => self.constant(inner),
            Expr::TypedString(typed) if typed.data_type == DataType::Date && !typed.uses_odbc_syntax => {
                self.literal(&typed.value).map(Constant::Date)
            }
            Expr::BinaryOp { left, op: op @ (BinaryOperator::Plus | BinaryOperator::Minus), right } => {
                let minus = *op == BinaryOperator::Minus;
                if let Expr::Interval(interval) = right.as_ref() {
                    let Constant::Date(date) = self.constant(left)? else { return None };
                    let (by, unit) = self.interval(interval)?;
                    return Some(Constant::Shifted { date, by, unit, back: minus });
                }
                match (self.constant(left)?, self.constant(right)?) {
                    (Constant::Number(left), Constant::Number(right)) => Some(Constant::Sum { left, right, minus }),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn interval(&self, interval: &Interval) -> Option<(usize, Unit)> {
        let Interval { value, leading_field, leading_precision, last_field, fractional_seconds_precision } = interval;
        if leading_precision.is_some() || last_field.is_some() || fractional_seconds_precision.is_some() {
            return None;
        }
        let unit = match leading_field.as_ref()? {
            DateTimeField::Day | DateTimeField::Days => Unit::Day,
            DateTimeField::Month | DateTimeField::Months => Unit::Month,
            DateTimeField::Year | DateTimeField::Years => Unit::Year,
            _ => return None,
        };
        let Expr::Value(value) = value.as_ref() else { return None };
        self.literal(value).map(|by| (by, unit))
    }

    /// The number of the literal that the parser has found at the place of `value`.
    fn literal(&self, value: &ValueWithSpan) -> Option<usize> {
        let start = value.span.start;
        let at = (start.line == 1).then_some(usize::try_from(start.column).ok()?.checked_sub(1)?)?;
        let number = self.literals.binary_search_by_key(&at, |literal| literal.at).ok()?;
        let (text, is_string) = match &value.value {
            Value::Number(text, false) => (text, false),
            Value::SingleQuotedString(text) => (text, true),
            _ => return None,
        };
        let literal = &self.literals[number];
        (literal.text == *text && literal.is_string == is_string).then_some(number)
    }
}

/// Whether an operand has no columns, as far as this is plain.
fn is_constant(operand: &Expr) -> bool {
    match operand {
        Expr::Value(_) | Expr::TypedString(_) | Expr::Interval(_) => true,
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } | Expr::Cast { expr: inner, .. } => is_constant(inner),
        Expr::BinaryOp { left, right, .. } => is_constant(left) && is_constant(right),
        _ => false,
    }
}

fn kind(constant: &Constant) -> String {
    match constant {
        Constant::Number(_) => "number".into(),
        Constant::Sum { minus, .. } => format!("sum {minus}"),
        Constant::Text(_) => "text".into(),
        Constant::Pattern { .. } => "pattern".into(),
        Constant::Date(_) => "date".into(),
        Constant::Shifted { unit, back, .. } => format!("shifted {unit:?} {back}"),
    }
}
