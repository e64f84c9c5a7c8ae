//! Columns of remote files before they are read.
//!
//! The claims of a footer about a column chunk suffice to generate kernels, and to allocate memory for its pages by upper bounds: a scan can begin
//! while most of its data are in transit. Page positions are known after the data have arrived, which also shows whether they stay within the bounds.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parquet::basic::Encoding;

use super::PageCodecs;
use super::pages::{PageCodec, PageMap};
use super::places::{MAX_BATCH_PAGE, chunk_layout, most_image_bytes, most_work_bytes};
use super::remote::{Remote, read_files};
use super::slice::{ParquetChunk, ParquetSlice};
use super::table::ParquetColumn;
use crate::{Result, SegmentLayout};

/// Smallest number of rows and bytes of a page from ordinary writers, except the last one of a column chunk.
const LEAST_ROWS: u64 = 4096;
const LEAST_BYTES: u64 = 4096;

/// Largest size of a column chunk, in bytes: footers that claim more are not used.
const MOST_BYTES: u64 = 1 << 40;

/// Encodings whose values' size can be bounded without reading. Levels may be declared as bit-packed although there are none.
const FORESEEN: [Encoding; 8] = [
    Encoding::PLAIN,
    Encoding::PLAIN_DICTIONARY,
    Encoding::RLE_DICTIONARY,
    Encoding::RLE,
    #[allow(deprecated, reason = "old files have it")]
    Encoding::BIT_PACKED,
    Encoding::DELTA_BINARY_PACKED,
    Encoding::DELTA_LENGTH_BYTE_ARRAY,
    Encoding::BYTE_STREAM_SPLIT,
];

/// A column of a row group of a remote file that a device will decode if its pages match the footer's claims.
#[derive(Debug)]
pub struct ParquetPromise {
    column: ParquetColumn,
    codecs: PageCodecs,
    codec: PageCodec,
    range: Range<u64>,
    /// Upper bound of the number of pages, including a dictionary.
    pages: u64,
    image: u64,
    work: u64,
    uncompressed: u64,
}

impl ParquetPromise {
    /// A promise for a device that decompresses `codecs`; `None` if the file is local, if only a part of a row group is needed, if sizes depend on
    /// values, if the footer is unusable, or if another column chunk of the file broke its promise.
    pub(crate) fn of(column: &ParquetColumn, codecs: PageCodecs) -> Option<Self> {
        let (file, (group, leaf)) = column.chunk_of();
        let metadata = file.metadata().row_group(group);
        let rows = u64::try_from(metadata.num_rows()).ok()?;
        let remote = file.remote()?;
        if remote.unlike.load(Ordering::Relaxed) || column.located.is_some() || column.rows != (0..rows) {
            return None;
        }
        let map = PageMap::empty(file, group, leaf);
        let chunk = metadata.column(leaf);
        if map.host.is_some() || !chunk.encodings().all(|encoding| FORESEEN.contains(&encoding)) {
            return None;
        }
        let range = file.chunk_range(group, leaf).ok()?;
        let stored = range.end - range.start;
        let uncompressed = u64::try_from(chunk.uncompressed_size()).ok()?;
        if stored.max(uncompressed) > MOST_BYTES {
            return None;
        }
        // A dictionary, a last page, and those in between.
        let pages = 2 + (rows / LEAST_ROWS + uncompressed / LEAST_BYTES).min(rows);
        let image = most_image_bytes((map.codec, codecs), (stored, uncompressed), pages);
        let deltas = chunk.encodings().any(|encoding| encoding == Encoding::DELTA_BINARY_PACKED);
        let work = most_work_bytes(column, (map.codec, codecs), (uncompressed, pages), deltas);
        Some(Self { column: column.clone(), codecs, codec: map.codec, range, pages, image, work, uncompressed })
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        (self.column.rows.end - self.column.rows.start) as usize
    }

    /// Position of the values and validity bits in the work area.
    pub fn layout(&self) -> SegmentLayout {
        chunk_layout(&self.column)
    }

    /// Bytes of the values that are made.
    pub fn value_bytes(&self) -> u64 {
        self.rows() as u64 * u64::from(self.column.ty.made)
    }

    /// Bytes in the file.
    pub fn stored_bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Upper bound of the bytes sent to the device.
    pub fn image_bytes(&self) -> u64 {
        self.image
    }

    /// Bytes of the work area, at most.
    pub fn work_bytes(&self) -> u64 {
        self.work
    }

    /// The codec of its pages, decompressed by host or device.
    pub fn codec(&self) -> PageCodec {
        self.codec
    }

    /// Upper bounds of the number of pages that a batch library decompresses on the device, and of the largest page's decompressed bytes.
    pub fn batch_pages(&self) -> (u64, u64) {
        if matches!(self.codec, PageCodec::Zstd | PageCodec::Gzip) && self.codecs.has(self.codec) {
            (self.pages, self.uncompressed.min(MAX_BATCH_PAGE))
        } else {
            (0, 0)
        }
    }

    /// The chunk itself, which is read unless that was done before; `None` if it breaks the promise.
    ///
    /// # Errors
    /// A file that cannot be read, or has changed; invalid page headers, or headers that contradict the footer or each other.
    pub fn open(&self) -> Result<Option<Arc<ParquetSlice>>> {
        let (pages, largest) = self.batch_pages();
        let fits = |slice: &Arc<ParquetSlice>| {
            slice.image_bytes() <= self.image
                && slice.work_bytes() <= self.work
                && slice.batch_pages().count() as u64 <= pages
                && slice.batch_pages().all(|page| page.made.1 <= largest)
        };
        match self.column.chunk(self.codecs)? {
            ParquetChunk::Device(slice) if fits(&slice) => Ok(Some(slice)),
            ParquetChunk::Device(_) | ParquetChunk::Host(_) => {
                if let Some(remote) = self.column.file.remote() {
                    remote.unlike.store(true, Ordering::Relaxed);
                }
                Ok(None)
            }
        }
    }

    /// Limit in bytes for data read ahead that cannot be kept.
    pub fn window(&self) -> u64 {
        self.column.file.remote().map_or(0, |remote| remote.room.window())
    }

    /// Reserves room for those of `promises` that are not kept yet, until the scan ends. Returns the positions of those without room.
    pub fn claim(promises: &[&Self]) -> Vec<usize> {
        let has_room = |promise: &Self| {
            promise.is_kept() || promise.column.file.remote().is_some_and(|it| it.room.take(promise.stored_bytes()))
        };
        (0..promises.len()).filter(|&position| !has_room(promises[position])).collect()
    }

    /// Reads those of `promises` that are not kept: several files at a time, each with all its ranges together.
    ///
    /// # Errors
    /// Files that cannot be read, or have changed.
    pub fn read(promises: &[&Self]) -> Result<()> {
        let wanted = promises.iter().map(|promise| {
            let (file, chunk) = promise.column.chunk_of();
            (file, (chunk, promise.range.clone()))
        });
        read_files(wanted, Remote::fetch)
    }

    /// Drops the data of `promises`; they are read again if needed.
    pub fn forget(promises: &[&Self]) {
        for promise in promises {
            let (file, chunk) = promise.column.chunk_of();
            if let Some(remote) = file.remote() {
                remote.chunks.lock().remove(&chunk);
            }
        }
    }

    fn is_kept(&self) -> bool {
        let (file, chunk) = self.column.chunk_of();
        file.remote().is_some_and(|remote| remote.keeps(chunk, &self.range))
    }
}

#[cfg(test)]
mod tests;
