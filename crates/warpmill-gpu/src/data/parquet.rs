//! Kernels that decode Parquet pages in a slot, and their counts in profiles.

use std::sync::Arc;

use crate::device::kernel::{Kernel, ParamBytes};
use crate::device::{Device, DevicePtr, Stream};
use crate::kernels;
use crate::kernels::library::Library;
use crate::memory::error::{Failure, Result};

use super::chunks::Chunk;
use crate::memory::regions::KeyMap;

/// Bytes of a `ParquetTask` (kernels/parquet.cuh).
pub const TASK: usize = 24;

/// Amount of pages to decode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pages {
    /// Column chunks.
    pub chunks: u32,
    /// Pages, dictionaries included.
    pub pages: u32,
    /// Tiles of 1024 values.
    pub tiles: u32,
}

/// The `ParquetTask` descriptors of the Parquet chunks among `chunks`, each given with the address of its image. `places` has their work areas.
///
/// # Errors
/// A chunk without a place.
pub fn describe<'a>(
    chunks: impl Iterator<Item = (&'a Chunk, DevicePtr)>,
    places: &KeyMap<DevicePtr>,
) -> Result<(Vec<u8>, Pages)> {
    let (mut image, mut all) = (vec![], Pages::default());
    for (chunk, stored) in chunks {
        let Some(slice) = chunk.pages() else { continue };
        let work = places.get(&chunk.key()).copied();
        let work =
            work.ok_or_else(|| Failure::from(warpmill_ir::Unsupported::new("segment", "not in device memory")))?;
        [stored, work].iter().for_each(|word| image.extend_from_slice(&word.to_le_bytes()));
        [all.pages, all.tiles].iter().for_each(|word| image.extend_from_slice(&word.to_le_bytes()));
        all.chunks += 1;
        all.pages += slice.pages();
        all.tiles += slice.tiles();
    }
    Ok((image, all))
}

/// Kernels that decompress and decode pages.
#[derive(Clone)]
pub struct Decoder {
    open: Kernel,
    index: Kernel,
    decode: Kernel,
}

impl Decoder {
    /// Compiles the kernels for `device`.
    ///
    /// # Errors
    /// The compiler's.
    pub fn compile(device: &Arc<dyn Device>) -> Result<Self> {
        let parts = [Library::Value, Library::Lane].map(Library::text);
        let own = [kernels::DECOMPRESS, kernels::UTF8, kernels::PARQUET_DELTA, kernels::PARQUET_TEXT, kernels::PARQUET];
        let text = parts.into_iter().chain(own).collect::<Vec<_>>().join("\n");
        let entries = [("parquet_open", 128, 0), ("parquet_index_pages", 128, 0), ("parquet_decode", 256, 0)];
        let [open, index, decode] = Kernel::compile(device, text, entries)?;
        Ok(Self { open, index, decode })
    }

    /// Queues the decoding of the chunks described at `tasks`. Damaged pages raise [`ERROR_DATA`](kernels::ERROR_DATA).
    ///
    /// # Errors
    /// The device's.
    ///
    /// # Safety
    /// `tasks` holds descriptors of `all` chunks, pages and tiles, whose images and work areas have the sizes that their slices report; `state` is a
    /// `QueryState`.
    pub unsafe fn decode(&self, (tasks, all): (DevicePtr, Pages), state: DevicePtr, stream: Stream) -> Result<()> {
        let params = || ParamBytes::new().u64(state).u64(tasks).u32(all.chunks).u32(all.pages).u32(all.tiles).u32(0);
        let blocks = |kernel: &Kernel, warps: u32| u64::from(warps.div_ceil(kernel.threads() / 32));
        // SAFETY: the caller's promise.
        unsafe {
            self.open.launch(blocks(&self.open, all.pages), params(), stream)?;
            self.index.launch(blocks(&self.index, all.pages), params(), stream)?;
            self.decode.launch(blocks(&self.decode, all.tiles), params(), stream)?;
        }
        Ok(())
    }
}
