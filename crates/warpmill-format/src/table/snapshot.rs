//! Reading one committed version of a table.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use parking_lot::Mutex;

use super::chunk::{Chunk, Source};
use super::constraints::Constraint;
use super::data_file::DataFile;
use super::decode::{column_array, column_rows};
use super::parts::WithParts;
use super::pruning::ZoneMap;
use super::sample::TextSample;
use super::stored_chunk::StoredChunk;
use super::summary;
use super::version::{RowSegment, Version};
use crate::codec::{Codec, CompressedChunk, Machine};
use crate::parquet_file::{LeftOut, PageCodec, PageCodecs, ParquetChunk, ParquetPromise};
use crate::segment::{Encoding, SegmentParts};
use crate::{ColumnStats, Dictionary, FileAccess, Result, Segment, StatValue};

/// One committed version of a table: immutable, readable while this object lives.
#[derive(Debug)]
pub struct TableSnapshot {
    /// The table's directory; `None` in memory.
    path: Option<PathBuf>,
    version: Version,
    files: Vec<Arc<DataFile>>,
    stats: Vec<ColumnStats>,
    /// Rows that are not deleted, and all.
    rows: u64,
    stored_rows: u64,
    /// The seal of its stamp; 0 if it has none.
    seal: u64,
    parquet: bool,
    left_out: LeftOut,
    /// [`TableSnapshot::numbered`] after the first call, and the column's name.
    numbered: OnceLock<(String, Arc<TableSnapshot>)>,
    /// [`TableSnapshot::with_kept`] after the first call.
    pub(super) with_kept: OnceLock<Arc<TableSnapshot>>,
    /// [`TableSnapshot::with_parts`] after the first call.
    pub(crate) with_parts: OnceLock<Option<WithParts>>,
    /// Fingerprints by key and attribute that have been computed ([`TableSnapshot::fingerprint`]).
    pub(crate) fingerprints: Mutex<HashMap<(usize, usize), u64>>,
    /// By column, those that were asked for ([`TableSnapshot::text_sample`]).
    pub(super) samples: Mutex<HashMap<usize, Option<Arc<TextSample>>>>,
}

/// Size and encodings of one column, for display.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnSummary {
    /// The column's name.
    pub name: String,
    /// Its type.
    pub data_type: arrow::datatypes::DataType,
    /// Number of segments by encoding.
    pub encodings: BTreeMap<String, usize>,
    /// Number of segments by codec and block size in bytes (`None` without a codec).
    pub codecs: BTreeMap<(Codec, Option<usize>), usize>,
    /// Bytes of all segments before their codec.
    pub light_bytes: u64,
    /// Number of additional compressed forms of segments that are also stored without a codec, by codec and block size.
    pub heavy: BTreeMap<(Codec, usize), usize>,
    /// Their bytes, which are not in the statistics.
    pub heavy_bytes: u64,
    /// Stored bytes of segments without a second form.
    pub once_bytes: u64,
    /// Entries of the dictionary, if the column has one.
    pub dictionary: Option<usize>,
    /// Statistics over all segments, sizes in bytes among them.
    pub stats: ColumnStats,
}

impl ColumnSummary {
    /// Uncompressed by stored size; 1 for an empty column.
    pub fn ratio(&self) -> f64 {
        if self.stats.stored_bytes == 0 { 1.0 } else { self.stats.plain_bytes as f64 / self.stats.stored_bytes as f64 }
    }
}

impl ColumnSummary {
    /// Plain bytes per second of a scan of the column by the cost model, if one thread decompresses `rate` bytes per second (`None`: not compressed);
    /// `None` for an empty column.
    pub fn predicted_rate(&self, rate: Option<f64>, machine: &Machine) -> Option<f64> {
        let (stored, light) = (self.stats.stored_bytes as f64, self.light_bytes as f64);
        let seconds = machine.seconds(stored, light, rate.unwrap_or(f64::INFINITY));
        (seconds > 0.0).then(|| self.stats.plain_bytes as f64 / seconds)
    }
}

impl TableSnapshot {
    /// A snapshot of `version`.
    pub(crate) fn new(path: Option<PathBuf>, version: Version) -> Arc<Self> {
        Self::sealed(path, version, 0)
    }

    /// The same of a committed version, whose stamp has `seal`.
    pub(crate) fn sealed(path: Option<PathBuf>, version: Version, seal: u64) -> Arc<Self> {
        let stats = (0..version.schema.fields().len()).map(|c| {
            let segments = version.segments.iter().map(|s| &s.columns[c].stats);
            summary::column_stats(segments, version.dictionaries[c].as_ref().map(|d| d.dictionary.len()))
        });
        let stats = stats.collect();
        let rows = version.segments.iter().map(|s| s.kept_rows() as u64).sum();
        let stored_rows = version.segments.iter().map(|s| s.rows as u64).sum();
        let (parquet, left_out, files) = (false, LeftOut::default(), version.files());
        let (numbered, with_kept, with_parts) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (fingerprints, samples) = (Mutex::default(), Mutex::default());
        Arc::new(Self {
            path,
            version,
            files,
            stats,
            rows,
            stored_rows,
            seal,
            parquet,
            left_out,
            numbered,
            with_kept,
            with_parts,
            fingerprints,
            samples,
        })
    }

    /// The rows of Parquet files, except those `left_out`.
    pub(crate) fn of_parquet(version: Version, left_out: LeftOut) -> Arc<Self> {
        let snapshot = Arc::into_inner(Self::new(None, version)).expect("it was just made");
        Arc::new(Self { parquet: true, left_out, ..snapshot })
    }

    /// The rows of these row segments as a separate table with the same segments, for one of several devices. It has the bounds of its row segments,
    /// and no zone metadata.
    pub fn part(&self, segments: Range<usize>) -> Arc<Self> {
        let Version { number, ref schema, ref dictionaries, ref codecs, segments: ref all, .. } = self.version;
        let (schema, dictionaries, codecs) = (schema.clone(), dictionaries.clone(), codecs.clone());
        // No version of this table: row segments have other numbers.
        let identity = Some(super::Identity::new());
        let (segments, pruning) = (all[segments].to_vec(), vec![]);
        let constraints = Arc::clone(&self.version.constraints);
        Self::new(
            self.path.clone(),
            Version { number, identity, schema, constraints, dictionaries, codecs, segments, pruning },
        )
    }

    /// The same rows with an additional last column `name`: row numbers from 0, in table order.
    ///
    /// # Errors
    /// Errors of encoding, which are not expected.
    pub fn numbered(&self, name: &str) -> Result<Arc<Self>> {
        if let Some((_, known)) = self.numbered.get().filter(|(known, _)| known == name) {
            return Ok(known.clone());
        }
        let made = self.with_numbers(name)?;
        // One snapshot for all statements, so that devices find their copies of it. Nearly all use the same name.
        self.numbered.get_or_init(|| (name.to_owned(), made.clone()));
        Ok(made)
    }

    fn with_numbers(&self, name: &str) -> Result<Arc<Self>> {
        // Segments of equal length differ only in their first number.
        let mut alike: HashMap<usize, (ColumnStats, Encoding)> = HashMap::new();
        let (mut first, mut chunks) = (0, Vec::with_capacity(self.num_segments()));
        for segment in &self.version.segments {
            let (stats, encoding) = match alike.entry(segment.rows) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(free) => {
                    let made = Segment::numbers(0, segment.rows)?;
                    free.insert((made.stats().clone(), made.encoding()))
                }
            };
            let end = first + segment.rows as i64;
            let bound = |number: i64| Some(StatValue::Int(number.into()));
            let stats = ColumnStats { min: bound(first), max: bound(end - 1), ..stats.clone() };
            chunks.push(Chunk::new(stats, *encoding, None, Source::Numbers(first), None));
            first = end;
        }
        let segments = self.version.segments.iter().zip(chunks);
        Ok(self.with_column(
            Field::new(name, DataType::Int64, false),
            segments.map(|(segment, chunk)| extended(segment, chunk)).collect(),
        ))
    }

    /// The same table with an additional last column, whose chunks `segments` have.
    pub(super) fn with_column(&self, field: Field, segments: Vec<RowSegment>) -> Arc<Self> {
        let Version { number, identity, ref schema, ref constraints, .. } = self.version;
        let Version { ref dictionaries, ref codecs, ref pruning, .. } = self.version;
        let fields: Vec<FieldRef> = schema.fields().iter().cloned().chain([Arc::new(field)]).collect();
        let version = Version {
            number,
            identity,
            schema: Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())),
            constraints: Arc::clone(constraints),
            dictionaries: dictionaries.iter().cloned().chain([None]).collect(),
            codecs: codecs.clone(),
            segments,
            pruning: pruning.clone(),
        };
        Self::new(self.path.clone(), version)
    }

    /// Whether this is a version of the same table as `earlier`, with the same columns and constraints, and not another table of that name, or a
    /// version after a replacement of all rows.
    pub fn continues(&self, earlier: &TableSnapshot) -> bool {
        let (now, then) = (&self.version, &earlier.version);
        now.identity == then.identity && now.schema == then.schema && now.constraints == then.constraints
    }

    /// Whether both are the same committed version: a commit that failed may have been seen, and the next one has its number.
    pub(crate) fn is_same_version(&self, other: &TableSnapshot) -> bool {
        let of = |own: &Self| (own.version.identity, own.version.number, own.seal);
        of(self) == of(other)
    }

    /// Checks that the files of this version are unchanged since they were opened: call it after all reads.
    ///
    /// Errors: [`FormatError::Corrupt`](crate::FormatError::Corrupt) with the name of the changed file: data read from it are invalid.
    pub fn check_files(&self) -> Result<()> {
        self.files.iter().try_for_each(|file| file.check())
    }

    /// The data files of this version.
    pub(crate) fn files(&self) -> &[Arc<DataFile>] {
        &self.files
    }

    /// Whether all files of this version are open in this way.
    pub(crate) fn is_open(&self, access: FileAccess) -> bool {
        self.files.iter().all(|file| file.access() == access)
    }

    /// The internal representation of the version.
    pub(crate) fn parts(&self) -> &Version {
        &self.version
    }

    /// The table's directory; `None` for a table in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The name of the table's directory; empty for a table in memory.
    pub fn name(&self) -> String {
        let name = self.path.as_deref().and_then(Path::file_name);
        name.map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The constraints of the table.
    pub fn constraints(&self) -> &Arc<[Constraint]> {
        &self.version.constraints
    }

    /// Column names and types.
    pub fn schema(&self) -> &SchemaRef {
        &self.version.schema
    }

    /// The position of the column called `name`.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.version.schema.fields().iter().position(|f| f.name() == name)
    }

    /// The version number, unique within the table and growing with each commit.
    pub fn version(&self) -> u64 {
        self.version.number
    }

    /// The identity of the table, which distinguishes it from others with the same name; `None` for tables created by older builds.
    pub fn identity(&self) -> Option<super::Identity> {
        self.version.identity
    }

    /// Rows of all segments that are not deleted.
    pub fn num_rows(&self) -> u64 {
        self.rows
    }

    /// Rows of all segments, with deleted ones.
    pub fn stored_rows(&self) -> u64 {
        self.stored_rows
    }

    /// Number of row segments.
    pub fn num_segments(&self) -> usize {
        self.version.segments.len()
    }

    /// Rows of row segment `segment`, with deleted ones ([`TableSnapshot::deleted`]): all columns have so many.
    pub fn segment_rows(&self, segment: usize) -> usize {
        self.version.segments[segment].rows
    }

    /// Statistics of a column over all segments. Deleted rows are counted, and their values are within the bounds.
    pub fn column_stats(&self, column: usize) -> &ColumnStats {
        &self.stats[column]
    }

    /// Statistics of a column in one row segment (no I/O).
    pub fn segment_stats(&self, segment: usize, column: usize) -> &ColumnStats {
        &self.version.segments[segment].columns[column].stats
    }

    /// The encoding of a column in one row segment (no I/O).
    pub fn segment_encoding(&self, segment: usize, column: usize) -> Encoding {
        self.version.segments[segment].columns[column].encoding
    }

    /// Whether a column has `encoding` in any row segment (no I/O).
    pub fn has_encoding(&self, column: usize, encoding: Encoding) -> bool {
        self.version.segments.iter().any(|segment| segment.columns[column].encoding == encoding)
    }

    /// The codec of a column in one row segment, and the segment's bytes before compression (no I/O).
    pub fn segment_codec(&self, segment: usize, column: usize) -> (Codec, u64) {
        let chunk = &self.version.segments[segment].columns[column];
        chunk.codec().map_or((Codec::None, chunk.stats.stored_bytes), |codec| (codec.name, codec.bytes))
    }

    /// Bytes of memory of a column of one row segment while it is in use (no I/O); 0 if it is mapped, or in memory anyway.
    pub fn segment_memory(&self, segment: usize, column: usize) -> u64 {
        self.version.memory_of(segment, column)
    }

    /// The compressed form of a column in one row segment; verifies its checksum at the first use. `None` if there is none:
    /// [`TableSnapshot::segment`] has the bytes then.
    ///
    /// Errors: those of [`TableSnapshot::segment`].
    pub fn compressed(&self, segment: usize, column: usize) -> Result<Option<CompressedChunk>> {
        self.stored(segment, column).map(|stored| stored.open()).transpose()
    }

    /// The compressed form before it is read (no I/O), for devices that decompress it.
    pub fn stored(&self, segment: usize, column: usize) -> Option<StoredChunk> {
        self.version.stored(segment, column)
    }

    /// The codec of the compressed form of a column in one row segment, its bytes and the segment's bytes (no I/O); `None` if there is no such form.
    pub fn stored_sizes(&self, segment: usize, column: usize) -> Option<(Codec, u64, u64)> {
        let (place, _, codec) = self.version.segments[segment].columns[column].compressed()?;
        Some((codec.name, place.bytes, codec.bytes))
    }

    /// Whether a column is stored without a codec in one row segment (no I/O): then [`TableSnapshot::segment`] does not decompress, whether or not
    /// there is also a compressed form.
    pub fn has_light(&self, segment: usize, column: usize) -> bool {
        self.segment_codec(segment, column).0 == Codec::None
    }

    /// The positions of the parts of a compressed segment. Decompresses the blocks that contain them, and those whose content determines valid reads:
    /// strings, and codes whose width alone does not keep them below the number of dictionary
    /// entries.
    ///
    /// Errors: those of [`TableSnapshot::segment`]; stored data that contradict the manifest.
    pub fn stored_parts(&self, stored: &StoredChunk, segment: usize, column: usize) -> Result<SegmentParts> {
        self.version.parts(stored, segment, column)
    }

    /// Whether its rows come from Parquet files ([`crate::parquet_file::table`]).
    pub fn is_parquet(&self) -> bool {
        self.parquet
    }

    /// The rows of Parquet files that [`refine`](crate::parquet_file::refine()) left out.
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// The form of a column of one row segment of Parquet files for a device that decompresses `codecs` (reads page headers at the first use); `None`
    /// for other tables. [`TableSnapshot::segment`] decodes such a column on the host each
    /// time.
    ///
    /// Errors: invalid page headers, or headers that contradict the footer.
    pub fn parquet(&self, segment: usize, column: usize, codecs: PageCodecs) -> Result<Option<ParquetChunk>> {
        self.version.parquet(segment, column, codecs)
    }

    /// The layout of a column of one row segment of remote Parquet files for a device that decompresses `codecs`, based on the footer; `None` if the
    /// column has to be read for it, or has been read.
    pub fn promise(&self, segment: usize, column: usize, codecs: PageCodecs) -> Option<ParquetPromise> {
        self.version.promise(segment, column, codecs)
    }

    /// The codec of a column of one row segment of Parquet files, its stored and decompressed bytes according to the footer; `None` for other tables.
    pub fn page_sizes(&self, segment: usize, column: usize) -> Option<(PageCodec, u64, u64)> {
        self.version.page_sizes(segment, column)
    }

    /// Reads the data that [`TableSnapshot::parquet`] will need for `chunks`, each a row segment and a column, of remote files, with concurrent
    /// requests.
    ///
    /// Errors: files that cannot be read, or have changed.
    pub fn prefetch(&self, chunks: &[(usize, usize)]) -> Result<()> {
        if self.parquet { self.version.prefetch(chunks) } else { Ok(()) }
    }

    /// Measures the bytes per second that one thread decompresses of a column, on its first compressed chunk; `None` if there is none.
    ///
    /// Errors: those of [`TableSnapshot::segment`].
    pub fn decompression_rate(&self, column: usize) -> Result<Option<f64>> {
        for segment in 0..self.num_segments() {
            if let Some(chunk) = self.compressed(segment, column)? {
                return crate::codec::decompression_rate(&chunk).map(Some);
            }
        }
        Ok(None)
    }

    /// The dictionary of a string column: if it has one, every segment of the column decodes to its codes.
    pub fn dictionary(&self, column: usize) -> Option<&Arc<Dictionary>> {
        self.version.dictionaries[column].as_ref().map(|d| &d.dictionary)
    }

    /// One column of one row segment; verifies its checksum at the first use. A mapped segment is kept by the snapshot; one from a file that is read,
    /// or with a codec (decompressed by all threads that request it together), lives as long as it is in
    /// use.
    ///
    /// Errors: [`crate::FormatError::Corrupt`], with file, column and segment.
    pub fn segment(&self, segment: usize, column: usize) -> Result<Arc<Segment>> {
        self.version.open(segment, column)
    }

    /// A column of a row segment as an Arrow array, in the schema's type.
    ///
    /// # Errors
    /// The errors of [`TableSnapshot::segment`]; [`crate::FormatError::Schema`] for more data than fit one array.
    pub fn array(&self, segment: usize, column: usize) -> Result<ArrayRef> {
        column_array(self, segment, column)
    }

    /// Some rows of a column of a row segment that [`TableSnapshot::segment`] has opened, as [`TableSnapshot::array`] gives all of them. The
    /// first is a multiple of [`crate::VECTOR_ROWS`]. Of nested values all are decoded.
    ///
    /// # Errors
    /// As [`TableSnapshot::array`].
    pub fn array_rows(&self, opened: &Segment, column: usize, rows: Range<usize>) -> Result<ArrayRef> {
        column_rows(self, opened, column, rows)
    }

    /// Metadata by which scans skip rows, in the order of its row segments; of some there may be none.
    pub fn zone_maps(&self) -> &[ZoneMap] {
        &self.version.pruning
    }

    /// Size of the pruning metadata, in bytes.
    pub fn pruning_bytes(&self) -> u64 {
        self.version.pruning.iter().map(ZoneMap::bytes).sum()
    }

    /// Size of all segments and dictionaries as stored, in bytes.
    pub fn stored_bytes(&self) -> u64 {
        let dictionaries = self.version.dictionaries.iter().flatten();
        let dictionaries = dictionaries.filter_map(|d| d.place.as_ref()).map(|p| p.bytes);
        let chunks = self.version.segments.iter().flat_map(|segment| &segment.columns);
        let heavy = chunks.filter_map(|chunk| chunk.heavy.as_ref()).map(|heavy| heavy.place.bytes);
        let deletions = self.version.segments.iter().filter_map(|segment| segment.deletions.as_ref());
        let deletions = deletions.map(|deletions| deletions.kept.stats.stored_bytes);
        self.stats.iter().map(|s| s.stored_bytes).chain(dictionaries).chain(heavy).chain(deletions).sum()
    }

    /// Size of all values uncompressed, in bytes.
    pub fn plain_bytes(&self) -> u64 {
        self.stats.iter().map(|s| s.plain_bytes).sum()
    }

    /// Per column: sizes, encodings, statistics.
    pub fn columns(&self) -> Vec<ColumnSummary> {
        let summary = |(c, field): (usize, &arrow::datatypes::FieldRef)| {
            let (mut encodings, mut codecs, mut light_bytes) = (BTreeMap::new(), BTreeMap::new(), 0);
            let (mut heavy, mut heavy_bytes, mut once_bytes) = (BTreeMap::new(), 0, 0);
            for segment in &self.version.segments {
                let chunk = &segment.columns[c];
                *encodings.entry(format!("{:?}", chunk.encoding)).or_insert(0) += 1;
                let codec = chunk.codec();
                let key = (codec.map_or(Codec::None, |codec| codec.name), codec.map(|codec| codec.block));
                *codecs.entry(key).or_insert(0) += 1;
                light_bytes += codec.map_or(chunk.stats.stored_bytes, |codec| codec.bytes);
                match &chunk.heavy {
                    Some(form) => {
                        *heavy.entry((form.codec.name, form.codec.block)).or_insert(0) += 1;
                        heavy_bytes += form.place.bytes;
                    }
                    None => once_bytes += chunk.stats.stored_bytes,
                }
            }
            ColumnSummary {
                name: field.name().clone(),
                data_type: field.data_type().clone(),
                encodings,
                codecs,
                light_bytes,
                heavy,
                heavy_bytes,
                once_bytes,
                dictionary: self.dictionary(c).map(|d| d.len()),
                stats: self.stats[c].clone(),
            }
        };
        self.version.schema.fields().iter().enumerate().map(summary).collect()
    }

    /// Opens and checks every segment of every column, and the pruning metadata: returns the first error if the version is not completely readable.
    pub fn verify(&self) -> Result<()> {
        use rayon::iter::{IntoParallelIterator, ParallelIterator};
        let columns = self.version.schema.fields().len();
        (0..self.num_segments() * columns).into_par_iter().try_for_each(|i| {
            let (segment, column) = (i / columns, i % columns);
            self.segment(segment, column)?;
            match self.stored(segment, column).filter(|_| self.has_light(segment, column)) {
                Some(stored) => self.version.decompressed(&stored, segment, column).map(|_| ()),
                None => Ok(()),
            }
        })?;
        (0..self.num_segments()).try_for_each(|segment| self.deleted(segment).map(|_| ()))?;
        self.version.pruning.iter().try_for_each(|map| map.verify(self))
    }
}

/// `segment` with an additional last chunk.
pub(super) fn extended(segment: &RowSegment, chunk: Arc<Chunk>) -> RowSegment {
    let columns = segment.columns.iter().cloned().chain([chunk]).collect();
    RowSegment { rows: segment.rows, columns, deletions: segment.deletions.clone() }
}
