//! The opened columns of row segments, which programs that read the same ones share: a statement with other literals opens, describes and
//! looks up nothing again.
//!
//! Shared rows live as long as one of the programs that read them.

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
    /// The same by kernel.
    pub alike: Vec<Alike>,
    /// Per row segment (as in `segments`), each column.
    pub columns: Vec<Columns>,
    /// Whether some of the columns are of remote files, and still to be read.
    pub to_come: bool,
    items: OnceLock<(Vec<Item>, u64)>,
    resident: Mutex<Option<Arc<ResidentRows>>>,
    /// Keeps its address, by which these rows are found, its own.
    table: Arc<TableSnapshot>,
}

impl OpenRows {
    /// The row segments `segments` of `scan`, with these columns.
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

    /// The encodings of the row segments of each kernel.
    pub fn shapes(&self) -> Vec<Vec<ColumnShape>> {
        self.alike.iter().map(|alike| alike.shapes.clone()).collect()
    }

    /// The chunks and their tables of codes that device memory holds where the rows stay there, each once.
    pub fn items(&self) -> &[Item] {
        &self.items_and_bytes().0
    }

    /// The bytes that those take of a region.
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

    /// Their places in the caching region, if they were there in generation `generation`.
    pub fn resident(&self, generation: u64) -> Option<Arc<ResidentRows>> {
        self.resident.lock().clone().filter(|resident| resident.generation == generation)
    }

    /// Notes that they are there.
    pub fn keep(&self, resident: &Arc<ResidentRows>) {
        *self.resident.lock() = Some(resident.clone());
    }

    /// The columns of row segment `segment`.
    fn row(&self, segment: usize) -> Option<&Columns> {
        self.segments.segments.binary_search(&segment).ok().map(|position| &self.columns[position])
    }
}

/// Rows that are in the caching region as a whole.
#[derive(Default)]
pub struct ResidentRows {
    /// In which generation of the cache.
    pub generation: u64,
    /// Addresses of items.
    pub places: KeyMap<DevicePtr>,
    /// The memory that strings in device memory may point into.
    pub mirrors: Mirrors,
    described: Mutex<Vec<Described>>,
}

/// Descriptors in device memory.
struct Described {
    /// Of these row segments.
    segments: Vec<usize>,
    spans: Spans,
    made: Descriptors,
}

/// Descriptors of the same rows that are looked up: those of other selections of zones.
const MOST_DESCRIBED: usize = 16;

impl ResidentRows {
    /// Nothing yet, in generation `generation` of the cache.
    pub fn new(generation: u64) -> Self {
        Self { generation, ..Self::default() }
    }

    /// The copy of `item` is at `at`, made from `image`.
    pub fn add(&mut self, item: &Item, at: DevicePtr, image: &Owner) {
        items::add(item, (at, image), &mut self.places, &mut self.mirrors);
    }

    /// The descriptors of these row segments, of which `spans` are looked at, if they are in device memory.
    pub fn described(&self, segments: &[usize], spans: &Spans) -> Option<Descriptors> {
        let same = |known: &&Described| known.segments == segments && known.spans == *spans;
        self.described.lock().iter().find(same).map(|known| known.made)
    }

    /// Notes that these are.
    pub fn describe(&self, segments: &[usize], spans: &Spans, made: Descriptors) {
        let mut described = self.described.lock();
        if described.len() >= MOST_DESCRIBED {
            described.remove(0);
        }
        described.push(Described { segments: segments.to_vec(), spans: spans.clone(), made });
    }
}

/// The rows that programs have opened: by table, columns, how values are held, and the form in which columns pass through, if they do.
type ScanKey = (usize, Vec<usize>, Vec<Phys>, Option<Vec<Form>>);

/// Selections of row segments that are looked up for one scan.
const MOST_SELECTIONS: usize = 8;

/// Scans after which those are forgotten whose rows nobody has any more.
const MOST_SCANS: usize = 512;

/// The rows that programs have opened.
#[derive(Default)]
pub struct Opened(Mutex<HashMap<ScanKey, Vec<Weak<OpenRows>>>>);

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("scans", &self.0.lock().len()).finish()
    }
}

/// The rows of a scan that programs have opened.
#[derive(Default)]
pub struct KnownRows(Vec<Arc<OpenRows>>);

impl KnownRows {
    /// Exactly these row segments.
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

    /// The rows of `scan` that programs have opened which are still there.
    pub fn find(&self, scan: &Scan, forms: Option<&[Form]>) -> KnownRows {
        let opened = self.0.lock();
        let rows = opened.get(&Self::key(scan, forms)).into_iter().flatten();
        KnownRows(rows.filter_map(Weak::upgrade).collect())
    }

    /// Lets others find `rows`.
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
