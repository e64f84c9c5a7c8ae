//! An open Parquet file.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use parking_lot::Mutex;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::ParquetMetaData;

use super::pages::PageMap;
use crate::{FormatError, Result};

/// Files whose footers are kept.
const MOST_FILES: usize = 4096;

/// A file whose footer has been read. It is opened for each read, and has to be the same file then.
#[derive(Debug)]
pub struct ParquetFile {
    path: PathBuf,
    identity: Identity,
    metadata: ArrowReaderMetadata,
    /// By row group and column.
    pages: Mutex<HashMap<(usize, usize), Arc<PageMap>>>,
}

/// What tells whether a file has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    bytes: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Self { bytes: metadata.len(), modified: metadata.modified().ok(), inode }
    }
}

static OPENED: LazyLock<Mutex<HashMap<PathBuf, Arc<ParquetFile>>>> = LazyLock::new(Mutex::default);

impl ParquetFile {
    /// The file at `path` as it is now: opened and its footer read, unless that was done before and its size, its time of change and its
    /// inode are still the same.
    ///
    /// # Errors
    /// A file that cannot be read, or is no whole Parquet file.
    pub fn open(path: &Path) -> Result<Arc<Self>> {
        let found = std::fs::metadata(path).map_err(FormatError::io("cannot open", path))?;
        let known = OPENED.lock().get(path).cloned();
        if let Some(known) = known.filter(|known| known.identity == Identity::of(&found)) {
            return Ok(known);
        }
        let file = File::open(path).map_err(FormatError::io("cannot open", path))?;
        let found = file.metadata().map_err(FormatError::io("cannot open", path))?;
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
            .map_err(|error| FormatError::corrupt(path, format!("not a whole Parquet file: {error}")))?;
        let (path, identity, pages) = (path.to_owned(), Identity::of(&found), Mutex::default());
        let opened = Arc::new(Self { path: path.clone(), identity, metadata, pages });
        let mut all = OPENED.lock();
        if all.len() >= MOST_FILES {
            all.clear();
        }
        all.insert(path, opened.clone());
        Ok(opened)
    }

    /// Where it is, or was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its footer.
    pub fn metadata(&self) -> &ParquetMetaData {
        self.metadata.metadata()
    }

    pub(super) fn reader_metadata(&self) -> &ArrowReaderMetadata {
        &self.metadata
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.identity.bytes
    }

    /// Opens it again, to read what `place` says.
    ///
    /// # Errors
    /// A file that is gone, or another one.
    pub(super) fn reader<'a>(&'a self, place: &'a dyn Fn() -> String) -> Result<Reader<'a>> {
        let handle = File::open(&self.path).map_err(FormatError::io("cannot open", &self.path))?;
        let found = handle.metadata().map_err(FormatError::io("cannot open", &self.path))?;
        match Identity::of(&found) == self.identity {
            true => Ok(Reader { file: self, handle, place }),
            false => Err(self.corrupt(place(), "the file was changed while a query read it")),
        }
    }

    /// Where the pages of column `column` of row group `group` are.
    ///
    /// # Errors
    /// Headers that are none, or that do not fit the footer.
    pub(super) fn pages(&self, group: usize, column: usize) -> Result<Arc<PageMap>> {
        if let Some(known) = self.pages.lock().get(&(group, column)) {
            return Ok(known.clone());
        }
        let map = Arc::new(PageMap::read(self, group, column)?);
        self.pages.lock().insert((group, column), map.clone());
        Ok(map)
    }

    /// Damage of a part of the file.
    pub(super) fn corrupt(&self, place: String, detail: impl Into<String>) -> FormatError {
        FormatError::Corrupt { path: self.path.clone(), segment: Some(place), detail: detail.into() }
    }

    /// What errors call a column chunk.
    pub(super) fn place(&self, group: usize, column: usize) -> String {
        let name = self.metadata().file_metadata().schema_descr().column(column).path().string();
        format!("row group {group}, column {name:?}")
    }
}

/// A file that is open.
pub(super) struct Reader<'a> {
    file: &'a ParquetFile,
    handle: File,
    place: &'a dyn Fn() -> String,
}

impl Reader<'_> {
    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// A file that cannot be read, or that ends before.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_exact_at(&self.handle, out, offset);
        #[cfg(windows)]
        let read = read_exact_at(&self.handle, out, offset);
        read.map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.corrupt("the file ends before it"),
            _ => FormatError::io("cannot read", self.file.path())(error),
        })
    }

    /// Damage of what is read.
    pub fn corrupt(&self, detail: impl Into<String>) -> FormatError {
        self.file.corrupt((self.place)(), detail)
    }

    /// The handle, whose position is its own.
    pub fn into_handle(self) -> File {
        self.handle
    }
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut out: &mut [u8], mut offset: u64) -> std::io::Result<()> {
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
