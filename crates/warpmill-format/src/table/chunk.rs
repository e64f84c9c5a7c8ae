//! Column chunks: one column of one row segment, with its storage and its opened segment.

use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use super::data_file::Place;
use super::manifest::CodecEntry;
use super::parts::PartEntry;
use crate::codec::{CodecConfig, CompressedChunk, Shared};
use crate::parquet_file::ParquetColumn;
use crate::segment::{Encoding, SegmentParts};
use crate::{ColumnStats, Result, Segment};

/// One column of one row segment: its storage and, after the first use, the opened segment.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub stats: ColumnStats,
    pub encoding: Encoding,
    /// The generation of the dictionary whose codes are stored.
    pub generation: Option<u32>,
    pub source: Source,
    /// The same rows in compressed form, in addition.
    pub heavy: Option<Heavy>,
    /// The children of nested values.
    pub(super) nested: Vec<PartEntry>,
    /// The segment after its first use, if it is kept.
    pub(super) opened: OnceLock<Arc<Segment>>,
    /// For files that are read: the segment while it is in use.
    pub(super) read: Mutex<Weak<Segment>>,
    /// For the compressed form, if it is mapped: its bytes, after their checksum has been verified.
    pub(super) verified: OnceLock<CompressedChunk>,
    /// For the compressed form: set when bytes with its checksum have been found consistent.
    pub(super) sound: OnceLock<()>,
    /// For the compressed form, in a file that is read: the positions of its segment's parts.
    pub(super) parts: OnceLock<Box<SegmentParts>>,
    /// For the compressed form: the segment during its parallel decompression, and while it is in use.
    pub(super) shared: Shared,
}

/// The compressed form of a chunk that is also stored without a codec.
#[derive(Debug, Clone)]
pub(crate) struct Heavy {
    pub place: Place,
    /// Encoding of the compressed segment.
    pub encoding: Encoding,
    pub codec: CodecEntry,
}

/// The location of a segment's bytes.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// In memory (tables in memory), with codes as they were encoded.
    Memory(Arc<Segment>),
    /// In a data file.
    File(Place),
    /// In a data file, compressed.
    Compressed(Place, CodecEntry),
    /// In a Parquet file.
    Parquet(ParquetColumn),
    /// The numbers of its rows, from this one on: made when they are read.
    Numbers(i64),
    /// A child of nested values: the column of the same version, then the index of each child in its parent.
    Part(Arc<[usize]>),
}

impl Source {
    /// A blob of a data file, compressed or not.
    pub fn stored(place: Place, codec: Option<CodecEntry>) -> Self {
        match codec {
            None => Self::File(place),
            Some(codec) => Self::Compressed(place, codec),
        }
    }
}

impl CodecEntry {
    /// The codec entry of a segment of `bytes` bytes compressed with `config`.
    pub fn of(config: &CodecConfig, bytes: usize) -> Self {
        Self { name: config.codec, block: config.block_bytes, bytes: bytes as u64 }
    }
}

impl Chunk {
    pub fn new(
        stats: ColumnStats,
        encoding: Encoding,
        generation: Option<u32>,
        source: Source,
        heavy: Option<Heavy>,
    ) -> Arc<Self> {
        let (opened, verified, sound, shared) = (OnceLock::new(), OnceLock::new(), OnceLock::new(), Shared::default());
        let (read, parts, nested) = (Mutex::default(), OnceLock::new(), vec![]);
        Arc::new(Self {
            stats,
            encoding,
            generation,
            source,
            heavy,
            nested,
            opened,
            read,
            verified,
            sound,
            parts,
            shared,
        })
    }

    /// `chunk`, which must be new, with the children of its nested values.
    pub fn with_parts(mut chunk: Arc<Self>, parts: Vec<PartEntry>) -> Arc<Self> {
        Arc::get_mut(&mut chunk).expect("a new chunk").nested = parts;
        chunk
    }

    /// Whether its values are nested.
    pub fn has_parts(&self) -> bool {
        !self.nested.is_empty()
    }

    /// Statistics and encoding of the part at `path`.
    pub fn part(&self, path: &[usize]) -> Option<(ColumnStats, Encoding)> {
        let (first, rest) = path.split_first()?;
        let part = rest.iter().try_fold(self.nested.get(*first)?, |around, &at| around.parts.get(at))?;
        Some((part.column_stats()?, part.encoding))
    }

    /// The same chunk, unopened: for a version with another translation of its codes.
    pub fn reopened(&self) -> Arc<Self> {
        let (source, heavy) = (self.source.clone(), self.heavy.clone());
        let again = Self::new(self.stats.clone(), self.encoding, self.generation, source, heavy);
        Self::with_parts(again, self.nested.clone())
    }
}

impl Chunk {
    /// The same chunk in another place, if `to` has one for what is stored of it.
    pub(super) fn moved(&self, to: &mut dyn FnMut(&Place) -> Result<Option<Place>>) -> Result<Option<Arc<Self>>> {
        let source = match &self.source {
            Source::File(place) => to(place)?.map(Source::File),
            Source::Compressed(place, codec) => to(place)?.map(|place| Source::Compressed(place, *codec)),
            Source::Memory(_) | Source::Parquet(_) | Source::Numbers(_) | Source::Part(_) => None,
        };
        let heavy = match &self.heavy {
            Some(heavy) => to(&heavy.place)?.map(|place| Heavy { place, ..heavy.clone() }),
            None => None,
        };
        if source.is_none() && heavy.is_none() {
            return Ok(None);
        }
        let (source, heavy) = (source.unwrap_or_else(|| self.source.clone()), heavy.or_else(|| self.heavy.clone()));
        let moved = Self::new(self.stats.clone(), self.encoding, self.generation, source, heavy);
        Ok(Some(Self::with_parts(moved, self.nested.clone())))
    }

    /// The position of its bytes in a data file.
    pub(super) fn place(&self) -> Option<&Place> {
        match &self.source {
            Source::File(place) | Source::Compressed(place, _) => Some(place),
            Source::Memory(_) | Source::Parquet(_) | Source::Numbers(_) | Source::Part(_) => None,
        }
    }

    /// The chunk's codec.
    pub fn codec(&self) -> Option<CodecEntry> {
        match &self.source {
            Source::Compressed(_, codec) => Some(*codec),
            Source::File(_) | Source::Memory(_) | Source::Parquet(_) | Source::Numbers(_) | Source::Part(_) => None,
        }
    }

    /// The compressed form: position, encoding and codec.
    pub fn compressed(&self) -> Option<(&Place, Encoding, CodecEntry)> {
        match (&self.source, &self.heavy) {
            (Source::Compressed(place, codec), _) => Some((place, self.encoding, *codec)),
            (_, Some(heavy)) => Some((&heavy.place, heavy.encoding, heavy.codec)),
            _ => None,
        }
    }

    /// The positions of everything stored for it.
    pub(super) fn places(&self) -> impl Iterator<Item = &Place> {
        self.place().into_iter().chain(self.heavy.as_ref().map(|heavy| &heavy.place))
    }

    /// Whether it is stored at `place`, with the compressed form `heavy`.
    pub(super) fn is_at(&self, place: &Place, heavy: Option<&Heavy>) -> bool {
        let same_heavy = match (&self.heavy, heavy) {
            (Some(own), Some(other)) => own.place.same(&other.place),
            (own, other) => own.is_none() && other.is_none(),
        };
        same_heavy && self.place().is_some_and(|p| p.same(place))
    }
}

/// The encoding of the segment in a chunk's compressed form.
pub(super) fn stored_encoding(chunk: &Chunk) -> Encoding {
    chunk.compressed().map_or(chunk.encoding, |(_, encoding, _)| encoding)
}
