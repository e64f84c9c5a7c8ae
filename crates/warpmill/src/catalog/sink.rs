//! `INSERT INTO` a table of Warpmill.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::StreamExt;
use warpmill_engine::DeviceChoice;
use warpmill_format::{Table, TableSnapshot, TableWriter};

use super::relatives::Siblings;
use crate::commit::GivenUp;
use crate::offload::QueryHandle;
use crate::session::constraints::Checks;
use crate::settings::WarpmillOptions;
use crate::{CommitGate, Error, WriteOptions};

/// Appends rows to a table, or replaces its rows; all or nothing.
#[derive(Debug)]
pub(crate) struct TableSink {
    /// The name of the table in errors.
    name: String,
    table: Arc<Table>,
    /// The version that the statement was planned for.
    planned: Arc<TableSnapshot>,
    /// The schema without NOT NULL: the writer itself refuses NULLs, with the column's name.
    accepted: SchemaRef,
    overwrite: bool,
    /// The CHECK conditions of the table.
    checks: Option<Arc<Checks>>,
    /// The tables beside it, for its foreign keys.
    siblings: Option<Arc<Siblings>>,
}

impl TableSink {
    /// A sink for rows of `table` in version `planned`, named `name` in errors.
    pub(crate) fn new(name: &str, table: Arc<Table>, planned: Arc<TableSnapshot>, overwrite: bool) -> Self {
        let fields = planned.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let accepted = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self { name: name.to_string(), table, planned, accepted, overwrite, checks: None, siblings: None }
    }

    /// The same sink with the table's CHECK conditions, and the tables beside it.
    pub(crate) fn with_checks(self, checks: Option<Arc<Checks>>, siblings: Option<Arc<Siblings>>) -> Self {
        Self { checks, siblings, ..self }
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
        &self.accepted
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        let config = context.session_config();
        let options = write_options(&WarpmillOptions::of(config.options()));
        let gate = config.get_extension::<QueryHandle>().map_or_else(CommitGate::default, |query| query.commit.clone());
        let given_up = GivenUp::cancels(&gate);
        let written = async {
            let writer = match self.overwrite {
                true => self.table.replace_rows(&self.planned, options),
                false => self.table.append_to(&self.planned, options),
            };
            let mut writer = writer.map_err(Error::from)?;
            writer.commit_only_if(move || gate.pass());
            guarded(&mut writer, &self.name, self.checks.as_ref(), self.siblings.as_ref());
            let Few { batches, rest } = Few::of(data).await?;
            let Some(rest) = rest else {
                return blocking(move || {
                    writer.merge_tail()?;
                    let mut rows = 0;
                    for batch in batches {
                        writer.write(&batch)?;
                        rows += batch.num_rows() as u64;
                    }
                    writer.commit()?;
                    Ok(rows)
                })
                .await;
            };
            writer = blocking(move || {
                writer.merge_tail()?;
                Ok(writer)
            })
            .await?;
            let (writer, rows) = write_stream(writer, rest).await?;
            blocking(move || Ok(writer.commit()?)).await?;
            Ok::<_, DataFusionError>(rows)
        };
        let written = written.await;
        given_up.done();
        written
    }
}

/// Prepares a writer for the table named `name` in errors, with its CHECK conditions and the tables beside it.
pub(crate) fn guarded(
    writer: &mut TableWriter,
    name: &str,
    checks: Option<&Arc<Checks>>,
    siblings: Option<&Arc<Siblings>>,
) {
    writer.call(name);
    if let Some(siblings) = siblings {
        writer.relate(Arc::clone(siblings) as _);
    }
    if let Some(checks) = checks {
        writer.check_by(Arc::clone(checks) as _);
    }
}

/// Number of rows that are written by one task with the commit.
const FEW_ROWS: usize = 4096;
/// Their bytes, at most.
const FEW_BYTES: usize = 1 << 20;

/// The rows of a stream, if they are few.
struct Few {
    batches: Vec<RecordBatch>,
    /// All rows, if they are many.
    rest: Option<SendableRecordBatchStream>,
}

impl Few {
    async fn of(mut data: SendableRecordBatchStream) -> Result<Self> {
        let (mut batches, mut rows, mut bytes) = (vec![], 0, 0);
        while let Some(batch) = data.next().await.transpose()? {
            rows += batch.num_rows();
            bytes += batch.get_array_memory_size();
            batches.push(batch);
            if rows > FEW_ROWS || bytes > FEW_BYTES {
                let schema = data.schema();
                let all = futures::stream::iter(batches.into_iter().map(Ok)).chain(data);
                let rest: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema, all));
                return Ok(Self { batches: vec![], rest: Some(rest) });
            }
        }
        Ok(Self { batches, rest: None })
    }
}

/// Largest size of a row segment being filled, in bytes: a few of them are in memory at a time, which the session's limit covers.
pub(crate) fn segment_bytes(options: &WarpmillOptions) -> usize {
    /// Smaller segments would be slow to read.
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
        symbols: !has_gpu(options),
        direct_io: options.direct_io,
        keep_versions: options.keep_versions,
        least_marked: options.least_marked,
        key_bytes: options.memory_limit,
        log: true,
        ..WriteOptions::default()
    }
}

/// Whether the session's programs run on a GPU: the host would have to make plain strings of symbols for it.
fn has_gpu(options: &WarpmillOptions) -> bool {
    let may = matches!(options.device, DeviceChoice::Auto | DeviceChoice::Gpu);
    may && warpmill_engine::has_device(options.device, &options.ordinals, options.gpu_memory_limit as u64)
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
