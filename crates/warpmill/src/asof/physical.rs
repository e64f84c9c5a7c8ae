//! ASOF joins as physical nodes.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{Result, internal_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use warpmill_translate::asof_exec::{AsofJoinExec, AsofMatch};

use super::AsofJoin;
use crate::once::{Once, OnceExec};
use crate::recursion::{self, Recursion};
use crate::session::key_names::with_key_names;

/// DataFusion's query planner, extended by ASOF joins, nodes that run once, and recursion by key.
#[derive(Debug)]
pub(crate) struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(Planner)]);
        let plan = recursion::apart(with_key_names(plan)?)?;
        planner.create_physical_plan(plan.as_ref(), session).await
    }
}

#[async_trait]
impl ExtensionPlanner for Planner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        planning: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let (Some(once), [input]) = (node.as_any().downcast_ref::<Once>(), physical_inputs) {
            return Ok(Some(Arc::new(OnceExec::new(Arc::clone(input), once.number()))));
        }
        if let Some(recursion) = node.as_any().downcast_ref::<Recursion>() {
            return recursion::planned(recursion, physical_inputs, planner, session).await.map(Some);
        }
        let Some(join) = node.as_any().downcast_ref::<AsofJoin>() else { return Ok(None) };
        let ([left, right], [left_plan, right_plan]) = (logical_inputs, physical_inputs) else {
            return internal_err!("an ASOF join has two inputs");
        };
        let pair = |(of_left, of_right): &(_, _)| {
            let of_left = planner.create_physical_expr(of_left, left.schema(), session, planning)?;
            Ok((of_left, planner.create_physical_expr(of_right, right.schema(), session, planning)?))
        };
        let mut keys = join.keys.iter().map(pair).collect::<Result<Vec<_>>>()?;
        let Some((value, order)) = keys.pop() else { return internal_err!("an ASOF join without an inequality") };
        let nearest = AsofMatch { value, order, nearest: join.nearest };
        let (left, right) = (Arc::clone(left_plan), Arc::clone(right_plan));
        Ok(Some(Arc::new(AsofJoinExec::try_new(left, right, keys, nearest, join.join_type)?)))
    }
}
