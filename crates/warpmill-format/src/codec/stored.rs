//! The stored form of a compressed chunk: header, table of blocks, blocks.

use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::{Codec, CodecConfig, MIN_BLOCK_BYTES, block};
use crate::segment::SegmentBytes;
use crate::segment::bytes::{BufferWriter, corrupt};
use crate::{FormatError, Result};

const MAGIC: &[u8; 4] = b"WMCC";
const VERSION: u16 = 1;
/// Bytes of the header, before the table of blocks.
const HEADER_BYTES: usize = 64;
/// Bytes of an entry of the table: offset and length, u64 each.
const ENTRY_BYTES: usize = 16;
/// The alignment of a block: no codec of nvCOMP requires more than 8.
const BLOCK_ALIGN: usize = 16;

/// Largest uncompressed size of a chunk: 2^20 rows of the widest values and their children, or 4 GiB of strings with their offsets, are well below.
/// Headers that claim more are refused.
pub(crate) const MAX_CHUNK_BYTES: u64 = 8 << 30;

/// A compressed form is stored only if it saves at least one byte in this many.
const LEAST_SAVING: usize = 32;

/// Compresses `bytes`; `None` if the result would not be noticeably smaller. Blocks are compressed in parallel on the current pool.
///
/// Errors: [`FormatError::Codec`] for an invalid block size.
pub(crate) fn compress(config: &CodecConfig, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    config.check()?;
    if config.codec == Codec::None || bytes.is_empty() {
        return Ok(None);
    }
    let count = bytes.len().div_ceil(config.block_bytes);
    let compressed: Vec<Vec<u8>> = (0..count)
        .into_par_iter()
        .map(|i| block::compress(config, &bytes[range(i, config.block_bytes, bytes.len())]))
        .collect::<Result<_, String>>()
        .map_err(|detail| FormatError::Codec { codec: config.codec.name().into(), detail })?;
    let mut at = HEADER_BYTES + ENTRY_BYTES * count;
    let mut table = Vec::with_capacity(count);
    for block in &compressed {
        at = at.next_multiple_of(BLOCK_ALIGN);
        table.push((at, block.len()));
        at += block.len();
    }
    if at > bytes.len() - bytes.len().div_ceil(LEAST_SAVING) {
        return Ok(None);
    }
    let mut out = vec![0; at];
    out[..4].copy_from_slice(MAGIC);
    out[4..6].copy_from_slice(&VERSION.to_le_bytes());
    out[6] = config.codec.number();
    out[8..12].copy_from_slice(&(config.block_bytes as u32).to_le_bytes());
    out[12..16].copy_from_slice(&(count as u32).to_le_bytes());
    out[16..24].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    for (i, ((offset, length), block)) in table.into_iter().zip(&compressed).enumerate() {
        let entry = HEADER_BYTES + ENTRY_BYTES * i;
        out[entry..entry + 8].copy_from_slice(&(offset as u64).to_le_bytes());
        out[entry + 8..entry + 16].copy_from_slice(&(length as u64).to_le_bytes());
        out[offset..offset + length].copy_from_slice(block);
    }
    Ok(Some(out))
}

/// The uncompressed bytes of block `i`.
fn range(i: usize, block_bytes: usize, total: usize) -> std::ops::Range<usize> {
    i * block_bytes..((i + 1) * block_bytes).min(total)
}

/// A compressed column chunk, with the positions of its blocks. All numbers of header and table have been checked.
#[derive(Debug, Clone)]
pub struct CompressedChunk {
    bytes: SegmentBytes,
    codec: Codec,
    block_bytes: usize,
    blocks: usize,
    total: usize,
}

impl CompressedChunk {
    /// Smallest size of a chunk with `blocks` blocks: its header and its table.
    pub(crate) fn least_bytes(blocks: u64) -> u64 {
        HEADER_BYTES as u64 + ENTRY_BYTES as u64 * blocks
    }

    /// Parses the chunk stored in `bytes`.
    ///
    /// Errors: [`FormatError::Corrupt`] (without file and segment, which the caller knows) for any
    /// inconsistency.
    pub fn read(bytes: SegmentBytes) -> Result<Self> {
        if bytes.len() < HEADER_BYTES {
            return Err(corrupt(format!("{} bytes are no compressed chunk", bytes.len())));
        }
        if &bytes[..4] != MAGIC {
            return Err(corrupt("not a compressed chunk (wrong magic)"));
        }
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version != VERSION {
            return Err(corrupt(format!("compressed chunk version {version}, this build reads {VERSION}")));
        }
        let codec = match Codec::from_number(bytes[6]) {
            None | Some(Codec::None) => return Err(corrupt(format!("codec {} does not exist", bytes[6]))),
            Some(codec) => codec,
        };
        if bytes[7] != 0 || bytes[24..HEADER_BYTES].iter().any(|&b| b != 0) {
            return Err(corrupt("the unused bytes of the header of a compressed chunk are not zero"));
        }
        let (block_bytes, blocks, total) = (u32_at(8) as usize, u32_at(12) as usize, u64_at(16));
        if !block_bytes.is_multiple_of(4096) || !(MIN_BLOCK_BYTES..=codec.max_block_bytes()).contains(&block_bytes) {
            return Err(corrupt(format!("blocks of {block_bytes} bytes")));
        }
        if total == 0 || total > MAX_CHUNK_BYTES || total.div_ceil(block_bytes as u64) != blocks as u64 {
            return Err(corrupt(format!("{blocks} blocks of {block_bytes} bytes for {total} bytes")));
        }
        let chunk = Self { bytes, codec, block_bytes, blocks, total: total as usize };
        chunk.check_table()?;
        Ok(chunk)
    }

    /// Offsets follow from lengths: blocks are contiguous, and the last ends with the chunk.
    fn check_table(&self) -> Result<()> {
        let mut end = HEADER_BYTES + ENTRY_BYTES * self.blocks;
        if end > self.bytes.len() {
            return Err(corrupt(format!("a table of {} blocks does not fit", self.blocks)));
        }
        for i in 0..self.blocks {
            let (offset, length) = self.entry(i);
            if offset != end.next_multiple_of(BLOCK_ALIGN) as u64 {
                return Err(corrupt(format!("block {i} at byte {offset}, {end} bytes are before it")));
            }
            let Some(next) = offset.checked_add(length).filter(|&next| next <= self.bytes.len() as u64) else {
                return Err(corrupt(format!("block {i}, {length} bytes at {offset}, ends outside the chunk")));
            };
            if self.bytes[end..offset as usize].iter().any(|&b| b != 0) {
                return Err(corrupt(format!("bytes before block {i} that belong to none")));
            }
            end = next as usize;
        }
        if end != self.bytes.len() {
            return Err(corrupt(format!("{} bytes behind the last block", self.bytes.len() - end)));
        }
        Ok(())
    }

    /// Offset and length of block `i` in the table.
    fn entry(&self, i: usize) -> (u64, u64) {
        let at = HEADER_BYTES + ENTRY_BYTES * i;
        let number = |at: usize| u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("8 bytes"));
        (number(at), number(at + 8))
    }

    /// The codec of all blocks.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Uncompressed bytes of every block but the last, which may have fewer.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Bytes of the segment.
    pub fn uncompressed_bytes(&self) -> usize {
        self.total
    }

    /// The stored bytes, with their position in the file.
    pub fn bytes(&self) -> &SegmentBytes {
        &self.bytes
    }

    /// Byte range of block `i` in [`CompressedChunk::bytes`], compressed.
    pub fn block(&self, i: usize) -> std::ops::Range<usize> {
        let (offset, length) = self.entry(i);
        offset as usize..(offset + length) as usize
    }

    /// Byte range of block `i` in the segment, uncompressed.
    pub fn block_target(&self, i: usize) -> std::ops::Range<usize> {
        range(i, self.block_bytes, self.total)
    }

    /// Decompresses block `i` into `out`, which has the length of [`CompressedChunk::block_target`].
    ///
    /// Errors: [`FormatError::Corrupt`], as [`CompressedChunk::read`].
    pub fn decompress_block(&self, i: usize, out: &mut [u8]) -> Result<()> {
        block::decompress(self.codec, &self.bytes[self.block(i)], out)
            .map_err(|detail| corrupt(format!("block {i} of {}, {}: {detail}", self.blocks, self.codec)))
    }

    /// The segment's bytes, decompressed on this thread.
    ///
    /// Errors: [`FormatError::Corrupt`], as [`CompressedChunk::read`].
    pub fn decompress(&self) -> Result<SegmentBytes> {
        let mut buffer = BufferWriter::new(self.total);
        let out = buffer.as_mut_slice();
        (0..self.blocks).try_for_each(|i| self.decompress_block(i, &mut out[self.block_target(i)]))?;
        Ok(buffer.finish())
    }
}
