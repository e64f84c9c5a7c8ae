//! Codecs: general compression over the bytes of an encoded segment, undone before the segment is decoded.
//!
//! The bytes are cut into blocks (64 KiB unless asked otherwise), each compressed on its own, in the formats that nvCOMP's
//! batched low-level interface takes: raw LZ4 blocks, raw Snappy, Zstd frames, raw Deflate, GDeflate. So a device can decompress every
//! block by its own group of threads, and any number of CPU workers share one chunk (`docs/format.md`, section 6).
//!
//! - `block`: one block through one codec; `gdeflate`: the one that no ordinary library has;
//! - `stored`: the stored form of a chunk, written, checked and taken apart;
//! - `shared`: a chunk that several workers decompress together; `sparse`: one of which only parts are wanted;
//! - `choose`: which codec a column gets, from samples, for an objective.

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

/// Bytes of a block where nothing else is asked for: what nvCOMP recommends.
pub const BLOCK_BYTES: usize = 64 << 10;
/// Fewest bytes of a block.
pub const MIN_BLOCK_BYTES: usize = 4 << 10;
/// Most bytes of a block.
pub const MAX_BLOCK_BYTES: usize = 1 << 20;
/// The alignment of the first byte of a compressed chunk of [`ALIGNED_BYTES`] or more in its file: direct I/O reads it as it lies.
pub const CHUNK_ALIGN: usize = 4096;
/// Chunks with fewer stored bytes are not aligned: the room between them would cost more than the codec saves.
pub const ALIGNED_BYTES: usize = 64 << 10;

/// The way the bytes of a segment are compressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// Not at all: the encoded segment as it is.
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
    /// All codecs; the position is the number that is stored.
    pub const ALL: [Codec; 6] = [Codec::None, Codec::Lz4, Codec::Snappy, Codec::Zstd, Codec::Deflate, Codec::Gdeflate];

    /// All but [`Codec::None`].
    pub const AVAILABLE: [Codec; 5] = [Codec::Lz4, Codec::Snappy, Codec::Zstd, Codec::Deflate, Codec::Gdeflate];

    /// The number that is stored.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The codec of a stored number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// As options, manifests and tables for people call it.
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

    /// The most bytes that a block of this codec may have.
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
    /// Uncompressed bytes of a block, a multiple of 4096; of no meaning without a codec.
    pub block_bytes: usize,
    /// The effort of the compressor (Zstd, Deflate, GDeflate); what is decompressed does not depend on it.
    pub level: i32,
    /// Whether integers and codes are compressed as plain values, not as they would be encoded without a codec.
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
/// Errors: [`FormatError::Codec`] for bytes that are not the codec's, or do not give exactly `out.len()` bytes.
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
