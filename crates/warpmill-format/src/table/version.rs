//! The in-memory form of a committed version, and its conversion to and from a manifest.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use super::Identity;
use super::chunk::{Chunk, Heavy, Source, stored_encoding};
use super::column_dictionary::ColumnDictionary;
use super::constraints::Constraint;
use super::data_file::{DataFile, Place};
use super::deletions::Deletions;
use super::entries::Files;
use super::log::Difference;
use super::log_reader::Records;
use super::manifest::RowSegmentEntry;
use super::manifest::{self, Blob, ChunkEntry, Manifest};
use super::pruning::ZoneMap;
use super::stored_chunk::StoredChunk;
use crate::codec::{ColumnChoice, CompressedChunk, Sparse};
use crate::parquet_file::{PageCodec, PageCodecs, ParquetChunk, ParquetFile, ParquetPromise};
use crate::segment::bytes::corrupt;
use crate::segment::{Encoding, SegmentBytes, SegmentParts};
use crate::{FileAccess, FormatError, Result, Segment};

/// Everything that one version is made of.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub number: u64,
    /// Identity of the table; `None` if an older build wrote it.
    pub identity: Option<Identity>,
    pub schema: SchemaRef,
    /// The constraints of its rows.
    pub constraints: Arc<[Constraint]>,
    pub dictionaries: Vec<Option<ColumnDictionary>>,
    /// Per column: the codec for new chunks; empty if no column has a codec.
    pub codecs: Vec<Option<ColumnChoice>>,
    pub segments: Vec<RowSegment>,
    /// Pruning metadata, in the order of row segments.
    pub pruning: Vec<ZoneMap>,
}

/// Open parts of a version that is to be read.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a> {
    /// An earlier version, whose parts stay open if it is one of the same table.
    pub known: Option<&'a Version>,
    /// The records of the manifest's own log.
    pub records: &'a Records,
}

/// One row range, all columns.
#[derive(Debug, Clone)]
pub(crate) struct RowSegment {
    /// Rows of each column.
    pub rows: usize,
    pub columns: Vec<Arc<Chunk>>,
    /// Rows among them that are deleted.
    pub deletions: Option<Arc<Deletions>>,
}

impl RowSegment {
    /// The number of rows that are not deleted.
    pub fn kept_rows(&self) -> usize {
        self.rows - self.deletions.as_ref().map_or(0, |deletions| deletions.count)
    }

    /// All that is stored of it.
    pub fn chunks(&self) -> impl Iterator<Item = &Arc<Chunk>> {
        self.columns.iter().chain(self.deletions.iter().map(|deletions| &deletions.kept))
    }
}

impl Version {
    /// A version without rows.
    pub fn empty(number: u64, schema: SchemaRef) -> Self {
        let dictionaries = vec![None; schema.fields().len()];
        let (codecs, segments, pruning) = (Vec::new(), Vec::new(), Vec::new());
        let (identity, constraints) = (Some(Identity::new()), Arc::default());
        Self { number, identity, schema, constraints, dictionaries, codecs, segments, pruning }
    }

    /// The opened segment of a column, checked at the first use.
    pub fn open(&self, segment: usize, column: usize) -> Result<Arc<Segment>> {
        let chunk = &self.segments[segment].columns[column];
        if let Some(opened) = chunk.opened.get() {
            return Ok(opened.clone());
        }
        let opened = match &chunk.source {
            Source::Memory(base) => self.translated(base, segment, column).unwrap_or_else(|| base.clone()),
            Source::Numbers(first) => Arc::new(Segment::numbers(*first, self.rows_of(segment))?),
            // Kept where the whole is.
            Source::Part(path) => {
                let whole = self.open(segment, path[0])?;
                let part = path[1..].iter().try_fold(&*whole, |around, &at| around.parts().get(at));
                let part = Arc::new(part.ok_or_else(|| corrupt("a part is missing"))?.clone());
                if self.segments[segment].columns[path[0]].opened.get().is_none() {
                    return Ok(part);
                }
                part
            }
            Source::File(place) if place.file.access() == FileAccess::Map => self.read(place, segment, column)?,
            // Not kept: memory use depends on what is in use, not on the table's size. Concurrent callers wait for it.
            Source::File(place) => {
                let mut read = chunk.read.lock();
                if let Some(segment) = read.upgrade() {
                    return Ok(segment);
                }
                let opened = self.read(place, segment, column)?;
                *read = Arc::downgrade(&opened);
                return Ok(opened);
            }
            // Not kept, as above.
            Source::Compressed(..) => {
                let stored = self.stored(segment, column).expect("the chunk is compressed");
                return self.decompressed(&stored, segment, column);
            }
            // Not kept, as above.
            Source::Parquet(parquet) => {
                let decoded = parquet.decode(self.schema.field(column))?;
                parquet.check(&decoded)?;
                return Ok(Arc::new(decoded));
            }
        };
        Ok(chunk.opened.get_or_init(|| opened).clone())
    }

    fn read(&self, place: &Place, segment: usize, column: usize) -> Result<Arc<Segment>> {
        let opened = place.read(&self.chunk_name(segment, column));
        let opened = opened.and_then(|bytes| self.open_bytes(bytes, segment, column));
        opened.map(Arc::new).map_err(|error| place_error(error, place, self.chunk_name(segment, column)))
    }

    /// The compressed form of a chunk before it is read; `None` if it has none.
    pub fn stored(&self, segment: usize, column: usize) -> Option<StoredChunk> {
        StoredChunk::new(&self.segments[segment].columns[column], &self.chunk_name(segment, column))
    }

    /// The segment of the compressed form of a chunk.
    pub fn decompressed(&self, stored: &StoredChunk, segment: usize, column: usize) -> Result<Arc<Segment>> {
        let chunk = &self.segments[segment].columns[column];
        let opened = chunk.shared.get(
            || stored.open(),
            |bytes, known| {
                let opened = Segment::from_bytes(bytes, self.schema.field(column).data_type(), self.rows_of(segment))?;
                let opened = self.accept(opened, (known, stored.encoding()), segment, column)?;
                Ok(opened.with_stored_bytes(stored.bytes()))
            },
        );
        opened.map_err(|error| stored.named(error))
    }

    /// The positions of the parts of a compressed chunk's segment, with the translation of its codes. For files that are read they are cached:
    /// finding them reads the whole chunk.
    pub fn parts(&self, stored: &StoredChunk, segment: usize, column: usize) -> Result<SegmentParts> {
        let chunk = &self.segments[segment].columns[column];
        if let Some(known) = chunk.parts.get() {
            return Ok(SegmentParts::clone(known));
        }
        let parts = SegmentParts::of(&self.sparse(stored, segment, column)?);
        if chunk.compressed().is_some_and(|(place, ..)| place.file.access() == FileAccess::Read) {
            chunk.parts.get_or_init(|| Box::new(parts.clone()));
        }
        Ok(parts)
    }

    /// The segment of the compressed form; decompresses only the blocks that contain the positions of its parts.
    fn sparse(&self, stored: &StoredChunk, segment: usize, column: usize) -> Result<Segment> {
        let chunk = &self.segments[segment].columns[column];
        if chunk.verified.get().is_none() {
            // Does not read the chunk for its checksum: that is verified at the first use of the result. Inconsistencies may be damage, which the
            // checksum would name.
            return match stored
                .unverified()
                .and_then(|stored| self.sparse_of(&stored, stored_encoding(chunk), segment, column))
            {
                Ok(found) => Ok(found),
                Err(error) => Err(stored.open().err().unwrap_or_else(|| stored.named(error))),
            };
        }
        let found = self.sparse_of(&stored.open()?, stored_encoding(chunk), segment, column);
        found.map_err(|error| stored.named(error))
    }

    fn sparse_of(
        &self,
        stored: &CompressedChunk,
        encoding: Encoding,
        segment: usize,
        column: usize,
    ) -> Result<Segment> {
        let mut sparse = Sparse::new(stored);
        let (rows, bytes) = (self.rows_of(segment), sparse.bytes());
        let data_type = self.schema.field(column).data_type();
        let opened = Segment::sparse(bytes, data_type, rows, &mut |range| sparse.fetch(range))?;
        let generation = self.segments[segment].columns[column].generation;
        // Codes index a dictionary: all of them are checked if their width alone does not limit them.
        if let (Some(generation), Some(dictionary)) = (generation, &self.dictionaries[column])
            && opened.code_limit().is_none_or(|limit| limit > dictionary.entries_of(generation) as u64)
        {
            sparse.fetch(0..stored.uncompressed_bytes())?;
            return self.accept(opened, (false, encoding), segment, column);
        }
        self.accept(opened, (true, encoding), segment, column)
    }

    /// Bytes of memory of the opened segment of a column, and of its source, if they exist only while in use.
    pub fn memory_of(&self, segment: usize, column: usize) -> u64 {
        let chunk = &self.segments[segment].columns[column];
        if let Source::Part(path) = &chunk.source {
            return self.memory_of(segment, path[0]);
        }
        let read = chunk.place().filter(|place| place.file.access() == FileAccess::Read).map_or(0, |place| place.bytes);
        read + chunk.codec().map_or(0, |codec| codec.bytes)
    }

    fn rows_of(&self, segment: usize) -> usize {
        self.segments[segment].rows
    }

    /// The form of a Parquet column for a device; `None` for other chunks.
    pub fn parquet(&self, segment: usize, column: usize, codecs: PageCodecs) -> Result<Option<ParquetChunk>> {
        match &self.segments[segment].columns[column].source {
            Source::Parquet(parquet) => parquet.chunk(codecs).map(Some),
            _ => Ok(None),
        }
    }

    /// The same for a column of a remote file that has not been read; `None` for other chunks, or if it has to be read first.
    pub fn promise(&self, segment: usize, column: usize, codecs: PageCodecs) -> Option<ParquetPromise> {
        match &self.segments[segment].columns[column].source {
            Source::Parquet(parquet) => ParquetPromise::of(parquet, codecs),
            _ => None,
        }
    }

    /// Codec, stored and decompressed bytes of a Parquet column; `None` for other chunks.
    pub fn page_sizes(&self, segment: usize, column: usize) -> Option<(PageCodec, u64, u64)> {
        match &self.segments[segment].columns[column].source {
            Source::Parquet(parquet) => Some(parquet.page_sizes()),
            _ => None,
        }
    }

    /// Reads columns of remote Parquet files, several files at a time.
    pub fn prefetch(&self, chunks: &[(usize, usize)]) -> Result<()> {
        let mut wanted = vec![];
        for &(segment, column) in chunks {
            if let Source::Parquet(parquet) = &self.segments[segment].columns[column].source {
                let (file, chunk) = parquet.chunk_of();
                if file.is_remote() {
                    wanted.extend(parquet.wanted_bytes()?.into_iter().map(|range| (file, (chunk, range))));
                }
            }
        }
        ParquetFile::prefetch(wanted)
    }

    fn chunk_name(&self, segment: usize, column: usize) -> String {
        format!("column {:?}, segment {segment}", self.schema.field(column).name())
    }

    /// Opens the segment in the bytes of a chunk without a codec.
    fn open_bytes(&self, bytes: SegmentBytes, segment: usize, column: usize) -> Result<Segment> {
        let opened = Segment::from_bytes(bytes, self.schema.field(column).data_type(), self.rows_of(segment))?;
        let encoding = self.segments[segment].columns[column].encoding;
        self.accept(opened, (false, encoding), segment, column)
    }

    /// Checks that a segment matches the manifest, and that its codes are valid for this version's dictionary. `known`: codes have been checked
    /// before.
    fn accept(
        &self,
        opened: Segment,
        (known, encoding): (bool, Encoding),
        segment: usize,
        column: usize,
    ) -> Result<Segment> {
        let chunk = &self.segments[segment].columns[column];
        if opened.is_dictionary() != chunk.generation.is_some() || opened.encoding() != encoding {
            return Err(corrupt("its encoding is not the manifest's"));
        }
        if let (Some(generation), Some(dictionary), false) = (chunk.generation, &self.dictionaries[column], known) {
            opened.check_codes(dictionary.entries_of(generation))?;
        }
        let (found, said) = (opened.stats(), &chunk.stats);
        if (found.nulls, &found.min, &found.max) != (said.nulls, &said.min, &said.max) {
            return Err(corrupt("its statistics are not the manifest's"));
        }
        Ok(match self.translated(&opened, segment, column) {
            Some(translated) => Arc::unwrap_or_clone(translated),
            None => opened,
        })
    }

    /// Translates the codes of `segment` from an earlier dictionary to the column's.
    fn translated(&self, opened: &Segment, segment: usize, column: usize) -> Option<Arc<Segment>> {
        let generation = self.segments[segment].columns[column].generation?;
        let dictionary = self.dictionaries[column].as_ref().filter(|d| d.generation != generation)?;
        let remap = dictionary.remaps.iter().find(|r| r.from == generation).expect("checked with the manifest");
        Some(Arc::new(opened.with_remap(remap.codes.clone())))
    }

    /// The checksum of a column's stored bytes in one row segment.
    pub fn checksum(&self, segment: usize, column: usize) -> u64 {
        checksum_of(&self.segments[segment].columns[column])
    }

    /// The checksum of the deletions of a row segment, if it has some.
    pub fn deletions_checksum(&self, segment: usize) -> Option<u64> {
        let deletions = self.segments[segment].deletions.as_ref()?;
        Some(checksum_of(&deletions.kept))
    }

    /// The checksum of its dictionary; 0 if it has none.
    pub fn dictionary_checksum(&self, column: usize) -> u64 {
        match &self.dictionaries[column] {
            None => 0,
            Some(ColumnDictionary { place: Some(place), .. }) => place.xxh3,
            Some(dictionary) => xxhash_rust::xxh3::xxh3_64(&dictionary.dictionary.to_bytes()),
        }
    }

    /// The manifest of this version, whose chunks must all be in files.
    pub fn to_manifest(&self) -> Manifest {
        let mut files = Files::default();
        let dictionaries = self.dictionaries.iter().map(|d| d.as_ref().map(|d| files.dictionary(d))).collect();
        let segments = self.segments.iter().map(|segment| files.segment(segment)).collect();
        let schema = manifest::schema_to_hex(&self.schema);
        let codecs = self.codecs.clone();
        let pruning = self.pruning.iter().map(|map| map.entry(|place| files.blob(place))).collect();
        let (version, identity, files) = (self.number, self.identity, files.entries);
        let (log, is_old_log, constraints) = (false, false, self.constraints.to_vec());
        Manifest {
            version,
            identity,
            schema,
            log,
            is_old_log,
            constraints,
            files,
            dictionaries,
            codecs,
            segments,
            pruning,
        }
    }

    /// The difference between this version and `base`, of whose row segments it has the first `keep`.
    pub fn difference(&self, base: &Version, keep: usize) -> Difference {
        let mut files = Files::default();
        let mut dictionaries = vec![];
        for (column, (own, known)) in self.dictionaries.iter().zip(&base.dictionaries).enumerate() {
            let mut entry = |dictionary: &Option<ColumnDictionary>| dictionary.as_ref().map(|d| files.dictionary(d));
            let (own, known) = (entry(own), entry(known));
            if own != known {
                dictionaries.push((column, own));
            }
        }
        let mut deletions = vec![];
        for (segment, (own, known)) in self.segments.iter().zip(&base.segments).take(keep).enumerate() {
            let is_same = match (&own.deletions, &known.deletions) {
                (None, None) => true,
                (Some(own), Some(known)) => own.is(known),
                _ => false,
            };
            if !is_same {
                deletions.push((segment, files.deletions(own)));
            }
        }
        let segments = self.segments[keep..].iter().map(|segment| files.segment(segment)).collect();
        Difference { keep, files: files.entries, dictionaries, deletions, segments }
    }

    /// Moves what is stored at places for which `to` has another one.
    pub fn move_places(&mut self, to: &mut dyn FnMut(&Place) -> Result<Option<Place>>) -> Result<()> {
        for segment in &mut self.segments {
            for chunk in &mut segment.columns {
                if let Some(moved) = chunk.moved(to)? {
                    *chunk = moved;
                }
            }
            if let Some(deletions) = &mut segment.deletions
                && let Some(moved) = deletions.kept.moved(to)?
            {
                *deletions = deletions.moved(moved);
            }
        }
        for dictionary in self.dictionaries.iter_mut().flatten() {
            let remaps = dictionary.remaps.iter_mut().map(|remap| &mut remap.place);
            for place in remaps.chain([&mut dictionary.place]).flatten() {
                if let Some(moved) = to(place)? {
                    *place = moved;
                }
            }
        }
        self.pruning.iter_mut().try_for_each(|map| map.move_places(to))
    }

    /// Whether something is in memory that belongs into a file.
    pub fn is_pending(&self) -> bool {
        self.files().iter().any(|file| file.is_pending())
    }

    /// The version described by `manifest`, read from `path`, with this access to its files.
    pub fn from_manifest(
        manifest: &Manifest,
        path: &Path,
        Shared { known, records }: Shared<'_>,
        access: FileAccess,
    ) -> Result<Self> {
        let known = known.filter(|known| known.identity.is_some() && known.identity == manifest.identity);
        let directory = path.parent().unwrap_or(Path::new(""));
        let schema = manifest.schema(path)?;
        let mapped = known.map(Version::files).unwrap_or_default();
        let files = manifest.files.iter().map(|entry| {
            if records.name() == Some(&*entry.name) {
                return Ok(None);
            }
            Ok(Some(match mapped.iter().find(|f| f.is_current(&entry.name, entry.bytes, access)) {
                Some(file) => file.clone(),
                None => DataFile::open(directory, &entry.name, entry.bytes, access)?,
            }))
        });
        let files: Vec<Option<Arc<DataFile>>> = files.collect::<Result<_>>()?;
        let place = |blob: &Blob| {
            let file = files[blob.file].as_ref().unwrap_or_else(|| records.of(blob));
            Place { file: file.clone(), offset: blob.offset, bytes: blob.bytes, xxh3: blob.xxh3 }
        };
        let known_dictionaries = known.map(|k| &k.dictionaries[..]).unwrap_or_default();
        let dictionaries = manifest.dictionaries.iter().enumerate().map(|(column, entry)| {
            let known = known_dictionaries.get(column).and_then(|d| d.as_ref());
            entry.as_ref().map(|e| ColumnDictionary::load(e, &place, known, schema.field(column).name())).transpose()
        });
        let dictionaries: Vec<Option<ColumnDictionary>> = dictionaries.collect::<Result<_>>()?;
        let chunks = Chunks { path, known, dictionaries: &dictionaries, place: &place };
        let segment = |(segment, entry): (usize, &RowSegmentEntry)| {
            let columns = 0..entry.columns.len();
            let columns = columns.map(|column| chunks.chunk(entry, segment, column)).collect::<Result<_>>()?;
            let deletions = chunks.deletions(entry, segment)?;
            Ok(RowSegment { rows: entry.rows, columns, deletions })
        };
        let segments = manifest.segments.iter().enumerate().map(segment).collect::<Result<_>>()?;
        let known_pruning = known.map(|k| &k.pruning[..]).unwrap_or_default();
        let pruning = manifest.pruning.iter().map(|entry| ZoneMap::from_entry(entry, &place, known_pruning)).collect();
        let codecs = manifest.codecs.clone();
        let (number, identity) = (manifest.version, manifest.identity);
        let constraints = manifest.constraints.clone().into();
        Ok(Self { number, identity, schema, constraints, dictionaries, codecs, segments, pruning })
    }

    /// The data files of this version.
    pub fn files(&self) -> Vec<Arc<DataFile>> {
        let mut files: Vec<Arc<DataFile>> = Vec::new();
        let chunks = self.segments.iter().flat_map(RowSegment::chunks).flat_map(|chunk| chunk.places());
        let dictionaries = self
            .dictionaries
            .iter()
            .flatten()
            .flat_map(|d| d.place.iter().chain(d.remaps.iter().filter_map(|r| r.place.as_ref())));
        let pruning = self.pruning.iter().flat_map(|map| map.places());
        for place in chunks.chain(dictionaries).chain(pruning) {
            if !files.iter().rev().any(|f| Arc::ptr_eq(f, &place.file)) {
                files.push(place.file.clone());
            }
        }
        files
    }
}

/// The chunks of a version that is read from the manifest at `path`.
struct Chunks<'a> {
    path: &'a Path,
    /// A version of the same table that is open.
    known: Option<&'a Version>,
    dictionaries: &'a [Option<ColumnDictionary>],
    place: &'a dyn Fn(&Blob) -> Place,
}

impl Chunks<'_> {
    /// The chunk of a column in row segment `segment`, which is `entry`: the known one, if that is the same.
    fn chunk(&self, entry: &RowSegmentEntry, segment: usize, column: usize) -> Result<Arc<Chunk>> {
        let known = self.known.and_then(|known| known.segments.get(segment)?.columns.get(column));
        let has_dictionary = |known: &&Arc<Chunk>| known.generation.is_none() || self.has_known_dictionary(column);
        let what = || format!("column {column}, segment {segment}");
        self.opened(&entry.columns[column], entry.rows, known.filter(has_dictionary), &what)
    }

    /// The deletions in row segment `segment`.
    fn deletions(&self, entry: &RowSegmentEntry, segment: usize) -> Result<Option<Arc<Deletions>>> {
        let Some(deletions) = &entry.deletions else { return Ok(None) };
        let known = self.known.and_then(|known| known.segments.get(segment)?.deletions.as_ref());
        let what = || format!("the deletions of segment {segment}");
        let kept = self.opened(&deletions.kept, entry.rows, known.map(|known| &known.kept), &what)?;
        Ok(Some(match known.filter(|known| Arc::ptr_eq(&known.kept, &kept) && known.count == deletions.count) {
            Some(known) => Arc::clone(known),
            None => Deletions::of_entry(deletions, kept),
        }))
    }

    /// The chunk of `entry`, of `rows` rows: the known one, if that is the same.
    fn opened(
        &self,
        entry: &ChunkEntry,
        rows: usize,
        known: Option<&Arc<Chunk>>,
        what: &dyn Fn() -> String,
    ) -> Result<Arc<Chunk>> {
        let source = (self.place)(&entry.blob);
        let heavy = entry.heavy.as_ref().map(|heavy| Heavy {
            place: (self.place)(&heavy.blob),
            encoding: heavy.encoding,
            codec: heavy.codec,
        });
        let is_same = |known: &&Arc<Chunk>| {
            known.is_at(&source, heavy.as_ref())
                && known.stats.rows == rows as u64
                && known.generation == entry.generation
                // Bytes of a log in memory are let go where the log has become a data file.
                && known.place().is_some_and(|place| place.file.is_record() == source.file.is_record())
        };
        if let Some(known) = known.filter(is_same) {
            return Ok(known.clone());
        }
        let malformed = || FormatError::corrupt(self.path, format!("statistics of {}", what()));
        let stats = entry.column_stats(rows).ok_or_else(malformed)?;
        let source = Source::stored(source, entry.codec);
        let made = Chunk::new(stats, entry.encoding, entry.generation, source, heavy);
        Ok(Chunk::with_parts(made, entry.parts.clone()))
    }

    /// Whether the dictionary of `column` is that of the known version.
    fn has_known_dictionary(&self, column: usize) -> bool {
        let known = self.known.and_then(|known| known.dictionaries.get(column)?.as_ref());
        known.zip(self.dictionaries[column].as_ref()).is_some_and(|(known, own)| known.is(own))
    }
}

/// The checksum of a chunk's stored bytes.
fn checksum_of(chunk: &Chunk) -> u64 {
    match &chunk.source {
        Source::Memory(segment) => xxhash_rust::xxh3::xxh3_64(segment.as_bytes()),
        Source::File(place) | Source::Compressed(place, _) => place.xxh3,
        // Other tables' metadata do not depend on it.
        Source::Parquet(_) | Source::Numbers(_) | Source::Part(_) => 0,
    }
}

/// Adds file and segment to the error of a segment's own checks.
pub(super) fn place_error(error: FormatError, place: &Place, segment: String) -> FormatError {
    match error {
        FormatError::Corrupt { segment: None, detail, .. } => {
            FormatError::Corrupt { path: place.file.path(), segment: Some(segment), detail }
        }
        FormatError::Codec { codec, detail } => {
            let detail = format!("{} ({segment}): {detail}", place.file.path().display());
            FormatError::Codec { codec, detail }
        }
        other => other,
    }
}
