//! Names of computed keys of joins.
//!
//! The physical planner makes a column of a key that is computed, beside those of the join's input. It names casts by their text, for the name
//! of a cast is that of what is cast; it does not know our functions that are named like their arguments (`kept`, `read_number`).

use std::borrow::Cow;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// `plan`, of which all keys of joins have names of their own.
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

/// Whether the name of a key may be that of a column, or of another key.
fn lacks_name(key: &Expr) -> bool {
    !matches!(key, Expr::Column(_) | Expr::Alias(_) | Expr::Cast(_) | Expr::TryCast(_))
        && key.schema_name().to_string() != key.to_string()
}
