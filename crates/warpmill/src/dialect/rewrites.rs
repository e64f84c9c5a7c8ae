//! Operators and functions that DataFusion computes otherwise than DuckDB: [`intervals`], [`nested_order`], [`shifts`] and [`texts`].

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};

use super::{intervals, nested_order, shifts, texts};

/// Rewrites all expressions of `plan`, whose types are bound, that need it.
pub(super) fn replace(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(plan.transform_up_with_subqueries(node)?.data)
}

fn node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    intervals::check(&plan)?;
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    if let LogicalPlan::Sort(mut sort) = plan {
        let sorted = |key| nested_order::sorted(intervals::sorted(key, &schema)?, &schema);
        sort.expr = sort.expr.into_iter().map(sorted).collect::<Result<_>>()?;
        return expressions(LogicalPlan::Sort(sort), &schema);
    }
    expressions(plan, &schema)
}

fn expressions(plan: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|e| {
        if !e.exists(|e| Ok(is_concerned(e)))? {
            return Ok(Transformed::no(e));
        }
        let name = names.save(&e);
        let replaced = e.transform_up(|e| {
            if !is_concerned(&e) {
                return Ok(Transformed::no(e));
            }
            let e = intervals::expression(texts::expression(e, schema)?, schema)?;
            shifts::expression(nested_order::expression(e, schema)?, schema).map(Transformed::yes)
        })?;
        Ok(replaced.update_data(|e| name.restore(e)))
    })
}

/// Whether an expression may have to be rewritten, by its form.
fn is_concerned(e: &Expr) -> bool {
    match e {
        Expr::BinaryExpr(binary) => !matches!(binary.op, Operator::And | Operator::Or),
        e => matches!(
            e,
            Expr::Between(_)
                | Expr::InList(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::ScalarFunction(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
        ),
    }
}
