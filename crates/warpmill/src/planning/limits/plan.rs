//! The size of a plan as a tree: common table expressions and views count at each use.

use std::collections::HashMap;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::{MAX_DEPTH, MAX_EXPRESSIONS, MAX_NODES, MAX_SUBQUERIES, MAX_WINDOWS, windows};
use crate::{Error, Result};

/// Upper bounds of the bytes that planning takes per operator of a plan, per level, per operator of its expressions, and per value or column in them:
/// measured on the plans of `tests/attack`, rounded up.
const NODE_BYTES: u64 = 64 << 10;
const LEVEL_BYTES: u64 = 64 << 10;
const EXPRESSION_BYTES: u64 = 4 << 10;
const LEAF_BYTES: u64 = 512;

/// Refuses a plan that is too large or too deep for the optimizer. Takes time linear in the plan's parts, each counted once.
pub(crate) fn check_plan(plan: &LogicalPlan) -> Result<()> {
    checked(plan).map(drop)
}

/// [`check_plan`], with a reservation of the memory for planning, held until the guard is dropped.
///
/// # Errors
/// [`Error::OutOfMemory`] where the session's memory does not suffice.
pub(crate) fn reserve(plan: &LogicalPlan, runtime: &RuntimeEnv) -> Result<MemoryReservation> {
    let memory = MemoryConsumer::new("planning").register(&runtime.memory_pool);
    memory.try_grow(usize::try_from(checked(plan)?.bytes()).unwrap_or(usize::MAX))?;
    Ok(memory)
}

fn checked(plan: &LogicalPlan) -> Result<Size> {
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
        () if size.windows > MAX_WINDOWS => Err(windows::refusal()),
        () if size.subqueries > MAX_SUBQUERIES => refuse(format!(
            "more than {MAX_SUBQUERIES} subqueries are inside each other's expressions, which is the limit: join them"
        )),
        () => Ok(size),
    }
}

/// Refuses a plan node, or one just below it, whose expressions have grown too large.
pub(crate) fn check_expressions(plan: &LogicalPlan) -> DataFusionResult<()> {
    let mut operators = 0;
    for node in std::iter::once(plan).chain(plan.inputs()) {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                operators += usize::from(!is_leaf(expr));
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

/// Whether an expression is only a value or a column.
fn is_leaf(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(_) | Expr::Literal(..))
}

/// The size of a plan as a tree.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    nodes: u64,
    depth: usize,
    /// Subqueries of expressions, inside each other.
    subqueries: usize,
    /// Windows above each other.
    windows: usize,
    /// Operators of expressions.
    expressions: u64,
    /// Values and columns in expressions.
    leaves: u64,
}

/// The sizes of all visited parts, by their address.
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
                let count = if is_leaf(expr) { &mut size.leaves } else { &mut size.expressions };
                *count = count.saturating_add(1);
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
        size.windows += usize::from(matches!(plan, LogicalPlan::Window(_)));
        self.0.insert(std::ptr::from_ref(plan), size);
        Ok(size)
    }
}

impl Size {
    fn add(&mut self, below: Size) {
        self.nodes = self.nodes.saturating_add(below.nodes);
        self.depth = self.depth.max(below.depth);
        self.subqueries = self.subqueries.max(below.subqueries);
        self.windows = self.windows.max(below.windows);
        self.expressions = self.expressions.saturating_add(below.expressions);
        self.leaves = self.leaves.saturating_add(below.leaves);
    }

    /// Bytes that planning takes.
    fn bytes(&self) -> u64 {
        let levels = (self.depth as u64).saturating_mul(LEVEL_BYTES);
        let leaves = self.leaves.saturating_mul(LEAF_BYTES);
        let expressions = self.expressions.saturating_mul(EXPRESSION_BYTES).saturating_add(leaves);
        self.nodes.saturating_mul(NODE_BYTES).saturating_add(levels).saturating_add(expressions)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{LogicalPlanBuilder, lit};

    use super::*;

    #[test]
    fn many_values_take_little() {
        let rows = (0..30_000).map(|row| (0..10).map(|column| lit(row * column)).collect());
        let plan = LogicalPlanBuilder::values(rows.collect()).unwrap().build().unwrap();
        let size = checked(&plan).unwrap();
        assert_eq!((size.leaves, size.expressions), (300_000, 0));
        assert!(size.bytes() < 256 << 20);
    }
}
