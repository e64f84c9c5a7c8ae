//! The size of a plan as a tree: common table expressions and views stand in it as often as they are named.

use std::collections::HashMap;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::{MAX_DEPTH, MAX_EXPRESSIONS, MAX_NODES, MAX_SUBQUERIES};
use crate::{Error, Result};

/// Refuses a plan that is too large or too deep for the optimizer. Takes time in the plan's parts, each counted once.
pub(crate) fn check_plan(plan: &LogicalPlan) -> Result<()> {
    let size = Sizes::default().of(plan)?;
    let refuse = |text: String| Err(Error::Limit(text));
    match () {
        () if size.nodes > MAX_NODES => refuse(format!(
            "the plan has more than {MAX_NODES} operators, which is the limit, with every view and common table expression in \
             place as often as it is named: make a table of one that is named often"
        )),
        () if size.depth > 2 * MAX_DEPTH => {
            refuse(format!("the plan has more than {} operators above each other, which is the limit", 2 * MAX_DEPTH))
        }
        () if size.subqueries > MAX_SUBQUERIES => refuse(format!(
            "more than {MAX_SUBQUERIES} subqueries are inside each other's expressions, which is the limit: join them"
        )),
        () => Ok(()),
    }
}

/// Refuses a plan node, or one just below it, whose expressions have grown too large.
pub(crate) fn check_expressions(plan: &LogicalPlan) -> DataFusionResult<()> {
    let mut operators = 0;
    for node in std::iter::once(plan).chain(plan.inputs()) {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                operators += usize::from(!matches!(expr, Expr::Column(_) | Expr::Literal(..)));
                Ok(if operators > MAX_EXPRESSIONS { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
    }
    match operators > MAX_EXPRESSIONS {
        true => Err(DataFusionError::from(Error::Limit(format!(
            "an expression has more than {MAX_EXPRESSIONS} operators, which is the limit, with those of columns in place as often as \
             they are named: make a table of one that is named often"
        )))),
        false => Ok(()),
    }
}

/// Of a plan as a tree.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    nodes: u64,
    depth: usize,
    /// Subqueries of expressions, inside each other.
    subqueries: usize,
}

/// The sizes of all parts that were seen, by their place in memory.
#[derive(Default)]
struct Sizes(HashMap<*const LogicalPlan, Size>);

impl Sizes {
    fn of(&mut self, plan: &LogicalPlan) -> DataFusionResult<Size> {
        if let Some(known) = self.0.get(&std::ptr::from_ref(plan)) {
            return Ok(*known);
        }
        let mut size = Size::default();
        for input in plan.inputs() {
            size.add(self.of(input)?);
        }
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                let subquery = match expr {
                    Expr::ScalarSubquery(subquery) => subquery,
                    Expr::InSubquery(inside) => &inside.subquery,
                    Expr::Exists(exists) => &exists.subquery,
                    Expr::SetComparison(comparison) => &comparison.subquery,
                    _ => return Ok(TreeNodeRecursion::Continue),
                };
                let inner = self.of(&subquery.subquery)?;
                size.add(Size { subqueries: inner.subqueries + 1, ..inner });
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        size.nodes = size.nodes.saturating_add(1);
        size.depth += 1;
        self.0.insert(std::ptr::from_ref(plan), size);
        Ok(size)
    }
}

impl Size {
    fn add(&mut self, below: Size) {
        self.nodes = self.nodes.saturating_add(below.nodes);
        self.depth = self.depth.max(below.depth);
        self.subqueries = self.subqueries.max(below.subqueries);
    }
}
