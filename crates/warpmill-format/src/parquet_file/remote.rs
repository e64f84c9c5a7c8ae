//! Parquet files that are read by ranges over a network.
//!
//! Page headers, which are between the pages, give the positions in a column chunk. A request for each would be slow, so chunks are read as a whole
//! or, if an offset index gives the positions of the needed pages, by their ranges; those of a scan are requested together, and kept until the scan
//! has ended, as far as there is room.

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

/// One version of a file that is read by ranges. Threads that call it may block.
pub trait RemoteFile: Debug + Send + Sync {
    /// Its URL, for errors.
    fn url(&self) -> &str;

    /// Its size in bytes.
    fn bytes(&self) -> u64;

    /// Its footer.
    ///
    /// # Errors
    /// A file that cannot be read, has changed, or is not a Parquet file.
    fn footer(&self) -> io::Result<Arc<ParquetMetaData>>;

    /// Reads the bytes of `ranges`, in their order: merges neighbours to one request, sends several requests at once.
    ///
    /// # Errors
    /// A file that cannot be read, or has changed.
    fn read(&self, ranges: &[Range<u64>]) -> io::Result<Vec<RangeBytes>>;

    /// Decodes rows `rows` of a column chunk (a row group and a leaf) on the host.
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

/// Limit for bytes of column chunks that the scans of a query keep together.
#[derive(Debug, Default)]
pub struct KeptBytes {
    all: u64,
    left: AtomicU64,
}

/// Limit for bytes in transit beyond these.
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

    /// Limit for bytes in transit beyond the kept ones: half of their limit, or enough to keep a network busy.
    pub(super) fn window(&self) -> u64 {
        (self.all / 2).min(WINDOW)
    }
}

/// A part of a column chunk (a row group and a leaf), as a byte range of the file.
pub(crate) type Wanted = ((usize, usize), Range<u64>);

/// Parts of a column chunk, each with its offset in the file.
pub(super) type ChunkParts = Vec<(u64, RangeBytes)>;

/// A remote file with its kept column chunks.
pub(super) struct Remote {
    pub file: Arc<dyn RemoteFile>,
    pub(super) room: Arc<KeptBytes>,
    /// Kept parts by row group and column.
    pub(super) chunks: Mutex<HashMap<(usize, usize), ChunkParts>>,
    /// Whether the scan has ended: nothing is kept any more. Set while `chunks` is locked.
    released: AtomicBool,
    /// Whether a column chunk broke its promise.
    pub(super) unlike: AtomicBool,
}

/// Whether a part of a column chunk contains all of `range`.
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

    /// Parts of a column chunk that contain the bytes `wanted`, with their offsets: kept ones, and others that are read together.
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

    /// The distinct chunks among `wanted` that are not kept, in order.
    fn missing(&self, mut wanted: Vec<Wanted>) -> Vec<Wanted> {
        wanted.sort_unstable_by_key(|(chunk, range)| (*chunk, range.start, range.end));
        wanted.dedup();
        wanted.retain(|(chunk, range)| !self.keeps(*chunk, range));
        wanted
    }

    /// Reads and keeps the parts of `wanted` that are not kept yet.
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

    /// Reads the parts of `wanted` that are not kept yet, as far as there is room to keep them.
    pub fn prefetch(&self, wanted: Vec<Wanted>) -> Result<()> {
        let mut wanted = self.missing(wanted);
        wanted.retain(|(_, range)| self.room.take(range.end - range.start));
        self.fetch(wanted)
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> FormatError + use<'_> {
        FormatError::io("cannot read", self.file.url().as_ref())
    }
}

/// Largest number of files that are read at the same time.
const MOST_FILES: usize = 16;

/// Reads parts of remote files by `read`: several files at a time, each with all its ranges together.
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
        // Separate threads: they block on the network, while the pool's threads compute.
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
    /// Reads column chunks of remote files ahead, as far as there is room to keep them. Does nothing for local files.
    ///
    /// # Errors
    /// Files that cannot be read, or have changed.
    pub(crate) fn prefetch<'a>(wanted: impl IntoIterator<Item = (&'a Arc<Self>, Wanted)>) -> Result<()> {
        read_files(wanted, Remote::prefetch)
    }

    /// Drops the kept bytes of a remote file at the end of its scan.
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
