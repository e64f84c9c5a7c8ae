//! What tells a file from all others, and from itself after somebody has changed it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Where a file is on its device, its size, and when its bytes were written last. As long as a file is mapped, no other one has its place.
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
