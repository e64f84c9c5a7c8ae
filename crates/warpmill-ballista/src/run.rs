//! Jobs that run: their ends, their rows, and what happens when executors are lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use ballista_core::JobId;
use ballista_core::client::BallistaClient;
use ballista_core::serde::protobuf::job_status::Status;
use ballista_core::serde::protobuf::{JobStatus, PartitionLocation, SuccessfulJob};
use ballista_scheduler::cluster::{ClusterState, JobState};
use ballista_scheduler::state::execution_stage::ExecutionStage;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, channel};
use warpmill::Error;

use crate::cluster::{Executors, Removals};
use crate::errors;
use crate::scheduler::Scheduler;

/// A scheduler, and the states of its jobs and executors.
pub(crate) struct Jobs {
    pub scheduler: Scheduler,
    pub states: Arc<dyn JobState>,
    pub executors: Arc<Executors>,
    /// The time that a query waits for an executor when all are lost.
    pub timeout: Duration,
    /// The scheduler's address.
    pub address: String,
    pub runtime: Handle,
}

/// Statuses of a job that may wait to be read.
const STATUSES: usize = 64;
/// Largest message with rows, in bytes.
const MESSAGE: usize = 64 << 20;
/// How often a broken connection to an executor is tried again, and milliseconds between two tries.
const TRIES: (u8, u64) = (3, 200);
/// How often a query is submitted whose job has lost an executor.
const SUBMISSIONS: usize = 8;
/// The time between two looks at a state.
const POLL: Duration = Duration::from_millis(50);
/// The time for a finished job to appear among the finished ones, and for a cancelled one to end.
const SOON: Duration = Duration::from_secs(5);

impl Jobs {
    pub fn no_executor(&self) -> Error {
        let reason = "no executor has registered with this scheduler".into();
        Error::Worker { worker: self.address.clone(), reason }
    }

    /// Waits for an executor, for a limited time.
    async fn some_executor(&self) -> Result<()> {
        let until = Instant::now() + self.timeout;
        while self.executors.registered_executor_metadata().await.is_empty() {
            if Instant::now() >= until {
                return Err(self.no_executor().into());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Whether a stage of a finished job has run more than once.
    async fn ran_again(&self, job: &JobId) -> Result<bool> {
        let until = Instant::now() + SOON;
        loop {
            // The job's end is announced shortly before its graph is stored.
            if let Some(graph) = self.states.get_execution_graph(job).await.map_err(errors::of_ballista)? {
                return Ok(graph.stages().values().any(|stage| match stage {
                    ExecutionStage::Successful(stage) => stage.stage_attempt_num > 0,
                    _ => true,
                }));
            }
            if Instant::now() >= until {
                return Ok(true);
            }
            tokio::time::sleep(POLL / 10).await;
        }
    }

    /// Cancels a job. The scheduler does not find one that was submitted just now, so that it is asked until the job has ended.
    async fn cancel(&self, job: JobId) {
        let until = Instant::now() + SOON;
        loop {
            if let Err(error) = self.scheduler.cancel_job(job.clone()).await {
                tracing::warn!(%error, "a job was not cancelled");
            }
            tokio::time::sleep(POLL).await;
            let status = self.states.get_job_status(&job).await.ok().flatten().and_then(|status| status.status);
            if !matches!(status, Some(Status::Queued(_) | Status::Running(_)) | None) || Instant::now() >= until {
                return;
            }
        }
    }
}

/// A query that is about to run.
pub(crate) struct Submission {
    pub jobs: Arc<Jobs>,
    pub context: Arc<SessionContext>,
    pub job: Arc<dyn ExecutionPlan>,
}

/// The end of a job.
enum Ended {
    Finished(SuccessfulJob, Running),
    /// An executor was lost, or rows of one: the job has to run again.
    Lost(String),
}

impl Submission {
    /// The rows of the query. Where an executor that has tasks of it is lost before the first row has been read, the query runs again as a whole.
    /// Ballista's own repetition of lost tasks is not relied on: a stage that is rolled back while it runs leaves the rows of its finished tasks in
    /// the input of the next stage, which then has them twice (55.0.0).
    pub async fn rows(self) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let mut reasons = vec![];
        for _ in 0..SUBMISSIONS {
            self.jobs.some_executor().await?;
            let reason = match self.ended().await? {
                Ended::Lost(reason) => reason,
                Ended::Finished(job, running) => match begun(job, running).await {
                    Ok(rows) => return Ok(rows),
                    Err(error) => error.strip_backtrace(),
                },
            };
            tracing::warn!(%reason, "a job runs again");
            reasons.push(reason);
        }
        let reason = format!("executors were lost in each of {SUBMISSIONS} runs of a query: {}", reasons.join("; "));
        Err(Error::Worker { worker: self.jobs.address.clone(), reason }.into())
    }

    /// The job when it has ended.
    async fn ended(&self) -> Result<Ended> {
        let removals = self.jobs.executors.removals();
        let (subscriber, statuses) = channel(STATUSES);
        let (context, job) = (Arc::clone(&self.context), Arc::clone(&self.job));
        let submitted = self.jobs.scheduler.submit_physical_plan("warpmill", context, job, Some(subscriber)).await;
        let job = submitted.map_err(errors::of_ballista)?;
        let running = Running { jobs: Arc::clone(&self.jobs), job, is_finished: false, removals };
        running.ended(statuses).await
    }
}

/// A job whose rows are wanted. When dropped, it is cancelled, or its rows are removed.
struct Running {
    jobs: Arc<Jobs>,
    job: JobId,
    is_finished: bool,
    removals: Removals,
}

impl Running {
    async fn ended(mut self, mut statuses: Receiver<JobStatus>) -> Result<Ended> {
        loop {
            let status = tokio::select! {
                status = statuses.recv() => status,
                lost = self.lost() => return Ok(Ended::Lost(lost)),
            };
            match status.map(|status| status.status) {
                Some(Some(Status::Successful(job))) => {
                    self.is_finished = true;
                    return Ok(match self.jobs.ran_again(&self.job).await? {
                        true => Ended::Lost(format!("a stage of job {} ran again", self.job)),
                        false => Ended::Finished(job, self),
                    });
                }
                Some(Some(Status::Failed(job))) => {
                    self.is_finished = true;
                    return match errors::is_of_exchange(&job.error) {
                        true => Ok(Ended::Lost(job.error)),
                        false => Err(errors::of_job(&job.error)),
                    };
                }
                Some(Some(Status::Queued(_) | Status::Running(_)) | None) => {}
                None => return internal_err!("the scheduler stopped before the query was finished"),
            }
        }
    }

    /// Waits until an executor that has tasks of the job is lost, or the last executor.
    async fn lost(&mut self) -> String {
        loop {
            let executor = self.removals.next().await;
            let last = self.jobs.executors.registered_executor_metadata().await.is_empty();
            if last || executor.as_ref().is_none_or(|executor| self.jobs.executors.has_task(&self.job, executor)) {
                return format!("executor {} is lost", executor.as_deref().unwrap_or("of an unknown name"));
            }
        }
    }

    /// The next batch, unless the executor that has it is lost.
    async fn next(&mut self, rows: &mut BoxStream<'static, Result<RecordBatch>>) -> Result<Option<RecordBatch>> {
        tokio::select! {
            batch = rows.try_next() => batch,
            lost = self.lost() => {
                Err(Error::Worker { worker: self.jobs.address.clone(), reason: format!("{lost}, and rows with it") }.into())
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.jobs.executors.forget(&self.job);
        let (jobs, job, is_finished) = (Arc::clone(&self.jobs), self.job.clone(), self.is_finished);
        let runtime = jobs.runtime.clone();
        runtime.spawn(async move {
            if is_finished {
                jobs.scheduler.state.executor_manager.clean_up_job_data(job);
            } else {
                jobs.cancel(job).await;
            }
        });
    }
}

/// The rows of a finished job, of which the first batch has been read.
async fn begun(job: SuccessfulJob, mut running: Running) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let mut rows = futures::stream::iter(job.partition_location).then(fetched).try_flatten().boxed();
    let first = running.next(&mut rows).await?;
    let rest = futures::stream::try_unfold((rows, running), |(mut rows, mut running)| async move {
        Ok(running.next(&mut rows).await?.map(|batch| (batch, (rows, running))))
    });
    Ok(futures::stream::iter(first.map(Ok)).chain(rest).boxed())
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
