//! The subqueries that DataFusion plans rightly.

use std::collections::HashSet;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Cast, Distinct, Expr, JoinType, LogicalPlan, Operator};

use super::subquery_of;

/// The place of a subquery in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A condition of WHERE or HAVING that is EXISTS, its negation, or IN.
    Condition,
    /// A condition that is NOT IN. DataFusion's join for it knows no further conditions.
    NotIn,
    /// A condition with subqueries only as operands of AND and OR, where NULL counts as FALSE.
    AndOr,
    /// Another condition.
    Filter,
    Projection,
    Elsewhere,
}

impl Place {
    pub(super) fn condition(expr: &Expr) -> Self {
        fn and_or(expr: &Expr) -> bool {
            match expr {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
                    and_or(left) && and_or(right)
                }
                Expr::Exists(_) => true,
                Expr::InSubquery(InSubquery { expr, negated: false, .. }) => {
                    !super::contains_subquery(expr).unwrap_or(true)
                }
                expr => !super::contains_subquery(expr).unwrap_or(true),
            }
        }
        let (inner, negated) = match expr {
            Expr::Not(inner) => (&**inner, true),
            expr => (expr, false),
        };
        match inner {
            Expr::Exists(_) => Place::Condition,
            Expr::InSubquery(list) if !super::contains_subquery(&list.expr).unwrap_or(true) => {
                if list.negated != negated { Place::NotIn } else { Place::Condition }
            }
            _ if and_or(expr) => Place::AndOr,
            _ => Place::Filter,
        }
    }
}

/// Whether DataFusion plans `expr`, a subquery over the rows of `input`, correctly.
pub(super) fn is_datafusions(expr: &Expr, input: &LogicalPlan, place: Place) -> Result<bool> {
    let Some(subquery) = subquery_of(expr) else { return Ok(true) };
    let plan = &*subquery.subquery;
    let outer = outer_columns(plan)?;
    if !outer.iter().all(|column| input.schema().has_column(column)) {
        // It names columns of a query further out.
        return Ok(false);
    }
    Ok(match (expr, place) {
        (Expr::ScalarSubquery(_), _) if outer.is_empty() => plan.schema().field(0).is_nullable() || has_a_row(plan),
        (Expr::ScalarSubquery(_), Place::Projection | Place::Filter) => is_simple_aggregate(plan)? && has_names(plan)?,
        (Expr::Exists(_), Place::Condition | Place::AndOr | Place::Filter)
        | (Expr::InSubquery(_), Place::Condition | Place::AndOr) => {
            outer.is_empty() || is_simple(plan)? && has_names(plan)?
        }
        // With a constant, DataFusion's join has no columns to compare.
        (Expr::InSubquery(list), Place::NotIn) => outer.is_empty() && list.expr.any_column_refs(),
        _ => false,
    })
}

/// The outer columns that a plan names, including those in nested subqueries.
pub(super) fn outer_columns(plan: &LogicalPlan) -> Result<Vec<Column>> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::OuterReferenceColumn(_, column) = expr
                    && !found.contains(column)
                {
                    found.push(column.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Whether a subquery without outer columns always has a row: otherwise its value may be NULL even if its column is not nullable.
pub(super) fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_a_row(&alias.input),
        LogicalPlan::Sort(sort) => has_a_row(&sort.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Values(values) => !values.values.is_empty(),
        _ => false,
    }
}

/// Whether a plan names outer columns only within subqueries that DataFusion plans.
pub(super) fn is_bound(plan: &LogicalPlan) -> Result<bool> {
    Ok(!plan.exists(|node| Ok(node.contains_outer_reference()))?)
}

/// Whether `expr`, its subqueries included, names only columns of `plan`.
pub(super) fn is_about(expr: &Expr, plan: &LogicalPlan) -> Result<bool> {
    let mut columns: Vec<_> = expr.column_refs().into_iter().cloned().collect();
    expr.apply(|expr| {
        if let Some(subquery) = subquery_of(expr) {
            columns.extend(outer_columns(&subquery.subquery)?);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns.iter().all(|column| plan.schema().has_column(column)))
}

/// Whether a plan has rows that do not depend on outer columns, filtered by conditions that may: such a plan is joined as it is.
fn is_simple(plan: &LogicalPlan) -> Result<bool> {
    Ok(match plan {
        plan if outer_columns(plan)?.is_empty() => true,
        LogicalPlan::Filter(filter) => !super::contains_subquery(&filter.predicate)? && is_simple(&filter.input)?,
        LogicalPlan::Projection(projection) => {
            let plain = |expr: &Expr| !expr.contains_outer() && !super::contains_subquery(expr).unwrap_or(true);
            projection.expr.iter().all(plain) && is_simple(&projection.input)?
        }
        LogicalPlan::SubqueryAlias(alias) => is_simple(&alias.input)?,
        LogicalPlan::Distinct(Distinct::All(input)) => is_simple(input)?,
        LogicalPlan::Join(join) => {
            join.join_type == JoinType::Inner
                && !plan.contains_outer_reference()
                && is_simple(&join.left)?
                && is_simple(&join.right)?
        }
        _ => false,
    })
}

/// Whether the result columns and those compared with outer ones have distinct names: DataFusion drops their qualifiers.
fn has_names(plan: &LogicalPlan) -> Result<bool> {
    let mut columns: HashSet<Column> = plan.schema().columns().into_iter().collect();
    plan.apply(|node| {
        if let LogicalPlan::Filter(filter) = node {
            let compared = split_conjunction(&filter.predicate).into_iter().filter(|expr| expr.contains_outer());
            columns.extend(compared.flat_map(Expr::column_refs).cloned());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let names: HashSet<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    Ok(names.len() == columns.len())
}

/// Whether a plan is one aggregation of rows selected by equalities with outer columns.
fn is_simple_aggregate(plan: &LogicalPlan) -> Result<bool> {
    match plan {
        LogicalPlan::Projection(projection) if !plan.contains_outer_reference() => {
            is_simple_aggregate(&projection.input)
        }
        LogicalPlan::SubqueryAlias(alias) => is_simple_aggregate(&alias.input),
        LogicalPlan::Aggregate(aggregate) => {
            let whole = aggregate.group_expr.is_empty() && !plan.contains_outer_reference();
            Ok(whole && is_simple(&aggregate.input)? && compares_equal_columns(&aggregate.input)?)
        }
        _ => Ok(false),
    }
}

/// Whether outer columns are named in `column = value` only.
fn compares_equal_columns(plan: &LogicalPlan) -> Result<bool> {
    let is_column = |expr: &Expr| match expr {
        Expr::Column(_) => true,
        Expr::Cast(Cast { expr, .. }) => matches!(**expr, Expr::Column(_)),
        _ => false,
    };
    let mut equal = true;
    plan.apply(|node| {
        if let LogicalPlan::Filter(filter) = node {
            for condition in split_conjunction(&filter.predicate).into_iter().filter(|expr| expr.contains_outer()) {
                equal &= match condition {
                    Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                        is_column(left) && !right.any_column_refs() || is_column(right) && !left.any_column_refs()
                    }
                    _ => false,
                };
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(equal)
}
