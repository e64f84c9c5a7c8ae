//! Pushdown of filters through ASOF joins.
//!
//! Dropping a row of the left side before or after the join does not affect other rows. Dropping a row of the right side before the join would let
//! the next nearest row take its place: filters on the right side stay above.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, ExprSchema, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::AsofJoin;

/// Whether a plan consists of filters over an ASOF join: DataFusion's rule would push conditions without columns to both of its sides.
pub(crate) fn is_above_asof(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = plan else { return false };
    AsofJoin::of(&filter.input).is_some() || is_above_asof(&filter.input)
}

/// Pushes conditions on the left side below ASOF joins; those on equality keys to both sides.
#[derive(Debug, Default)]
pub(crate) struct PushDownLeftFilters;

impl OptimizerRule for PushDownLeftFilters {
    fn name(&self) -> &str {
        "push_down_asof_filter"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
        let Some(join) = AsofJoin::of(&filter.input) else { return Ok(Transformed::no(plan)) };
        let (below, above): (Vec<&Expr>, Vec<&Expr>) =
            split_conjunction(&filter.predicate).into_iter().partition(|condition| goes_left(condition, join));
        if below.is_empty() {
            return Ok(Transformed::no(plan));
        }
        let equal = equal_columns(join);
        let of_right = below.iter().filter_map(|condition| on_right(condition, &equal));
        let right = filtered(&join.right, conjunction(of_right.collect::<Vec<_>>()))?;
        let left = filtered(&join.left, conjunction(below.into_iter().cloned().collect::<Vec<_>>()))?;
        let node = AsofJoin::try_new(left, right, join.keys.clone(), join.nearest, join.join_type)?;
        let joined = Arc::new(LogicalPlan::Extension(Extension { node: Arc::new(node) }));
        let plan = filtered(&joined, conjunction(above.into_iter().cloned().collect::<Vec<_>>()))?;
        Ok(Transformed::yes(Arc::unwrap_or_clone(plan)))
    }
}

fn filtered(plan: &Arc<LogicalPlan>, condition: Option<Expr>) -> Result<Arc<LogicalPlan>> {
    match condition {
        Some(condition) => Ok(Arc::new(LogicalPlan::Filter(Filter::try_new(condition, Arc::clone(plan))?))),
        None => Ok(Arc::clone(plan)),
    }
}

/// Whether a condition reads at least one column of the left side, and nothing else that could differ between rows.
fn goes_left(condition: &Expr, join: &AsofJoin) -> bool {
    let columns = condition.column_refs();
    let has_subquery =
        condition.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_))));
    !columns.is_empty()
        && columns.into_iter().all(|column| join.left.schema().has_column(column))
        && !condition.is_volatile()
        && !condition.contains_outer()
        && !has_subquery.unwrap_or(true)
}

/// The columns of the right side that equal columns of the left side in every pair, and have the same type.
fn equal_columns(join: &AsofJoin) -> HashMap<&Column, &Column> {
    let (equalities, _) = join.keys.split_at(join.keys.len() - 1);
    let columns = equalities.iter().filter_map(|(left, right)| match (left, right) {
        (Expr::Column(left), Expr::Column(right)) => {
            let of_left = join.left.schema().field_from_column(left).ok()?;
            let of_right = join.right.schema().field_from_column(right).ok()?;
            (of_left.data_type() == of_right.data_type() && !of_left.data_type().is_floating()).then_some((left, right))
        }
        _ => None,
    });
    columns.collect()
}

/// Rewrites a condition on the left side's keys to the right side's.
fn on_right(condition: &Expr, equal: &HashMap<&Column, &Column>) -> Option<Expr> {
    if !condition.column_refs().into_iter().all(|column| equal.contains_key(column)) {
        return None;
    }
    let replaced = condition.clone().transform(|expr| match &expr {
        Expr::Column(column) => match equal.get(column) {
            Some(&other) => Ok(Transformed::yes(Expr::Column(other.clone()))),
            None => Ok(Transformed::no(expr)),
        },
        _ => Ok(Transformed::no(expr)),
    });
    replaced.ok().map(|replaced| replaced.data)
}
