//! The node at the top of plans that workers run.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{
    DistributedConfig, DistributedExt, RouteTasksEvent, RouteTasksEventResponse, ScaleUpLeafNodeEvent,
    ScaleUpLeafNodeEventResponse, WorkerResolver,
};
use futures::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;
use uuid::Uuid;
use warpmill::Error;

use super::Cluster;
use crate::link::{QUERY_HEADER, TIME_ZONE_HEADER, as_worker_error};
use crate::task::{TaskCodec, for_query};

/// Number of rows of a batch between processes.
const BATCH_ROWS: usize = 65_536;

/// Runs stages on workers.
pub(super) struct WorkersExec {
    stages: Arc<dyn ExecutionPlan>,
    cluster: Arc<Cluster>,
    workers: Vec<(String, Url)>,
}

impl WorkersExec {
    pub fn new(stages: Arc<dyn ExecutionPlan>, cluster: Arc<Cluster>, workers: Vec<(String, Url)>) -> Self {
        Self { stages, cluster, workers }
    }

    /// `context` with the transport's settings for `query`.
    fn context(&self, context: &TaskContext, query: Uuid) -> Result<Arc<TaskContext>> {
        let mut config = context.session_config().clone();
        configure(&mut config, self.workers.iter().all(|(_, url)| is_loopback(url)));
        keep_leaves(&mut config);
        config.set_distributed_user_codec(TaskCodec::Asking);
        config.set_distributed_channel_resolver(self.cluster.channels.clone());
        let urls: Vec<Url> = self.workers.iter().map(|(_, url)| url.clone()).collect();
        config.set_distributed_worker_resolver(Urls(urls.clone()));
        // Routes task `i` of every stage to the same worker, so that segments stay cached where they were the last time.
        config.set_distributed_route_tasks_handler(move |event: RouteTasksEvent<'_>| {
            let routed = urls.iter().cycle().take(event.task_count).cloned().collect();
            Some(Ok::<_, DataFusionError>(RouteTasksEventResponse::new(routed)))
        });
        let mut headers = HeaderMap::new();
        let query = HeaderValue::from_str(&query.to_string()).expect("a number is printable");
        headers.insert(HeaderName::from_static(QUERY_HEADER), query);
        let zone = config.options().execution.time_zone.as_deref().and_then(|zone| HeaderValue::from_str(zone).ok());
        if let Some(zone) = zone {
            headers.insert(HeaderName::from_static(TIME_ZONE_HEADER), zone);
        }
        config.set_distributed_passthrough_headers(headers)?;
        Ok(Arc::new(TaskContext::new(
            context.task_id(),
            context.session_id(),
            config,
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            context.runtime_env(),
        )))
    }
}

/// The transport's settings.
fn configure(config: &mut SessionConfig, same_machine: bool) {
    let compression = if same_machine { "none" } else { "lz4" }.to_string();
    let mut transport = DistributedConfig::default();
    (transport.compression, transport.shuffle_batch_size) = (compression, BATCH_ROWS);
    config.set_distributed_option_extension(transport);
}

/// Leaves are split already, and the others belong to every task.
pub(super) fn keep_leaves(config: &mut SessionConfig) {
    config.set_distributed_scale_up_leaf_node_handler(|event: ScaleUpLeafNodeEvent<'_>| {
        Some(Ok::<_, DataFusionError>(ScaleUpLeafNodeEventResponse::new(Arc::clone(event.plan))))
    });
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

struct Urls(Vec<Url>);

impl WorkerResolver for Urls {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.clone())
    }
}

impl fmt::Debug for WorkersExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkersExec").field("workers", &self.workers).field("stages", &self.stages).finish()
    }
}

impl DisplayAs for WorkersExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.workers.iter().map(|(name, _)| name.as_str()).collect();
        write!(f, "WorkersExec: workers=[{}]", names.join(", "))
    }
}

impl ExecutionPlan for WorkersExec {
    fn name(&self) -> &str {
        "WorkersExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stages.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.stages]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(stages), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("WorkersExec has one input");
        };
        Ok(Arc::new(Self::new(stages, Arc::clone(&self.cluster), self.workers.clone())))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        // Workers distinguish queries by this id: each run of a plan needs a new one.
        let query = Uuid::new_v4();
        let rows = for_query(Arc::clone(&self.stages), query)?.execute(partition, self.context(&context, query)?)?;
        let (schema, cluster) = (rows.schema(), Arc::clone(&self.cluster));
        let names: Vec<String> = self.workers.iter().map(|(name, _)| name.clone()).collect();
        let rows = rows.map(move |batch| batch.map_err(|error| found(error, &cluster, &names)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Converts `error` to one that names the failed worker, if it comes from one; the next query avoids that worker.
fn found(error: DataFusionError, cluster: &Cluster, workers: &[String]) -> DataFusionError {
    match as_worker_error(&error, workers) {
        Some(Error::Worker { worker, reason }) => {
            cluster.health.lost(&worker);
            Error::Worker { worker, reason }.into()
        }
        _ => error,
    }
}
