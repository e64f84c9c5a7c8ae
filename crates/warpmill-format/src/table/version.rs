//! One committed version of a table as held in memory, and its two ways to and from a manifest.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;

use super::data_file::{DataFile, Place};
use super::manifest::RowSegmentEntry;
use super::manifest::{self, Blob, ChunkEntry, DictionaryEntry, FileEntry, Manifest, RemapEntry, StatsEntry};
use super::pruning::ZoneMap;
use crate::segment::{Encoding, SegmentBytes};
use crate::{ColumnStats, Dictionary, FormatError, Result, Segment};

/// Everything that one version is made of.
#[derive(Debug)]
pub(crate) struct Version {
    pub number: u64,
    pub schema: SchemaRef,
    pub dictionaries: Vec<Option<ColumnDictionary>>,
    pub segments: Vec<RowSegment>,
    /// By which scans skip rows, in the order of its row segments.
    pub pruning: Vec<ZoneMap>,
}

/// One row range, all columns.
#[derive(Debug, Clone)]
pub(crate) struct RowSegment {
    pub rows: usize,
    pub columns: Vec<Arc<Chunk>>,
}

/// The dictionary of a column; its generation grows with each new dictionary of the column.
#[derive(Debug, Clone)]
pub(crate) struct ColumnDictionary {
    pub generation: u32,
    pub dictionary: Arc<Dictionary>,
    /// Where it is stored; `None` in memory.
    pub place: Option<Place>,
    /// Translations from earlier generations that segments still use.
    pub remaps: Vec<Remap>,
}

/// Code of the column's dictionary by code of generation `from`.
#[derive(Debug, Clone)]
pub(crate) struct Remap {
    pub from: u32,
    pub codes: Arc<[u32]>,
    pub place: Option<Place>,
}

/// One column of one row segment: where it is and, once used, the opened segment.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub stats: ColumnStats,
    pub encoding: Encoding,
    /// The generation of the dictionary whose codes are stored.
    pub generation: Option<u32>,
    pub source: Source,
    opened: OnceLock<Arc<Segment>>,
}

/// Where the bytes of a segment are.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// Held here (tables in memory), with codes as encoded.
    Memory(Arc<Segment>),
    /// In a data file.
    File(Place),
}

impl Chunk {
    pub fn new(stats: ColumnStats, encoding: Encoding, generation: Option<u32>, source: Source) -> Arc<Self> {
        Arc::new(Self { stats, encoding, generation, source, opened: OnceLock::new() })
    }

    /// The same chunk, not opened: for a version in which its codes are translated differently.
    pub fn reopened(&self) -> Arc<Self> {
        Self::new(self.stats.clone(), self.encoding, self.generation, self.source.clone())
    }
}

impl Version {
    /// A version without rows.
    pub fn empty(number: u64, schema: SchemaRef) -> Self {
        let dictionaries = vec![None; schema.fields().len()];
        Self { number, schema, dictionaries, segments: Vec::new(), pruning: Vec::new() }
    }

    /// The opened segment of a column, checked on first use.
    pub fn open(&self, segment: usize, column: usize) -> Result<Arc<Segment>> {
        let chunk = &self.segments[segment].columns[column];
        if let Some(opened) = chunk.opened.get() {
            return Ok(opened.clone());
        }
        let name = || format!("column {:?}, segment {segment}", self.schema.field(column).name());
        let base = match &chunk.source {
            Source::Memory(base) => base.clone(),
            Source::File(place) => {
                Arc::new(self.read(place, segment, column).map_err(|e| place_error(e, place, name()))?)
            }
        };
        let opened = match (chunk.generation, &self.dictionaries[column]) {
            (Some(generation), Some(dictionary)) if generation != dictionary.generation => {
                let remap = dictionary.remaps.iter().find(|r| r.from == generation).expect("checked with the manifest");
                Arc::new(base.with_remap(remap.codes.clone()))
            }
            _ => base,
        };
        Ok(chunk.opened.get_or_init(|| opened).clone())
    }

    fn read(&self, place: &Place, segment: usize, column: usize) -> Result<Segment> {
        let (rows, field) = (self.segments[segment].rows, self.schema.field(column));
        let bytes = place.read(&format!("column {:?}, segment {segment}", field.name()))?;
        let opened = Segment::from_bytes(bytes, field.data_type(), rows)?;
        let chunk = &self.segments[segment].columns[column];
        if opened.is_dictionary() != chunk.generation.is_some() || opened.encoding() != chunk.encoding {
            return Err(FormatError::corrupt(&place.file.path(), "its encoding is not the manifest's"));
        }
        if let (Some(generation), Some(dictionary)) = (chunk.generation, &self.dictionaries[column]) {
            opened.check_codes(dictionary.entries_of(generation))?;
        }
        Ok(opened)
    }

    /// The checksum of a column's bytes in one row segment.
    pub fn checksum(&self, segment: usize, column: usize) -> u64 {
        match &self.segments[segment].columns[column].source {
            Source::Memory(segment) => xxhash_rust::xxh3::xxh3_64(segment.as_bytes()),
            Source::File(place) => place.xxh3,
        }
    }

    /// The same of its dictionary; 0 where it has none.
    pub fn dictionary_checksum(&self, column: usize) -> u64 {
        match &self.dictionaries[column] {
            None => 0,
            Some(ColumnDictionary { place: Some(place), .. }) => place.xxh3,
            Some(dictionary) => xxhash_rust::xxh3::xxh3_64(&dictionary.dictionary.to_bytes()),
        }
    }

    /// The manifest of this version, all of whose chunks are in files.
    pub fn to_manifest(&self) -> Manifest {
        let mut files = Files::default();
        let dictionaries = self.dictionaries.iter().map(|d| d.as_ref().map(|d| files.dictionary(d))).collect();
        let segments = self.segments.iter().map(|segment| RowSegmentEntry {
            rows: segment.rows,
            columns: segment.columns.iter().map(|chunk| files.chunk(chunk)).collect(),
        });
        let segments = segments.collect();
        let schema = manifest::schema_to_hex(&self.schema);
        let pruning = self.pruning.iter().map(|map| map.entry(|place| files.blob(place))).collect();
        Manifest { version: self.number, schema, files: files.entries, dictionaries, segments, pruning }
    }

    /// The version that `manifest`, read from `path`, describes. What it shares with `known`, an earlier version of the
    /// same table, stays mapped and opened.
    pub fn from_manifest(manifest: &Manifest, path: &Path, known: Option<&Version>) -> Result<Self> {
        let directory = path.parent().unwrap_or(Path::new(""));
        let schema = manifest.schema(path)?;
        let mapped = known.map(Version::files).unwrap_or_default();
        let files =
            manifest.files.iter().map(|entry| match mapped.iter().find(|f| f.is_current(&entry.name, entry.bytes)) {
                Some(file) => Ok(file.clone()),
                None => DataFile::open(directory, &entry.name, entry.bytes),
            });
        let files: Vec<Arc<DataFile>> = files.collect::<Result<_>>()?;
        let place = |blob: &Blob| Place {
            file: files[blob.file].clone(),
            offset: blob.offset,
            bytes: blob.bytes,
            xxh3: blob.xxh3,
        };
        let known_dictionaries = known.map(|k| &k.dictionaries[..]).unwrap_or_default();
        let dictionaries = manifest.dictionaries.iter().enumerate().map(|(column, entry)| {
            let known = known_dictionaries.get(column).and_then(|d| d.as_ref());
            entry.as_ref().map(|e| ColumnDictionary::load(e, &place, known, schema.field(column).name())).transpose()
        });
        let dictionaries: Vec<Option<ColumnDictionary>> = dictionaries.collect::<Result<_>>()?;
        let mut segments = Vec::with_capacity(manifest.segments.len());
        for (s, entry) in manifest.segments.iter().enumerate() {
            let mut columns = Vec::with_capacity(entry.columns.len());
            for (c, chunk) in entry.columns.iter().enumerate() {
                let source = place(&chunk.blob);
                let same = known
                    .and_then(|k| k.segments.get(s)?.columns.get(c))
                    .filter(|k| k.is_at(&source) && k.stats.rows == entry.rows as u64);
                let same_codes = |k: &&Arc<Chunk>| {
                    k.generation.is_none()
                        || known_dictionaries.get(c).and_then(|d| d.as_ref()).map(|d| d.generation)
                            == dictionaries[c].as_ref().map(|d| d.generation)
                };
                columns.push(match same.filter(same_codes) {
                    Some(known) => known.clone(),
                    None => {
                        let malformed = || FormatError::corrupt(path, format!("statistics of column {c}, segment {s}"));
                        let stats = chunk.column_stats(entry.rows).ok_or_else(malformed)?;
                        Chunk::new(stats, chunk.encoding, chunk.generation, Source::File(source))
                    }
                });
            }
            segments.push(RowSegment { rows: entry.rows, columns });
        }
        let known_pruning = known.map(|k| &k.pruning[..]).unwrap_or_default();
        let pruning = manifest.pruning.iter().map(|entry| ZoneMap::from_entry(entry, &place, known_pruning)).collect();
        Ok(Self { number: manifest.version, schema, dictionaries, segments, pruning })
    }

    /// The data files of this version.
    fn files(&self) -> Vec<Arc<DataFile>> {
        let mut files: Vec<Arc<DataFile>> = Vec::new();
        let chunks = self.segments.iter().flat_map(|s| &s.columns).filter_map(|chunk| chunk.place());
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

/// Adds file and segment to the error of a segment's own checks.
pub(super) fn place_error(error: FormatError, place: &Place, segment: String) -> FormatError {
    match error {
        FormatError::Corrupt { segment: None, detail, .. } => {
            FormatError::Corrupt { path: place.file.path(), segment: Some(segment), detail }
        }
        other => other,
    }
}

impl Chunk {
    fn place(&self) -> Option<&Place> {
        match &self.source {
            Source::File(place) => Some(place),
            Source::Memory(_) => None,
        }
    }

    fn is_at(&self, place: &Place) -> bool {
        self.place().is_some_and(|p| p.same(place))
    }
}

impl ColumnDictionary {
    /// The number of entries of an earlier or this generation.
    fn entries_of(&self, generation: u32) -> usize {
        match self.remaps.iter().find(|r| r.from == generation) {
            Some(remap) => remap.codes.len(),
            None => self.dictionary.len(),
        }
    }

    fn load(
        entry: &DictionaryEntry,
        place: &dyn Fn(&Blob) -> Place,
        known: Option<&ColumnDictionary>,
        column: &str,
    ) -> Result<Self> {
        let at = place(&entry.blob);
        let dictionary = match known.filter(|k| k.place.as_ref().is_some_and(|p| p.same(&at))) {
            Some(known) => known.dictionary.clone(),
            None => {
                let what = format!("dictionary of column {column:?}");
                let bytes = at.read(&what)?;
                Arc::new(Dictionary::from_bytes(&bytes).map_err(|e| place_error(e, &at, what))?)
            }
        };
        let remaps = entry.remaps.iter().map(|remap| {
            let at = place(&remap.blob);
            let what = format!("dictionary remap of column {column:?}");
            let codes = remap_from_bytes(&at.read(&what)?, dictionary.len());
            let codes = codes.map_err(|detail| FormatError::Corrupt {
                path: at.file.path(),
                segment: Some(what),
                detail: detail.into(),
            })?;
            Ok(Remap { from: remap.from, codes, place: Some(at) })
        });
        let remaps = remaps.collect::<Result<_>>()?;
        Ok(Self { generation: entry.generation, dictionary, place: Some(at), remaps })
    }
}

/// Little-endian codes, strictly ascending and below `entries`.
fn remap_from_bytes(bytes: &SegmentBytes, entries: usize) -> Result<Arc<[u32]>, &'static str> {
    if !bytes.len().is_multiple_of(4) {
        return Err("not a whole number of codes");
    }
    let codes: Arc<[u32]> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().expect("4 bytes"))).collect();
    if !codes.is_sorted_by(|a, b| a < b) || codes.last().is_some_and(|&code| code as usize >= entries) {
        return Err("codes out of order or out of range");
    }
    Ok(codes)
}

/// Collects the files that a manifest names.
#[derive(Default)]
struct Files {
    entries: Vec<FileEntry>,
    index: std::collections::HashMap<String, usize>,
}

impl Files {
    fn blob(&mut self, place: &Place) -> Blob {
        let entries = &mut self.entries;
        let file = *self.index.entry(place.file.name().to_owned()).or_insert_with(|| {
            entries.push(FileEntry { name: place.file.name().to_owned(), bytes: place.file.bytes() });
            entries.len() - 1
        });
        Blob { file, offset: place.offset, bytes: place.bytes, xxh3: place.xxh3 }
    }

    fn dictionary(&mut self, dictionary: &ColumnDictionary) -> DictionaryEntry {
        let stored = "dictionaries of a table on disk are in files";
        let blob = self.blob(dictionary.place.as_ref().expect(stored));
        let remaps = dictionary.remaps.iter();
        let remaps = remaps.map(|r| RemapEntry { from: r.from, blob: self.blob(r.place.as_ref().expect(stored)) });
        let remaps = remaps.collect();
        DictionaryEntry { generation: dictionary.generation, blob, remaps }
    }

    fn chunk(&mut self, chunk: &Chunk) -> ChunkEntry {
        ChunkEntry {
            blob: self.blob(chunk.place().expect("chunks of a table on disk are in files")),
            encoding: chunk.encoding,
            generation: chunk.generation,
            stats: StatsEntry::of(&chunk.stats),
        }
    }
}
