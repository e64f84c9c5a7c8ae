//! CHECK conditions as expressions that are evaluated over the rows that are written.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{ExprSchemable, LogicalPlan};
use datafusion::physical_expr::PhysicalExpr;
use warpmill_format::FormatError;
use warpmill_format::table::{Constraint, RowCheck};

use super::{expressions, shown};
use crate::dialect::type_name;
use crate::planning::{self, bound};
use crate::{Error, Result};

/// The CHECK conditions of a table.
pub(crate) struct Checks {
    table: String,
    /// Columns of the table that are read.
    columns: Vec<usize>,
    /// The schema of these columns in the conditions.
    schema: SchemaRef,
    conditions: Vec<Condition>,
}

struct Condition {
    /// In DuckDB's words.
    text: String,
    value: Arc<dyn PhysicalExpr>,
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.conditions.iter().map(|condition| &condition.text);
        f.debug_list().entries(texts).finish()
    }
}

impl Checks {
    /// The conditions among the constraints of a table; `None`: there are none.
    ///
    /// # Errors
    /// A text that is not a condition on a single row: unknown names, subqueries, aggregates.
    pub(crate) async fn planned(
        state: &Arc<SessionState>,
        schema: &Schema,
        constraints: &[Constraint],
        table: &str,
    ) -> Result<Option<Arc<Self>>> {
        let texts: Vec<String> = constraints
            .iter()
            .filter_map(|constraint| match constraint {
                Constraint::Check(text) => Some(text.clone()),
                _ => None,
            })
            .collect();
        if texts.is_empty() {
            return Ok(None);
        }
        let mut columns = vec![];
        for text in &texts {
            if expressions::has_subquery(&expressions::parsed(text)?) {
                return Err(Error::Plan("subqueries prohibited in CHECK constraints".into()));
            }
            columns.extend(expressions::columns(text, schema)?);
        }
        columns.sort_unstable();
        columns.dedup();
        if columns.is_empty() {
            columns.push(0);
        }
        let plan = bound(state, &query(&texts, &columns, schema, table), &[]).await?;
        let (state, table) = (Arc::clone(state), table.to_string());
        let checks = planning::run(async move { Self::of(&state, &plan, texts, columns, table) });
        checks.await.map(Arc::new).map(Some)
    }

    /// The conditions among the columns of a plan.
    fn of(
        state: &SessionState,
        plan: &LogicalPlan,
        texts: Vec<String>,
        columns: Vec<usize>,
        table: String,
    ) -> Result<Self> {
        let LogicalPlan::Projection(projection) = plan else { return Err(not_of_a_row(plan)) };
        let mut of_a_row = true;
        projection.input.apply(|node| {
            of_a_row &= matches!(
                node,
                LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::EmptyRelation(_)
            );
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !of_a_row || projection.expr.len() != texts.len() {
            return Err(not_of_a_row(plan));
        }
        let input = projection.input.schema();
        let mut conditions = vec![];
        for (expr, text) in projection.expr.iter().zip(&texts) {
            let ty = expr.get_type(input)?;
            if ty != DataType::Boolean && ty != DataType::Null && !ty.is_integer() {
                return Err(Error::Plan(format!(
                    "CHECK ({text}): an expression of type {} is not a condition",
                    type_name(&ty)
                )));
            }
            let value = state.create_physical_expr(expr.clone().unalias(), input)?;
            conditions.push(Condition { text: shown::expression(text), value });
        }
        let fields = input.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        Ok(Self { table, columns, schema, conditions })
    }

    fn failed(&self, condition: &Condition, reason: &str) -> FormatError {
        let (table, text) = (&self.table, &condition.text);
        let text = format!("CHECK constraint failed on table \"{table}\" with expression CHECK({text}){reason}");
        FormatError::Constraint(text)
    }
}

impl RowCheck for Checks {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn check(&self, columns: &[ArrayRef], rows: usize) -> Result<(), FormatError> {
        let typed = columns.iter().zip(self.schema.fields()).map(|(column, field)| cast(column, field.data_type()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = typed.collect::<Result<Vec<_>, _>>()?;
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        for condition in &self.conditions {
            let value = condition.value.evaluate(&rows).and_then(|value| value.into_array(rows.num_rows()));
            let value = value.and_then(|value| Ok(cast(&value, &DataType::Boolean)?));
            let value = value.map_err(|error| self.failed(condition, &format!(" (Error: {})", Error::from(error))))?;
            if value.as_boolean().iter().any(|holds| holds == Some(false)) {
                return Err(self.failed(condition, ""));
            }
        }
        Ok(())
    }
}

/// The error of a condition about more than one row.
fn not_of_a_row(plan: &LogicalPlan) -> Error {
    let what = match plan {
        LogicalPlan::Window(_) => "window functions",
        _ => "aggregate functions",
    };
    Error::Plan(format!("{what} are not allowed in check constraints"))
}

/// A query whose columns are conditions, over columns of the table's names and types.
fn query(texts: &[String], columns: &[usize], schema: &Schema, table: &str) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let column = |at: &usize| {
        let field = schema.field(*at);
        format!("CAST(NULL AS {}) AS {}", type_name(field.data_type()), quoted(field.name()))
    };
    let columns = columns.iter().map(column).collect::<Vec<_>>().join(", ");
    let condition = |(at, text): (usize, &String)| format!("({text}) AS {}", quoted(&format!("\u{1}check {at}")));
    let conditions = texts.iter().enumerate().map(condition).collect::<Vec<_>>().join(", ");
    format!("SELECT {conditions} FROM (SELECT {columns}) AS {}", quoted(table))
}
