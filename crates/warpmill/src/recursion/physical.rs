//! Recursive queries as physical plans.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::PhysicalPlanner;

use super::dictionary::Dictionary;
use super::exec::{Facts, RecursionExec};
use super::{Recursion, nullable, reads};

/// `plan`, in which recursions plan their steps separately if these have scalar subqueries: the physical planner would compute the subqueries
/// only once for the whole plan.
pub(crate) fn apart(plan: Cow<'_, LogicalPlan>) -> Result<Cow<'_, LogicalPlan>> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let Some(recursion) = Recursion::of(node) {
            found |= has_scalar_subqueries(&recursion.step)?;
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(plan);
    }
    let plan = plan.into_owned().transform_up_with_subqueries(|node| match Recursion::of(&node) {
        Some(recursion) if has_scalar_subqueries(&recursion.step)? => {
            Ok(Transformed::yes(Recursion { is_apart: true, ..recursion.clone() }.plan()))
        }
        _ => Ok(Transformed::no(node)),
    })?;
    Ok(Cow::Owned(plan.data))
}

/// Whether a plan has scalar subqueries, without those of separately planned steps.
fn has_scalar_subqueries(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        let mut found = false;
        node.apply_expressions(|expr| {
            found |= expr.exists(|part| Ok(matches!(part, Expr::ScalarSubquery(_))))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(found)
    })
}

/// The physical plan of a recursion.
pub(crate) async fn planned(
    recursion: &Recursion,
    inputs: &[Arc<dyn ExecutionPlan>],
    planner: &dyn PhysicalPlanner,
    session: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some((first, mut others)) = inputs.split_first() else { return internal_err!("a recursion without a plan") };
    let step = match (recursion.is_apart, others.split_first()) {
        (true, _) => planner.create_physical_plan(&recursion.step, session).await?,
        (false, Some((step, rest))) => {
            others = rest;
            Arc::clone(step)
        }
        (false, None) => return internal_err!("a recursion without a step"),
    };
    let dictionary = others.first().map(|plan| Dictionary::of(plan, recursion.number)).transpose()?;
    let facts = Facts {
        number: recursion.number,
        added: recursion.added,
        repeats: reads(&recursion.step, recursion.number)?,
        rows: nullable(&recursion.first),
        schema: Arc::clone(recursion.schema.inner()),
        dictionary: dictionary.map(Arc::new),
    };
    Ok(Arc::new(RecursionExec::new(Arc::new(facts), Arc::clone(first), step)))
}
