//! The planning steps of a statement: on threads with deep stacks, within limits ([`crate::planning`]).

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;

use super::Session;
use crate::Result;
use crate::dialect::statement;
use crate::planning::limits::{check_text, reserve};
use crate::planning::run;

impl Session {
    /// Runs `work` on a parsed statement and the session's state, on a planning thread: statements nest as deeply as their texts are long.
    pub async fn with_parsed<T, F>(
        &self,
        sql: &str,
        work: impl FnOnce(Statement, SessionState) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (state, sql) = (self.inner.context.state(), sql.to_string());
        run(async move {
            let dialect = state.config_options().sql_parser.dialect;
            check_text(&sql, &dialect)?;
            let statement = statement(&state, &sql)?;
            work(statement, state).await
        })
        .await
    }

    /// A plan after all logical rules.
    pub(super) async fn optimized(&self, state: &Arc<SessionState>, plan: Arc<LogicalPlan>) -> Result<LogicalPlan> {
        let state = Arc::clone(state);
        run(async move {
            let _memory = reserve(&plan, state.runtime_env())?;
            Ok(state.optimize(&plan)?)
        })
        .await
    }
}
