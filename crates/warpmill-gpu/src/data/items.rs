//! Host objects that kernels read copies of (segments, code tables, dictionaries), and the addresses of the copies in device memory.

use std::collections::HashMap;
use std::sync::Arc;

use warpmill_format::{Dictionary, Segment, ValueLayout};

use crate::device::DevicePtr;
use crate::memory::mirrors::Mirrors;

use super::chunks::Chunk;
use super::opened::ResidentRows;
use crate::memory::regions::{self, Key, KeyMap, Owner, padded};

/// Kinds of data in a `Key`.
const REMAP: u8 = 1;
const DICTIONARY: u8 = 2;

/// A host object of which device memory holds a copy.
#[derive(Debug, Clone)]
pub enum Item {
    /// The bytes of a segment.
    Segment(Arc<Chunk>),
    /// The table from a segment's own codes to those of the column's dictionary.
    Remap(Arc<[u32]>),
    /// The strings of a dictionary: one `Str` per code and an empty one, then the text that they point to.
    Dictionary(Arc<Dictionary>),
}

impl Item {
    /// The key of the item.
    pub fn key(&self) -> Key {
        match self {
            Item::Segment(chunk) => chunk.key(),
            Item::Remap(remap) => remap_key(remap),
            Item::Dictionary(dictionary) => dictionary_key(dictionary),
        }
    }

    /// Whether the copies on all devices are identical, that is, contain no addresses.
    pub fn is_same_everywhere(&self) -> bool {
        !matches!(self, Item::Dictionary(_))
    }

    /// Bytes of the data.
    pub fn bytes(&self) -> u64 {
        match self {
            Item::Segment(chunk) => chunk.bytes,
            Item::Remap(remap) => 4 * remap.len() as u64,
            Item::Dictionary(dictionary) => {
                // All strings, without the 4-byte offset of each.
                let places = dictionary.len() as u64 + 1;
                16 * places + dictionary.plain_bytes() - 4 * places
            }
        }
    }

    /// Bytes of a region that the copy takes.
    pub fn allocated(&self) -> u64 {
        regions::aligned(regions::padded(self.bytes()))
    }

    /// The bytes for a copy at `at`, which addresses in it are relative to. Their owner keeps the item's key unique.
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

/// Bytes made for device memory, and the object that they were made from.
struct Image {
    _of: Owner,
    bytes: Vec<u8>,
}

/// The bytes of an owner returned by [`Item::image`].
pub fn image_bytes(image: &Owner) -> &[u8] {
    match (image.downcast_ref::<Segment>(), image.downcast_ref::<Image>()) {
        (Some(segment), _) => segment.as_bytes(),
        (_, Some(image)) => &image.bytes,
        _ => &[],
    }
}

/// The key of a code table.
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

/// The items of chunks and dictionaries, without duplicates.
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

/// Descriptors in device memory of the segments that a kernel reads.
#[derive(Debug, Clone, Copy, Default)]
pub struct Descriptors {
    /// `SegmentColumn`s, grouped by span.
    pub columns: DevicePtr,
    /// Rows of each span.
    pub rows: DevicePtr,
    /// Number of spans.
    pub count: u64,
    /// A span has at most 2^`span_bits` vectors.
    pub span_bits: u32,
    /// Number of vectors of 1024 rows.
    pub vectors: u64,
    /// Bytes of all columns within the spans.
    pub bytes: u64,
}

/// Addresses of a program's data, all of it in device memory.
#[derive(Default)]
pub struct Resident {
    /// Generation of the cache; meaningless if the data was copied for one run.
    pub generation: u64,
    /// Addresses of items that are the program's own: dictionaries, or segments that are streamed.
    pub places: KeyMap<DevicePtr>,
    /// Row segments of the scan of each pipeline that is not streamed.
    pub rows: HashMap<usize, Arc<ResidentRows>>,
    /// Descriptors of each kernel; empty for kernels that read no segments.
    pub descriptors: Vec<Descriptors>,
    /// Host originals of the strings among the program's own items.
    pub mirrors: Mirrors,
    /// Host memory that queued copies still read.
    pub sources: Vec<Owner>,
}

impl Resident {
    /// Records that the copy of `item` is at `at`, made from `image`.
    pub fn add(&mut self, item: &Item, at: DevicePtr, image: &Owner) {
        add(item, (at, image), &mut self.places, &mut self.mirrors);
    }

    /// Addresses of the items that the scan of `pipeline` reads.
    pub fn places_of(&self, pipeline: usize) -> &KeyMap<DevicePtr> {
        self.rows.get(&pipeline).map_or(&self.places, |rows| &rows.places)
    }

    /// Host originals of all strings in device memory.
    pub fn mirrors(&self) -> impl Iterator<Item = &Mirrors> {
        let rows = self.rows.values().map(|rows| &rows.mirrors);
        std::iter::once(&self.mirrors).chain(rows).filter(|mirrors| !mirrors.is_empty())
    }
}

/// Records that the copy of `item` is at `at`, made from `image`; strings also get an entry in `mirrors`.
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

/// Bytes of a region for descriptors; `descriptors` has the bytes of each kind.
pub(crate) fn descriptors_allocated(descriptors: &[u64]) -> u64 {
    descriptors.iter().map(|bytes| regions::aligned(padded(*bytes))).sum()
}
