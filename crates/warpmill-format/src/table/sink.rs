//! The destination of encoded chunks, memory or data files, and the forms in which they are stored.

use std::sync::Arc;

use super::chunk::{Chunk, Heavy, Source};
use super::data_file::{DEVICE_ALIGN, DataFileWriter, Place};
use super::manifest::CodecEntry;
use super::parts::PartEntry;
use crate::codec::{ALIGNED_BYTES, CHUNK_ALIGN, ColumnChoice, ColumnCodec, Compressed, Stored};
use crate::segment::SEGMENT_ALIGN;
use crate::{Result, Segment};

/// How chunks are stored.
pub(crate) struct Storage {
    /// Per column.
    pub codecs: Vec<ColumnCodec>,
    /// Whether strings without a codec are stored in symbols where that pays.
    pub symbols: bool,
    /// Whether all chunks are aligned for direct I/O.
    pub align: bool,
    /// Number of bytes of a column's chunks that are stored contiguously.
    pub extent: usize,
}

impl Storage {
    pub(super) fn prepare(&self, column: usize, segment: Segment) -> Result<Stored> {
        let stored = self.codecs[column].store(segment)?;
        if !self.symbols || stored.compressed.is_some() {
            return Ok(stored);
        }
        let symbols = stored.segment.to_symbols()?;
        Ok(Stored { segment: symbols.unwrap_or(stored.segment), compressed: None })
    }

    /// The choices that later versions keep.
    pub(super) fn choices(&self) -> Vec<Option<ColumnChoice>> {
        let choices: Vec<_> = self.codecs.iter().map(ColumnCodec::choice).collect();
        if choices.iter().any(Option::is_some) { choices } else { Vec::new() }
    }
}

/// The destination of encoded chunks.
pub(crate) enum Sink {
    Memory,
    Files(Box<DataFileWriter>),
}

impl Sink {
    /// Stores chunks of a column contiguously in a file; if both forms are stored, all light ones first.
    pub(super) fn put_all(
        &mut self,
        all: Vec<Stored>,
        generation: Option<u32>,
        align: bool,
    ) -> Result<Vec<Arc<Chunk>>> {
        let light = all.iter().map(|stored| self.put_light(stored, align)).collect::<Result<Vec<_>>>()?;
        all.into_iter().zip(light).map(|(stored, light)| self.put(stored, light, generation, align)).collect()
    }

    /// Stores the form of a chunk without a codec; does nothing in memory.
    pub(super) fn put_light(&mut self, stored: &Stored, align: bool) -> Result<Option<Place>> {
        let both = stored.compressed.as_ref().is_none_or(|compressed| compressed.config.light);
        match self {
            Self::Files(files) if both => files.put(stored.segment.as_bytes(), align_to(align)).map(Some),
            Self::Files(_) | Self::Memory => Ok(None),
        }
    }

    /// Stores a chunk; its form without a codec is already stored at `light`.
    pub(super) fn put(
        &mut self,
        stored: Stored,
        light: Option<Place>,
        generation: Option<u32>,
        align: bool,
    ) -> Result<Arc<Chunk>> {
        let Stored { segment, compressed } = stored;
        let mut stats = segment.stats().clone();
        stats.stored_bytes = segment.as_bytes().len() as u64;
        let (encoding, parts) = (segment.encoding(), PartEntry::all(&segment));
        let Self::Files(files) = self else {
            let chunk = Chunk::new(stats, encoding, generation, Source::Memory(Arc::new(segment)), None);
            return Ok(Chunk::with_parts(chunk, parts));
        };
        let put = |compressed: Compressed| -> Result<Heavy> {
            let Compressed { config, encoding, segment_bytes, bytes } = compressed;
            let place = files.put(&bytes, align_to(align || bytes.len() >= ALIGNED_BYTES))?;
            Ok(Heavy { place, encoding, codec: CodecEntry::of(&config, segment_bytes) })
        };
        let (source, heavy) = match (light, compressed.map(put).transpose()?) {
            (Some(light), heavy) => (Source::File(light), heavy),
            (None, heavy) => {
                let heavy = heavy.expect("what is not light is compressed");
                stats.stored_bytes = heavy.place.bytes;
                (Source::Compressed(heavy.place, heavy.codec), None)
            }
        };
        Ok(Chunk::with_parts(Chunk::new(stats, encoding, generation, source, heavy), parts))
    }

    pub(super) fn put_bytes(&mut self, bytes: impl FnOnce() -> Vec<u8>) -> Result<Option<Place>> {
        match self {
            Self::Memory => Ok(None),
            Self::Files(files) => files.put(&bytes(), SEGMENT_ALIGN).map(Some),
        }
    }
}

/// The alignment of a chunk.
fn align_to(direct_io: bool) -> usize {
    if direct_io { CHUNK_ALIGN } else { DEVICE_ALIGN }
}
