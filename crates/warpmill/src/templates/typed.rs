//! Marked constants in the types of the columns that they are compared with. DataFusion's rules do the same, and lose the marks.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use super::constant::converted;
use super::mark_in;

/// `plan`, in whose comparisons marked numbers have the type of the other side, where that holds them.
pub(crate) fn typed(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(plan.transform_up_with_subqueries(node)?.data)
}

fn node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|e| {
        if !e.exists(|e| Ok(is_marked(e)))? {
            return Ok(Transformed::no(e));
        }
        let name = names.save(&e);
        let typed = e.transform_up(|e| Ok(Transformed::yes(comparison(e, &schema))))?;
        Ok(typed.update_data(|e| name.restore(e)))
    })
}

fn comparison(mut e: Expr, schema: &DFSchema) -> Expr {
    match &mut e {
        Expr::BinaryExpr(binary) if binary.op.supports_propagation() => {
            if is_marked(&binary.right) {
                operand(&binary.left, &mut binary.right, schema);
            } else {
                operand(&binary.right, &mut binary.left, schema);
            }
        }
        Expr::Between(between) => {
            operand(&between.expr, &mut between.low, schema);
            operand(&between.expr, &mut between.high, schema);
        }
        Expr::InList(list) => list.list.iter_mut().for_each(|item| operand(&list.expr, item, schema)),
        _ => {}
    }
    e
}

/// Gives a marked constant the type of what it is compared with.
fn operand(with: &Expr, constant: &mut Expr, schema: &DFSchema) {
    if let Expr::Literal(value, metadata) = constant
        && mark_in(metadata.as_ref()).is_some()
        && let Ok(ty) = with.get_type(schema)
        && let Some(converted) = converted(value, &ty)
    {
        *value = converted;
    }
}

fn is_marked(e: &Expr) -> bool {
    matches!(e, Expr::Literal(_, metadata) if mark_in(metadata.as_ref()).is_some())
}
