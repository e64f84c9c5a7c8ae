//! The row segments of few rows that a write merges.

use std::ops::Range;

use super::directory::Stamp;
use super::{Table, TableSnapshot};

/// Number of row segments of about the same number of rows that are merged at the end of a table, and the factor between such numbers.
const ALIKE: usize = 4;
/// Levels of such numbers: row segments of [`ALIKE`] to the power of it, 16384 rows, and more are not merged.
const LEVELS: u32 = 7;
/// Most bytes of values of row segments that are merged with what is written.
const MOST_MERGED_BYTES: u64 = 4 << 20;

/// Whether the next version of `table`, of whose version `stamp` is, may as well have a manifest: it cannot be in the log, or the newest one is in none.
pub(super) fn is_manifest_due(table: &Table, stamp: Option<&Stamp>) -> bool {
    let committed = table.forked().and_then(|of| of.last_stamp());
    let log = committed.as_ref().or(stamp).and_then(|stamp| stamp.log.as_ref());
    log.is_none_or(|log| log.is_empty() || !log.has_room(0))
}

/// The number of row segments, the first ones, of which the committed version of `table` has pruning metadata: merging one of them takes a manifest.
pub(super) fn mapped_segments(table: &Table, base: &TableSnapshot) -> usize {
    let committed = table.forked().and_then(|of| of.last_snapshot());
    committed.as_deref().unwrap_or(base).zone_maps().last().map_or(0, |map| map.segments().end)
}

/// The row segments at the end of `base` to be merged: [`ALIKE`] or more of a level, with the smaller ones after them, of at most `full` rows together.
/// None before `free`.
pub(super) fn tail_range(base: &TableSnapshot, full: usize, free: usize) -> Option<Range<usize>> {
    let (end, mut first, mut found) = (base.num_segments(), base.num_segments(), None);
    let (mut rows, mut bytes) = (0, 0);
    let level_of = |segment: usize| base.kept_rows(segment).max(1).ilog(ALIKE);
    let columns = base.schema().fields().len();
    let bytes_of = |segment: usize| -> u64 { (0..columns).map(|c| base.segment_stats(segment, c).plain_bytes).sum() };
    for level in 0..LEVELS {
        let mut alike = 0;
        while first > free && level_of(first - 1) <= level {
            rows += base.kept_rows(first - 1);
            bytes += bytes_of(first - 1);
            if rows > full || bytes > MOST_MERGED_BYTES {
                return found;
            }
            first -= 1;
            alike += usize::from(level_of(first) == level);
        }
        if alike >= ALIKE {
            found = Some(first..end);
        }
    }
    found
}

/// Ranges of neighbouring row segments of fewer than `small` rows each that together fit a full one: at least two, or one with deleted rows.
pub(super) fn small_ranges(base: &TableSnapshot, (full, small): (usize, usize), most_bytes: u64) -> Vec<Range<usize>> {
    let columns = base.schema().fields().len();
    let bytes = |segment: usize| -> u64 { (0..columns).map(|c| base.segment_stats(segment, c).plain_bytes).sum() };
    let (mut ranges, mut first) = (vec![], 0);
    while first < base.num_segments() {
        let (mut rows, mut size, mut next) = (0, 0, first);
        while next < base.num_segments() && base.kept_rows(next) < small {
            (rows, size) = (rows + base.kept_rows(next), size + bytes(next));
            if next > first && (rows > full || size > most_bytes) {
                break;
            }
            next += 1;
        }
        let end = next.max(first + 1);
        if end - first > 1 || base.kept_rows(first) < base.segment_rows(first) {
            ranges.push(first..end);
        }
        first = end;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Schema;

    use super::super::{RowSegment, Version};
    use super::*;

    struct Case {
        rows: &'static [usize],
        free: usize,
        expected: Option<Range<usize>>,
    }

    fn table(rows: &[usize]) -> Arc<TableSnapshot> {
        let segments = rows.iter().map(|&rows| RowSegment { rows, columns: vec![], deletions: None }).collect();
        TableSnapshot::new(None, Version { segments, ..Version::empty(1, Arc::new(Schema::empty())) })
    }

    #[test]
    fn row_segments_that_are_alike_are_merged() {
        let case = |rows, free, expected| Case { rows, free, expected };
        let cases = [
            case(&[1, 1, 1], 0, None),
            case(&[100, 1, 1, 1, 1], 0, Some(1..5)),
            case(&[4, 4, 4, 4, 1, 1, 1], 0, Some(0..7)),
            case(&[4, 4, 4, 4, 1, 1, 1, 1], 2, Some(4..8)),
            // Without rows.
            case(&[0, 1, 0, 0], 0, Some(0..4)),
            case(&[], 0, None),
        ];
        for Case { rows, free, expected } in cases {
            assert_eq!(tail_range(&table(rows), 1000, free), expected, "{rows:?} from {free} on");
        }
    }
}
