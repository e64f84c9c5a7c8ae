//! Parquet files that are read by ranges over a network.
//!
//! The headers of pages, which stand between them, tell where they are in a column chunk. A request for each would take ages, so chunks come
//! as a whole, or, where an offset index has told which pages are wanted, their ranges; those that a scan wants come together, and are kept
//! until the scan has ended, as far as there is room.

use std::collections::HashMap;
use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
    /// Its name in errors: its URL.
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
pub struct KeptBytes {
    all: u64,
    left: AtomicU64,
}

/// Bytes beyond these that may be on their way, at most.
const WINDOW: u64 = 256 << 20;

impl KeptBytes {
    /// Room for `bytes` bytes.
    pub fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self { all: bytes, left: AtomicU64::new(bytes) })
    }

    /// Whether `bytes` bytes more have room, which they take then.
    pub(super) fn take(&self, bytes: u64) -> bool {
        self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(bytes)).is_ok()
    }

    /// Bytes beyond them that may be on their way: half as many, or enough to keep a network busy.
    pub(super) fn window(&self) -> u64 {
        (self.all / 2).min(WINDOW)
    }
}

/// A part of a column chunk (a row group and a leaf), in bytes of the file.
pub(crate) type Wanted = ((usize, usize), Range<u64>);

/// Parts of a column chunk, and where in the file they begin.
pub(super) type ChunkParts = Vec<(u64, RangeBytes)>;

/// A remote file, and the column chunks of it that are kept.
pub(super) struct Remote {
    pub file: Arc<dyn RemoteFile>,
    pub(super) room: Arc<KeptBytes>,
    /// By row group and column.
    pub(super) chunks: Mutex<HashMap<(usize, usize), ChunkParts>>,
    /// Whether the scan has ended: nothing is kept any more. Set while `chunks` is held.
    released: AtomicBool,
    /// Whether a column chunk was not what the footer lets expect.
    pub(super) unlike: AtomicBool,
}

/// Whether a part of a column chunk has all of `range`.
fn holds((start, bytes): &(u64, RangeBytes), range: &Range<u64>) -> bool {
    *start <= range.start && range.end <= start + bytes.as_ref().as_ref().len() as u64
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Remote {
    pub fn new(file: Arc<dyn RemoteFile>, room: Arc<KeptBytes>) -> Self {
        let (chunks, released, unlike) = Default::default();
        Self { file, room, chunks, released, unlike }
    }

    /// Parts of a column chunk that hold the bytes `wanted` of it, and where each begins: those that are kept, others read together.
    pub fn bytes(&self, chunk: (usize, usize), wanted: &[Range<u64>]) -> Result<ChunkParts> {
        let (mut parts, mut missing) = (vec![], vec![]);
        {
            let kept = self.chunks.lock();
            let kept = kept.get(&chunk).map_or(&[][..], Vec::as_slice);
            for range in wanted {
                match kept.iter().find(|part| holds(part, range)) {
                    Some(part) => parts.push(part.clone()),
                    None => missing.push(range.clone()),
                }
            }
        }
        let read = if missing.is_empty() { vec![] } else { self.read(&missing)? };
        parts.extend(missing.into_iter().map(|range| range.start).zip(read));
        Ok(parts)
    }

    /// The bytes of `ranges`.
    pub fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<RangeBytes>> {
        let found = self.file.read(ranges).map_err(self.failed())?;
        let whole = |(range, bytes): (&Range<u64>, &RangeBytes)| {
            bytes.as_ref().as_ref().len() as u64 == range.end - range.start
        };
        match found.len() == ranges.len() && ranges.iter().zip(&found).all(whole) {
            true => Ok(found),
            false => Err(self.failed()(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Whether `range` of a column chunk is kept.
    pub fn keeps(&self, chunk: (usize, usize), range: &Range<u64>) -> bool {
        self.chunks.lock().get(&chunk).is_some_and(|parts| parts.iter().any(|part| holds(part, range)))
    }

    /// The chunks among `wanted` that are not kept, in order, each once.
    fn missing(&self, mut wanted: Vec<Wanted>) -> Vec<Wanted> {
        wanted.sort_unstable_by_key(|(chunk, range)| (*chunk, range.start, range.end));
        wanted.dedup();
        wanted.retain(|(chunk, range)| !self.keeps(*chunk, range));
        wanted
    }

    /// Reads what is not kept of `wanted`, and keeps it.
    pub fn fetch(&self, wanted: Vec<Wanted>) -> Result<()> {
        let wanted = self.missing(wanted);
        let ranges: Vec<Range<u64>> = wanted.iter().map(|(_, range)| range.clone()).collect();
        let found = if ranges.is_empty() { vec![] } else { self.read(&ranges)? };
        let mut kept = self.chunks.lock();
        if self.released.load(Ordering::Relaxed) {
            return Ok(());
        }
        for ((chunk, range), bytes) in wanted.into_iter().zip(found) {
            kept.entry(chunk).or_default().push((range.start, bytes));
        }
        Ok(())
    }

    /// Reads of `wanted` what is not kept, as far as there is room to keep it.
    pub fn prefetch(&self, wanted: Vec<Wanted>) -> Result<()> {
        let mut wanted = self.missing(wanted);
        wanted.retain(|(_, range)| self.room.take(range.end - range.start));
        self.fetch(wanted)
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> FormatError + use<'_> {
        FormatError::io("cannot read", self.file.url().as_ref())
    }
}

/// Files of which a call reads at the same time.
const MOST_FILES: usize = 16;

/// Lets `read` read what is wanted of remote files: of several at a time, of each all together.
///
/// # Errors
/// The errors of `read`.
pub(super) fn read_files<'a>(
    wanted: impl IntoIterator<Item = (&'a Arc<ParquetFile>, Wanted)>,
    read: fn(&Remote, Vec<Wanted>) -> Result<()>,
) -> Result<()> {
    let mut files = HashMap::<_, (&Remote, Vec<_>)>::new();
    for (file, wanted) in wanted {
        if let Some(remote) = file.remote() {
            files.entry(Arc::as_ptr(file)).or_insert((remote, vec![])).1.push(wanted);
        }
    }
    let mut files = files.into_values();
    while let Some((first, wanted)) = files.next() {
        // Threads of their own: they wait for a network, those of the pool have work.
        std::thread::scope(|scope| {
            let others = files.by_ref().take(MOST_FILES - 1);
            let others: Vec<_> = others.map(|(file, wanted)| scope.spawn(move || read(file, wanted))).collect();
            let first = read(first, wanted);
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<()>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            others.into_iter().map(join).fold(first, Result::and)
        })?;
    }
    Ok(())
}

impl ParquetFile {
    /// Reads of column chunks of remote files what will be wanted, as far as there is room to keep it. Does nothing for local files.
    ///
    /// # Errors
    /// Files that cannot be read, or have changed.
    pub(crate) fn prefetch<'a>(wanted: impl IntoIterator<Item = (&'a Arc<Self>, Wanted)>) -> Result<()> {
        read_files(wanted, Remote::prefetch)
    }

    /// Forgets what is kept of a remote file: its scan has ended.
    pub fn release(&self) {
        if let Some(remote) = self.remote() {
            let mut kept = remote.chunks.lock();
            remote.released.store(true, Ordering::Relaxed);
            kept.clear();
        }
    }

    /// Whether it is read over a network.
    pub(crate) fn is_remote(&self) -> bool {
        self.remote().is_some()
    }
}
