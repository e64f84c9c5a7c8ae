//! Positions of the pages of a column chunk and bounds of their values, from the indexes that writers may store in a file.
//!
//! They are read only if a filter might skip pages by them. They are not trusted: an index that contradicts itself or the footer is ignored, and data
//! read by one are compared with the page headers, and with its bounds.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use parquet::basic::ColumnOrder;
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::ColumnChunkMetaData;

use super::ParquetFile;
use super::file::Kept;
use super::thrift::{ColumnIndex, OffsetIndex, column_index, offset_index};
use super::types::{Kind, StoredType};
use crate::Result;

/// Largest size of an index or a filter that is read, in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// The position of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Location {
    pub offset: u64,
    /// Its size in bytes, including the header.
    pub bytes: u64,
    /// The row of the row group that its first value is.
    pub first_row: u64,
}

/// The positions of the data pages of a column chunk: at least one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Locations {
    pages: Vec<Location>,
    /// Number of rows of the row group.
    rows: u64,
    /// Bytes in front of the first page: a dictionary's.
    pub dictionary: Range<u64>,
}

impl Locations {
    /// The pages of a column chunk of `rows` rows by `index`, whose bytes are at `chunk`; `None` if that is inconsistent.
    pub(super) fn of(index: &OffsetIndex, chunk: Range<u64>, rows: u64) -> Option<Self> {
        let (mut pages, mut end) = (Vec::with_capacity(index.pages.len()), chunk.start);
        for (number, page) in index.pages.iter().enumerate() {
            let (offset, bytes) = (u64::try_from(page.offset).ok()?, u64::try_from(page.bytes).ok()?);
            let first_row = u64::try_from(page.first_row).ok()?;
            let follows =
                pages.last().map_or(number == 0 && first_row == 0, |last: &Location| first_row > last.first_row);
            if !follows || first_row >= rows || offset < end || bytes == 0 {
                return None;
            }
            end = offset.checked_add(bytes).filter(|&end| end <= chunk.end)?;
            pages.push(Location { offset, bytes, first_row });
        }
        let first = pages.first()?.offset;
        Some(Self { pages, rows, dictionary: chunk.start..first })
    }

    /// Pages.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// The rows of page `page`.
    pub fn rows_of(&self, page: usize) -> Range<u64> {
        self.pages[page].first_row..self.pages.get(page + 1).map_or(self.rows, |next| next.first_row)
    }

    /// Page `page`.
    pub fn page(&self, page: usize) -> Location {
        self.pages[page]
    }

    /// The page that begins at byte `offset`.
    pub fn at(&self, offset: u64) -> Option<usize> {
        self.pages.binary_search_by_key(&offset, |page| page.offset).ok()
    }

    /// The page of row `row`.
    pub fn page_of(&self, row: u64) -> usize {
        self.pages.partition_point(|page| page.first_row <= row) - 1
    }

    /// The pages that have some of `rows`, which are not none.
    pub fn overlapping(&self, rows: &Range<u64>) -> Range<usize> {
        self.page_of(rows.start)..self.page_of(rows.end - 1) + 1
    }

    /// Bytes of the pages whose rows all are in `rows`.
    pub fn bytes_within(&self, rows: &Range<u64>) -> u64 {
        let first = self.pages.partition_point(|page| page.first_row < rows.start);
        let within = (first..self.len()).take_while(|&page| self.rows_of(page).end <= rows.end);
        within.map(|page| self.pages[page].bytes).sum()
    }

    /// The byte ranges to read for `rows`: the dictionary's, and those of pages, with neighbours merged.
    pub fn bytes_of(&self, rows: &Range<u64>) -> Vec<Range<u64>> {
        let mut ranges = vec![self.dictionary.clone()];
        ranges.retain(|range| !range.is_empty());
        for page in &self.pages[self.overlapping(rows)] {
            match ranges.last_mut() {
                Some(last) if last.end == page.offset => last.end += page.bytes,
                _ => ranges.push(page.offset..page.offset + page.bytes),
            }
        }
        ranges
    }
}

/// Facts about the values of a page, or of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageBounds {
    /// Bounds of the ranks ([`crate::pruning`]) of values; `None` without values. For floats, NaN is excluded.
    pub ranks: Option<(i128, i128)>,
    /// Whether there may be NULLs.
    pub nulls: bool,
    /// Whether there may be NaN.
    pub nan: bool,
}

/// Per page, the claims of `index` about a column chunk; `None` if they are inconsistent.
fn bounds_of(
    index: &ColumnIndex,
    locations: &Locations,
    ty: &StoredType,
    chunk: &ColumnChunkMetaData,
) -> Option<Vec<PageBounds>> {
    let pages = locations.len();
    let lengths = [index.null_pages.len(), index.least.len(), index.greatest.len()];
    if lengths != [pages; 3] || index.nulls.as_ref().is_some_and(|nulls| nulls.len() != pages) {
        return None;
    }
    let mut all = Vec::with_capacity(pages);
    for page in 0..pages {
        let ranks = match index.null_pages[page] {
            true => None,
            false => {
                let (least, greatest) = (ty.rank(&index.least[page])?, ty.rank(&index.greatest[page])?);
                Some((least, greatest)).filter(|_| least <= greatest)
            }
        };
        let rows = locations.rows_of(page);
        let nulls = match &index.nulls {
            None => ty.optional,
            Some(counts) => {
                let count = u64::try_from(counts[page]).ok()?;
                if count > rows.end - rows.start || (count == rows.end - rows.start) != index.null_pages[page] {
                    return None;
                }
                count > 0
            }
        };
        if (ranks.is_none() && !index.null_pages[page]) || (!ty.optional && (nulls || ranks.is_none())) {
            return None;
        }
        all.push(PageBounds { ranks, nulls: nulls || ranks.is_none(), nan: ty.kind == Kind::Float });
    }
    (has_order(&all, index.order) && fits(&all, index, ty, chunk)).then_some(all)
}

/// Whether bounds ascend or descend where an index says that they do.
fn has_order(pages: &[PageBounds], order: i64) -> bool {
    let bounds: Vec<(i128, i128)> = pages.iter().filter_map(|page| page.ranks).collect();
    let pairs = || bounds.windows(2).map(|pair| (pair[0], pair[1]));
    match order {
        0 => true,
        1 => pairs().all(|(a, b)| a.0 <= b.0 && a.1 <= b.1),
        2 => pairs().all(|(a, b)| a.0 >= b.0 && a.1 >= b.1),
        _ => false,
    }
}

/// Whether the pages' bounds match the footer's bounds of the whole chunk. Strings may be truncated in both, in different ways.
fn fits(pages: &[PageBounds], index: &ColumnIndex, ty: &StoredType, chunk: &ColumnChunkMetaData) -> bool {
    let Some(stats) = chunk.statistics() else { return true };
    let nulls = index.nulls.as_ref().map(|nulls| nulls.iter().sum::<i64>());
    if nulls.zip(stats.null_count_opt()).is_some_and(|(own, all)| i128::from(own) != i128::from(all)) {
        return false;
    }
    if ty.kind == Kind::Text || stats.is_min_max_deprecated() {
        return true;
    }
    let least = pages.iter().filter_map(|page| page.ranks).map(|ranks| ranks.0).min();
    let greatest = pages.iter().filter_map(|page| page.ranks).map(|ranks| ranks.1).max();
    let same = |own: Option<i128>, all: Option<&[u8]>| match (own, all) {
        (Some(own), Some(all)) => ty.rank(all).is_none_or(|all| own == all),
        _ => true,
    };
    same(least, stats.min_bytes_opt()) && same(greatest, stats.max_bytes_opt())
}

/// A byte range in a footer, if it is possible.
fn range(file: &ParquetFile, offset: Option<i64>, length: Option<i32>) -> Option<Range<u64>> {
    let start = u64::try_from(offset?).ok()?;
    let length = u64::try_from(length?).ok().filter(|&length| length > 0 && length <= MOST_BYTES)?;
    start.checked_add(length).filter(|&end| end <= file.bytes()).map(|end| start..end)
}

/// A row group and a leaf.
type ChunkId = (usize, usize);

impl ParquetFile {
    /// The page positions of each of `chunks`: reads those not known yet, all at once. `None` for files without them.
    ///
    /// # Errors
    /// A file that cannot be read, or has changed.
    pub(super) fn locations(&self, chunks: &[ChunkId]) -> Result<Vec<Option<Arc<Locations>>>> {
        let known = |kept: &Kept, chunk: &ChunkId| kept.locations.get(chunk).cloned();
        let place = |&(group, column): &ChunkId| {
            let chunk = self.metadata().row_group(group).column(column);
            range(self, chunk.offset_index_offset(), chunk.offset_index_length())
        };
        let decode = |&(group, column): &ChunkId, bytes: &[u8]| {
            let index = offset_index(bytes).ok()?;
            let rows = u64::try_from(self.metadata().row_group(group).num_rows()).ok()?;
            Locations::of(&index, self.chunk_range(group, column).ok()?, rows).map(Arc::new)
        };
        self.kept(chunks, known, place, decode, |kept, chunk, found| drop(kept.locations.insert(chunk, found)))
    }

    /// The bounds of the values of the pages of `chunks`, of types `types`: by page, in the order of [`ParquetFile::locations`].
    ///
    /// # Errors
    /// A file that cannot be read, or has changed.
    pub(super) fn page_bounds(
        &self,
        chunks: &[ChunkId],
        types: &dyn Fn(ChunkId) -> StoredType,
    ) -> Result<Vec<Option<Arc<Vec<PageBounds>>>>> {
        let places: HashMap<ChunkId, Option<Arc<Locations>>> =
            chunks.iter().copied().zip(self.locations(chunks)?).collect();
        let locations = |chunk: &ChunkId| places.get(chunk)?.clone();
        let known = |kept: &Kept, chunk: &ChunkId| kept.bounds.get(chunk).cloned();
        let place = |chunk: &ChunkId| {
            let found = self.metadata().row_group(chunk.0).column(chunk.1);
            locations(chunk)?;
            let ordered = match self.metadata().file_metadata().column_order(chunk.1) {
                ColumnOrder::TYPE_DEFINED_ORDER(_) => true,
                ColumnOrder::UNDEFINED => types(*chunk).kind == Kind::Signed,
                ColumnOrder::UNKNOWN => false,
            };
            range(self, found.column_index_offset(), found.column_index_length()).filter(|_| ordered)
        };
        let decode = |chunk: &ChunkId, bytes: &[u8]| {
            let index = column_index(bytes).ok()?;
            let found = self.metadata().row_group(chunk.0).column(chunk.1);
            bounds_of(&index, &*locations(chunk)?, &types(*chunk), found).map(Arc::new)
        };
        self.kept(chunks, known, place, decode, |kept, chunk, found| drop(kept.bounds.insert(chunk, found)))
    }

    /// The Bloom filters of `chunks`. `None` for files without one, or with one larger than half of the values.
    ///
    /// # Errors
    /// A file that cannot be read, or has changed.
    pub(super) fn bloom_filters(&self, chunks: &[ChunkId]) -> Result<Vec<Option<Arc<Sbbf>>>> {
        let known = |kept: &Kept, chunk: &ChunkId| kept.filters.get(chunk).cloned();
        let place = |chunk: &ChunkId| {
            let found = self.metadata().row_group(chunk.0).column(chunk.1);
            let range = range(self, found.bloom_filter_offset(), found.bloom_filter_length());
            let most = u64::try_from(found.compressed_size()).unwrap_or(0) / 2;
            range.filter(|range| range.end - range.start <= most)
        };
        let decode = |_: &ChunkId, bytes: &[u8]| {
            Sbbf::from_bytes(bytes).ok().filter(|filter| filter.num_blocks() > 0).map(Arc::new)
        };
        self.kept(chunks, known, place, decode, |kept, chunk, found| drop(kept.filters.insert(chunk, found)))
    }

    /// The entries of `chunks` in `known`; for others the results of `decode` for the bytes at `place`, which `keep` stores.
    fn kept<T: Clone>(
        &self,
        chunks: &[ChunkId],
        known: impl Fn(&Kept, &ChunkId) -> Option<Option<T>>,
        place: impl Fn(&ChunkId) -> Option<Range<u64>>,
        decode: impl Fn(&ChunkId, &[u8]) -> Option<T>,
        keep: impl Fn(&mut Kept, ChunkId, Option<T>),
    ) -> Result<Vec<Option<T>>> {
        let mut found: Vec<Option<Option<T>>> = {
            let kept = self.kept_parts().lock();
            chunks.iter().map(|chunk| known(&kept, chunk)).collect()
        };
        let (mut places, mut none) = (vec![], vec![]);
        for at in (0..chunks.len()).filter(|&at| found[at].is_none()) {
            match place(&chunks[at]) {
                Some(range) => places.push((at, range)),
                None => none.push(at),
            }
        }
        let ranges: Vec<Range<u64>> = places.iter().map(|(_, range)| range.clone()).collect();
        let first = places.first().map_or(0, |(at, _)| *at);
        let read = self.read_ranges(&ranges, &|| self.place(chunks[first].0, chunks[first].1))?;
        let mut kept = self.kept_parts().lock();
        for at in none {
            keep(&mut kept, chunks[at], None);
            found[at] = Some(None);
        }
        for ((at, _), bytes) in places.into_iter().zip(read) {
            let decoded = decode(&chunks[at], bytes.as_ref().as_ref());
            keep(&mut kept, chunks[at], decoded.clone());
            found[at] = Some(decoded);
        }
        Ok(found.into_iter().map(Option::flatten).collect())
    }
}
