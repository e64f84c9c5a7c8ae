//! Checks a manifest: all numbers and names must be within their limits before they are used.
//!
//! A checksum detects accidents, not manipulation. These checks cover everything on which the rest of the crate relies.

use std::cmp::Ordering;

use arrow::datatypes::{DataType, Schema};

use super::constraints;
use super::data_file::{HEADER_BYTES, LOG_EXTENSION};
use super::manifest::{Blob, ChunkEntry, CodecEntry, DeletionsEntry, DictionaryEntry, Manifest, PruningEntry};
use super::parts::PartEntry;
use crate::codec::{CompressedChunk, MAX_BLOCK_BYTES, MAX_CHUNK_BYTES};
use crate::segment::{PartTypes, SEGMENT_ALIGN, integer_width, part_types};
use crate::{Codec, ColumnStats, SEGMENT_ROWS, StatValue, VECTOR_ROWS};

/// Versions have 16 digits.
pub(super) const VERSION_DIGITS: usize = 16;

/// Limit of generations of a dictionary: at most one per commit.
const MAX_GENERATION: u32 = 1 << 31;

/// Largest uncompressed size of a chunk's values: 2^20 strings, each as large as a dictionary's 4 GiB.
const MAX_PLAIN_BYTES: u64 = 1 << 53;

type Checked = Result<(), String>;

impl Manifest {
    /// Checks that every reference inside the manifest is within bounds, and every number within its limits.
    pub(super) fn check(&self, schema: &Schema) -> Checked {
        constraints::check(&self.constraints, schema)?;
        for file in &self.files {
            if !is_data_file(&file.name) && !is_log(&file.name) || file.bytes < HEADER_BYTES as u64 {
                return Err(format!("{:?} of {} bytes is no data file", file.name, file.bytes));
            }
        }
        for (column, dictionary) in self.dictionaries.iter().enumerate() {
            if let Some(dictionary) = dictionary {
                self.check_dictionary(dictionary, column, schema)?;
            }
        }
        if !self.codecs.is_empty() && self.codecs.len() != self.dictionaries.len() {
            return Err(format!("codecs of {} columns", self.codecs.len()));
        }
        for (column, choice) in self.codecs.iter().enumerate() {
            if let Some(Err(error)) = choice.as_ref().map(|choice| choice.check()) {
                return Err(format!("the codec of column {column}: {error}"));
            }
        }
        for (s, segment) in self.segments.iter().enumerate() {
            if segment.columns.len() != self.dictionaries.len() {
                return Err(format!("segment {s} has {} columns", segment.columns.len()));
            }
            if !(1..=SEGMENT_ROWS).contains(&segment.rows) {
                return Err(format!("segment {s} has {} rows: segments have 1 to {SEGMENT_ROWS}", segment.rows));
            }
            for (c, chunk) in segment.columns.iter().enumerate() {
                let what = || format!("column {c}, segment {s}");
                self.check_chunk(chunk, c, &what)?;
                let field = schema.field(c);
                let stats = chunk.column_stats(segment.rows);
                // Of a column that has become NOT NULL, rows that were deleted before may be NULL.
                let may_be_null = field.is_nullable() || segment.deletions.is_some();
                let malformed = stats.is_none_or(|stats| !are_possible(&stats, field.data_type(), may_be_null));
                if malformed || !parts_are_possible(&chunk.parts, segment.rows, field.data_type()) {
                    return Err(format!("the statistics of {} cannot be", what()));
                }
            }
            if let Some(deletions) = &segment.deletions {
                self.check_deletions(deletions, segment.rows)
                    .map_err(|detail| format!("the deletions of segment {s}: {detail}"))?;
            }
        }
        let mut free = 0;
        self.pruning.iter().try_for_each(|entry| self.check_pruning(entry, &mut free))
    }

    fn check_blob(&self, blob: &Blob, what: &str) -> Checked {
        let Some(file) = self.files.get(blob.file) else {
            return Err(format!("{what} lies in a file that is not listed"));
        };
        let end = blob.offset.checked_add(blob.bytes);
        let within = blob.offset >= HEADER_BYTES as u64 && end.is_some_and(|end| end <= file.bytes);
        match within && blob.offset.is_multiple_of(SEGMENT_ALIGN as u64) {
            true => Ok(()),
            false => Err(format!("{what} lies outside {}, or not at a multiple of {SEGMENT_ALIGN}", file.name)),
        }
    }

    fn check_dictionary(&self, dictionary: &DictionaryEntry, column: usize, schema: &Schema) -> Checked {
        self.check_blob(&dictionary.blob, &format!("the dictionary of column {column}"))?;
        if *schema.field(column).data_type() != DataType::Utf8 {
            return Err(format!("a dictionary of column {column}, which has no strings"));
        }
        let generations = || dictionary.remaps.iter().map(|remap| remap.from).chain([dictionary.generation]);
        let known = |&g: &u32| generations().filter(|other| *other == g).count() == 1;
        if dictionary.generation > MAX_GENERATION || !generations().all(|g| known(&g)) {
            return Err(format!("generations of the dictionary of column {column}"));
        }
        let remap = |remap: &super::manifest::RemapEntry| {
            self.check_blob(&remap.blob, &format!("a remap of column {column}"))?;
            match remap.from < dictionary.generation && remap.blob.bytes.is_multiple_of(4) {
                true => Ok(()),
                false => Err(format!("a remap of column {column} from generation {}", remap.from)),
            }
        };
        dictionary.remaps.iter().try_for_each(remap)
    }

    fn check_chunk(&self, chunk: &ChunkEntry, c: usize, what: &dyn Fn() -> String) -> Checked {
        self.check_blob(&chunk.blob, &what())?;
        if let Some(codec) = &chunk.codec {
            check_codec(codec, &chunk.blob, what)?;
        }
        if let Some(heavy) = &chunk.heavy {
            self.check_blob(&heavy.blob, &format!("the compressed form of {}", what()))?;
            check_codec(&heavy.codec, &heavy.blob, what)?;
            if chunk.codec.is_some() {
                return Err(format!("{} has two compressed forms", what()));
            }
        }
        let known = match (chunk.generation, &self.dictionaries[c]) {
            (None, None) => true,
            (Some(g), Some(d)) => g == d.generation || d.remaps.iter().any(|r| r.from == g),
            _ => false,
        };
        if known { Ok(()) } else { Err(format!("{} has codes of a dictionary that is not listed", what())) }
    }

    fn check_deletions(&self, deletions: &DeletionsEntry, rows: usize) -> Checked {
        let DeletionsEntry { count, kept } = deletions;
        if !(1..rows).contains(count) {
            return Err(format!("{count} of {rows} rows"));
        }
        self.check_blob(&kept.blob, "they")?;
        let stats = kept.column_stats(rows).filter(|stats| are_possible(stats, &DataType::Boolean, false));
        let is_plain = kept.codec.is_none() && kept.heavy.is_none() && kept.generation.is_none();
        match stats.is_some() && is_plain && kept.parts.is_empty() {
            true => Ok(()),
            false => Err("no plain Boolean column".to_owned()),
        }
    }

    fn check_pruning(&self, entry: &PruningEntry, free: &mut usize) -> Checked {
        let end = entry.first.checked_add(entry.segments).filter(|&end| end <= self.segments.len());
        let Some(end) = end.filter(|_| entry.first >= *free) else {
            return Err("pruning metadata of row segments that are not there".to_owned());
        };
        *free = end;
        let zone_rows = entry.zone_rows;
        if zone_rows == 0 || !zone_rows.is_multiple_of(VECTOR_ROWS) || u32::try_from(zone_rows).is_err() {
            return Err(format!("pruning metadata of zones of {zone_rows} rows"));
        }
        for column in &entry.columns {
            self.check_blob(&column.blob, &format!("the pruning metadata of column {}", column.column))?;
            let known = self.dictionaries.get(column.column).map(Option::is_some) == Some(column.generation.is_some());
            if !known {
                return Err(format!("pruning metadata of column {}, which is not so", column.column));
            }
        }
        for attribute in &entry.attributes {
            let name = format!("{}.{}", attribute.table, attribute.attribute);
            self.check_blob(&attribute.blob, &format!("the pruning metadata of {name}"))?;
            if attribute.column >= self.dictionaries.len() {
                return Err(format!("pruning metadata of {name} by column {}", attribute.column));
            }
        }
        Ok(())
    }
}

/// Whether `name` is a data file's: digits only, so that it refers to nothing outside of the table's directory.
fn is_data_file(name: &str) -> bool {
    let digits = |text: &str, least: usize| (least..=9 + least).contains(&text.len()) && is_number(text);
    let parts = name.strip_suffix(".data").and_then(|name| name.split_once('-'));
    parts.is_some_and(|(version, number)| version.len() == VERSION_DIGITS && is_number(version) && digits(number, 4))
}

/// Whether `name` is a log's.
fn is_log(name: &str) -> bool {
    name.strip_suffix(LOG_EXTENSION).is_some_and(|version| version.len() == VERSION_DIGITS && is_number(version))
}

/// Whether `text` has decimal digits only.
pub(super) fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Checks a chunk's codec: its stored form has an entry per block.
fn check_codec(codec: &CodecEntry, blob: &Blob, what: &dyn Fn() -> String) -> Checked {
    if codec.block == 0 || codec.block > MAX_BLOCK_BYTES || codec.bytes == 0 || codec.bytes > MAX_CHUNK_BYTES {
        return Err(format!("{} has blocks of {} bytes of a segment of {}", what(), codec.block, codec.bytes));
    }
    if codec.name == Codec::None {
        return Err(format!("{} is compressed with no codec", what()));
    }
    let blocks = codec.bytes.div_ceil(codec.block as u64);
    match CompressedChunk::least_bytes(blocks) <= blob.bytes {
        true => Ok(()),
        false => Err(format!("{} has {blocks} blocks in {} bytes", what(), blob.bytes)),
    }
}

/// Whether `rows` values of type `data_type` can have these children: all of them, or none.
fn parts_are_possible(entries: &[PartEntry], rows: usize, data_type: &DataType) -> bool {
    let Some(PartTypes { own, elements }) = part_types(data_type, rows) else { return entries.is_empty() };
    let is_possible = |entry: &PartEntry, data_type: &DataType| {
        let stats = entry.column_stats();
        stats.is_some_and(|stats| are_possible(&stats, data_type, true))
            && parts_are_possible(&entry.parts, entry.rows, data_type)
    };
    let Some((first, rest)) = entries.split_at_checked(own.len()) else { return entries.is_empty() };
    let own =
        own.iter().zip(first).all(|((data_type, rows), entry)| entry.rows == *rows && is_possible(entry, data_type));
    let are_elements =
        |data_type| rest.iter().all(|entry| (1..=SEGMENT_ROWS).contains(&entry.rows) && is_possible(entry, data_type));
    own && elements.map_or(rest.is_empty(), are_elements)
}

/// Whether values of type `data_type` can have these statistics.
fn are_possible(stats: &ColumnStats, data_type: &DataType, nullable: bool) -> bool {
    let in_type = |bound: &StatValue| match (bound, integer_width(data_type)) {
        (StatValue::Int(value), Some((bytes, signed))) => {
            let bits = 8 * bytes as u32;
            let (least, greatest) = match signed {
                _ if bits == 128 => (i128::MIN, i128::MAX),
                true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
                false => (0, (1 << bits) - 1),
            };
            let greatest = if *data_type == DataType::Boolean { 1 } else { greatest };
            (least..=greatest).contains(value)
        }
        (StatValue::Float(value), _) => matches!(data_type, DataType::Float32 | DataType::Float64) && !value.is_nan(),
        (StatValue::Str(_), _) => *data_type == DataType::Utf8,
        (StatValue::Int(_), None) => false,
    };
    let ordered = match (&stats.min, &stats.max) {
        (Some(min), Some(max)) => matches!(min.partial_cmp(max), Some(Ordering::Less | Ordering::Equal)),
        _ => true,
    };
    let bounds = stats.min.iter().chain(&stats.max);
    stats.nulls <= stats.rows
        && (nullable || stats.nulls == 0)
        && stats.plain_bytes <= MAX_PLAIN_BYTES
        && ordered
        && bounds.into_iter().all(in_type)
}
