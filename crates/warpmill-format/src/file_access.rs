//! The two ways in which the bytes of a table's files come into memory.

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

/// The way in which the bytes of a table's files come into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileAccess {
    /// The files are mapped: nothing is copied, and the system keeps in memory what it has room for.
    #[default]
    Map,
    /// Bytes that are needed are read into memory of the process, and dropped after use: whatever happens to the file,
    /// they stay as they were when their checksum was verified.
    Read,
}

/// A file that is open, in one of the two ways.
#[derive(Debug)]
pub(crate) enum FileBytes {
    Mapped(Arc<Mapping>),
    Open(OpenBytes),
}

/// A file whose bytes are read when they are asked for.
#[derive(Debug)]
pub(crate) struct OpenBytes {
    file: File,
    bytes: u64,
    address: usize,
}

/// Numbers that no address of a process is, for files that are at none: those of its upper half belong to the system.
static NEXT_ADDRESS: AtomicUsize = AtomicUsize::new(1 << (usize::BITS - 1));

impl FileBytes {
    /// The bytes of `file`, which has `bytes` of them.
    pub fn of(file: File, bytes: u64, access: FileAccess) -> io::Result<Self> {
        match access {
            FileAccess::Map => Mapping::of(&file).map(|map| Self::Mapped(Arc::new(map))),
            FileAccess::Read => {
                let address = NEXT_ADDRESS.fetch_add((bytes as usize).next_multiple_of(4096), Ordering::Relaxed);
                Ok(Self::Open(OpenBytes { file, bytes, address }))
            }
        }
    }

    /// The way the file is open.
    pub fn access(&self) -> FileAccess {
        match self {
            Self::Mapped(_) => FileAccess::Map,
            Self::Open(_) => FileAccess::Read,
        }
    }

    /// Size in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Mapped(map) => map.len() as u64,
            Self::Open(open) => open.bytes,
        }
    }

    /// The address of the first byte, or a number that stands for it: nothing else has one of those of the file while
    /// it is open.
    pub fn address(&self) -> usize {
        match self {
            Self::Mapped(map) => map.as_ptr() as usize,
            Self::Open(open) => open.address,
        }
    }

    /// Whether bytes of a mapping were read that were not there.
    pub fn is_damaged(&self) -> bool {
        matches!(self, Self::Mapped(map) if map.is_damaged())
    }

    /// The bytes of a range: mapped, or read now.
    ///
    /// Errors: [`FormatError::Corrupt`] for a range that is outside of the file, that the file does not have any more,
    /// or that is mapped and not aligned: what is read is at an address of its own. [`FormatError::Io`] without memory
    /// for it.
    pub fn get(&self, range: Range<u64>) -> Result<SegmentBytes> {
        match self {
            Self::Mapped(map) => SegmentBytes::mapped(map.clone(), range.start as usize..range.end as usize),
            Self::Open(open) => open.read(range),
        }
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

/// A file that has become shorter is damaged, and so is one that its disk cannot read.
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
