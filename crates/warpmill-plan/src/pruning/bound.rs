//! Conditions with the metadata of a table's zones, and what that says of each zone.

use std::ops::Range;
use std::sync::Arc;

use warpmill_format::FormatError;
use warpmill_format::pruning::{Found, Zones};
use warpmill_format::table::ZoneMap;

use super::Ranges;
use super::predicate::{MOST_RANGES, Predicate, Values};
use super::select::Conditions;
use crate::Scan;

/// Ranges that all zones are tested against at once; of more, what is outside of all of them.
const FEW_RANGES: usize = 8;

/// What ruled rows out.
#[derive(Clone, Copy)]
pub(super) enum Cause {
    Filters(Found),
    Sideways,
    Keys,
}

/// What bounds say of a zone: 0, that rows there are left, or a number of [`BY_BOUNDS`], counted from 1.
pub(super) type Verdict = u8;

/// What bounds are asked for, in turn.
const BY_BOUNDS: [Cause; 3] = [Cause::Filters(Found::OutOfBounds), Cause::Sideways, Cause::Keys];

/// What ruled zones out, for those in a row of which that is the same: by their positions.
pub(super) fn runs(verdicts: &[Verdict]) -> impl Iterator<Item = (Option<Cause>, Range<usize>)> {
    let mut from = 0;
    verdicts.chunk_by(|a, b| a == b).map(move |run| {
        let positions = from..from + run.len();
        from = positions.end;
        (usize::from(run[0]).checked_sub(1).map(|cause| BY_BOUNDS[cause]), positions)
    })
}

/// How many zones a map has.
fn zones_of(map: &ZoneMap, scan: &Scan) -> usize {
    map.segments().map(|segment| scan.table.segment_rows(segment).div_ceil(map.zone_rows())).sum()
}

/// Conditions with the metadata that tells of them.
pub(super) struct Bound {
    filters: Node,
    sideways: Vec<Node>,
    keys: Vec<Node>,
    fine: bool,
    /// Whether there is metadata of every column that filters and keys are about, and all of their ranges are tested: bounds of row segments
    /// tell nothing more.
    pub is_complete: bool,
    /// What rules out zones by their bounds, as far as that can be told of all of them at once.
    pub out_of_bounds: Vec<Verdict>,
    /// Whether anything may rule out zones that this leaves.
    pub tells_more: bool,
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

    /// Whether [`Node::out_of_bounds`] tests many ranges as one.
    fn is_coarse(&self) -> bool {
        match self {
            Node::Never | Node::Unknown => false,
            Node::All(list) | Node::Any(list) => list.iter().any(Node::is_coarse),
            Node::Values { ranges, .. } => ranges.as_slice().len() > FEW_RANGES,
        }
    }

    /// Whether [`Node::test`] may rule out zones, of `count`, that [`Node::out_of_bounds`] does not.
    fn tells_more(&self, count: usize, fine: bool) -> bool {
        match self {
            Node::Never | Node::Unknown => false,
            Node::All(list) | Node::Any(list) => list.iter().any(|node| node.tells_more(count, fine)),
            Node::Values { zones, ranges, .. } => {
                let finer = fine && (zones.has_histograms() || zones.blooms() > 0);
                finer || ranges.as_slice().len() > FEW_RANGES || zones.len() != count
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
    pub fn new(conditions: &Conditions<'_>, map: &ZoneMap) -> Result<Self, FormatError> {
        let Conditions { scan, filters, keys, sideways, fine } = conditions;
        let mut is_complete = true;
        let mut zones = |column: usize| {
            let found = map.column(&scan.table, scan.columns[column])?;
            is_complete &= found.is_some();
            Ok(found.map(|found| (found.zones, found.remap)))
        };
        let filters = Node::new(filters, &mut zones)?;
        let keys = keys.iter().map(|key| Node::new(key, &mut zones)).collect::<Result<Vec<Node>, _>>()?;
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
        is_complete &= !filters.is_coarse() && !keys.iter().any(Node::is_coarse);
        let mut all = std::iter::once(&filters).chain(&attributes).chain(&keys);
        let tells_more = all.any(|node| node.tells_more(out_of_bounds.len(), *fine));
        let mut bound =
            Self { filters, sideways: attributes, keys, fine: *fine, is_complete, out_of_bounds, tells_more };
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
    pub fn rule_out(&self, zones: Range<usize>) -> Option<&[Verdict]> {
        self.out_of_bounds.get(zones).filter(|all| !all.contains(&0))
    }

    pub fn tells_nothing(&self) -> bool {
        self.filters.is_unknown() && self.sideways.iter().chain(&self.keys).all(Node::is_unknown)
    }

    /// What rules a zone out, as exactly as can be told. Of attributes, the one numbered `likely` is asked first: it ruled out a zone before,
    /// and zones near each other are alike.
    pub fn excludes(&self, zone: usize, likely: &mut usize, tests: &mut u64) -> Option<Cause> {
        let found = self.filters.test(zone, self.fine, tests);
        if found != Found::Perhaps {
            return Some(Cause::Filters(found));
        }
        let attributes = self.sideways.len();
        let mut in_turn = (0..attributes).map(|i| (*likely + i) % attributes);
        if let Some(found) = in_turn.find(|&i| self.sideways[i].test(zone, self.fine, tests) != Found::Perhaps) {
            *likely = found;
            return Some(Cause::Sideways);
        }
        self.keys.iter().any(|node| node.test(zone, self.fine, tests) != Found::Perhaps).then_some(Cause::Keys)
    }
}
