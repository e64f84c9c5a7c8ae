//! Queries as jobs.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use ballista_core::client::BallistaClient;
use ballista_core::serde::protobuf::job_status::Status;
use ballista_core::serde::protobuf::{JobStatus, PartitionLocation, SuccessfulJob};
use ballista_core::{BALLISTA_VERSION, JobId};
use ballista_scheduler::cluster::{ClusterState, ClusterStateEvent, ClusterStateEventStream, JobState};
use ballista_scheduler::state::execution_stage::ExecutionStage;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::prelude::SessionContext;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use tokio::sync::mpsc::{Receiver, channel};
use warpmill::distribution::{Distribution, Distributor, Stages, Workers};
use warpmill::{Error, WarpmillOptions, WorkerOptions};
use warpmill_distributed::stages::stages;

use crate::plan;
use crate::scheduler::{Scheduler, job_config, session};

/// A scheduler, and the states of its jobs and executors.
pub(crate) struct Jobs {
    pub scheduler: Scheduler,
    pub states: Arc<dyn JobState>,
    pub executors: Arc<dyn ClusterState>,
}

/// The executors of a scheduler as workers of sessions.
pub(crate) struct Scheduled(Arc<Jobs>);

impl Scheduled {
    pub fn new(jobs: Jobs) -> Self {
        Self(Arc::new(jobs))
    }
}

impl fmt::Debug for Scheduled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scheduled")
    }
}

#[async_trait]
impl Distributor for Scheduled {
    async fn workers(&self, options: &WorkerOptions) -> warpmill::Result<Arc<dyn Workers>> {
        // One for each task that an executor runs at once.
        let slots = self.0.executors.registered_executor_metadata().await.into_iter().flat_map(|executor| {
            let name = format!("{}:{}", executor.host, executor.port);
            std::iter::repeat_n(name, executor.specification.vcores as usize)
        });
        let mut slots: Vec<_> = slots.collect();
        slots.sort();
        if slots.is_empty() {
            let worker = options.addresses.first().cloned().unwrap_or_default();
            return Err(Error::Worker { worker, reason: "no executor has registered with this scheduler".into() });
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
        _: bool,
    ) -> warpmill::Result<Distribution> {
        let cut = match stages(&plan, &self.slots, options)? {
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

/// Statuses of a job that may wait to be read.
const STATUSES: usize = 64;
/// Largest message with rows, in bytes.
const MESSAGE: usize = 64 << 20;
/// How often a broken connection to an executor is tried again, and milliseconds between two tries.
const TRIES: (u8, u64) = (3, 200);

/// How often a query is submitted whose job has lost an executor.
const SUBMISSIONS: usize = 8;

/// A query that is about to run.
struct Submission {
    jobs: Arc<Jobs>,
    context: Arc<SessionContext>,
    job: Arc<dyn ExecutionPlan>,
}

/// The end of a job.
enum Ended {
    Finished(SuccessfulJob),
    /// An executor was lost, or rows of one: the job has to run again.
    Lost(String),
}

impl Submission {
    /// The rows of the query. Where an executor is lost before the first row has been read, the query runs again as a whole. Ballista's own repetition
    /// of lost tasks is not relied on: a stage that is rolled back while it runs leaves the rows of its finished tasks in the input of the next stage,
    /// which then has them twice (55.0.0).
    async fn rows(self) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let mut reasons = vec![];
        for _ in 0..SUBMISSIONS {
            let reason = match self.ended().await? {
                Ended::Lost(reason) => reason,
                Ended::Finished(job) => match begun(job).await {
                    Ok(rows) => return Ok(rows),
                    Err(error) => error.strip_backtrace(),
                },
            };
            tracing::warn!(%reason, "a job runs again");
            reasons.push(reason);
        }
        Err(exec_datafusion_err!(
            "executors were lost in each of {SUBMISSIONS} runs of the query: {}",
            reasons.join("; ")
        ))
    }

    /// The job when it has ended.
    async fn ended(&self) -> Result<Ended> {
        let events = self.jobs.executors.cluster_state_events().await.map_err(failed)?;
        let (subscriber, statuses) = channel(STATUSES);
        let (context, job) = (Arc::clone(&self.context), Arc::clone(&self.job));
        let submitted = self.jobs.scheduler.submit_physical_plan("warpmill", context, job, Some(subscriber)).await;
        let running = Running { job: Some(submitted.map_err(failed)?), jobs: Arc::clone(&self.jobs) };
        running.ended(statuses, events).await
    }
}

/// A job that is cancelled when nobody waits for its rows any more.
struct Running {
    jobs: Arc<Jobs>,
    job: Option<JobId>,
}

impl Running {
    async fn ended(mut self, mut statuses: Receiver<JobStatus>, mut events: ClusterStateEventStream) -> Result<Ended> {
        loop {
            let status = tokio::select! {
                status = statuses.recv() => status,
                Some(event) = events.next() => match event {
                    ClusterStateEvent::RemovedExecutor { executor_id } => {
                        return Ok(Ended::Lost(format!("executor {executor_id} is lost")));
                    }
                    ClusterStateEvent::RegisteredExecutor { .. } => continue,
                },
            };
            match status.map(|status| status.status) {
                Some(Some(Status::Successful(job))) => return self.finished(job).await,
                Some(Some(Status::Failed(job))) => {
                    self.job = None;
                    return Err(exec_datafusion_err!("{}", job.error));
                }
                Some(Some(Status::Queued(_) | Status::Running(_)) | None) => {}
                None => return Err(exec_datafusion_err!("the scheduler stopped before the query was finished")),
            }
        }
    }

    /// A finished job, unless a stage of it ran more than once.
    async fn finished(mut self, job: SuccessfulJob) -> Result<Ended> {
        let Some(id) = self.job.take() else { return internal_err!("a job ends once") };
        let graph = self.jobs.states.get_execution_graph(&id).await.map_err(failed)?;
        let Some(graph) = graph else { return Ok(Ended::Lost(format!("job {id} is forgotten"))) };
        let again = graph.stages().values().any(|stage| match stage {
            ExecutionStage::Successful(stage) => stage.stage_attempt_num > 0,
            _ => true,
        });
        Ok(if again { Ended::Lost(format!("a stage of job {id} ran again")) } else { Ended::Finished(job) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(job) = self.job.take() else { return };
        let jobs = Arc::clone(&self.jobs);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = jobs.scheduler.cancel_job(job).await {
                tracing::warn!(%error, "a job was not cancelled");
            }
        });
    }
}

/// The rows of a finished job, of which the first batch has been read.
async fn begun(job: SuccessfulJob) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let mut rows = futures::stream::iter(job.partition_location).then(fetched).try_flatten().boxed();
    let first = rows.try_next().await?;
    Ok(futures::stream::iter(first.map(Ok)).chain(rows).boxed())
}

/// The rows of a partition of a job's last stage.
async fn fetched(location: PartitionLocation) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let layout = location.layout();
    let (Some(executor), Some(partition)) = (location.executor_meta, location.partition_id) else {
        return internal_err!("rows without a place");
    };
    let worker = format!("{}:{}", executor.host, executor.port);
    let lost = move |reason: String| DataFusionError::from(Error::Worker { worker: worker.clone(), reason });
    let port = u16::try_from(executor.port).map_err(|error| lost(error.to_string()))?;
    let client = BallistaClient::try_new(&executor.host, port, MESSAGE, false, None, TRIES.0, TRIES.1, 0, 0);
    let mut client = client.await.map_err(|error| lost(error.to_string()))?;
    let partition = partition.into();
    let rows = client.fetch_partition(&executor.id, &partition, location.file_id, layout, true).await;
    let rows = rows.map_err(|error| lost(error.to_string()))?;
    Ok(rows.map_err(move |error| lost(error.strip_backtrace())).boxed())
}

fn failed(error: ballista_core::error::BallistaError) -> DataFusionError {
    error.into_datafusion()
}
