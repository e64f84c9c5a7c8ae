//! Codecs: general compression over the bytes of an encoded segment, undone before the segment is decoded.
//!
//! The bytes are divided into blocks (64 KiB by default), each compressed separately, in the formats of nvCOMP's batched low-level interface: raw LZ4
//! blocks, raw Snappy, Zstd frames, raw Deflate, GDeflate. A device can therefore decompress every block with a separate group of threads, and any
//! number of CPU workers can share a chunk (`docs/format.md`, section 6).
//!
//! - `block`: compression of a single block; `gdeflate`: the codec without an ordinary library;
//! - `stored`: the stored form of a chunk: writing, checks and access;
//! - `shared`: a chunk that several workers decompress together; `sparse`: a chunk of which only parts are decompressed;
//! - `choose`: the choice of a column's codec, from samples, for an objective.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{FormatError, Result};

mod block;
mod choose;
mod gdeflate;
mod shared;
mod sparse;
mod stored;

pub use choose::{CodecChoice, CodecOptions, Machine, Objective, Rates};
pub(crate) use choose::{ColumnChoice, ColumnCodec, decompression_rate};
pub(crate) use choose::{Compressed, Stored};
pub(crate) use shared::Shared;
pub(crate) use sparse::Sparse;
pub use stored::CompressedChunk;
pub(crate) use stored::{MAX_CHUNK_BYTES, compress};

/// Default size of a block, in bytes: nvCOMP's recommendation.
pub const BLOCK_BYTES: usize = 64 << 10;
/// Smallest size of a block, in bytes.
pub const MIN_BLOCK_BYTES: usize = 4 << 10;
/// Largest size of a block, in bytes.
pub const MAX_BLOCK_BYTES: usize = 1 << 20;
/// Alignment in the file of a compressed chunk of [`ALIGNED_BYTES`] or more: direct I/O reads it without a copy.
pub const CHUNK_ALIGN: usize = 4096;
/// Chunks with fewer stored bytes are not aligned: the room between them would cost more than the codec saves.
pub const ALIGNED_BYTES: usize = 64 << 10;

/// The compression of a segment's bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// No compression.
    #[default]
    None,
    /// LZ4 blocks without a size in front.
    Lz4,
    /// Snappy without framing.
    Snappy,
    /// One Zstandard frame a block.
    Zstd,
    /// Deflate without a zlib or gzip header.
    Deflate,
    /// Deflate laid out for 32 lanes.
    Gdeflate,
}

impl Codec {
    /// All codecs; the position is the stored number.
    pub const ALL: [Codec; 6] = [Codec::None, Codec::Lz4, Codec::Snappy, Codec::Zstd, Codec::Deflate, Codec::Gdeflate];

    /// All but [`Codec::None`].
    pub const AVAILABLE: [Codec; 5] = [Codec::Lz4, Codec::Snappy, Codec::Zstd, Codec::Deflate, Codec::Gdeflate];

    /// The number that is stored.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The codec for a stored number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Name in options, manifests and printed tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
            Self::Zstd => "zstd",
            Self::Deflate => "deflate",
            Self::Gdeflate => "gdeflate",
        }
    }

    /// Largest number of bytes of a block.
    pub fn max_block_bytes(self) -> usize {
        match self {
            // nvCOMP decompresses no larger ones.
            Self::Deflate | Self::Gdeflate => 64 << 10,
            _ => MAX_BLOCK_BYTES,
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Codec {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|codec| codec.name().eq_ignore_ascii_case(name.trim()));
        found.ok_or_else(|| FormatError::Codec {
            codec: name.trim().into(),
            detail: "there is no such codec: there are none, lz4, snappy, zstd, deflate and gdeflate, and auto chooses"
                .into(),
        })
    }
}

/// A codec and how it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CodecConfig {
    /// The codec.
    pub codec: Codec,
    /// Uncompressed bytes of a block, a multiple of 4096; unused without a codec.
    pub block_bytes: usize,
    /// The effort of the compressor (Zstd, Deflate, GDeflate); does not affect the decompressed bytes.
    pub level: i32,
    /// Whether integers and codes are compressed as plain values, instead of their light encoding.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain: bool,
    /// Whether the segment is stored without the codec, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub light: bool,
}

impl CodecConfig {
    /// No codec.
    pub const NONE: Self = Self { codec: Codec::None, block_bytes: BLOCK_BYTES, level: 0, plain: false, light: false };

    /// `codec` with blocks of 64 KiB at its usual level.
    pub fn new(codec: Codec) -> Self {
        let level = match codec {
            Codec::Zstd => 3,
            Codec::Deflate | Codec::Gdeflate => 6,
            _ => 0,
        };
        Self { codec, level, ..Self::NONE }
    }

    /// The same with blocks of `block_bytes` bytes.
    pub fn with_block_bytes(self, block_bytes: usize) -> Self {
        Self { block_bytes, ..self }
    }

    /// Whether segments can be stored so.
    ///
    /// Errors: [`FormatError::Codec`] for a block size that the codec does not have.
    pub fn check(&self) -> Result<()> {
        let max = self.codec.max_block_bytes();
        if self.codec != Codec::None
            && (!self.block_bytes.is_multiple_of(4096) || !(MIN_BLOCK_BYTES..=max).contains(&self.block_bytes))
        {
            return Err(FormatError::Codec {
                codec: self.codec.name().into(),
                detail: format!("blocks of {} bytes: they are multiples of 4096 from 4096 to {max}", self.block_bytes),
            });
        }
        Ok(())
    }
}

/// Decompresses one block into all of `out`, on this thread.
///
/// Errors: [`FormatError::Codec`] for invalid bytes, or another decompressed size than `out.len()`.
pub fn decompress_block(codec: Codec, stored: &[u8], out: &mut [u8]) -> Result<()> {
    block::decompress(codec, stored, out).map_err(|detail| FormatError::Codec { codec: codec.name().into(), detail })
}

/// The blocks of `bytes`, compressed one by one on this thread.
///
/// Errors: [`FormatError::Codec`].
pub(crate) fn blocks(config: &CodecConfig, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let failed = |detail| FormatError::Codec { codec: config.codec.name().into(), detail };
    bytes.chunks(config.block_bytes).map(|block| block::compress(config, block).map_err(failed)).collect()
}

#[cfg(test)]
mod tests;
