//! `TABLE t` as a query.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Query, SetExpr, Table, VisitorMut};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use super::walk;
use crate::{Error, Result};

/// Replaces `TABLE t` by `SELECT * FROM t` in a statement.
pub(super) fn rewrite(statement: &mut Statement) -> Result<()> {
    walk::result(walk::statement(statement, &mut Tables))
}

struct Tables;

impl VisitorMut for Tables {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<Error>> {
        match replace(&mut query.body) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(Error::Parse(error.to_string()))),
        }
    }
}

/// Replaces the tables among the operands of set operations.
fn replace(body: &mut SetExpr) -> Result<(), ParserError> {
    // Long chains of operations nest on the left.
    let mut next = body;
    loop {
        match next {
            SetExpr::SetOperation { left, right, .. } => {
                replace(right)?;
                next = left;
            }
            SetExpr::Table(table) => {
                *next = rows(table)?;
                return Ok(());
            }
            _ => return Ok(()),
        }
    }
}

/// `SELECT * FROM table`.
fn rows(table: &Table) -> Result<SetExpr, ParserError> {
    let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
    let names: Vec<String> = table.schema_name.iter().chain(&table.table_name).map(quoted).collect();
    let query =
        Parser::new(&DuckDbDialect).try_with_sql(&format!("SELECT * FROM {}", names.join(".")))?.parse_query()?;
    Ok(*query.body)
}
