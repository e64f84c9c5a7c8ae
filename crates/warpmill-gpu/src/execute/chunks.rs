//! Column chunks as a program reads them: a segment, or what a codec made of it, which the device or the host undoes.

use std::sync::Arc;

use warpmill_cpu::ExecError;
use warpmill_format::parquet_file::ParquetSlice;
use warpmill_format::{Codec, CompressedChunk, FilePlace, Segment, SegmentLayout, ValueLayout};
use warpmill_plan::Unsupported;

use super::Result;
use super::memory::{Key, Owner};

/// Kinds of data that belong to a chunk.
const SEGMENT: u8 = 0;
const EXPANDED: u8 = 3;

/// One column of one row segment.
#[derive(Debug)]
pub struct Chunk {
    /// Where the values lie in the segment.
    pub layout: SegmentLayout,
    /// Rows.
    pub rows: usize,
    /// Bytes of the segment.
    pub bytes: u64,
    /// What the device makes of the segment before it is read.
    pub expanded: Option<Expanded>,
    /// New dictionary code by the segment's code.
    pub remap: Option<Arc<[u32]>>,
    /// Why the host decodes what the device decodes of other Parquet columns.
    pub decoded_by_host: Option<String>,
    data: Data,
}

#[derive(Debug)]
enum Data {
    Segment(Arc<Segment>),
    Compressed(CompressedChunk),
    Parquet(Arc<ParquetSlice>),
}

/// What a segment becomes that decodes vectors as a whole: signed values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expanded {
    /// Bytes of a value: 4 or 8.
    pub width: u32,
    /// Bytes of all values.
    pub bytes: u64,
}

impl Expanded {
    /// For `segment`; `None` where it is read as it is, or cannot be expanded.
    pub fn of(segment: &Segment) -> Option<Self> {
        let layout = segment.layout()?;
        if layout.values.has_single_rows() {
            return None;
        }
        let narrow = i128::from(i32::MIN)..=i128::from(i32::MAX);
        let wide = i128::from(i64::MIN)..=i128::from(i64::MAX);
        let width = match segment.stats().int_range() {
            _ if segment.is_dictionary() => 4,
            Some((least, greatest)) if narrow.contains(&least) && narrow.contains(&greatest) => 4,
            Some((least, greatest)) if wide.contains(&least) && wide.contains(&greatest) => 8,
            _ => return None,
        };
        Some(Self { width, bytes: u64::from(width) * segment.rows() as u64 })
    }
}

impl Chunk {
    /// A segment in an encoding that has a layout.
    ///
    /// # Errors
    /// [`Unsupported`] where it has none.
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

    /// The same, of Parquet, decoded by the host for `reason`.
    pub fn because(self, reason: String) -> Self {
        Self { decoded_by_host: Some(reason), ..self }
    }

    /// One that passes through device memory as it is stored: `opened`, its segment, has been made and checked once, and tells where
    /// its parts are. `None` where the device cannot read its encoding.
    ///
    /// # Errors
    /// As [`Chunk::of`].
    pub fn stored(compressed: CompressedChunk, opened: Arc<Segment>) -> Result<Option<Self>> {
        let reads = |values: &ValueLayout| values.has_single_rows() || Expanded::of(&opened).is_some();
        if !opened.layout().is_some_and(|layout| reads(&layout.values)) {
            return Ok(None);
        }
        Ok(Some(Self { data: Data::Compressed(compressed), ..Self::of(opened)? }))
    }

    /// A column of Parquet that passes through device memory as it is stored.
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

    /// The segment, where no codec is in between.
    pub fn segment(&self) -> Option<&Arc<Segment>> {
        match &self.data {
            Data::Segment(segment) => Some(segment),
            Data::Compressed(_) | Data::Parquet(_) => None,
        }
    }

    /// The stored form, where a codec is in between.
    pub fn compressed(&self) -> Option<&CompressedChunk> {
        match &self.data {
            Data::Segment(_) | Data::Parquet(_) => None,
            Data::Compressed(chunk) => Some(chunk),
        }
    }

    /// The pages that the device decodes.
    pub fn pages(&self) -> Option<&Arc<ParquetSlice>> {
        match &self.data {
            Data::Parquet(slice) => Some(slice),
            Data::Segment(_) | Data::Compressed(_) => None,
        }
    }

    /// The stored form that the device decompresses.
    pub fn for_device(&self) -> Option<&CompressedChunk> {
        self.compressed().filter(|chunk| matches!(chunk.codec(), Codec::Lz4 | Codec::Snappy))
    }

    /// Bytes that travel to the device.
    pub fn copied_bytes(&self) -> u64 {
        match &self.data {
            Data::Parquet(slice) => slice.image_bytes(),
            _ => self.for_device().map_or(self.bytes, |chunk| chunk.bytes().len() as u64),
        }
    }

    /// Bytes that the device decompresses it to.
    pub fn decompressed_bytes(&self) -> Option<u64> {
        match &self.data {
            Data::Parquet(slice) => Some(slice.work_bytes()),
            _ => self.for_device().map(|_| self.bytes),
        }
    }

    /// Bytes as they are stored.
    pub fn stored_bytes(&self) -> u64 {
        match &self.data {
            Data::Parquet(slice) => slice.stored_bytes(),
            _ => self.compressed().map_or(self.bytes, |chunk| chunk.bytes().len() as u64),
        }
    }

    /// Where its stored bytes are in a file.
    pub fn file(&self) -> Option<&FilePlace> {
        match &self.data {
            Data::Segment(segment) => segment.as_bytes().file(),
            Data::Compressed(chunk) => chunk.bytes().file(),
            // Its pages are not read past the page cache.
            Data::Parquet(_) => None,
        }
    }

    /// Writes what travels, which `out` has room for: from memory, or from `stored`, the chunk's bytes read again.
    ///
    /// # Errors
    /// Damaged bytes.
    pub fn write(&self, stored: Option<&[u8]>, out: &mut [u8]) -> Result<()> {
        let chunk = match &self.data {
            Data::Segment(segment) => {
                out.copy_from_slice(stored.unwrap_or(segment.as_bytes()));
                return Ok(());
            }
            Data::Compressed(chunk) => chunk,
            Data::Parquet(slice) => return Ok(slice.write_image(out).map_err(ExecError::from)?),
        };
        if self.for_device().is_some() {
            out.copy_from_slice(stored.unwrap_or(chunk.bytes()));
            return Ok(());
        }
        let read;
        let chunk = match stored {
            Some(stored) => {
                read = chunk.read_again(stored).map_err(ExecError::from)?;
                &read
            }
            None => chunk,
        };
        (0..chunk.blocks())
            .try_for_each(|block| chunk.decompress_block(block, &mut out[chunk.block_target(block)]))
            .map_err(ExecError::from)?;
        Ok(())
    }

    /// What finds its segment among places in memory.
    pub fn key(&self) -> Key {
        (self.address(), SEGMENT)
    }

    /// What finds what its segment expands to.
    pub fn expanded_key(&self) -> Key {
        (self.address(), EXPANDED)
    }

    /// An address that is its own as long as its owner lives.
    fn address(&self) -> usize {
        match &self.data {
            Data::Segment(segment) => Arc::as_ptr(segment) as usize,
            Data::Compressed(chunk) => chunk.bytes().as_ptr() as usize,
            Data::Parquet(slice) => Arc::as_ptr(slice) as usize,
        }
    }

    /// What keeps that address its own.
    pub fn owner(self: &Arc<Self>) -> Owner {
        match &self.data {
            Data::Segment(segment) => segment.clone(),
            Data::Compressed(_) | Data::Parquet(_) => self.clone(),
        }
    }
}
