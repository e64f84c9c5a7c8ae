//! Queries as jobs.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::BALLISTA_VERSION;
use ballista_scheduler::cluster::ClusterState;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use warpmill::distribution::{Distribution, Distributor, Stages, Workers};
use warpmill::{WarpmillOptions, WorkerOptions};
use warpmill_distributed::stages::stages;

use crate::plan;
use crate::run::{Jobs, Submission};
use crate::scheduler::{job_config, session};

/// The executors of a scheduler as workers of sessions.
pub(crate) struct Scheduled(Arc<Jobs>);

impl Scheduled {
    pub fn new(jobs: Arc<Jobs>) -> Self {
        Self(jobs)
    }
}

impl fmt::Debug for Scheduled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scheduled")
    }
}

#[async_trait]
impl Distributor for Scheduled {
    async fn workers(&self, _: &WorkerOptions) -> warpmill::Result<Arc<dyn Workers>> {
        // One for each task that an executor runs at once.
        let slots = self.0.executors.registered_executor_metadata().await.into_iter().flat_map(|executor| {
            let name = format!("{}:{}", executor.host, executor.port);
            std::iter::repeat_n(name, executor.specification.vcores as usize)
        });
        let mut slots: Vec<_> = slots.collect();
        slots.sort();
        if slots.is_empty() {
            return Err(self.0.no_executor());
        }
        Ok(Arc::new(Present { jobs: Arc::clone(&self.0), slots }))
    }
}

/// The executors that were registered when a query was planned.
struct Present {
    jobs: Arc<Jobs>,
    slots: Vec<String>,
}

impl fmt::Debug for Present {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Present").field(&self.slots).finish()
    }
}

#[async_trait]
impl Workers for Present {
    fn addresses(&self) -> Vec<String> {
        self.slots.clone()
    }

    async fn distribute(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        state: &SessionState,
        options: &WarpmillOptions,
        explains: bool,
    ) -> warpmill::Result<Distribution> {
        let cut = match stages(&plan, &self.slots, options, explains)? {
            Ok(cut) => cut,
            Err(reason) => return Ok(Distribution::Here(reason)),
        };
        let properties = Arc::clone(plan.properties());
        let job = plan::job(cut.last, self.slots.len())?;
        let mut config = job_config().with_target_partitions(self.slots.len());
        config.options_mut().execution.time_zone.clone_from(&state.config().options().execution.time_zone);
        let context = Arc::new(SessionContext::new_with_state(session(config)));
        let plan = Arc::new(JobExec { job, context, properties, jobs: Arc::clone(&self.jobs) });
        Ok(Distribution::Stages(Stages { plan, fallbacks: cut.fallbacks, parts: vec![("stages".into(), cut.text)] }))
    }
}

/// Submits a job, and reads its rows.
struct JobExec {
    job: Arc<dyn ExecutionPlan>,
    context: Arc<SessionContext>,
    properties: Arc<PlanProperties>,
    jobs: Arc<Jobs>,
}

impl fmt::Debug for JobExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobExec").field("job", &self.job).finish()
    }
}

impl DisplayAs for JobExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobExec: Ballista {BALLISTA_VERSION}")
    }
}

impl ExecutionPlan for JobExec {
    fn name(&self) -> &str {
        "JobExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a job has one partition");
        }
        let submission =
            Submission { jobs: Arc::clone(&self.jobs), context: Arc::clone(&self.context), job: Arc::clone(&self.job) };
        let rows = futures::stream::once(submission.rows()).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
