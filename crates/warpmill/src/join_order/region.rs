//! Regions of inner joins: the part of a plan whose joins may be reordered freely.

use std::collections::HashMap;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Join, LogicalPlan};

use super::tree::JoinTree;

/// Leaves are numbered in bit sets of this many bits.
pub(super) const MAX_LEAVES: usize = 64;

/// A predicate of a region.
#[derive(Debug, Clone)]
pub(super) enum Predicate {
    /// Equality of two expressions that a hash join could use as a key pair.
    Equality(Expr, Expr),
    /// Anything else.
    Other(Expr),
}

/// A maximal tree of inner joins, with the filters and column lists between them dissolved.
#[derive(Debug)]
pub(super) struct Region<'a> {
    pub leaves: Vec<&'a LogicalPlan>,
    pub predicates: Vec<Predicate>,
    /// The joins in their original order.
    pub tree: JoinTree,
    /// Whether a filter was above a join: it then belongs into the joins, whatever their order.
    pub filter_above_join: bool,
}

impl<'a> Region<'a> {
    /// The region whose root is `plan`, if `plan` is a region's root.
    pub fn extract(plan: &'a LogicalPlan) -> Option<Self> {
        if !is_inside(plan) {
            return None;
        }
        let mut region =
            Region { leaves: vec![], predicates: vec![], tree: JoinTree::Leaf(0), filter_above_join: false };
        region.tree = region.collect(plan);
        (region.leaves.len() <= MAX_LEAVES).then_some(region)
    }

    fn collect(&mut self, plan: &'a LogicalPlan) -> JoinTree {
        match plan {
            LogicalPlan::Join(join) if is_inside(plan) => {
                let left = self.collect(&join.left);
                let right = self.collect(&join.right);
                for (l, r) in &join.on {
                    self.predicates.push(Predicate::Equality(l.clone(), r.clone()));
                }
                self.predicates.extend(join.filter.iter().flat_map(split_conjunction).cloned().map(Predicate::Other));
                JoinTree::join(left, right)
            }
            LogicalPlan::Projection(projection) if is_inside(plan) => self.collect(&projection.input),
            LogicalPlan::Filter(filter) if is_inside(plan) => {
                self.filter_above_join = true;
                let conjuncts = split_conjunction(&filter.predicate).into_iter().cloned();
                self.predicates.extend(conjuncts.map(Predicate::Other));
                self.collect(&filter.input)
            }
            leaf => {
                self.leaves.push(leaf);
                JoinTree::Leaf(self.leaves.len() - 1)
            }
        }
    }

    /// The leaf of every column; `None` when two leaves' columns cannot stand in one schema, which is possible
    /// where a dissolved column list hid one of them.
    pub fn columns(&self) -> Option<HashMap<Column, usize>> {
        let mut owners = HashMap::new();
        let mut bare: HashMap<&str, bool> = HashMap::new();
        for (leaf, plan) in self.leaves.iter().enumerate() {
            for (qualifier, field) in plan.schema().iter() {
                let clash = bare.insert(field.name(), qualifier.is_some());
                if clash.is_some_and(|qualified| !qualified || qualifier.is_none()) {
                    return None;
                }
                if owners.insert(Column::new(qualifier.cloned(), field.name()), leaf).is_some() {
                    return None;
                }
            }
        }
        Some(owners)
    }
}

/// Rebuilds the region below `plan` with `change` applied to its leaves only.
pub(super) fn map_leaves(
    plan: LogicalPlan,
    change: &mut dyn FnMut(LogicalPlan) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    use datafusion::common::tree_node::Transformed;
    if !is_inside(&plan) {
        return change(plan);
    }
    Ok(plan.map_children(|child| Ok(Transformed::yes(map_leaves(child, change)?)))?.data)
}

/// Whether `plan` is dissolved into a region: an inner join, or a column list or filter above one.
fn is_inside(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) => is_reorderable(join),
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(|e| matches!(e, Expr::Column(_))) && is_inside(&projection.input)
        }
        LogicalPlan::Filter(filter) => {
            let movable = |e: &&Expr| is_movable(e) && !e.column_refs().is_empty();
            split_conjunction(&filter.predicate).iter().all(movable) && is_inside(&filter.input)
        }
        _ => false,
    }
}

fn is_reorderable(join: &Join) -> bool {
    join.join_type == JoinType::Inner
        && join.null_equality == NullEquality::NullEqualsNothing
        && join.on.iter().all(|(l, r)| is_movable(l) && is_movable(r))
        && join.filter.as_ref().is_none_or(is_movable)
}

/// Whether an expression means the same wherever it is evaluated.
fn is_movable(expr: &Expr) -> bool {
    let mut pinned = expr.is_volatile();
    // The closure never fails, so neither does the walk.
    let _ = expr.apply(|node| {
        pinned |= matches!(
            node,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        );
        Ok(if pinned { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    !pinned
}
