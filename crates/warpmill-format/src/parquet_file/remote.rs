//! Parquet files that are read by ranges over a network.
//!
//! Where the pages of a column chunk are, only the chunk itself tells: its headers stand between the pages. A request for each would take
//! ages, so chunks come as a whole, those that a scan wants together, and are kept until the scan has ended, as far as there is room.

use std::collections::HashMap;
use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::file::metadata::ParquetMetaData;

use super::ParquetFile;
use crate::{FormatError, Result};

/// Bytes of a file that were read.
pub type RangeBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// One version of a file that is read by ranges. It is read by threads that may wait.
pub trait RemoteFile: Debug + Send + Sync {
    /// What errors call it: its URL.
    fn url(&self) -> &str;

    /// Its bytes.
    fn bytes(&self) -> u64;

    /// Its footer.
    ///
    /// # Errors
    /// A file that cannot be read, has changed, or is no Parquet file.
    fn footer(&self) -> io::Result<Arc<ParquetMetaData>>;

    /// The bytes of `ranges`, in their order: neighbours by one request, several requests at once.
    ///
    /// # Errors
    /// A file that cannot be read, or has changed.
    fn read(&self, ranges: &[Range<u64>]) -> io::Result<Vec<RangeBytes>>;

    /// Rows `rows` of a column chunk (a row group and a leaf of it), decoded by the host.
    ///
    /// # Errors
    /// A file that cannot be read, has changed, or is damaged.
    fn decode(
        &self,
        metadata: &ArrowReaderMetadata,
        chunk: (usize, usize),
        rows: Range<usize>,
    ) -> io::Result<Vec<RecordBatch>>;
}

/// Bytes of column chunks that the scans of a query may keep, together.
#[derive(Debug, Default)]
pub struct KeptBytes(AtomicU64);

impl KeptBytes {
    /// Room for `bytes` bytes.
    pub fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(bytes)))
    }

    /// Whether `bytes` bytes more have room, which they take then.
    fn take(&self, bytes: u64) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(bytes)).is_ok()
    }
}

/// A remote file, and the column chunks of it that are kept.
pub(super) struct Remote {
    pub file: Arc<dyn RemoteFile>,
    room: Arc<KeptBytes>,
    /// By row group and column: where each begins.
    chunks: Mutex<HashMap<(usize, usize), (u64, RangeBytes)>>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Remote {
    pub fn new(file: Arc<dyn RemoteFile>, room: Arc<KeptBytes>) -> Self {
        Self { file, room, chunks: Mutex::default() }
    }

    /// The bytes from `wanted.start` to `wanted.end` of a column chunk, and where in them these begin.
    pub fn bytes(&self, chunk: (usize, usize), wanted: Range<u64>) -> Result<(u64, RangeBytes)> {
        if let Some((start, bytes)) = self.chunks.lock().get(&chunk)
            && *start <= wanted.start
            && wanted.end <= start + bytes.as_ref().as_ref().len() as u64
        {
            return Ok((*start, bytes.clone()));
        }
        let mut bytes = self.file.read(std::slice::from_ref(&wanted)).map_err(self.failed())?;
        match bytes.pop() {
            Some(found) if found.as_ref().as_ref().len() as u64 == wanted.end - wanted.start => {
                Ok((wanted.start, found))
            }
            _ => Err(self.failed()(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> FormatError + use<'_> {
        FormatError::io("cannot read", self.file.url().as_ref())
    }
}

impl ParquetFile {
    /// Forgets what is kept of a remote file: its scan has ended.
    pub fn release(&self) {
        if let Some(remote) = self.remote() {
            remote.chunks.lock().clear();
        }
    }

    /// Whether it is read over a network.
    pub(crate) fn is_remote(&self) -> bool {
        self.remote().is_some()
    }

    /// Reads column chunks (row groups and leaves) of a remote file that will be wanted, as far as there is room to keep them. Does
    /// nothing for local files.
    ///
    /// # Errors
    /// A file that cannot be read, or has changed.
    pub(crate) fn prefetch(&self, wanted: &[(usize, usize)]) -> Result<()> {
        let Some(remote) = self.remote() else { return Ok(()) };
        let is_new = |chunk: &&(usize, usize)| !remote.chunks.lock().contains_key(*chunk);
        let mut wanted: Vec<(usize, usize)> = wanted.iter().filter(is_new).copied().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut chunks = vec![];
        for (group, column) in wanted {
            let range = self.chunk_range(group, column)?;
            if remote.room.take(range.end - range.start) {
                chunks.push(((group, column), range));
            }
        }
        let ranges: Vec<Range<u64>> = chunks.iter().map(|(_, range)| range.clone()).collect();
        let found = if ranges.is_empty() { vec![] } else { remote.file.read(&ranges).map_err(remote.failed())? };
        let mut kept = remote.chunks.lock();
        for ((chunk, range), bytes) in chunks.into_iter().zip(found) {
            kept.insert(chunk, (range.start, bytes));
        }
        Ok(())
    }
}
