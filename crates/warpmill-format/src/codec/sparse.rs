//! Partial access to a compressed segment: decompresses only the blocks that are accessed.

use std::ops::Range;

use super::CompressedChunk;
use crate::Result;
use crate::segment::SegmentBytes;
use crate::segment::bytes::BufferWriter;

/// The bytes of a compressed segment; blocks that have not been decompressed are zero. The system does not allocate untouched memory, so a large
/// segment costs no more than the parts accessed.
pub(crate) struct Sparse<'a> {
    chunk: &'a CompressedChunk,
    bytes: SegmentBytes,
    /// The first of `bytes`.
    target: *mut u8,
    /// Per block, whether it has been decompressed.
    done: Vec<bool>,
}

impl<'a> Sparse<'a> {
    /// The segment of `chunk`, without any block.
    pub fn new(chunk: &'a CompressedChunk) -> Self {
        let buffer = BufferWriter::new(chunk.uncompressed_bytes());
        let target = buffer.target();
        Self { chunk, bytes: buffer.finish(), target, done: vec![false; chunk.blocks()] }
    }

    /// The bytes. Only ranges that were fetched mean anything.
    pub fn bytes(&self) -> SegmentBytes {
        self.bytes.clone()
    }

    /// Decompresses the blocks of bytes `range`.
    ///
    /// Errors: as [`CompressedChunk::decompress_block`].
    pub fn fetch(&mut self, range: Range<usize>) -> Result<()> {
        let size = self.chunk.block_bytes();
        for block in range.start / size..range.end.div_ceil(size).min(self.done.len()) {
            if !std::mem::replace(&mut self.done[block], true) {
                let target = self.chunk.block_target(block);
                // SAFETY: inside the buffer, which `bytes` keeps alive; whoever holds `bytes` looks at fetched ranges only, and this
                // one has not been fetched before.
                let out = unsafe { std::slice::from_raw_parts_mut(self.target.add(target.start), target.len()) };
                self.chunk.decompress_block(block, out)?;
            }
        }
        Ok(())
    }

    /// Blocks that were decompressed.
    #[cfg(test)]
    pub fn fetched(&self) -> usize {
        self.done.iter().filter(|done| **done).count()
    }
}
