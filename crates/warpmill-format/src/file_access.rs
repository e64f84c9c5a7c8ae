//! Access to the bytes of a table's files: mapped or read.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::segment::SegmentBytes;
use crate::segment::bytes::{BufferWriter, corrupt};
use crate::{FormatError, Mapping, Result};

/// How the bytes of a table's files get into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileAccess {
    /// The files are mapped: nothing is copied, and the system caches as much as fits memory.
    #[default]
    Map,
    /// Bytes are read into the process's memory on demand, and dropped after use: they stay as their checksum was verified even if the file changes.
    Read,
}

/// A file that is open, in one of the two ways, or a piece of one in memory.
#[derive(Debug)]
pub(crate) enum FileBytes {
    Mapped(Arc<Mapping>),
    Open(OpenBytes),
    Held(HeldBytes),
}

/// A piece of a file in memory, from byte `start` of the file on, a multiple of 64; used as other files of a table with this access are.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    pub start: u64,
    pub bytes: SegmentBytes,
    pub access: FileAccess,
}

/// A file whose bytes are read on demand.
#[derive(Debug)]
pub(crate) struct OpenBytes {
    file: File,
    bytes: u64,
    address: usize,
}

/// Pseudo-addresses for files that are not mapped: from the upper half of the address space, which no process uses.
static NEXT_ADDRESS: AtomicUsize = AtomicUsize::new(1 << (usize::BITS - 1));

impl FileBytes {
    /// Opens `file`, which has `bytes` bytes.
    pub fn of(file: File, bytes: u64, access: FileAccess) -> io::Result<Self> {
        match access {
            FileAccess::Map => Mapping::of(&file).map(|map| Self::Mapped(Arc::new(map))),
            FileAccess::Read => {
                let address = NEXT_ADDRESS.fetch_add((bytes as usize).next_multiple_of(4096), Ordering::Relaxed);
                Ok(Self::Open(OpenBytes { file, bytes, address }))
            }
        }
    }

    /// How the file is accessed.
    pub fn access(&self) -> FileAccess {
        match self {
            Self::Mapped(_) => FileAccess::Map,
            Self::Open(_) => FileAccess::Read,
            Self::Held(held) => held.access,
        }
    }

    /// The address of the first byte, or a pseudo-address: unique among open files and memory while it is open.
    pub fn address(&self) -> usize {
        match self {
            Self::Mapped(map) => map.as_ptr() as usize,
            Self::Open(open) => open.address,
            // Only offsets in the piece are ever added.
            Self::Held(held) => (held.bytes.as_ptr() as usize).wrapping_sub(held.start as usize),
        }
    }

    /// Whether bytes of a mapping were read that the file no longer has.
    pub fn is_damaged(&self) -> bool {
        matches!(self, Self::Mapped(map) if map.is_damaged())
    }

    /// The bytes of a range: mapped, or read now.
    ///
    /// Errors: [`FormatError::Corrupt`] for a range outside of the file, one that the file no longer has, or a mapped and unaligned one (bytes that
    /// are read have their own address). [`FormatError::Io`] without memory for it.
    pub fn get(&self, range: Range<u64>) -> Result<SegmentBytes> {
        match self {
            Self::Mapped(map) => SegmentBytes::mapped(map.clone(), range.start as usize..range.end as usize),
            Self::Open(open) => open.read(range),
            Self::Held(held) => held.piece(range),
        }
    }
}

impl HeldBytes {
    fn piece(&self, range: Range<u64>) -> Result<SegmentBytes> {
        let within = range.start.checked_sub(self.start).zip(range.end.checked_sub(self.start));
        let found = within.and_then(|(start, end)| self.bytes.slice(start as usize..end as usize));
        found.ok_or_else(|| corrupt(format!("no bytes {range:?} in {} from {} on", self.bytes.len(), self.start)))
    }
}

impl OpenBytes {
    fn read(&self, range: Range<u64>) -> Result<SegmentBytes> {
        if range.start > range.end || range.end > self.bytes {
            return Err(corrupt(format!("no bytes {range:?} in {}", self.bytes)));
        }
        let buffer = usize::try_from(range.end - range.start).ok().and_then(BufferWriter::try_new);
        let Some(mut buffer) = buffer else {
            let source = ErrorKind::OutOfMemory.into();
            return Err(FormatError::Io {
                action: "no memory for what is to be read of",
                path: PathBuf::new(),
                source,
            });
        };
        self.file.read_exact_at(buffer.as_mut_slice(), range.start).map_err(read_error)?;
        Ok(buffer.finish())
    }
}

/// A file that has become shorter, or that its disk cannot read, is damaged.
fn read_error(error: io::Error) -> FormatError {
    match error.kind() {
        ErrorKind::UnexpectedEof => corrupt("cut off while it was open"),
        _ => corrupt(format!("cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_more_bytes_than_there_is_memory_is_an_error() {
        let bytes = 1 << 60;
        let open = FileBytes::of(tempfile::tempfile().unwrap(), bytes, FileAccess::Read).unwrap();
        let error = open.get(0..bytes).unwrap_err();
        assert!(matches!(&error, FormatError::Io { source, .. } if source.kind() == ErrorKind::OutOfMemory), "{error}");
        assert!(matches!(open.get(1..bytes + 1), Err(FormatError::Corrupt { .. })));
    }
}
