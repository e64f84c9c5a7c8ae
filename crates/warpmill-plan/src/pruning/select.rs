//! Predicates against metadata: which rows are left.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rayon::prelude::*;
use warpmill_format::pruning::{Found, Zones, float_rank, string_rank};
use warpmill_format::table::ZoneMap;
use warpmill_format::{ColumnStats, FormatError, StatValue, TableSnapshot};

use super::predicate::{MOST_RANGES, Predicate, Values};
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
const TEST_NANOS: u64 = 20;

/// What reading a byte of a column takes at best: this part of a nanosecond.
const BYTES_PER_NANO: u64 = 4;

/// The rows of `scan` that are left, `keys` being those of finished hash builds.
///
/// # Errors
/// Unreadable metadata.
pub fn select(scan: &Scan, keys: &[KeyRanges], codes: CodeSets<'_>) -> Result<Selected, FormatError> {
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
    let budget = Budget { scan: stored / BYTES_PER_NANO, rows: table.num_rows().max(1), tests: 0, pruned: 0 };
    let mut walk = Walk { conditions: &conditions, selected, budget };
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

struct Conditions<'a> {
    scan: &'a Scan,
    filters: Predicate,
    keys: Vec<Predicate>,
    sideways: Vec<(&'a SidewaysFilter, Predicate)>,
    fine: bool,
}

/// Zones, of those that bounds leave, that a thread is worth: waking one takes as long as some hundred tests.
const ZONES_OF_A_THREAD: usize = 4096;

/// Ranges that all zones are tested against at once; of more, what is outside of all of them.
const FEW_RANGES: usize = 8;

/// The zones of some row segments.
struct Mapped<'a> {
    map: &'a ZoneMap,
    /// Zones of the map before those of the first of these row segments.
    first: usize,
    /// Its metadata for the conditions, once it is needed.
    bound: &'a OnceLock<Result<Bound, FormatError>>,
}

/// What testing may cost.
#[derive(Clone, Copy)]
struct Budget {
    /// Nanoseconds that the whole scan takes at best.
    scan: u64,
    rows: u64,
    tests: u64,
    /// Rows that tests have ruled out.
    pruned: u64,
}

impl Budget {
    fn is_spent(&self) -> bool {
        let saved = (u128::from(self.scan) * u128::from(self.pruned) / u128::from(self.rows)) as u64;
        self.tests * TEST_NANOS > self.scan / 100 + saved / 2 + 20_000
    }
}

/// What ruled rows out.
#[derive(Clone, Copy)]
enum Cause {
    Filters(Found),
    Sideways,
    Keys,
}

/// What bounds say of a zone: 0, that rows there are left, or a number of [`BY_BOUNDS`], counted from 1.
type Verdict = u8;

/// What bounds are asked for, in turn.
const BY_BOUNDS: [Cause; 3] = [Cause::Filters(Found::OutOfBounds), Cause::Sideways, Cause::Keys];

/// What ruled a zone out.
fn cause_of(verdict: Verdict) -> Option<Cause> {
    usize::from(verdict).checked_sub(1).map(|cause| BY_BOUNDS[cause])
}

struct Walk<'a> {
    conditions: &'a Conditions<'a>,
    selected: Selected,
    budget: Budget,
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
            let Budget { scan, rows, .. } = self.budget;
            let budget =
                Budget { scan: scan / pieces as u64, rows: (rows / pieces as u64).max(1), tests: 0, pruned: 0 };
            let walked: Vec<Selected> = (0..pieces)
                .into_par_iter()
                .map(|piece| {
                    let mut walk = Walk { conditions: self.conditions, selected: Selected::default(), budget };
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
                for (i, cause) in verdicts.iter().enumerate().filter_map(|(i, verdict)| Some((i, cause_of(*verdict)?)))
                {
                    self.prune(cause, 1, zone_rows.min(rows - i * zone_rows) as u64);
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
            // Where testing has stopped, bounds that are known still tell.
            let bound = match &mapped {
                Some(mapped) if !self.selected.report.stopped => {
                    // Who asks for all of it says what is wrong with it.
                    let bound = mapped.bound.get_or_init(|| Bound::new(self.conditions, mapped.map));
                    let Ok(bound) = bound else { return Ok(()) };
                    Some(bound)
                }
                _ => known,
            };
            let Some(bound) = bound.filter(|bound| !bound.tells_nothing()) else {
                self.keep(segment, 0, rows);
                continue;
            };
            let before = self.selected.rows.len();
            for i in 0..zones {
                let (start, len) = (i * zone_rows, zone_rows.min(rows - i * zone_rows));
                if self.budget.is_spent() {
                    self.selected.report.stopped = true;
                }
                let by_bounds = bound.out_of_bounds.get(first + i).and_then(|verdict| cause_of(*verdict));
                let finer = match by_bounds {
                    None if !self.selected.report.stopped => bound.excludes(first + i, &mut self.budget.tests),
                    _ => None,
                };
                // What bounds rule out cost nothing: finer tests have to pay for themselves.
                self.budget.pruned += if finer.is_some() { len as u64 } else { 0 };
                match by_bounds.or(finer) {
                    Some(cause) => self.prune(cause, 1, len as u64),
                    None => self.keep(segment, start, len),
                }
            }
            self.selected.report.segments_pruned += u64::from(self.selected.rows.len() == before);
        }
        Ok(())
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

/// How many zones a map has.
fn zones_of(map: &ZoneMap, scan: &Scan) -> usize {
    map.segments().map(|segment| scan.table.segment_rows(segment).div_ceil(map.zone_rows())).sum()
}

/// Conditions with the metadata that tells of them.
struct Bound {
    filters: Node,
    sideways: Vec<Node>,
    keys: Vec<Node>,
    fine: bool,
    /// Whether there is metadata of every column that filters and keys are about.
    is_complete: bool,
    /// What rules out zones by their bounds, as far as that can be told of all of them at once.
    out_of_bounds: Vec<Verdict>,
}

/// A predicate with its metadata.
enum Node {
    Never,
    Unknown,
    All(Vec<Node>),
    Any(Vec<Node>),
    Values { zones: Arc<Zones>, ranges: Ranges, hashes: Option<Vec<u64>>, nulls: bool },
}

/// The zones of a column, and its codes in them.
type Metadata = Option<(Arc<Zones>, Option<Arc<[u32]>>)>;

impl Node {
    fn new(
        predicate: &Predicate,
        zones: &mut impl FnMut(usize) -> Result<Metadata, FormatError>,
    ) -> Result<Self, FormatError> {
        Ok(match predicate {
            Predicate::Never => Node::Never,
            Predicate::Unknown => Node::Unknown,
            Predicate::All(list) => {
                let list = list.iter().map(|p| Node::new(p, zones)).collect::<Result<Vec<_>, _>>()?;
                Node::All(list)
            }
            Predicate::Any(list) => {
                let list = list.iter().map(|p| Node::new(p, zones)).collect::<Result<Vec<_>, _>>()?;
                if list.iter().any(Node::is_unknown) { Node::Unknown } else { Node::Any(list) }
            }
            Predicate::Values(values) => match zones(values.column)? {
                None => Node::Unknown,
                Some((zones, None)) => {
                    let (ranges, hashes) = (values.ranges.clone(), values.hashes.clone());
                    Node::Values { zones, ranges, hashes, nulls: values.nulls }
                }
                Some((zones, Some(remap))) => {
                    let ranges = values.ranges.before(&remap).with_at_most(MOST_RANGES);
                    match Predicate::of_ranges(0, ranges) {
                        Predicate::Values(Values { ranges, hashes, .. }) => {
                            Node::Values { zones, ranges, hashes, nulls: values.nulls }
                        }
                        _ if values.nulls => {
                            Node::Values { zones, ranges: Ranges::default(), hashes: None, nulls: true }
                        }
                        _ => Node::Never,
                    }
                }
            },
        })
    }

    fn is_unknown(&self) -> bool {
        match self {
            Node::Unknown => true,
            Node::All(list) => list.iter().all(Node::is_unknown),
            Node::Any(list) => list.iter().any(Node::is_unknown),
            Node::Never | Node::Values { .. } => false,
        }
    }

    /// By zone, of so many: whether bounds rule it out. `None`: they rule out none.
    fn out_of_bounds(&self, count: usize) -> Option<Vec<bool>> {
        let combine = |mut a: Vec<bool>, b: Vec<bool>, or: bool| {
            match or {
                true => a.iter_mut().zip(b).for_each(|(a, b)| *a |= b),
                false => a.iter_mut().zip(b).for_each(|(a, b)| *a &= b),
            }
            a
        };
        match self {
            Node::Never => Some(vec![true; count]),
            Node::Unknown => None,
            Node::All(list) => {
                list.iter().filter_map(|node| node.out_of_bounds(count)).reduce(|a, b| combine(a, b, true))
            }
            Node::Any(list) => {
                let all: Option<Vec<Vec<bool>>> = list.iter().map(|node| node.out_of_bounds(count)).collect();
                all?.into_iter().reduce(|a, b| combine(a, b, false))
            }
            Node::Values { zones, ranges, nulls, .. } => {
                let all = ranges.as_slice();
                let hull = all.first().zip(all.last()).map(|(first, last)| (first.0, last.1));
                let tested = if all.len() <= FEW_RANGES { all } else { hull.as_slice() };
                (zones.len() == count).then(|| zones.out_of_bounds(tested, *nulls))
            }
        }
    }

    fn test(&self, zone: usize, fine: bool, tests: &mut u64) -> Found {
        match self {
            Node::Never => Found::OutOfBounds,
            Node::Unknown => Found::Perhaps,
            Node::All(list) => {
                let mut most = Found::Perhaps;
                for node in list {
                    most = most.max(node.test(zone, fine, tests));
                    if most == Found::OutOfBounds {
                        break;
                    }
                }
                most
            }
            Node::Any(list) => {
                let mut least = Found::OutOfBounds;
                for node in list {
                    least = least.min(node.test(zone, fine, tests));
                    if least == Found::Perhaps {
                        break;
                    }
                }
                least
            }
            Node::Values { zones, ranges, hashes, nulls } => {
                *tests += 1;
                if *nulls && zones.has_nulls(zone) {
                    return Found::Perhaps;
                }
                let Some(bounds) = zones.bounds(zone) else { return Found::OutOfBounds };
                let near = ranges.within(bounds);
                if !fine && !near.is_empty() {
                    return Found::Perhaps;
                }
                let mut least = Found::OutOfBounds;
                for i in near {
                    *tests += 1;
                    let hash = hashes.as_ref().map(|hashes| hashes[i]);
                    least = least.min(zones.find(zone, ranges.as_slice()[i], hash, true));
                    if least == Found::Perhaps {
                        break;
                    }
                }
                least
            }
        }
    }
}

impl Bound {
    fn new(conditions: &Conditions<'_>, map: &ZoneMap) -> Result<Self, FormatError> {
        let Conditions { scan, filters, keys, sideways, fine } = conditions;
        let mut is_complete = true;
        let mut zones = |column: usize| {
            let found = map.column(&scan.table, scan.columns[column])?;
            is_complete &= found.is_some();
            Ok(found.map(|found| (found.zones, found.remap)))
        };
        let filters = Node::new(filters, &mut zones)?;
        let keys = keys.iter().map(|key| Node::new(key, &mut zones)).collect::<Result<_, _>>()?;
        let mut attributes = vec![];
        for (filter, predicate) in sideways {
            let own = scan.columns[filter.column];
            if !map.has_attributes(own) {
                continue;
            }
            let mut zones = |column: usize| {
                let other = (&*filter.table, filter.key, filter.columns[column]);
                Ok(map.attribute((&scan.table, own), other)?.map(|zones| (zones, None)))
            };
            attributes.push(Node::new(predicate, &mut zones)?);
        }
        let out_of_bounds = vec![0; zones_of(map, scan)];
        let mut bound = Self { filters, sideways: attributes, keys, fine: *fine, is_complete, out_of_bounds };
        bound.test_bounds();
        Ok(bound)
    }

    /// Tests all zones at once.
    fn test_bounds(&mut self) {
        let count = self.out_of_bounds.len();
        let nodes = [std::slice::from_ref(&self.filters), &self.sideways, &self.keys];
        for (verdict, nodes) in (1..).zip(nodes) {
            for out in nodes.iter().filter_map(|node| node.out_of_bounds(count)) {
                for (known, out) in self.out_of_bounds.iter_mut().zip(out) {
                    *known = if *known == 0 { Verdict::from(out) * verdict } else { *known };
                }
            }
        }
    }

    /// What rules out each of some zones, where bounds rule out all of them.
    fn rule_out(&self, zones: Range<usize>) -> Option<&[Verdict]> {
        self.out_of_bounds.get(zones).filter(|all| !all.contains(&0))
    }

    fn tells_nothing(&self) -> bool {
        self.filters.is_unknown() && self.sideways.iter().chain(&self.keys).all(Node::is_unknown)
    }

    fn excludes(&self, zone: usize, tests: &mut u64) -> Option<Cause> {
        let found = self.filters.test(zone, self.fine, tests);
        if found != Found::Perhaps {
            return Some(Cause::Filters(found));
        }
        if self.sideways.iter().any(|node| node.test(zone, self.fine, tests) != Found::Perhaps) {
            return Some(Cause::Sideways);
        }
        self.keys.iter().any(|node| node.test(zone, self.fine, tests) != Found::Perhaps).then_some(Cause::Keys)
    }
}
