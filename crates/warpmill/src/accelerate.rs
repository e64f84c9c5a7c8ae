//! Warpmill inside a DataFusion session that exists already.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;

use crate::WarpmillOptions;
use crate::offload::OffloadRule;
use crate::rebuilt::rebuilt;
use crate::session::builder::{optimizer_rules, physical_rules};

/// Runs what Warpmill can of all further queries of `context`.
///
/// ```no_run
/// # use datafusion::prelude::*;
/// # async fn example() -> datafusion::common::Result<()> {
/// let context = SessionContext::new();
/// warpmill::accelerate(&context);
/// context.register_parquet("orders", "orders.parquet", ParquetReadOptions::default()).await?;
/// context.sql("SELECT status, count(*) FROM orders GROUP BY status").await?.show().await?;
/// # Ok(())
/// # }
/// ```
///
/// Results do not change: parts that Warpmill does not run stay with DataFusion, and `EXPLAIN` shows a `WarpmillExec` for every part that it runs.
/// `SET warpmill.fallback = 'error'` refuses queries with other parts; the error names the operator and the reason. The other settings are those of
/// [`WarpmillOptions`]. All clones of `context` are accelerated; existing data frames are not.
pub fn accelerate(context: &SessionContext) {
    let state = context.state_ref();
    let mut state = state.write();
    *state = accelerated(state.clone());
}

/// [`accelerate`] for a state before it belongs to a context.
///
/// Adds the settings `warpmill.*`, the order of joins by estimated cardinality, and the rule that replaces the parts that Warpmill runs, after all
/// other rules. Turns off DataFusion's dynamic filters: Warpmill's operators prune in their own way. Returns an accelerated state unchanged.
pub fn accelerated(state: SessionState) -> SessionState {
    if is_accelerated(&state) {
        return state;
    }
    let optimizers = optimizer_rules(state.optimizers().to_vec());
    let mut physical = physical_rules(state.physical_optimizers().to_vec());
    physical.push(Arc::new(OffloadRule));
    let session_id = state.session_id().to_string();
    let mut builder = rebuilt(state);
    let mut config = builder.config().take().unwrap_or_default();
    let options = config.options_mut();
    options.optimizer.enable_dynamic_filter_pushdown = false;
    options.optimizer.enable_join_dynamic_filter_pushdown = false;
    options.optimizer.enable_topk_dynamic_filter_pushdown = false;
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    if options.extensions.get::<WarpmillOptions>().is_none() {
        options.extensions.insert(WarpmillOptions::default());
    }
    builder
        .with_session_id(session_id)
        .with_config(config)
        .with_optimizer_rules(optimizers)
        .with_physical_optimizer_rules(physical)
        .build()
}

/// Whether a state is accelerated.
pub fn is_accelerated(state: &SessionState) -> bool {
    let name = datafusion::physical_optimizer::PhysicalOptimizerRule::name(&OffloadRule);
    state.physical_optimizers().iter().any(|rule| rule.name() == name)
}
