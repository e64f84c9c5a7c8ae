//! DataFusion's asynchronous streams as the blocking inputs of a program.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use warpmill_engine::InputStream;

use super::QueryHandle;
use crate::caught_async;
use crate::files::in_file_order;

/// The interval at which an input checks whether its rows are still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// Batches that may wait between the two sides.
const BATCHES_AHEAD: usize = 8;

/// The first error of a program's inputs: more specific than the error of the engine, which sees only its text.
pub(super) type FirstError = Arc<Mutex<Option<DataFusionError>>>;

/// All partitions of `plan` as one input, in the plan's order where it has one. Must be called inside a tokio runtime,
/// which runs the plan; the input is read outside of it.
pub(super) fn input(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    first_error: &FirstError,
) -> Result<InputStream> {
    let mut stream = merged(plan).execute(0, Arc::clone(context))?;
    let (sender, receiver) = mpsc::channel::<Result<RecordBatch, String>>(BATCHES_AHEAD);
    let first_error = Arc::clone(first_error);
    let handle = context.session_config().get_extension::<QueryHandle>().unwrap_or_default();
    let cancel = handle.cancel.clone();
    let (progress, rows) = (handle.progress.scan(expected_rows(plan).unwrap_or_default()), Arc::<AtomicU64>::default());
    progress.begin(0, Arc::clone(&rows));
    tokio::spawn(async move {
        // Requests to stores and servers end with the query, whatever they wait for.
        let given_up = async {
            while !sender.is_closed() && cancel.check().is_ok() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let pass_on = async {
            // Without catching its panic, a stream that ends early would look like a stream with fewer rows.
            let mut next =
                async || caught_async(async { Ok(stream.next().await) }).await.map_err(DataFusionError::from);
            while let Some(batch) = next().await.unwrap_or_else(|panic| Some(Err(panic))) {
                let batch = batch.map_err(|error| {
                    let text = error.to_string();
                    first_error.lock().get_or_insert(error);
                    text
                });
                let failed = batch.is_err();
                rows.fetch_add(batch.as_ref().map_or(0, |batch| batch.num_rows() as u64), Ordering::Relaxed);
                // The receiver is gone if the program has ended before its input.
                if sender.send(batch).await.is_err() || failed {
                    return;
                }
            }
        };
        tokio::select! {
            () = pass_on => {}
            () = given_up => {}
        }
        drop(progress);
    });
    Ok(Box::new(Received(receiver)))
}

/// Rows that `plan` is expected to return; `None` where unknown.
pub(super) fn expected_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
    statistics.num_rows.get_value().map(|&rows| rows as u64)
}

/// As [`input`], but runs nothing before the first batch is requested.
pub(super) fn later(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    first_error: &FirstError,
) -> InputStream {
    let (plan, context, first_error) = (Arc::clone(plan), Arc::clone(context), Arc::clone(first_error));
    let runtime = tokio::runtime::Handle::current();
    let start = move || {
        // Programs read their inputs on threads of their own.
        let _inside = runtime.enter();
        input(&plan, &context, &first_error).unwrap_or_else(|error| {
            let text = error.to_string();
            first_error.lock().get_or_insert(error);
            Box::new(std::iter::once(Err(text)))
        })
    };
    Box::new(std::iter::once_with(start).flatten())
}

/// `plan` with one partition, in the order of the files that it reads, if it only reads files.
pub(super) fn merged(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    if plan.output_partitioning().partition_count() <= 1 {
        return Arc::clone(plan);
    }
    if let Some(ordered) = in_file_order(plan) {
        return ordered;
    }
    match plan.output_ordering() {
        Some(order) => Arc::new(SortPreservingMergeExec::new(order.clone(), Arc::clone(plan))),
        None => Arc::new(CoalescePartitionsExec::new(Arc::clone(plan))),
    }
}

struct Received(mpsc::Receiver<Result<RecordBatch, String>>);

impl Iterator for Received {
    type Item = Result<RecordBatch, String>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.blocking_recv()
    }
}
