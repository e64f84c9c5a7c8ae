//! Tests predicates against metadata to select rows.

use std::ops::Range;
use std::time::Instant;

use warpmill_format::pruning::{Found, float_rank, string_rank};
use warpmill_format::table::ZoneMap;
use warpmill_format::{ColumnStats, FormatError, StatValue, TableSnapshot};

use super::bound::{Bound, Verdict};
use super::budget::{Budget, finer};
use super::predicate::{Predicate, Values};
use super::{CodeSets, PruningMode, PruningReport, Ranges, SidewaysFilter};
use crate::Scan;

/// Keys of a hash build that a scan's column must match.
#[derive(Debug, Clone)]
pub struct KeyRanges {
    /// Output column of the scan.
    pub column: usize,
    /// Ranges that contain all keys.
    pub ranges: Ranges,
}

/// The rows of a scan that metadata leaves.
#[derive(Debug, Clone, Default)]
pub struct Selected {
    /// Row segment, first row and number of rows: in order, disjoint and not adjacent within a row segment.
    pub rows: Vec<(usize, usize, usize)>,
    /// The report of the selection.
    pub report: PruningReport,
}

impl Selected {
    /// The row segments with remaining rows.
    pub fn segments(&self) -> Vec<usize> {
        let mut segments: Vec<usize> = self.rows.iter().map(|(segment, ..)| *segment).collect();
        segments.dedup();
        segments
    }

    /// Number of remaining zones and rows of row segment `segment` of `table`.
    pub fn left(&self, table: &TableSnapshot, segment: usize) -> (u64, u64) {
        let map = table.zone_maps().iter().find(|map| map.segments().contains(&segment));
        let zone_rows = map.map_or(usize::MAX, ZoneMap::zone_rows);
        let ranges = self.rows.iter().filter(|range| range.0 == segment);
        let (zones, rows) = ranges.fold((0, 0), |(zones, rows), (_, _, n)| (zones + n.div_ceil(zone_rows), rows + n));
        (zones as u64, rows as u64)
    }
}

/// Selects the rows of `scan`, with `keys` of finished hash builds. `bytes_per_nano` is the best speed of reading a column, in bytes per nanosecond:
/// it limits the time spent on pruning.
///
/// # Errors
/// Unreadable metadata.
pub fn select(
    scan: &Scan,
    keys: &[KeyRanges],
    codes: CodeSets<'_>,
    bytes_per_nano: u64,
) -> Result<Selected, FormatError> {
    let started = Instant::now();
    let table = &scan.table;
    let mut selected = Selected::default();
    if scan.pruning == PruningMode::None {
        selected.rows = (0..table.num_segments()).map(|segment| (segment, 0, table.segment_rows(segment))).collect();
        selected.report = PruningReport {
            segments: table.num_segments() as u64,
            zones: table.num_segments() as u64,
            rows: table.num_rows(),
            ..PruningReport::default()
        };
        return Ok(selected);
    }
    let fine = scan.pruning == PruningMode::All;
    let sideways = scan.sideways.iter().map(|filter| {
        let few = |expr: &crate::Expr| small_dictionaries(expr);
        let codes = |expr: &crate::Expr| if few(expr) { codes(expr) } else { None };
        (filter, Predicate::of_filters(&filter.filters, &codes))
    });
    let sideways: Vec<_> = sideways.filter(|(_, predicate)| *predicate != Predicate::Unknown).collect();
    let conditions = Conditions {
        scan,
        filters: Predicate::of_filters(&scan.filters, codes),
        keys: keys.iter().map(|key| Predicate::of_ranges(key.column, key.ranges.clone())).collect(),
        sideways,
        fine,
    };
    let stored: u64 = scan.columns.iter().map(|&column| table.column_stats(column).stored_bytes).sum();
    let budget = Budget::new(stored, table.num_rows(), bytes_per_nano);
    let mut walk = Walk { conditions: &conditions, selected, budget };
    let mut next = 0;
    for map in table.zone_maps() {
        walk.segments(next..map.segments().start);
        walk.map(map)?;
        next = map.segments().end;
    }
    walk.segments(next..table.num_segments());
    let mut selected = walk.selected;
    selected.report.add(&table.left_out());
    selected.report.nanos += started.elapsed().as_nanos() as u64;
    Ok(selected)
}

/// Largest total size of dictionaries for which a predicate is evaluated on the chance that it prunes.
const MOST_CODES: usize = 16 << 10;

fn small_dictionaries(expr: &crate::Expr) -> bool {
    expr.ty.dictionary.as_ref().is_none_or(|d| d.len() <= MOST_CODES)
        && expr.children().into_iter().all(small_dictionaries)
}

/// The conditions on rows of a scan.
pub(super) struct Conditions<'a> {
    pub scan: &'a Scan,
    pub filters: Predicate,
    pub keys: Vec<Predicate>,
    pub sideways: Vec<(&'a SidewaysFilter, Predicate)>,
    /// Whether to test histograms and Bloom filters, too.
    pub fine: bool,
}

/// Largest number of zones for which statistics of row segments are tested before metadata is opened.
const FEW_ZONES: usize = 8192;

/// State of the selection: visits the rows of a scan in order.
struct Walk<'a> {
    conditions: &'a Conditions<'a>,
    selected: Selected,
    budget: Budget,
}

impl Walk<'_> {
    /// Visits row segments without zone maps.
    fn segments(&mut self, segments: Range<usize>) {
        for segment in segments {
            let rows = self.conditions.scan.table.segment_rows(segment);
            self.take((self.by_statistics(segment), 1), &mut std::iter::once((segment, 0, rows)));
            self.count_segments(segment..segment + 1);
        }
    }

    /// Visits the row segments and zones of a map.
    fn map(&mut self, map: &ZoneMap) -> Result<(), FormatError> {
        let (segments, starts) = (map.segments(), map.starts(&self.conditions.scan.table));
        let (zones, rows) = starts[segments.len()];
        let mut verdicts = vec![];
        // Metadata is opened only if statistics are not enough, or slower to test.
        if zones < FEW_ZONES {
            for (segment, pair) in segments.clone().zip(starts.windows(2)) {
                match self.by_statistics(segment) {
                    Verdict::Left => break,
                    verdict => verdicts.resize(pair[1].0, verdict),
                }
            }
        }
        if verdicts.len() < zones {
            let bound = Bound::new(self.conditions, map)?;
            let known = verdicts.len();
            verdicts.extend(&bound.out_of_bounds()[known..]);
            // Bounds of zones make those of their row segment redundant.
            if !bound.is_complete {
                for (segment, pair) in segments.clone().zip(starts.windows(2)) {
                    let zones = &mut verdicts[pair[0].0..pair[1].0];
                    if zones.contains(&Verdict::Left) {
                        let verdict = self.by_statistics(segment);
                        zones.iter_mut().filter(|zone| **zone == Verdict::Left).for_each(|zone| *zone = verdict);
                    }
                }
            }
            if bound.tells_more && !self.selected.report.stopped {
                self.selected.report.stopped = finer(&bound, (rows / zones) as u64, &mut verdicts, &mut self.budget);
            }
        }
        let (mut at, mut first) = (0, 0);
        for run in verdicts.chunk_by(|a, b| a == b) {
            let (mut zone, end) = (first, first + run.len());
            // The pieces of the run of zones, by row segment.
            let mut pieces = std::iter::from_fn(|| {
                if zone == end {
                    return None;
                }
                while starts[at + 1].0 <= zone {
                    at += 1;
                }
                let ((before, rows), behind) = (starts[at], starts[at + 1]);
                let until = end.min(behind.0);
                let (from, to) = ((zone - before) * map.zone_rows(), (until - before) * map.zone_rows());
                zone = until;
                Some((segments.start + at, from, to.min(behind.1 - rows) - from))
            });
            self.take((run[0], run.len()), &mut pieces);
            first = end;
        }
        self.count_segments(segments);
        Ok(())
    }

    /// Keeps or drops a run of zones, with these rows of row segments.
    fn take(&mut self, (verdict, zones): (Verdict, usize), pieces: &mut dyn Iterator<Item = (usize, usize, usize)>) {
        let mut all = 0;
        for (segment, start, rows) in pieces {
            all += rows as u64;
            if verdict == Verdict::Left {
                self.keep(segment, start, rows);
            }
        }
        let report = &mut self.selected.report;
        report.zones += zones as u64;
        report.rows += all;
        let pruned = match verdict {
            Verdict::Left => return,
            Verdict::OutOfBounds => &mut report.by_minmax,
            Verdict::NotInHistogram => &mut report.by_histogram,
            Verdict::NotInBloom => &mut report.by_bloom,
            Verdict::Sideways => &mut report.by_sideways,
            Verdict::Keys => &mut report.by_keys,
        };
        *pruned += zones as u64;
        report.rows_pruned += all;
    }

    /// Counts row segments that have been visited completely.
    fn count_segments(&mut self, segments: Range<usize>) {
        let rows = &self.selected.rows;
        let before = rows.partition_point(|(segment, ..)| *segment < segments.start);
        let left = rows[before..].chunk_by(|a, b| a.0 == b.0).count();
        self.selected.report.segments += segments.len() as u64;
        self.selected.report.segments_pruned += (segments.len() - left) as u64;
    }

    fn keep(&mut self, segment: usize, start: usize, rows: usize) {
        match self.selected.rows.last_mut() {
            Some((last, from, count)) if *last == segment && *from + *count == start => *count += rows,
            _ => self.selected.rows.push((segment, start, rows)),
        }
    }

    /// The verdict of the statistics of a row segment.
    fn by_statistics(&self, segment: usize) -> Verdict {
        let Conditions { scan, filters, keys, .. } = self.conditions;
        let find = |values: &Values| {
            let column = scan.columns[values.column];
            by_bounds(values, scan.table.segment_stats(segment, column), &scan.table, column)
        };
        if test(filters, &find) != Found::Perhaps {
            return Verdict::OutOfBounds;
        }
        if keys.iter().any(|key| test(key, &find) != Found::Perhaps) { Verdict::Keys } else { Verdict::Left }
    }
}

/// The verdict on a predicate for a set of rows; `find` decides conditions on columns.
pub(super) fn test(predicate: &Predicate, find: &impl Fn(&Values) -> Found) -> Found {
    match predicate {
        Predicate::Never => Found::OutOfBounds,
        Predicate::Unknown => Found::Perhaps,
        Predicate::All(list) => list.iter().map(|p| test(p, find)).max().unwrap_or(Found::Perhaps),
        Predicate::Any(list) => {
            let mut least = Found::OutOfBounds;
            for predicate in list {
                least = least.min(test(predicate, find));
                if least == Found::Perhaps {
                    break;
                }
            }
            least
        }
        Predicate::Values(values) => find(values),
    }
}

/// Whether rows with these statistics can be among `values`.
pub(super) fn by_bounds(values: &Values, stats: &ColumnStats, table: &TableSnapshot, column: usize) -> Found {
    if values.nulls && stats.nulls > 0 {
        return Found::Perhaps;
    }
    if stats.nulls == stats.rows {
        return Found::OutOfBounds;
    }
    let rank = |bound: &Option<StatValue>, last: bool| match (bound, table.dictionary(column)) {
        (Some(StatValue::Str(text)), Some(dictionary)) => {
            // The code of the bound, or of the next string.
            let code = dictionary.lower_bound(text);
            Some(if last { code.min((dictionary.len() as u32).saturating_sub(1)) } else { code }.into())
        }
        (Some(StatValue::Str(text)), None) => Some(string_rank(text.as_bytes())),
        (Some(StatValue::Int(value)), _) => Some(*value),
        (Some(StatValue::Float(value)), _) => Some(float_rank(*value)),
        (None, _) => None,
    };
    let bounds = (rank(&stats.min, false).unwrap_or(i128::MIN), rank(&stats.max, true).unwrap_or(i128::MAX));
    if values.ranges.within(bounds).is_empty() { Found::OutOfBounds } else { Found::Perhaps }
}
