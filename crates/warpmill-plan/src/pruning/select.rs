//! Predicates against metadata: which rows are left.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::Instant;

use rayon::prelude::*;
use warpmill_format::pruning::{Found, float_rank, string_rank};
use warpmill_format::table::ZoneMap;
use warpmill_format::{ColumnStats, FormatError, StatValue, TableSnapshot};

use super::bound::{Bound, Cause, runs};
use super::predicate::{Predicate, Values};
use super::{CodeSets, PruningMode, PruningReport, Ranges, SidewaysFilter};
use crate::Scan;

/// Keys of a hash build that a scan's column must be among.
#[derive(Debug, Clone)]
pub struct KeyRanges {
    /// Output column of the scan.
    pub column: usize,
    /// No key is outside of these.
    pub ranges: Ranges,
}

/// The rows of a scan that metadata does not rule out.
#[derive(Debug, Clone, Default)]
pub struct Selected {
    /// Row segment, first row and number of rows: in order, those of a row segment apart from each other.
    pub rows: Vec<(usize, usize, usize)>,
    /// What happened.
    pub report: PruningReport,
}

impl Selected {
    /// The row segments of which rows are left.
    pub fn segments(&self) -> Vec<usize> {
        let mut segments: Vec<usize> = self.rows.iter().map(|(segment, ..)| *segment).collect();
        segments.dedup();
        segments
    }

    /// Adds what is left of the row segments behind these.
    fn append(&mut self, mut other: Selected) {
        self.rows.append(&mut other.rows);
        self.report.append(&other.report);
    }

    /// Zones and rows that are left of row segment `segment` of `table`.
    pub fn left(&self, table: &TableSnapshot, segment: usize) -> (u64, u64) {
        let map = table.zone_maps().iter().find(|map| map.segments().contains(&segment));
        let zone_rows = map.map_or(usize::MAX, ZoneMap::zone_rows);
        let ranges = self.rows.iter().filter(|range| range.0 == segment);
        let (zones, rows) = ranges.fold((0, 0), |(zones, rows), (_, _, n)| (zones + n.div_ceil(zone_rows), rows + n));
        (zones as u64, rows as u64)
    }
}

/// What testing a range against a zone costs, in nanoseconds.
const TEST_NANOS: u64 = 40;

/// Tests may take as long as reading so many bytes, even of small tables.
const LEAST_BYTES: u64 = 80_000;

/// The rows of `scan` that are left, `keys` being those of finished hash builds. Reading takes a nanosecond for `bytes_per_nano` bytes of a
/// column at best: of what takes no time, little is worth finding out.
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
    let mut walk = Walk { conditions: &conditions, selected, budget, likely: 0 };
    let mut next = 0;
    for map in table.zone_maps() {
        walk.segments(next..map.segments().start, None)?;
        walk.map(map)?;
        next = map.segments().end;
    }
    walk.segments(next..table.num_segments(), None)?;
    let mut selected = walk.selected;
    selected.report.add(&table.left_out());
    selected.report.nanos += started.elapsed().as_nanos() as u64;
    Ok(selected)
}

/// Dictionaries that a predicate is evaluated for on the chance that it prunes.
const MOST_CODES: usize = 16 << 10;

fn small_dictionaries(expr: &crate::Expr) -> bool {
    expr.ty.dictionary.as_ref().is_none_or(|d| d.len() <= MOST_CODES)
        && expr.children().into_iter().all(small_dictionaries)
}

/// What rows of a scan have to satisfy.
pub(super) struct Conditions<'a> {
    pub scan: &'a Scan,
    pub filters: Predicate,
    pub keys: Vec<Predicate>,
    pub sideways: Vec<(&'a SidewaysFilter, Predicate)>,
    /// Whether histograms and Bloom filters are asked, too.
    pub fine: bool,
}

/// Zones, of those that bounds leave, that a thread is worth: waking one takes as long as some hundred tests.
const ZONES_OF_A_THREAD: usize = 4096;

/// The zones of some row segments.
struct Mapped<'a> {
    map: &'a ZoneMap,
    /// Zones of the map before those of the first of these row segments.
    first: usize,
    /// Its metadata for the conditions, once it is needed.
    bound: &'a OnceLock<Result<Bound, FormatError>>,
}

/// What testing may cost, in nanoseconds. It is asked for every zone: numbers that are not exact are fast.
#[derive(Clone, Copy)]
struct Budget {
    /// What the whole scan takes at best.
    scan: f64,
    /// And a row of it.
    row: f64,
    /// What may be spent on a scan however little it takes: reading so many bytes would take as long.
    least: f64,
    tests: u64,
    /// Rows that tests have ruled out.
    pruned: u64,
}

impl Budget {
    /// For a scan of so many bytes and rows.
    fn new(bytes: u64, rows: u64, bytes_per_nano: u64) -> Self {
        let nanos = |bytes: u64| bytes as f64 / bytes_per_nano.max(1) as f64;
        let scan = nanos(bytes);
        Self { scan, row: scan / rows.max(1) as f64, least: nanos(LEAST_BYTES), tests: 0, pruned: 0 }
    }

    fn is_spent(&self) -> bool {
        (self.tests * TEST_NANOS) as f64 > self.scan / 100.0 + self.pruned as f64 * self.row / 2.0 + self.least
    }
}

struct Walk<'a> {
    conditions: &'a Conditions<'a>,
    selected: Selected,
    budget: Budget,
    /// The attribute that ruled out a zone last.
    likely: usize,
}

impl Walk<'_> {
    /// Tests the row segments of a map, and its zones: where there are many, with several threads.
    fn map(&mut self, map: &ZoneMap) -> Result<(), FormatError> {
        let (segments, table) = (map.segments(), &self.conditions.scan.table);
        let mut firsts = vec![0];
        for segment in segments.clone() {
            firsts.push(firsts[firsts.len() - 1] + table.segment_rows(segment).div_ceil(map.zone_rows()));
        }
        let bound = OnceLock::new();
        let mapped = |segment: usize| Mapped { map, first: firsts[segment - segments.start], bound: &bound };
        // What bounds rule out of many zones takes no thread of its own.
        let zones = firsts[firsts.len() - 1];
        let left = if zones < 2 * ZONES_OF_A_THREAD {
            zones
        } else {
            let bound = bound.get_or_init(|| Bound::new(self.conditions, map));
            bound.as_ref().map_or(0, |bound| bound.out_of_bounds.iter().filter(|verdict| **verdict == 0).count())
        };
        let pieces = (left / ZONES_OF_A_THREAD).min(rayon::current_num_threads()).min(segments.len());
        if pieces < 2 {
            self.segments(segments.clone(), Some(mapped(segments.start)))?;
        } else {
            let of = |piece: usize| segments.start + piece * segments.len() / pieces;
            let budget = Budget { scan: self.budget.scan / pieces as f64, tests: 0, pruned: 0, ..self.budget };
            let walked: Vec<Selected> = (0..pieces)
                .into_par_iter()
                .map(|piece| {
                    let selected = Selected::default();
                    let mut walk = Walk { conditions: self.conditions, selected, budget, likely: 0 };
                    walk.segments(of(piece)..of(piece + 1), Some(mapped(of(piece))))?;
                    Ok(walk.selected)
                })
                .collect::<Result<_, FormatError>>()?;
            walked.into_iter().for_each(|found| self.selected.append(found));
        }
        match bound.into_inner() {
            Some(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Tests row segments, and those of their zones that `mapped` tells of.
    fn segments(&mut self, segments: Range<usize>, mapped: Option<Mapped<'_>>) -> Result<(), FormatError> {
        let scan = self.conditions.scan;
        let mut zone = mapped.as_ref().map_or(0, |mapped| mapped.first);
        for segment in segments {
            let rows = scan.table.segment_rows(segment);
            let zone_rows = mapped.as_ref().map_or(rows, |mapped| mapped.map.zone_rows());
            let zones = rows.div_ceil(zone_rows);
            let first = zone;
            zone += zones;
            self.selected.report.segments += 1;
            self.selected.report.zones += zones as u64;
            self.selected.report.rows += rows as u64;
            let known = mapped.as_ref().and_then(|mapped| mapped.bound.get()?.as_ref().ok());
            if let Some(verdicts) = known.and_then(|bound| bound.rule_out(first..zone)) {
                for (cause, run) in runs(verdicts) {
                    let len = rows.min(run.end * zone_rows) - run.start * zone_rows;
                    cause.into_iter().for_each(|cause| self.prune(cause, run.len() as u64, len as u64));
                }
                self.selected.report.segments_pruned += 1;
                continue;
            }
            // Bounds of zones say all that those of their row segment do.
            let by_statistics =
                if known.is_some_and(|bound| bound.is_complete) { None } else { self.by_statistics(segment) };
            if let Some(cause) = by_statistics {
                self.prune(cause, zones as u64, rows as u64);
                self.selected.report.segments_pruned += 1;
                continue;
            }
            // Bounds tell also where finer testing has stopped.
            let bound = match &mapped {
                Some(mapped) => {
                    // Who asks for all of it says what is wrong with it.
                    let bound = mapped.bound.get_or_init(|| Bound::new(self.conditions, mapped.map));
                    let Ok(bound) = bound else { return Ok(()) };
                    Some(bound)
                }
                None => None,
            };
            let Some(bound) = bound.filter(|bound| !bound.tells_nothing()) else {
                self.keep(segment, 0, rows);
                continue;
            };
            let before = self.selected.rows.len();
            for (cause, run) in runs(&bound.out_of_bounds[first..zone]) {
                let len = rows.min(run.end * zone_rows) - run.start * zone_rows;
                match cause {
                    Some(cause) => self.prune(cause, run.len() as u64, len as u64),
                    None if !bound.tells_more || self.selected.report.stopped => {
                        self.keep(segment, run.start * zone_rows, len);
                    }
                    None => run.for_each(|i| {
                        let len = zone_rows.min(rows - i * zone_rows);
                        self.finer(bound, (segment, first + i), (i * zone_rows, len));
                    }),
                }
            }
            self.selected.report.segments_pruned += u64::from(self.selected.rows.len() == before);
        }
        Ok(())
    }

    /// Tests a zone that bounds do not rule out, unless that does not pay.
    fn finer(&mut self, bound: &Bound, (segment, zone): (usize, usize), (start, rows): (usize, usize)) {
        self.selected.report.stopped |= self.budget.is_spent();
        let found = match self.selected.report.stopped {
            true => None,
            false => bound.excludes(zone, &mut self.likely, &mut self.budget.tests),
        };
        match found {
            Some(cause) => {
                self.budget.pruned += rows as u64;
                self.prune(cause, 1, rows as u64);
            }
            None => self.keep(segment, start, rows),
        }
    }

    fn keep(&mut self, segment: usize, start: usize, rows: usize) {
        match self.selected.rows.last_mut() {
            Some((last, from, count)) if *last == segment && *from + *count == start => *count += rows,
            _ => self.selected.rows.push((segment, start, rows)),
        }
    }

    fn prune(&mut self, cause: Cause, zones: u64, rows: u64) {
        let report = &mut self.selected.report;
        *match cause {
            Cause::Filters(Found::NotInHistogram) => &mut report.by_histogram,
            Cause::Filters(Found::NotInBloom) => &mut report.by_bloom,
            Cause::Filters(_) => &mut report.by_minmax,
            Cause::Sideways => &mut report.by_sideways,
            Cause::Keys => &mut report.by_keys,
        } += zones;
        report.rows_pruned += rows;
    }

    /// What the statistics of a row segment rule out.
    fn by_statistics(&self, segment: usize) -> Option<Cause> {
        let Conditions { scan, filters, keys, .. } = self.conditions;
        let find = |values: &Values| {
            let column = scan.columns[values.column];
            by_bounds(values, scan.table.segment_stats(segment, column), &scan.table, column)
        };
        if test(filters, &find) != Found::Perhaps {
            return Some(Cause::Filters(Found::OutOfBounds));
        }
        keys.iter().any(|key| test(key, &find) != Found::Perhaps).then_some(Cause::Keys)
    }
}

/// What rules out that a predicate holds of a row, of which `find` tells for conditions on columns.
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
            // The code of the bound, or of the string after it.
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
