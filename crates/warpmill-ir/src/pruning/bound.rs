//! Conditions combined with the metadata of a table's zones, and their verdict on each zone.

use std::sync::Arc;

use warpmill_format::FormatError;
use warpmill_format::pruning::{Found, Wanted, Zones};
use warpmill_format::table::ZoneMap;

use super::Ranges;
use super::predicate::{FEW_RANGES, MOST_RANGES, Predicate, Values};
use super::select::Conditions;

/// The verdict on a zone: its rows are left, or the kind of metadata that rules them out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Left,
    OutOfBounds,
    Sideways,
    Keys,
    NotInHistogram,
    NotInBloom,
}

impl Verdict {
    /// The verdict from metadata of the table's own columns.
    pub fn of(found: Found) -> Self {
        match found {
            Found::Perhaps => Self::Left,
            Found::NotInBloom => Self::NotInBloom,
            Found::NotInHistogram => Self::NotInHistogram,
            Found::OutOfBounds => Self::OutOfBounds,
        }
    }
}

/// Conditions with their metadata.
pub(super) struct Bound {
    filters: Node,
    sideways: Vec<Node>,
    keys: Vec<Node>,
    fine: bool,
    /// The number of zones.
    count: usize,
    /// Whether all columns of filters and keys have metadata, and all ranges are tested: then the bounds of row segments add nothing.
    pub is_complete: bool,
    /// Whether finer metadata may rule out zones that bounds leave.
    pub tells_more: bool,
}

/// A predicate with its metadata.
enum Node {
    Never,
    Unknown,
    All(Vec<Node>),
    Any(Vec<Node>),
    Values { zones: Arc<Zones>, ranges: Ranges, nulls: bool, wanted: Wanted },
}

/// The zones of a column, and their remap from the column's codes.
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
                    Node::of_values(zones, values.ranges.clone(), values.hashes.as_deref(), values.nulls)
                }
                Some((zones, Some(remap))) => {
                    let ranges = values.ranges.before(&remap).with_at_most(MOST_RANGES);
                    match Predicate::of_ranges(0, ranges) {
                        Predicate::Values(Values { ranges, hashes, .. }) => {
                            Node::of_values(zones, ranges, hashes.as_deref(), values.nulls)
                        }
                        _ if values.nulls => Node::of_values(zones, Ranges::default(), None, true),
                        _ => Node::Never,
                    }
                }
            },
        })
    }

    fn of_values(zones: Arc<Zones>, ranges: Ranges, hashes: Option<&[u64]>, nulls: bool) -> Self {
        let wanted = zones.wanted(ranges.as_slice(), hashes, nulls);
        Node::Values { zones, ranges, nulls, wanted }
    }

    fn is_unknown(&self) -> bool {
        match self {
            Node::Unknown => true,
            Node::All(list) => list.iter().all(Node::is_unknown),
            Node::Any(list) => list.iter().any(Node::is_unknown),
            Node::Never | Node::Values { .. } => false,
        }
    }

    /// Per zone (`count` of them), whether bounds rule it out. `None`: they rule out none.
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

    /// Whether [`Node::test`] may rule out zones, of `count`, that [`Node::out_of_bounds`] leaves.
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
            Node::Values { zones, wanted, .. } => {
                *tests += 1;
                zones.test(zone, wanted, fine, tests)
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
        is_complete &= !filters.is_coarse() && !keys.iter().any(Node::is_coarse);
        let count = map.starts(&scan.table)[map.segments().len()].0;
        let mut all = std::iter::once(&filters).chain(&attributes).chain(&keys);
        let tells_more = all.any(|node| node.tells_more(count, *fine));
        Ok(Self { filters, sideways: attributes, keys, fine: *fine, is_complete, count, tells_more })
    }

    /// The verdicts on all zones by their bounds, where these can be tested together.
    pub fn out_of_bounds(&self) -> Vec<Verdict> {
        let mut verdicts = vec![Verdict::Left; self.count];
        let nodes = [
            (Verdict::OutOfBounds, std::slice::from_ref(&self.filters)),
            (Verdict::Sideways, &self.sideways),
            (Verdict::Keys, &self.keys),
        ];
        for (verdict, nodes) in nodes {
            for out in nodes.iter().filter_map(|node| node.out_of_bounds(self.count)) {
                for (known, out) in verdicts.iter_mut().zip(out) {
                    *known = if out && *known == Verdict::Left { verdict } else { *known };
                }
            }
        }
        verdicts
    }

    /// Tests some zones exactly, removes those that are ruled out, and reports each to `note`. Attribute number `likely` is tested first: it ruled
    /// out most zones before, and neighbouring zones are alike.
    pub fn rule_out(
        &self,
        left: &mut Vec<usize>,
        likely: &mut usize,
        tests: &mut u64,
        mut note: impl FnMut(usize, Verdict),
    ) {
        let mut ask = |node: &Node, verdict: &dyn Fn(Found) -> Verdict| {
            let before = left.len();
            match node {
                Node::Values { zones, wanted, .. } => {
                    *tests += zones.rule_out(left, wanted, self.fine, |zone, found| note(zone, verdict(found)));
                }
                Node::Unknown => {}
                node => left.retain(|&zone| {
                    let found = node.test(zone, self.fine, tests);
                    if found != Found::Perhaps {
                        note(zone, verdict(found));
                    }
                    found == Found::Perhaps
                }),
            }
            before - left.len()
        };
        ask(&self.filters, &Verdict::of);
        let (attributes, first, mut most) = (self.sideways.len(), *likely, 0);
        for i in (0..attributes).map(|i| (first + i) % attributes) {
            let found = ask(&self.sideways[i], &|_| Verdict::Sideways);
            if found > most {
                (*likely, most) = (i, found);
            }
        }
        for node in &self.keys {
            ask(node, &|_| Verdict::Keys);
        }
    }
}
