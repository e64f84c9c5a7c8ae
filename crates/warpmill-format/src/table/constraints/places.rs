//! Searches a row segment for few values: first for zones that admit them, then for the stored values in these.

use std::ops::Range;

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::pruning::{Found, integer_hash, string_hash, string_rank};
use crate::table::{ColumnZones, TableSnapshot};
use crate::{Result, Segment, StrView, VECTOR_ROWS};

/// The first result of `look` over `parts`; several parts are searched in parallel.
pub(super) fn first_of<P: Sync, T: Send>(parts: &[P], look: impl Fn(&P) -> Option<T> + Send + Sync) -> Option<T> {
    match parts {
        // Waking threads takes longer than looking.
        [] | [_] => parts.iter().find_map(look),
        parts => parts.par_iter().find_map_first(look),
    }
}

/// A column of a row segment.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub base: &'a TableSnapshot,
    pub segment: usize,
    pub column: usize,
}

impl Place<'_> {
    /// Finds one of `numbers` (ascending) in a row that is `kept`, in a column of integers of 64 bits or less, except UInt64.
    pub fn find_number(self, numbers: &[i64], kept: impl Fn(usize) -> bool + Sync) -> Result<Option<i64>> {
        let (vectors, opened) = (self.vectors_of(numbers)?, self.base.segment(self.segment, self.column)?);
        Ok(first_of(&vectors, |&start| numbers_at(&opened, start, numbers, &kept).first().copied()))
    }

    /// Finds all of `numbers` that rows which are `kept` have, under the same conditions.
    pub fn find_numbers(self, numbers: &[i64], kept: impl Fn(usize) -> bool + Sync) -> Result<Vec<i64>> {
        let (vectors, opened) = (self.vectors_of(numbers)?, self.base.segment(self.segment, self.column)?);
        Ok(vectors.par_iter().flat_map_iter(|&start| numbers_at(&opened, start, numbers, &kept)).collect())
    }

    /// The first rows of the vectors that may contain one of `numbers` (ascending).
    fn vectors_of(self, numbers: &[i64]) -> Result<Vec<usize>> {
        let ranges: Vec<(i128, i128)> = numbers.iter().map(|&number| (number.into(), number.into())).collect();
        let hashes: Vec<u64> = ranges.iter().map(|range| integer_hash(range.0)).collect();
        self.vectors(&ranges, Some(&hashes))
    }

    /// Whether a row may have one of `texts`, in a column of strings without a dictionary.
    pub fn may_have_text(self, texts: &[&str]) -> Result<bool> {
        let mut ranked: Vec<(i128, u64)> =
            texts.iter().map(|text| (string_rank(text.as_bytes()), string_hash(text.as_bytes()))).collect();
        ranked.sort_unstable();
        let all = ranked.len();
        ranked.dedup_by_key(|(rank, _)| *rank);
        let ranges: Vec<(i128, i128)> = ranked.iter().map(|(rank, _)| (*rank, *rank)).collect();
        let hashes: Vec<u64> = ranked.iter().map(|(_, hash)| *hash).collect();
        // A range of several values has no hash.
        let vectors = self.vectors(&ranges, Some(&hashes[..]).filter(|hashes| hashes.len() == all))?;
        let opened = self.base.segment(self.segment, self.column)?;
        let rows = opened.rows();
        let found = first_of(&vectors, |&start| {
            let (mut text, mut views) = (Vec::new(), [StrView::default(); VECTOR_ROWS]);
            let views = &mut views[..VECTOR_ROWS.min(rows - start)];
            opened.decode_str(start, &mut text, views);
            views.iter().any(|view| texts.contains(&view.as_str())).then_some(())
        });
        Ok(found.is_some())
    }

    /// The first rows of the vectors that may contain a value of `ranges` (ascending and disjoint); `hashes` are given if each is a single value.
    fn vectors(self, ranges: &[(i128, i128)], hashes: Option<&[u64]>) -> Result<Vec<usize>> {
        let rows = self.admitted(ranges, hashes)?;
        Ok(rows.into_iter().flat_map(|rows| rows.step_by(VECTOR_ROWS)).collect())
    }

    /// The rows of zones that admit one of these values; all rows without zones.
    fn admitted(self, ranges: &[(i128, i128)], hashes: Option<&[u64]>) -> Result<Vec<Range<usize>>> {
        let Self { base, segment, column } = self;
        let rows = base.segment_rows(segment);
        let all = Ok(std::iter::once(0..rows).collect());
        let Some(map) = base.zone_maps().iter().find(|map| map.segments().contains(&segment)) else { return all };
        let Some(ColumnZones { zones, remap: None }) = map.column(base, column)? else { return all };
        let wanted = zones.wanted(ranges, hashes, false);
        let (first, zone_rows) = (map.starts(base)[segment - map.segments().start].0, map.zone_rows());
        let mut tests = 0;
        let zones = (0..rows.div_ceil(zone_rows))
            .filter(|zone| zones.test(first + zone, &wanted, true, &mut tests) == Found::Perhaps)
            .map(|zone| zone * zone_rows..rows.min((zone + 1) * zone_rows));
        Ok(zones.collect())
    }
}

/// The values among `numbers` (ascending) of rows that are `kept`, in the vector from row `start` on.
fn numbers_at(opened: &Segment, start: usize, numbers: &[i64], kept: &impl Fn(usize) -> bool) -> Vec<i64> {
    let mut values = [0i64; VECTOR_ROWS];
    let values = &mut values[..VECTOR_ROWS.min(opened.rows() - start)];
    opened.decode_i64(start, values);
    let mut places = values.iter().enumerate().filter(|(_, value)| numbers.binary_search(value).is_ok()).peekable();
    if places.peek().is_none() {
        return vec![];
    }
    let valid = opened.validity(start, values.len());
    let is_valid = |at: usize| valid.as_ref().is_none_or(|valid| valid.get(at));
    places.filter(|(at, _)| kept(start + at) && is_valid(*at)).map(|(_, value)| *value).collect()
}
