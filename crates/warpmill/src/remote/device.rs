//! Parquet files in remote stores for devices, which read them with blocking calls.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use futures::TryStreamExt;
use object_store::ObjectMeta;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use warpmill_engine::CancelToken;
use warpmill_format::parquet_file::{RangeBytes, RemoteFile};

use super::pinned::{FOOTER, Pinned, reader};
use super::store::NETWORK;
use super::{RemoteError, RemoteReason, fetch};

/// The interval at which a thread that waits looks whether its query was cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// One version of a Parquet file in a store, for one query.
#[derive(Debug)]
pub(crate) struct RemoteParquet {
    pinned: Arc<Pinned>,
    url: String,
    object: ObjectMeta,
    cache: Arc<FileMetadataCache>,
    cancel: CancelToken,
}

impl RemoteParquet {
    /// The object `object` in the store of `url`; reads end when `cancel` stops the query.
    ///
    /// # Errors
    /// A store unknown to `runtime`.
    pub fn new(
        runtime: &RuntimeEnv,
        url: &ObjectStoreUrl,
        object: ObjectMeta,
        cancel: CancelToken,
    ) -> datafusion::common::Result<Self> {
        let pinned = Pinned::new(runtime.object_store(url)?, url.as_str(), object.clone());
        let cache = runtime.cache_manager.get_file_metadata_cache();
        Ok(Self { url: pinned.url(), pinned: Arc::new(pinned), object, cache, cancel })
    }

    /// Blocks until `work` ends or the query is cancelled, which ends its requests. Must not be called on threads of the async runtime.
    fn wait<T, E: std::error::Error + Send + Sync + 'static>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> io::Result<T> {
        let cancelled = async {
            while self.cancel.check().is_ok() {
                tokio::time::sleep(LOOK).await;
            }
        };
        NETWORK.block_on(async {
            tokio::select! {
                found = work => found.map_err(io::Error::other),
                () = cancelled => {
                    Err(io::Error::other(RemoteError::new(self.url.clone(), RemoteReason::Cancelled)))
                }
            }
        })
    }
}

impl RemoteFile for RemoteParquet {
    fn url(&self) -> &str {
        &self.url
    }

    fn bytes(&self) -> u64 {
        self.object.size
    }

    fn footer(&self) -> io::Result<Arc<ParquetMetaData>> {
        let metadata = DFParquetMetadata::new(&*self.pinned, &self.object)
            .with_file_metadata_cache(Some(Arc::clone(&self.cache)))
            .with_metadata_size_hint(Some(FOOTER))
            .with_page_index_policy(Some(PageIndexPolicy::Skip));
        self.wait(metadata.fetch_metadata())
    }

    fn read(&self, ranges: &[Range<u64>]) -> io::Result<Vec<RangeBytes>> {
        let found = self.wait(fetch::ranges(&*self.pinned, &self.object.location, ranges))?;
        Ok(found.into_iter().map(|bytes| Arc::new(bytes) as RangeBytes).collect())
    }

    fn decode(
        &self,
        metadata: &ArrowReaderMetadata,
        (group, column): (usize, usize),
        rows: Range<usize>,
    ) -> io::Result<Vec<RecordBatch>> {
        let file = PartitionedFile::new_from_meta(self.object.clone());
        let reader = reader(&self.pinned, file, Arc::clone(&self.cache)).map_err(io::Error::other)?;
        let builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, metadata.clone());
        let mask = ProjectionMask::leaves(builder.parquet_schema(), [column]);
        let stream = builder
            .with_row_groups(vec![group])
            .with_projection(mask)
            .with_offset(rows.start)
            .with_limit(rows.len())
            .with_batch_size(rows.len().max(1))
            .build()
            .map_err(io::Error::other)?;
        self.wait(stream.try_collect())
    }
}
