//! Pruning metadata of a version: their storage, and the metadata themselves after the first use.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::data_file::Place;
use super::manifest::{AttributeEntry, Blob, ColumnEntry, PruningEntry};
use super::version::{Version, place_error};
use crate::pruning::Zones;
use crate::{FormatError, Result, TableSnapshot};

/// The zones of the row segments of one write.
#[derive(Debug, Clone)]
pub struct ZoneMap {
    /// Index of the first row segment, and their number.
    pub(crate) first: usize,
    pub(crate) segments: usize,
    pub(crate) zone_rows: usize,
    pub(crate) columns: Vec<ColumnMap>,
    pub(crate) attributes: Vec<AttributeMap>,
    /// [`ZoneMap::starts`], computed at the first call.
    pub(crate) starts: OnceLock<Arc<[(usize, usize)]>>,
}

/// The zones of a column.
#[derive(Debug, Clone)]
pub(crate) struct ColumnMap {
    pub column: usize,
    /// The generation of the dictionary whose codes they refer to.
    pub generation: Option<u32>,
    pub stored: Arc<Stored>,
}

/// The zones of an attribute of another table that a column references.
#[derive(Debug, Clone)]
pub(crate) struct AttributeMap {
    pub column: usize,
    pub table: String,
    pub version: u64,
    pub fingerprint: u64,
    pub key: String,
    pub attribute: String,
    pub stored: Arc<Stored>,
}

/// Zones, opened when first used.
#[derive(Debug)]
pub(crate) struct Stored {
    place: Option<Place>,
    opened: OnceLock<Arc<Zones>>,
}

/// The zones of a column, with the translation of its dictionary's codes.
#[derive(Debug, Clone)]
pub struct ColumnZones {
    /// The zones.
    pub zones: Arc<Zones>,
    /// Code of the column's dictionary by code in the zones, ascending; `None`: they are equal.
    pub remap: Option<Arc<[u32]>>,
}

impl Stored {
    pub fn in_memory(zones: Zones) -> Arc<Self> {
        let opened = OnceLock::from(Arc::new(zones));
        Arc::new(Self { place: None, opened })
    }

    pub fn at(place: Place) -> Arc<Self> {
        Arc::new(Self { place: Some(place), opened: OnceLock::new() })
    }

    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// Opens the zones, described as `what` in errors; the closure is not called for open ones.
    fn open(&self, map: &ZoneMap, version: &Version, what: impl Fn() -> String) -> Result<Arc<Zones>> {
        if let Some(zones) = self.opened.get() {
            return Ok(zones.clone());
        }
        let what = &what();
        let place = self.place.as_ref().expect("what is in memory is open");
        let read = || {
            let zones = Zones::from_bytes(place.read(what)?)?;
            let rows = version.segments[map.segments()].iter().map(|segment| segment.rows.div_ceil(map.zone_rows));
            if zones.zone_rows() != map.zone_rows || zones.len() != rows.sum::<usize>() {
                let detail =
                    format!("{} zones of {} rows, not those of its row segments", zones.len(), zones.zone_rows());
                return Err(FormatError::corrupt(&place.file.path(), format!("{what}: {detail}")));
            }
            Ok(zones)
        };
        let zones = read().map_err(|error| place_error(error, place, what.clone()))?;
        Ok(self.opened.get_or_init(|| Arc::new(zones)).clone())
    }
}

impl ZoneMap {
    /// The row segments.
    #[inline]
    pub fn segments(&self) -> Range<usize> {
        self.first..self.first + self.segments
    }

    /// Number of rows of a zone; the last of a row segment may have fewer.
    #[inline]
    pub fn zone_rows(&self) -> usize {
        self.zone_rows
    }

    /// Numbers of zones and rows of the map before each of its row segments, and the totals; `table` is the map's table.
    pub fn starts(&self, table: &TableSnapshot) -> &[(usize, usize)] {
        self.starts.get_or_init(|| {
            let mut starts = vec![(0, 0)];
            for segment in self.segments() {
                let ((zones, before), rows) = (starts[starts.len() - 1], table.segment_rows(segment));
                starts.push((zones + rows.div_ceil(self.zone_rows), before + rows));
            }
            starts.into()
        })
    }

    /// Zones of this map, which is one of `table`.
    pub(super) fn opened(&self, stored: &Stored, table: &TableSnapshot) -> Result<Arc<Zones>> {
        stored.open(self, table.parts(), || "pruning metadata".to_string())
    }

    /// The zones of column `column` of `table`, which this is a map of.
    ///
    /// # Errors
    /// [`FormatError::Corrupt`], naming file and column.
    pub fn column(&self, table: &TableSnapshot, column: usize) -> Result<Option<ColumnZones>> {
        let Some(map) = self.columns.iter().find(|map| map.column == column) else { return Ok(None) };
        let what = || format!("pruning metadata of column {:?}", table.schema().field(column).name());
        let zones = map.stored.open(self, table.parts(), what)?;
        let remap = match (map.generation, &table.parts().dictionaries[column]) {
            (Some(from), Some(dictionary)) if from != dictionary.generation => {
                match dictionary.remaps.iter().find(|remap| remap.from == from) {
                    Some(remap) => Some(remap.codes.clone()),
                    None => return Ok(None),
                }
            }
            _ => None,
        };
        Ok(Some(ColumnZones { zones, remap }))
    }

    /// The zones of attribute `attribute` of `other`, by its key `key` that column `column` of `table` references; `None` if there are none for
    /// exactly this version of it.
    ///
    /// # Errors
    /// The errors of [`ZoneMap::column`].
    pub fn attribute(
        &self,
        (table, column): (&TableSnapshot, usize),
        (other, key, attribute): (&TableSnapshot, usize, usize),
    ) -> Result<Option<Arc<Zones>>> {
        let name = |column: usize| other.schema().field(column).name().as_str();
        let fits = |map: &&AttributeMap| {
            map.column == column
                && map.version == other.version()
                && map.key == name(key)
                && map.attribute == name(attribute)
                && map.fingerprint == other.fingerprint(key, attribute)
        };
        let Some(map) = self.attributes.iter().find(fits) else { return Ok(None) };
        let what = || format!("pruning metadata of {}.{}", map.table, map.attribute);
        map.stored.open(self, table.parts(), what).map(Some)
    }

    /// The same map without rewritten columns.
    pub(crate) fn without(&self, rewritten: impl Fn(usize) -> bool) -> Self {
        let mut map = self.clone();
        map.columns.retain(|column| !rewritten(column.column));
        map.attributes.retain(|attribute| !rewritten(attribute.column));
        map
    }

    /// Opens all zones.
    pub(crate) fn verify(&self, table: &TableSnapshot) -> Result<()> {
        for map in &self.columns {
            self.column(table, map.column)?;
        }
        for map in &self.attributes {
            map.stored.open(self, table.parts(), || format!("pruning metadata of {}.{}", map.table, map.attribute))?;
        }
        Ok(())
    }

    /// Whether there are sideways metadata for column `column`.
    pub fn has_attributes(&self, column: usize) -> bool {
        self.attributes.iter().any(|map| map.column == column)
    }

    /// Total size in bytes.
    pub fn bytes(&self) -> u64 {
        let bytes = |stored: &Arc<Stored>| match (&stored.place, stored.opened.get()) {
            (Some(place), _) => place.bytes,
            (None, Some(zones)) => zones.bytes(),
            (None, None) => 0,
        };
        self.places_of(bytes).sum()
    }

    fn places_of<'a, T: 'a>(&'a self, f: impl Fn(&'a Arc<Stored>) -> T + Copy + 'a) -> impl Iterator<Item = T> + 'a {
        self.columns.iter().map(move |map| f(&map.stored)).chain(self.attributes.iter().map(move |map| f(&map.stored)))
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        self.places_of(|stored| stored.place()).flatten()
    }

    /// Moves what is stored at places for which `to` has another one.
    pub(super) fn move_places(&mut self, to: &mut dyn FnMut(&Place) -> Result<Option<Place>>) -> Result<()> {
        let columns = self.columns.iter_mut().map(|map| &mut map.stored);
        for stored in columns.chain(self.attributes.iter_mut().map(|map| &mut map.stored)) {
            if let Some(place) = stored.place().map(&mut *to).transpose()?.flatten() {
                *stored = Arc::new(Stored { place: Some(place), opened: stored.opened.clone() });
            }
        }
        Ok(())
    }

    pub(crate) fn entry(&self, mut blob: impl FnMut(&Place) -> Blob) -> PruningEntry {
        let mut at = |stored: &Stored| blob(stored.place().expect("metadata of a table on disk is in files"));
        let columns = self.columns.iter().map(|map| ColumnEntry {
            column: map.column,
            generation: map.generation,
            blob: at(&map.stored),
        });
        let columns = columns.collect();
        let attributes = self.attributes.iter().map(|map| AttributeEntry {
            column: map.column,
            table: map.table.clone(),
            version: map.version,
            fingerprint: map.fingerprint,
            key: map.key.clone(),
            attribute: map.attribute.clone(),
            blob: at(&map.stored),
        });
        let attributes = attributes.collect();
        PruningEntry { first: self.first, segments: self.segments, zone_rows: self.zone_rows, columns, attributes }
    }

    /// The metadata of `entry`; parts shared with `known` stay open.
    pub(crate) fn from_entry(entry: &PruningEntry, place: &dyn Fn(&Blob) -> Place, known: &[ZoneMap]) -> Self {
        let stored = |blob: &Blob| {
            let at = place(blob);
            let same = |stored: &&Arc<Stored>| stored.place().is_some_and(|p| p.same(&at));
            let held = known.iter().flat_map(|map| map.places_of(|stored| stored)).find(same);
            held.cloned().unwrap_or_else(|| Stored::at(at))
        };
        let columns = entry.columns.iter().map(|column| ColumnMap {
            column: column.column,
            generation: column.generation,
            stored: stored(&column.blob),
        });
        let attributes = entry.attributes.iter().map(|attribute| AttributeMap {
            column: attribute.column,
            table: attribute.table.clone(),
            version: attribute.version,
            fingerprint: attribute.fingerprint,
            key: attribute.key.clone(),
            attribute: attribute.attribute.clone(),
            stored: stored(&attribute.blob),
        });
        Self {
            first: entry.first,
            segments: entry.segments,
            zone_rows: entry.zone_rows,
            columns: columns.collect(),
            attributes: attributes.collect(),
            starts: OnceLock::new(),
        }
    }
}
