//! A column of some rows of a row group: the data sent to a device, and the device's result.
//!
//! The data sent (the *image*) consist of a header, a descriptor per page, and the stored pages, except those that only the host decompresses. From
//! it the device computes (in its *work area*) values, a validity bit per row, decompressed pages, and structures for finding values in them. All
//! positions are offsets; `kernels/parquet.cuh` has the structures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::crc::crc32;
use super::file::Reader;
use super::pages::{
    BYTE_STREAM_SPLIT, DELTA_BINARY_PACKED, DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY, PLAIN, PLAIN_DICTIONARY, Page,
    PageCodec, PageMap, RLE, RLE_DICTIONARY,
};
use super::places::{HEADER, MAX_BATCH_PAGE, PAGE, Places, SLACK, TILE, chunk_layout, take_values};
use super::prefixes::made_bytes;
use super::table::ParquetColumn;
use super::thrift::PageKind;
use super::types::{Kind, StoredType};
use crate::codec::decompress_block;
use crate::{Codec, Result, SegmentLayout};

const HAS_DICTIONARY: u32 = 1;
const HAS_NULLS: u32 = 2;
const HAS_LEVELS: u32 = 4;

const VERSION_2: u32 = 1;
const IS_DICTIONARY: u32 = 2;

/// A column of a row segment of Parquet.
#[derive(Debug, Clone)]
pub enum ParquetChunk {
    /// The device decodes it.
    Device(Arc<ParquetSlice>),
    /// The host does: why.
    Host(String),
}

/// Codecs that a device decompresses; the host decompresses the others while copying. By default those that all devices support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageCodecs {
    /// Snappy and LZ4, which kernels of ours decompress.
    pub own: bool,
    /// Zstandard.
    pub zstd: bool,
    /// Gzip.
    pub gzip: bool,
}

/// A page that the device decompresses with a batch library instead of our kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPage {
    /// Offset and size of the compressed bytes in the image.
    pub stored: (u64, u64),
    /// Offset and size of the decompressed bytes in the work area.
    pub made: (u64, u64),
}

/// A column of up to 2^20 rows of a row group that a device decodes.
#[derive(Debug)]
pub struct ParquetSlice {
    column: ParquetColumn,
    codecs: PageCodecs,
    /// The codec of its compressed pages.
    codec: PageCodec,
    pages: Vec<Placed>,
    valid_at: Option<u64>,
    strings_at: u64,
    /// Offset and size of the area for prefix-encoded strings.
    room: (u64, u64),
    image: u64,
    work: u64,
    tiles: u32,
}

/// A page and its places.
#[derive(Debug)]
struct Placed {
    page: Page,
    codec: PageCodec,
    is_dictionary: bool,
    /// Offset and size in the image.
    stored_at: u64,
    stored: u64,
    /// In the work area.
    made_at: u64,
    masks_at: u64,
    ranks_at: u64,
    runs_at: u64,
    first_tile: u32,
}

impl Placed {
    /// Bytes of levels before the compressed bytes.
    fn levels(&self) -> u64 {
        if self.page.header.kind == PageKind::DataV2 { self.page.header.level_bytes[0].into() } else { 0 }
    }

    /// Decompressed bytes of the values (version 1: including levels).
    fn bytes(&self) -> u64 {
        u64::from(self.page.header.uncompressed) - self.levels()
    }

    /// The codec that the device, which has `codecs`, undoes.
    fn on_device(&self, codecs: PageCodecs) -> PageCodec {
        let large = matches!(self.codec, PageCodec::Zstd | PageCodec::Gzip) && self.bytes() > MAX_BATCH_PAGE;
        if codecs.has(self.codec) && !large { self.codec } else { PageCodec::None }
    }

    fn tiles(&self) -> u64 {
        if self.is_dictionary { 0 } else { u64::from(self.page.header.values).div_ceil(TILE) }
    }
}

impl Default for PageCodecs {
    fn default() -> Self {
        Self { own: true, ..Self::NONE }
    }
}

impl PageCodecs {
    /// The host undoes all.
    pub const NONE: Self = Self { own: false, zstd: false, gzip: false };

    /// Whether devices with these codecs decompress `codec`.
    pub(super) fn has(self, codec: PageCodec) -> bool {
        match codec {
            PageCodec::None => false,
            PageCodec::Snappy | PageCodec::Lz4 => self.own,
            PageCodec::Zstd => self.zstd,
            PageCodec::Gzip => self.gzip,
        }
    }
}

/// Bytes before a page's strings, and before all of a column's (`parquet_prefixed` of `kernels/parquet_delta.cuh`).
const ROOM_HEAD: u64 = 16;

/// Total bytes of the prefix-encoded values of `pages`, at least one; 0 if there are none.
///
/// # Errors
/// A file that cannot be read, wrong page checksums.
fn bytes_to_make(column: &ParquetColumn, codec: PageCodec, pages: &[&Page]) -> Result<u64> {
    let (file, chunk) = column.chunk_of();
    let place = || file.place(chunk.0, chunk.1);
    let mut all = 0u64;
    for page in pages.iter().filter(|page| page.header.encoding == DELTA_BYTE_ARRAY) {
        all = all.max(1);
        let known = file.kept_parts().lock().made.get(&page.offset).copied();
        all = all.saturating_add(match known {
            _ if column.ty.kind == Kind::BigEndian => u64::from(column.ty.width) * u64::from(page.header.values),
            Some(known) => known,
            None => {
                let made = strings_of(column, codec, page, &place)?;
                file.kept_parts().lock().made.insert(page.offset, made);
                made
            }
        });
    }
    Ok(all)
}

/// Total bytes of the strings of a page; 0 if it is damaged, which the device detects.
fn strings_of(
    column: &ParquetColumn,
    codec: PageCodec,
    page: &Page,
    place: &(dyn Fn() -> String + Sync),
) -> Result<u64> {
    let (file, header) = (&column.file, &page.header);
    let range = page.offset..page.offset + u64::from(header.compressed);
    let mut stored = vec![0; header.compressed as usize];
    let reader = file.reader(column.chunk_of().1, &[range], place)?;
    reader.read(page.offset, &mut stored)?;
    check(page, &stored, &reader)?;
    let version_2 = header.kind == PageKind::DataV2;
    let levels = if version_2 { header.level_bytes[0] as usize } else { 0 };
    let (Some(body), Some(bytes)) = (stored.get(levels..), (header.uncompressed as usize).checked_sub(levels)) else {
        return Ok(0);
    };
    let is_plain = codec == PageCodec::None || bytes == 0 || (version_2 && !header.is_compressed);
    let mut opened = vec![];
    let body = if is_plain {
        body
    } else {
        opened.resize(bytes, 0);
        let done = decompress(codec, body, &mut opened).is_ok();
        if !done {
            return Ok(0);
        }
        &opened
    };
    let values = match body.split_first_chunk() {
        // Levels, after their length.
        Some((length, rest)) if column.ty.optional && !version_2 => rest.get(u32::from_le_bytes(*length) as usize..),
        _ => Some(body),
    };
    Ok(values.and_then(|values| made_bytes(values, header.values.into())).unwrap_or(0))
}

/// Verifies the checksum of a page, if it has one and `bytes` are complete.
fn check(page: &Page, bytes: &[u8], reader: &Reader<'_>) -> Result<()> {
    let is_whole = bytes.len() == page.header.compressed as usize;
    match page.header.crc.filter(|_| is_whole) {
        Some(crc) if crc32(bytes) != crc => Err(reader.corrupt("the checksum of a page does not fit its bytes")),
        _ => Ok(()),
    }
}

impl ParquetSlice {
    /// Computes the positions of a column's pages for a device that decompresses `codecs`.
    ///
    /// # Errors
    /// Invalid page headers, or headers that contradict the footer or each other.
    pub(super) fn open(column: &ParquetColumn, codecs: PageCodecs) -> Result<ParquetChunk> {
        let map = match &column.located {
            Some(locations) => {
                let chunk = (column.group, column.column);
                Arc::new(PageMap::of_rows(&column.file, chunk, locations, &column.rows)?)
            }
            None => column.file.pages(column.group, column.column)?,
        };
        if let Some(reason) = &map.host {
            return Ok(ParquetChunk::Host(reason.clone()));
        }
        let (file, ty) = (&column.file, &column.ty);
        let corrupt = |detail: &str| Err(file.corrupt(file.place(column.group, column.column), detail));
        let (first, end) = (column.rows.start, column.rows.end);
        let within = |page: &&Page| page.first_row < end && page.first_row + u64::from(page.header.values) > first;
        let data: Vec<&Page> = map.data.iter().filter(within).collect();
        // Chunks with only NULLs may have an empty dictionary.
        let dictionary = map.dictionary.as_ref();
        let (mut image, mut work) = (Places(HEADER), Places(0));
        image.take(PAGE * (data.len() + usize::from(dictionary.is_some())) as u64);
        let [_, valid_at] = take_values(column, &mut work);
        let valid_at = column.has_nulls().then_some(valid_at);
        let entries = dictionary.map_or(0, |page| u64::from(page.header.values));
        let strings_at = work.take(if ty.kind == Kind::Text { 4 * entries } else { 0 });
        let made = bytes_to_make(column, map.codec, &data)?;
        if made > u32::MAX.into() {
            return Ok(ParquetChunk::Host("encoding DELTA_BYTE_ARRAY of more than 4 GiB".into()));
        }
        let room = (work.take(if made > 0 { ROOM_HEAD + made } else { 0 }), made);
        let (mut pages, mut tiles) = (vec![], 0u64);
        for page in dictionary.into_iter().chain(data) {
            let header = &page.header;
            let is_dictionary = header.kind == PageKind::Dictionary;
            let levels = if header.kind == PageKind::DataV2 { header.level_bytes[0] } else { 0 };
            let Some(bytes) = header.uncompressed.checked_sub(levels) else {
                return corrupt("levels are longer than their page");
            };
            let plain = header.kind == PageKind::DataV2 && !header.is_compressed;
            let codec = if bytes == 0 || plain { PageCodec::None } else { map.codec };
            if header.compressed < levels {
                return corrupt("levels are longer than their page");
            }
            if codec == PageCodec::None && bytes > 0 && header.compressed != header.uncompressed {
                return corrupt("a page that is not compressed has two sizes");
            }
            let least = match ty.kind {
                Kind::Text => 4,
                Kind::Bool => 0,
                _ => u64::from(ty.width),
            };
            if is_dictionary && (u64::from(header.values) * least > u64::from(bytes) || ty.kind == Kind::Bool) {
                return corrupt("a dictionary is shorter than its entries");
            }
            let mut placed = Placed {
                page: page.clone(),
                codec,
                is_dictionary,
                stored_at: 0,
                stored: 0,
                made_at: 0,
                masks_at: 0,
                ranks_at: 0,
                runs_at: 0,
                first_tile: tiles as u32,
            };
            let on_device = placed.on_device(codecs);
            placed.stored = match on_device {
                PageCodec::None => u64::from(levels) + u64::from(bytes),
                _ => header.compressed.into(),
            };
            placed.stored_at = image.take(placed.stored + SLACK);
            placed.made_at = work.take(if on_device == PageCodec::None { 0 } else { u64::from(bytes) + SLACK });
            if !is_dictionary {
                let values = u64::from(header.values);
                placed.masks_at = work.take(if ty.optional { values.div_ceil(32) * 4 } else { 0 });
                placed.ranks_at = work.take(4 * (placed.tiles() + 1));
                placed.runs_at = work.take(match (ty.kind, header.encoding) {
                    (Kind::Text, PLAIN) => 4 * values,
                    (_, PLAIN | BYTE_STREAM_SPLIT) => 0,
                    (_, DELTA_BINARY_PACKED) => u64::from(ty.width) * values + SLACK,
                    (_, DELTA_LENGTH_BYTE_ARRAY) => 4 * (values + 1),
                    (_, DELTA_BYTE_ARRAY) => ROOM_HEAD + (4 * (values + 1)).next_multiple_of(16) + 4 * values + SLACK,
                    _ => 8 * placed.tiles(),
                });
                let fits = match header.encoding {
                    RLE => ty.kind == Kind::Bool,
                    PLAIN_DICTIONARY | RLE_DICTIONARY => dictionary.is_some() && ty.kind != Kind::Bool,
                    DELTA_BINARY_PACKED => matches!(ty.kind, Kind::Signed | Kind::Unsigned),
                    DELTA_LENGTH_BYTE_ARRAY => ty.kind == Kind::Text,
                    DELTA_BYTE_ARRAY => matches!(ty.kind, Kind::Text | Kind::BigEndian),
                    BYTE_STREAM_SPLIT => !matches!(ty.kind, Kind::Text | Kind::Bool),
                    _ => true,
                };
                if !fits {
                    return corrupt("a page has an encoding that values of its type do not have");
                }
            }
            tiles += placed.tiles();
            pages.push(placed);
        }
        let Ok(tiles) = u32::try_from(tiles) else { return corrupt("pages of too many values") };
        let (image, work) = (image.0, work.0);
        let (column, codec) = (column.clone(), map.codec);
        let slice = Self { column, codecs, codec, pages, valid_at, strings_at, room, image, work, tiles };
        Ok(ParquetChunk::Device(Arc::new(slice)))
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        (self.column.rows.end - self.column.rows.start) as usize
    }

    /// Position of the values and validity bits in the work area.
    pub fn layout(&self) -> SegmentLayout {
        chunk_layout(&self.column)
    }

    /// Bytes that travel.
    pub fn image_bytes(&self) -> u64 {
        self.image
    }

    /// Bytes of the work area.
    pub fn work_bytes(&self) -> u64 {
        self.work
    }

    /// Bytes of the values that are made.
    pub fn value_bytes(&self) -> u64 {
        self.rows() as u64 * u64::from(self.column.ty.made)
    }

    /// Bytes of its pages in the file, without headers.
    pub fn stored_bytes(&self) -> u64 {
        self.pages.iter().map(|placed| u64::from(placed.page.header.compressed)).sum()
    }

    /// Pages, a dictionary included.
    pub fn pages(&self) -> u32 {
        self.pages.len() as u32
    }

    /// The codec of its pages, decompressed by host or device.
    pub fn codec(&self) -> PageCodec {
        self.codec
    }

    /// The pages that a batch library decompresses on the device: Zstandard and Gzip, if the device supports them.
    pub fn batch_pages(&self) -> impl Iterator<Item = BatchPage> + '_ {
        let own = |placed: &&Placed| matches!(placed.on_device(self.codecs), PageCodec::Zstd | PageCodec::Gzip);
        self.pages.iter().filter(own).map(|placed| BatchPage {
            stored: (placed.stored_at + placed.levels(), placed.stored - placed.levels()),
            made: (placed.made_at, placed.bytes()),
        })
    }

    /// Tiles of up to 1024 values of all data pages.
    pub fn tiles(&self) -> u32 {
        self.tiles
    }

    /// Writes the image to `out`. Returns the number of bytes that were decompressed for it, and the time of that.
    ///
    /// # Errors
    /// A file that cannot be read or has become shorter, wrong page checksums, pages that the host fails to decompress.
    pub fn write_image(&self, out: &mut [u8]) -> Result<(u64, Duration)> {
        self.write_header(out);
        let (file, group, column) = (&self.column.file, self.column.group, self.column.column);
        let place = || file.place(group, column);
        let end = |placed: &Placed| placed.page.offset + u64::from(placed.page.header.compressed);
        let start = self.pages.iter().map(|placed| placed.page.offset).min().unwrap_or(0);
        let whole = start..self.pages.iter().map(end).max().unwrap_or(start);
        let wanted = match &self.column.located {
            Some(locations) => locations.bytes_of(&self.column.rows),
            None => vec![whole],
        };
        let reader = file.reader((group, column), &wanted, &place)?;
        // Pages are consecutive in the image; each is written by one thread.
        let (mut rooms, mut rest, mut done) = (Vec::with_capacity(self.pages.len()), out, 0);
        for placed in &self.pages {
            let at = placed.stored_at as usize;
            let (_, tail) = rest.split_at_mut(at - done);
            let (room, tail) = tail.split_at_mut((placed.stored as usize).next_multiple_of(16));
            rooms.push((placed, room));
            (done, rest) = (at + (placed.stored as usize).next_multiple_of(16), tail);
        }
        let nothing = || (0, Duration::ZERO);
        let write = |(placed, room): (&Placed, &mut [u8])| self.write_page_image(&reader, placed, room);
        rooms.into_par_iter().map(write).try_reduce(nothing, |a, b| Ok((a.0 + b.0, a.1 + b.1)))
    }

    /// Writes the bytes of a page with padding; as [`ParquetSlice::write_image`].
    fn write_page_image(&self, reader: &Reader<'_>, placed: &Placed, out: &mut [u8]) -> Result<(u64, Duration)> {
        let header = &placed.page.header;
        let (room, padding) = out.split_at_mut(placed.stored as usize);
        padding.fill(0);
        let as_stored = placed.codec == placed.on_device(self.codecs);
        let mut scratch = vec![0; if as_stored { 0 } else { header.compressed as usize }];
        let bytes: &mut [u8] = if as_stored { &mut room[..] } else { &mut scratch[..] };
        // A page without values may have bytes that are not needed.
        let wanted = bytes.len().min(header.compressed as usize);
        let bytes = &mut bytes[..wanted];
        reader.read(placed.page.offset, bytes)?;
        check(&placed.page, bytes, reader)?;
        if as_stored {
            return Ok((0, Duration::ZERO));
        }
        let levels = placed.levels() as usize;
        let (head, values) = room.split_at_mut(levels);
        head.copy_from_slice(&scratch[..levels]);
        let started = Instant::now();
        decompress(placed.codec, &scratch[levels..], values)
            .map_err(|detail| reader.corrupt(format!("a page does not decompress: {detail}")))?;
        Ok((placed.bytes(), started.elapsed()))
    }

    fn write_header(&self, out: &mut [u8]) {
        let ty = &self.column.ty;
        let dictionary = self.pages.first().filter(|placed| placed.is_dictionary);
        let mut flags = 0;
        flags |= if dictionary.is_some() { HAS_DICTIONARY } else { 0 };
        flags |= if self.valid_at.is_some() { HAS_NULLS } else { 0 };
        flags |= if ty.optional { HAS_LEVELS } else { 0 };
        let (least, greatest) = self.column.range();
        let words32 = [self.pages(), self.rows() as u32, ty.kind as u32, ty.width, ty.made, flags];
        let mut head: Vec<u8> = words32.iter().flat_map(|word| word.to_le_bytes()).collect();
        let entries = dictionary.map_or(0, |placed| placed.page.header.values);
        head.extend([entries, self.tiles].iter().flat_map(|word| word.to_le_bytes()));
        head.extend([self.valid_at.unwrap_or(0), self.strings_at].iter().flat_map(|word| word.to_le_bytes()));
        head.extend([least, greatest].iter().flat_map(|word| word.to_le_bytes()));
        head.extend([self.room.0, self.room.1].iter().flat_map(|word| word.to_le_bytes()));
        head.resize(HEADER as usize, 0);
        for placed in &self.pages {
            self.write_page(placed, &mut head);
        }
        out[..head.len()].copy_from_slice(&head);
    }

    fn write_page(&self, placed: &Placed, head: &mut Vec<u8>) {
        let start = head.len();
        let header = &placed.page.header;
        let first_row = placed.page.first_row as i64 - self.column.rows.start as i64;
        let words =
            [placed.stored_at, placed.made_at, placed.masks_at, placed.ranks_at, placed.runs_at, first_row as u64];
        head.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let codec = match placed.on_device(self.codecs) {
            PageCodec::None => 0u32,
            PageCodec::Lz4 => 1,
            PageCodec::Snappy => 2,
            // Decompressed when kernels see them.
            PageCodec::Zstd | PageCodec::Gzip => 3,
        };
        let version = if header.kind == PageKind::DataV2 { VERSION_2 } else { 0 };
        let kind = if placed.is_dictionary { IS_DICTIONARY } else { 0 };
        let words = [
            placed.stored as u32,
            placed.bytes() as u32,
            codec,
            header.encoding as u32,
            header.values,
            placed.levels() as u32,
            version | kind,
            placed.first_tile,
        ];
        head.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        head.resize(start + PAGE as usize, 0);
    }
}

/// Decompresses into all of `out`, on the host.
///
/// # Errors
/// Invalid bytes, or another decompressed size than that of `out`.
pub fn decompress(codec: PageCodec, stored: &[u8], out: &mut [u8]) -> std::result::Result<(), String> {
    use std::io::Read;
    let wanted = out.len();
    let own = |codec, stored: &[u8], out: &mut [u8]| match decompress_block(codec, stored, out) {
        Ok(()) => Ok(wanted),
        Err(error) => Err(error.to_string()),
    };
    let found = match codec {
        PageCodec::Zstd => zstd::bulk::decompress_to_buffer(stored, out).map_err(|error| error.to_string())?,
        PageCodec::Gzip => {
            let mut reader = flate2::read::MultiGzDecoder::new(stored);
            reader.read_exact(out).map_err(|error| error.to_string())?;
            if reader.read(&mut [0]).map_err(|error| error.to_string())? > 0 { wanted + 1 } else { wanted }
        }
        PageCodec::Snappy | PageCodec::Lz4 if stored.is_empty() && out.is_empty() => 0,
        PageCodec::Snappy => own(Codec::Snappy, stored, out)?,
        PageCodec::Lz4 => own(Codec::Lz4, stored, out)?,
        PageCodec::None => return Err("no codec".into()),
    };
    if found == wanted { Ok(()) } else { Err(format!("{found} bytes instead of {wanted}")) }
}

impl StoredType {
    /// The bounds against which every value is tested: of integers, the type's; otherwise bounds that exclude nothing.
    pub(super) fn widest(&self) -> (i128, i128) {
        self.range.unwrap_or((i128::MIN, i128::MAX))
    }
}
