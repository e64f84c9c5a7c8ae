//! Estimated rows for EXPLAIN VERBOSE.

use std::fmt::Write;

use datafusion::logical_expr::LogicalPlan;

use super::estimate::estimate;
use super::statistics::TableStatistics;

/// `plan` as an indented tree, with the rows that the join order rule expects of every node.
pub fn with_estimates(plan: &LogicalPlan, statistics: &dyn TableStatistics) -> String {
    let mut text = String::new();
    write_node(plan, statistics, 0, &mut text);
    text
}

fn write_node(plan: &LogicalPlan, statistics: &dyn TableStatistics, depth: usize, text: &mut String) {
    let rows = estimate(plan, statistics).rows.round();
    // Writing to a string does not fail.
    let _ = writeln!(text, "{:indent$}{}  [about {rows} rows]", "", plan.display(), indent = 2 * depth);
    plan.inputs().into_iter().for_each(|input| write_node(input, statistics, depth + 1, text));
}
