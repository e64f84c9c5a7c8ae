//! Pruning metadata of a version with some rewritten row segments: the metadata of the others are kept.

use std::ops::Range;
use std::sync::OnceLock;

use super::pruning::{AttributeMap, ColumnMap, Stored, ZoneMap};
use super::sink::Sink;
use super::zone_writer::ZoneWriter;
use crate::pruning::{ColumnZones, Metadata, Zone, Zones};
use crate::segment::{SegmentBytes, is_nested};
use crate::{Result, TableSnapshot};

/// A row segment of the new version.
pub(super) struct Origin {
    /// The row segment of the base version that it is, or whose unchanged columns it has.
    pub base: Option<usize>,
    /// Its position among the written row segments.
    pub own: Option<usize>,
    /// By column: whether it is the base version's; empty: all are, or none.
    pub same: Vec<bool>,
}

impl Origin {
    fn is_same(&self, column: usize) -> bool {
        self.base.is_some() && self.same.get(column).copied().unwrap_or(self.own.is_none())
    }
}

/// The source of the metadata of a column of a row segment: a map of the base version, or the current write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Map(usize),
    Own,
}

/// The sources of a row segment's metadata: consecutive row segments with equal shapes share a map.
#[derive(PartialEq, Eq)]
struct Shape {
    zone_rows: usize,
    columns: Vec<Option<From>>,
    /// Map and position in it.
    attributes: Vec<(usize, usize)>,
}

/// The kinds of metadata of new row segments.
pub(super) struct Own {
    pub any: bool,
    pub histograms: bool,
    pub blooms: bool,
}

pub(super) struct Regroup<'a> {
    pub base: &'a TableSnapshot,
    pub zones: &'a ZoneWriter,
    pub order: &'a [Origin],
    pub own: Own,
    /// Columns whose row segments of the base version all have been rewritten.
    pub rewritten: &'a dyn Fn(usize) -> bool,
    pub generation: &'a dyn Fn(usize) -> Option<u32>,
}

impl Regroup<'_> {
    /// The maps of the new version.
    pub fn maps(&self, sink: &mut Sink) -> Result<Vec<ZoneMap>> {
        let shapes: Vec<Option<Shape>> = self.order.iter().map(|origin| self.shape(origin)).collect();
        let (mut maps, mut first) = (vec![], 0);
        while first < shapes.len() {
            let same = shapes[first..].iter().take_while(|shape| **shape == shapes[first]).count();
            if let Some(shape) = &shapes[first] {
                maps.push(self.map(shape, first..first + same, sink)?);
            }
            first += same;
        }
        Ok(maps)
    }

    fn shape(&self, origin: &Origin) -> Option<Shape> {
        let maps = self.base.zone_maps();
        let map = origin.base.and_then(|segment| maps.iter().position(|map| map.segments().contains(&segment)));
        let own_rows = self.zones.options().zone_rows;
        let has_own = origin.own.is_some() && self.own.any;
        let map = map.filter(|&map| !has_own || maps[map].zone_rows == own_rows);
        let kept = |column: usize| origin.is_same(column) && !(self.rewritten)(column);
        let column = |column: usize| match map {
            Some(map) if kept(column) => {
                maps[map].columns.iter().any(|own| own.column == column).then_some(From::Map(map))
            }
            _ => (has_own && !origin.is_same(column)).then_some(From::Own),
        };
        let fields = self.base.schema().fields();
        let column = |at: usize| (!is_nested(fields[at].data_type())).then(|| column(at)).flatten();
        let columns: Vec<Option<From>> = (0..fields.len()).map(column).collect();
        let attributes: Vec<(usize, usize)> = map.map_or(vec![], |map| {
            let own = maps[map].attributes.iter().enumerate();
            own.filter(|(_, attribute)| kept(attribute.column)).map(|(at, _)| (map, at)).collect()
        });
        let zone_rows = map.map_or(own_rows, |map| maps[map].zone_rows);
        let any = columns.iter().any(Option::is_some) || !attributes.is_empty();
        any.then_some(Shape { zone_rows, columns, attributes })
    }

    fn map(&self, shape: &Shape, segments: Range<usize>, sink: &mut Sink) -> Result<ZoneMap> {
        let maps = self.base.zone_maps();
        let starts = OnceLock::new();
        let origins = &self.order[segments.clone()];
        // A whole map, unchanged.
        if let Some(From::Map(at)) = shape.columns.iter().flatten().next()
            && origins.iter().map(|origin| origin.base).eq(maps[*at].segments().map(Some))
            && shape.columns.iter().flatten().all(|from| *from == From::Map(*at))
        {
            let own = &maps[*at];
            let columns = own.columns.iter().filter(|map| shape.columns[map.column].is_some()).cloned().collect();
            let attributes = shape.attributes.iter().map(|&(_, at)| own.attributes[at].clone()).collect();
            return Ok(ZoneMap { first: segments.start, columns, attributes, starts, ..own.clone() });
        }
        let mut columns = vec![];
        for (column, from) in shape.columns.iter().enumerate() {
            let Some(from) = from else { continue };
            let (generation, stored) = match from {
                From::Own => {
                    let zones = origins.iter().map(|origin| self.zones.of_column(column, origin.own));
                    let Own { histograms, blooms, .. } = self.own;
                    ((self.generation)(column), store(zones, (histograms, blooms), shape.zone_rows, sink)?)
                }
                From::Map(at) => {
                    let own = &maps[*at];
                    let Some(map) = own.columns.iter().find(|map| map.column == column) else { continue };
                    let zones = own.opened(&map.stored, self.base)?;
                    let parts = origins.iter().map(|origin| self.part(own, &zones, origin));
                    let kinds = (zones.has_histograms(), zones.blooms() > 0);
                    (map.generation, store(parts, kinds, shape.zone_rows, sink)?)
                }
            };
            columns.push(ColumnMap { column, generation, stored });
        }
        let mut attributes = vec![];
        for &(at, attribute) in &shape.attributes {
            let (own, map) = (&maps[at], &maps[at].attributes[attribute]);
            let zones = own.opened(&map.stored, self.base)?;
            let parts = origins.iter().map(|origin| self.part(own, &zones, origin));
            let kinds = (zones.has_histograms(), zones.blooms() > 0);
            attributes.push(AttributeMap { stored: store(parts, kinds, shape.zone_rows, sink)?, ..map.clone() });
        }
        let zone_rows = shape.zone_rows;
        Ok(ZoneMap { first: segments.start, segments: segments.len(), zone_rows, columns, attributes, starts })
    }

    /// The zones of a row segment in a map of the base version.
    fn part(&self, map: &ZoneMap, zones: &Zones, origin: &Origin) -> Vec<Zone> {
        let starts = map.starts(self.base);
        let at = origin.base.map_or(0, |segment| segment - map.first);
        zones.part(starts[at].0..starts[at + 1].0)
    }
}

fn store(
    parts: impl Iterator<Item = Vec<Zone>>,
    (histograms, blooms): (bool, bool),
    zone_rows: usize,
    sink: &mut Sink,
) -> Result<std::sync::Arc<Stored>> {
    let mut zones = ColumnZones::default();
    parts.for_each(|part| zones.append(part));
    let bytes = zones.to_bytes(zone_rows, histograms, blooms);
    Ok(match sink.put_bytes(|| bytes.clone())? {
        Some(place) => Stored::at(place),
        None => Stored::in_memory(Zones::from_bytes(SegmentBytes::copy_from(&bytes))?),
    })
}

impl ZoneWriter {
    /// The metadata of new row segments that justify their size, compared with `stored` bytes of data.
    pub(super) fn own(&self, segments: usize, stored: u64) -> Own {
        let metadata = self.options().metadata;
        if segments == 0 || metadata == Metadata::None {
            return Own { any: false, histograms: false, blooms: false };
        }
        let (any, histograms, blooms) = self.worth(segments, stored);
        Own { any, histograms, blooms }
    }
}
