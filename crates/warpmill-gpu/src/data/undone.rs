//! Codecs that a device decompresses: with Warpmill's kernels, or with the vendor's batch library if there is one.

use warpmill_format::Codec;
use warpmill_format::parquet_file::{PageCodec, PageCodecs};

use crate::device::Device;
use crate::device::batch::BatchFormat;

/// The alignment of blocks of stored chunks (docs/format.md, section 6).
const BLOCK_ALIGN: u64 = 16;

/// The codecs that a device decompresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Undone {
    zstd: bool,
    deflate: bool,
    gdeflate: bool,
    pages: PageCodecs,
}

impl Undone {
    /// The codecs that `device` decompresses.
    pub fn of(device: &dyn Device) -> Self {
        let Ok(library) = device.batch_codec() else { return Self::default() };
        let takes = |format, align| library.input_alignment(format).is_some_and(|least| align % least == 0);
        Self {
            zstd: takes(BatchFormat::Zstd, BLOCK_ALIGN),
            deflate: takes(BatchFormat::Deflate, BLOCK_ALIGN),
            gdeflate: takes(BatchFormat::Gdeflate, BLOCK_ALIGN),
            // Pages have no alignment.
            pages: PageCodecs { zstd: takes(BatchFormat::Zstd, 1), gzip: takes(BatchFormat::Gzip, 1), own: true },
        }
    }

    /// Whether the device decompresses blocks of `codec`.
    pub fn has(self, codec: Codec) -> bool {
        match codec {
            Codec::Lz4 | Codec::Snappy => true,
            Codec::Zstd => self.zstd,
            Codec::Deflate => self.deflate,
            Codec::Gdeflate => self.gdeflate,
            Codec::None => false,
        }
    }

    /// The codecs of Parquet pages that the device decompresses.
    pub fn pages(self) -> PageCodecs {
        self.pages
    }
}

/// The library's format for a codec of stored chunks; `None` for those that Warpmill's kernels decompress.
pub fn batch_format(codec: Codec) -> Option<BatchFormat> {
    match codec {
        Codec::Zstd => Some(BatchFormat::Zstd),
        Codec::Deflate => Some(BatchFormat::Deflate),
        Codec::Gdeflate => Some(BatchFormat::Gdeflate),
        Codec::None | Codec::Lz4 | Codec::Snappy => None,
    }
}

/// The library's format for a codec of Parquet pages.
pub fn page_format(codec: PageCodec) -> Option<BatchFormat> {
    match codec {
        PageCodec::Zstd => Some(BatchFormat::Zstd),
        PageCodec::Gzip => Some(BatchFormat::Gzip),
        PageCodec::None | PageCodec::Snappy | PageCodec::Lz4 => None,
    }
}

/// The codec of stored chunks with about the same decompression rate as a page codec: Gzip is Deflate with a checksum.
pub fn same_rate(codec: PageCodec) -> Codec {
    match codec {
        PageCodec::None => Codec::None,
        PageCodec::Snappy => Codec::Snappy,
        PageCodec::Lz4 => Codec::Lz4,
        PageCodec::Zstd => Codec::Zstd,
        PageCodec::Gzip => Codec::Deflate,
    }
}
