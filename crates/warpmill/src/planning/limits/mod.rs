//! The limits of a statement: checked on its text, before anything recurses, and on its plan, before anything is copied.
//!
//! docs/limits.md documents these numbers.

mod ctes;
mod doubling;
mod plan;
mod text;
mod windows;

pub(crate) use ctes::check_ctes;
pub(crate) use doubling::check_doubling;
pub(crate) use plan::{check_expressions, check_plan, reserve};
pub(crate) use text::check_text;
pub(crate) use windows::check_windows;

use std::cell::Cell;
use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::Visitor;

use crate::{Error, Result};

/// Consecutive operators without parentheses plus levels of nesting.
const MAX_DEPTH: usize = 2500;
/// Function calls and lists inside each other: DataFusion names every call by its whole text.
const MAX_CALLS: usize = 128;
/// The same for nested arithmetic that is not a chain of operators.
const MAX_NESTING: usize = 250;
/// Columns of a SELECT list: DataFusion compares each with each.
const MAX_COLUMNS: usize = 10_000;
/// Calls with lambdas, and `coalesce` in its own first arguments, inside each other: each doubles what DataFusion does for those inside.
const MAX_DOUBLING: usize = 10;
/// Grouping sets of a SELECT, as in DuckDB: each is a copy of its keys.
const MAX_GROUPING_SETS: usize = 65_535;
/// Fields of a type, those of fields included: a type of types has as many as these together.
const MAX_FIELDS: usize = 10_000;
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
        Statement::Statement(statement) => crate::visit::visit(statement, visitor),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => crate::visit::visit(query, visitor),
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

/// Refuses that subqueries copy too many operators of the queries around them.
pub(crate) fn check_copied(operators: u64) -> Result<()> {
    match operators > MAX_NODES {
        true => Err(Error::Limit(format!(
            "subqueries and LATERAL queries that name columns of those around them repeat more than {MAX_NODES} operators, which is the limit: \
             make a table of one of them"
        ))),
        false => Ok(()),
    }
}

/// Refuses too many grouping sets.
pub(crate) fn check_grouping_sets(count: usize) -> Result<()> {
    match count > MAX_GROUPING_SETS {
        true => {
            Err(Error::Limit(format!("GROUP BY has more than {MAX_GROUPING_SETS} grouping sets, which is the limit")))
        }
        false => Ok(()),
    }
}

/// Refuses a type of too many fields.
pub(crate) fn check_fields(count: usize) -> Result<()> {
    match count > MAX_FIELDS {
        true => Err(Error::Limit(format!(
            "a type has more than {MAX_FIELDS} fields, which is the limit, with those of the types that it is made of"
        ))),
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
