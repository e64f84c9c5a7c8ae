//! Encoded chunks of a column that wait for others of it, so that they are next to each other in the file.

use crate::codec::Stored;

/// Bytes that are written at once: a disk reads them with one request at its full speed. Chunks of many rows have as many alone.
const EXTENT_BYTES: usize = 4 << 20;

/// Chunks with their row segments, in order.
#[derive(Default)]
pub(super) struct Waiting {
    chunks: Vec<(usize, Stored)>,
    bytes: usize,
}

impl Waiting {
    pub fn push(&mut self, segment: usize, stored: Stored) {
        self.bytes += stored.segment.as_bytes().len();
        self.chunks.push((segment, stored));
    }

    /// Whether they are worth a request.
    pub fn are_enough(&self) -> bool {
        self.bytes >= EXTENT_BYTES
    }

    pub fn take(&mut self) -> Vec<(usize, Stored)> {
        self.bytes = 0;
        std::mem::take(&mut self.chunks)
    }
}
