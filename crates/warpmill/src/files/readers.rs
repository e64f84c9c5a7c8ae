//! Readers of Parquet files that check their input.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::Result as DataFusionResult;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use warpmill_format::FormatError;
use warpmill_format::parquet_file::CheckedFooter;

use super::bounds::reliable;
use crate::Error;
use crate::remote::Bytes;

/// The beginning of URLs of the local file system.
pub(super) const LOCAL: &str = "file:";

/// Files that were opened last, which errors look at.
const MOST_OPENED: usize = 64;

/// The files that a scan has opened last.
#[derive(Debug, Default)]
pub(super) struct Opened(Mutex<VecDeque<PathBuf>>);

impl Opened {
    fn note(&self, path: &Path) {
        let mut paths = self.0.lock();
        paths.retain(|known| known != path);
        paths.push_front(path.to_owned());
        paths.truncate(MOST_OPENED);
    }

    /// The opened files, the latest first.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.lock().iter().cloned().collect()
    }
}

/// Opens files whose footers, pages and indexes are checked.
pub(super) struct CheckedReaders {
    /// The factory of the wrapped readers.
    pub inner: Arc<dyn ParquetFileReaderFactory>,
    /// The URL of the store.
    pub base: String,
    /// Records the opened files.
    pub opened: Arc<Opened>,
}

impl fmt::Debug for CheckedReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl ParquetFileReaderFactory for CheckedReaders {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> DataFusionResult<Box<dyn AsyncFileReader + Send>> {
        let (path, bytes) = (path_of(&self.base, file.object_meta.location.as_ref()), file.object_meta.size);
        self.opened.note(&path);
        let inner = self.inner.create_reader(partition, file, metadata_size_hint, metrics)?;
        Ok(Box::new(CheckedReader { inner, path, bytes, footer: None }))
    }
}

/// The name of a file for errors, at `location` of the store `base`: its path, or its URL.
pub(super) fn path_of(base: &str, location: &str) -> PathBuf {
    match base.starts_with(LOCAL) {
        true => Path::new("/").join(location),
        false => PathBuf::from(format!("{}/{location}", base.trim_end_matches('/'))),
    }
}

/// A reader that checks its input.
struct CheckedReader {
    inner: Box<dyn AsyncFileReader + Send>,
    path: PathBuf,
    bytes: u64,
    footer: Option<Arc<CheckedFooter>>,
}

impl CheckedReader {
    fn check(&self, range: &Range<u64>, bytes: &[u8]) -> Result<()> {
        self.footer.as_ref().map_or(Ok(()), |footer| footer.check(range, bytes).map_err(external))
    }
}

/// A footer that was checked, with its reliable bounds.
struct Checked {
    footer: Arc<CheckedFooter>,
    reliable: Arc<ParquetMetaData>,
}

/// The footers checked last, shared by the partitions of a scan and by later queries.
static CHECKED: Mutex<VecDeque<Arc<Checked>>> = Mutex::new(VecDeque::new());

/// The largest number of them.
const MOST_CHECKED: usize = 16;

/// The footer of the file `path` of `bytes` bytes, checked unless the cache has it.
fn checked(metadata: &Arc<ParquetMetaData>, bytes: u64, path: &Path) -> Result<Arc<Checked>> {
    let is_it = |known: &&Arc<Checked>| Arc::ptr_eq(known.footer.metadata(), metadata);
    if let Some(known) = CHECKED.lock().iter().find(is_it) {
        return Ok(Arc::clone(known));
    }
    let footer = Arc::new(CheckedFooter::new(Arc::clone(metadata), bytes, path).map_err(external)?);
    let made = Arc::new(Checked { footer, reliable: reliable(metadata)? });
    let mut all = CHECKED.lock();
    all.push_front(Arc::clone(&made));
    all.truncate(MOST_CHECKED);
    Ok(made)
}

fn external(error: FormatError) -> ParquetError {
    ParquetError::External(Box::new(Error::from(error)))
}

impl AsyncFileReader for CheckedReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move {
            let bytes = self.inner.get_bytes(range.clone()).await?;
            self.check(&range, &bytes)?;
            Ok(bytes)
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        async move {
            let found = self.inner.get_byte_ranges(ranges.clone()).await?;
            ranges.iter().zip(&found).try_for_each(|(range, bytes)| self.check(range, bytes))?;
            Ok(found)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        async move {
            let metadata = self.inner.get_metadata(options).await?;
            let checked = checked(&metadata, self.bytes, &self.path)?;
            self.footer = Some(Arc::clone(&checked.footer));
            Ok(Arc::clone(&checked.reliable))
        }
        .boxed()
    }
}
