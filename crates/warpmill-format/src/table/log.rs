//! The log of a manifest: small commits after it, each a record at the end of one file, which takes one write and one sync.
//!
//! A record has what its version has otherwise than the version before: the row segments after the first ones, and dictionaries, with their bytes. A
//! version is committed when its record is there as a whole, as its checksum tells. Bytes after the last whole record are the remains of a writer that
//! died or failed; nothing is appended behind them, the next version has a manifest of its own. The log is a data file of later manifests then, and does
//! not change any more (`docs/format.md`).

use std::collections::HashMap;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::data_file::{DataFile, END_PADDING, HEADER_BYTES, LOG_EXTENSION, Place};
use super::directory::{self, Stamp};
use super::fs::{FileSystem, OutputFile};
use super::manifest::{DeletionsEntry, DictionaryEntry, FileEntry, Manifest, RowSegmentEntry};
use super::manifest_check::VERSION_DIGITS;
use super::record::{MOST_RECORD_BYTES, RECORD_HEADER, complete, file_header};
use super::version::Version;
use crate::file_access::HeldBytes;
use crate::segment::{SEGMENT_ALIGN, SegmentBytes};
use crate::{FileAccess, FileState, FormatError, Result};

/// Largest number of records of a log, all of which are read to open the table.
const MOST_RECORDS: usize = 256;
/// Largest size of a log, which readers have in memory.
pub(super) const MOST_BYTES: u64 = 4 << 20;

/// The log of a manifest as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Log {
    /// The names of the manifest's files.
    pub files: Arc<[String]>,
    /// The end of the last whole record, or of the header; 0 if there is no file with a header.
    end: u64,
    records: usize,
    last: Option<Last>,
    /// The state of the file, if there is one.
    state: Option<FileState>,
    /// Its length.
    bytes: u64,
    /// Whether its name is known to be durable.
    is_named: bool,
    /// Whether it may not have deletions.
    is_old: bool,
}

/// The last record of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Last {
    /// Its first byte.
    pub start: u64,
    /// Its checksum.
    pub sum: u64,
}

/// The difference between a version and the version before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Difference {
    /// Number of row segments that it has in common with the version before, the first ones.
    pub keep: usize,
    /// The files of what follows.
    pub files: Vec<FileEntry>,
    /// Columns with another dictionary, or without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dictionaries: Vec<(usize, Option<DictionaryEntry>)>,
    /// Row segments in common, but for their deleted rows, and these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deletions: Vec<(usize, Option<DeletionsEntry>)>,
    /// The row segments after those in common.
    pub segments: Vec<RowSegmentEntry>,
}

/// The path of the log of the manifest of `version`.
pub(super) fn path_of(directory: &Path, version: u64) -> PathBuf {
    directory.join(name_of(version))
}

pub(super) fn name_of(version: u64) -> String {
    format!("{version:0VERSION_DIGITS$}{LOG_EXTENSION}")
}

impl Log {
    /// The log of a manifest that was just written: there is no file.
    pub fn none(manifest: &Manifest) -> Self {
        let files = manifest.files.iter().map(|file| file.name.clone()).collect();
        let is_old = manifest.is_old_log;
        Self { files, end: 0, records: 0, last: None, state: None, bytes: 0, is_named: false, is_old }
    }

    /// Whether the log of the manifest of `version` is still as it was found.
    ///
    /// Errors: those of the file system.
    pub fn is_current(&self, directory: &Path, version: u64) -> Result<bool> {
        let path = path_of(directory, version);
        match std::fs::metadata(&path) {
            Ok(metadata) => Ok(self.state == Some(FileState::of(&metadata))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(self.state.is_none()),
            Err(error) => Err(FormatError::io("cannot read", &path)(error)),
        }
    }

    /// Whether there was a file.
    pub fn has_file(&self) -> bool {
        self.state.is_some()
    }

    /// Whether no version has been committed in it.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether a record of `more` bytes may be appended: the last one is whole, and there are not too many.
    pub fn has_room(&self, more: usize) -> bool {
        self.bytes == self.end && self.records < MOST_RECORDS && self.start() + more as u64 <= MOST_BYTES
    }

    /// The place of the next record.
    pub(super) fn start(&self) -> u64 {
        self.end.max(HEADER_BYTES as u64)
    }

    pub(super) fn last(&self) -> Option<Last> {
        self.last
    }

    /// Whether `metadata` are of the same file, which still has all records.
    pub(super) fn is_in(&self, metadata: &Metadata) -> bool {
        let now = FileState::of(metadata);
        self.state.is_some_and(|state| state.is_same_file(&now)) && metadata.len() >= self.end
    }

    pub(super) fn note(&mut self, metadata: &Metadata) {
        (self.state, self.bytes) = (Some(FileState::of(metadata)), metadata.len());
    }

    /// Notes that there is a file with a header.
    pub(super) fn begin(&mut self) {
        self.end = self.start();
    }

    /// Notes a further record.
    pub(super) fn add(&mut self, bytes: usize, sum: u64) {
        let start = self.start();
        self.last = Some(Last { start, sum });
        (self.end, self.records) = (start + bytes as u64, self.records + 1);
    }

    /// Makes the records of the log of the manifest of `version` durable, before a manifest names it: one that a dead writer has left may not be.
    ///
    /// Errors: those of the file system.
    pub fn sync(&self, fs: &dyn FileSystem, directory: &Path, version: u64) -> Result<()> {
        let path = path_of(directory, version);
        if self.is_empty() { Ok(()) } else { fs.sync_file(&path).map_err(FormatError::io("cannot sync", &path)) }
    }

    /// Removes what a failed commit has written but for the first byte: with the rest of a record in it the log is not continued, so that no other
    /// version gets the same place and length.
    fn spoil(&self, fs: &dyn FileSystem, path: &Path) {
        // A new log keeps the first byte of its header: a file of one byte is none.
        let bytes = self.end + 1;
        if let Err(error) = fs.cut(path, bytes).and_then(|()| fs.sync_file(path)) {
            tracing::warn!(path = %path.display(), %error, "a failed commit cannot be removed");
        }
    }
}

/// A commit to be appended.
pub(super) struct Append {
    /// The version, with places in the log.
    pub version: Version,
    bytes: Vec<u8>,
    sum: u64,
}

impl Append {
    /// The commit of `version` after `base` in the log of `stamp`'s manifest; `None` if it has to have a manifest.
    ///
    /// Errors: those of reading what is in memory, which are not expected.
    pub fn of(
        directory: &Path,
        stamp: &Stamp,
        base: &Version,
        version: &Version,
        access: FileAccess,
    ) -> Result<Option<Self>> {
        let Some(log) = stamp.log.as_ref().filter(|log| log.has_room(0)) else { return Ok(None) };
        let same = version.number == base.number + 1
            && version.identity == base.identity
            && version.schema == base.schema
            && version.constraints == base.constraints
            && version.codecs == base.codecs;
        let keep = kept(base, version);
        let may_delete = !log.is_old || version.segments.iter().all(|segment| segment.deletions.is_none());
        // Readers have the metadata of the version before, which are those of row segments that stay.
        if !same || !may_delete || base.pruning.iter().any(|map| map.segments().end > keep) {
            return Ok(None);
        }
        let mut version = version.clone();
        version.pruning.clone_from(&base.pruning);
        let place = Piece { directory, base: stamp.base, start: log.start(), access };
        let Some(mut bytes) = gather(&mut version, &place)? else { return Ok(None) };
        let text = serde_json::to_vec(&version.difference(base, keep)).expect("plain data with string keys");
        let body = bytes.len()..bytes.len() + text.len();
        bytes.extend_from_slice(&text);
        bytes.resize(bytes.len().next_multiple_of(SEGMENT_ALIGN), 0);
        if bytes.len() > MOST_RECORD_BYTES || !log.has_room(bytes.len()) {
            return Ok(None);
        }
        let sum = complete(&mut bytes, version.number, body);
        Ok(Some(Self { version, bytes, sum }))
    }

    /// Appends it, durable. Calls `committing` before anybody can see it. Returns the stamp of the version.
    ///
    /// Errors: those of the file system and of `committing`; the version before is the newest then, unless the record cannot be removed.
    pub fn commit(
        &self,
        fs: &dyn FileSystem,
        directory: &Path,
        stamp: &Stamp,
        committing: impl FnOnce() -> Result<()>,
    ) -> Result<Stamp> {
        let mut stamp = stamp.clone();
        let header = file_header(stamp.base, &stamp.first);
        let log = stamp.log.as_mut().expect("made of a stamp with a log");
        let path = path_of(directory, stamp.base);
        let is_new = log.end == 0;
        let mut out = match is_new {
            true => fs.create_file(&path),
            false => fs.open_at(&path, log.end),
        }
        .map_err(FormatError::io("cannot open", &path))?;
        committing().inspect_err(|_| {
            if is_new {
                let _ = fs.remove_file(&path);
            }
        })?;
        let bytes = if is_new { &[&header, &self.bytes[..]].concat() } else { &self.bytes };
        let written = written(&mut *out, bytes).map_err(FormatError::io("cannot write", &path));
        // The name of a log that another writer has made may not be durable either.
        let written = written.and_then(|()| match log.is_named {
            true => Ok(()),
            false => fs.sync_dir(directory).map_err(FormatError::io("cannot sync", directory)),
        });
        let written = written.and_then(|()| std::fs::metadata(&path).map_err(FormatError::io("cannot read", &path)));
        let metadata = written.inspect_err(|_| log.spoil(fs, &path))?;
        log.note(&metadata);
        log.is_named = true;
        stamp.add(self.bytes.len(), self.sum);
        directory::mark_committed(fs, directory, self.version.number);
        Ok(stamp)
    }
}

fn written(out: &mut dyn OutputFile, bytes: &[u8]) -> std::io::Result<()> {
    out.write_all(bytes)?;
    out.sync()
}

/// The number of row segments, the first ones, that both versions have as they are stored, but for deleted rows.
fn kept(base: &Version, version: &Version) -> usize {
    let is_same = |(own, known): &(&super::RowSegment, &super::RowSegment)| {
        let same = |(own, known): (&Arc<super::VersionChunk>, &Arc<super::VersionChunk>)| {
            Arc::ptr_eq(own, known)
                || known.place().is_some_and(|place| own.is_at(place, known.heavy.as_ref()) && !place.file.is_pending())
        };
        own.rows == known.rows && own.columns.iter().zip(&known.columns).all(same)
    };
    version.segments.iter().zip(&base.segments).take_while(is_same).count()
}

/// The place of a record to be.
struct Piece<'a> {
    directory: &'a Path,
    /// The version of the log's manifest.
    base: u64,
    /// The first byte in the log.
    start: u64,
    access: FileAccess,
}

/// Moves what is in memory of `version` to a record at `piece`. Returns the bytes of the record, to which the header and the text are missing; `None`
/// if they are too many.
fn gather(version: &mut Version, piece: &Piece<'_>) -> Result<Option<Vec<u8>>> {
    let (mut bytes, mut offsets) = (vec![0; RECORD_HEADER], vec![]);
    let mut too_many = false;
    version.move_places(&mut |place| {
        if place.file.is_pending() && !too_many {
            let offset = (bytes.len() + END_PADDING as usize).next_multiple_of(SEGMENT_ALIGN);
            too_many = offset as u64 + place.bytes > MOST_RECORD_BYTES as u64;
            if !too_many {
                bytes.resize(offset, 0);
                bytes.extend_from_slice(&place.unverified("what was written")?);
                offsets.push(offset as u64);
            }
        }
        Ok(None)
    })?;
    if too_many {
        return Ok(None);
    }
    bytes.resize((bytes.len() + END_PADDING as usize).next_multiple_of(8), 0);
    let held = HeldBytes { start: piece.start, bytes: SegmentBytes::copy_from(&bytes), access: piece.access };
    let (file, mut offsets) = (DataFile::piece(piece.directory, &name_of(piece.base), held), offsets.into_iter());
    version.move_places(&mut |place| {
        let offset = if place.file.is_pending() { offsets.next() } else { None };
        Ok(offset.map(|offset| Place { file: Arc::clone(&file), offset: piece.start + offset, ..place.clone() }))
    })?;
    Ok(Some(bytes))
}

/// Opens logs of which `version` has records in memory, in `directory`, as data files in their place: a manifest will name them, and they do not change
/// any more.
///
/// Errors: those of opening the files.
pub(super) fn open_logs(version: &mut Version, directory: &Path, access: FileAccess) -> Result<()> {
    let mut ends: HashMap<String, u64> = HashMap::new();
    for file in version.files().iter().filter(|file| file.is_record()) {
        let end = ends.entry(file.name().to_owned()).or_default();
        *end = file.bytes().max(*end);
    }
    let open = |(name, end): (String, u64)| {
        let file = DataFile::open(directory, &name, end, access)?;
        Ok((name, file))
    };
    let logs: HashMap<String, Arc<DataFile>> = ends.into_iter().map(open).collect::<Result<_>>()?;
    version.move_places(&mut |place| {
        let log = logs.get(place.file.name()).filter(|_| place.file.is_record());
        Ok(log.map(|log| Place { file: Arc::clone(log), ..place.clone() }))
    })
}
