//! Corrections of DataFusion's rules for join keys.
//!
//! A join has one null equality for all of its keys. Rules that add an `=` key to a join whose NULL keys are equal, or that merge joins of both kinds
//! into one chain, make unequal NULLs equal: `FROM l JOIN r ON l.a IS NOT DISTINCT FROM r.a WHERE l.b = r.b`.
//!
//! A key with columns of several tables on one side (`FROM a JOIN b ON a.k = b.k JOIN s ON a.x + b.y = s.v`) cannot be applied where a chain of inner
//! joins begins with the other side's table: `eliminate_cross_join`, which builds such chains, drops it.

use std::collections::HashSet;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::logical_expr::{Join, JoinType, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::builder::SharedRule;

/// `extract_equijoin_predicate`, skipped for joins with such null equality, and `eliminate_cross_join`, skipped for plans whose inner joins have such
/// keys.
#[derive(Debug)]
pub(crate) struct KeepsKeys(pub SharedRule);

impl OptimizerRule for KeepsKeys {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let is_left_alone = match self.name() {
            // It is called for every node.
            "extract_equijoin_predicate" => has_null_keys(&plan),
            _ => has_join(&plan, &|join| join.join_type == JoinType::Inner && (are_null_keys(join) || spans(join)))?,
        };
        if is_left_alone { Ok(Transformed::no(plan)) } else { self.0.rewrite(plan, config) }
    }
}

/// Whether a join of `plan`, or of a subquery in its expressions, satisfies `wanted`.
fn has_join(plan: &LogicalPlan, wanted: &dyn Fn(&Join) -> bool) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = matches!(node, LogicalPlan::Join(join) if wanted(join));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn has_null_keys(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if are_null_keys(join))
}

fn are_null_keys(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty()
}

/// Whether a side of a key has columns of several inputs of the chain of inner joins below.
fn spans(join: &Join) -> bool {
    join.on.iter().any(|(left, right)| {
        is_of_several(&left.column_refs(), &join.left) || is_of_several(&right.column_refs(), &join.right)
    })
}

/// Whether columns belong to several inputs of a chain, or may do so where names repeat.
fn is_of_several(columns: &HashSet<&Column>, chain: &LogicalPlan) -> bool {
    let LogicalPlan::Join(join) = chain else { return false };
    if columns.len() < 2 || join.join_type != JoinType::Inner {
        return false;
    }
    let all_in = |side: &LogicalPlan| columns.iter().all(|column| side.schema().has_column(column));
    match (all_in(&join.left), all_in(&join.right)) {
        (true, false) => is_of_several(columns, &join.left),
        (false, true) => is_of_several(columns, &join.right),
        _ => true,
    }
}
