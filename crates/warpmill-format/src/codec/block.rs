//! One block through one codec.
//!
//! Contexts of Zstd and Deflate are large and are kept per thread.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::{Codec, CodecConfig, gdeflate};

thread_local! {
    static ZSTD_OUT: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    static ZSTD_IN: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static INFLATE: RefCell<Option<Decompress>> = const { RefCell::new(None) };
}

/// Compresses `block`.
///
/// Errors: the library's message; a block of a size that [`CodecConfig::check`] accepts always fits.
pub(super) fn compress(config: &CodecConfig, block: &[u8]) -> Result<Vec<u8>, String> {
    Ok(match config.codec {
        Codec::Lz4 => lz4_flex::block::compress(block),
        Codec::Snappy => snap::raw::Encoder::new().compress_vec(block).map_err(|e| e.to_string())?,
        Codec::Zstd => ZSTD_IN.with_borrow_mut(|kept| {
            let context = match kept {
                Some(context) => context,
                None => kept.insert(zstd::bulk::Compressor::new(config.level).map_err(|e| e.to_string())?),
            };
            context.set_compression_level(config.level).map_err(|e| e.to_string())?;
            context.compress(block).map_err(|e| e.to_string())
        })?,
        Codec::Deflate => deflate(block, config.level)?,
        Codec::Gdeflate => gdeflate::lay_out(&deflate(block, config.level)?)?,
        Codec::None => return Err("no codec compresses nothing".into()),
    })
}

fn deflate(block: &[u8], level: i32) -> Result<Vec<u8>, String> {
    let mut context = Compress::new(Compression::new(level.clamp(0, 9) as u32), false);
    // Stored blocks of at most 65,535 bytes with 5 bytes each are the worst case.
    let mut out = Vec::with_capacity(block.len() + block.len() / 16 + 256);
    match context.compress_vec(block, &mut out, FlushCompress::Finish) {
        Ok(Status::StreamEnd) => Ok(out),
        Ok(status) => Err(format!("deflate stopped with {status:?}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Decompresses `block` into all of `out`.
///
/// Errors: invalid bytes, or another decompressed size than `out.len()`.
pub(super) fn decompress(codec: Codec, block: &[u8], out: &mut [u8]) -> Result<(), String> {
    let expected = out.len();
    let written = match codec {
        Codec::Lz4 => lz4_flex::block::decompress_into(block, out).map_err(|e| e.to_string())?,
        Codec::Snappy => {
            // Checked first: the length is stored in the block, and the library's error for a larger one lacks the number.
            match snap::raw::decompress_len(block).map_err(|e| e.to_string())? {
                length if length == expected => {}
                length => return Err(format!("{length} bytes where {expected} belong")),
            }
            snap::raw::Decoder::new().decompress(block, out).map_err(|e| e.to_string())?
        }
        Codec::Zstd => ZSTD_OUT.with_borrow_mut(|kept| {
            let context = match kept {
                Some(context) => context,
                None => kept.insert(zstd::bulk::Decompressor::new().map_err(|e| e.to_string())?),
            };
            context.decompress_to_buffer(block, out).map_err(|e| e.to_string())
        })?,
        Codec::Deflate => inflate(block, out)?,
        Codec::Gdeflate => gdeflate::decompress(block, out)?,
        Codec::None => return Err("no codec decompresses nothing".into()),
    };
    if written == expected { Ok(()) } else { Err(format!("{written} bytes where {expected} belong")) }
}

fn inflate(block: &[u8], out: &mut [u8]) -> Result<usize, String> {
    INFLATE.with_borrow_mut(|kept| {
        let context = kept.get_or_insert_with(|| Decompress::new(false));
        context.reset(false);
        match context.decompress(block, out, FlushDecompress::Finish) {
            Ok(Status::StreamEnd) if context.total_in() == block.len() as u64 => Ok(context.total_out() as usize),
            Ok(Status::StreamEnd) => Err("bytes behind the end of the stream".into()),
            Ok(_) => Err("the stream does not end where the block does".into()),
            Err(error) => Err(error.to_string()),
        }
    })
}
