//! Join ordering: a logical optimizer rule that replaces DataFusion's syntactic order.
//!
//! The rule finds maximal regions of inner joins (`region`), builds their join graph (`graph`) with sizes
//! estimated from table statistics (`estimate`, `selectivity`), searches the cheapest tree (`enumerate`) and
//! rebuilds the plan (`rebuild`); joins of other kinds are leaves of a region and only get their build side
//! chosen (`build_side`); before, outer joins become inner ones where joins above allow it (`outer`). Costs count
//! the rows that each join writes, builds on and probes. A region is rewritten only for a strictly cheaper tree, so
//! that the rule is idempotent.

mod build_side;
mod enumerate;
mod estimate;
mod examples;
mod explain;
mod graph;
pub(crate) mod members;
mod outer;
mod rebuild;
mod region;
mod selectivity;
mod statistics;
#[cfg(test)]
mod tests;
mod tree;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

pub(crate) use estimate::{TableFilter, filters_of_tables, kept_rows};
pub(crate) use examples::example_metadata;
pub use explain::with_estimates;
use graph::JoinGraph;
use outer::OuterJoinRule;
use region::Region;
pub use statistics::{ColumnStats, NamedStatistics, ProviderStatistics, TableStatistics, TableStats};

/// A tree replaces another one only if it is cheaper by this factor: rounding never flips a plan back and forth.
const IMPROVEMENT: f64 = 1.0 - 1e-6;

/// Puts [`JoinOrderRule`], and the rule for outer joins below joins, into a list of DataFusion's logical rules, where
/// they belong: after `push_down_filter`, so that subqueries are decorrelated, cross joins are joins and filters are at the scans, and before
/// `optimize_projections`, which then trims the columns of the new joins.
pub fn with_join_order(
    mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
    statistics: Arc<dyn TableStatistics>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let place = |name: &str| rules.iter().position(|rule| rule.name() == name);
    let after_filters = place("push_down_filter").map(|i| i + 1);
    let at = after_filters.or_else(|| place("optimize_projections")).unwrap_or(rules.len());
    rules.insert(at, Arc::new(JoinOrderRule::new(statistics)));
    rules.insert(at, Arc::new(OuterJoinRule));
    rules
}

/// Orders inner joins by estimated cost and chooses the build side of the other joins: the smaller input becomes
/// the left one. See [`with_join_order`] for its place among the other rules.
#[derive(Debug)]
pub struct JoinOrderRule {
    statistics: Arc<dyn TableStatistics>,
}

impl JoinOrderRule {
    /// A rule that estimates with `statistics`.
    pub fn new(statistics: Arc<dyn TableStatistics>) -> Self {
        Self { statistics }
    }

    /// Optimizes `plan` and everything below it; the flag says whether anything changed.
    fn optimize(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match self.reorder(&plan)? {
            Reordered::NoRegion => {}
            Reordered::Better(better) => return Ok(Transformed::yes(better)),
            Reordered::Kept => {
                let mut changed = false;
                let kept = region::map_leaves(plan, &mut |leaf| {
                    let leaf = self.optimize(leaf)?;
                    changed |= leaf.transformed;
                    Ok(leaf.data)
                })?;
                return Ok(Transformed::new(kept, changed, TreeNodeRecursion::Continue));
            }
        }
        let plan = plan
            .map_uncorrelated_subqueries(|subquery| self.optimize(subquery))?
            .transform_sibling(|plan| plan.map_children(|child| self.optimize(child)))?;
        match plan.data {
            LogicalPlan::Join(join) => Ok(match build_side::choose(join, self.statistics.as_ref())? {
                Ok(turned) => Transformed::yes(turned),
                Err(join) => Transformed::new(LogicalPlan::Join(join), plan.transformed, plan.tnr),
            }),
            data => Ok(Transformed { data, ..plan }),
        }
    }

    /// Orders the region whose root is `plan`.
    fn reorder(&self, plan: &LogicalPlan) -> Result<Reordered> {
        let Some(region) = Region::extract(plan) else { return Ok(Reordered::NoRegion) };
        let Some(owners) = region.columns() else { return Ok(Reordered::Kept) };
        let Some(graph) = JoinGraph::new(&region, &owners, self.statistics.as_ref())? else {
            return Ok(Reordered::Kept);
        };
        let tree = enumerate::best_tree(&graph);
        let misplaced = region.filter_above_join || graph.leaf_filters.iter().any(|f| !f.is_empty());
        if !misplaced && graph.cost(&tree) >= graph.cost(&region.tree) * IMPROVEMENT {
            return Ok(Reordered::Kept);
        }
        let leaves = region.leaves.iter().map(|leaf| Ok(self.optimize((*leaf).clone())?.data));
        let joins = rebuild::build(&tree, &graph, &leaves.collect::<Result<Vec<_>>>()?)?;
        Ok(Reordered::Better(rebuild::with_schema(joins, plan.schema())?))
    }
}

enum Reordered {
    /// Not the root of a region.
    NoRegion,
    /// The joins are best as they are; the leaves are still to be optimized.
    Kept,
    /// The new plan, leaves included.
    Better(LogicalPlan),
}

impl OptimizerRule for JoinOrderRule {
    fn name(&self) -> &str {
        "join_order"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_joins(&plan) {
            return Ok(Transformed::no(plan));
        }
        self.optimize(plan)
    }
}

/// Most statements have none, and walking a plan by value copies it.
fn has_joins(plan: &LogicalPlan) -> bool {
    let mut found = false;
    // The closure never fails, so neither does the walk.
    let _ = plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Join(_));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}
