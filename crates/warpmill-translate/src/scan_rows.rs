//! Rows of a table for DataFusion's operators, for types that programs do not support ([`ColType::of`](warpmill_ir::ColType::of)).

use std::sync::Arc;

use arrow::compute::filter;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};
use warpmill_format::{FormatError, TableSnapshot};

/// The rows of columns `projection` of `table`, in order, with schema `schema`. Decodes as many row segments at a time as there are threads.
pub(crate) fn rows(
    table: &Arc<TableSnapshot>,
    projection: &[usize],
    schema: SchemaRef,
    context: &TaskContext,
) -> SendableRecordBatchStream {
    let config = context.session_config();
    let (threads, most) = (config.target_partitions().max(1), config.batch_size().max(1));
    let (table, projection): (_, Arc<[usize]>) = (Arc::clone(table), projection.into());
    let of = Arc::clone(&schema);
    let decoded = stream::iter(0..table.num_segments()).map(move |segment| {
        let (table, projection, schema) = (Arc::clone(&table), Arc::clone(&projection), Arc::clone(&of));
        let task = SpawnedTask::spawn_blocking(move || decode(&table, segment, &projection, schema));
        async move { task.join().await.map_err(|error| DataFusionError::External(error.into()))? }
    });
    let batches = decoded.buffered(threads).map_ok(move |rows| {
        let starts = (0..rows.num_rows()).step_by(most);
        let parts: Vec<_> = starts.map(|start| Ok(rows.slice(start, most.min(rows.num_rows() - start)))).collect();
        stream::iter(parts)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches.try_flatten()))
}

/// Decodes columns of a row segment, without deleted rows.
fn decode(table: &TableSnapshot, segment: usize, projection: &[usize], schema: SchemaRef) -> Result<RecordBatch> {
    let external = |error: FormatError| DataFusionError::External(error.into());
    let kept = table.kept(segment).map_err(external)?;
    let column = |&column: &usize| {
        let array = table.array(segment, column).map_err(external)?;
        Ok(match &kept {
            Some(kept) => filter(&array, kept)?,
            None => array,
        })
    };
    let columns = projection.iter().map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(table.kept_rows(segment)));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}
