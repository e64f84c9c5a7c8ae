//! Names of the keys of joins that are casts which DataFusion's rules do not look through.
//!
//! The physical planner makes a column of a key that is computed, beside those of the join's input. It names casts by their text, for the name
//! of a cast is that of what is cast; so is that of [`kept`], which it does not know.

use std::borrow::Cow;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use warpmill_translate::kept;

/// `plan`, of which all keys of joins have names of their own.
pub(crate) fn with_key_names(plan: &LogicalPlan) -> Result<Cow<'_, LogicalPlan>> {
    let mut found = false;
    plan.apply(|node| {
        found = matches!(node, LogicalPlan::Join(join) if join.on.iter().any(|(l, r)| is_kept(l) || is_kept(r)));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(Cow::Borrowed(plan));
    }
    let named = plan.clone().transform_up(|node| {
        let LogicalPlan::Join(mut join) = node else { return Ok(Transformed::no(node)) };
        let keys = join.on.iter_mut().flat_map(|(left, right)| [left, right]);
        for key in keys.filter(|key| is_kept(key)) {
            let name = key.to_string();
            *key = std::mem::take(key).alias(name);
        }
        Ok(Transformed::yes(LogicalPlan::Join(join)))
    })?;
    Ok(Cow::Owned(named.data))
}

fn is_kept(key: &Expr) -> bool {
    matches!(key, Expr::ScalarFunction(call) if call.name() == kept::NAME)
}
