//! Tables of Parquet files without the rows that page indexes or Bloom filters rule out.
//!
//! Pages of different columns begin at different rows. Rows are tested in ranges between page starts of the filters' columns; the remaining rows of a
//! row segment become one row segment, or several if that saves bytes. Each reads the pages that contain some of its rows: values of other rows are
//! decoded and dropped.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use parquet::bloom_filter::Sbbf;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use super::ParquetFile;
use super::index::{Locations, PageBounds};
use super::table::{ParquetColumn, of_part};
use super::types::{Kind, StoredType};
use crate::table::{RowSegment, Source, Version, VersionChunk};
use crate::{ColumnStats, Result, StatValue, TableSnapshot};

/// Cost of an additional row segment, in bytes read per column.
const SEGMENT_BYTES: u64 = 4 << 10;

/// The parts that [`refine`] ruled out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Number of row segments ruled out completely.
    pub segments: u64,
    /// Number of row ranges, between page starts, that were ruled out.
    pub zones: u64,
    /// The ranges that Bloom filters ruled out: row segments.
    pub by_bloom: u64,
    /// Rows.
    pub rows: u64,
    /// Pages of the columns that were tested.
    pub pages: u64,
    /// Time that it took, in nanoseconds.
    pub nanos: u64,
}

/// A value to test against a Bloom filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterValue {
    /// An integer, a decimal (unscaled), a date, a time.
    Int(i128),
    /// A string.
    Text(String),
}

/// A set of values: wanted rows have one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterTest {
    /// The table's column.
    pub column: usize,
    /// The values.
    pub values: Vec<FilterValue>,
}

/// The rows that are wanted.
pub struct PageTest<'a> {
    /// The table's columns that are read.
    pub read: &'a [usize],
    /// The columns that `excludes` restricts.
    pub tested: &'a [usize],
    /// Row segments that need not be looked at.
    pub skip: &'a dyn Fn(usize) -> bool,
    /// Whether rows with such values, by column of `tested`, can be skipped; `None`: values unknown.
    pub excludes: &'a dyn Fn(&[Option<PageBounds>]) -> bool,
    /// All of these hold for wanted rows.
    pub filters: &'a [FilterTest],
}

/// A row group and a leaf.
type ChunkId = (usize, usize);

/// Data read for column chunks, by file address.
type Found<T> = HashMap<(usize, ChunkId), Option<Arc<T>>>;

/// `table`, of Parquet files, without unwanted rows; `None` if nothing can be skipped. Reads indexes and Bloom filters, if files have them, of the
/// tested columns only, and once per file. An index that contradicts itself or the footer rules out
/// nothing.
///
/// # Errors
/// Files that cannot be read, or have changed.
pub fn refine(table: &TableSnapshot, test: &PageTest<'_>) -> Result<Option<Arc<TableSnapshot>>> {
    let started = Instant::now();
    let version = table.parts();
    let is_asked = |segment: &usize| version.segments[*segment].rows > 0 && !(test.skip)(*segment);
    let segments: Vec<usize> = (0..table.num_segments()).filter(is_asked).collect();
    let bounds = found(version, segments.iter().copied(), test.tested, |of_file| {
        of_file.file.page_bounds(&of_file.chunks, &|chunk| of_file.types[&chunk.1].clone())
    })?;
    let mut pages = Pages { version, bounds, locations: locations(version, &segments, test.tested)? };
    // The remaining rows of row segments, and the segments whose filters are worth reading.
    let mut left: HashMap<usize, Vec<Range<u64>>> = HashMap::new();
    let mut out = LeftOut::default();
    for &segment in &segments {
        let zones = pages.zones(segment, test.tested);
        let is_left = |zone: &Range<u64>| !(test.excludes)(&pages.bounds_at(segment, test.tested, zone.start));
        let kept: Vec<Range<u64>> = zones.iter().filter(|zone| is_left(zone)).cloned().collect();
        out.zones += (zones.len() - kept.len()) as u64;
        left.insert(segment, joined(kept));
    }
    let absent = ruled_out_by_filters(version, &left, test.filters)?;
    for segment in absent {
        (out.zones, out.by_bloom) = (out.zones + 1, out.by_bloom + 1);
        left.insert(segment, vec![]);
    }
    let is_cut =
        |(segment, ranges): &(&usize, &Vec<Range<u64>>)| !ranges.is_empty() && ranges[..] != [pages.rows(**segment)];
    let partial: Vec<usize> = left.iter().filter(is_cut).map(|(segment, _)| *segment).collect();
    let others = locations(version, &partial, test.read)?;
    pages.locations.extend(others);
    for segment in partial {
        let columns = pages.of_read(segment, test.read);
        left.entry(segment).and_modify(|ranges| *ranges = worthwhile(std::mem::take(ranges), &columns));
    }
    let is_whole = |(segment, ranges): (&usize, &Vec<Range<u64>>)| *ranges == [pages.rows(*segment)];
    if left.iter().all(is_whole) {
        return Ok(None);
    }
    let mut made = Vec::with_capacity(version.segments.len());
    for (number, segment) in version.segments.iter().enumerate() {
        match left.get(&number) {
            None => made.push(segment.clone()),
            Some(ranges) if is_whole((&number, ranges)) => made.push(segment.clone()),
            Some(ranges) => {
                made.extend(ranges.iter().map(|rows| pages.part(number, rows)));
                out.segments += u64::from(ranges.is_empty());
                out.rows += segment.rows as u64 - ranges.iter().map(|range| range.end - range.start).sum::<u64>();
                out.pages += pages.not_in(number, test.tested, ranges);
            }
        }
    }
    out.nanos = started.elapsed().as_nanos() as u64;
    let version = Version { segments: made, ..Version::empty(version.number, version.schema.clone()) };
    Ok(Some(TableSnapshot::of_parquet(version, out)))
}

/// Ranges in order, neighbours as one.
fn joined(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut out: Vec<Range<u64>> = vec![];
    for range in ranges {
        match out.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => out.push(range),
        }
    }
    out
}

/// A column of a row segment.
fn column(version: &Version, segment: usize, column: usize) -> Option<&ParquetColumn> {
    match &version.segments[segment].columns[column].source {
        Source::Parquet(column) => Some(column),
        _ => None,
    }
}

/// Column chunks of a file, with the types of their leaves.
struct OfFile<'a> {
    file: &'a Arc<ParquetFile>,
    chunks: Vec<ChunkId>,
    types: HashMap<usize, &'a StoredType>,
}

/// The chunks of `columns` in `segments`, file by file.
fn chunks_of<'a>(version: &'a Version, segments: impl Iterator<Item = usize>, columns: &[usize]) -> Vec<OfFile<'a>> {
    let mut files: HashMap<usize, OfFile<'_>> = HashMap::new();
    for segment in segments {
        for found in columns.iter().filter_map(|&at| column(version, segment, at)) {
            let (file, chunk) = found.chunk_of();
            let new = || OfFile { file, chunks: vec![], types: HashMap::new() };
            let of_file = files.entry(address(file)).or_insert_with(new);
            of_file.chunks.push(chunk);
            of_file.types.insert(chunk.1, &found.ty);
        }
    }
    let mut files: Vec<_> = files.into_values().collect();
    for of_file in &mut files {
        of_file.chunks.sort_unstable();
        of_file.chunks.dedup();
    }
    files
}

/// The address that identifies a file while it is alive.
fn address(file: &Arc<ParquetFile>) -> usize {
    Arc::as_ptr(file) as usize
}

/// The results of `read` for the chunks of `columns` in `segments`, several files at a time.
fn found<T: Send + Sync>(
    version: &Version,
    segments: impl Iterator<Item = usize>,
    columns: &[usize],
    read: impl Fn(&OfFile<'_>) -> Result<Vec<Option<Arc<T>>>> + Sync,
) -> Result<Found<T>> {
    let files = chunks_of(version, segments, columns);
    let all = files.par_iter().map(&read).collect::<Result<Vec<_>>>()?;
    let pairs = files.iter().zip(all).flat_map(|(of_file, found)| {
        let address = address(of_file.file);
        of_file.chunks.iter().map(move |&chunk| (address, chunk)).zip(found)
    });
    Ok(pairs.collect())
}

fn locations(version: &Version, segments: &[usize], columns: &[usize]) -> Result<Found<Locations>> {
    found(version, segments.iter().copied(), columns, |of_file| of_file.file.locations(&of_file.chunks))
}

/// The row segments, among those with rows `left`, whose Bloom filters contain none of a test's values.
fn ruled_out_by_filters(
    version: &Version,
    left: &HashMap<usize, Vec<Range<u64>>>,
    tests: &[FilterTest],
) -> Result<Vec<usize>> {
    let segments = || left.iter().filter(|(_, ranges)| !ranges.is_empty()).map(|(segment, _)| *segment);
    let columns: Vec<usize> = tests.iter().map(|test| test.column).collect();
    let filters = found(version, segments(), &columns, |of_file| of_file.file.bloom_filters(&of_file.chunks))?;
    let rules_out = |segment: usize, test: &FilterTest| {
        let Some(column) = column(version, segment, test.column) else { return false };
        let (file, chunk) = column.chunk_of();
        let Some(Some(filter)) = filters.get(&(address(file), chunk)) else { return false };
        test.values.iter().all(|value| !may_have(filter, &column.ty, value))
    };
    Ok(segments().filter(|&segment| tests.iter().any(|test| rules_out(segment, test))).collect())
}

/// Whether a filter may contain a value in the stored form of this column type.
fn may_have(filter: &Sbbf, ty: &StoredType, value: &FilterValue) -> bool {
    match (value, ty.kind) {
        (FilterValue::Text(text), Kind::Text) => filter.check(text.as_bytes()),
        (FilterValue::Int(value), Kind::Signed | Kind::Unsigned) if ty.width == 8 => {
            filter.check(&(*value as u64).to_le_bytes()[..])
        }
        (FilterValue::Int(value), Kind::Signed | Kind::Unsigned) if ty.width == 4 => {
            filter.check(&(*value as u32).to_le_bytes()[..])
        }
        (FilterValue::Int(value), Kind::BigEndian) => {
            let bytes = value.to_be_bytes();
            bytes.get(16 - ty.width as usize..).is_none_or(|stored| filter.check(stored))
        }
        _ => true,
    }
}

/// The pages of a table's row segments as described by indexes.
struct Pages<'a> {
    version: &'a Version,
    bounds: Found<Vec<PageBounds>>,
    locations: Found<Locations>,
}

impl Pages<'_> {
    fn column(&self, segment: usize, at: usize) -> Option<&ParquetColumn> {
        column(self.version, segment, at)
    }

    /// The rows of the row group that a row segment has.
    fn rows(&self, segment: usize) -> Range<u64> {
        self.column(segment, 0).map_or(0..self.version.segments[segment].rows as u64, |column| column.rows.clone())
    }

    /// The positions and bounds of the pages of a column, if both are known.
    fn of(&self, segment: usize, at: usize) -> Option<(&Locations, &[PageBounds])> {
        let (file, chunk) = self.column(segment, at)?.chunk_of();
        let key = (address(file), chunk);
        Some((self.locations.get(&key)?.as_ref()?, self.bounds.get(&key)?.as_ref()?))
    }

    /// The rows of a row segment, divided at page starts of `columns`.
    fn zones(&self, segment: usize, columns: &[usize]) -> Vec<Range<u64>> {
        let rows = self.rows(segment);
        let mut starts = vec![rows.start];
        for (locations, _) in columns.iter().filter_map(|&at| self.of(segment, at)) {
            starts.extend(locations.overlapping(&rows).map(|page| locations.page(page).first_row.max(rows.start)));
        }
        starts.sort_unstable();
        starts.dedup();
        let ends = starts.iter().skip(1).copied().chain([rows.end]);
        starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
    }

    /// The bounds of the values of `columns` in the pages of row `row`.
    fn bounds_at(&self, segment: usize, columns: &[usize], row: u64) -> Vec<Option<PageBounds>> {
        let at = |at: &usize| self.of(segment, *at).map(|(places, bounds)| bounds[places.page_of(row)]);
        columns.iter().map(at).collect()
    }

    /// The page positions of `columns`, and their bytes in the row group.
    fn of_read(&self, segment: usize, columns: &[usize]) -> Vec<(Option<&Locations>, u64)> {
        let columns = columns.iter().filter_map(|&at| self.column(segment, at));
        let place = |column: &ParquetColumn| {
            let (file, (group, leaf)) = column.chunk_of();
            let found = self.locations.get(&(address(file), (group, leaf)));
            let bytes = file.metadata().row_group(group).column(leaf).compressed_size();
            (found.and_then(|found| found.as_deref()), u64::try_from(bytes).unwrap_or(0))
        };
        columns.map(place).collect()
    }

    /// Bounds of the integer values of a column in some rows.
    fn integers(&self, segment: usize, at: usize, rows: &Range<u64>) -> Option<(i128, i128)> {
        let kind = self.column(segment, at)?.ty.kind;
        let (locations, bounds) = self.of(segment, at)?;
        if !matches!(kind, Kind::Signed | Kind::Unsigned | Kind::BigEndian) {
            return None;
        }
        let ranks = bounds[locations.overlapping(rows)].iter().filter_map(|page| page.ranks);
        ranks.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))
    }

    /// Number of pages of `columns` with rows of a row segment, but none of `ranges`.
    fn not_in(&self, segment: usize, columns: &[usize], ranges: &[Range<u64>]) -> u64 {
        let rows = self.rows(segment);
        let mut pages = 0;
        for (locations, _) in columns.iter().filter_map(|&at| self.of(segment, at)) {
            let is_read = |page: usize| {
                let of_page = locations.rows_of(page);
                ranges.iter().any(|range| range.start < of_page.end && of_page.start < range.end)
            };
            pages += locations.overlapping(&rows).filter(|&page| !is_read(page)).count();
        }
        pages as u64
    }

    /// Rows `rows` of a row segment as a new row segment.
    fn part(&self, segment: usize, rows: &Range<u64>) -> RowSegment {
        let count = rows.end - rows.start;
        let chunks = self.version.segments[segment].columns.iter().enumerate().map(|(at, chunk)| {
            let Source::Parquet(column) = &chunk.source else { return chunk.clone() };
            let (file, id) = column.chunk_of();
            let located = self.locations.get(&(address(file), id)).cloned().flatten();
            let stats = match self.integers(segment, at, rows) {
                Some(bounds) => Arc::new(narrowed(&column.stats, bounds)),
                None => column.stats.clone(),
            };
            let own = of_part(&stats, count);
            let column = ParquetColumn { rows: rows.clone(), stats, located, ..column.clone() };
            VersionChunk::new(own, chunk.encoding, None, Source::Parquet(column), None)
        });
        RowSegment { rows: count as usize, columns: chunks.collect(), deletions: None }
    }
}

/// Statistics with bounds narrowed to `bounds`.
fn narrowed(stats: &ColumnStats, (least, greatest): (i128, i128)) -> ColumnStats {
    let (from, to) = stats.int_range().unwrap_or((least, greatest));
    let (min, max) = (Some(StatValue::Int(least.max(from))), Some(StatValue::Int(greatest.min(to))));
    ColumnStats { min, max, ..stats.clone() }
}

/// Merges `ranges` of rows across gaps that save less than another row segment costs. `columns` are the columns read: their page positions, if known,
/// and their bytes in the row group.
fn worthwhile(ranges: Vec<Range<u64>>, columns: &[(Option<&Locations>, u64)]) -> Vec<Range<u64>> {
    let mut out: Vec<Range<u64>> = vec![];
    for range in ranges {
        let Some(last) = out.last_mut() else {
            out.push(range);
            continue;
        };
        let gap = last.end..range.start;
        let (mut saved, mut again) = (0, SEGMENT_BYTES * columns.len() as u64);
        for (locations, bytes) in columns {
            let Some(locations) = locations else {
                again += bytes;
                continue;
            };
            saved += locations.bytes_within(&gap);
            again += locations.dictionary.end - locations.dictionary.start;
            let page = locations.page_of(gap.start - 1);
            again += if page == locations.page_of(gap.end) { locations.page(page).bytes } else { 0 };
        }
        if saved > again { out.push(range) } else { last.end = range.end }
    }
    out
}
