//! Opened columns of row segments, shared by programs that read the same ones: a statement that differs in literals only opens, describes and looks
//! up nothing again.
//!
//! They live as long as a program that reads them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use warpmill_format::TableSnapshot;
use warpmill_ir::{Phys, Scan};

use super::chunks::Chunk;
use super::form::Form;
use super::items::{self, Descriptors, Item};
use super::shape::{Alike, ColumnShape, ScanSegments};
use super::spans::Spans;
use crate::device::DevicePtr;
use crate::memory::mirrors::Mirrors;
use crate::memory::regions::{KeyMap, Owner};

/// The columns of a row segment.
pub type Columns = Arc<[Arc<Chunk>]>;

/// The opened columns of some row segments of a table.
pub struct OpenRows {
    /// Row segments and shapes, for code generation.
    pub segments: ScanSegments,
    /// Row segments grouped by kernel.
    pub alike: Vec<Alike>,
    /// The columns of each row segment, in the order of `segments`.
    pub columns: Vec<Columns>,
    /// Whether some columns are of remote files that are not read yet.
    pub to_come: bool,
    items: OnceLock<(Vec<Item>, u64)>,
    resident: Mutex<Option<Arc<ResidentRows>>>,
    /// Keeps the address unique by which these rows are found.
    table: Arc<TableSnapshot>,
}

impl OpenRows {
    /// Opened rows of the row segments `segments` of `scan`, with these columns.
    pub fn new(scan: &Scan, segments: Vec<usize>, columns: Vec<Columns>, to_come: bool) -> Self {
        let shapes = |row: &Columns| {
            let shape = |(chunk, field): (&Arc<Chunk>, &warpmill_ir::Field)| {
                let nullable = chunk.layout.validity.is_some();
                ColumnShape::of_segment(&chunk.layout.values, chunk.remap.is_some(), field.ty.phys, nullable)
            };
            row.iter().zip(&scan.fields).map(shape).collect()
        };
        let shapes = columns.iter().map(shapes).collect();
        let (items, resident) = Default::default();
        let segments = ScanSegments { segments, shapes };
        Self { alike: segments.alike(), segments, columns, to_come, items, resident, table: scan.table.clone() }
    }

    /// The column shapes of each kernel.
    pub fn shapes(&self) -> Vec<Vec<ColumnShape>> {
        self.alike.iter().map(|alike| alike.shapes.clone()).collect()
    }

    /// The chunks and code tables that device memory holds if the rows are cached, without duplicates.
    pub fn items(&self) -> &[Item] {
        &self.items_and_bytes().0
    }

    /// Bytes of a region that the items take.
    pub fn item_bytes(&self) -> u64 {
        self.items_and_bytes().1
    }

    fn items_and_bytes(&self) -> &(Vec<Item>, u64) {
        self.items.get_or_init(|| {
            let items = items::collect(self.columns.iter().flat_map(|row| row.iter()), &[]);
            let bytes = items.iter().map(Item::allocated).sum();
            (items, bytes)
        })
    }

    /// Whether some of the chunks may be those of `other`.
    pub fn may_overlap(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table) || self.table.continues(&other.table)
    }

    /// The addresses in the caching region, if recorded in generation `generation`.
    pub fn resident(&self, generation: u64) -> Option<Arc<ResidentRows>> {
        self.resident.lock().clone().filter(|resident| resident.generation == generation)
    }

    /// Records the addresses in the caching region.
    pub fn keep(&self, resident: &Arc<ResidentRows>) {
        *self.resident.lock() = Some(resident.clone());
    }

    /// The columns of row segment `segment`.
    fn row(&self, segment: usize) -> Option<&Columns> {
        self.segments.segments.binary_search(&segment).ok().map(|position| &self.columns[position])
    }
}

/// Addresses of rows that are in the caching region completely.
#[derive(Default)]
pub struct ResidentRows {
    /// Generation of the cache.
    pub generation: u64,
    /// Addresses of items.
    pub places: KeyMap<DevicePtr>,
    /// Host originals of the strings in device memory.
    pub mirrors: Mirrors,
    described: Mutex<Vec<Described>>,
}

/// Descriptors in device memory.
struct Described {
    /// The row segments that are described.
    segments: Vec<usize>,
    spans: Spans,
    made: Descriptors,
}

/// Largest number of descriptor sets kept for the same rows, each for another selection of zones.
const MOST_DESCRIBED: usize = 16;

impl ResidentRows {
    /// No addresses yet, in generation `generation` of the cache.
    pub fn new(generation: u64) -> Self {
        Self { generation, ..Self::default() }
    }

    /// Records that the copy of `item` is at `at`, made from `image`.
    pub fn add(&mut self, item: &Item, at: DevicePtr, image: &Owner) {
        items::add(item, (at, image), &mut self.places, &mut self.mirrors);
    }

    /// The descriptors of `spans` of these row segments, if they are in device memory.
    pub fn described(&self, segments: &[usize], spans: &Spans) -> Option<Descriptors> {
        let same = |known: &&Described| known.segments == segments && known.spans == *spans;
        self.described.lock().iter().find(same).map(|known| known.made)
    }

    /// Records descriptors of `spans` of these row segments.
    pub fn describe(&self, segments: &[usize], spans: &Spans, made: Descriptors) {
        let mut described = self.described.lock();
        if described.len() >= MOST_DESCRIBED {
            described.remove(0);
        }
        described.push(Described { segments: segments.to_vec(), spans: spans.clone(), made });
    }
}

/// Key of opened rows: table, columns, representations, and the form in which each column is streamed, if it is.
type ScanKey = (usize, Vec<usize>, Vec<Phys>, Option<Vec<Form>>);

/// Largest number of selections of row segments kept for one scan.
const MOST_SELECTIONS: usize = 8;

/// Number of scans from which those without live rows are removed.
const MOST_SCANS: usize = 512;

/// The rows that programs have opened.
#[derive(Default)]
pub struct Opened(Mutex<HashMap<ScanKey, Vec<Weak<OpenRows>>>>);

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("scans", &self.0.lock().len()).finish()
    }
}

/// The opened rows of one scan.
#[derive(Default)]
pub struct KnownRows(Vec<Arc<OpenRows>>);

impl KnownRows {
    /// Whether no rows of the scan are open.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Opened rows of exactly these row segments.
    pub fn all(&self, segments: &[usize]) -> Option<Arc<OpenRows>> {
        self.0.iter().find(|rows| rows.segments.segments == segments).cloned()
    }

    /// The columns of row segment `segment`.
    pub fn row(&self, segment: usize) -> Option<Columns> {
        self.0.iter().find_map(|rows| rows.row(segment)).cloned()
    }
}

impl Opened {
    fn key(scan: &Scan, forms: Option<&[Form]>) -> ScanKey {
        let phys = scan.fields.iter().map(|field| field.ty.phys).collect();
        (Arc::as_ptr(&scan.table) as usize, scan.columns.clone(), phys, forms.map(<[Form]>::to_vec))
    }

    /// The opened rows of `scan` that are still alive.
    pub fn find(&self, scan: &Scan, forms: Option<&[Form]>) -> KnownRows {
        let opened = self.0.lock();
        let rows = opened.get(&Self::key(scan, forms)).into_iter().flatten();
        KnownRows(rows.filter_map(Weak::upgrade).collect())
    }

    /// Makes `rows` available to other programs.
    pub fn keep(&self, scan: &Scan, forms: Option<&[Form]>, rows: &Arc<OpenRows>) {
        let mut opened = self.0.lock();
        if opened.len() >= MOST_SCANS {
            opened.retain(|_, rows| rows.iter().any(|rows| rows.strong_count() > 0));
        }
        let known = opened.entry(Self::key(scan, forms)).or_default();
        known.retain(|rows| rows.strong_count() > 0);
        if known.len() >= MOST_SELECTIONS {
            known.remove(0);
        }
        known.push(Arc::downgrade(rows));
    }
}
