//! From a join tree back to a logical plan.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result};
use datafusion::logical_expr::{Expr, Join, JoinConstraint, LogicalPlan, Projection};

use super::graph::{Class, JoinGraph};
use super::tree::JoinTree;

/// The joins of `tree` over `leaves`, every predicate at the lowest join that has all of its columns.
pub(super) fn build(tree: &JoinTree, graph: &JoinGraph, leaves: &[LogicalPlan]) -> Result<LogicalPlan> {
    let (left, right) = match tree {
        JoinTree::Leaf(leaf) => return graph.filtered_leaf(*leaf, leaves[*leaf].clone()),
        JoinTree::Join(left, right) => (left, right),
    };
    let (on, filter) = conditions(graph, left.leaves(), right.leaves());
    Ok(LogicalPlan::Join(Join::try_new(
        Arc::new(build(left, graph, leaves)?),
        Arc::new(build(right, graph, leaves)?),
        on,
        filter,
        JoinType::Inner,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    )?))
}

/// Keys and filter of the join of two sets of leaves: the predicates that neither side could apply.
fn conditions(graph: &JoinGraph, left: u64, right: u64) -> (Vec<(Expr, Expr)>, Option<Expr>) {
    let mut on: Vec<(Expr, Expr)> = graph.classes.iter().filter_map(|class| class_key(class, left, right)).collect();
    let mut filters: Vec<Expr> = vec![];
    let inside = |leaves: u64, set: u64| leaves & !set == 0;
    let is_new = |leaves: u64| inside(leaves, left | right) && !inside(leaves, left) && !inside(leaves, right);
    for e in graph.equalities.iter().filter(|e| is_new(e.left_leaves | e.right_leaves)) {
        let (l, r) = (e.left.clone(), e.right.clone());
        if inside(e.left_leaves, left) && inside(e.right_leaves, right) {
            on.push((l, r));
        } else if inside(e.left_leaves, right) && inside(e.right_leaves, left) {
            on.push((r, l));
        } else {
            filters.push(l.eq(r));
        }
    }
    filters.extend(graph.residuals.iter().filter(|r| is_new(r.leaves)).map(|r| r.expr.clone()));
    (on, filters.into_iter().reduce(Expr::and))
}

/// One equality of the class between the two sides, if it has columns on both; each side equates its own already.
fn class_key(class: &Class, left: u64, right: u64) -> Option<(Expr, Expr)> {
    let is_in = |member: &usize, set: u64| set >> class.members[*member].0 & 1 == 1;
    let first = |set: u64| (0..class.members.len()).find(|m| is_in(m, set));
    let written = class.written.iter().find_map(|(a, b)| {
        if is_in(a, left) && is_in(b, right) {
            Some((*a, *b))
        } else if is_in(b, left) && is_in(a, right) {
            Some((*b, *a))
        } else {
            None
        }
    });
    let (l, r) = match written {
        Some(pair) => pair,
        None => (first(left)?, first(right)?),
    };
    let column = |member: usize| Expr::Column(class.members[member].1.clone());
    Some((column(l), column(r)))
}

/// `plan` with exactly the columns of `schema`, in its order.
pub(super) fn with_schema(plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    if plan.schema().iter().eq(schema.iter()) {
        return Ok(plan);
    }
    let columns = schema.iter().map(|(qualifier, field)| Expr::Column(Column::new(qualifier.cloned(), field.name())));
    Ok(LogicalPlan::Projection(Projection::try_new(columns.collect(), Arc::new(plan))?))
}
