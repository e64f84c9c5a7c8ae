//! `INSERT INTO` a table of Warpmill.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::StreamExt;
use warpmill_format::{Table, TableWriter};

use crate::settings::WarpmillOptions;
use crate::{Error, WriteOptions};

/// Appends rows to a table, or replaces them; all or nothing.
#[derive(Debug)]
pub(crate) struct TableSink {
    table: Arc<Table>,
    /// The table's schema.
    stored: SchemaRef,
    /// The same without NOT NULL: the writer refuses NULLs, and names the column.
    schema: SchemaRef,
    overwrite: bool,
}

impl TableSink {
    pub(crate) fn new(table: Arc<Table>, stored: SchemaRef, overwrite: bool) -> Self {
        let fields = stored.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self { table, stored, schema, overwrite }
    }
}

impl DisplayAs for TableSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WarpmillTable, {}", if self.overwrite { "replace" } else { "append" })
    }
}

#[async_trait]
impl DataSink for TableSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        let options = WarpmillOptions::of(context.session_config().options());
        let options = write_options(&options);
        let writer = match self.overwrite {
            true => self.table.replace(Arc::clone(&self.stored), options),
            false => self.table.append(options),
        };
        let (writer, rows) = write_stream(writer.map_err(Error::from)?, data).await?;
        blocking(move || Ok(writer.commit()?)).await?;
        Ok(rows)
    }
}

/// Bytes of a row segment that is being filled: a few of them are in memory at a time, which the session's limit holds for.
pub(crate) fn segment_bytes(options: &WarpmillOptions) -> usize {
    /// Less would make segments that are slow to read.
    const LEAST: usize = 32 << 20;
    let most = WriteOptions::default().segment_bytes;
    (options.memory_limit / 8).clamp(LEAST, most)
}

/// How the session's settings write tables.
pub(crate) fn write_options(options: &WarpmillOptions) -> WriteOptions {
    WriteOptions {
        segment_rows: options.segment_rows,
        segment_bytes: segment_bytes(options),
        metadata: options.pruning_metadata,
        zone_rows: options.zone_rows,
        threads: options.threads,
        codec: options.codec.options(options.worker_threads()),
        direct_io: options.direct_io,
        ..WriteOptions::default()
    }
}

/// Writes all batches of `data`; encoding runs on blocking threads.
pub(crate) async fn write_stream(
    mut writer: TableWriter,
    mut data: SendableRecordBatchStream,
) -> Result<(TableWriter, u64)> {
    let mut rows = 0;
    while let Some(batch) = data.next().await.transpose()? {
        rows += batch.num_rows() as u64;
        writer = blocking(move || {
            writer.write(&batch)?;
            Ok(writer)
        })
        .await?;
    }
    Ok((writer, rows))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> crate::Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??)
}
