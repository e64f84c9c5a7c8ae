//! Distinct names for computed join keys.
//!
//! The physical planner adds a column for each computed key to the columns of the join's input. A cast has the name of its operand, and so do some
//! functions (`kept`, `read_number`); the planner renames casts only.

use std::borrow::Cow;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// `plan` with distinct names for all join keys.
pub(crate) fn with_key_names(plan: &LogicalPlan) -> Result<Cow<'_, LogicalPlan>> {
    let mut found = false;
    plan.apply(|node| {
        let lacks = |(left, right): &(Expr, Expr)| lacks_name(left) || lacks_name(right);
        found = matches!(node, LogicalPlan::Join(join) if join.on.iter().any(lacks));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(Cow::Borrowed(plan));
    }
    let named = plan.clone().transform_up(|node| {
        let LogicalPlan::Join(mut join) = node else { return Ok(Transformed::no(node)) };
        let keys = join.on.iter_mut().flat_map(|(left, right)| [left, right]);
        for key in keys.filter(|key| lacks_name(key)) {
            let name = key.to_string();
            *key = std::mem::take(key).alias(name);
        }
        Ok(Transformed::yes(LogicalPlan::Join(join)))
    })?;
    Ok(Cow::Owned(named.data))
}

/// Whether the name of a key may equal that of a column or of another key.
fn lacks_name(key: &Expr) -> bool {
    !matches!(key, Expr::Column(_) | Expr::Alias(_) | Expr::Cast(_) | Expr::TryCast(_))
        && key.schema_name().to_string() != key.to_string()
}
