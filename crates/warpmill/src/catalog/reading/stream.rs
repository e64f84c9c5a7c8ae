//! Scans of files that are unpacked or cleaned while they are read: one thread for each file.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;

use crate::{Error, Result};

/// Batches that wait for their reader.
const WAITING: usize = 2;

/// The rows of a file.
pub(super) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// A file format with its reader.
pub(super) trait Format: Debug + Send + Sync + 'static {
    /// Opens `path` for reading in batches of `rows` rows, with the columns `schema`.
    ///
    /// # Errors
    /// A file that cannot be opened.
    fn open(&self, path: &Path, schema: &SchemaRef, rows: usize) -> Result<Batches>;
}

/// The rows of `files`.
pub(super) fn table(files: &[String], schema: &SchemaRef, format: &Arc<dyn Format>) -> Result<Arc<dyn TableProvider>> {
    let of = |path: &String| {
        let (path, schema, format) = (PathBuf::from(path), Arc::clone(schema), Arc::clone(format));
        Arc::new(File { path, schema, format }) as Arc<dyn PartitionStream>
    };
    Ok(Arc::new(StreamingTable::try_new(Arc::clone(schema), files.iter().map(of).collect())?))
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    schema: SchemaRef,
    format: Arc<dyn Format>,
}

impl PartitionStream for File {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), WAITING);
        let (sender, rows) = (stream.tx(), context.session_config().batch_size());
        let (path, schema, format) = (self.path.clone(), Arc::clone(&self.schema), Arc::clone(&self.format));
        stream.spawn_blocking(move || -> DataFusionResult<()> {
            for batch in format.open(&path, &schema, rows)? {
                let failed = |error| DataFusionError::from(Error::Execution(format!("{}: {error}", path.display())));
                // The reader has been dropped.
                if sender.blocking_send(Ok(batch.map_err(failed)?)).is_err() {
                    break;
                }
            }
            Ok(())
        });
        stream.build()
    }
}
