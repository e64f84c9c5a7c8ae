//! The state of a file, which distinguishes files, and versions of the same file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The inode of a file, its size, and the time of the last write. While a file is mapped, its inode cannot be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl FileState {
    /// The state in `metadata`.
    pub fn of(metadata: &Metadata) -> Self {
        let (device, inode) = (metadata.dev(), metadata.ino());
        Self { device, inode, bytes: metadata.len(), modified: (metadata.mtime(), metadata.mtime_nsec()) }
    }

    /// Whether both are the same file, changed or not.
    pub fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}
