//! The nesting depth of statements in DataFusion, which nests once for each AND, OR and UNION that DuckDB has in one list.

use std::collections::HashMap;

use crate::Refused;
use crate::encoding::{Expr, Node, Statement};

/// Largest number of levels that the stacks of planning have room for; Warpmill's own SQL has the same limit.
const MOST: usize = 2500;

/// Refuses a statement that is too deep. Takes time proportional to its text; recurses as deep as its JSON, which the reader bounds.
pub fn check(statement: &Statement) -> Result<(), Refused> {
    match Depths::default().node(&statement.root) > MOST {
        true => Err(Refused::new(format!("more than {MOST} conditions and operators above each other"))),
        false => Ok(()),
    }
}

/// The depths of common table expressions, by index: each reference to one counts as its copy.
#[derive(Default)]
struct Depths(HashMap<u64, usize>);

impl Depths {
    /// The number of levels of a node: those of its expressions plus those of its deepest input, since filters move into each other.
    fn node(&mut self, node: &Node) -> usize {
        if let Node::Cte { index, body, child } = node {
            let depth = self.node(body);
            self.0.insert(*index, depth);
            return self.node(child);
        }
        let own = match node {
            Node::Get { .. } | Node::Dummy => 1,
            Node::CteRef { cte, .. } => 1 + self.0.get(cte).copied().unwrap_or(0),
            Node::Project { exprs, .. } => self.most(exprs),
            Node::Filter { exprs, .. } => exprs.len() + self.most(exprs),
            Node::Join { conds, .. } => conds.len() + self.most(conds),
            Node::AnyJoin { cond, .. } => self.expr(cond),
            Node::Dependent { cond, .. } => self.most(cond),
            Node::Aggregate { groups, aggs, sets, .. } => sets.len() + self.most(groups).max(self.most(aggs)),
            Node::Window { calls, .. } => {
                let lists = calls.iter().flat_map(|call| [&call.a, &call.partition]);
                let keys = calls.iter().flat_map(|call| &call.by).map(|key| &key.e);
                self.most(lists.flatten().chain(keys))
            }
            Node::Order { by, .. } => self.most(by.iter().map(|key| &key.e)),
            Node::Limit { .. } | Node::Distinct { .. } | Node::Cross { .. } | Node::Cte { .. } => 1,
            Node::Setop { children, .. } => children.len(),
        };
        let below = node.children().into_iter().map(|child| self.node(child)).max();
        own.saturating_add(1).saturating_add(below.unwrap_or(0))
    }

    fn most<'a>(&mut self, list: impl IntoIterator<Item = &'a Expr>) -> usize {
        list.into_iter().map(|e| self.expr(e)).max().unwrap_or(0)
    }

    fn expr(&mut self, expr: &Expr) -> usize {
        match expr {
            Expr::Col { .. } | Expr::Const { .. } => 1,
            Expr::Cmp { a, .. } => 1 + self.expr(&a.0).max(self.expr(&a.1)),
            Expr::And { a } | Expr::Or { a } => a.len() + self.most(a),
            Expr::Not { a }
            | Expr::IsNull { a }
            | Expr::IsNotNull { a }
            | Expr::In { a }
            | Expr::NotIn { a }
            | Expr::Coalesce { a, .. }
            | Expr::Case { a, .. }
            | Expr::Cast { a, .. }
            | Expr::Fn { a, .. } => 1 + self.most(a),
            Expr::Agg { a, filter, .. } => 1 + self.most(a.iter().chain(filter.as_deref())),
            Expr::Subquery { a, child, .. } => 1 + self.most(a).max(self.node(child)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::Plan;

    /// The plan of `SELECT count(*) FROM t WHERE conditions`, over one BIGINT column.
    fn count_where(conditions: &str) -> String {
        let get = r#"{"op": "get", "table": 0, "input": 0, "columns": [0]}"#;
        let filter = format!(r#"{{"op": "filter", "exprs": [{conditions}], "child": {get}}}"#);
        let count = r#"{"k": "agg", "f": "count_star", "t": "BIGINT", "distinct": false, "at": [], "a": []}"#;
        let aggregate = format!(
            r#"{{"op": "aggregate", "group": 1, "agg": 2, "groups": [], "sets": [], "grouping_functions": [], "aggs": [{count}],
            "child": {filter}}}"#
        );
        let column = r#"{"k": "col", "b": [2, 0], "t": "BIGINT"}"#;
        let root = format!(r#"{{"op": "project", "table": 3, "exprs": [{column}], "child": {aggregate}}}"#);
        let inputs = r#"[{"name": "t", "columns": [[0, "i", "BIGINT"]]}]"#;
        format!(r#"{{"version": 1, "duckdb": 20000, "types": ["BIGINT"], "inputs": {inputs}, "root": {root}}}"#)
    }

    fn terms(n: usize, comparison: &str) -> String {
        let column = r#"{"k": "col", "b": [0, 0], "t": "BIGINT"}"#;
        let constant = |i| format!(r#"{{"k": "const", "t": "BIGINT", "v": "{i}"}}"#);
        let term = |i| format!(r#"{{"k": "cmp", "f": "{comparison}", "a": [{column}, {}]}}"#, constant(i));
        (0..n).map(term).collect::<Vec<_>>().join(", ")
    }

    /// The refusal of a plan that is made on a thread with a stack as small as DuckDB's.
    fn refusal(json: String) -> Option<String> {
        let host = std::thread::Builder::new().stack_size(1 << 20);
        let verdict = host.spawn(move || Plan::of(&json, || false).map(drop)).unwrap().join().unwrap();
        verdict.err().map(|refused| refused.reason)
    }

    #[test]
    fn conditions_in_a_row_are_planned_or_refused_on_small_stacks() {
        let or = |n| count_where(&format!(r#"{{"k": "or", "a": [{}]}}"#, terms(n, "=")));
        for plan in [count_where(&terms(1000, "<>")), or(1000)] {
            assert_eq!(refusal(plan), None);
        }
        for plan in [count_where(&terms(20_000, "<>")), or(20_000)] {
            assert!(refusal(plan).unwrap().starts_with("more than 2500 conditions"));
        }
    }

    #[test]
    fn lists_in_lists_are_counted_together() {
        let (mut condition, before) = (terms(1, "="), format!("{}, ", terms(900, "=")));
        for connective in ["and", "or", "and"] {
            condition = format!(r#"{{"k": "{connective}", "a": [{before}{condition}]}}"#);
        }
        assert!(refusal(count_where(&condition)).unwrap().starts_with("more than 2500 conditions"));
    }

    #[test]
    fn common_table_expressions_count_where_they_are_read() {
        let cte = |index: u64, rest: &str| {
            let table = 100 + index;
            let body = match index {
                0 => r#"{"op": "get", "table": 0, "input": 0, "columns": [0]}"#.to_string(),
                _ => {
                    let read = format!(r#"{{"op": "cte_ref", "table": 0, "cte": {}}}"#, index - 1);
                    format!(r#"{{"op": "filter", "exprs": [{}], "child": {read}}}"#, terms(900, "<>"))
                }
            };
            let column = r#"{"k": "col", "b": [0, 0], "t": "BIGINT"}"#;
            let body = format!(r#"{{"op": "project", "table": {table}, "exprs": [{column}], "child": {body}}}"#);
            format!(r#"{{"op": "cte", "index": {index}, "body": {body}, "child": {rest}}}"#)
        };
        let last = r#"{"op": "distinct", "child": {"op": "cte_ref", "table": 0, "cte": 3}}"#.to_string();
        let root = (0..4).rev().fold(last, |rest, index| cte(index, &rest));
        let inputs = r#"[{"name": "t", "columns": [[0, "i", "BIGINT"]]}]"#;
        let json =
            format!(r#"{{"version": 1, "duckdb": 20000, "types": ["BIGINT"], "inputs": {inputs}, "root": {root}}}"#);
        assert!(refusal(json).unwrap().starts_with("more than 2500 conditions"));
    }
}
