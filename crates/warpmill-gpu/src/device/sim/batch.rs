//! Batch decompression on the simulated device: the host's libraries behind the interface of the vendor's.

use std::sync::Arc;

use parking_lot::Mutex;
use rayon::prelude::*;
use warpmill_format::Codec;
use warpmill_format::codec::decompress_block;
use warpmill_format::parquet_file::{PageCodec, decompress};

use super::memory::Memory;
use crate::device::batch::{Batch, BatchCodec, BatchFormat};
use crate::device::{DeviceError, DevicePtr, Result, Stream};

/// The status of a block that could not be decompressed, as in nvCOMP.
const CANNOT_DECOMPRESS: i32 = 12;

/// Decompresses with the host's libraries, with the same requirements as nvCOMP on alignment and scratch memory.
#[derive(Debug)]
pub(super) struct HostBatches {
    pub memory: Arc<Mutex<Memory>>,
}

impl HostBatches {
    fn check(&self, at: DevicePtr, bytes: u64) -> Result<()> {
        self.memory.lock().check(at, bytes).map_err(refuse)
    }

    /// Reads an array of `count` entries.
    ///
    /// # Safety
    /// The array is not written meanwhile.
    unsafe fn array(&self, at: DevicePtr, count: u64) -> Result<Vec<u64>> {
        self.check(at, 8 * count)?;
        // SAFETY: allocated, as was checked; all bit patterns are valid.
        Ok(unsafe { std::slice::from_raw_parts(at as *const u64, count as usize) }.to_vec())
    }
}

fn refuse(detail: String) -> DeviceError {
    DeviceError::Call { call: "batched decompression", detail }
}

/// Decompresses a block; returns the bytes written, or the reason of failure.
fn decompress_one(format: BatchFormat, stored: &[u8], out: &mut [u8]) -> std::result::Result<(), String> {
    let block = |codec, out: &mut [u8]| decompress_block(codec, stored, out).map_err(|error| error.to_string());
    match format {
        BatchFormat::Lz4 => block(Codec::Lz4, out),
        BatchFormat::Snappy => block(Codec::Snappy, out),
        BatchFormat::Zstd => block(Codec::Zstd, out),
        BatchFormat::Deflate => block(Codec::Deflate, out),
        BatchFormat::Gdeflate => block(Codec::Gdeflate, out),
        BatchFormat::Gzip => decompress(PageCodec::Gzip, stored, out),
    }
}

impl BatchCodec for HostBatches {
    fn name(&self) -> String {
        "the host's libraries".into()
    }

    fn input_alignment(&self, format: BatchFormat) -> Option<u64> {
        Some(match format {
            BatchFormat::Lz4 | BatchFormat::Snappy | BatchFormat::Zstd | BatchFormat::Gzip => 1,
            BatchFormat::Deflate | BatchFormat::Gdeflate => 4,
        })
    }

    fn temp_bytes(&self, format: BatchFormat, count: u64, largest: u64) -> Result<u64> {
        Ok(if format == BatchFormat::Zstd { count * (3 * largest + 6936) } else { 0 })
    }

    unsafe fn decompress(&self, format: BatchFormat, batch: &Batch, _stream: Stream) -> Result<()> {
        let Batch { count, .. } = *batch;
        // SAFETY: the caller's promise; work completes when it is queued.
        let [stored, sizes, rooms, outs] = unsafe {
            [
                self.array(batch.stored, count)?,
                self.array(batch.stored_bytes, count)?,
                self.array(batch.room, count)?,
                self.array(batch.out, count)?,
            ]
        };
        self.check(batch.written, 8 * count)?;
        self.check(batch.statuses, 4 * count)?;
        let largest = rooms.iter().copied().max().unwrap_or(0);
        let needed = self.temp_bytes(format, count, largest)?;
        if batch.temp.1 < needed {
            return Err(refuse(format!("{} bytes for intermediate results where {needed} are needed", batch.temp.1)));
        }
        self.check(batch.temp.0, batch.temp.1)?;
        let align = self.input_alignment(format).unwrap_or(1);
        for block in 0..count as usize {
            if !stored[block].is_multiple_of(align) {
                return Err(refuse(format!("a block at {:#x}, no multiple of {align}", stored[block])));
            }
            self.check(stored[block], sizes[block])?;
            self.check(outs[block], rooms[block])?;
        }
        let done: Vec<bool> = (0..count as usize)
            .into_par_iter()
            .map(|block| {
                // SAFETY: both ranges are allocated, as was checked; blocks do not overlap, by the caller's promise.
                let (from, to) = unsafe {
                    (
                        std::slice::from_raw_parts(stored[block] as *const u8, sizes[block] as usize),
                        std::slice::from_raw_parts_mut(outs[block] as *mut u8, rooms[block] as usize),
                    )
                };
                decompress_one(format, from, to).is_ok()
            })
            .collect();
        for (block, done) in done.into_iter().enumerate() {
            let (written, status) = if done { (rooms[block], 0) } else { (0, CANNOT_DECOMPRESS) };
            // SAFETY: inside of the arrays, which are allocated, as was checked.
            unsafe {
                (batch.written as *mut u64).add(block).write(written);
                (batch.statuses as *mut i32).add(block).write(status);
            }
        }
        Ok(())
    }
}
