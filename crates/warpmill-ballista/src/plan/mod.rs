//! The plan of a job: stages as nodes that Ballista moves and does not look into.

mod parts;
mod task;

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::memory::{DataSourceExec, MemorySourceConfig};
use datafusion::common::Result;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use warpmill_distributed::stages::{Exchange, Input, Stage};

pub(crate) use parts::PartsExec;
pub(crate) use task::{InputKind, TaskExec};

/// The plan of a job whose result are the rows of `stage`, for `tasks` tasks.
///
/// # Errors
/// Errors of DataFusion in making plan nodes.
pub(crate) fn job(stage: Stage, tasks: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let (mut kinds, mut inputs) = (vec![], vec![]);
    for input in stage.inputs {
        let (kind, input): (_, Arc<dyn ExecutionPlan>) = match input {
            Input::Whole(leaf) => (InputKind::Whole, leaf),
            Input::Parts(parts) => (InputKind::Part, Arc::new(PartsExec::new(numbers(parts.len())?, parts))),
            Input::Rows(of, Exchange::Shuffle(keys)) => {
                let by_key = RepartitionExec::try_new(job(*of, tasks)?, Partitioning::Hash(keys, tasks))?;
                (InputKind::Shuffled, Arc::new(by_key))
            }
            Input::Rows(of, Exchange::Broadcast) => {
                (InputKind::All, Arc::new(CoalescePartitionsExec::new(job(*of, tasks)?)))
            }
            Input::Rows(of, Exchange::Gather) => {
                (InputKind::Gathered, Arc::new(CoalescePartitionsExec::new(job(*of, tasks)?)))
            }
        };
        kinds.push(kind);
        inputs.push(input);
    }
    Ok(Arc::new(TaskExec::new(stage.task, stage.schema, kinds, inputs)))
}

/// A source with one partition for each task, which holds the task's number. Ballista leaves a task its own partition.
fn numbers(tasks: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = number_schema();
    let batch = |task: usize| {
        let number = UInt64Array::from(vec![task as u64]);
        Ok(vec![RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(number)])?])
    };
    let partitions = (0..tasks).map(batch).collect::<Result<Vec<_>>>()?;
    Ok(DataSourceExec::from_data_source(MemorySourceConfig::try_new(&partitions, Arc::clone(&schema), None)?))
}

fn number_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("task", DataType::UInt64, false)]))
}
