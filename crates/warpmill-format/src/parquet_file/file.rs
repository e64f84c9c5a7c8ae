//! An open Parquet file.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::ParquetMetaData;

use super::check::{CheckedFooter, chunk_name};
use super::index::{Locations, PageBounds};
use super::pages::PageMap;
use super::remote::{ChunkParts, KeptBytes, RangeBytes, Remote, RemoteFile};
use crate::guard::caught;
use crate::{FormatError, Result};

/// Largest number of cached footers.
const MOST_FILES: usize = 4096;

/// Time after which a further change of a file gets a different modification time: file systems have a resolution of a second or two.
const SETTLED: Duration = Duration::from_secs(2);
/// The same for the inode's change time, which comes from the machine's clock.
const TICK: Duration = Duration::from_millis(50);

/// A file whose footer has been read. It is opened for each read, and must be unchanged then.
#[derive(Debug)]
pub struct ParquetFile {
    /// The path or URL.
    path: PathBuf,
    source: Source,
    metadata: ArrowReaderMetadata,
    checked: CheckedFooter,
    kept: Mutex<Kept>,
}

/// Facts about column chunks that have been read, by row group and column.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub pages: HashMap<(usize, usize), Arc<PageMap>>,
    /// Page positions from the offset index; `None`: it has none.
    pub locations: HashMap<(usize, usize), Option<Arc<Locations>>>,
    /// Bounds from the column index.
    pub bounds: HashMap<(usize, usize), Option<Arc<Vec<PageBounds>>>>,
    pub filters: HashMap<(usize, usize), Option<Arc<Sbbf>>>,
    /// Per page offset: bytes of its strings, if they are prefix-encoded.
    pub made: HashMap<u64, u64>,
}

/// The source of a file.
#[derive(Debug)]
enum Source {
    Local(Identity),
    Remote(Remote),
}

/// The properties that reveal a changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    bytes: u64,
    modified: Option<SystemTime>,
    /// Change time of the inode, which users cannot set: nanoseconds since 1970.
    changed: i128,
    /// The device and the inode.
    inode: (u64, u64),
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let (changed, inode) = {
            use std::os::unix::fs::MetadataExt;
            let changed = i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
            (changed, (metadata.dev(), metadata.ino()))
        };
        #[cfg(not(unix))]
        let (changed, inode) = (0, (0, 0));
        Self { bytes: metadata.len(), modified: metadata.modified().ok(), changed, inode }
    }

    /// Whether any later change has other times.
    fn is_settled(&self) -> bool {
        let now = SystemTime::now();
        let since = |then: SystemTime| now.duration_since(then).ok();
        let nanos = u64::try_from(self.changed).ok();
        let changed = nanos.map(|nanos| SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos));
        self.modified.and_then(since).is_some_and(|age| age > SETTLED)
            && (cfg!(not(unix)) || changed.and_then(since).is_some_and(|age| age > TICK))
    }
}

static OPENED: LazyLock<Mutex<HashMap<PathBuf, Arc<ParquetFile>>>> = LazyLock::new(Mutex::default);

/// The footer that `load` reads, for the file named `path` in errors.
pub(crate) fn whole(
    path: &Path,
    load: impl FnOnce() -> parquet::errors::Result<ArrowReaderMetadata>,
) -> Result<ArrowReaderMetadata> {
    let loaded = caught(load).and_then(|loaded| loaded.map_err(|error| error.to_string()));
    loaded.map_err(|detail| FormatError::corrupt(path, format!("not a whole Parquet file: {detail}")))
}

impl ParquetFile {
    /// The current file at `path`: opens it and reads its footer, unless that was done before and its size, its change time and its inode are
    /// unchanged.
    ///
    /// # Errors
    /// A file that cannot be read, or is not a complete Parquet file.
    pub fn open(path: &Path) -> Result<Arc<Self>> {
        let found = std::fs::metadata(path).map_err(FormatError::io("cannot open", path))?;
        let known = OPENED.lock().get(path).cloned();
        if let Some(known) = known.filter(|known| known.is(&found)) {
            return Ok(known);
        }
        let file = File::open(path).map_err(FormatError::io("cannot open", path))?;
        let found = file.metadata().map_err(FormatError::io("cannot open", path))?;
        let metadata = whole(path, || ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()))?;
        let checked = CheckedFooter::of_file(Arc::clone(metadata.metadata()), &file, path)?;
        let (path, source, kept) = (path.to_owned(), Source::Local(Identity::of(&found)), Mutex::default());
        let opened = Arc::new(Self { path: path.clone(), source, metadata, checked, kept });
        // A recently changed one could have been changed again with the same times.
        if Identity::of(&found).is_settled() {
            let mut all = OPENED.lock();
            if all.len() >= MOST_FILES {
                all.clear();
            }
            all.insert(path, opened.clone());
        }
        Ok(opened)
    }

    /// A file that is read by ranges over a network. Bytes of its column chunks are kept within the limit of `room`, as long as the file object
    /// lives.
    ///
    /// # Errors
    /// A file that cannot be read, has changed, or is not a Parquet file.
    pub fn open_remote(file: Arc<dyn RemoteFile>, room: &Arc<KeptBytes>) -> Result<Arc<Self>> {
        let path = PathBuf::from(file.url());
        let footer = file.footer().map_err(FormatError::io("cannot open", &path))?;
        let metadata = whole(&path, || ArrowReaderMetadata::try_new(footer, ArrowReaderOptions::new()))?;
        let checked = CheckedFooter::new(Arc::clone(metadata.metadata()), file.bytes(), &path)?;
        let source = Source::Remote(Remote::new(file, Arc::clone(room)));
        Ok(Arc::new(Self { path, source, metadata, checked, kept: Mutex::default() }))
    }

    /// Whether a local file is unchanged.
    fn is(&self, found: &Metadata) -> bool {
        matches!(&self.source, Source::Local(identity) if *identity == Identity::of(found))
    }

    /// Fingerprint of this version of a local file; `None` for a remote file, and for one that was changed so recently that a later change could have
    /// the same times.
    pub fn version(&self) -> Option<String> {
        let Source::Local(identity) = &self.source else { return None };
        let Identity { bytes, modified, changed, inode: (device, inode) } = identity;
        let modified = modified.as_ref()?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos();
        identity.is_settled().then(|| format!("{bytes}:{modified}:{changed}:{device}:{inode}"))
    }

    pub(super) fn remote(&self) -> Option<&Remote> {
        match &self.source {
            Source::Remote(remote) => Some(remote),
            Source::Local(_) => None,
        }
    }

    /// Its path or URL, when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its footer.
    pub fn metadata(&self) -> &ParquetMetaData {
        self.metadata.metadata()
    }

    /// The leaf of column `name`, unless it is nested.
    pub(super) fn leaf(&self, name: &str) -> Option<usize> {
        let leaves = self.metadata().file_metadata().schema_descr();
        (0..leaves.num_columns()).find(|&leaf| matches!(leaves.column(leaf).path().parts(), [only] if only == name))
    }

    /// The checked footer, against which reads are checked.
    pub(super) fn checked(&self) -> &CheckedFooter {
        &self.checked
    }

    pub(super) fn reader_metadata(&self) -> &ArrowReaderMetadata {
        &self.metadata
    }

    /// Size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        match &self.source {
            Source::Local(identity) => identity.bytes,
            Source::Remote(remote) => remote.file.bytes(),
        }
    }

    /// The byte range of a column chunk.
    ///
    /// # Errors
    /// An invalid footer.
    pub(super) fn chunk_range(&self, group: usize, column: usize) -> Result<Range<u64>> {
        let chunk = self.metadata().row_group(group).column(column);
        let first = chunk.dictionary_page_offset().filter(|&offset| offset > 0 && offset < chunk.data_page_offset());
        let start = u64::try_from(first.unwrap_or(chunk.data_page_offset())).ok();
        let bytes = u64::try_from(chunk.compressed_size()).ok();
        let end = start.zip(bytes).and_then(|(start, bytes)| start.checked_add(bytes));
        match (start, end.filter(|&end| end <= self.bytes())) {
            (Some(start), Some(end)) => Ok(start..end),
            _ => Err(self.corrupt(self.place(group, column), "the footer places it outside of the file")),
        }
    }

    /// Opens a local file again.
    ///
    /// # Errors
    /// A file that is gone, or has been replaced.
    pub(super) fn handle(&self, place: &(dyn Fn() -> String + Sync)) -> Result<File> {
        let handle = File::open(&self.path).map_err(FormatError::io("cannot open", &self.path))?;
        let found = handle.metadata().map_err(FormatError::io("cannot open", &self.path))?;
        match self.is(&found) {
            true => Ok(handle),
            false => Err(self.corrupt(place(), "the file was changed while a query read it")),
        }
    }

    /// A reader of the bytes `wanted` of a column chunk; `place` names it in errors.
    ///
    /// # Errors
    /// A file that is gone, or has been replaced.
    pub(super) fn reader<'a>(
        &'a self,
        chunk: (usize, usize),
        wanted: &[Range<u64>],
        place: &'a (dyn Fn() -> String + Sync),
    ) -> Result<Reader<'a>> {
        let bytes = match &self.source {
            Source::Local(_) => ReaderBytes::File(self.handle(place)?),
            Source::Remote(remote) => ReaderBytes::Memory(remote.bytes(chunk, wanted)?),
        };
        Ok(Reader { file: self, bytes, place })
    }

    /// The bytes of `ranges` of the file; `place` names them in errors.
    ///
    /// # Errors
    /// A file that is gone, or has been replaced.
    pub(super) fn read_ranges(
        &self,
        ranges: &[Range<u64>],
        place: &(dyn Fn() -> String + Sync),
    ) -> Result<Vec<RangeBytes>> {
        match &self.source {
            _ if ranges.is_empty() => Ok(vec![]),
            Source::Remote(remote) => remote.read(ranges),
            Source::Local(_) => {
                let reader = Reader { file: self, bytes: ReaderBytes::File(self.handle(place)?), place };
                let read = |range: &Range<u64>| {
                    let mut bytes = vec![0; (range.end - range.start) as usize];
                    reader.read(range.start, &mut bytes)?;
                    Ok(Arc::new(bytes) as RangeBytes)
                };
                ranges.iter().map(read).collect()
            }
        }
    }

    pub(super) fn kept_parts(&self) -> &Mutex<Kept> {
        &self.kept
    }

    /// The pages of column `column` of row group `group`.
    ///
    /// # Errors
    /// Invalid headers, or headers that contradict the footer.
    pub(super) fn pages(&self, group: usize, column: usize) -> Result<Arc<PageMap>> {
        if let Some(known) = self.kept.lock().pages.get(&(group, column)) {
            return Ok(known.clone());
        }
        let map = Arc::new(PageMap::read(self, group, column)?);
        self.kept.lock().pages.insert((group, column), map.clone());
        Ok(map)
    }

    /// An error for damage in a part of the file.
    pub(super) fn corrupt(&self, place: String, detail: impl Into<String>) -> FormatError {
        FormatError::Corrupt { path: self.path.clone(), segment: Some(place), detail: detail.into() }
    }

    /// The name of a column chunk in errors.
    pub(super) fn place(&self, group: usize, column: usize) -> String {
        chunk_name(self.metadata(), group, column)
    }
}

/// A file that is open.
pub(super) struct Reader<'a> {
    file: &'a ParquetFile,
    bytes: ReaderBytes,
    place: &'a (dyn Fn() -> String + Sync),
}

enum ReaderBytes {
    File(File),
    /// Bytes of parts of the file, each with its offset.
    Memory(ChunkParts),
}

impl Reader<'_> {
    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// A file that cannot be read, or that ends too early.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let handle = match &self.bytes {
            ReaderBytes::File(handle) => handle,
            ReaderBytes::Memory(parts) => {
                let find = |(start, bytes): &'_ (u64, RangeBytes)| {
                    let from = offset.checked_sub(*start)? as usize;
                    bytes.as_ref().as_ref().get(from..from + out.len()).map(|found| out.copy_from_slice(found))
                };
                let found = parts.iter().find_map(find);
                return found.ok_or_else(|| self.corrupt("a page is outside of its column chunk"));
            }
        };
        read_exact_at(handle, out, offset).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.corrupt("the file ends before it"),
            _ => FormatError::io("cannot read", self.file.path())(error),
        })
    }

    /// An error for damage in the data read.
    pub fn corrupt(&self, detail: impl Into<String>) -> FormatError {
        self.file.corrupt((self.place)(), detail)
    }
}

/// Fills `out` with the bytes of `file` from `offset` on.
#[cfg(unix)]
pub(super) fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(windows)]
pub(super) fn read_exact_at(file: &File, mut out: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, offset)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            bytes => {
                out = &mut out[bytes..];
                offset += bytes as u64;
            }
        }
    }
    Ok(())
}
