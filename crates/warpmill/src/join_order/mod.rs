//! shim
use datafusion::common::tree_node::Transformed; use datafusion::logical_expr::LogicalPlan; use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
/// x
#[derive(Debug)] pub struct JoinOrder;
impl OptimizerRule for JoinOrder { fn name(&self) -> &str { "warpmill_join_order" } fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> datafusion::common::Result<Transformed<LogicalPlan>> { Ok(Transformed::no(plan)) } }
pub(crate) fn explain(_: &LogicalPlan) -> String { String::new() }
