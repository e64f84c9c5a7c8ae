//! Pruning metadata of a version during writing.

use std::sync::{Arc, OnceLock};

use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::pruning::{AttributeMap, ColumnMap, Stored, ZoneMap};
use super::sink::Sink;
use crate::pruning::{ColumnZones, Lookup, Metadata, Zone, Zones, of_segment};
use crate::segment::SegmentBytes;
use crate::{FormatError, Result, Segment};

/// The metadata that is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ZoneOptions {
    pub metadata: Metadata,
    pub zone_rows: usize,
}

impl ZoneOptions {
    /// The zones of a segment; empty if none are stored, and for nested values, which scans do not compare.
    pub fn of(self, segment: &Segment) -> Vec<Zone> {
        let wanted = self.metadata != Metadata::None && !segment.is_nested();
        if wanted { of_segment(segment, self.zone_rows, self.metadata) } else { vec![] }
    }
}

/// Collects the metadata of the row segments of one write.
pub(crate) struct ZoneWriter {
    options: ZoneOptions,
    lookups: Arc<[Lookup]>,
    /// Zones by column and row segment: columns may be encoded in another order.
    columns: Vec<Vec<Vec<Zone>>>,
    /// Zones by look-up and attribute.
    attributes: Vec<Vec<ColumnZones>>,
}

/// The zones of one row segment by look-up and attribute.
type AttributeZones = Vec<Vec<Vec<Zone>>>;

/// Largest share (1 / MOST) of the data for metadata, with [`Metadata::Auto`].
const MOST: u64 = 100;

impl ZoneWriter {
    pub fn new(options: ZoneOptions, lookups: Arc<[Lookup]>, columns: usize) -> Self {
        let attributes = lookups.iter().map(|lookup| vec![ColumnZones::default(); lookup.attributes.len()]).collect();
        Self { options, lookups, columns: vec![vec![]; columns], attributes }
    }

    pub fn options(&self) -> ZoneOptions {
        self.options
    }

    /// Whether there are metadata of attributes of other tables.
    pub fn has_lookups(&self) -> bool {
        !self.lookups.is_empty()
    }

    /// Adds the zones of column `column` in row segment `segment` of this write.
    pub fn add(&mut self, segment: usize, column: usize, zones: Vec<Zone>) {
        let held = &mut self.columns[column];
        held.resize(held.len().max(segment + 1), vec![]);
        held[segment] = zones;
    }

    /// The zones of all attributes for one row segment; `segment_of` returns its columns.
    pub fn attributes<'a>(&self, segment_of: impl Fn(usize) -> Option<&'a Segment> + Sync) -> Result<AttributeZones> {
        let ZoneOptions { metadata, zone_rows } = self.options;
        if metadata == Metadata::None {
            return Ok(vec![]);
        }
        let zones = self.lookups.iter().map(|lookup| {
            let column = &lookup.sideways.column;
            let no_key = || FormatError::schema(column, "keys of other tables are integers");
            let segment = segment_of(lookup.column).ok_or_else(no_key)?;
            let of = |attribute| lookup.zones(segment, attribute, zone_rows, metadata);
            Ok((0..lookup.attributes.len()).into_par_iter().map(of).collect())
        });
        zones.collect()
    }

    pub fn add_attributes(&mut self, zones: AttributeZones) {
        for (held, zones) in self.attributes.iter_mut().flatten().zip(zones.into_iter().flatten()) {
            held.append(zones);
        }
    }

    /// The zones of column `column` in row segment `segment` of this write.
    pub fn of_column(&self, column: usize, segment: Option<usize>) -> Vec<Zone> {
        segment.and_then(|segment| self.columns[column].get(segment)).cloned().unwrap_or_default()
    }

    /// Whether metadata of `segments` row segments with `stored` bytes pay, with histograms, and with Bloom filters.
    pub(super) fn worth(&self, segments: usize, stored: u64) -> (bool, bool, bool) {
        let ZoneOptions { metadata, zone_rows } = self.options;
        let (mut histograms, mut blooms) = (metadata.histograms(), metadata.blooms());
        if metadata != Metadata::Auto {
            return (true, histograms, blooms);
        }
        let columns: Vec<ColumnZones> = self.columns.iter().cloned().map(joined).collect();
        // With a single zone, the bounds of the row segment suffice nearly as well.
        if columns.iter().all(|column| column.len() <= segments) {
            return (false, false, false);
        }
        let all = || columns.iter().chain(self.attributes.iter().flatten());
        let base: u64 = all().map(|column| column.to_bytes(zone_rows, false, false).len() as u64).sum();
        let histogram: u64 = all().map(ColumnZones::histogram_bytes).sum();
        histograms = (base + histogram) * MOST <= stored;
        blooms = histograms && (base + histogram + all().map(ColumnZones::bloom_bytes).sum::<u64>()) * MOST <= stored;
        (true, histograms, blooms)
    }

    /// Stores the metadata of `segments` row segments from `first` on, which take `stored` bytes.
    pub fn finish(
        &mut self,
        first: usize,
        segments: usize,
        stored: u64,
        generation: impl Fn(usize) -> Option<u32>,
        sink: &mut Sink,
    ) -> Result<Option<ZoneMap>> {
        let ZoneOptions { metadata, zone_rows } = self.options;
        if segments == 0 || metadata == Metadata::None {
            return Ok(None);
        }
        let (any, histograms, blooms) = self.worth(segments, stored);
        if !any {
            return Ok(None);
        }
        let columns: Vec<ColumnZones> = std::mem::take(&mut self.columns).into_iter().map(joined).collect();
        let mut store = |zones: &ColumnZones| {
            let bytes = zones.to_bytes(zone_rows, histograms, blooms);
            Ok::<_, FormatError>(match sink.put_bytes(|| bytes.clone())? {
                Some(place) => Stored::at(place),
                None => Stored::in_memory(Zones::from_bytes(SegmentBytes::copy_from(&bytes))?),
            })
        };
        let map = |(column, zones): (usize, &ColumnZones)| {
            Ok(ColumnMap { column, generation: generation(column), stored: store(zones)? })
        };
        let known = columns.iter().enumerate().filter(|(_, zones)| zones.len() > 0);
        let column_maps = known.map(map).collect::<Result<_>>()?;
        let mut attributes = vec![];
        for (lookup, zones) in self.lookups.iter().zip(&self.attributes) {
            let table = &lookup.sideways.table;
            for (attribute, zones) in lookup.attributes.iter().zip(zones) {
                attributes.push(AttributeMap {
                    column: lookup.column,
                    table: lookup.sideways.name.clone(),
                    version: table.version(),
                    fingerprint: table.fingerprint(lookup.key, attribute.column),
                    key: lookup.sideways.key.clone(),
                    attribute: attribute.name.clone(),
                    stored: store(zones)?,
                });
            }
        }
        Ok(Some(ZoneMap { first, segments, zone_rows, columns: column_maps, attributes, starts: OnceLock::new() }))
    }
}

/// Joins the zones of a column's row segments.
fn joined(segments: Vec<Vec<Zone>>) -> ColumnZones {
    let mut column = ColumnZones::default();
    segments.into_iter().for_each(|zones| column.append(zones));
    column
}
