//! The limits of a statement: checked on its text, before anything recurses, and on its plan, before anything is copied.
//!
//! docs/limits.md documents these numbers.

mod ctes;
mod plan;
mod text;
mod windows;

pub(crate) use ctes::check_ctes;
pub(crate) use plan::{check_expressions, check_plan, reserve};
pub(crate) use text::check_text;
pub(crate) use windows::check_windows;

use std::cell::Cell;
use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Visit, Visitor};

use crate::{Error, Result};

/// Consecutive operators without parentheses plus levels of nesting.
const MAX_DEPTH: usize = 2500;
/// Function calls and lists inside each other: DataFusion names every call by its whole text.
const MAX_CALLS: usize = 128;
/// The same for nested arithmetic that is not a chain of operators.
const MAX_NESTING: usize = 250;
/// Columns of a SELECT list: DataFusion compares each with each.
const MAX_COLUMNS: usize = 10_000;
/// Tables, subqueries and joins in one text.
const MAX_RELATIONS: usize = 1500;
/// Nodes of a plan with all views and common table expressions expanded at each use.
const MAX_NODES: u64 = 10_000;
/// Subqueries inside expressions of each other: DataFusion checks each twice as often as the one around it.
const MAX_SUBQUERIES: usize = 16;
/// Different windows (partitions and orders) above each other: each has all columns of those below, and DataFusion's rules process all of them.
const MAX_WINDOWS: usize = 500;
/// Operators of a plan node's expressions, with column definitions expanded at each use.
const MAX_EXPRESSIONS: usize = 200_000;
/// Views that are planned for one statement, counted at each use.
const MAX_VIEWS: usize = 1000;

thread_local! {
    static VIEWS: Cell<usize> = const { Cell::new(0) };
}

/// Begins a statement on this thread.
pub(super) fn begin() {
    VIEWS.set(0);
}

/// Visits the inner statement, also within EXPLAIN and COPY.
fn visit<V: Visitor>(statement: &Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Statement::Statement(statement) => statement.visit(visitor),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => query.visit(visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => visit(&explain.statement, visitor),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

/// Refuses arithmetic with `levels` of arithmetic in one of its operands.
pub(crate) fn check_nesting(levels: usize) -> datafusion::common::Result<()> {
    match levels >= MAX_NESTING {
        true => Err(datafusion::common::DataFusionError::from(Error::Limit(format!(
            "more than {MAX_NESTING} sums or products are inside each other, which is the limit: write them from the left to the right, \
             without parentheses"
        )))),
        false => Ok(()),
    }
}

/// Refuses a SELECT list of too many columns.
pub(crate) fn check_columns(count: usize) -> Result<()> {
    match count > MAX_COLUMNS {
        true => Err(Error::Limit(format!("a SELECT list has {count} columns; {MAX_COLUMNS} are the limit"))),
        false => Ok(()),
    }
}

/// Counts a view that is planned for the statement of this thread.
pub(crate) fn count_view() -> Result<()> {
    VIEWS.set(VIEWS.get() + 1);
    match VIEWS.get() > MAX_VIEWS {
        true => Err(Error::Limit(format!(
            "the statement names more than {MAX_VIEWS} views, which is the limit (those within views count each time): store some of them as tables"
        ))),
        false => Ok(()),
    }
}
