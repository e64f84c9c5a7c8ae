//! Queries that DuckDB runs although Warpmill could.

use crate::Refused;
use crate::encoding::{Expr, Node, Statement};
use crate::types::Type;

/// Refuses queries that DuckDB runs better.
pub fn check(statement: &Statement) -> Result<(), Refused> {
    check_order(&statement.root)?;
    if statement.may_be_left { check_statistics(statement) } else { Ok(()) }
}

/// Refuses queries whose rows come in the order of a table. DuckDB keeps the order in which rows were inserted through scans, filters,
/// projections and UNION ALL, and people rely on it. Without other operators Warpmill gains nothing either.
fn check_order(root: &Node) -> Result<(), Refused> {
    if keeps_order(root) {
        return Err(Refused::new("rows as they come, in the order of the table"));
    }
    check_limits(root)
}

fn keeps_order(node: &Node) -> bool {
    match node {
        // The rows of windows have the order of their partitions.
        Node::Get { .. } | Node::CteRef { .. } | Node::Window { .. } => true,
        Node::Project { child, .. }
        | Node::Filter { child, .. }
        | Node::Limit { child, .. }
        | Node::Cte { child, .. } => keeps_order(child),
        Node::Dependent { left, .. } => keeps_order(left),
        Node::Join { mark: Some(_), left, .. } => keeps_order(left),
        Node::Setop { kind, all: true, children, .. } if kind == "union" => children.iter().all(keeps_order),
        _ => false,
    }
}

fn check_limits(node: &Node) -> Result<(), Refused> {
    match node {
        Node::Limit { child, .. } if keeps_order(child) => {
            Err(Refused::new("LIMIT without ORDER BY, which takes the first rows of a table"))
        }
        node => node.children().into_iter().try_for_each(check_limits),
    }
}

/// Refuses queries that DuckDB answers from statistics and metadata of files: minima and maxima of columns, and numbers of rows.
fn check_statistics(statement: &Statement) -> Result<(), Refused> {
    match is_known(&statement.root, statement) {
        true => Err(Refused::new("minima, maxima and numbers of rows that DuckDB's statistics give")),
        false => Ok(()),
    }
}

fn is_known(node: &Node, statement: &Statement) -> bool {
    match node {
        Node::Project { child, .. } | Node::Order { child, .. } | Node::Limit { child, .. } => {
            is_known(child, statement)
        }
        Node::Aggregate { groups, aggs, child, .. } if groups.is_empty() => {
            let Some(input) = scanned(child).filter(|&input| !statement.inputs[input].own) else { return false };
            aggs.iter().all(|call| is_statistic(call, statement.inputs[input].stored))
        }
        _ => false,
    }
}

/// The input whose rows a node returns without any change.
fn scanned(node: &Node) -> Option<usize> {
    match node {
        Node::Get { input, .. } => Some(*input),
        Node::Project { exprs, child, .. } if exprs.iter().all(|e| matches!(e, Expr::Col { .. })) => scanned(child),
        _ => None,
    }
}

/// Whether DuckDB's statistics have the value of an aggregate. Statistics of `stored` tables do not have complete texts.
fn is_statistic(call: &Expr, stored: bool) -> bool {
    let Expr::Agg { f, distinct: false, at, a, filter: None, .. } = call else { return false };
    let is_text = || at.iter().any(|ty| Type::parse(ty) == Ok(Type::Varchar));
    match f.as_str() {
        "count_star" => true,
        "min" | "max" => matches!(a[..], [Expr::Col { .. }]) && !(stored && is_text()),
        _ => false,
    }
}
