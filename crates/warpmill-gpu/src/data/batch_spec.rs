//! The work of the vendor's library for batches.

use crate::device::batch::BatchFormat;

/// Blocks of one format and the same greatest size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The format.
    pub format: BatchFormat,
    /// Blocks.
    pub count: u64,
    /// Bytes of the largest, decompressed.
    pub largest: u64,
}
