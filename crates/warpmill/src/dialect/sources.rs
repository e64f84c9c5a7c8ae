//! Rows of `INSERT ... SELECT`, planned by themselves: DataFusion takes every list of VALUES in an INSERT for rows of the table, and gives it the types of
//! the table's columns.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result, internal_err};
use datafusion::logical_expr::{DmlStatement, Expr, ExprSchemable, LogicalPlan, Projection};
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::{ContextProvider, SqlToRel};
use datafusion::sql::sqlparser::ast::{Query, SetExpr, Statement as SqlStatement};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// The prefix of the columns that stand for those of the rows.
const GIVEN: &str = "\u{1}source";

/// Plans a statement.
pub(super) fn planned<C: ContextProvider>(planner: &SqlToRel<'_, C>, mut statement: Statement) -> Result<LogicalPlan> {
    let Some(source) = source_of(&mut statement) else { return planner.statement_to_plan(statement) };
    let query = std::mem::replace(source, row(1)?);
    let query = SqlStatement::Query(Box::new(query));
    let rows = planner.statement_to_plan(Statement::Statement(Box::new(query)))?;
    if let Some(source) = source_of(&mut statement) {
        *source = row(rows.schema().fields().len())?;
    }
    match planner.statement_to_plan(statement)? {
        LogicalPlan::Dml(insert) => with_rows(insert, rows),
        other => internal_err!("an INSERT became {}", other.display()),
    }
}

/// The rows of an INSERT that are a query.
fn source_of(statement: &mut Statement) -> Option<&mut Query> {
    let Statement::Statement(statement) = statement else { return None };
    let SqlStatement::Insert(insert) = &mut **statement else { return None };
    let source = insert.source.as_deref_mut()?;
    if matches!(&*source.body, SetExpr::Values(_)) { None } else { Some(source) }
}

/// A row of this many columns, without values.
fn row(columns: usize) -> Result<Query> {
    let nulls: Vec<String> = (0..columns).map(|at| format!("NULL AS \"{GIVEN}{at}\"")).collect();
    let parser = Parser::new(&DuckDbDialect).try_with_sql(&format!("SELECT {}", nulls.join(", ")));
    Ok(*parser.and_then(|mut parser| parser.parse_query())?)
}

/// `insert`, which was planned for a [`row`], of `rows`.
fn with_rows(mut insert: DmlStatement, rows: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(given) = Arc::unwrap_or_clone(insert.input) else {
        return internal_err!("the rows of an INSERT are no projection");
    };
    let columns: Vec<Column> = rows.schema().columns();
    let stood_for = |e: &Expr| match e {
        Expr::Column(column) => columns.get(column.name.strip_prefix(GIVEN)?.parse::<usize>().ok()?).cloned(),
        _ => None,
    };
    // DataFusion refuses what it cannot convert.
    let typed = |e: Expr| match &e {
        Expr::Cast(cast) => match stood_for(&cast.expr) {
            Some(column) => Ok(Transformed::yes(Expr::Column(column).cast_to(cast.field.data_type(), rows.schema())?)),
            None => Ok(Transformed::no(e)),
        },
        e if stood_for(e).is_some() => {
            Ok(stood_for(e).map_or(Transformed::no(e.clone()), |column| Transformed::yes(Expr::Column(column))))
        }
        _ => Ok(Transformed::no(e)),
    };
    let values = given.expr.into_iter().map(|e| Ok(e.transform_down(typed)?.data)).collect::<Result<Vec<_>>>()?;
    insert.input = Arc::new(LogicalPlan::Projection(Projection::try_new(values, Arc::new(rows))?));
    Ok(LogicalPlan::Dml(insert))
}
