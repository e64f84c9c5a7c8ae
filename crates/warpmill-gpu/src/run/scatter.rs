//! Kernels that divide rows into one part per device.

use std::sync::Arc;

use warpmill_ir::Route;

use crate::compile::cpp::CType;
use crate::compile::plan::{MemoryPlan, ResultRows};
use crate::compile::storage::Storage;
use crate::device::kernel::{Kernel, ParamBytes};
use crate::device::{Device, DevicePtr, Result, Stream};
use crate::memory::regions::aligned;

const TEXT: &str = concat!(include_str!("../../kernels/hash.cuh"), include_str!("../../kernels/shuffle.cuh"));

/// Threads of a block, and rows of a tile (kernels/shuffle.cuh).
const THREADS: u32 = 256;
const TILE: u64 = 2048;

/// Largest number of parts.
pub(crate) const MOST_PARTS: usize = 16;

/// Bytes of a `ShuffleArray` (kernels/shuffle.cuh).
const ARRAY_BYTES: usize = 32;

/// An array with an element per row (kernels/shuffle.cuh).
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowArray {
    /// The address of the elements.
    pub from: DevicePtr,
    /// The address of the divided elements, part after part.
    pub to: DevicePtr,
    /// Bytes of an element.
    pub width: u64,
    valid: DevicePtr,
    role: u32,
}

/// The arrays of a result's rows at `buffers`, with their roles in `route`; the addresses `to` are not set yet.
pub(crate) fn row_arrays(result: &ResultRows, buffers: &[DevicePtr], route: &Route) -> Vec<RowArray> {
    let mut arrays = vec![];
    for (index, (column, &(data, valid))) in result.columns.iter().zip(&result.arrays).enumerate() {
        let role = match route {
            Route::Hash { columns } if !columns.contains(&index) => 0,
            Route::Hash { .. } if column.ty == CType::Str => 4,
            Route::Hash { .. } => 1,
            Route::Ranges { column: key, .. } if *key == index => match column.storage {
                Storage::U8 | Storage::U16 => 3,
                Storage::I8 | Storage::I16 | Storage::Whole(_) => 2,
            },
            Route::Ranges { .. } | Route::First => 0,
        };
        let (width, valid) = (column.storage.size() as u64, valid.map(|valid| buffers[valid]));
        arrays.push(RowArray { from: buffers[data], to: 0, width, valid: valid.unwrap_or(0), role });
        arrays.extend(valid.map(|valid| RowArray { from: valid, to: 0, width: 1, valid: 0, role: 0 }));
    }
    arrays
}

/// Bytes of device memory for dividing rows of `arrays` arrays, besides the parts.
pub(crate) fn tables_bytes(arrays: usize) -> u64 {
    (arrays * ARRAY_BYTES + 2 * 8 * MOST_PARTS) as u64
}

/// Largest number of bytes of the processing region for dividing the result rows of a run.
pub(crate) fn divided_bytes(memory: &MemoryPlan) -> u64 {
    let arrays: Vec<u64> =
        memory.results.iter().flat_map(ResultRows::parts).map(|(buffer, _)| memory.buffers[buffer].bytes).collect();
    arrays.iter().map(|&bytes| aligned(bytes)).sum::<u64>() + aligned(tables_bytes(arrays.len()))
}

/// Compiled kernels.
#[derive(Debug, Clone)]
pub(crate) struct Scatter {
    device: Arc<dyn Device>,
    count: Kernel,
    scatter: Kernel,
}

/// Rows to be divided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// Their arrays.
    pub arrays: &'a [RowArray],
    /// Number of rows.
    pub count: u64,
    /// Number of parts, at most [`MOST_PARTS`].
    pub parts: usize,
    /// The rule that assigns rows to parts.
    pub route: &'a Route,
}

impl Scatter {
    pub(crate) fn compile(device: &Arc<dyn Device>) -> Result<Self> {
        let entries = [("shuffle_count", THREADS, 0), ("shuffle_scatter", THREADS, 0)];
        let [count, scatter] = Kernel::compile(device, TEXT.to_string(), entries)?;
        Ok(Self { device: device.clone(), count, scatter })
    }

    /// Copies rows to their parts, and waits. Returns the first row of each part, and the number of rows.
    ///
    /// # Errors
    /// The device's.
    ///
    /// # Safety
    /// Each array has `count` elements of its width at both addresses, which overlap nothing; `tables` has [`tables_bytes`].
    pub(crate) unsafe fn divide(&self, rows: Rows<'_>, tables: DevicePtr, stream: Stream) -> Result<Vec<u64>> {
        let described = rows.arrays.iter().flat_map(RowArray::bytes);
        let last = match rows.route {
            Route::Hash { .. } | Route::First => &[][..],
            Route::Ranges { last, .. } => last,
        };
        let mut image: Vec<u8> = described.collect();
        let last_at = tables + image.len() as u64;
        image.extend((0..MOST_PARTS).flat_map(|part| last.get(part).copied().unwrap_or(i64::MAX).to_le_bytes()));
        let next = tables + image.len() as u64;
        image.resize(image.len() + 8 * MOST_PARTS, 0);
        let params = || {
            let (count, parts) = (rows.arrays.len() as u32, rows.parts as u32);
            ParamBytes::new().u64(tables).u64(last_at).u64(next).u64(rows.count).u32(count).u32(parts)
        };
        let mut counts = [0; 8 * MOST_PARTS];
        // SAFETY: the caller's contract; the tables have room for the image, whose last words are the counters.
        unsafe {
            self.device.copy_to_device(tables, &image, stream)?;
            let blocks = self.count.resident_blocks(rows.count.div_ceil(THREADS.into()))?;
            self.count.launch(blocks, params(), stream)?;
            self.device.copy_to_host(&mut counts, next, stream)?;
        }
        self.device.synchronize(stream)?;
        let words = counts.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let starts: Vec<u64> = std::iter::once(0)
            .chain(words.take(rows.parts).scan(0, |sum, count| {
                *sum += count;
                Some(*sum)
            }))
            .collect();
        let places: Vec<u8> = starts[..rows.parts].iter().flat_map(|start| start.to_le_bytes()).collect();
        // SAFETY: as above; parts lie one behind the other, and have as many rows as were counted.
        unsafe {
            self.device.copy_to_device(next, &places, stream)?;
            let blocks = self.scatter.resident_blocks(rows.count.div_ceil(TILE))?;
            self.scatter.launch(blocks, params(), stream)?;
        }
        self.device.synchronize(stream)?;
        Ok(starts)
    }
}

impl RowArray {
    fn bytes(&self) -> Vec<u8> {
        ParamBytes::new().u64(self.from).u64(self.to).u64(self.valid).u32(self.width as u32).u32(self.role).finish()
    }
}

#[cfg(test)]
mod tests;
