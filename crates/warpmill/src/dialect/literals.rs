//! Numeric literals in texts in DuckDB's syntax.

use std::borrow::Cow;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, Interval, ObjectName, UnaryOperator, Value, VisitorMut,
};

use super::walk;
use crate::pieces::{Piece, pieces};

/// Digits of the widest decimal.
const DIGITS: usize = 38;

/// `sql` with numbers rewritten for the parser: without underscores between digits (`1_000_000` is a million), and separated from following letters,
/// which the parser would read as hexadecimal (`0x1F` is a 0 named x1F).
pub(super) fn plain_numbers(sql: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    for (piece, word) in pieces(sql) {
        let start = at;
        at += word.len();
        if piece == Piece::Word
            && let Some(plain) = plain_number(word)
        {
            out.push_str(&sql[copied..start]);
            out.push_str(&plain);
            copied = at;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(sql);
    }
    out.push_str(&sql[copied..]);
    Cow::Owned(out)
}

/// A word that is a number, if the parser reads it otherwise.
fn plain_number(word: &str) -> Option<String> {
    let digit = |i: usize| word.as_bytes().get(i).is_some_and(u8::is_ascii_digit);
    let between = |i: usize| digit(i.wrapping_sub(1)) && digit(i + 1);
    if word.starts_with("0x") || word.starts_with("0X") {
        return Some(format!("0 {}", &word[1..]));
    }
    let underscores = digit(0) && word.contains('_') && word.match_indices('_').all(|(i, _)| between(i));
    underscores.then(|| word.replace('_', ""))
}

/// Rewrites a statement's literals to standard SQL with DuckDB's meaning: numbers with an exponent are DOUBLE, integers beyond BIGINT are HUGEINT;
/// `AT TIME ZONE` becomes a function of both kinds of timestamps.
pub(super) fn rewrite(statement: &mut Statement) {
    let _: ControlFlow<()> = walk::statement(statement, &mut Literals);
}

struct Literals;

impl VisitorMut for Literals {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            // The least BIGINT is one literal, whose digits alone are out of range.
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => {
                if let Expr::Value(value) = inner.as_ref()
                    && let Value::Number(digits, long) = &value.value
                    && format!("-{digits}") == i64::MIN.to_string()
                {
                    *expr = Expr::Value(Value::Number(i64::MIN.to_string(), *long).into());
                }
            }
            Expr::Value(_) => {
                typed(expr);
            }
            // A text without a separate unit.
            Expr::Interval(Interval { value, leading_field: None, .. }) if matches!(&**value, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_))) =>
            {
                let data_type = DataType::Interval { fields: None, precision: None };
                let expr_of = Box::new((**value).clone());
                *expr = Expr::Cast { kind: CastKind::Cast, expr: expr_of, data_type, array: false, format: None };
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                let args =
                    [time_zone, timestamp].map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr((**arg).clone())));
                *expr = Expr::Function(call("timezone", args.into()));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Makes a number that DataFusion reads with another type the cast of a text. Returns whether it is one.
pub(super) fn typed(expr: &mut Expr) -> bool {
    if let Expr::Value(value) = &*expr
        && let Value::Number(digits, _) = &value.value
        && let Some(data_type) = number(digits)
    {
        let text = Box::new(Expr::Value(Value::SingleQuotedString(digits.clone()).into()));
        *expr = Expr::Cast { kind: CastKind::Cast, expr: text, data_type, array: false, format: None };
        return true;
    }
    false
}

/// The type of a number that DataFusion reads differently.
fn number(text: &str) -> Option<DataType> {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    if text.contains(['e', 'E']) || text.contains('.') && digits > DIGITS {
        return Some(DataType::Double(ExactNumberInfo::None));
    }
    let wide = !text.contains('.') && text.parse::<i64>().is_err() && digits <= DIGITS;
    wide.then_some(DataType::Decimal(ExactNumberInfo::PrecisionAndScale(DIGITS as u64, 0)))
}

fn call(name: &str, args: Vec<FunctionArg>) -> Function {
    let args = FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] };
    Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(args),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn underscores_of_numbers_only() {
        let same = [
            "a_1",
            "SELECT '1_0', \"1_0\" -- 1_0",
            "/* 1_0 */ x",
            "$$1_0$$",
            "$a$1_0$a$",
            r"E'it\'s 1_0'",
            r"'\' || $1_0$it's 1_0$1_0$",
            "1_",
            "1__0",
            "_1_0",
            "x1_0",
            "$1 + $2",
        ];
        for sql in same {
            assert_eq!(plain_numbers(sql), sql);
        }
        assert_eq!(plain_numbers("1_000_000+'é1_0'||1_0.5"), "1000000+'é1_0'||10.5");
        assert_eq!(plain_numbers("'it''s' 1_0"), "'it''s' 10");
    }

    #[test]
    fn letters_after_a_zero_are_a_name() {
        assert_eq!(plain_numbers("SELECT 0x1F, 0XfF_1"), "SELECT 0 x1F, 0 XfF_1");
        for sql in ["'0x1F'", "x0x1", "10x1", "\"0x1F\"", "-- 0x1F"] {
            assert_eq!(plain_numbers(sql), sql);
        }
    }
}
