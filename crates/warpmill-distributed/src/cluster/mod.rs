//! Sessions and their workers.

mod check;
mod exec;
mod health;

pub(crate) use check::{AGGREGATES_OF_TYPES, FUNCTIONS, own_function};

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion_distributed::{DistributedExec, SessionStateBuilderExt};
use parking_lot::Mutex;
use url::Url;
use warpmill::distribution::{Distribution, Distributor, Stages, Workers};
use warpmill::rebuilt::rebuilt;
use warpmill::{FallbackMode, Result, WarpmillOptions, WorkerOptions};

use crate::cut::cut;
use crate::explain;
use crate::link::{Access, Channels};
use crate::stage::accelerated;
use exec::WorkersExec;
use health::Health;

/// Enables workers for the sessions of this process.
pub fn install() {
    warpmill::distribution::install(Arc::new(Clusters::default()));
}

/// The clusters of the process: sessions with the same settings share connections.
#[derive(Default)]
struct Clusters {
    known: Mutex<HashMap<WorkerOptions, Arc<Cluster>>>,
}

impl std::fmt::Debug for Clusters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clusters")
    }
}

/// Settings of sessions that are kept.
const MOST_CLUSTERS: usize = 64;

impl Clusters {
    fn cluster(&self, options: &WorkerOptions) -> Result<Arc<Cluster>> {
        // Reads the files of tokens and certificates each time: they may have changed.
        let access = Access::of(options)?;
        let mut known = self.known.lock();
        if let Some(cluster) = known.get(options).filter(|cluster| cluster.access == access) {
            return Ok(Arc::clone(cluster));
        }
        if known.len() >= MOST_CLUSTERS {
            known.clear();
        }
        let cluster = Arc::new(Cluster::new(options, access)?);
        known.insert(options.clone(), Arc::clone(&cluster));
        Ok(cluster)
    }
}

#[async_trait]
impl Distributor for Clusters {
    async fn workers(&self, options: &WorkerOptions) -> Result<Arc<dyn Workers>> {
        let cluster = self.cluster(options)?;
        let present = cluster.health.present(&cluster.channels, cluster.access.timeout).await?;
        Ok(Arc::new(Present { cluster, workers: present }))
    }
}

/// The workers of sessions with equal settings.
pub(crate) struct Cluster {
    access: Access,
    channels: Channels,
    health: Health,
}

impl Cluster {
    fn new(options: &WorkerOptions, access: Access) -> Result<Self> {
        let urls = options.addresses.iter().map(|address| Ok((address.clone(), access.url(address)?)));
        let health = Health::new(urls.collect::<Result<_>>()?);
        Ok(Self { channels: Channels::new(access.clone()), access, health })
    }
}

/// Workers that answered when a query was planned.
struct Present {
    cluster: Arc<Cluster>,
    workers: Vec<(String, Url)>,
}

impl std::fmt::Debug for Present {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Present").field(&self.workers).finish()
    }
}

#[async_trait]
impl Workers for Present {
    fn addresses(&self) -> Vec<String> {
        self.workers.iter().map(|(address, _)| address.clone()).collect()
    }

    async fn distribute(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        state: &SessionState,
        options: &WarpmillOptions,
        explains: bool,
    ) -> Result<Distribution> {
        let cut = match cut(&plan, self.workers.len()) {
            Ok(Some(cut)) => cut,
            Ok(None) => return Ok(Distribution::Here("no table of it has several row segments".into())),
            Err(DataFusionError::NotImplemented(reason)) => return Ok(Distribution::Here(reason)),
            Err(error) => return Err(error.into()),
        };
        let staged = staged(cut, state).await?;
        let Some(head) = staged.downcast_ref::<DistributedExec>().map(|node| Arc::clone(node.children()[0])) else {
            return Ok(Distribution::Here("there is only one worker and nothing to split".into()));
        };
        let sent = match check::sendable(Arc::clone(&head))? {
            Ok(sent) => sent,
            Err(reason) => return Ok(Distribution::Here(reason)),
        };
        let (sent, mut fallbacks) = accelerated(sent, options)?;
        let mut parts = vec![];
        if explains || options.fallback == FallbackMode::Error {
            let (text, others) = explain::stages(&head, &self.addresses(), options)?;
            fallbacks.extend(others);
            parts.push(("stages".to_string(), text));
        }
        let replaced = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let staged = staged.replace_children(vec![sent], replaced)?;
        let plan = Arc::new(WorkersExec::new(staged, Arc::clone(&self.cluster), self.workers.clone()));
        Ok(Distribution::Stages(Stages { plan, fallbacks, parts }))
    }
}

/// Numbers the stages of `plan`, which has exchanges.
async fn staged(plan: Arc<dyn ExecutionPlan>, state: &SessionState) -> Result<Arc<dyn ExecutionPlan>> {
    let id = state.session_id().to_string();
    let builder = rebuilt(state.clone()).with_session_id(id);
    let mut builder = builder.with_query_planner(Arc::new(Planned(plan))).with_distributed_planner();
    if let Some(config) = builder.config() {
        exec::keep_leaves(config);
    }
    let state = builder.build();
    let nothing = LogicalPlan::EmptyRelation(datafusion::logical_expr::EmptyRelation {
        produce_one_row: false,
        schema: Arc::new(datafusion::common::DFSchema::empty()),
    });
    Ok(state.query_planner().create_physical_plan(&nothing, &state).await?)
}

/// A planner that returns an existing plan.
#[derive(Debug)]
struct Planned(Arc<dyn ExecutionPlan>);

#[async_trait]
impl QueryPlanner for Planned {
    async fn create_physical_plan(
        &self,
        _: &LogicalPlan,
        _: &dyn Session,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::clone(&self.0))
    }
}
