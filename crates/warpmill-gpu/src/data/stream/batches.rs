//! Blocks and pages that the vendor's library for batches decompresses when they have arrived in a slot.
//!
//! The library takes arrays by block. Those of stored chunks are made on the device, from the chunks' own tables of blocks; those
//! of Parquet's pages come with a batch's descriptors. What it says of each block is looked at on the device, too. Its memory for
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

/// Bytes of a page among the descriptors of a batch: four arrays of u64.
pub const PAGE_ENTRY: usize = 32;

/// Most bytes for intermediate results: enough for Zstandard to decompress a slot of blocks at once.
const MOST_TEMP: u64 = 256 << 20;

/// The divisor that gives the part of the memory of data passing through which they take at most.
const MOST_PART: u64 = 3;

/// The memory that decompressing takes, beside slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scratch {
    /// Blocks that are decompressed at once, at most.
    pub entries: u64,
    /// Bytes for intermediate results.
    pub temp: u64,
}

impl Scratch {
    /// Most bytes for intermediate results where data that passes through takes `most`: a part of these, and enough for one block
    /// of all that are `wanted`.
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

    /// Makes room for `wanted`, of at most `most` bytes for intermediate results.
    ///
    /// # Errors
    /// The library's.
    pub fn add(&mut self, library: &dyn BatchCodec, wanted: &Wanted, most: u64) -> Result<()> {
        let temp = library.temp_bytes(wanted.format, wanted.count, wanted.largest)?.min(most);
        (self.temp, self.entries) = (self.temp.max(temp), self.entries.max(wanted.count));
        Ok(())
    }

    /// Bytes of all of it.
    pub fn bytes(&self) -> u64 {
        if self.entries == 0 {
            0
        } else {
            aligned(self.temp) + 5 * aligned(8 * self.entries) + aligned(4 * self.entries)
        }
    }

    /// The arrays of up to [`Scratch::entries`] blocks in memory at `at`.
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

/// Decompresses batches of blocks.
#[derive(Clone)]
pub struct Batches {
    device: Arc<dyn Device>,
    library: Arc<dyn BatchCodec>,
    /// Formats that were decompressed before, a bit each.
    used: Arc<AtomicU32>,
    list: Kernel,
    check: Kernel,
}

impl Batches {
    /// For `device`.
    ///
    /// # Errors
    /// The compiler's; a device without such a library.
    pub fn compile(device: &Arc<dyn Device>) -> Result<Self> {
        let library = device.batch_codec().map_err(|reason| Unsupported::new("codec", reason))?;
        let parts = [Library::Value, Library::Lane].map(Library::text);
        let text = parts.into_iter().chain([kernels::DECOMPRESS, kernels::BATCH]).collect::<Vec<_>>().join("\n");
        let [list, check] = Kernel::compile(device, text, [("list_blocks", 128, 0), ("check_blocks", 128, 0)])?;
        Ok(Self { device: device.clone(), library, used: Arc::default(), list, check })
    }

    /// Whether `format` has not been decompressed before: the library loads its kernels then, which takes much longer than they do.
    pub fn is_first(&self, format: BatchFormat) -> bool {
        let bit = 1 << format as u32;
        self.used.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Queues the decompression of `count` chunks, described at `chunks`, of `wanted` blocks together.
    ///
    /// # Errors
    /// The device's and the library's.
    ///
    /// # Safety
    /// The descriptors name stored chunks of the format and room for their segments in device memory; `state` is a `QueryState`;
    /// `scratch` is at an address with that much memory, which nothing else uses that is not on `stream`.
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

    /// Queues the decompression of pages, of which four arrays are at `pages`: where they are and their bytes, the bytes that they
    /// decompress to, and where they go, each of `wanted` entries.
    ///
    /// # Errors
    /// The device's and the library's.
    ///
    /// # Safety
    /// As of [`Batches::chunks`]: of the entries.
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
                // A block of which the library says nothing went wrong.
                self.device.fill(batch.statuses, 0xFF, 4 * count, stream)?;
                self.decompress(wanted.format, &batch, (state, ERROR_DATA, true), stream)?;
            }
            first += count;
        }
        Ok(())
    }

    /// The number of blocks of `wanted` that there is memory for at once.
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

    /// Queues the decompression of `batch`, and a look at what became of it.
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
