//! Parquet files whose footers are checked before planning uses them.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Result, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory, FileMeta};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource, ParquetFileReaderFactory};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};
use parking_lot::Mutex;
use parquet::file::metadata::ParquetMetaData;
use warpmill_format::FormatError;
use warpmill_format::guard::decoder_failed;
use warpmill_format::parquet_file::{CheckedFooter, has_fixed_bytes, with_uuids};

use super::bounds::of_all_groups;
use super::damaged;
use super::readers::{LOCAL, path_of};

/// Wraps the formats of another factory in [`CheckedParquet`].
#[derive(Debug)]
pub(crate) struct CheckedParquetFactory(pub Arc<dyn FileFormatFactory>);

impl GetExt for CheckedParquetFactory {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }
}

impl FileFormatFactory for CheckedParquetFactory {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(CheckedParquet(self.0.create(state, options)?)))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(CheckedParquet(self.0.default()))
    }
}

/// Parquet, whose footers are checked before schemas, statistics and orders are taken from them.
#[derive(Debug)]
pub(crate) struct CheckedParquet(pub Arc<dyn FileFormat>);

/// Runs `work` on the file `name`; a panic is reported as damage of the file.
async fn caught<T>(name: &(dyn fmt::Display + Sync), work: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        let (path, detail) = (name.to_string().into(), decoder_failed(&*panic));
        Err(damaged(FormatError::Corrupt { path, segment: None, detail }))
    })
}

/// Reads the footer of a file, with the page indexes that DataFusion reads.
async fn footer(
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    object: &ObjectMeta,
) -> Result<Arc<ParquetMetaData>> {
    let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
    let hint = state.config_options().execution.parquet.metadata_size_hint;
    let readers = CachedParquetFileReaderFactory::new(Arc::clone(store), cache);
    let file = PartitionedFile::new_from_meta(object.clone());
    let metrics = ExecutionPlanMetricsSet::new();
    let read = async {
        let mut reader = readers.create_reader(0, file, hint, &metrics)?;
        Ok(reader.get_metadata(None).await?)
    };
    caught(&path_of(&base_of(store), object.location.as_ref()).display(), read).await
}

/// Checks the footer of a file, and the page indexes that DataFusion reads with it, unless it has been checked before.
async fn check(state: &dyn Session, store: &Arc<dyn ObjectStore>, object: &ObjectMeta) -> Result<()> {
    let base = base_of(store);
    let path = path_of(&base, object.location.as_ref());
    let known = (path.clone(), object.size, object.last_modified.timestamp_micros());
    if KNOWN.lock().contains(&known) {
        return Ok(());
    }
    // The footer alone first: it gives position and size of the indexes.
    if base.starts_with(LOCAL) && path.is_file() {
        CheckedFooter::open(&path).map_err(damaged)?;
    }
    let metadata = footer(state, store, object).await?;
    CheckedFooter::new(metadata, object.size, &path).map_err(damaged)?;
    let mut all = KNOWN.lock();
    if all.len() >= MOST_KNOWN {
        all.clear();
    }
    all.insert(known);
    Ok(())
}

/// Files whose footers have been checked: path, size and modification time in microseconds.
static KNOWN: LazyLock<Mutex<HashSet<(PathBuf, u64, i64)>>> = LazyLock::new(Mutex::default);

/// The largest number of them.
const MOST_KNOWN: usize = 1 << 16;

/// The URL of a store, if known.
pub(super) fn base_of(store: &Arc<dyn ObjectStore>) -> String {
    let name = store.to_string();
    if name.starts_with("LocalFileSystem") { format!("{LOCAL}///") } else { name }
}

#[async_trait]
impl FileFormat for CheckedParquet {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.0.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.0.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let at_once = state.config_options().execution.meta_fetch_concurrency.get();
        let checks = futures::stream::iter(objects).map(|object| check(state, store, object)).boxed();
        checks.buffer_unordered(at_once).try_collect::<()>().await?;
        let names = objects.iter().map(|object| object.location.to_string()).collect::<Vec<_>>().join(", ");
        let schema = caught(&names, self.0.infer_schema(state, store, objects)).await?;
        let objects = if has_fixed_bytes(&schema) { objects } else { &[] };
        let footers = futures::stream::iter(objects).map(|object| footer(state, store, object)).boxed();
        Ok(with_uuids(&schema, &footers.buffered(at_once).try_collect::<Vec<_>>().await?))
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        check(state, store, object).await?;
        let inferred = self.0.infer_stats(state, store, Arc::clone(&schema), object);
        let stats = caught(&object.location, inferred).await?;
        Ok(of_all_groups(stats, &schema, &*footer(state, store, object).await?))
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        check(state, store, object).await?;
        caught(&object.location, self.0.infer_ordering(state, store, schema, object)).await
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        check(state, store, object).await?;
        let inferred = self.0.infer_stats_and_ordering(state, store, Arc::clone(&schema), object);
        let mut found = caught(&object.location, inferred).await?;
        found.statistics = of_all_groups(found.statistics, &schema, &*footer(state, store, object).await?);
        Ok(found)
    }

    async fn create_physical_plan(&self, state: &dyn Session, scan: FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.create_physical_plan(state, scan).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        sink: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.create_writer_physical_plan(input, state, sink, order).await
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        self.0.file_source(schema)
    }
}
