//! Reads the log of a manifest: all of it, or what has been appended since a known version.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::data_file::{DataFile, HEADER_BYTES, LOG_MAGIC};
use super::directory::{self, Stamp};
use super::log::{Difference, MOST_BYTES, name_of, path_of};
use super::manifest::{Blob, FileEntry, Manifest};
use super::record::{Record, file_header, has_later};
use super::version::Version;
use crate::file_access::HeldBytes;
use crate::segment::SegmentBytes;
use crate::{FileAccess, FormatError, Result};

/// A manifest with what its log says.
pub(super) struct Logged {
    pub manifest: Manifest,
    pub stamp: Stamp,
    /// The records of the log.
    pub records: Records,
}

impl Logged {
    /// A manifest alone.
    pub fn without_log(manifest: Manifest, stamp: Stamp) -> Self {
        Self { manifest, stamp, records: Records::default() }
    }
}

/// Records of a manifest's own log in memory, in their order, each a piece of the log: what is kept of one keeps no other one.
#[derive(Debug, Default)]
pub(crate) struct Records(Vec<Arc<DataFile>>);

impl Records {
    /// The records of the log called `name` in which `version` has something.
    fn in_version(version: &Version, name: &str) -> Self {
        let mut found: Vec<_> =
            version.files().into_iter().filter(|file| file.name() == name && file.is_record()).collect();
        found.sort_by_key(|file| file.held().map(|range| range.start));
        Self(found)
    }

    /// The name of the log; `None` without records.
    pub fn name(&self) -> Option<&str> {
        self.0.first().map(|file| file.name())
    }

    /// The record that has `blob`; where none has, one that is read in vain. There must be records.
    pub fn of(&self, blob: &Blob) -> &Arc<DataFile> {
        let after = self.0.partition_point(|file| file.held().is_some_and(|range| range.start <= blob.offset));
        &self.0[after.saturating_sub(1)]
    }

    /// Whether a record has all bytes of `blob`.
    fn have(&self, blob: &Blob) -> bool {
        let Some(end) = blob.offset.checked_add(blob.bytes) else { return false };
        self.of(blob).held().is_some_and(|range| range.start <= blob.offset && end <= range.end)
    }

    /// Whether all is there that `manifest` has in the log.
    fn have_all(&self, manifest: &mut Manifest) -> bool {
        let Some(log) = manifest.files.iter().position(|file| Some(&*file.name) == self.name()) else { return true };
        manifest.blobs().all(|blob| blob.file != log || self.have(blob))
    }
}

/// How logs in a directory are read.
pub(super) struct LogReader<'a> {
    pub directory: &'a Path,
    /// The last version to read.
    pub until: u64,
    /// The access to data files, which what is read is used as.
    pub access: FileAccess,
}

impl LogReader<'_> {
    /// Adds the records of the log of `found`, a manifest.
    ///
    /// Errors: [`FormatError::Corrupt`] if the log is another one's, a record contradicts the manifest, or one is missing before others.
    pub fn read(&self, mut found: Logged) -> Result<Logged> {
        let path = path_of(self.directory, found.stamp.base);
        let known = file_header(found.stamp.base, &found.stamp.first);
        let Some(log) = &mut found.stamp.log else { return Ok(found) };
        let Some(LogFile { file, metadata }) = LogFile::open(&path)? else { return Ok(found) };
        log.note(&metadata);
        let bytes = read_from(&file, 0, metadata.len().min(MOST_BYTES), &path)?;
        match bytes.get(..HEADER_BYTES) {
            Some(header) if header == known => {}
            // Its writer has died before the first commit.
            header if header.is_none_or(|header| !header.starts_with(LOG_MAGIC)) => return Ok(found),
            _ => {
                return Err(FormatError::corrupt(&path, "the log of another manifest, or of another format version"));
            }
        }
        log.begin();
        if self.take(&mut found, &bytes[HEADER_BYTES..], &path)? && !found.records.have_all(&mut found.manifest) {
            return Err(FormatError::corrupt(&path, "a record names bytes that are in no record"));
        }
        Ok(found)
    }

    /// Reads the records that have been appended to the log since `version`, whose stamp this is; `None`: the log has to be read as a whole.
    ///
    /// Errors: those of [`LogReader::read`].
    pub fn read_on(&self, version: &Version, stamp: &Stamp) -> Result<Option<Logged>> {
        let Some((log, last)) = stamp.log.as_ref().and_then(|log| Some((log, log.last()?))) else { return Ok(None) };
        let path = path_of(self.directory, stamp.base);
        let Some(LogFile { file, metadata }) = LogFile::open(&path)? else { return Ok(None) };
        let is_known = log.is_in(&metadata) && version.files().iter().all(|file| file.access() == self.access);
        if !is_known {
            return Ok(None);
        }
        let bytes = read_from(&file, last.start, metadata.len().min(MOST_BYTES), &path)?;
        let Some(end) = Record::at(&bytes).filter(|record| record.sum == last.sum).map(|record| record.bytes.len())
        else {
            return Ok(None);
        };
        let manifest = Manifest { log: true, ..version.to_manifest() };
        let records = Records::in_version(version, &name_of(stamp.base));
        let mut found = Logged { manifest, stamp: stamp.clone(), records };
        if let Some(log) = &mut found.stamp.log {
            log.note(&metadata);
        }
        self.take(&mut found, &bytes[end..], &path)?;
        Ok(found.records.have_all(&mut found.manifest).then_some(found))
    }

    /// Adds the records in `bytes`, which follow the last one of `found` in the log at `path`. Returns whether there are any.
    fn take(&self, found: &mut Logged, mut bytes: &[u8], path: &Path) -> Result<bool> {
        let name = name_of(found.stamp.base);
        let first = found.manifest.version;
        while found.manifest.version < self.until {
            let version = found.manifest.version;
            let Some(record) = Record::at(bytes).filter(|record| record.version == version + 1) else {
                if has_later(bytes, version) {
                    let detail = format!("the record of version {} is damaged: later ones are there", version + 1);
                    return Err(FormatError::corrupt(path, detail));
                }
                break;
            };
            let start = found.stamp.log.as_ref().map_or(0, |log| log.start());
            let wrong = |detail: String| FormatError::corrupt(path, format!("record at byte {start}: {detail}"));
            let difference: Difference =
                serde_json::from_slice(record.body).map_err(|error| wrong(format!("malformed: {error}")))?;
            apply(&mut found.manifest, difference).map_err(wrong)?;
            let held = HeldBytes { start, bytes: SegmentBytes::copy_from(record.bytes), access: self.access };
            found.records.0.push(DataFile::piece(self.directory, &name, held));
            found.stamp.add(record.bytes.len(), record.sum);
            bytes = &bytes[record.bytes.len()..];
        }
        if found.manifest.version == first {
            return Ok(false);
        }
        let schema = found.manifest.schema(&directory::manifest_path(self.directory, found.stamp.base))?;
        found.manifest.check(&schema).map_err(|detail| FormatError::corrupt(path, detail))?;
        Ok(true)
    }
}

/// An open log, and what the system said of it then.
struct LogFile {
    file: File,
    metadata: Metadata,
}

impl LogFile {
    /// The log at `path`; `None` if there is none.
    fn open(path: &Path) -> Result<Option<Self>> {
        let open = || {
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            Ok::<_, std::io::Error>(Self { file, metadata })
        };
        match open() {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(FormatError::io("cannot read", path)(error)),
        }
    }
}

/// The bytes of `file`, at `path`, from `start` up to `end`, or the end of the file. Records that are appended meanwhile are found with the next look
/// at the file.
fn read_from(file: &File, start: u64, end: u64, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = vec![0; end.saturating_sub(start) as usize];
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], start + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(FormatError::io("cannot read", path)(error)),
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

/// Changes `manifest` to the next version.
fn apply(manifest: &mut Manifest, difference: Difference) -> std::result::Result<(), String> {
    let Difference { keep, files, dictionaries, deletions, segments } = difference;
    if keep > manifest.segments.len() {
        return Err(format!("{keep} row segments of {} stay", manifest.segments.len()));
    }
    let places: HashMap<usize, usize> =
        files.into_iter().enumerate().map(|(at, file)| (at, place_of(&mut manifest.files, file))).collect();
    let moved = |file: &mut usize| {
        *file = *places.get(file).ok_or("it names a file that it does not list")?;
        Ok::<(), String>(())
    };
    let deletes = !deletions.is_empty() || segments.iter().any(|segment| segment.deletions.is_some());
    if manifest.is_old_log && deletes {
        return Err("it deletes rows, in the log of a manifest of version 7".to_owned());
    }
    manifest.segments.truncate(keep);
    manifest.pruning.retain(|map| map.first.saturating_add(map.segments) <= keep);
    for mut segment in segments {
        segment.chunks().flat_map(|chunk| chunk.blobs()).try_for_each(|blob| moved(&mut blob.file))?;
        manifest.segments.push(segment);
    }
    for (segment, mut deletions) in deletions {
        let chunk = deletions.iter_mut().map(|deletions| &mut deletions.kept);
        chunk.flat_map(|chunk| chunk.blobs()).try_for_each(|blob| moved(&mut blob.file))?;
        let own = manifest.segments[..keep].get_mut(segment);
        own.ok_or_else(|| format!("deletions of row segment {segment}"))?.deletions = deletions;
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
