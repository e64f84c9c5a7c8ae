//! Data files: checksummed, aligned blobs (segments, dictionaries, remaps), written once and then mapped, or read part by part.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use xxhash_rust::xxh3::xxh3_64;

use super::fs::{FileSystem, OutputFile};
use super::manifest::FORMAT_VERSION;
use super::version::Version;
use crate::codec::CHUNK_ALIGN;
use crate::file_access::{FileBytes, HeldBytes};
use crate::segment::{FilePlace, SEGMENT_ALIGN, SegmentBytes};
use crate::{FileAccess, FileState, FormatError, Result};

/// The first bytes of a data file; the format version (u32) follows, then zeros up to [`HEADER_BYTES`].
const MAGIC: &[u8; 8] = b"WMDATA\r\n";
pub(super) const HEADER_BYTES: usize = SEGMENT_ALIGN;

/// The extension of logs (`table/log.rs`), which are data files of later versions.
pub(super) const LOG_EXTENSION: &str = ".log";
/// The first bytes of a log; the format version follows.
pub(super) const LOG_MAGIC: &[u8; 8] = b"WMLOG\r\n\0";

/// Alignment of chunks for devices, so that adjacent chunks can be read without a
/// copy.
pub(crate) const DEVICE_ALIGN: usize = 256;

/// Smallest distance between blobs: reads of whole words past the end of a blob do not reach the next one. Older files have less, and none after the
/// last blob.
pub(super) const END_PADDING: u64 = 16;

/// Largest number of full files being synced while the next one is written.
const MOST_CLOSING: usize = 4;

/// A data file of a committed version, or of one being written (not open yet then).
#[derive(Debug)]
pub(crate) struct DataFile {
    /// The table's directory.
    directory: PathBuf,
    name: String,
    opened: OnceLock<Opened>,
}

#[derive(Debug)]
struct Opened {
    content: FileBytes,
    /// Size as the manifest says, of a piece its end: a log may be longer.
    bytes: u64,
    /// `None` for a piece in memory, which no change of a file affects.
    state: Option<FileState>,
}

impl Opened {
    fn held(piece: HeldBytes) -> Self {
        let bytes = piece.start + piece.bytes.len() as u64;
        Self { content: FileBytes::Held(piece), bytes, state: None }
    }
}

impl DataFile {
    /// Opens file `name` in `directory`, which the manifest says has `bytes` bytes.
    pub fn open(directory: &Path, name: &str, bytes: u64, access: FileAccess) -> Result<Arc<Self>> {
        let file = Self { directory: directory.to_owned(), name: name.to_owned(), opened: OnceLock::new() };
        file.open_from(directory, bytes, access)?;
        Ok(Arc::new(file))
    }

    /// A piece in memory of file `name` in `directory`, which is not complete.
    pub fn piece(directory: &Path, name: &str, piece: HeldBytes) -> Arc<Self> {
        let opened = OnceLock::from(Opened::held(piece));
        Arc::new(Self { directory: directory.to_owned(), name: name.to_owned(), opened })
    }

    /// The bytes of the file that it is in memory, if it is a piece of one.
    pub fn held(&self) -> Option<Range<u64>> {
        match &self.opened.get()?.content {
            FileBytes::Held(held) => Some(held.start..held.start + held.bytes.len() as u64),
            FileBytes::Mapped(_) | FileBytes::Open(_) => None,
        }
    }

    /// Bytes of memory that it holds.
    pub fn held_bytes(&self) -> u64 {
        self.held().map_or(0, |range| range.end - range.start)
    }

    /// Whether it is a piece in memory of a file that nobody has written yet.
    pub fn is_pending(&self) -> bool {
        self.held().is_some() && !self.name.ends_with(LOG_EXTENSION)
    }

    /// Whether it is a record of a log in memory.
    pub fn is_record(&self) -> bool {
        self.held().is_some() && self.name.ends_with(LOG_EXTENSION)
    }

    fn open_from(&self, directory: &Path, bytes: u64, access: FileAccess) -> Result<()> {
        let path = directory.join(&self.name);
        let file = File::open(&path).map_err(FormatError::io("cannot open data file", &path))?;
        let meta = file.metadata().map_err(FormatError::io("cannot read", &path))?;
        let found = meta.len();
        // A log may end with what a dead writer has left there.
        let is_whole = found == bytes || found > bytes && self.name.ends_with(LOG_EXTENSION);
        if !is_whole {
            return Err(FormatError::corrupt(&path, format!("{found} bytes, its manifest says {bytes}")));
        }
        let content = FileBytes::of(file, bytes, access).map_err(FormatError::io("cannot map", &path))?;
        let foreign = || FormatError::corrupt(&path, "not a Warpmill data file");
        if found < HEADER_BYTES as u64 {
            return Err(foreign());
        }
        let head = content.get(0..HEADER_BYTES as u64).map_err(|error| in_file(error, &path, None))?;
        let is_log = self.name.ends_with(LOG_EXTENSION);
        if &head[..8] != if is_log { LOG_MAGIC } else { MAGIC } {
            return Err(foreign());
        }
        let version = u32::from_le_bytes(head[8..12].try_into().expect("4 bytes"));
        if version != FORMAT_VERSION {
            let detail = format!("format version {version}, this build reads {FORMAT_VERSION}");
            return Err(FormatError::corrupt(&path, detail));
        }
        let opened = Opened { content, bytes, state: Some(FileState::of(&meta)) };
        self.opened.set(opened).expect("a file is opened once");
        Ok(())
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    /// Size in bytes; of a piece in memory its end.
    pub fn bytes(&self) -> u64 {
        self.opened().bytes
    }

    /// How it is accessed.
    pub fn access(&self) -> FileAccess {
        self.content().access()
    }

    fn content(&self) -> &FileBytes {
        &self.opened().content
    }

    fn opened(&self) -> &Opened {
        self.opened.get().expect("files of a committed version are open")
    }

    /// Whether this is still the file with that name, unchanged, of `bytes` bytes, and opened with the same access.
    pub fn is_current(&self, name: &str, bytes: u64, access: FileAccess) -> bool {
        let now = || std::fs::metadata(self.path()).ok().map(|metadata| FileState::of(&metadata));
        let same = self.name == name && self.bytes() == bytes && self.access() == access;
        same && now().is_some_and(|now| Some(now) == self.opened().state) && !self.content().is_damaged()
    }

    /// Checks that the file is unchanged since it was opened, if it still has its name.
    ///
    /// Errors: [`FormatError::Corrupt`] if it has been changed: data read since are invalid.
    pub fn check(&self) -> Result<()> {
        let path = self.path();
        if self.content().is_damaged() {
            return Err(FormatError::corrupt(&path, "cut off while it was open, or the disk cannot read it"));
        }
        let Some(state) = self.opened().state else { return Ok(()) };
        let now = std::fs::metadata(&path).map(|metadata| FileState::of(&metadata));
        match now {
            Ok(now) if now.is_same_file(&state) && now != state => {
                Err(FormatError::corrupt(&path, "changed while it was open"))
            }
            _ => Ok(()),
        }
    }
}

/// Adds the file, and the description of the bytes, to `error`.
fn in_file(error: FormatError, path: &Path, what: Option<&str>) -> FormatError {
    let path = path.to_owned();
    match error {
        FormatError::Io { action, source, .. } => FormatError::Io { action, path, source },
        FormatError::Corrupt { detail, .. } => FormatError::Corrupt { path, segment: what.map(str::to_owned), detail },
        error => error,
    }
}

/// A blob in a data file.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub file: Arc<DataFile>,
    pub offset: u64,
    pub bytes: u64,
    pub xxh3: u64,
}

impl Place {
    /// The bytes, after verification of their checksum. `what` describes them in errors.
    pub fn read(&self, what: &str) -> Result<SegmentBytes> {
        let bytes = self.unverified(what)?;
        if xxh3_64(&bytes) != self.xxh3 {
            let (start, end) = (self.offset, self.offset + self.bytes);
            let detail = format!("checksum mismatch in bytes {start}..{end}");
            return Err(FormatError::Corrupt { path: self.file.path(), segment: Some(what.to_owned()), detail });
        }
        Ok(match self.in_file(what) {
            Some(place) => bytes.with_file(place),
            None => bytes,
        })
    }

    /// The bytes without verification: callers must be prepared for any content.
    pub fn unverified(&self, what: &str) -> Result<SegmentBytes> {
        let found = self.file.content().get(self.offset..self.offset + self.bytes);
        found.map_err(|error| in_file(error, &self.file.path(), Some(what)))
    }

    /// The position of the bytes, described as `what` in errors; `None` for a piece in memory.
    pub fn in_file(&self, what: &str) -> Option<FilePlace> {
        let (path, state) = (self.file.path(), self.file.opened().state?);
        Some(FilePlace { path, offset: self.offset, xxh3: self.xxh3, what: what.to_owned(), state })
    }

    /// The address of the first byte if it is mapped, otherwise a pseudo-address: unique while the file is open.
    pub fn address(&self) -> usize {
        self.file.content().address().wrapping_add(self.offset as usize)
    }

    /// Whether both are the same bytes of the same file, opened with the same access.
    pub fn same(&self, other: &Place) -> bool {
        let file = self.file.name == other.file.name && self.file.access() == other.file.access();
        file && self.offset == other.offset && self.xxh3 == other.xxh3
    }
}

/// Largest size of a file that a statement of a transaction leaves to the transaction's commit to make durable: a later statement may merge its rows
/// with others, so that it is never needed.
const MOST_UNSYNCED: u64 = 4 << 20;

/// Largest number of bytes that are held in memory until the commit, which may append them to a log.
const MOST_HELD: usize = 64 << 10;

/// Writes the data files of one version, under temporary names until each is complete, and durable unless [`DataFileWriter::sync_later`].
pub(crate) struct DataFileWriter {
    fs: Arc<dyn FileSystem>,
    /// The directory of the files: the table's, or the staging directory of a new table.
    directory: PathBuf,
    /// The directory that readers will find the files in.
    home: PathBuf,
    version: u64,
    /// The number of the first file.
    first: usize,
    open: Option<OpenFile>,
    done: Vec<(Arc<DataFile>, u64)>,
    /// Threads that make full files durable, the oldest first.
    closing: Vec<JoinHandle<Result<()>>>,
    published: bool,
    /// Whether few bytes are held in memory.
    holds: bool,
    /// The beginning of the first file, held in memory.
    held: Option<(Arc<DataFile>, Vec<u8>)>,
    /// Whether small files are made durable by [`DataFileWriter::sync`].
    later: bool,
    /// The names of complete files that are not durable.
    unsynced: Vec<String>,
    /// How the files are opened when they are complete.
    access: FileAccess,
}

struct OpenFile {
    out: Box<dyn OutputFile>,
    file: Arc<DataFile>,
    offset: u64,
}

/// The name of a data file that is first written for version `version`.
fn data_file_name(version: u64, number: usize) -> String {
    format!("{version:016}-{number:04}.data")
}

/// The first bytes of a data file or a log.
pub(super) fn header(magic: &[u8; 8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(magic);
    header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header
}

/// The outcome of closing a file.
fn joined(thread: JoinHandle<Result<()>>) -> Result<()> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The name of an unfinished file.
fn temporary(path: &Path) -> PathBuf {
    path.with_added_extension("tmp")
}

impl DataFileWriter {
    pub fn new(fs: Arc<dyn FileSystem>, directory: &Path, home: &Path, version: u64) -> Self {
        let (directory, home) = (directory.to_owned(), home.to_owned());
        let (done, closing, access) = (Vec::new(), Vec::new(), FileAccess::default());
        let (open, published, later, unsynced) = (None, false, false, Vec::new());
        let (first, holds, held) = (0, false, None);
        Self {
            fs,
            directory,
            home,
            version,
            first,
            open,
            done,
            closing,
            published,
            holds,
            held,
            later,
            unsynced,
            access,
        }
    }

    /// The same writer, with another access to its files.
    pub fn with_access(mut self, access: FileAccess) -> Self {
        self.access = access;
        self
    }

    /// The same writer, with file numbers from `first` on, after the version's existing files.
    pub fn numbered_from(mut self, first: usize) -> Self {
        self.first = first;
        self
    }

    /// The same writer, for a transaction: small files are not durable before [`DataFileWriter::sync`].
    pub fn sync_later(mut self) -> Self {
        self.later = true;
        self
    }

    /// The same writer, which holds few bytes in memory: they are written by [`DataFileWriter::settle`].
    pub fn holding(mut self) -> Self {
        self.holds = true;
        self
    }

    /// Whether all that was put is held in memory.
    pub fn is_held(&self) -> bool {
        self.holds && self.open.is_none() && self.done.is_empty()
    }

    /// Writes what `version` has in memory, of this or other writers, to a file.
    pub fn settle(&mut self, version: &mut Version) -> Result<()> {
        self.holds = false;
        version.move_places(&mut |place| {
            if !place.file.is_pending() {
                return Ok(None);
            }
            let align = if place.offset.is_multiple_of(DEVICE_ALIGN as u64) { DEVICE_ALIGN } else { SEGMENT_ALIGN };
            self.put(&place.unverified("what was written")?, align).map(Some)
        })?;
        self.finish()
    }

    /// Makes those of the files that `is_needed` durable.
    pub fn sync(&mut self, is_needed: impl Fn(&str) -> bool) -> Result<()> {
        for name in std::mem::take(&mut self.unsynced).into_iter().filter(|name| is_needed(name)) {
            let path = self.directory.join(name);
            self.fs.sync_file(&path).map_err(FormatError::io("cannot sync", &path))?;
        }
        Ok(())
    }

    /// The number that the next file would have.
    pub fn next_number(&self) -> usize {
        self.first + self.done.len()
    }

    /// Appends `bytes` as one blob, at a multiple of `align` bytes (a multiple of 64 that divides 4096).
    pub fn put(&mut self, bytes: &[u8], align: usize) -> Result<Place> {
        if self.is_held() {
            let (file, held) = self.held.get_or_insert_with(|| {
                let name = data_file_name(self.version, self.first);
                let file = DataFile { directory: self.home.clone(), name, opened: OnceLock::new() };
                (Arc::new(file), header(MAGIC).to_vec())
            });
            let offset = (held.len() + END_PADDING as usize).next_multiple_of(align);
            if offset + bytes.len() <= MOST_HELD {
                held.resize(offset, 0);
                held.extend_from_slice(bytes);
                let (offset, length) = (offset as u64, bytes.len() as u64);
                return Ok(Place { file: file.clone(), offset, bytes: length, xxh3: xxh3_64(bytes) });
            }
        }
        if let Some((file, held)) = self.held.take() {
            // Too many: the file has the places that they have in memory.
            self.open = Some(self.start(file, &held)?);
        }
        if self.open.as_ref().is_some_and(|open| open.offset >= self.fs.full_file_bytes()) {
            self.close_behind()?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let name = data_file_name(self.version, self.next_number());
                let file = DataFile { directory: self.home.clone(), name, opened: OnceLock::new() };
                let open = self.start(Arc::new(file), &header(MAGIC))?;
                self.open.insert(open)
            }
        };
        let path = temporary(&self.directory.join(&open.file.name));
        let padding = (open.offset + END_PADDING).next_multiple_of(align as u64) - open.offset;
        let write = |out: &mut Box<dyn OutputFile>, bytes: &[u8]| {
            out.write_all(bytes).map_err(FormatError::io("cannot write", &path))
        };
        if padding > 0 {
            write(&mut open.out, &[0; CHUNK_ALIGN + END_PADDING as usize][..padding as usize])?;
        }
        write(&mut open.out, bytes)?;
        let offset = open.offset + padding;
        open.offset = offset + bytes.len() as u64;
        Ok(Place { file: open.file.clone(), offset, bytes: bytes.len() as u64, xxh3: xxh3_64(bytes) })
    }

    /// Starts a file with these bytes, its header first.
    fn start(&self, file: Arc<DataFile>, bytes: &[u8]) -> Result<OpenFile> {
        let path = temporary(&self.directory.join(&file.name));
        let mut out = self.fs.create_file(&path).map_err(FormatError::io("cannot create", &path))?;
        out.write_all(bytes).map_err(FormatError::io("cannot write", &path))?;
        Ok(OpenFile { out, file, offset: bytes.len() as u64 })
    }

    /// Ends the current file. Returns a closure that makes it durable, unless later, under its name.
    fn ended(&mut self) -> Option<impl FnOnce() -> Result<()> + Send + use<>> {
        let OpenFile { mut out, file, offset } = self.open.take()?;
        let path = self.directory.join(&file.name);
        let later = self.later && offset <= MOST_UNSYNCED;
        if later {
            self.unsynced.push(file.name.clone());
        }
        self.done.push((file, offset));
        let fs = self.fs.clone();
        Some(move || {
            if !later {
                out.sync().map_err(FormatError::io("cannot sync", &path))?;
            }
            drop(out);
            fs.rename(&temporary(&path), &path).map_err(FormatError::io("cannot rename to", &path))
        })
    }

    /// Ends the current file on another thread: the next one is written while the disk syncs this one.
    fn close_behind(&mut self) -> Result<()> {
        let Some(close) = self.ended() else { return Ok(()) };
        while self.closing.len() >= MOST_CLOSING {
            joined(self.closing.remove(0))?;
        }
        let thread = std::thread::Builder::new().name("warpmill-sync".into()).spawn(close);
        let thread =
            thread.map_err(|e| FormatError::Catalog(format!("cannot start a thread that writes files: {e}")))?;
        self.closing.push(thread);
        Ok(())
    }

    /// Makes all files durable, unless later, under their names, and opens them, so that a manifest can name them.
    pub fn finish(&mut self) -> Result<()> {
        self.ended().map_or(Ok(()), |close| close())?;
        // One by one: after an error, drop waits for the remaining ones.
        while let Some(thread) = self.closing.pop() {
            joined(thread)?;
        }
        self.done.iter().try_for_each(|(file, bytes)| file.open_from(&self.directory, *bytes, self.access))?;
        if let Some((file, held)) = self.held.take() {
            let held = HeldBytes { start: 0, bytes: SegmentBytes::copy_from(&held), access: self.access };
            file.opened.set(Opened::held(held)).expect("a file is opened once");
        }
        Ok(())
    }

    /// From now on the files may belong to a committed version, and are not removed on drop.
    pub fn publish(&mut self) {
        self.published = true;
    }
}

impl Drop for DataFileWriter {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        // No thread may rename a file after it has been removed.
        for thread in self.closing.drain(..) {
            let _ = thread.join();
        }
        let open = self.open.take().map(|open| open.file);
        for file in self.done.iter().map(|(file, _)| file).chain(&open) {
            // Best effort, under both names: remaining files are collected by the next writer.
            let path = self.directory.join(&file.name);
            let _ = self.fs.remove_file(&temporary(&path));
            let _ = self.fs.remove_file(&path);
        }
    }
}
