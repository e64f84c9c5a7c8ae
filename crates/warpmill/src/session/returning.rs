//! RETURNING: expressions over the rows that a statement has inserted, changed or deleted, computed before it commits.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::logical_plan::TableScanBuilder;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Statement, TableObject};

use super::running::Query;
use super::statements::{Taken, reference};
use super::{QueryResult, Session};
use crate::pieces::{Piece, pieces};
use crate::planning::bound;
use crate::{Error, Result, ScalarValue};

/// A clause RETURNING.
pub(super) struct Returning {
    /// The projection over the table's rows.
    plan: LogicalPlan,
}

/// A statement without its RETURNING clause, and the clause's expressions.
pub(super) fn split(sql: &str) -> (&str, Option<&str>) {
    let (mut depth, mut at) = (0, 0);
    for (piece, text) in pieces(sql) {
        match (piece, text) {
            (Piece::Other, "(") => depth += 1,
            (Piece::Other, ")") => depth -= 1,
            (Piece::Word, word) if depth == 0 && word.eq_ignore_ascii_case("returning") => {
                let said = sql[at + word.len()..].trim().trim_end_matches([';', ' ']);
                return (sql[..at].trim_end(), Some(said));
            }
            _ => {}
        }
        at += text.len();
    }
    (sql, None)
}

impl Session {
    /// Plans the RETURNING expressions `said` of a statement that changes a table, which FROM calls `table`.
    ///
    /// # Errors
    /// Invalid expressions over a row of the table.
    pub(super) async fn returning(&self, said: &str, table: &str, params: &[ScalarValue]) -> Result<Returning> {
        let state = Arc::new(self.inner.context.state());
        let plan = bound(&state, &format!("SELECT {said} FROM {table}"), params).await?;
        let (mut scans, mut of_row) = (0, true);
        plan.apply_with_subqueries(|node| {
            scans += usize::from(matches!(node, LogicalPlan::TableScan(_)));
            of_row &= !matches!(
                node,
                LogicalPlan::Aggregate(_)
                    | LogicalPlan::Window(_)
                    | LogicalPlan::Sort(_)
                    | LogicalPlan::Limit(_)
                    | LogicalPlan::Filter(_)
                    | LogicalPlan::Distinct(_)
            );
            node.apply_expressions(|expr| {
                let is_query = |expr: &Expr| {
                    matches!(
                        expr,
                        Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)
                    )
                };
                of_row &= !expr.exists(|expr| Ok(is_query(expr)))?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        match of_row && scans == 1 {
            true => Ok(Returning { plan }),
            false => Err(Error::NotImplemented(format!("RETURNING {said}: expressions of a row are returned"))),
        }
    }

    /// Evaluates `returning` over rows of the table.
    pub(super) async fn returned(
        &self,
        returning: Returning,
        rows: Vec<RecordBatch>,
        query: &Query,
    ) -> Result<QueryResult> {
        let plan = returning.plan.transform_up(|node| match node {
            LogicalPlan::TableScan(scan) => {
                let source = provider_as_source(as_table(scan.source.schema().as_ref(), &rows)?);
                let scan = TableScanBuilder::new(scan.table_name, source).with_projection(scan.projection);
                Ok(Transformed::yes(LogicalPlan::TableScan(scan.build()?)))
            }
            node => node.recompute_schema().map(Transformed::yes),
        })?;
        let state = Arc::new(self.inner.context.state());
        let (prepared, _) = self.prepare(&state, Arc::new(plan.data), &self.options()).await?;
        self.run_prepared(&prepared, query).await
    }

    /// Runs `INSERT ... RETURNING`.
    pub(super) async fn insert_returning(
        &self,
        sql: &str,
        said: &str,
        params: &[ScalarValue],
        query: &Query,
    ) -> Result<QueryResult> {
        let taken = Box::pin(self.take_statement(sql, params, query)).await?;
        let sql = match &taken {
            Taken::Instead(text) => text,
            Taken::No => sql,
            Taken::Done(_) => return Err(Error::NotImplemented(format!("RETURNING of {sql}"))),
        };
        let (table, alias) = match self.parsed(sql)? {
            Some(Statement::Insert(insert)) => match insert.table {
                TableObject::TableName(name) => (name, insert.table_alias.map(|alias| alias.alias)),
                other => return Err(Error::NotImplemented(format!("INSERT INTO {other} with RETURNING"))),
            },
            _ => return Err(Error::NotImplemented(format!("RETURNING of {sql}"))),
        };
        let name = alias.map(|alias| format!(" AS {alias}")).unwrap_or_default();
        let returning =
            self.returning(said, &format!("{}{name}", reference(&table)?.to_quoted_string()), params).await?;
        let state = Arc::new(self.inner.context.state());
        let plan = super::query::with_nullable_rows(bound(&state, sql, params).await?)?;
        let LogicalPlan::Dml(mut insert) = plan else {
            return Err(Error::NotImplemented(format!("RETURNING of {sql}")));
        };
        let (prepared, _) = self.prepare(&state, Arc::clone(&insert.input), &self.options()).await?;
        let rows = self.run_prepared(&prepared, query).await?;
        let returned = self.returned(returning, rows.batches.clone(), query).await?;
        let source = provider_as_source(as_table(insert.input.schema().as_arrow(), &rows.batches)?);
        insert.input = LogicalPlanBuilder::scan("rows", source, None)?.build().map(Arc::new)?;
        let (prepared, _) = self.prepare(&state, Arc::new(LogicalPlan::Dml(insert)), &self.options()).await?;
        self.run_prepared(&prepared, query).await?;
        Ok(returned)
    }
}

/// Rows as a table with nullable columns, whatever `schema` says: the writer refuses NULLs itself.
fn as_table(schema: &Schema, rows: &[RecordBatch]) -> datafusion::common::Result<Arc<dyn TableProvider>> {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
    let typed = |batch: &RecordBatch| -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| arrow::compute::cast(column, field.data_type()));
        RecordBatch::try_new(Arc::clone(&schema), columns.collect::<Result<_, _>>()?)
    };
    let rows = rows.iter().map(typed).collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(MemTable::try_new(Arc::clone(&schema), vec![rows])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clause_is_found() {
        assert_eq!(split("DELETE FROM t RETURNING *;"), ("DELETE FROM t", Some("*")));
        assert_eq!(
            split("INSERT INTO t VALUES ('returning') returning (a), b"),
            ("INSERT INTO t VALUES ('returning')", Some("(a), b"))
        );
        assert_eq!(split("UPDATE t SET a = (SELECT \"returning\" FROM x)").1, None);
    }
}
