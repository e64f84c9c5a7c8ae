//! The log of a manifest: small commits after it, each a record at the end of one file, which takes one write and one sync.
//!
//! A record has what its version has otherwise than the version before: the row segments after the first ones, and dictionaries, with their bytes. A
//! version is committed when its record is there as a whole, as its checksum tells. What follows the last whole record is the remains of a writer that
//! died; nothing is appended behind it, the next version has a manifest of its own. The log is a data file of later manifests then, and does not change
//! any more (`docs/format.md`).

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::data_file::{DataFile, END_PADDING, HEADER_BYTES, LOG_EXTENSION, LOG_MAGIC, Place, header};
use super::directory::{self, Stamp};
use super::fs::FileSystem;
use super::manifest::{DictionaryEntry, FileEntry, Manifest, RowSegmentEntry};
use super::manifest_check::VERSION_DIGITS;
use super::version::Version;
use crate::segment::{SEGMENT_ALIGN, SegmentBytes};
use crate::{FileAccess, FileState, FormatError, Result};

/// The first bytes of a record.
const RECORD: &[u8; 8] = b"WMCOMMIT";
/// Bytes of the header of a record.
const RECORD_HEADER: usize = SEGMENT_ALIGN;

/// Largest size of a record: others are commits with files of their own.
const MOST_RECORD_BYTES: usize = 128 << 10;
/// Largest number of records of a log, all of which are read to open the table.
const MOST_RECORDS: usize = 256;
/// Largest size of a log, which readers have in memory.
const MOST_BYTES: u64 = 4 << 20;

/// The log of a manifest as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Log {
    /// The names of the manifest's files.
    pub files: Arc<[String]>,
    /// The end of the last whole record; 0 if there is no file.
    end: u64,
    records: usize,
    /// The state of the file, if there is one.
    state: Option<FileState>,
    /// Its length.
    bytes: u64,
}

/// What a version has otherwise than the version before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Difference {
    /// Number of row segments that it has in common with the version before, the first ones.
    pub keep: usize,
    /// The files of what follows.
    pub files: Vec<FileEntry>,
    /// Columns with another dictionary, or without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dictionaries: Vec<(usize, Option<DictionaryEntry>)>,
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
        Self { files, end: 0, records: 0, state: None, bytes: 0 }
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

    /// Whether a record may be appended: the last one is whole, and there are not too many.
    fn has_room(&self, more: usize) -> bool {
        self.bytes == self.end && self.records < MOST_RECORDS && self.start() + more as u64 <= MOST_BYTES
    }

    /// The place of the next record.
    fn start(&self) -> u64 {
        self.end.max(HEADER_BYTES as u64)
    }

    fn note(&mut self, metadata: &Metadata) {
        (self.state, self.bytes) = (Some(FileState::of(metadata)), metadata.len());
    }
}

/// A commit to be appended.
pub(super) struct Append {
    /// The version, with places in the log.
    pub version: Version,
    bytes: Vec<u8>,
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
        // Readers have the metadata of the version before, which are those of row segments that stay.
        if !same || base.pruning.iter().any(|map| map.segments().end > keep) {
            return Ok(None);
        }
        let mut version = version.clone();
        version.pruning.clone_from(&base.pruning);
        let start = log.start();
        let Some(mut bytes) = gather(&mut version, directory, (stamp.base, start), access)? else { return Ok(None) };
        let body = serde_json::to_vec(&version.difference(base, keep)).expect("plain data with string keys");
        let body_at = bytes.len();
        bytes.extend_from_slice(&body);
        bytes.resize(bytes.len().next_multiple_of(SEGMENT_ALIGN), 0);
        if bytes.len() > MOST_RECORD_BYTES || !log.has_room(bytes.len()) {
            return Ok(None);
        }
        bytes[..8].copy_from_slice(RECORD);
        let numbers = [version.number, bytes.len() as u64, body_at as u64, body.len() as u64];
        for (at, number) in numbers.into_iter().enumerate() {
            bytes[8 + 8 * at..16 + 8 * at].copy_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(&bytes);
        bytes[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        Ok(Some(Self { version, bytes }))
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
        let log = stamp.log.as_mut().expect("made of a stamp with a log");
        let (path, start) = (path_of(directory, stamp.base), log.start());
        let is_new = log.end == 0;
        let mut out = match is_new {
            true => fs.create_file(&path),
            false => fs.open_at(&path, start),
        }
        .map_err(FormatError::io("cannot open", &path))?;
        committing().inspect_err(|_| {
            if is_new {
                let _ = fs.remove_file(&path);
            }
        })?;
        let mut bytes = if is_new { file_header(stamp.base, &stamp.first).to_vec() } else { vec![] };
        bytes.extend_from_slice(&self.bytes);
        let written = out.write_all(&bytes).map_err(FormatError::io("cannot write", &path));
        let written = written.and_then(|()| out.sync().map_err(FormatError::io("cannot sync", &path)));
        let written = written.and_then(|()| match is_new {
            true => fs.sync_dir(directory).map_err(FormatError::io("cannot sync", directory)),
            false => Ok(()),
        });
        let written = written.and_then(|()| std::fs::metadata(&path).map_err(FormatError::io("cannot read", &path)));
        let metadata = written.inspect_err(|_| {
            // Nobody may take it for a commit: it may not be durable, and others would be behind it.
            if let Err(error) = fs.cut(&path, if is_new { 0 } else { start }) {
                tracing::warn!(path = %path.display(), %error, "a failed commit cannot be removed");
            }
        })?;
        log.note(&metadata);
        (log.end, log.records) = (start + self.bytes.len() as u64, log.records + 1);
        directory::mark_committed(fs, directory, self.version.number);
        Ok(stamp)
    }
}

/// The number of row segments, the first ones, that both versions have as they are stored.
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

/// Moves what is in memory of `version` to a record, in the log of manifest `base` from byte `start` on. Returns the bytes of the record, to which the
/// header and the body are missing; `None` if they are too many.
fn gather(
    version: &mut Version,
    directory: &Path,
    (base, start): (u64, u64),
    access: FileAccess,
) -> Result<Option<Vec<u8>>> {
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
    let piece = (start, SegmentBytes::copy_from(&bytes));
    let (file, mut offsets) = (DataFile::held(directory, &name_of(base), piece, access), offsets.into_iter());
    version.move_places(&mut |place| {
        let offset = if place.file.is_pending() { offsets.next() } else { None };
        Ok(offset.map(|offset| Place { file: Arc::clone(&file), offset: start + offset, ..place.clone() }))
    })?;
    Ok(Some(bytes))
}

/// The place of the checksum in the header of a record.
const CHECKSUM: std::ops::Range<usize> = 40..48;

/// The checksum of a record, but for itself.
fn checksum(record: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&record[..CHECKSUM.start]);
    hasher.update(&record[CHECKSUM.end..]);
    hasher.digest()
}

/// The header of the log of the manifest of `version`, which begins with `first`.
fn file_header(version: u64, first: &[u8; 64]) -> [u8; HEADER_BYTES] {
    let mut bytes = header(LOG_MAGIC);
    bytes[16..24].copy_from_slice(&version.to_le_bytes());
    bytes[24..32].copy_from_slice(&xxh3_64(first).to_le_bytes());
    bytes
}

/// A record in the bytes of a log.
struct Record<'a> {
    bytes: &'a [u8],
    body: &'a [u8],
}

/// The whole record of `version` at the beginning of `bytes`.
fn record(bytes: &[u8], version: u64) -> Option<Record<'_>> {
    let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    if bytes.get(..8)? != RECORD || number(8)? != version {
        return None;
    }
    let all = bytes.get(..usize::try_from(number(16)?).ok()?)?;
    if all.len() < RECORD_HEADER || !all.len().is_multiple_of(SEGMENT_ALIGN) || checksum(all) != number(CHECKSUM.start)?
    {
        return None;
    }
    let (start, length) = (usize::try_from(number(24)?).ok()?, usize::try_from(number(32)?).ok()?);
    Some(Record { bytes: all, body: all.get(start..start.checked_add(length)?)? })
}

/// A manifest with what its log says, and the log: its bytes if it has records.
pub(super) struct Logged {
    pub manifest: Manifest,
    pub stamp: Stamp,
    pub file: Option<Arc<DataFile>>,
}

/// Reads the log of `manifest`, up to the record of version `until`.
///
/// Errors: [`FormatError::Corrupt`] if the log is another one's, or a record contradicts the manifest.
pub(super) fn read(
    directory: &Path,
    (mut manifest, mut stamp): (Manifest, Stamp),
    until: u64,
    access: FileAccess,
) -> Result<Logged> {
    let Some(log) = &mut stamp.log else { return Ok(Logged { manifest, stamp, file: None }) };
    let path = path_of(directory, stamp.base);
    let Some((bytes, metadata)) = contents(&path)? else { return Ok(Logged { manifest, stamp, file: None }) };
    log.note(&metadata);
    let known = file_header(stamp.base, &stamp.first);
    match bytes.get(..HEADER_BYTES) {
        Some(found) if found == known => {}
        // Its writer has died before the first commit.
        found if found.is_none_or(|found| !found.starts_with(LOG_MAGIC)) => {
            return Ok(Logged { manifest, stamp, file: None });
        }
        _ => return Err(FormatError::corrupt(&path, "the log of another manifest, or of another format version")),
    }
    log.end = HEADER_BYTES as u64;
    while manifest.version < until
        && let Some(found) = record(&bytes[log.end as usize..], manifest.version + 1)
    {
        let wrong = |detail: String| FormatError::corrupt(&path, format!("record at byte {}: {detail}", log.end));
        let difference: Difference =
            serde_json::from_slice(found.body).map_err(|error| wrong(format!("malformed: {error}")))?;
        apply(&mut manifest, difference).map_err(wrong)?;
        log.end += found.bytes.len() as u64;
        log.records += 1;
    }
    if log.records == 0 {
        return Ok(Logged { manifest, stamp, file: None });
    }
    let wrong = |detail: String| FormatError::corrupt(&path, detail);
    let schema = manifest.schema(&directory::manifest_path(directory, stamp.base))?;
    manifest.check(&schema).map_err(wrong)?;
    let piece = (0, SegmentBytes::copy_from(&bytes[..log.end as usize]));
    let file = DataFile::held(directory, &name_of(stamp.base), piece, access);
    Ok(Logged { manifest, stamp, file: Some(file) })
}

/// The bytes of the log at `path`, and what the system said of the file before; `None` if there is none.
fn contents(path: &Path) -> Result<Option<(Vec<u8>, Metadata)>> {
    let read = || -> std::io::Result<_> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let mut bytes = Vec::with_capacity(metadata.len().min(MOST_BYTES) as usize);
        // What is appended meanwhile is found with the next look at the file.
        file.take(metadata.len().min(MOST_BYTES)).read_to_end(&mut bytes)?;
        Ok((bytes, metadata))
    };
    match read() {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FormatError::io("cannot read", path)(error)),
    }
}

/// Changes `manifest` to the next version.
fn apply(manifest: &mut Manifest, difference: Difference) -> std::result::Result<(), String> {
    let Difference { keep, files, dictionaries, segments } = difference;
    if keep > manifest.segments.len() {
        return Err(format!("{keep} row segments of {} stay", manifest.segments.len()));
    }
    let places: HashMap<usize, usize> =
        files.into_iter().enumerate().map(|(at, file)| (at, place_of(&mut manifest.files, file))).collect();
    let moved = |file: &mut usize| {
        *file = *places.get(file).ok_or("it names a file that it does not list")?;
        Ok::<(), String>(())
    };
    manifest.segments.truncate(keep);
    manifest.pruning.retain(|map| map.first.saturating_add(map.segments) <= keep);
    for mut segment in segments {
        segment.columns.iter_mut().flat_map(|chunk| chunk.blobs()).try_for_each(|blob| moved(&mut blob.file))?;
        manifest.segments.push(segment);
    }
    for (column, mut dictionary) in dictionaries {
        dictionary.iter_mut().flat_map(|own| own.blobs()).try_for_each(|blob| moved(&mut blob.file))?;
        *manifest.dictionaries.get_mut(column).ok_or(format!("a dictionary of column {column}"))? = dictionary;
    }
    manifest.version += 1;
    Ok(())
}

/// The index of a file among those of a manifest.
fn place_of(files: &mut Vec<FileEntry>, file: FileEntry) -> usize {
    match files.iter().position(|known| known.name == file.name) {
        Some(at) => {
            files[at].bytes = files[at].bytes.max(file.bytes);
            at
        }
        None => {
            files.push(file);
            files.len() - 1
        }
    }
}
