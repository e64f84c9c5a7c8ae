//! The parts of host objects that kernels read: segments and dictionaries, and where copies of them are in device memory.

use std::collections::HashMap;
use std::sync::Arc;

use warpmill_format::{Dictionary, Segment, ValueLayout};

use crate::device::DevicePtr;
use crate::memory::mirrors::Mirrors;

use super::chunks::Chunk;
use super::opened::ResidentRows;
use crate::memory::regions::{self, Key, KeyMap, Owner, padded};

/// Kinds of data.
const REMAP: u8 = 1;
const DICTIONARY: u8 = 2;

/// A host object of which device memory holds a copy.
#[derive(Debug, Clone)]
pub enum Item {
    /// The bytes of a segment.
    Segment(Arc<Chunk>),
    /// The table that turns segments' own codes into those of their column's dictionary.
    Remap(Arc<[u32]>),
    /// A dictionary's strings: one `Str` per code, and one empty one, then the text that they point to.
    Dictionary(Arc<Dictionary>),
}

impl Item {
    /// The key that finds it.
    pub fn key(&self) -> Key {
        match self {
            Item::Segment(chunk) => chunk.key(),
            Item::Remap(remap) => remap_key(remap),
            Item::Dictionary(dictionary) => dictionary_key(dictionary),
        }
    }

    /// Whether its copies on all devices are equal: none of its bytes depends on where it is.
    pub fn is_same_everywhere(&self) -> bool {
        !matches!(self, Item::Dictionary(_))
    }

    /// Bytes of its data.
    pub fn bytes(&self) -> u64 {
        match self {
            Item::Segment(chunk) => chunk.bytes,
            Item::Remap(remap) => 4 * remap.len() as u64,
            Item::Dictionary(dictionary) => {
                // All strings, without the offsets behind each.
                let places = dictionary.len() as u64 + 1;
                16 * places + dictionary.plain_bytes() - 4 * places
            }
        }
    }

    /// The bytes that its copy takes of a region.
    pub fn allocated(&self) -> u64 {
        regions::aligned(regions::padded(self.bytes()))
    }

    /// The bytes to copy to device memory at `at`, which addresses in it are relative to, and keeps the item's key its own.
    pub fn image(&self, at: DevicePtr) -> Owner {
        match self {
            Item::Segment(chunk) => chunk.owner(),
            Item::Remap(remap) => {
                let bytes = remap.iter().flat_map(|code| code.to_le_bytes()).collect();
                Arc::new(Image { _of: Arc::new(remap.clone()), bytes })
            }
            Item::Dictionary(dictionary) => {
                Arc::new(Image { _of: dictionary.clone(), bytes: dictionary_bytes(dictionary, at) })
            }
        }
    }
}

/// Bytes made for device memory, and what they were made from.
struct Image {
    _of: Owner,
    bytes: Vec<u8>,
}

/// The bytes of what [`Item::image`] gave.
pub fn image_bytes(image: &Owner) -> &[u8] {
    match (image.downcast_ref::<Segment>(), image.downcast_ref::<Image>()) {
        (Some(segment), _) => segment.as_bytes(),
        (_, Some(image)) => &image.bytes,
        _ => &[],
    }
}

/// The key of a table of codes.
pub fn remap_key(remap: &Arc<[u32]>) -> Key {
    (remap.as_ptr() as usize, REMAP)
}

/// The key of a dictionary's strings.
pub fn dictionary_key(dictionary: &Arc<Dictionary>) -> Key {
    (Arc::as_ptr(dictionary) as usize, DICTIONARY)
}

fn dictionary_bytes(dictionary: &Dictionary, base: DevicePtr) -> Vec<u8> {
    let strings: Vec<&str> = dictionary.iter().chain([""]).collect();
    let mut at = 16 * strings.len();
    let mut bytes = Vec::with_capacity(at + strings.iter().map(|text| text.len()).sum::<usize>());
    for text in &strings {
        bytes.extend_from_slice(&(base + at as u64).to_le_bytes());
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        at += text.len();
    }
    strings.iter().for_each(|text| bytes.extend_from_slice(text.as_bytes()));
    bytes
}

/// The items of chunks and dictionaries, each once.
pub fn collect<'a>(chunks: impl Iterator<Item = &'a Arc<Chunk>>, dictionaries: &[Arc<Dictionary>]) -> Vec<Item> {
    let mut items = vec![];
    for chunk in chunks {
        items.push(Item::Segment(chunk.clone()));
        items.extend(chunk.remap.clone().map(Item::Remap));
    }
    items.extend(dictionaries.iter().cloned().map(Item::Dictionary));
    let mut seen = std::collections::HashSet::new();
    items.retain(|item| seen.insert(item.key()));
    items
}

/// The segments of a kernel as it sees them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Descriptors {
    /// `SegmentColumn`s, span by span.
    pub columns: DevicePtr,
    /// Rows of each span.
    pub rows: DevicePtr,
    /// Spans of row segments.
    pub count: u64,
    /// Each has at most 2 to the power of this many vectors.
    pub span_bits: u32,
    /// Vectors of 1024 rows.
    pub vectors: u64,
    /// Bytes of all columns, as far as spans reach.
    pub bytes: u64,
}

/// The case that all data of a program is in device memory.
#[derive(Default)]
pub struct Resident {
    /// In which generation of the cache; of no meaning where the data was copied for one run.
    pub generation: u64,
    /// Addresses of items that are the program's own: what lies in no row segment, or where segments pass through.
    pub places: KeyMap<DevicePtr>,
    /// By pipeline, what it scans, where that does not pass through.
    pub rows: HashMap<usize, Arc<ResidentRows>>,
    /// By kernel; empty ones where a kernel reads no segments.
    pub descriptors: Vec<Descriptors>,
    /// The memory that strings of the program's own items may point into.
    pub mirrors: Mirrors,
    /// Memory that copies still read.
    pub sources: Vec<Owner>,
}

impl Resident {
    /// The copy of `item` is at `at`, made from `image`.
    pub fn add(&mut self, item: &Item, at: DevicePtr, image: &Owner) {
        add(item, (at, image), &mut self.places, &mut self.mirrors);
    }

    /// Addresses of what the scan of `pipeline` reads.
    pub fn places_of(&self, pipeline: usize) -> &KeyMap<DevicePtr> {
        self.rows.get(&pipeline).map_or(&self.places, |rows| &rows.places)
    }

    /// The memory that strings in device memory may point into.
    pub fn mirrors(&self) -> impl Iterator<Item = &Mirrors> {
        let rows = self.rows.values().map(|rows| &rows.mirrors);
        std::iter::once(&self.mirrors).chain(rows).filter(|mirrors| !mirrors.is_empty())
    }
}

/// Notes that the copy of `item` is at `at`, made from `image`.
pub(super) fn add(
    item: &Item,
    (at, image): (DevicePtr, &Owner),
    places: &mut KeyMap<DevicePtr>,
    mirrors: &mut Mirrors,
) {
    places.insert(item.key(), at);
    let strings = match item {
        Item::Segment(chunk) => matches!(chunk.layout.values, ValueLayout::Strings { .. }),
        Item::Remap(_) => false,
        Item::Dictionary(_) => true,
    };
    if strings {
        mirrors.add(at, image_bytes(image), image.clone());
    }
}

/// The bytes that descriptors, so many of each kind, take of a region.
pub(crate) fn descriptors_allocated(descriptors: &[u64]) -> u64 {
    descriptors.iter().map(|bytes| regions::aligned(padded(*bytes))).sum()
}
