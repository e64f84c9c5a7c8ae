//! `TABLE t`, and VALUES with subqueries, as SELECT.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, Table, Values, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use super::walk;
use crate::visit::visit_expressions;
use crate::{Error, Result};

/// Replaces such queries in a statement.
pub(super) fn rewrite(statement: &mut Statement) -> Result<()> {
    walk::result(walk::statement(statement, &mut Rows))
}

struct Rows;

impl VisitorMut for Rows {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<Error>> {
        match replace(&mut query.body) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(Error::Parse(error.to_string()))),
        }
    }
}

/// Replaces such operands of set operations. VALUES with DEFAULT, which are those of an INSERT, stay until it has its value.
pub(super) fn replace(body: &mut SetExpr) -> Result<(), ParserError> {
    // Long chains of operations nest on the left.
    let mut next = body;
    loop {
        match next {
            SetExpr::SetOperation { left, right, .. } => {
                replace(right)?;
                next = left;
            }
            SetExpr::Table(table) => {
                *next = of_table(table)?;
                return Ok(());
            }
            SetExpr::Values(values) if has_subquery(values) && !has_default(values) => {
                *next = of_rows(&values.rows.iter().map(|row| row.content.as_slice()).collect::<Vec<_>>())?;
                return Ok(());
            }
            _ => return Ok(()),
        }
    }
}

/// `SELECT * FROM table`.
fn of_table(table: &Table) -> Result<SetExpr, ParserError> {
    let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
    let names: Vec<String> = table.schema_name.iter().chain(&table.table_name).map(quoted).collect();
    parsed(&format!("SELECT * FROM {}", names.join(".")))
}

/// `SELECT row UNION ALL SELECT row ...`, which nests as little as it can. There must be rows.
fn of_rows(rows: &[&[Expr]]) -> Result<SetExpr, ParserError> {
    if let [row] = rows {
        let mut select = parsed("SELECT 1")?;
        if let SetExpr::Select(select) = &mut select {
            let named = |(at, expr): (usize, &Expr)| SelectItem::ExprWithAlias {
                expr: expr.clone(),
                alias: Ident::new(format!("col{at}")),
            };
            select.projection = row.iter().enumerate().map(named).collect();
        }
        return Ok(select);
    }
    let (left, right) = rows.split_at(rows.len() / 2);
    Ok(SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        left: Box::new(of_rows(left)?),
        right: Box::new(of_rows(right)?),
    })
}

fn parsed(text: &str) -> Result<SetExpr, ParserError> {
    Ok(*Parser::new(&DuckDbDialect).try_with_sql(text)?.parse_query()?.body)
}

/// Whether a value is computed by a query: DataFusion plans none within VALUES.
fn has_subquery(values: &Values) -> bool {
    let is_query = |e: &Expr| match e {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    !values.rows.is_empty() && visit_expressions(values, is_query).is_break()
}

/// Whether a value is DEFAULT, which only VALUES of an INSERT have.
fn has_default(values: &Values) -> bool {
    let is_default = |e: &Expr| matches!(e, Expr::Identifier(name) if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"));
    values.rows.iter().flat_map(|row| &row.content).any(is_default)
}
