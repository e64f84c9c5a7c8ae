//! Decompression of many blocks at a time by a library of the device's vendor, for formats that no kernel of ours reads.

use super::{DevicePtr, Result, Stream};

/// The format that a block is compressed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BatchFormat {
    /// An LZ4 block.
    Lz4,
    /// Raw Snappy.
    Snappy,
    /// A Zstandard frame.
    Zstd,
    /// Raw Deflate (RFC 1951).
    Deflate,
    /// Deflate laid out for 32 lanes.
    Gdeflate,
    /// A Gzip member (RFC 1952).
    Gzip,
}

impl BatchFormat {
    /// All formats.
    pub const ALL: [BatchFormat; 6] = [Self::Lz4, Self::Snappy, Self::Zstd, Self::Deflate, Self::Gdeflate, Self::Gzip];

    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
            Self::Zstd => "zstd",
            Self::Deflate => "deflate",
            Self::Gdeflate => "gdeflate",
            Self::Gzip => "gzip",
        }
    }
}

/// Blocks of one format: device arrays with an entry per block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Blocks.
    pub count: u64,
    /// The place where each is, compressed (u64).
    pub stored: DevicePtr,
    /// Its bytes, compressed (u64).
    pub stored_bytes: DevicePtr,
    /// The bytes that there is room for (u64).
    pub room: DevicePtr,
    /// The place where it goes (u64).
    pub out: DevicePtr,
    /// Filled in: the bytes that were written (u64).
    pub written: DevicePtr,
    /// Filled in: 0 where that went well (i32).
    pub statuses: DevicePtr,
    /// Memory for intermediate results, and its bytes.
    pub temp: (DevicePtr, u64),
}

/// A library that decompresses batches of blocks.
///
/// It judges a block by its status and by the bytes that it wrote. What else it does with bytes that are not the format's is its own:
/// callers give it blocks whose checksums were verified, where there are any.
pub trait BatchCodec: Send + Sync + std::fmt::Debug {
    /// Its name and version.
    fn name(&self) -> String;

    /// The alignment of addresses of compressed blocks; `None`: it does not know the format.
    fn input_alignment(&self, format: BatchFormat) -> Option<u64>;

    /// Bytes that [`Batch::temp`] needs for `count` blocks of at most `largest` bytes decompressed.
    ///
    /// # Errors
    /// The library's.
    fn temp_bytes(&self, format: BatchFormat, count: u64, largest: u64) -> Result<u64>;

    /// Queues the decompression of `batch`.
    ///
    /// # Errors
    /// The library's, where it could not queue it.
    ///
    /// # Safety
    /// All arrays, and what they name, are allocated with the sizes that they say, when work before this is done; blocks are aligned
    /// as the library wants.
    unsafe fn decompress(&self, format: BatchFormat, batch: &Batch, stream: Stream) -> Result<()>;
}
