//! The answers of DESCRIBE, SUMMARIZE and PRAGMA table_info as tables.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::datasource::ViewTable;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;

use warpmill_format::enums;
use warpmill_format::table::Constraint;

use super::view::coerced;
use crate::dialect::{shown, type_name};
use crate::planning;
use crate::session::constraints::of_plan;
use crate::session::describe::describe;
use crate::session::pragma::table_info;
use crate::{Error, Result};

/// The answer of `DESCRIBE ...`, `SUMMARIZE ...` or `table_info ...`.
pub(super) async fn answer(sql: &str, state: SessionState) -> Result<Arc<dyn TableProvider>> {
    let Some((word, source)) = sql.split_once(char::is_whitespace) else {
        return Err(Error::Parse(format!("{sql} of what?")));
    };
    let query = query_of(source.trim());
    let state = Arc::new(state);
    let (plan, mut constraints) = bound(&state, &query).await?;
    if word.eq_ignore_ascii_case("summarize") {
        let text = summary(&query, plan.schema().as_arrow());
        let (plan, _) = bound(&state, &text).await?;
        return Ok(Arc::new(ViewTable::new(plan, None)));
    }
    let mut schema = plan.schema().as_arrow().clone();
    if is_query(source.trim()) {
        // No column is declared NOT NULL.
        let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        schema = Schema::new(fields.collect::<Vec<_>>());
        constraints = Arc::default();
    }
    let rows = match word.eq_ignore_ascii_case("table_info") {
        true => table_info(&schema, &constraints)?,
        false => describe(&schema, &constraints)?,
    };
    Ok(Arc::new(MemTable::try_new(rows.schema, vec![rows.batches])?))
}

/// The plan of a query, and the constraints of the table that it is.
async fn bound(state: &Arc<SessionState>, sql: &str) -> Result<(LogicalPlan, Arc<[Constraint]>)> {
    let (own, sql) = (Arc::clone(state), sql.to_string());
    planning::run(async move {
        let plan = planning::bound(&own, &sql, &[]).await?;
        let constraints = of_plan(&plan)?;
        Ok((coerced(plan, &own)?, constraints))
    })
    .await
}

/// The query for the rows of a DESCRIBE or SUMMARIZE source: a query, or the name of a table.
fn query_of(source: &str) -> String {
    if is_query(source) { source.to_string() } else { format!("FROM {source}") }
}

/// Whether a text is a query, not a name.
pub(crate) fn is_query(source: &str) -> bool {
    let first = source.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_ascii_lowercase();
    source.starts_with('(') || ["select", "from", "with", "values", "pivot", "unpivot"].contains(&first.as_str())
}

/// Whether SUMMARIZE shows the least and the greatest value of a type: not for nested types with nullable or nested parts.
fn has_order(ty: &DataType) -> bool {
    match ty {
        ty if enums::is_enum(ty) => true,
        DataType::Interval(_) | DataType::Map(..) | DataType::Struct(_) => false,
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            !element.data_type().is_nested() && has_order(element.data_type())
        }
        _ => true,
    }
}

/// SUMMARIZE as a query: one row per column. Quantiles are approximate, as in DuckDB; the number of distinct values is exact.
fn summary(query: &str, schema: &Schema) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let names: Vec<String> = (0..schema.fields().len()).map(|at| format!("c{at}")).collect();
    let row = |(at, field): (usize, &Arc<arrow::datatypes::Field>)| {
        let (column, ty) = (&names[at], field.data_type());
        let is_number = ty.is_numeric();
        let is_moment = matches!(ty, DataType::Date32 | DataType::Timestamp(..));
        let text = |x: String| format!("CAST({x} AS VARCHAR)");
        let nothing = || "CAST(NULL AS VARCHAR)".to_string();
        let (avg, std) = match (is_number, is_moment) {
            (true, _) => (text(format!("avg({column})")), text(format!("stddev({column})"))),
            (_, true) => {
                let micros = format!("avg(epoch_us({column}))");
                (text(format!("make_timestamp(CAST({micros} AS BIGINT))")), nothing())
            }
            _ => (nothing(), nothing()),
        };
        let bound = |of: &str| if has_order(ty) { text(format!("{of}({column})")) } else { nothing() };
        let unique = if has_order(ty) { column.clone() } else { text(column.clone()) };
        let quantile = |at: &str| match (is_number, is_moment) {
            (true, _) => {
                // Quantiles are of finite numbers.
                let number = match ty.is_floating() {
                    true => format!("CASE WHEN isfinite({column}) THEN CAST({column} AS DOUBLE) END"),
                    false => format!("CAST({column} AS DOUBLE)"),
                };
                let of = format!("approx_percentile_cont({number}, {at})");
                text(format!("CAST({of} AS {})", type_name(ty)))
            }
            (_, true) if *ty == DataType::Date32 => {
                let days = format!("approx_percentile_cont(CAST(epoch_us({column}) // 86400000000 AS DOUBLE), {at})");
                text(format!("DATE '1970-01-01' + CAST(round_even({days}, 0) AS INTEGER)"))
            }
            (_, true) => {
                let micros = format!("approx_percentile_cont(CAST(epoch_us({column}) AS DOUBLE), {at})");
                text(format!("make_timestamp(CAST({micros} AS BIGINT))"))
            }
            _ => nothing(),
        };
        let name = shown(field.name()).replace('\'', "''");
        let kind = type_name(ty).replace('\'', "''");
        let nulls = format!("100.0 * (count(*) - count({column})) / count(*)");
        format!(
            "SELECT {at} AS \"\u{1}at\", '{name}' AS column_name, '{kind}' AS column_type, {} AS min, {} AS max, \
             count(DISTINCT {unique}) AS approx_unique, {avg} AS avg, {std} AS std, {} AS q25, {} AS q50, {} AS q75, \
             count(*) AS count, CASE WHEN count(*) > 0 THEN CAST({nulls} AS DECIMAL(9, 2)) END AS null_percentage \
             FROM ({query}) AS t({})",
            bound("min"),
            bound("max"),
            quantile("0.25"),
            quantile("0.5"),
            quantile("0.75"),
            names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", "),
        )
    };
    let rows = schema.fields().iter().enumerate().map(row).collect::<Vec<_>>().join(" UNION ALL ");
    format!("SELECT * FROM ({rows})")
}
