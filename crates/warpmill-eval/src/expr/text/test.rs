//! Predicates that test the text of one string column: scans evaluate them on symbols.

use warpmill_format::{StrView, TextAutomaton};
use warpmill_ir::{CompareOp, Expr, ExprKind, Phys, Scalar};

use super::like::Like;

/// A predicate that is true exactly where one string column is not NULL and its text passes.
#[derive(Debug)]
pub struct TextTest {
    /// The column.
    pub column: usize,
    /// Automaton for the texts; those that match pass if `wanted`, all others if not.
    pub automaton: TextAutomaton,
    /// Whether texts that the automaton accepts pass.
    pub wanted: bool,
    plain: Plain,
}

/// The same test for a plain text.
#[derive(Debug)]
enum Plain {
    Like(Like),
    Equal { text: String, wanted: bool },
}

impl TextTest {
    /// The test that `expr` is equivalent to, if any.
    pub(in crate::expr) fn of(expr: &Expr) -> Option<Self> {
        match &expr.kind {
            ExprKind::Like { input, pattern, escape, case_insensitive: false, negated } => {
                let column = column(input)?;
                let like = Like::new(pattern, *escape, false, *negated);
                let (automaton, wanted) = (like.automaton()?, !negated);
                Some(Self { column, automaton, wanted, plain: Plain::Like(like) })
            }
            ExprKind::Compare { op: op @ (CompareOp::Eq | CompareOp::Ne), left, right } => {
                let (column, text) = match (column(left), column(right)) {
                    (Some(column), None) => (column, literal(right)?),
                    (None, Some(column)) => (column, literal(left)?),
                    _ => return None,
                };
                let (automaton, wanted) = (TextAutomaton::exactly(text)?, *op == CompareOp::Eq);
                Some(Self { column, automaton, wanted, plain: Plain::Equal { text: text.to_owned(), wanted } })
            }
            _ => None,
        }
    }

    /// Whether `text` passes.
    #[inline]
    pub fn passes(&self, text: &StrView) -> bool {
        match &self.plain {
            Plain::Like(like) => like.passes(text.as_str()),
            Plain::Equal { text: other, wanted } => (text.as_str() == other) == *wanted,
        }
    }
}

/// The string column that `expr` is.
fn column(expr: &Expr) -> Option<usize> {
    match expr.kind {
        ExprKind::Column(index) if expr.ty.phys == Phys::Str => Some(index),
        _ => None,
    }
}

/// The text that `expr` is.
fn literal(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Literal(Scalar::Str(text)) => Some(text),
        _ => None,
    }
}
