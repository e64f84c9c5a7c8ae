//! Checks of a Parquet file's footer: its claims are compared with the file's size and with each other before they are used for reading.
//!
//! A footer or page header has no checksum, but much of it is redundant: numbers of rows in the file, its row groups, columns, pages and page
//! indexes; positions and sizes in footers, page headers and indexes. Contradictions are damage.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::{Encoding, SortOrder, Type as Physical};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;

use super::file::{read_exact_at, whole};
use super::index::Locations;
use super::index_check::{check_index, stored};
use super::pages::{PLAIN, PLAIN_DICTIONARY, PageCodec, RLE, RLE_DICTIONARY};
use super::thrift::{HeaderError, PageHeader, PageKind, chunk_claims, offset_index, page_header};
use crate::{FormatError, Result};

/// Number of bytes before the first column chunk, and after the footer: magic numbers, and the footer's length.
const HEAD: u64 = 4;
const TAIL: u64 = 8;

/// The obsolete encoding of bit-packed levels.
const BIT_PACKED: i32 = 4;

/// A consistent footer, used to check everything that is read from its file.
#[derive(Debug)]
pub struct CheckedFooter {
    path: PathBuf,
    metadata: Arc<ParquetMetaData>,
    /// In the order of the file.
    chunks: Vec<Place>,
    /// Positions of pages, by row group and column, where the index has been read.
    locations: Mutex<HashMap<(usize, usize), Arc<Locations>>>,
}

/// The position of a column chunk.
#[derive(Debug, Clone)]
struct Place {
    bytes: Range<u64>,
    group: usize,
    column: usize,
}

/// Ok, or a description of the contradiction.
type Checked = std::result::Result<(), String>;

impl CheckedFooter {
    /// Checks the footer of a file of `bytes` bytes, named `path` in errors. Takes little time per column chunk.
    ///
    /// # Errors
    /// The contradictory claim, with row group and column.
    pub fn new(metadata: Arc<ParquetMetaData>, bytes: u64, path: &Path) -> Result<Self> {
        let mut checked = Self { path: path.to_owned(), metadata, chunks: vec![], locations: Mutex::default() };
        checked.check_rows()?;
        for group in 0..checked.metadata.num_row_groups() {
            for column in 0..checked.metadata.row_group(group).num_columns() {
                let place = checked.place(group, column, bytes)?;
                checked.chunks.push(place);
            }
        }
        checked.chunks.sort_by_key(|place| (place.bytes.start, place.bytes.end));
        let overlap = checked.chunks.windows(2).find(|pair| pair[0].bytes.end > pair[1].bytes.start);
        if let Some((group, column)) = overlap.map(|pair| (pair[1].group, pair[1].column)) {
            return Err(checked.corrupt(group, column, "it lies within another column chunk"));
        }
        checked.take_indexes()?;
        Ok(checked)
    }

    /// [`CheckedFooter::of_file`] of the file at `path`, without its page indexes.
    ///
    /// # Errors
    /// The errors of [`CheckedFooter::of_file`]; a file that is not a complete Parquet file.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(FormatError::io("cannot open", path))?;
        let metadata = whole(path, || ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()))?;
        Self::of_file(Arc::clone(metadata.metadata()), &file, path)
    }

    /// [`CheckedFooter::new`] for a local file, with checks of all redundant parts of the footer.
    ///
    /// # Errors
    /// As [`CheckedFooter::new`]; a file that cannot be read.
    pub fn of_file(metadata: Arc<ParquetMetaData>, file: &File, path: &Path) -> Result<Self> {
        let unreadable = || FormatError::io("cannot read", path);
        let bytes = file.metadata().map_err(unreadable())?.len();
        let checked = Self::new(metadata, bytes, path)?;
        let mut tail = [0; TAIL as usize];
        let end = bytes.checked_sub(TAIL).ok_or_else(|| FormatError::corrupt(path, "no Parquet file"))?;
        read_exact_at(file, &mut tail, end).map_err(unreadable())?;
        let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
        let start =
            end.checked_sub(length).ok_or_else(|| FormatError::corrupt(path, "its footer is longer than it"))?;
        let mut footer = vec![0; length as usize];
        read_exact_at(file, &mut footer, start).map_err(unreadable())?;
        checked.check_claims(&footer)?;
        Ok(checked)
    }

    /// Checks the redundant claims about column chunks.
    fn check_claims(&self, footer: &[u8]) -> Result<()> {
        // A text that is not a footer has been refused by its parser.
        let Ok(claims) = chunk_claims(footer) else { return Ok(()) };
        for (group, claims) in claims.iter().enumerate().take(self.metadata.num_row_groups()) {
            let columns = self.metadata.row_group(group).columns();
            for (column, (chunk, claims)) in columns.iter().zip(claims).enumerate() {
                let path = chunk.column_path().parts();
                if claims.physical != chunk.column_descr().physical_type() as i64 {
                    return Err(self.corrupt(group, column, "its type is not the schema's"));
                }
                if !claims.path.iter().map(Vec::as_slice).eq(path.iter().map(|part| part.as_bytes())) {
                    return Err(self.corrupt(group, column, "its name is not the schema's"));
                }
                let numbers = !matches!(chunk.column_type(), Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY);
                let [old, new] = &claims.bounds;
                let both = old.iter().zip(new).filter_map(|(old, new)| old.as_ref().zip(new.as_ref()));
                if numbers && both.into_iter().any(|(old, new)| old != new) {
                    return Err(self.corrupt(group, column, "statistics of old and of new contradict each other"));
                }
            }
        }
        Ok(())
    }

    /// The footer.
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        &self.metadata
    }

    fn corrupt(&self, group: usize, column: usize, detail: impl Into<String>) -> FormatError {
        let segment = Some(chunk_name(&self.metadata, group, column));
        FormatError::Corrupt { path: self.path.clone(), segment, detail: detail.into() }
    }

    /// Checks and keeps the page indexes that come with the footer.
    fn take_indexes(&self) -> Result<()> {
        for place in &self.chunks {
            let (group, column) = (place.group, place.column);
            let rows = self.metadata.row_group(group).num_rows().max(0) as u64;
            let offsets = self.metadata.offset_index().and_then(|all| all.get(group)?.get(column));
            let offsets = offsets.map(stored).filter(|index| !index.pages.is_empty());
            let corrupt = |detail: String| self.corrupt(group, column, detail);
            let locations = offsets.map(|index| {
                let located = Locations::of(&index, place.bytes.clone(), rows);
                located.map(Arc::new).ok_or_else(|| corrupt("its offset index does not fit its footer".into()))
            });
            let locations = locations.transpose()?;
            if let Some(index) = self.metadata.column_index().and_then(|all| all.get(group)?.get(column)) {
                let chunk = self.metadata.row_group(group).column(column);
                check_index(index, chunk, locations.as_deref()).map_err(corrupt)?;
            }
            if let Some(locations) = locations {
                self.locations.lock().insert((group, column), locations);
            }
        }
        Ok(())
    }

    fn check_rows(&self) -> Result<()> {
        let groups = self.metadata.row_groups().iter().map(|group| group.num_rows());
        let all = groups.clone().try_fold(0i64, |all, rows| all.checked_add(rows).filter(|_| rows >= 0));
        let said = self.metadata.file_metadata().num_rows();
        let leaves = self.metadata.file_metadata().schema_descr().num_columns();
        if all != Some(said) {
            let rows = groups.map(|rows| rows.to_string()).collect::<Vec<_>>().join(", ");
            let detail = format!("its footer says {said} rows, and row groups of {rows}");
            return Err(FormatError::corrupt(&self.path, detail));
        }
        match self.metadata.row_groups().iter().position(|group| group.num_columns() != leaves) {
            Some(group) => {
                let detail = format!("row group {group} has not the {leaves} columns of the schema");
                Err(FormatError::corrupt(&self.path, detail))
            }
            None => Ok(()),
        }
    }

    /// The position of a column chunk, after all claims about it have been checked.
    fn place(&self, group: usize, column: usize, bytes: u64) -> Result<Place> {
        let rows = self.metadata.row_group(group).num_rows();
        let chunk = self.metadata.row_group(group).column(column);
        let found = range_of(chunk, bytes).and_then(|range| {
            check_values(chunk, rows)?;
            check_statistics(chunk)?;
            Ok(range)
        });
        match found {
            Ok(bytes) => Ok(Place { bytes, group, column }),
            Err(detail) => Err(self.corrupt(group, column, detail)),
        }
    }

    /// Checks bytes read from the file: the pages in `bytes`, which are at `range` and belong to a column chunk, or the indexes in them.
    ///
    /// # Errors
    /// Bytes that contradict the footer or an index, with row group and column.
    pub fn check(&self, range: &Range<u64>, bytes: &[u8]) -> Result<()> {
        if bytes.len() as u64 != range.end.saturating_sub(range.start) {
            return Err(FormatError::corrupt(&self.path, format!("{} bytes instead of {range:?}", bytes.len())));
        }
        let behind = self.chunks.partition_point(|place| place.bytes.start <= range.start);
        match self.chunks[..behind].iter().rev().find(|place| place.bytes.contains(&range.start)) {
            Some(place) if range.end <= place.bytes.end => {
                let mut pages = self.pages(place.group, place.column, &place.bytes);
                pages.check(range, bytes).map_err(|detail| self.corrupt(place.group, place.column, detail))
            }
            Some(_) => Ok(()),
            None => self.note_indexes(range, bytes),
        }
    }

    /// Checks pages of a column chunk whose bytes are at `chunk`.
    pub(super) fn pages(&self, group: usize, column: usize, chunk: &Range<u64>) -> Pages<'_> {
        let (bytes, row_group) = (chunk.clone(), self.metadata.row_group(group));
        let locations = self.locations.lock().get(&(group, column)).cloned();
        let (chunk, rows) = (row_group.column(column), row_group.num_rows().max(0) as u64);
        let flat = chunk.column_descr().max_rep_level() == 0;
        Pages { bytes, chunk, rows, flat, locations, totals: Totals::default() }
    }

    /// Reads column chunks of row group `group` of the file, which is open as `file`, and checks their pages.
    ///
    /// # Errors
    /// As [`CheckedFooter::check`]; a file that cannot be read.
    pub fn check_chunks(&self, file: &File, group: usize, columns: &[usize]) -> Result<()> {
        for &column in columns {
            let chunk = self.metadata.row_group(group).column(column);
            let range = range_of(chunk, u64::MAX).map_err(|detail| self.corrupt(group, column, detail))?;
            let mut bytes = vec![0; (range.end - range.start) as usize];
            read_exact_at(file, &mut bytes, range.start).map_err(FormatError::io("cannot read", &self.path))?;
            self.check(&range, &bytes)?;
        }
        Ok(())
    }

    /// Stores the positions from offset indexes in `bytes`.
    fn note_indexes(&self, range: &Range<u64>, bytes: &[u8]) -> Result<()> {
        for place in &self.chunks {
            let group = self.metadata.row_group(place.group);
            let chunk = group.column(place.column);
            let Some(found) = index_range(chunk.offset_index_offset(), chunk.offset_index_length()) else { continue };
            if found.start < range.start || found.end > range.end || group.num_rows() == 0 {
                continue;
            }
            let own = &bytes[(found.start - range.start) as usize..(found.end - range.start) as usize];
            let locations = offset_index(own).ok();
            let rows = group.num_rows() as u64;
            let locations = locations.and_then(|index| Locations::of(&index, place.bytes.clone(), rows));
            let Some(locations) = locations else {
                return Err(self.corrupt(place.group, place.column, "its offset index does not fit its footer"));
            };
            self.locations.lock().insert((place.group, place.column), Arc::new(locations));
        }
        Ok(())
    }
}

/// The name of a column chunk in errors.
pub(super) fn chunk_name(metadata: &ParquetMetaData, group: usize, column: usize) -> String {
    let schema = metadata.file_metadata().schema_descr();
    let name = if column < schema.num_columns() { schema.column(column).path().string() } else { String::new() };
    format!("row group {group}, column {name:?}")
}

/// The byte range of an index in a footer.
fn index_range(offset: Option<i64>, length: Option<i32>) -> Option<Range<u64>> {
    let start = u64::try_from(offset?).ok()?;
    Some(start..start.checked_add(u64::try_from(length?).ok()?)?)
}

/// The byte range of a column chunk in a file of `bytes` bytes.
fn range_of(chunk: &ColumnChunkMetaData, bytes: u64) -> std::result::Result<Range<u64>, String> {
    let data = chunk.data_page_offset();
    let start = match chunk.dictionary_page_offset() {
        // Some writers store 0 for no dictionary.
        None | Some(0) => data,
        Some(dictionary) if dictionary < data || chunk.num_values() == 0 => dictionary,
        Some(dictionary) => return Err(format!("its dictionary is at byte {dictionary}, its first page at {data}")),
    };
    let outside = || format!("the footer places it outside of the file: {} bytes at {start}", chunk.compressed_size());
    let range = u64::try_from(start).ok().zip(u64::try_from(chunk.compressed_size()).ok());
    let range = range.and_then(|(start, length)| Some(start..start.checked_add(length)?));
    let most = bytes.saturating_sub(TAIL);
    let is_empty = chunk.compressed_size() == 0 && chunk.num_values() == 0;
    let range = range.filter(|range| is_empty || (range.start >= HEAD && range.end <= most)).ok_or_else(outside)?;
    for (what, offset, length) in [
        ("column index", chunk.column_index_offset(), chunk.column_index_length()),
        ("offset index", chunk.offset_index_offset(), chunk.offset_index_length()),
        ("Bloom filter", chunk.bloom_filter_offset(), chunk.bloom_filter_length().or(Some(0))),
    ] {
        let (Some(_), Some(_)) = (offset, length) else { continue };
        let found = index_range(offset, length);
        if found.is_none_or(|found| found.start < HEAD || found.end > most) {
            return Err(format!("the footer places its {what} outside of the file"));
        }
    }
    Ok(range)
}

/// Checks the number of values of a column chunk.
fn check_values(chunk: &ColumnChunkMetaData, rows: i64) -> Checked {
    let (values, repeated) = (chunk.num_values(), chunk.column_descr().max_rep_level() > 0);
    if values < rows || (!repeated && values != rows) {
        return Err(format!("{values} values of {rows} rows"));
    }
    Ok(())
}

/// Checks the statistics of a column chunk.
fn check_statistics(chunk: &ColumnChunkMetaData) -> Checked {
    let Some(found) = chunk.statistics() else { return Ok(()) };
    let values = u64::try_from(chunk.num_values()).unwrap_or(0);
    let nulls = found.null_count_opt().unwrap_or(0);
    let required = chunk.column_descr().max_def_level() == 0;
    if nulls > values || (required && nulls > 0) {
        return Err(format!("statistics of {nulls} NULLs among {values} values"));
    }
    if order(found, chunk.column_descr().sort_order()) == Some(Ordering::Greater) {
        return Err("statistics whose least value is above the greatest".into());
    }
    Ok(())
}

/// Compares the least with the greatest value of statistics; `None` if the order is unknown.
fn order(found: &Statistics, sorted: SortOrder) -> Option<Ordering> {
    /// Compares integers of the given type.
    macro_rules! integers {
        ($stats:expr, $unsigned:ty) => {{
            let (least, greatest) = ($stats.min_opt()?, $stats.max_opt()?);
            match sorted {
                SortOrder::SIGNED => Some(least.cmp(greatest)),
                SortOrder::UNSIGNED => Some((*least as $unsigned).cmp(&(*greatest as $unsigned))),
                SortOrder::UNDEFINED => None,
            }
        }};
    }
    if found.is_min_max_deprecated() && sorted != SortOrder::SIGNED {
        return None;
    }
    match found {
        Statistics::Int32(stats) => integers!(stats, u32),
        Statistics::Int64(stats) => integers!(stats, u64),
        Statistics::Boolean(stats) => Some(stats.min_opt()?.cmp(stats.max_opt()?)),
        Statistics::Float(stats) => stats.min_opt()?.partial_cmp(stats.max_opt()?),
        Statistics::Double(stats) => stats.min_opt()?.partial_cmp(stats.max_opt()?),
        Statistics::ByteArray(_) | Statistics::FixedLenByteArray(_) => {
            let (least, greatest) = (found.min_bytes_opt()?, found.max_bytes_opt()?);
            (sorted == SortOrder::UNSIGNED).then(|| least.cmp(greatest))
        }
        _ => None,
    }
}

/// Checker of the pages of a column chunk, in order.
pub(super) struct Pages<'a> {
    /// Byte range of the column chunk.
    bytes: Range<u64>,
    chunk: &'a ColumnChunkMetaData,
    rows: u64,
    /// Whether each row has one value.
    flat: bool,
    locations: Option<Arc<Locations>>,
    totals: Totals,
}

/// The properties that pages have in common.
#[derive(Default)]
struct Totals {
    pages: usize,
    values: u64,
    /// Number of rows in pages of version 2, which store it.
    rows: u64,
    nulls: u64,
    version_2: usize,
    with_crc: usize,
    dictionaries: usize,
}

impl Pages<'_> {
    /// Checks the pages in `bytes`, which are at `range`.
    fn check(&mut self, range: &Range<u64>, bytes: &[u8]) -> Checked {
        let mut at = 0;
        while at < bytes.len() {
            let (header, length) = page_header(&bytes[at..]).map_err(|error| match error {
                HeaderError::Short => "a page header ends behind its column chunk".into(),
                HeaderError::Damaged(detail) => format!("a page header has {detail}"),
            })?;
            let end = at as u64 + length as u64 + u64::from(header.compressed);
            if end > bytes.len() as u64 {
                return Err(format!("a page of {} bytes ends behind its column chunk", header.compressed));
            }
            self.note(&header)?;
            self.check_location(&header, range.start + at as u64, end - at as u64)?;
            at = end as usize;
        }
        if *range == self.bytes { self.finish() } else { self.check_crcs() }
    }

    /// Checks the next page.
    pub fn note(&mut self, header: &PageHeader) -> Checked {
        let mut totals = std::mem::take(&mut self.totals);
        let noted = self.check_page(header, &mut totals);
        self.totals = totals;
        noted
    }

    /// Checks the totals after all pages have been seen.
    pub fn finish(&self) -> Checked {
        self.check_crcs()?;
        self.check_totals(&self.totals)
    }

    fn check_crcs(&self) -> Checked {
        match self.totals.with_crc == 0 || self.totals.with_crc == self.totals.pages {
            true => Ok(()),
            false => Err("some of its pages have checksums, and some have none".into()),
        }
    }

    fn check_page(&self, header: &PageHeader, totals: &mut Totals) -> Checked {
        let codec = PageCodec::of(self.chunk.compression());
        let plain = self.chunk.compression() == parquet::basic::Compression::UNCOMPRESSED;
        let version_2 = header.kind == PageKind::DataV2;
        let levels = u64::from(header.level_bytes[0]) + u64::from(header.level_bytes[1]);
        let stored_plain = plain || (version_2 && !header.is_compressed);
        if stored_plain && header.compressed != header.uncompressed && header.kind != PageKind::Index {
            return Err("a page that is not compressed has two sizes".into());
        }
        if version_2 && levels > u64::from(header.compressed.min(header.uncompressed)) {
            return Err("levels are longer than their page".into());
        }
        if codec != PageCodec::None && header.compressed == 0 && u64::from(header.uncompressed) > levels {
            return Err("a page of no bytes".into());
        }
        match header.kind {
            PageKind::Index => return Ok(()),
            PageKind::Dictionary => {
                totals.dictionaries += 1;
                if totals.dictionaries > 1 || totals.pages > 0 {
                    return Err("a second dictionary, or one behind its pages".into());
                }
                if !matches!(header.encoding, PLAIN | PLAIN_DICTIONARY | RLE_DICTIONARY) {
                    return Err(format!("a dictionary of encoding {}", header.encoding));
                }
                return self.check_plain(header, u64::from(header.uncompressed));
            }
            PageKind::Data | PageKind::DataV2 => {}
        }
        if !self.chunk.encodings().any(|known| is_encoding(known, header.encoding)) {
            return Err(format!("a page of encoding {}, which its footer does not list", header.encoding));
        }
        let has_levels = self.chunk.column_descr().max_def_level() > 0;
        if header.kind == PageKind::Data && has_levels && !matches!(header.level_encoding, RLE | BIT_PACKED) {
            return Err(format!("levels of encoding {}", header.level_encoding));
        }
        if header.encoding == PLAIN && !has_levels && self.flat {
            self.check_plain(header, u64::from(header.uncompressed) - if version_2 { levels } else { 0 })?;
        }
        totals.pages += 1;
        totals.with_crc += usize::from(header.crc.is_some());
        totals.values += u64::from(header.values);
        if version_2 {
            if header.nulls > header.values
                || header.rows > header.values
                || (self.flat && header.rows != header.values)
            {
                return Err(format!("{} values of {} rows in a page", header.values, header.rows));
            }
            totals.version_2 += 1;
            totals.rows += u64::from(header.rows);
            totals.nulls += u64::from(header.nulls);
        }
        Ok(())
    }

    /// Checks that the bytes of a page fit its number of plain values.
    fn check_plain(&self, header: &PageHeader, bytes: u64) -> Checked {
        let values = u64::from(header.values);
        let width = match self.chunk.column_type() {
            Physical::INT32 | Physical::FLOAT => 4,
            Physical::INT64 | Physical::DOUBLE => 8,
            Physical::INT96 => 12,
            Physical::FIXED_LEN_BYTE_ARRAY => u64::try_from(self.chunk.column_descr().type_length()).unwrap_or(0),
            Physical::BOOLEAN if values.div_ceil(8) == bytes => return Ok(()),
            // After their lengths.
            Physical::BYTE_ARRAY if values * 4 <= bytes => return Ok(()),
            Physical::BOOLEAN | Physical::BYTE_ARRAY => return Err(format!("{values} values in {bytes} bytes")),
        };
        if values * width == bytes { Ok(()) } else { Err(format!("{values} values of {width} bytes in {bytes} bytes")) }
    }

    /// Checks a page's position and size against the offset index.
    fn check_location(&self, header: &PageHeader, offset: u64, bytes: u64) -> Checked {
        let Some(locations) = self.locations.as_deref() else { return Ok(()) };
        if !matches!(header.kind, PageKind::Data | PageKind::DataV2) {
            return Ok(());
        }
        let Some(page) = locations.at(offset) else {
            return Err("a page that the offset index does not have".into());
        };
        let rows = locations.rows_of(page);
        let fits =
            locations.page(page).bytes == bytes && (!self.flat || u64::from(header.values) == rows.end - rows.start);
        if fits { Ok(()) } else { Err("a page is not what the offset index says of it".into()) }
    }

    fn check_totals(&self, totals: &Totals) -> Checked {
        let values = self.chunk.num_values().max(0) as u64;
        if totals.values != values {
            return Err(format!("pages of {} values, its footer says {values}", totals.values));
        }
        if totals.version_2 == totals.pages && totals.pages > 0 {
            if totals.rows != self.rows {
                return Err(format!("pages of {} rows, its footer says {}", totals.rows, self.rows));
            }
            // Some writers do not count NULLs.
            let said = self.chunk.statistics().and_then(Statistics::null_count_opt).filter(|_| totals.nulls > 0);
            if self.flat && said.is_some_and(|said| said != totals.nulls) {
                return Err(format!("pages of {} NULLs, its statistics say {}", totals.nulls, said.unwrap_or(0)));
            }
        }
        match self.locations.as_deref().is_some_and(|locations| locations.len() != totals.pages) {
            true => Err("an offset index of other pages".into()),
            false => Ok(()),
        }
    }
}

/// Whether `encoding` is the number of `known`; dictionary encoding has two.
fn is_encoding(known: Encoding, encoding: i32) -> bool {
    let number = |known| match known {
        Encoding::PLAIN_DICTIONARY => RLE_DICTIONARY,
        other => other as i32,
    };
    let encoding = if encoding == PLAIN_DICTIONARY { RLE_DICTIONARY } else { encoding };
    number(known) == encoding
}

#[cfg(test)]
mod tests;
