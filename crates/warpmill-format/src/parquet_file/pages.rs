//! The pages of a column chunk.

use std::ops::Range;

use parquet::basic::{Compression, Encoding};

use super::ParquetFile;
use super::file::Reader;
use super::index::Locations;
use super::thrift::{HeaderError, PageHeader, PageKind, page_header};
use crate::Result;

/// Number of bytes read for a page header at first, and at most: with statistics it may be longer.
const FIRST_READ: usize = 512;
const MOST_READ: usize = 1 << 20;

/// A page of a column chunk.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pub header: PageHeader,
    /// Offset in the file of its bytes after the header.
    pub offset: u64,
    /// The row of the row group that its first value is; 0 for dictionaries.
    pub first_row: u64,
}

/// The codec of a page's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageCodec {
    /// Not compressed.
    None,
    /// Snappy.
    Snappy,
    /// LZ4 blocks (`LZ4_RAW`).
    Lz4,
    /// Zstandard.
    Zstd,
    /// Gzip.
    Gzip,
}

impl PageCodec {
    /// The codec of a column chunk; [`PageCodec::None`] also for those that only DataFusion supports.
    pub(super) fn of(compression: Compression) -> Self {
        match compression {
            Compression::SNAPPY => PageCodec::Snappy,
            Compression::LZ4_RAW => PageCodec::Lz4,
            Compression::ZSTD(_) => PageCodec::Zstd,
            Compression::GZIP(_) => PageCodec::Gzip,
            _ => PageCodec::None,
        }
    }
}

/// The pages of a column chunk.
#[derive(Debug)]
pub(super) struct PageMap {
    pub dictionary: Option<Page>,
    /// Data pages in row order; they contain all rows of the row group.
    pub data: Vec<Page>,
    pub codec: PageCodec,
    /// The reason why a device does not decode the chunk.
    pub host: Option<String>,
}

/// Encodings, by number in the specification.
pub(super) const PLAIN: i32 = 0;
pub(super) const PLAIN_DICTIONARY: i32 = 2;
pub(super) const RLE: i32 = 3;
pub(super) const DELTA_BINARY_PACKED: i32 = 5;
pub(super) const DELTA_LENGTH_BYTE_ARRAY: i32 = 6;
pub(super) const DELTA_BYTE_ARRAY: i32 = 7;
pub(super) const RLE_DICTIONARY: i32 = 8;
pub(super) const BYTE_STREAM_SPLIT: i32 = 9;

/// The encodings that a device decodes without a dictionary.
const ON_DEVICE: [i32; 6] =
    [PLAIN, RLE, DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY, BYTE_STREAM_SPLIT];

impl PageMap {
    /// Reads the page headers of a column chunk.
    pub fn read(file: &ParquetFile, group: usize, column: usize) -> Result<Self> {
        let place = || file.place(group, column);
        let corrupt = |detail: String| file.corrupt(place(), detail);
        let rows = file.metadata().row_group(group).num_rows();
        let rows = u64::try_from(rows).map_err(|_| corrupt(format!("{rows} rows")))?;
        let mut map = Self::empty(file, group, column);
        let range = file.chunk_range(group, column)?;
        let (start, end) = (range.start, range.end);
        let mut checks = file.checked().pages(group, column, &range);
        let reader = file.reader((group, column), &[range], &place)?;
        let (mut at, mut found) = (start, 0);
        while found < rows {
            let (header, length) = header(&reader, (at, end))?;
            let offset = at + length as u64;
            at = offset + u64::from(header.compressed);
            if at > end {
                return Err(corrupt(format!("a page of {} bytes ends behind its column chunk", header.compressed)));
            }
            checks.note(&header).map_err(corrupt)?;
            let page = Page { header, offset, first_row: found };
            match page.header.kind {
                PageKind::Index => {}
                PageKind::Dictionary if map.dictionary.is_some() || !map.data.is_empty() => {
                    return Err(corrupt("a second dictionary".into()));
                }
                PageKind::Dictionary => {
                    map.note(&page.header);
                    map.dictionary = Some(Page { first_row: 0, ..page });
                }
                PageKind::Data | PageKind::DataV2 => {
                    map.note(&page.header);
                    found += u64::from(page.header.values);
                    map.data.push(page);
                }
            }
        }
        checks.finish().map_err(corrupt)?;
        Ok(map)
    }

    /// Reads the headers of the pages of a column chunk that contain some of `rows`, and of its dictionary, at the positions `locations`.
    pub fn of_rows(
        file: &ParquetFile,
        (group, column): (usize, usize),
        locations: &Locations,
        rows: &Range<u64>,
    ) -> Result<Self> {
        let place = || file.place(group, column);
        let corrupt = |detail: &str| file.corrupt(place(), detail);
        let mut map = Self::empty(file, group, column);
        let reader = file.reader((group, column), &locations.bytes_of(rows), &place)?;
        let mut checks = file.checked().pages(group, column, rows);
        let dictionary = locations.dictionary.clone();
        if !dictionary.is_empty() {
            let (header, length) = header(&reader, (dictionary.start, dictionary.end))?;
            let offset = dictionary.start + length as u64;
            let fits = offset + u64::from(header.compressed) <= dictionary.end;
            if header.kind != PageKind::Dictionary || !fits {
                return Err(corrupt("what is in front of its first page is no dictionary"));
            }
            checks.note(&header).map_err(|detail| corrupt(&detail))?;
            map.note(&header);
            map.dictionary = Some(Page { header, offset, first_row: 0 });
        }
        for number in locations.overlapping(rows) {
            let (location, of_page) = (locations.page(number), locations.rows_of(number));
            let (header, length) = header(&reader, (location.offset, location.offset + location.bytes))?;
            let fits = location.bytes == length as u64 + u64::from(header.compressed)
                && matches!(header.kind, PageKind::Data | PageKind::DataV2)
                && u64::from(header.values) == of_page.end - of_page.start;
            if !fits {
                return Err(corrupt("a page is not what the offset index says of it"));
            }
            checks.note(&header).map_err(|detail| corrupt(&detail))?;
            map.note(&header);
            map.data.push(Page { header, offset: location.offset + length as u64, first_row: of_page.start });
        }
        Ok(map)
    }

    /// An empty page map with the footer's claims about a column chunk.
    pub fn empty(file: &ParquetFile, group: usize, column: usize) -> Self {
        let compression = file.metadata().row_group(group).column(column).compression();
        let codec = PageCodec::of(compression);
        let unknown = codec == PageCodec::None && compression != Compression::UNCOMPRESSED;
        let host = unknown.then(|| format!("codec {compression:?}"));
        Self { dictionary: None, data: vec![], codec, host }
    }

    /// Records features of a page that devices do not decode.
    fn note(&mut self, header: &PageHeader) {
        let dictionary = matches!(header.encoding, PLAIN_DICTIONARY | RLE_DICTIONARY);
        let encoded = match header.kind {
            PageKind::Dictionary => dictionary || header.encoding == PLAIN,
            _ if dictionary => self.dictionary.is_some(),
            _ => ON_DEVICE.contains(&header.encoding),
        };
        if !encoded {
            self.host.get_or_insert_with(|| format!("encoding {}", encoding_name(header.encoding)));
        }
        if header.level_encoding != RLE && header.kind == PageKind::Data {
            self.host.get_or_insert_with(|| "levels that are bit-packed as of old".into());
        }
        if header.level_bytes[1] > 0 {
            self.host.get_or_insert_with(|| "repetition levels".into());
        }
    }
}

/// The number of values in the dictionary of a column chunk; `None` if it has none, or if pages without it follow.
pub(super) fn dictionary_header(file: &ParquetFile, group: usize, column: usize) -> Option<u64> {
    let chunk = file.metadata().row_group(group).column(column);
    let begin = u64::try_from(chunk.dictionary_page_offset()?).ok()?;
    // A writer gives up a dictionary for values that hardly repeat.
    let is_only = |encoding| chunk.page_encoding_stats_mask().is_none_or(|mask| mask.is_only(encoding));
    if !is_only(Encoding::RLE_DICTIONARY) && !is_only(Encoding::PLAIN_DICTIONARY) {
        return None;
    }
    let range = file.chunk_range(group, column).ok().filter(|range| range.contains(&begin))?;
    let place = || file.place(group, column);
    let reader = file.reader((group, column), std::slice::from_ref(&(begin..range.end)), &place).ok()?;
    let (found, _) = header(&reader, (begin, range.end)).ok()?;
    (found.kind == PageKind::Dictionary).then_some(u64::from(found.values))
}

fn encoding_name(encoding: i32) -> String {
    match encoding {
        PLAIN_DICTIONARY | RLE_DICTIONARY => "RLE_DICTIONARY without a dictionary".into(),
        4 => "BIT_PACKED".into(),
        other => other.to_string(),
    }
}

/// Reads the page header between `at` and `end`, with its length.
fn header(reader: &Reader<'_>, (at, end): (u64, u64)) -> Result<(PageHeader, usize)> {
    let mut room = FIRST_READ;
    loop {
        let bytes = (end - at).min(room as u64) as usize;
        let mut read = vec![0; bytes];
        reader.read(at, &mut read)?;
        match page_header(&read) {
            Ok(found) => return Ok(found),
            Err(HeaderError::Short) if bytes == room && room < MOST_READ => room = (room * 8).min(MOST_READ),
            Err(HeaderError::Short) => return Err(reader.corrupt("a page header ends behind its column chunk")),
            Err(HeaderError::Damaged(detail)) => return Err(reader.corrupt(format!("a page header has {detail}"))),
        }
    }
}
