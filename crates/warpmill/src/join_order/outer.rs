//! Outer joins below joins that keep only rows with a partner.
//!
//! `a LEFT JOIN b ON .. JOIN c ON b.x = c.x` returns no row whose `b.x` is NULL, and so none without a partner in `b`: the first join may be an inner
//! one, which can be reordered with the second. DataFusion does this for filters, but not for join keys.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::{Aggregate, Expr, Join, LogicalPlan, Projection, SubqueryAlias};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Turns outer joins into inner joins where joins above drop all rows without a partner.
#[derive(Debug)]
pub(super) struct OuterJoinRule;

impl OptimizerRule for OuterJoinRule {
    fn name(&self) -> &'static str {
        "outer_joins_below_joins"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // Most statements have none, and walking a plan by value copies it.
        if !plan.exists(|node| Ok(matches!(node, LogicalPlan::Join(join) if join.join_type.is_outer())))? {
            return Ok(Transformed::no(plan));
        }
        plan.transform_down(|node| match node {
            LogicalPlan::Join(join) => below(join),
            node => Ok(Transformed::no(node)),
        })
    }
}

/// A join whose inputs may leave out rows with NULL keys that find no partner.
fn below(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    use JoinType::{Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
    if join.null_equality == NullEquality::NullEqualsNull || join.null_aware {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let (of_left, of_right) = match join.join_type {
        Inner | LeftSemi | RightSemi => (true, true),
        Left | LeftAnti => (false, true),
        Right | RightAnti => (true, false),
        _ => (false, false),
    };
    let columns = |keys: &mut dyn Iterator<Item = &Expr>| -> Vec<Column> { keys.filter_map(column).collect() };
    let lefts = columns(&mut join.on.iter().map(|(left, _)| left).filter(|_| of_left));
    let rights = columns(&mut join.on.iter().map(|(_, right)| right).filter(|_| of_right));
    let mut changed = false;
    for (input, keys) in [(&mut join.left, lefts), (&mut join.right, rights)] {
        if let Some(reduced) = without_nulls(input, &keys) {
            (*input, changed) = (Arc::new(reduced), true);
        }
    }
    let join = LogicalPlan::Join(join);
    Ok(if changed { Transformed::yes(join) } else { Transformed::no(join) })
}

/// The column that an expression is NULL with.
fn column(expr: &Expr) -> Option<Column> {
    match expr {
        Expr::Column(column) => Some(column.clone()),
        Expr::Cast(cast) => column(&cast.expr),
        Expr::TryCast(cast) => column(&cast.expr),
        Expr::Alias(alias) => column(&alias.expr),
        _ => None,
    }
}

/// A plan that returns the rows of `plan` in which none of `keys` is NULL, and perhaps other rows; `None`: no better plan than `plan`.
fn without_nulls(plan: &LogicalPlan, keys: &[Column]) -> Option<LogicalPlan> {
    if keys.is_empty() {
        return None;
    }
    let over = |input: LogicalPlan| plan.with_new_exprs(plan.expressions(), vec![input]).ok();
    match plan {
        LogicalPlan::Join(join) => of_join(join, keys),
        LogicalPlan::Filter(filter) => {
            let mut filter = filter.clone();
            filter.input = Arc::new(without_nulls(&filter.input, keys)?);
            Some(LogicalPlan::Filter(filter))
        }
        LogicalPlan::Projection(projection) => {
            let keys: Vec<Column> = keys.iter().filter_map(|key| projected(projection, key)).collect();
            over(without_nulls(&projection.input, &keys)?)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let keys: Vec<Column> = keys.iter().filter_map(|key| named(alias, key)).collect();
            let mut alias = alias.clone();
            alias.input = Arc::new(without_nulls(&alias.input, &keys)?);
            Some(LogicalPlan::SubqueryAlias(alias))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let keys: Vec<Column> = keys.iter().filter_map(|key| grouped(aggregate, key)).collect();
            over(without_nulls(&aggregate.input, &keys)?)
        }
        _ => None,
    }
}

fn of_join(join: &Join, keys: &[Column]) -> Option<LogicalPlan> {
    use JoinType::{Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    // The columns of the left side come first, if any.
    let count = match join.join_type {
        RightSemi | RightAnti | RightMark => 0,
        _ => join.left.schema().fields().len(),
    };
    let positions = keys.iter().filter_map(|key| Some((join.schema.maybe_index_of_column(key)?, key.clone())));
    let (lefts, rights): (Vec<_>, Vec<_>) = positions.partition(|&(position, _)| position < count);
    let columns = |keys: Vec<(usize, Column)>| -> Vec<Column> { keys.into_iter().map(|(_, key)| key).collect() };
    let (mut lefts, mut rights) = (columns(lefts), columns(rights));
    // A row without a partner has NULLs in all columns of the other side.
    let join_type = match (join.join_type, !lefts.is_empty(), !rights.is_empty()) {
        (Left, _, true) | (Right, true, _) | (Full, true, true) => Inner,
        (Full, true, false) => Left,
        (Full, false, true) => Right,
        (other, ..) => other,
    };
    match join_type {
        Inner => {}
        Left | LeftSemi | LeftAnti | LeftMark => rights.clear(),
        Right | RightSemi | RightAnti | RightMark => lefts.clear(),
        Full => return None,
    }
    let (left, right) = (without_nulls(&join.left, &lefts), without_nulls(&join.right, &rights));
    if join_type == join.join_type && left.is_none() && right.is_none() {
        return None;
    }
    let left = left.map_or_else(|| Arc::clone(&join.left), Arc::new);
    let right = right.map_or_else(|| Arc::clone(&join.right), Arc::new);
    // The columns stay nullable in the schema that plans above see.
    Some(LogicalPlan::Join(Join { left, right, join_type, ..join.clone() }))
}

/// The column of a projection's input that its column `key` is.
fn projected(projection: &Projection, key: &Column) -> Option<Column> {
    column(projection.expr.get(projection.schema.maybe_index_of_column(key)?)?)
}

/// The column of an alias's input that its column `key` is.
fn named(alias: &SubqueryAlias, key: &Column) -> Option<Column> {
    let index = alias.schema.maybe_index_of_column(key)?;
    Some(Column::from(alias.input.schema().qualified_field(index)))
}

/// The column of an aggregation's input that its group key `key` is. A row takes part in one group only.
fn grouped(aggregate: &Aggregate, key: &Column) -> Option<Column> {
    if aggregate.group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
        return None;
    }
    column(aggregate.group_expr.get(aggregate.schema.maybe_index_of_column(key)?)?)
}
