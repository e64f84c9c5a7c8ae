//! PIVOT without a list of values: a query finds them before the statement is planned.

use std::ops::ControlFlow;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, ExprWithAlias, PivotValueSource, Query as SqlQuery, Statement, TableFactor, Value, VisitorMut, With,
};

use super::Session;
use super::running::Query;
use crate::dialect::{PIVOT_VALUES, arguments};
use crate::visit::visit_mut;
use crate::{Error, Result, ScalarValue};

/// Combinations of values that a PIVOT may make columns of.
const MOST_VALUES: usize = 10_000;

impl Session {
    /// `sql` with the values of its PIVOTs listed; `None`: every PIVOT has a list.
    ///
    /// # Errors
    /// Too many values; a PIVOT in a view, whose columns must not depend on data.
    pub(super) async fn with_pivot_values(
        &self,
        sql: &str,
        params: &[ScalarValue],
        query: &Query,
    ) -> Result<Option<String>> {
        let Some(mut statement) = self.parsed(sql)? else { return Ok(None) };
        let mut found = false;
        while let Some(open) = Open::of(&mut statement) {
            found = true;
            if matches!(statement, Statement::CreateView(_)) {
                let text = "PIVOT in a view takes the values of its columns in lists: ON column IN (value, ...)";
                return Err(Error::NotImplemented(text.into()));
            }
            let mut all: Vec<Vec<Expr>> = vec![vec![]];
            let mut columns = vec![];
            for column in open.columns {
                let values = match &column {
                    Expr::Function(call) if call.name.to_string() == PIVOT_VALUES => {
                        let mut args = arguments(call)?;
                        let values = args.split_off(1.min(args.len()));
                        columns.extend(args);
                        values
                    }
                    column => {
                        columns.push(column.clone());
                        let (with, table) = (&open.with, &open.table);
                        let text = format!(
                            "{with}SELECT DISTINCT CAST(({column}) AS VARCHAR) AS v FROM {table} WHERE ({column}) IS NOT NULL ORDER BY v"
                        );
                        self.texts_of(&text, params, query).await?
                    }
                };
                if all.len().saturating_mul(values.len()) > MOST_VALUES {
                    let text = format!("PIVOT ON {column}: more than {MOST_VALUES} columns");
                    return Err(Error::Limit(text));
                }
                let each = |before: &Vec<Expr>| -> Vec<Vec<Expr>> {
                    values.iter().map(|value| [before.clone(), vec![value.clone()]].concat()).collect()
                };
                all = all.iter().flat_map(each).collect();
            }
            let values = all.into_iter().map(|mut parts| {
                let expr = if parts.len() == 1 { parts.swap_remove(0) } else { Expr::Tuple(parts) };
                ExprWithAlias { expr, alias: None }
            });
            Filling { columns, values: Some(values.collect()) }.fill(&mut statement);
        }
        Ok(found.then(|| statement.to_string()))
    }

    /// The values of a one-column query, as text constants.
    async fn texts_of(&self, sql: &str, params: &[ScalarValue], query: &Query) -> Result<Vec<Expr>> {
        let rows = Box::pin(self.run_statement(sql, params, query)).await?;
        let mut values = vec![];
        for batch in &rows.batches {
            let column = cast(batch.column(0), &DataType::Utf8)?;
            let texts = column.as_string::<i32>().iter().flatten();
            values.extend(texts.map(|text| Expr::Value(Value::SingleQuotedString(text.to_string()).into())));
        }
        Ok(values)
    }
}

/// The first PIVOT without a list, innermost first.
struct Open {
    /// The CTEs of the statement.
    with: String,
    table: String,
    columns: Vec<Expr>,
}

impl Open {
    fn of(statement: &mut Statement) -> Option<Self> {
        let mut search = Search { with: None };
        let ControlFlow::Break((table, columns)) = visit_mut(statement, &mut search) else { return None };
        // Only CTEs before the PIVOT are visible to it; the first that contains a PIVOT without a list is the PIVOT's own.
        let with = search.with.flatten().map(|mut with| {
            let closed = |cte: &Cte| visit_mut(&mut cte.clone(), &mut Search { with: None }).is_continue();
            let before = with.cte_tables.iter().take_while(|cte| closed(cte)).count();
            with.cte_tables.truncate(before);
            if before == 0 { String::new() } else { format!("{with} ") }
        });
        Some(Self { with: with.unwrap_or_default(), table, columns })
    }
}

struct Search {
    /// The CTEs of the outermost query.
    with: Option<Option<With>>,
}

impl VisitorMut for Search {
    type Break = (String, Vec<Expr>);

    fn pre_visit_query(&mut self, query: &mut SqlQuery) -> ControlFlow<Self::Break> {
        if self.with.is_none() {
            self.with = Some(query.with.clone());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        match factor {
            TableFactor::Pivot { table, value_column, value_source: PivotValueSource::Any(_), .. } => {
                ControlFlow::Break((table.to_string(), value_column.clone()))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Sets the values of the PIVOT that [`Search`] finds.
struct Filling {
    columns: Vec<Expr>,
    values: Option<Vec<ExprWithAlias>>,
}

impl Filling {
    fn fill(mut self, statement: &mut Statement) {
        let _: ControlFlow<()> = visit_mut(statement, &mut self);
    }
}

impl VisitorMut for Filling {
    type Break = ();

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Pivot { value_column, value_source: source @ PivotValueSource::Any(_), .. } = factor
            && let Some(values) = self.values.take()
        {
            *source = PivotValueSource::List(values);
            *value_column = std::mem::take(&mut self.columns);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}
