//! Batch decompression of blocks by a library of the device's vendor, for formats that Warpmill's kernels do not read.

use super::{DevicePtr, Result, Stream};

/// Compression format of a block.
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
    /// Deflate with a layout for 32 lanes.
    Gdeflate,
    /// A Gzip member (RFC 1952).
    Gzip,
}

impl BatchFormat {
    /// All formats.
    pub const ALL: [BatchFormat; 6] = [Self::Lz4, Self::Snappy, Self::Zstd, Self::Deflate, Self::Gdeflate, Self::Gzip];

    /// The usual name of the format.
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
    /// Number of blocks.
    pub count: u64,
    /// Addresses of the compressed blocks (u64).
    pub stored: DevicePtr,
    /// Compressed bytes of the blocks (u64).
    pub stored_bytes: DevicePtr,
    /// Bytes of the output buffers (u64).
    pub room: DevicePtr,
    /// Addresses of the output buffers (u64).
    pub out: DevicePtr,
    /// Output: bytes written per block (u64).
    pub written: DevicePtr,
    /// Output: status per block, 0 for success (i32).
    pub statuses: DevicePtr,
    /// Address and bytes of the scratch memory.
    pub temp: (DevicePtr, u64),
}

/// A library that decompresses batches of blocks.
///
/// A block has failed if its status or the number of bytes written says so. The library's behaviour on invalid input is otherwise unspecified:
/// callers pass blocks with verified checksums, if they have any.
pub trait BatchCodec: Send + Sync + std::fmt::Debug {
    /// Its name and version.
    fn name(&self) -> String;

    /// Required alignment of compressed blocks; `None` for an unsupported format.
    fn input_alignment(&self, format: BatchFormat) -> Option<u64>;

    /// Bytes of scratch memory ([`Batch::temp`]) for `count` blocks of at most `largest` decompressed bytes.
    ///
    /// # Errors
    /// The library's.
    fn temp_bytes(&self, format: BatchFormat, count: u64, largest: u64) -> Result<u64>;

    /// Queues the decompression of `batch`.
    ///
    /// # Errors
    /// The library's, if the work could not be queued.
    ///
    /// # Safety
    /// All arrays, and the buffers that they name, are allocated with the stated sizes until the queued work is done; blocks have the required
    /// alignment.
    unsafe fn decompress(&self, format: BatchFormat, batch: &Batch, stream: Stream) -> Result<()>;
}
