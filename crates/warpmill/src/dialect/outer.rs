//! The types of outer columns in subqueries: DataFusion plans a subquery with the types that the outer columns had before they were bound.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ExprSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Values};

use super::{bind, sets, subqueries};
use crate::recursion::Recursion;

/// Whether a plan has subqueries that name outer columns.
pub(super) fn is_named(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|e| {
            found |= e.contains_outer();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// A plan with DuckDB's types: binds the inputs of a node first, then its subqueries, then the node.
pub(super) fn bound(plan: LogicalPlan) -> Result<LogicalPlan> {
    if let Some(recursion) = Recursion::of(&plan) {
        return sets::recursion(recursion);
    }
    let plan = match plan {
        LogicalPlan::RecursiveQuery(query) => return sets::recursive(query),
        LogicalPlan::Dml(dml) => bind::with_texts_read(dml)?,
        LogicalPlan::Values(list) if list.values.iter().flatten().any(Expr::contains_outer) => rows(list)?,
        plan => plan,
    };
    let plan = match plan {
        LogicalPlan::Join(mut join) if subqueries::is_lateral(&join.right) => {
            join.left = Arc::new(bound(Arc::unwrap_or_clone(join.left))?);
            let right = retyped(Arc::unwrap_or_clone(join.right), join.left.schema())?;
            join.right = Arc::new(bound(right)?);
            LogicalPlan::Join(join)
        }
        plan => plan.map_children(|child| bound(child).map(Transformed::yes))?.data,
    };
    let around = merge_schema(&plan.inputs());
    let plan = plan.map_subqueries(|query| bound(retyped(query, &around)?).map(Transformed::yes))?;
    bind::node(plan.data)
}

/// A list of rows of outer columns as the queries of each.
fn rows(list: Values) -> Result<LogicalPlan> {
    let row = |values: Vec<Expr>| {
        let named = values.into_iter().zip(list.schema.fields()).map(|(value, field)| value.alias(field.name()));
        LogicalPlanBuilder::empty(true).project(named)?.build()
    };
    let mut rows = list.values.into_iter().map(row);
    let first = LogicalPlanBuilder::from(rows.next().unwrap_or_else(|| LogicalPlanBuilder::empty(false).build())?);
    rows.try_fold(first, |above, row| above.union(row?))?.build()
}

/// A subquery whose outer columns have their types in `around`, where that has them.
fn retyped(plan: LogicalPlan, around: &DFSchema) -> Result<LogicalPlan> {
    let typed = |e: Expr| {
        Ok(match e {
            Expr::OuterReferenceColumn(field, column) => match around.field_from_column(&column) {
                Ok(known) if known.data_type() != field.data_type() => {
                    Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(known), column))
                }
                _ => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            },
            e => Transformed::no(e),
        })
    };
    Ok(plan.transform_up_with_subqueries(|node| node.map_expressions(|e| e.transform(typed)))?.data)
}
