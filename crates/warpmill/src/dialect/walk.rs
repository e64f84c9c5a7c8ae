//! Walks through statements before their names are bound.
//!
//! Visitors break with a boxed value: each expression level holds one result of a visit per operand, and statements nest deeply.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Select, SelectItem, VisitorMut};

use super::alias_of;
use crate::visit::visit_mut;
use crate::{Error, Result};

/// Visits the SQL of `statement`, also within EXPLAIN and COPY.
pub(crate) fn statement<V: VisitorMut>(statement: &mut Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Statement::Statement(statement) => visit_mut(statement, visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => visit_mut(query, visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => self::statement(&mut explain.statement, visitor),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

/// The error that a visitor has ended with.
pub(crate) fn result(visited: ControlFlow<Box<Error>>) -> Result<()> {
    match visited {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

/// Names the columns of a SELECT list whose expressions are `replaced` later after their text in the statement.
pub(crate) fn name_columns(select: &mut Select, replaced: impl Fn(&Expr) -> bool) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && replaced(expr)
        {
            *item = SelectItem::ExprWithAlias { alias: alias_of(expr), expr: expr.clone() };
        }
    }
}
