//! Planning: on threads with deep stacks, within limits, and abandoned when its result is no longer wanted.
//!
//! Parsing, binding, optimizing and translating a statement recurse to its nesting depth, and `a + b + c ...` nests once per operator. `limits`
//! refuses statements that are too deep or too large before anything recurses; the stacks are deep enough for the rest.

pub(crate) mod limits;
mod rules;
mod threads;

use std::sync::Arc;

use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;

pub(crate) use rules::{checked, checked_physical};
pub use threads::{WORKER_STACK, run};

use crate::{Result, ScalarValue, dialect};

/// The plan of one statement with its parameters bound, before any rule.
pub(crate) async fn bound(state: &Arc<SessionState>, sql: &str, params: &[ScalarValue]) -> Result<LogicalPlan> {
    let params: Vec<_> = params.iter().cloned().map(ScalarAndMetadata::from).collect();
    let (state, sql) = (Arc::clone(state), sql.to_string());
    run(async move {
        limits::check_text(&sql, &state.config_options().sql_parser.dialect)?;
        Ok(dialect::logical_plan(&state, &sql, &params).await?)
    })
    .await
}
