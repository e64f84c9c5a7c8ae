//! Scans of Parquet files that read one version of each: the one that was there when the query was planned.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result as DataFusionResult;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, ParquetFileReaderFactory, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

use super::fetch::{self, Bytes};
use super::{RemoteError, RemoteReason, is_remote};

/// One version of one object of a store.
pub(crate) struct Pinned {
    store: Arc<dyn ObjectStore>,
    base: String,
    expected: ObjectMeta,
    /// The first error, which DataFusion makes a text of on its way.
    failed: Mutex<Option<RemoteError>>,
}

impl Pinned {
    /// The object `expected` of `store`, whose URL is `base`.
    pub fn new(store: Arc<dyn ObjectStore>, base: &str, expected: ObjectMeta) -> Self {
        Self { store, base: base.trim_end_matches('/').into(), expected, failed: Mutex::default() }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("{}/{}", self.base, self.expected.location)
    }

    fn error(&self, error: &StoreError) -> StoreError {
        let error = RemoteError::of(self.url(), error);
        self.failed.lock().get_or_insert_with(|| error.clone());
        error.into()
    }

    /// Whether a response belongs to another version.
    fn is_other(&self, found: &ObjectMeta) -> bool {
        let tags = self.expected.e_tag.as_deref().zip(found.e_tag.as_deref());
        let differs = match tags {
            Some((expected, found)) => opaque(expected) != opaque(found),
            None => found.last_modified.timestamp() != self.expected.last_modified.timestamp(),
        };
        differs || found.size != self.expected.size
    }
}

/// An entity tag without the prefix of weak tags and without quotes, which listings may omit.
fn opaque(tag: &str) -> &str {
    tag.trim_start_matches("W/").trim_matches('"')
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({})", self.url())
    }
}

impl fmt::Display for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url())
    }
}

#[async_trait]
impl ObjectStore for Pinned {
    async fn get_opts(&self, location: &Path, mut options: GetOptions) -> Result<GetResult> {
        // Servers compare weak tags with nothing.
        let strong = self.expected.e_tag.as_ref().filter(|tag| !tag.starts_with("W/"));
        options.if_match = strong.cloned();
        let result = self.store.get_opts(location, options).await.map_err(|error| self.error(&error))?;
        if self.is_other(&result.meta) {
            return Err(self.error(&RemoteError::new(self.url(), RemoteReason::Changed).into()));
        }
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        fetch::ranges(self, location, ranges).await.map_err(|error| self.error(&error))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

/// Opens files as they were when the query was planned.
#[derive(Debug)]
struct PinnedReaders {
    store: Arc<dyn ObjectStore>,
    base: String,
    cache: Arc<FileMetadataCache>,
}

impl PinnedReaders {
    fn open(
        &self,
        partition: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> DataFusionResult<PinnedReader> {
        let pinned = Arc::new(Pinned::new(Arc::clone(&self.store), &self.base, file.object_meta.clone()));
        let readers = CachedParquetFileReaderFactory::new(Arc::clone(&pinned) as _, Arc::clone(&self.cache));
        let reader = readers.create_reader(partition, file, metadata_size_hint, metrics)?;
        Ok(PinnedReader { pinned, reader })
    }
}

impl ParquetFileReaderFactory for PinnedReaders {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> DataFusionResult<Box<dyn AsyncFileReader + Send>> {
        Ok(Box::new(self.open(partition, file, metadata_size_hint, metrics)?))
    }
}

/// A reader that preserves the types of errors.
pub(crate) struct PinnedReader {
    pinned: Arc<Pinned>,
    reader: Box<dyn AsyncFileReader + Send>,
}

impl AsyncFileReader for PinnedReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        // Long ranges by several requests, too.
        self.get_byte_ranges(vec![range]).map(|bytes| bytes.map(|mut bytes| bytes.remove(0))).boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        self.reader.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        let pinned = Arc::clone(&self.pinned);
        let metadata = self.reader.get_metadata(options);
        let named = move |error| match pinned.failed.lock().take() {
            Some(failed) => ParquetError::External(Box::new(failed)),
            None => error,
        };
        metadata.map(|metadata| metadata.map_err(named)).boxed()
    }
}

/// A reader of the object `pinned`.
pub(crate) fn reader(
    pinned: &Pinned,
    file: PartitionedFile,
    cache: Arc<FileMetadataCache>,
) -> DataFusionResult<PinnedReader> {
    let readers = PinnedReaders { store: Arc::clone(&pinned.store), base: pinned.base.clone(), cache };
    readers.open(0, file, Some(FOOTER), &ExecutionPlanMetricsSet::new())
}

/// Bytes at the end of a file that are read with its footer.
pub(super) const FOOTER: usize = 512 << 10;

/// `plan` with scans of Parquet files in object stores and on web servers that notice when a file has changed since.
///
/// # Errors
/// A store that the runtime does not have.
pub(crate) fn pin(plan: Arc<dyn ExecutionPlan>, runtime: &RuntimeEnv) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let pinned = plan.transform_down(|node| {
        let scan =
            node.downcast_ref::<DataSourceExec>().and_then(|node| node.downcast_to_file_source::<ParquetSource>());
        let Some((config, source)) = scan.filter(|(config, _)| is_remote(config.object_store_url.as_str())) else {
            return Ok(Transformed::no(node));
        };
        let store = runtime.object_store(&config.object_store_url)?;
        let cache = runtime.cache_manager.get_file_metadata_cache();
        let readers = PinnedReaders { store, base: config.object_store_url.to_string(), cache };
        let source = source.clone().with_parquet_file_reader_factory(Arc::new(readers));
        let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
        Ok(Transformed::yes(DataSourceExec::from_data_source(config)))
    });
    Ok(pinned?.data)
}
