//! Encoded chunks that wait for others of their column, to be stored contiguously in the file.

use crate::codec::Stored;

/// Limit of waiting bytes, over all columns.
const MOST_BYTES: usize = 256 << 20;

/// Chunks by column, with their row segments, in order.
pub(super) struct Waiting {
    columns: Vec<(Vec<(usize, Stored)>, usize)>,
    bytes: usize,
    extent: usize,
}

impl Waiting {
    /// Chunks of a column wait until they have `extent` bytes together; chunks of many rows reach it alone.
    pub fn new(columns: usize, extent: usize) -> Self {
        Self { columns: (0..columns).map(|_| (vec![], 0)).collect(), bytes: 0, extent }
    }

    /// Adds a chunk. Returns the column whose chunks are to be written now, if any.
    pub fn push(&mut self, segment: usize, column: usize, stored: Stored) -> Option<usize> {
        let compressed = stored.compressed.as_ref().map_or(0, |compressed| compressed.bytes.len());
        let bytes = stored.segment.as_bytes().len() + compressed;
        let (chunks, own) = &mut self.columns[column];
        chunks.push((segment, stored));
        *own += bytes;
        self.bytes += bytes;
        if *own >= self.extent {
            return Some(column);
        }
        let largest = || (0..self.columns.len()).max_by_key(|&column| self.columns[column].1);
        if self.bytes > MOST_BYTES { largest() } else { None }
    }

    /// The chunks of a column.
    pub fn take(&mut self, column: usize) -> Vec<(usize, Stored)> {
        let (chunks, bytes) = std::mem::take(&mut self.columns[column]);
        self.bytes -= bytes;
        chunks
    }
}
