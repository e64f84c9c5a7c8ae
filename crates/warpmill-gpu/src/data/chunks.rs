//! Column chunks as a program reads them: a segment, or its stored form under a codec, which the device or the host decompresses.

use std::sync::Arc;
use std::time::Instant;

use rayon::prelude::*;
use warpmill_eval::ExecError;
use warpmill_format::parquet_file::{PageCodec, ParquetPromise, ParquetSlice};
use warpmill_format::{Codec, ColumnStats, FilePlace, Segment, SegmentLayout, SegmentParts, StoredChunk, ValueLayout};
use warpmill_ir::Unsupported;

use super::batch_spec::Wanted;
use super::decoding::Decoding;
use super::undone::{batch_format, page_format, same_rate};
use crate::device::batch::BatchFormat;
use crate::memory::error::{Failure, Result};
use crate::memory::regions::{Key, Owner};

/// Kinds of data that belong to a chunk.
const SEGMENT: u8 = 0;
const EXPANDED: u8 = 3;
const COMPRESSED: u8 = 4;
const STORED: u8 = 5;

/// One column of one row segment.
#[derive(Debug)]
pub struct Chunk {
    /// Positions of the parts of the segment: values, validity.
    pub layout: SegmentLayout,
    /// Number of rows.
    pub rows: usize,
    /// Bytes of the decompressed segment.
    pub bytes: u64,
    /// The plain segment that the device expands this one to before kernels read it.
    pub expanded: Option<Expanded>,
    /// New dictionary codes, indexed by the segment's own codes.
    pub remap: Option<Arc<[u32]>>,
    /// The reason why the host decodes this Parquet column, if it does.
    pub decoded_by_host: Option<String>,
    data: Data,
}

#[derive(Debug)]
enum Data {
    Segment(Arc<Segment>),
    /// Decompressed by the device.
    Compressed(StoredChunk),
    /// Decompressed by the host before the copy.
    OnHost(StoredChunk),
    Parquet(Arc<ParquetSlice>),
    /// Parquet pages of a remote file that are not read yet: all sizes are upper bounds.
    Promised(Arc<ParquetPromise>),
}

/// The plain form of a segment whose encoding is decoded in whole vectors only: signed values of one width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expanded {
    /// Bytes of a value: 4 or 8.
    pub width: u32,
    /// Bytes of all values.
    pub bytes: u64,
}

impl Expanded {
    /// The plain form of `segment`; `None` if kernels read its rows directly, or values exceed 64 bits.
    pub fn of(segment: &Segment) -> Option<Self> {
        Self::with(&segment.layout()?, segment.is_dictionary(), segment.stats())
    }

    /// The same from the segment's layout and statistics; `dictionary`: values are codes.
    fn with(layout: &SegmentLayout, dictionary: bool, stats: &ColumnStats) -> Option<Self> {
        if layout.values.has_single_rows() {
            return None;
        }
        let narrow = i128::from(i32::MIN)..=i128::from(i32::MAX);
        let wide = i128::from(i64::MIN)..=i128::from(i64::MAX);
        let width = match stats.int_range() {
            _ if dictionary => 4,
            Some((least, greatest)) if narrow.contains(&least) && narrow.contains(&greatest) => 4,
            Some((least, greatest)) if wide.contains(&least) && wide.contains(&greatest) => 8,
            _ => return None,
        };
        Some(Self { width, bytes: u64::from(width) * stats.rows })
    }
}

impl Chunk {
    /// A chunk from a segment whose encoding has a layout.
    ///
    /// # Errors
    /// [`Unsupported`] for an encoding without a layout.
    pub fn of(segment: Arc<Segment>) -> Result<Self> {
        let layout = segment.layout().ok_or_else(|| Unsupported::new("segment", "an encoding without layout"))?;
        Ok(Self {
            layout,
            rows: segment.rows(),
            bytes: segment.as_bytes().len() as u64,
            expanded: Expanded::of(&segment),
            remap: segment.remap().cloned(),
            decoded_by_host: None,
            data: Data::Segment(segment),
        })
    }

    /// The same chunk, marked as a Parquet column that the host decoded for `reason`.
    pub fn because(self, reason: String) -> Self {
        Self { decoded_by_host: Some(reason), ..self }
    }

    /// A chunk stored under a codec. `parts` locates the parts of its segment, `stats` are its statistics; `on_host`: the host decompresses it before
    /// the copy. `None` if the device cannot read the encoding.
    pub fn stored(stored: StoredChunk, parts: SegmentParts, stats: &ColumnStats, on_host: bool) -> Option<Self> {
        let layout = parts.layout?;
        let expanded = Expanded::with(&layout, parts.dictionary, stats);
        if !layout.values.has_single_rows() && expanded.is_none() {
            return None;
        }
        let (rows, bytes, remap) = (stats.rows as usize, stored.uncompressed_bytes(), parts.remap);
        let data = if on_host { Data::OnHost(stored) } else { Data::Compressed(stored) };
        Some(Self { layout, rows, bytes, expanded, remap, decoded_by_host: None, data })
    }

    /// Parquet pages that are streamed to the device as stored.
    pub fn parquet(slice: Arc<ParquetSlice>) -> Self {
        Self {
            layout: slice.layout(),
            rows: slice.rows(),
            bytes: slice.value_bytes(),
            expanded: None,
            remap: None,
            decoded_by_host: None,
            data: Data::Parquet(slice),
        }
    }

    /// Parquet pages of a remote file that are read later.
    pub fn promised(promise: ParquetPromise) -> Self {
        Self {
            layout: promise.layout(),
            rows: promise.rows(),
            bytes: promise.value_bytes(),
            expanded: None,
            remap: None,
            decoded_by_host: None,
            data: Data::Promised(Arc::new(promise)),
        }
    }

    /// The pages to be read later, if that is what this chunk is; they must be opened before the copy.
    pub fn promise(&self) -> Option<&Arc<ParquetPromise>> {
        match &self.data {
            Data::Promised(promise) => Some(promise),
            _ => None,
        }
    }

    /// This chunk; for pages to be read later, the chunk with the pages, which are read at the first call.
    ///
    /// # Errors
    /// A file that cannot be read or is damaged; [`Failure::Unforeseen`] if the pages differ from what the footer promises.
    pub fn opened(self: &Arc<Self>) -> Result<Arc<Self>> {
        let Some(promise) = self.promise() else { return Ok(self.clone()) };
        match promise.open().map_err(ExecError::from)? {
            Some(slice) => Ok(Arc::new(Self::parquet(slice))),
            None => Err(Failure::Unforeseen),
        }
    }

    /// The segment, if no codec is involved.
    pub fn segment(&self) -> Option<&Arc<Segment>> {
        match &self.data {
            Data::Segment(segment) => Some(segment),
            Data::Compressed(_) | Data::OnHost(_) | Data::Parquet(_) | Data::Promised(_) => None,
        }
    }

    /// The stored form, if there is a codec.
    pub fn compressed(&self) -> Option<&StoredChunk> {
        match &self.data {
            Data::Segment(_) | Data::Parquet(_) | Data::Promised(_) => None,
            Data::Compressed(chunk) | Data::OnHost(chunk) => Some(chunk),
        }
    }

    /// Whether this is Parquet pages that the device decodes.
    pub fn is_pages(&self) -> bool {
        matches!(&self.data, Data::Parquet(_) | Data::Promised(_))
    }

    /// The codec of the Parquet pages.
    fn page_codec(&self) -> PageCodec {
        match &self.data {
            Data::Parquet(slice) => slice.codec(),
            Data::Promised(promise) => promise.codec(),
            _ => PageCodec::None,
        }
    }

    /// The Parquet pages, if they have been read.
    pub fn pages(&self) -> Option<&Arc<ParquetSlice>> {
        match &self.data {
            Data::Parquet(slice) => Some(slice),
            Data::Segment(_) | Data::Compressed(_) | Data::OnHost(_) | Data::Promised(_) => None,
        }
    }

    /// The stored form, if the device decompresses it.
    pub fn for_device(&self) -> Option<&StoredChunk> {
        match &self.data {
            Data::Compressed(chunk) => Some(chunk),
            Data::Segment(_) | Data::OnHost(_) | Data::Parquet(_) | Data::Promised(_) => None,
        }
    }

    /// The codec of the stored form.
    pub fn codec(&self) -> Codec {
        self.compressed().map_or(Codec::None, StoredChunk::codec)
    }

    /// The format under which the vendor's library decompresses the blocks or pages on the device, if it does.
    pub fn batch_format(&self) -> Option<BatchFormat> {
        match &self.data {
            Data::Compressed(chunk) => batch_format(chunk.codec()),
            Data::Parquet(_) | Data::Promised(_) => {
                page_format(self.page_codec()).filter(|_| self.pages_of_batch().0 > 0)
            }
            Data::Segment(_) | Data::OnHost(_) => None,
        }
    }

    /// Number of pages that the vendor's library decompresses, and the decompressed bytes of the largest.
    pub fn pages_of_batch(&self) -> (u64, u64) {
        match &self.data {
            Data::Parquet(slice) => {
                let pages = slice.batch_pages().map(|page| page.made.1);
                pages.fold((0, 0), |(count, largest), bytes| (count + 1, u64::max(largest, bytes)))
            }
            Data::Promised(promise) => promise.batch_pages(),
            _ => (0, 0),
        }
    }

    /// The blocks or pages that the vendor's library decompresses.
    pub fn batch(&self) -> Option<Wanted> {
        let format = self.batch_format()?;
        let (count, largest) = if self.is_pages() {
            self.pages_of_batch()
        } else {
            self.for_device().map_or((0, 0), |chunk| (chunk.blocks() as u64, chunk.block_bytes()))
        };
        Some(Wanted { format, count, largest })
    }

    /// Bytes that the device decompresses to, and the codec by whose rate.
    pub fn undone_bytes(&self) -> (Codec, u64) {
        match &self.data {
            Data::Compressed(chunk) => (chunk.codec(), self.bytes),
            Data::Parquet(slice) => (same_rate(slice.codec()), slice.batch_pages().map(|page| page.made.1).sum()),
            Data::Segment(_) | Data::OnHost(_) | Data::Promised(_) => (Codec::None, 0),
        }
    }

    /// Bytes copied to the device.
    pub fn copied_bytes(&self) -> u64 {
        match &self.data {
            Data::Parquet(slice) => slice.image_bytes(),
            Data::Promised(promise) => promise.image_bytes(),
            _ => self.for_device().map_or(self.bytes, StoredChunk::bytes),
        }
    }

    /// Bytes read for it: those copied, or, for pages not read yet, those in the file.
    pub fn read_bytes(&self) -> u64 {
        self.promise().map_or(self.copied_bytes(), |promise| promise.stored_bytes())
    }

    /// Bytes of device memory for the decompressed data, if the device decompresses or decodes it.
    pub fn decompressed_bytes(&self) -> Option<u64> {
        match &self.data {
            Data::Parquet(slice) => Some(slice.work_bytes()),
            Data::Promised(promise) => Some(promise.work_bytes()),
            _ => self.for_device().map(|_| self.bytes),
        }
    }

    /// Bytes as stored.
    pub fn stored_bytes(&self) -> u64 {
        match &self.data {
            Data::Parquet(slice) => slice.stored_bytes(),
            Data::Promised(promise) => promise.stored_bytes(),
            _ => self.compressed().map_or(self.bytes, StoredChunk::bytes),
        }
    }

    /// The range of its stored bytes in a file.
    pub fn file(&self) -> Option<&FilePlace> {
        match &self.data {
            Data::Segment(segment) => segment.as_bytes().file(),
            Data::Compressed(chunk) | Data::OnHost(chunk) => Some(chunk.file()),
            // Its pages are not read past the page cache.
            Data::Parquet(_) | Data::Promised(_) => None,
        }
    }

    /// Verifies that `bytes`, read from the chunk's file, have the checksum that was written.
    ///
    /// # Errors
    /// A mismatch; the error names file and chunk.
    pub fn check(&self, bytes: &[u8]) -> Result<()> {
        match (self.compressed(), self.file()) {
            (Some(stored), _) => stored.check(bytes).map_err(ExecError::from)?,
            (None, Some(file)) => file.check(bytes).map_err(ExecError::from)?,
            (None, None) => {}
        }
        Ok(())
    }

    /// Writes the bytes to copy to `out`, whose size must match: from memory, or from `stored`, the verified bytes of the chunk. Records what the
    /// host decompresses in `decoding`.
    ///
    /// # Errors
    /// Damaged data.
    pub fn write(&self, stored: Option<&[u8]>, out: &mut [u8], decoding: &Decoding) -> Result<()> {
        let chunk = match &self.data {
            Data::Segment(segment) => {
                copy(stored.unwrap_or(segment.as_bytes()), out);
                return Ok(());
            }
            Data::Compressed(chunk) => {
                match stored {
                    Some(stored) => copy(stored, out),
                    None => copy(chunk.open().map_err(ExecError::from)?.bytes(), out),
                }
                return Ok(());
            }
            Data::Parquet(slice) => {
                let (bytes, time) = slice.write_image(out).map_err(ExecError::from)?;
                decoding.add(same_rate(slice.codec()), bytes, time);
                return Ok(());
            }
            Data::Promised(_) => return Err(Failure::Unforeseen),
            Data::OnHost(chunk) => chunk,
        };
        let opened = match stored {
            Some(stored) => chunk.with_bytes(stored),
            None => chunk.open(),
        };
        let opened = opened.map_err(ExecError::from)?;
        let (mut blocks, mut rest) = (Vec::with_capacity(opened.blocks()), out);
        for block in 0..opened.blocks() {
            let (own, tail) = rest.split_at_mut(opened.block_target(block).len());
            blocks.push((block, own));
            rest = tail;
        }
        blocks
            .into_par_iter()
            .try_for_each(|(block, out)| {
                let started = Instant::now();
                opened.decompress_block(block, out)?;
                decoding.add(chunk.codec(), out.len() as u64, started.elapsed());
                Ok(())
            })
            .map_err(|error| ExecError::from(chunk.named(error)))?;
        Ok(())
    }

    /// The key of the segment among addresses in device memory.
    pub fn key(&self) -> Key {
        (self.address(), if self.for_device().is_some() { COMPRESSED } else { SEGMENT })
    }

    /// The key of the bytes that are copied: those of the segment, or of its stored form if the device decompresses that.
    pub fn travels_as(&self) -> Key {
        if self.for_device().is_some() { (self.address(), STORED) } else { self.key() }
    }

    /// Whether the copied bytes may be kept in device memory. Not those of external files, which may change, nor host-decompressed strings, which
    /// results refer to in host memory.
    pub fn may_stay(&self) -> bool {
        let strings = matches!(self.layout.values, ValueLayout::Strings { .. });
        match &self.data {
            Data::Segment(_) | Data::Compressed(_) => self.decoded_by_host.is_none(),
            Data::OnHost(_) => !strings,
            Data::Parquet(_) | Data::Promised(_) => false,
        }
    }

    /// The key of the expanded form.
    pub fn expanded_key(&self) -> Key {
        (self.address(), EXPANDED)
    }

    /// Address of the owner, unique while that lives.
    fn address(&self) -> usize {
        match &self.data {
            Data::Segment(segment) => Arc::as_ptr(segment) as usize,
            Data::Compressed(chunk) | Data::OnHost(chunk) => chunk.address(),
            Data::Parquet(slice) => Arc::as_ptr(slice) as usize,
            Data::Promised(promise) => Arc::as_ptr(promise) as usize,
        }
    }

    /// The object whose lifetime keeps `Chunk::key` unique.
    pub fn owner(self: &Arc<Self>) -> Owner {
        match &self.data {
            Data::Segment(segment) => segment.clone(),
            Data::Compressed(_) | Data::OnHost(_) | Data::Parquet(_) | Data::Promised(_) => self.clone(),
        }
    }
}

/// Copies all of `from`, in parallel pieces: a string column of a batch may have 100 MB where the other chunks have 10.
fn copy(from: &[u8], to: &mut [u8]) {
    const PIECE: usize = 2 << 20;
    if from.len() <= PIECE {
        to.copy_from_slice(from);
    } else {
        to.par_chunks_mut(PIECE).zip(from.par_chunks(PIECE)).for_each(|(to, from)| to.copy_from_slice(from));
    }
}
