//! Requests to the vendor's batch decompression library.

use crate::device::batch::BatchFormat;

/// Blocks of one compression format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Compression format.
    pub format: BatchFormat,
    /// Number of blocks.
    pub count: u64,
    /// Decompressed bytes of the largest block.
    pub largest: u64,
}
