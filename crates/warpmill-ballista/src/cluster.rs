//! The executors of a scheduler, and the placement of tasks on them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::error::{BallistaError, Result};
use ballista_core::execution_plans::{RangeShuffleReaderExec, ShuffleReaderExec};
use ballista_core::serde::protobuf::{ExecutorHeartbeat, executor_status, job_status, task_status};
use ballista_core::serde::scheduler::{ExecutorData, ExecutorMetadata, TaskKey};
use ballista_scheduler::cluster::memory::InMemoryClusterState;
use ballista_scheduler::cluster::{BoundTask, ClusterState, ClusterStateEventStream, ExecutorSlot};
use ballista_scheduler::config::TaskDistributionPolicy;
use ballista_scheduler::state::execution_graph::{TaskDescription, create_task_info};
use ballista_scheduler::state::execution_stage::{ExecutionStage, RunningStage};
use ballista_scheduler::state::task_manager::JobInfoCache;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use parking_lot::Mutex;
use tokio::sync::broadcast;

/// The executors of a scheduler, in the memory of its process.
///
/// Tasks are placed here, for two reasons. Partition `i` of a stage goes to the same executor each time if it is free, so that the row segments that
/// it has cached are used again. And free slots are counted anew each time, from the tasks that run: Ballista's own count loses those of tasks whose
/// stage is rolled back (55.0.0), until no task begins any more.
pub(crate) struct Executors {
    states: InMemoryClusterState,
    /// The executors that have had tasks, by job.
    tasks: Mutex<HashMap<JobId, HashSet<String>>>,
    /// Executors that end: their last signs of life do not register them again.
    leaving: Mutex<HashSet<String>>,
    removed: broadcast::Sender<String>,
}

/// Removals that may wait to be read.
const REMOVALS: usize = 1024;

impl Default for Executors {
    fn default() -> Self {
        let (removed, _) = broadcast::channel(REMOVALS);
        Self { states: InMemoryClusterState::default(), tasks: Mutex::default(), leaving: Mutex::default(), removed }
    }
}

/// The executors that are removed from now on.
pub(crate) struct Removals(broadcast::Receiver<String>);

impl Removals {
    /// The next one; `None` where some were missed.
    pub async fn next(&mut self) -> Option<String> {
        match self.0.recv().await {
            Ok(executor) => Some(executor),
            Err(broadcast::error::RecvError::Lagged(_)) => None,
            // The scheduler ends.
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// The free slots of an executor.
#[derive(Debug, PartialEq, Eq)]
struct Free {
    executor: String,
    slots: u32,
}

impl Executors {
    pub fn removals(&self) -> Removals {
        Removals(self.removed.subscribe())
    }

    /// Whether an executor has, or had, a task of a job.
    pub fn has_task(&self, job: &JobId, executor: &str) -> bool {
        self.tasks.lock().get(job).is_some_and(|executors| executors.contains(executor))
    }

    /// Forgets the tasks of a job.
    pub fn forget(&self, job: &JobId) {
        self.tasks.lock().remove(job);
    }

    /// The free slots of `among` (all if `None`), in an order that stays the same.
    async fn free(&self, jobs: &HashMap<JobId, JobInfoCache>, among: Option<&HashSet<String>>) -> Vec<Free> {
        let mut executors = self.states.registered_executor_metadata().await;
        executors.retain(|executor| among.is_none_or(|among| among.contains(&executor.id)));
        executors.sort_by(|one, other| (&one.host, one.port, &one.id).cmp(&(&other.host, other.port, &other.id)));
        let mut used: HashMap<String, u32> = HashMap::new();
        for job in jobs.values() {
            for stage in job.execution_graph.read().await.stages().values() {
                let ExecutionStage::Running(stage) = stage else { continue };
                for task in &stage.task_infos {
                    if let task_status::Status::Running(running) = &task.task_status {
                        *used.entry(running.executor_id.clone()).or_default() += task.vcores_consumed;
                    }
                }
            }
        }
        let free = |executor: ExecutorMetadata| {
            let used = used.get(&executor.id).copied().unwrap_or_default();
            Free { slots: executor.specification.vcores.saturating_sub(used), executor: executor.id }
        };
        executors.into_iter().map(free).collect()
    }
}

#[async_trait]
impl ClusterState for Executors {
    async fn init(&self) -> Result<()> {
        self.states.init().await
    }

    async fn bind_schedulable_tasks(
        &self,
        _: TaskDistributionPolicy,
        jobs: Arc<HashMap<JobId, JobInfoCache>>,
        among: Option<HashSet<String>>,
    ) -> Result<Vec<BoundTask>> {
        let mut free = self.free(&jobs, among.as_ref()).await;
        let mut bound = vec![];
        for (job, known) in jobs.iter() {
            if !matches!(known.status, Some(job_status::Status::Running(_))) {
                continue;
            }
            let mut graph = known.execution_graph.write().await;
            let session = graph.session_id().to_string();
            let mut done = vec![];
            while let Some(stage) = graph.fetch_running_stage(&done) {
                done.push(stage.stage_id);
                while let Some((executor, task)) = next_task(stage, (job, &session), &mut free) {
                    self.tasks.lock().entry(job.clone()).or_default().insert(executor.clone());
                    bound.push((executor, task));
                }
            }
        }
        Ok(bound)
    }

    /// They are counted from the tasks that run.
    async fn unbind_tasks(&self, _: Vec<ExecutorSlot>) -> Result<()> {
        Ok(())
    }

    async fn register_executor(&self, metadata: ExecutorMetadata, data: ExecutorData) -> Result<()> {
        if self.leaving.lock().contains(&metadata.id) {
            return Err(BallistaError::General(format!("executor {} ends", metadata.id)));
        }
        self.states.register_executor(metadata, data).await
    }

    async fn save_executor_metadata(&self, metadata: ExecutorMetadata) -> Result<()> {
        self.states.save_executor_metadata(metadata).await
    }

    async fn get_executor_metadata(&self, executor: &str) -> Result<ExecutorMetadata> {
        self.states.get_executor_metadata(executor).await
    }

    async fn registered_executor_metadata(&self) -> Vec<ExecutorMetadata> {
        self.states.registered_executor_metadata().await
    }

    async fn save_executor_heartbeat(&self, heartbeat: ExecutorHeartbeat) -> Result<()> {
        let status = heartbeat.status.as_ref().and_then(|status| status.status.as_ref());
        if matches!(status, Some(executor_status::Status::Terminating(_))) {
            let mut leaving = self.leaving.lock();
            if leaving.len() >= REMOVALS {
                leaving.clear();
            }
            leaving.insert(heartbeat.executor_id.clone());
        }
        self.states.save_executor_heartbeat(heartbeat).await
    }

    async fn remove_executor(&self, executor: &str) -> Result<()> {
        self.states.remove_executor(executor).await?;
        // An error means that no query runs.
        let _ = self.removed.send(executor.to_string());
        Ok(())
    }

    fn executor_heartbeats(&self) -> HashMap<String, ExecutorHeartbeat> {
        self.states.executor_heartbeats()
    }

    fn get_executor_heartbeat(&self, executor: &str) -> Option<ExecutorHeartbeat> {
        self.states.get_executor_heartbeat(executor)
    }

    async fn cluster_state_events(&self) -> Result<ClusterStateEventStream> {
        self.states.cluster_state_events().await
    }
}

/// The next task of a stage, and its executor; `None` without a task or without room.
fn next_task(stage: &mut RunningStage, (job, session): (&JobId, &str), free: &mut [Free]) -> Option<BoundTask> {
    let partitions = stage.pending.next_slice(if reads_all(&stage.plan) { usize::MAX } else { 1 });
    let first = *partitions.first()?;
    let Some(place) = place(first, free) else {
        stage.pending.reschedule(partitions);
        return None;
    };
    free[place].slots -= 1;
    let executor = free[place].executor.clone();
    let attempt = partitions.iter().map(|&partition| stage.task_failure_numbers[partition]).max();
    let key = TaskKey { job_id: job.clone(), stage_id: stage.stage_id, task_id: stage.task_infos.len() };
    let mut info = create_task_info(executor.clone(), key.task_id);
    (info.global_input_partition_ids, info.vcores_consumed) = (partitions.clone(), 1);
    stage.task_infos.push(info);
    let task = TaskDescription {
        session_id: session.to_string(),
        key,
        stage_attempt_num: stage.stage_attempt_num,
        task_attempt: attempt.unwrap_or_default(),
        global_input_partition_ids: partitions,
        vcores_consumed: 1,
        plan: Arc::clone(&stage.plan),
        session_config: Arc::clone(&stage.session_config),
    };
    Some((executor, task))
}

/// The executor for a partition: its own, or the one with the most free slots.
fn place(partition: usize, free: &[Free]) -> Option<usize> {
    let own = partition.checked_rem(free.len())?;
    if free[own].slots > 0 {
        return Some(own);
    }
    let most = (0..free.len()).max_by_key(|&place| free[place].slots)?;
    (free[most].slots > 0).then_some(most)
}

/// Whether one task has to read all partitions of a stage: a node between its root and its leaves has a single one (of plans that other clients have
/// submitted; as Ballista's own placement decides it).
fn reads_all(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let [mut node] = plan.children()[..] else { return false };
    loop {
        if node.is::<ShuffleReaderExec>() || node.is::<RangeShuffleReaderExec>() {
            return false;
        }
        if node.output_partitioning().partition_count() == 1 {
            return true;
        }
        let [below] = node.children()[..] else { return false };
        node = below;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_go_to_the_same_executors_while_these_are_free() {
        let free = |slots: [u32; 3]| slots.map(|slots| Free { executor: String::new(), slots });
        assert_eq!([0, 1, 2, 3].map(|partition| place(partition, &free([1, 1, 1]))), [0, 1, 2, 0].map(Some));
        assert_eq!(place(1, &free([1, 0, 2])), Some(2));
        assert_eq!(place(1, &free([0, 0, 0])), None);
        assert_eq!(place(1, &[]), None);
    }
}
