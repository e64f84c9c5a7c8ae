//! Batch decompression of blocks and pages in a slot by the vendor's library.
//!
//! The library takes arrays with an entry per block. Those of stored chunks are made on the device from the chunks' block tables; those of Parquet
//! pages come with a batch's descriptors. Its status of each block is checked on the device, too. All slots share one scratch area, since batches are
//! decompressed in sequence; if it is too small for a batch, the blocks are decompressed in several calls.
//! intermediate results is one for all slots, since batches are decompressed one after the other; where it is too small for all
//! blocks of a batch, they are decompressed in several goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use warpmill_ir::Unsupported;

use crate::data::batch_spec::Wanted;
use crate::device::batch::{Batch, BatchCodec, BatchFormat};
use crate::device::kernel::{Kernel, ParamBytes};
use crate::device::{Device, DevicePtr, Stream};
use crate::kernels;
use crate::kernels::library::Library;
use crate::kernels::{ERROR_DATA, ERROR_HOST};
use crate::memory::error::{Failure, Result};
use crate::memory::regions::aligned;

/// Bytes of a page in a batch's descriptors: an entry in four arrays of u64.
pub const PAGE_ENTRY: usize = 32;

/// Limit of scratch bytes: enough for Zstandard to decompress a slot of blocks at once.
const MOST_TEMP: u64 = 256 << 20;

/// The scratch area takes at most one `MOST_PART`th of the memory for streamed data.
const MOST_PART: u64 = 3;

/// Memory for decompression, besides slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scratch {
    /// Largest number of blocks decompressed at once.
    pub entries: u64,
    /// Scratch bytes for the library.
    pub temp: u64,
}

impl Scratch {
    /// Limit of scratch bytes if streamed data has `most` bytes: a fraction of these, but enough for one block of each format `wanted`.
    ///
    /// # Errors
    /// The library's.
    pub fn room(library: &dyn BatchCodec, wanted: &[Wanted], most: u64) -> Result<u64> {
        let mut least = 0;
        for Wanted { format, largest, .. } in wanted {
            least = u64::max(least, library.temp_bytes(*format, 1, *largest)?);
        }
        Ok((most / MOST_PART).min(MOST_TEMP).max(least))
    }

    /// Grows to hold `wanted`, with at most `most` scratch bytes.
    ///
    /// # Errors
    /// The library's.
    pub fn add(&mut self, library: &dyn BatchCodec, wanted: &Wanted, most: u64) -> Result<()> {
        let temp = library.temp_bytes(wanted.format, wanted.count, wanted.largest)?.min(most);
        (self.temp, self.entries) = (self.temp.max(temp), self.entries.max(wanted.count));
        Ok(())
    }

    /// Bytes in total.
    pub fn bytes(&self) -> u64 {
        if self.entries == 0 {
            0
        } else {
            aligned(self.temp) + 5 * aligned(8 * self.entries) + aligned(4 * self.entries)
        }
    }

    /// The arrays for up to [`Scratch::entries`] blocks, in memory at `at`.
    fn at(&self, at: DevicePtr) -> Batch {
        let array = aligned(8 * self.entries);
        let start = at + aligned(self.temp);
        Batch {
            count: 0,
            stored: start,
            stored_bytes: start + array,
            room: start + 2 * array,
            out: start + 3 * array,
            written: start + 4 * array,
            statuses: start + 5 * array,
            temp: (at, self.temp),
        }
    }
}

/// Batch decompression of blocks and pages.
#[derive(Clone)]
pub struct Batches {
    device: Arc<dyn Device>,
    library: Arc<dyn BatchCodec>,
    /// Bit set of the formats that were decompressed before.
    used: Arc<AtomicU32>,
    list: Kernel,
    check: Kernel,
}

impl Batches {
    /// Compiles the kernels for `device`.
    ///
    /// # Errors
    /// The compiler's; a device without a batch library.
    pub fn compile(device: &Arc<dyn Device>) -> Result<Self> {
        let library = device.batch_codec().map_err(|reason| Unsupported::new("codec", reason))?;
        let parts = [Library::Value, Library::Lane].map(Library::text);
        let text = parts.into_iter().chain([kernels::DECOMPRESS, kernels::BATCH]).collect::<Vec<_>>().join("\n");
        let [list, check] = Kernel::compile(device, text, [("list_blocks", 128, 0), ("check_blocks", 128, 0)])?;
        Ok(Self { device: device.clone(), library, used: Arc::default(), list, check })
    }

    /// Whether `format` is decompressed for the first time: the library then loads kernels, which takes much longer than they run.
    pub fn is_first(&self, format: BatchFormat) -> bool {
        let bit = 1 << format as u32;
        self.used.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Queues the decompression of `count` chunks, described at `chunks`, with `wanted` blocks in total.
    ///
    /// # Errors
    /// The device's and the library's.
    ///
    /// # Safety
    /// The descriptors name stored chunks of the format and memory for their segments; `state` is a `QueryState`; `scratch` describes memory at `at`
    /// that only work on `stream` uses.
    pub unsafe fn chunks(
        &self,
        (chunks, count): (DevicePtr, u32),
        wanted: &Wanted,
        (scratch, at): (&Scratch, DevicePtr),
        state: DevicePtr,
        stream: Stream,
    ) -> Result<()> {
        let mut first = 0;
        while first < wanted.count {
            let own = Wanted { count: wanted.count - first, ..*wanted };
            let batch = Batch { count: self.at_once(&own, scratch)?, ..scratch.at(at) };
            let params = arrays(ParamBytes::new().u64(chunks), &batch);
            let params = params.u32(count).u32(first as u32).u32(batch.count as u32).u32(0);
            // SAFETY: the caller's promise.
            unsafe {
                self.list.launch_items(batch.count, params, stream)?;
                self.decompress(wanted.format, &batch, (state, ERROR_HOST, true), stream)?;
            }
            first += batch.count;
        }
        Ok(())
    }

    /// Queues the decompression of pages. `pages` is the address of four arrays of `wanted` entries: address, stored bytes, decompressed bytes,
    /// destination.
    ///
    /// # Errors
    /// The device's and the library's.
    ///
    /// # Safety
    /// As for [`Batches::chunks`], for the entries.
    pub unsafe fn pages(
        &self,
        pages: DevicePtr,
        wanted: &Wanted,
        (scratch, at): (&Scratch, DevicePtr),
        state: DevicePtr,
        stream: Stream,
    ) -> Result<()> {
        let mut first = 0;
        while first < wanted.count {
            let own = Wanted { count: wanted.count - first, ..*wanted };
            let array = |number: u64| pages + 8 * (number * wanted.count + first);
            let [stored, stored_bytes, room, out] = [0, 1, 2, 3].map(array);
            let count = self.at_once(&own, scratch)?;
            let batch = Batch { count, stored, stored_bytes, room, out, ..scratch.at(at) };
            // SAFETY: the caller's promise.
            unsafe {
                // A status other than success, for blocks that the library does not report on.
                self.device.fill(batch.statuses, 0xFF, 4 * count, stream)?;
                self.decompress(wanted.format, &batch, (state, ERROR_DATA, true), stream)?;
            }
            first += count;
        }
        Ok(())
    }

    /// The number of blocks of `wanted` that the scratch memory allows at once.
    fn at_once(&self, wanted: &Wanted, scratch: &Scratch) -> Result<u64> {
        let mut count = wanted.count.min(scratch.entries);
        loop {
            let needed = self.library.temp_bytes(wanted.format, count, wanted.largest)?;
            if needed <= scratch.temp {
                return Ok(count);
            }
            if count <= 1 {
                let (what, requested) = (format!("decompressing a block of {} bytes", wanted.largest), needed);
                return Err(Failure::Memory { what, requested, available: scratch.temp });
            }
            count = (count * scratch.temp / needed).clamp(1, count - 1);
        }
    }

    /// Queues the decompression of `batch`, and the check of its statuses.
    ///
    /// # Safety
    /// See [`BatchCodec::decompress`]; `state` is a `QueryState`.
    unsafe fn decompress(
        &self,
        format: BatchFormat,
        batch: &Batch,
        (state, error, clear): (DevicePtr, u32, bool),
        stream: Stream,
    ) -> Result<()> {
        let params = arrays(ParamBytes::new().u64(state), batch);
        let params = params.u32(batch.count as u32).u32(error).u32(clear.into()).u32(0);
        let warps = u64::from(self.check.threads() / 32);
        // SAFETY: the caller's promise.
        unsafe {
            self.library.decompress(format, batch, stream)?;
            self.check.launch(batch.count.div_ceil(warps), params, stream)?;
        }
        Ok(())
    }
}

/// Appends a `BlockArrays` (kernels/batch.cuh).
fn arrays(params: ParamBytes, batch: &Batch) -> ParamBytes {
    let Batch { stored, stored_bytes, room, out, written, statuses, .. } = *batch;
    [stored, stored_bytes, room, out, written, statuses].into_iter().fold(params, ParamBytes::u64)
}
