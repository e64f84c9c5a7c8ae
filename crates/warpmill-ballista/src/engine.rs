//! Tasks as programs.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::client_pool::BallistaClientPool;
use ballista_core::execution_plans::sort_shuffle::SortShuffleWriterExec;
use ballista_core::execution_plans::{ShuffleReaderExec, ShuffleWriterExec};
use ballista_core::serde::protobuf::ShuffleWritePartition;
use ballista_core::utils::collect_plan_metrics;
use ballista_executor::execution_engine::{
    DefaultExecutionEngine, DefaultQueryStageExec, ExecutionEngine, QueryStageExecutor, ShuffleWriterVariant,
};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::prelude::SessionConfig;
use tokio::runtime::Handle;
use warpmill::offload::QueryHandle;
use warpmill_distributed::stages::TaskPlans;

use crate::errors;
use crate::plan::TaskExec;

/// Runs the tasks of jobs that Warpmill has planned; other jobs are DataFusion's.
pub(crate) struct TaskEngine {
    plans: TaskPlans,
    /// Threads that poll tasks.
    threads: Handle,
    clients: Arc<dyn BallistaClientPool>,
    others: DefaultExecutionEngine,
}

impl TaskEngine {
    pub fn new(clients: Arc<dyn BallistaClientPool>, threads: Handle) -> Self {
        let others = DefaultExecutionEngine::with_client_pool(Arc::clone(&clients));
        Self { plans: TaskPlans::default(), threads, clients, others }
    }

    /// `plan` with readers that know where rows are kept.
    fn with_readers(&self, plan: Arc<dyn ExecutionPlan>, work_dir: &str) -> Result<Arc<dyn ExecutionPlan>> {
        let placed = plan.transform_up(|node| match node.downcast_ref::<ShuffleReaderExec>() {
            Some(reader) => {
                let reader = reader.with_work_dir(work_dir.to_string()).with_client_pool(Arc::clone(&self.clients));
                Ok(Transformed::yes(Arc::new(reader) as Arc<dyn ExecutionPlan>))
            }
            None => Ok(Transformed::no(node)),
        })?;
        Ok(placed.data)
    }
}

impl fmt::Debug for TaskEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskEngine")
    }
}

impl ExecutionEngine for TaskEngine {
    fn create_query_stage_exec(
        &self,
        job: JobId,
        stage: usize,
        task: usize,
        partitions: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        if !plan.children().first().is_some_and(|below| below.is::<TaskExec>()) {
            return self.others.create_query_stage_exec(job, stage, task, partitions, plan, work_dir, config);
        }
        let sets = collect_plan_metrics(plan.as_ref()).len();
        let plan = self.with_readers(plan, work_dir)?;
        let Some(node) = plan.children()[0].downcast_ref::<TaskExec>() else { return internal_err!("a task is gone") };
        let rows = self.plans.plan(node.task(), node.task_inputs()?, config)?;
        let work_dir = work_dir.to_string();
        let writer = if let Some(writer) = plan.downcast_ref::<SortShuffleWriterExec>() {
            let (keys, config) = (writer.shuffle_output_partitioning().clone(), writer.config().clone());
            let writer = SortShuffleWriterExec::try_new(job, stage, rows, work_dir, keys, config)?;
            ShuffleWriterVariant::Sort(writer.with_task_id(task).with_global_output_partition_ids(partitions))
        } else if plan.is::<ShuffleWriterExec>() {
            let writer = ShuffleWriterExec::try_new(job, stage, rows, work_dir)?;
            ShuffleWriterVariant::Passthrough(writer.with_task_id(task).with_global_output_partition_ids(partitions))
        } else {
            return internal_err!("{} does not write rows of a stage", plan.name());
        };
        let writer = Arc::new(DefaultQueryStageExec::new(writer));
        Ok(Arc::new(TaskStage { writer, sets, threads: self.threads.clone() }))
    }
}

/// `context` in which programs stop with `handle`.
fn with_handle(context: &TaskContext, handle: Arc<QueryHandle>) -> Arc<TaskContext> {
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        context.session_config().clone().with_extension(handle),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    ))
}

/// Stops the programs of a task when Ballista drops it.
struct CancelOnDrop(Arc<QueryHandle>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel.cancel();
    }
}

/// A task that writes its rows.
#[derive(Debug)]
struct TaskStage {
    writer: Arc<DefaultQueryStageExec>,
    threads: Handle,
    /// Number of nodes with metrics of the plan that the scheduler sent.
    sets: usize,
}

impl fmt::Display for TaskStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.writer.fmt(f)
    }
}

#[async_trait]
impl QueryStageExecutor for TaskStage {
    async fn execute_query_stage(&self, task: usize, context: Arc<TaskContext>) -> Result<Vec<ShuffleWritePartition>> {
        let handle = Arc::new(QueryHandle::default());
        let _guard = CancelOnDrop(Arc::clone(&handle));
        let (writer, context) = (Arc::clone(&self.writer), with_handle(&context, handle));
        // A program may run while the writer is polled, and Ballista drops the future of a cancelled task only where it waits: here.
        let written = self.threads.spawn(async move { writer.execute_query_stage(task, context).await });
        match written.await {
            Ok(written) => written.map_err(errors::of_task),
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(ended) => internal_err!("a task has ended early: {ended}"),
            },
        }
    }

    /// The metrics of the writer: the scheduler expects a set for each node that it has sent, and programs have other nodes.
    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        let mut metrics = self.writer.collect_plan_metrics();
        metrics.truncate(1);
        metrics.resize(self.sets, MetricsSet::new());
        metrics
    }
}
