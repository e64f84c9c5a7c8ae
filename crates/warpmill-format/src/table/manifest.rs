//! The manifest: the file that lists all parts of a committed version of a table.
//!
//! One line `warpmill-manifest <format> <xxh3 of the rest, 16 hex digits>`, then a JSON document. See `docs/format.md`.

use std::path::Path;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::writer::IpcWriteOptions;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::constraints::Constraint;
use super::data_file::LOG_EXTENSION;
use super::parts::PartEntry;
use super::{Identity, stored_schema};
use crate::codec::{Codec, ColumnChoice};
use crate::guard::caught;
use crate::segment::Encoding;
use crate::{ColumnStats, FormatError, Result, StatValue};

/// The version of data files, and of manifests without newer features.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// The version of manifests with codecs.
const CODEC_VERSION: u32 = 2;
/// The version of manifests with strings in symbols.
const SYMBOLS_VERSION: u32 = 3;
/// The version of manifests with columns of nested types.
const NESTED_VERSION: u32 = 4;
/// The version of manifests with constraints: builds without support for constraints must not write such a table.
const CONSTRAINTS_VERSION: u32 = 5;
/// The version of manifests with foreign keys, of the table or to it.
const REFERENCES_VERSION: u32 = 6;
/// The version of manifests that may have a log: builds that do not know logs would miss what is in them.
const LOG_VERSION: u32 = 7;
/// The version of manifests with deletions, of the manifest or of its log, the newest supported: builds that do not know them would read deleted rows.
const DELETIONS_VERSION: u32 = 8;
const TITLE: &str = "warpmill-manifest";

/// The stored form of a committed version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Version number.
    pub version: u64,
    /// Identity of the table; missing in older builds' manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// Arrow IPC schema message (flatbuffer `Message`), in hexadecimal.
    pub schema: String,
    /// Whether later versions may be in a log beside the manifest (`table/log.rs`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log: bool,
    /// Whether the log may not have deletions, as builds read it that do not know them.
    #[serde(skip)]
    pub is_old_log: bool,
    /// The constraints of its rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<Constraint>,
    /// Data files with the chunks.
    pub files: Vec<FileEntry>,
    /// Per column: the dictionary of a dictionary-encoded string column.
    pub dictionaries: Vec<Option<DictionaryEntry>>,
    /// Per column: the codec for new chunks; empty if no column has a codec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codecs: Vec<Option<ColumnChoice>>,
    /// Row segments in row order.
    pub segments: Vec<RowSegmentEntry>,
    /// Metadata by which scans skip rows, in the order of its row segments, which it need not be of all of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pruning: Vec<PruningEntry>,
}

/// Pruning metadata of the row segments of one write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PruningEntry {
    /// The first row segment.
    pub first: usize,
    /// Their number.
    pub segments: usize,
    /// Number of rows of a zone.
    pub zone_rows: usize,
    pub columns: Vec<ColumnEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<AttributeEntry>,
}

/// The metadata of a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ColumnEntry {
    pub column: usize,
    /// The generation of the dictionary whose codes they refer to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    #[serde(flatten)]
    pub blob: Blob,
}

/// The metadata of an attribute of another table, which a column of this one references by a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttributeEntry {
    pub column: usize,
    /// The other table.
    pub table: String,
    /// The version of the other table.
    pub version: u64,
    /// Fingerprint of the rows of the key and the attribute.
    #[serde(with = "hex64")]
    pub fingerprint: u64,
    pub key: String,
    pub attribute: String,
    #[serde(flatten)]
    pub blob: Blob,
}

/// A data file of the table's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    pub name: String,
    pub bytes: u64,
}

/// A checksummed range of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Blob {
    /// Index into [`Manifest::files`].
    pub file: usize,
    /// First byte; a multiple of 64.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// xxh3-64 of the bytes, in hexadecimal in the document.
    #[serde(with = "hex64")]
    pub xxh3: u64,
}

/// The dictionary of a column and the translations of earlier dictionaries' codes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DictionaryEntry {
    /// Grows by one with each dictionary of the column.
    pub generation: u32,
    /// The strings.
    #[serde(flatten)]
    pub blob: Blob,
    /// One for each earlier generation that segments still use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaps: Vec<RemapEntry>,
}

/// Little-endian `u32`s: code of this dictionary by code of generation `from`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemapEntry {
    pub from: u32,
    #[serde(flatten)]
    pub blob: Blob,
}

/// One row range, all columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RowSegmentEntry {
    pub rows: usize,
    pub columns: Vec<ChunkEntry>,
    /// Rows among them that are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletions: Option<DeletionsEntry>,
}

/// The deleted rows of a row segment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DeletionsEntry {
    /// Their number.
    pub count: usize,
    /// A Boolean column: whether each row is kept.
    pub kept: ChunkEntry,
}

/// One column of one row segment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChunkEntry {
    #[serde(flatten)]
    pub blob: Blob,
    pub encoding: Encoding,
    /// The generation of the dictionary of the stored codes; missing for other columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// The codec of the blob; missing if the blob is the segment itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codec: Option<CodecEntry>,
    /// The same rows in compressed form, in addition to an uncompressed blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heavy: Option<HeavyEntry>,
    #[serde(flatten)]
    pub stats: StatsEntry,
    /// The children of nested values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartEntry>,
}

/// The compressed form of a chunk with both forms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeavyEntry {
    #[serde(flatten)]
    pub blob: Blob,
    /// Encoding of the compressed segment: may differ from the light one's.
    pub encoding: Encoding,
    pub codec: CodecEntry,
}

/// The codec of a chunk, repeated from its blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CodecEntry {
    pub name: Codec,
    /// Uncompressed bytes of a block.
    pub block: usize,
    /// Bytes of the segment.
    pub bytes: u64,
}

/// Statistics; bounds are texts, because JSON numbers cannot represent 128-bit integers and infinities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StatsEntry {
    pub nulls: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<BoundEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<BoundEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distinct: Option<u64>,
    pub plain_bytes: u64,
}

/// A bound of a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BoundEntry {
    /// Decimal digits.
    Int(String),
    /// The 16 hexadecimal digits of the IEEE 754 bits.
    Float(String),
    /// The string, or a bound of it.
    Str(String),
}

impl BoundEntry {
    fn of(value: &StatValue) -> Self {
        match value {
            StatValue::Int(v) => Self::Int(v.to_string()),
            StatValue::Float(v) => Self::Float(format!("{:016x}", v.to_bits())),
            StatValue::Str(v) => Self::Str(v.clone()),
        }
    }

    fn value(&self) -> Option<StatValue> {
        Some(match self {
            Self::Int(v) => StatValue::Int(v.parse().ok()?),
            Self::Float(v) => StatValue::Float(f64::from_bits(u64::from_str_radix(v, 16).ok()?)),
            Self::Str(v) => StatValue::Str(v.clone()),
        })
    }
}

impl StatsEntry {
    pub fn of(stats: &ColumnStats) -> Self {
        Self {
            nulls: stats.nulls,
            min: stats.min.as_ref().map(BoundEntry::of),
            max: stats.max.as_ref().map(BoundEntry::of),
            distinct: stats.distinct,
            plain_bytes: stats.plain_bytes,
        }
    }

    /// The statistics of a chunk of `rows` rows in `stored_bytes` bytes; `None` for an invalid bound.
    pub fn stats(&self, rows: usize, stored_bytes: u64) -> Option<ColumnStats> {
        let bound = |entry: &Option<BoundEntry>| match entry {
            None => Some(None),
            Some(entry) => entry.value().map(Some),
        };
        Some(ColumnStats {
            rows: rows as u64,
            nulls: self.nulls,
            min: bound(&self.min)?,
            max: bound(&self.max)?,
            distinct: self.distinct,
            plain_bytes: self.plain_bytes,
            stored_bytes,
        })
    }
}

impl DictionaryEntry {
    /// The ranges of data files that it names.
    pub fn blobs(&mut self) -> impl Iterator<Item = &mut Blob> {
        std::iter::once(&mut self.blob).chain(self.remaps.iter_mut().map(|remap| &mut remap.blob))
    }
}

impl RowSegmentEntry {
    /// All that is stored of it.
    pub fn chunks(&mut self) -> impl Iterator<Item = &mut ChunkEntry> {
        self.columns.iter_mut().chain(self.deletions.iter_mut().map(|deletions| &mut deletions.kept))
    }
}

impl ChunkEntry {
    /// The ranges of data files that it names.
    pub fn blobs(&mut self) -> impl Iterator<Item = &mut Blob> {
        std::iter::once(&mut self.blob).chain(self.heavy.as_mut().map(|heavy| &mut heavy.blob))
    }

    /// The statistics of this chunk; `None` when they are malformed.
    pub fn column_stats(&self, rows: usize) -> Option<ColumnStats> {
        self.stats.stats(rows, self.blob.bytes)
    }
}

impl Manifest {
    /// The ranges of data files that chunks and dictionaries name.
    pub fn blobs(&mut self) -> impl Iterator<Item = &mut Blob> {
        let chunks = self.segments.iter_mut().flat_map(RowSegmentEntry::chunks);
        let dictionaries = self.dictionaries.iter_mut().flatten().flat_map(|dictionary| dictionary.blobs());
        chunks.flat_map(|chunk| chunk.blobs()).chain(dictionaries)
    }

    /// The oldest format version that has everything that is used.
    fn format_version(&self) -> u32 {
        if self.log && !self.is_old_log || self.segments.iter().any(|segment| segment.deletions.is_some()) {
            return DELETIONS_VERSION;
        }
        if self.log || self.names_logs() {
            return LOG_VERSION;
        }
        if self.constraints.iter().any(Constraint::is_reference) {
            return REFERENCES_VERSION;
        }
        if !self.constraints.is_empty() {
            return CONSTRAINTS_VERSION;
        }
        let any = |test: fn(&ChunkEntry) -> bool| self.segments.iter().flat_map(|s| &s.columns).any(test);
        if any(|chunk| chunk.encoding == Encoding::Nested) {
            return NESTED_VERSION;
        }
        if any(|chunk| {
            chunk.encoding == Encoding::Symbols
                || chunk.heavy.as_ref().is_some_and(|heavy| heavy.encoding == Encoding::Symbols)
        }) {
            return SYMBOLS_VERSION;
        }
        let codecs = !self.codecs.is_empty() || any(|chunk| chunk.codec.is_some() || chunk.heavy.is_some());
        if codecs { CODEC_VERSION } else { FORMAT_VERSION }
    }

    /// Whether rows are in logs of earlier versions.
    fn names_logs(&self) -> bool {
        self.files.iter().any(|file| file.name.ends_with(LOG_EXTENSION))
    }

    /// The bytes of the manifest file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let body = serde_json::to_vec(self).expect("a manifest is plain data with string keys");
        let mut bytes = format!("{TITLE} {} {:016x}\n", self.format_version(), xxh3_64(&body)).into_bytes();
        bytes.extend_from_slice(&body);
        bytes.push(b'\n');
        bytes
    }

    /// Parses and checks the bytes of manifest file `path`.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self> {
        let corrupt = |detail: String| FormatError::corrupt(path, detail);
        let end =
            bytes.iter().position(|&b| b == b'\n').ok_or_else(|| corrupt("no manifest (no first line)".into()))?;
        let title = std::str::from_utf8(&bytes[..end]).map_err(|_| corrupt("no manifest (first line)".into()))?;
        let words: Vec<&str> = title.split(' ').collect();
        let [TITLE, format, checksum] = words[..] else {
            return Err(corrupt(format!("no manifest (first line {title:?})")));
        };
        let format = match format.parse::<u32>() {
            Ok(known @ FORMAT_VERSION..=DELETIONS_VERSION) => known,
            Ok(newer) => {
                return Err(corrupt(format!("format version {newer}, this build reads {DELETIONS_VERSION}")));
            }
            Err(_) => return Err(corrupt(format!("format version {format:?} is no number"))),
        };
        let body = bytes[end + 1..].strip_suffix(b"\n").ok_or_else(|| corrupt("truncated".into()))?;
        if u64::from_str_radix(checksum, 16).ok() != Some(xxh3_64(body)) {
            return Err(corrupt("checksum mismatch".into()));
        }
        let mut manifest: Self = serde_json::from_slice(body).map_err(|e| corrupt(format!("malformed: {e}")))?;
        if format < CONSTRAINTS_VERSION && !manifest.constraints.is_empty() {
            return Err(corrupt(format!("constraints in a manifest of format version {format}")));
        }
        if format < REFERENCES_VERSION && manifest.constraints.iter().any(Constraint::is_reference) {
            return Err(corrupt(format!("foreign keys in a manifest of format version {format}")));
        }
        if format < LOG_VERSION && (manifest.log || manifest.names_logs()) {
            return Err(corrupt(format!("a log in a manifest of format version {format}")));
        }
        if format < DELETIONS_VERSION && manifest.segments.iter().any(|segment| segment.deletions.is_some()) {
            return Err(corrupt(format!("deleted rows in a manifest of format version {format}")));
        }
        manifest.is_old_log = manifest.log && format < DELETIONS_VERSION;
        let schema = manifest.schema(path)?;
        manifest.check(&schema).map_err(corrupt)?;
        Ok(manifest)
    }

    /// The table's schema.
    pub fn schema(&self, path: &Path) -> Result<SchemaRef> {
        let corrupt = |detail: &str| FormatError::corrupt(path, format!("schema: {detail}"));
        let bytes = from_hex(&self.schema).ok_or_else(|| corrupt("not hexadecimal"))?;
        let message = arrow::ipc::root_as_message(&bytes).map_err(|e| corrupt(&e.to_string()))?;
        let schema = message.header_as_schema().ok_or_else(|| corrupt("no schema message"))?;
        // Verified bytes may still violate Arrow's assumptions.
        let schema = caught(|| fb_to_schema(schema)).map_err(|e| corrupt(&e))?;
        if schema.fields().len() != self.dictionaries.len() {
            return Err(corrupt("its fields are not the manifest's columns"));
        }
        let stored = stored_schema(&schema).map_err(|e| corrupt(&e.to_string()))?;
        let types = || schema.fields().iter().zip(stored.fields());
        if let Some((field, _)) = types().find(|(field, stored)| field.data_type() != stored.data_type()) {
            return Err(corrupt(&format!("column {:?} of type {}", field.name(), field.data_type())));
        }
        Ok(schema.into())
    }
}

/// A schema as the manifest stores it.
pub(crate) fn schema_to_hex(schema: &Schema) -> String {
    let generator = arrow::ipc::writer::IpcDataGenerator::default();
    let mut tracker = arrow::ipc::writer::DictionaryTracker::new(false);
    let data = generator.schema_to_bytes_with_dictionary_tracker(schema, &mut tracker, &IpcWriteOptions::default());
    data.ipc_message.iter().map(|b| format!("{b:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).ok()).collect()
}

mod hex64 {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{value:016x}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}
