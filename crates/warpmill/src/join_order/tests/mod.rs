//! Orders are checked as text, and random regions by running the plan before and after on the same rows.

mod equivalence;
mod shapes;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Optimizer;
use datafusion::prelude::SessionContext;

use super::{ColumnStats, NamedStatistics, TableStats, with_join_order};

/// A column's name and its number of distinct values.
type Columns<'a> = &'a [(&'a str, usize)];

/// Tables of integer columns, and the statistics that the rule is told.
#[derive(Default)]
struct Database {
    tables: Vec<(String, RecordBatch)>,
    statistics: NamedStatistics,
}

impl Database {
    /// A table whose statistics say `rows`, holding none.
    fn table(&mut self, name: &str, rows: usize, columns: Columns) {
        let data = columns.iter().map(|(c, _)| (*c, vec![])).collect();
        self.rows(name, data);
        let column = |(_, distinct): &(&str, usize)| ColumnStats {
            distinct: Some(*distinct as f64),
            min: Some(ScalarValue::Int64(Some(0))),
            max: Some(ScalarValue::Int64(Some(*distinct as i64))),
            nulls: Some(0.0),
            texts: None,
        };
        let stats = TableStats { rows: rows as f64, columns: columns.iter().map(column).collect() };
        self.statistics.0.insert(name.into(), stats);
    }

    /// A table of rows that the rule knows nothing about.
    fn rows(&mut self, name: &str, columns: Vec<(&str, Vec<Option<i64>>)>) {
        let fields: Vec<Field> = columns.iter().map(|(c, _)| Field::new(*c, DataType::Int64, true)).collect();
        let arrays = columns.into_iter().map(|(_, v)| Arc::new(Int64Array::from(v)) as ArrayRef).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("columns of one length");
        self.tables.push((name.into(), batch));
    }

    /// A session over the tables, with the rule or without.
    fn session(&self, ordered: bool) -> SessionContext {
        let mut rules = Optimizer::new().rules;
        if ordered {
            rules = with_join_order(rules, Arc::new(self.statistics.clone()));
        }
        let state = SessionStateBuilder::new().with_default_features().with_optimizer_rules(rules).build();
        let context = SessionContext::new_with_state(state);
        for (name, batch) in &self.tables {
            let table = MemTable::try_new(batch.schema(), vec![vec![batch.clone()]]).expect("one schema");
            context.register_table(name.as_str(), Arc::new(table)).expect("a new name");
        }
        context
    }

    async fn optimized(&self, sql: &str, ordered: bool) -> LogicalPlan {
        let context = self.session(ordered);
        let frame = context.sql(sql).await.expect("valid SQL");
        frame.into_optimized_plan().expect("a plan")
    }

    /// The join order of a query, such as `((a b) c)`.
    async fn order(&self, sql: &str) -> String {
        order(&self.optimized(sql, true).await)
    }
}

fn order(plan: &LogicalPlan) -> String {
    match plan {
        LogicalPlan::TableScan(scan) => scan.table_name.table().to_string(),
        LogicalPlan::Join(join) => {
            let sign = match join.join_type.to_string().as_str() {
                "Inner" => " ".to_string(),
                other => format!(" {other} "),
            };
            format!("({}{sign}{})", order(&join.left), order(&join.right))
        }
        other => other.inputs().into_iter().map(order).collect::<Vec<_>>().join(", "),
    }
}

/// The number of times that each expression of a join condition or filter occurs in the plan.
fn predicates(plan: &LogicalPlan) -> HashMap<String, usize> {
    let mut found = HashMap::new();
    let mut pending = vec![plan];
    while let Some(node) = pending.pop() {
        let mut add = |text: String| *found.entry(text).or_insert(0) += 1;
        match node {
            LogicalPlan::Join(join) => {
                for (l, r) in &join.on {
                    let mut sides = [l.to_string(), r.to_string()];
                    sides.sort();
                    add(sides.join(" = "));
                }
                join.filter.iter().for_each(|f| add(f.to_string()));
            }
            LogicalPlan::Filter(filter) => add(filter.predicate.to_string()),
            _ => {}
        }
        pending.extend(node.inputs());
    }
    found
}
