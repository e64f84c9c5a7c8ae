//! The sessions that tasks run in.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion_distributed::{
    DistributedExt, Worker, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse, WorkerQueryContext,
    WorkerSessionBuilder,
};
use http::{HeaderMap, HeaderName};
use warpmill::rebuilt::in_order;
use warpmill::{Session, WarpmillOptions};

use super::config::ConfigError;
use super::queries::Queries;
use crate::cluster::FUNCTIONS;
use crate::link::{Channels, QUERY_HEADER, TIME_ZONE_HEADER};
use crate::stage::accelerated;
use crate::task::{KeptTasks, TaskCodec};

/// Makes a session for each task.
#[derive(Clone)]
pub(super) struct TaskSessions {
    /// A session with the worker's settings.
    session: Session,
    options: WarpmillOptions,
    channels: Channels,
    queries: Queries,
    kept: Arc<KeptTasks>,
}

impl TaskSessions {
    /// # Errors
    /// [`ConfigError::Engine`] for settings that are not valid.
    pub fn new(settings: &[(String, String)], channels: Channels, queries: Queries) -> Result<Self, ConfigError> {
        let builder = settings.iter().fold(Session::builder(), |builder, (key, value)| builder.set(key, value));
        let session = builder.build()?;
        let options = WarpmillOptions::of(session.context().copied_config().options());
        Ok(Self { session, options, channels, queries, kept: Arc::default() })
    }

    /// The service of tasks.
    pub fn into_worker(self) -> Worker {
        let runtime = self.session.context().runtime_env();
        Worker::from_session_builder(self).with_runtime_env(runtime)
    }
}

#[async_trait]
impl WorkerSessionBuilder for TaskSessions {
    async fn build_session_state(&self, context: WorkerQueryContext) -> Result<SessionState> {
        let WorkerQueryContext { mut builder, headers } = context;
        let mut config = builder.config().take().unwrap_or_default();
        let options = config.options_mut();
        options.extensions.insert(self.options.clone());
        options.execution.target_partitions = 1;
        let text = |name: &'static str| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(zone) = text(TIME_ZONE_HEADER) {
            options.execution.time_zone = Some(zone.to_string());
        }
        if let Some(query) = text(QUERY_HEADER) {
            config.set_extension(self.queries.handle(query));
        }
        config.set_distributed_user_codec(TaskCodec::Worker(Arc::clone(&self.kept)));
        config.set_distributed_channel_resolver(self.channels.clone());
        // Tasks that this one reads from belong to the same query.
        let mut passed = HeaderMap::new();
        if let Some(query) = headers.get(QUERY_HEADER) {
            passed.insert(HeaderName::from_static(QUERY_HEADER), query.clone());
        }
        config.set_distributed_passthrough_headers(passed)?;
        config.set_distributed_worker_plan_rewrite_handler(|event: WorkerPlanRewriteEvent<'_>| {
            let options = WarpmillOptions::of(event.session_config.options());
            let (plan, _) = accelerated(event.plan, &options)?;
            Ok::<_, DataFusionError>(WorkerPlanRewriteEventResponse::new(plan))
        });
        Ok(builder
            .with_config(config)
            .with_scalar_functions(in_order(FUNCTIONS.scalar_functions()))
            .with_higher_order_functions(in_order(FUNCTIONS.higher_order_functions()))
            .with_aggregate_functions(in_order(FUNCTIONS.aggregate_functions()))
            .with_window_functions(in_order(FUNCTIONS.window_functions()))
            .build())
    }
}
