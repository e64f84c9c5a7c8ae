//! The state of a file: it differs between files, and before and after a change of the same file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The place of a file on its device, its size, and the time of the last write. As long as a file is mapped, no other one has its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl FileState {
    /// That of the file that `metadata` is of.
    pub fn of(metadata: &Metadata) -> Self {
        let (device, inode) = (metadata.dev(), metadata.ino());
        Self { device, inode, bytes: metadata.len(), modified: (metadata.mtime(), metadata.mtime_nsec()) }
    }

    /// Whether both are the same file, changed or not.
    pub fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}
