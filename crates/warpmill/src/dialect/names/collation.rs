//! COLLATE NOCASE: case-insensitive comparison and sorting of texts, by their lower-case forms.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArgumentClause, FunctionArguments, OrderByExpr, WindowType,
};

use super::expr::function;
use crate::{Error, Result};

/// Rewrites a comparison with a collation on a side to compare the folded texts; also in the orders of a call.
///
/// # Errors
/// An unknown collation.
pub(super) fn compared(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::BinaryOp { left, op, right } if is_comparison(op) => folded(vec![&mut **left, &mut **right]),
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
            folded(vec![&mut **left, &mut **right])
        }
        Expr::Between { expr, low, high, .. } => folded(vec![&mut **expr, &mut **low, &mut **high]),
        Expr::InList { expr, list, .. } => folded(std::iter::once(&mut **expr).chain(list.iter_mut()).collect()),
        Expr::Like { expr, pattern, .. } => folded(vec![&mut **expr, &mut **pattern]),
        Expr::Function(call) => orders(call).try_for_each(|key| sorted(&mut key.expr)),
        _ => Ok(()),
    }
}

/// Rewrites an ORDER BY key with a collation to the folded text.
///
/// # Errors
/// An unknown collation.
pub(super) fn sorted(key: &mut Expr) -> Result<()> {
    folded(vec![key])
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// The keys of the orders of a call.
fn orders(call: &mut Function) -> impl Iterator<Item = &mut OrderByExpr> {
    let clauses = match &mut call.args {
        FunctionArguments::List(list) => list.clauses.as_mut_slice(),
        _ => &mut [],
    };
    let own = clauses.iter_mut().filter_map(|clause| match clause {
        FunctionArgumentClause::OrderBy(keys) => Some(keys),
        _ => None,
    });
    let window = match &mut call.over {
        Some(WindowType::WindowSpec(window)) => window.order_by.as_mut_slice(),
        _ => &mut [],
    };
    own.flatten().chain(&mut call.within_group).chain(window)
}

/// Removes collations from texts; if there was one, folds all to lower case.
fn folded(mut parts: Vec<&mut Expr>) -> Result<()> {
    let mut any = false;
    for part in &mut parts {
        any |= taken(part)?;
    }
    if any {
        for part in parts {
            let text = std::mem::replace(part, Expr::Tuple(vec![]));
            *part = function("lower", vec![text]);
        }
    }
    Ok(())
}

/// Removes the collation of a text. Returns whether there was one.
fn taken(expr: &mut Expr) -> Result<bool> {
    match expr {
        Expr::Nested(inner) => taken(inner),
        Expr::Collate { expr: inner, collation } => {
            let name = collation.to_string();
            if !name.trim_matches('"').eq_ignore_ascii_case("nocase") {
                return Err(Error::NotImplemented(format!("COLLATE {name}: NOCASE is the only collation")));
            }
            let text = std::mem::replace(&mut **inner, Expr::Tuple(vec![]));
            *expr = text;
            Ok(true)
        }
        _ => Ok(false),
    }
}
