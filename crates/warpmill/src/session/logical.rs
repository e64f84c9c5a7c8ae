//! Plans of other front ends (Substrait, DataFusion's data frames) instead of SQL texts.

use std::sync::Arc;
use std::time::Instant;

use datafusion::logical_expr::LogicalPlan;

use super::{QueryResult, Session};
use crate::{Result, ScalarValue, dialect};

impl Session {
    /// Runs a query that another front end has made a logical plan of, as a query text is run: optimized, placed, with a
    /// profile. Its tables should be those of [`Session::context`]. The plan cache has no part in it.
    pub async fn execute_plan(&self, plan: LogicalPlan) -> Result<QueryResult> {
        let query = self.inner.running.start();
        let work = async {
            let start = Instant::now();
            let state = self.inner.context.state();
            let (prepared, _) = self.prepare(&state, &plan, &self.options()).await?;
            let planning_nanos = start.elapsed().as_nanos() as u64;
            let mut result = self.run_prepared(&prepared, &query).await?;
            if let Some(profile) = result.profile.as_mut().and_then(Arc::get_mut) {
                profile.planning_nanos = planning_nanos;
            }
            Ok(result)
        };
        query.until_cancelled(work).await
    }

    /// What [`Session::explain`] says of a query, for a logical plan.
    pub async fn explain_plan(&self, plan: &LogicalPlan, analyze: bool) -> Result<String> {
        let query = self.inner.running.start();
        query.until_cancelled(self.explain_logical(plan, analyze, &query)).await
    }

    /// The logical plan of a query after all rules, the order of joins included. `params` are the values of `$1`, `$2`, ...
    pub async fn optimized_plan(&self, sql: &str, params: &[ScalarValue]) -> Result<LogicalPlan> {
        let state = self.inner.context.state();
        let plan = dialect::logical_plan(&state, sql, params).await?;
        Ok(state.optimize(&plan)?)
    }
}
