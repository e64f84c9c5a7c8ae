//! The layout of a slot: descriptors, then the copied bytes, then the decompressed and expanded data.

use std::sync::Arc;

use crate::data::batch_spec::Wanted;
use crate::data::chunks::Chunk;
use crate::data::form::DataSource;
use crate::data::parquet;
use crate::data::row_segment::RowSegment;
use crate::data::segments::{self, COMPRESSED, DESCRIPTOR, EXPANSION, describe_compressed, describe_expansion};
use crate::data::slot::{Found, Part, chunks};
use crate::device::DevicePtr;
use crate::device::batch::BatchFormat;
use crate::memory::error::Result;
use crate::memory::regions::{KeyMap, aligned, padded};

use super::batches::PAGE_ENTRY;

/// Bytes of a slot for row segments and their descriptors.
pub(crate) fn slot_bytes(rows: &[RowSegment<'_>], found: &Found) -> u64 {
    together(parts_of_slot(rows, found))
}

/// Bytes of descriptors, by kind, and of everything else. Both are additive over row segments.
pub(super) fn parts_of_slot(rows: &[RowSegment<'_>], found: &Found) -> ([u64; KINDS], u64) {
    let made = chunks(rows).map(|chunk| made_bytes(chunk).iter().sum::<u64>()).sum::<u64>();
    (descriptor_bytes(rows), data_bytes(rows, found) + made)
}

pub(super) fn together((descriptors, others): ([u64; KINDS], u64)) -> u64 {
    descriptors.map(aligned).iter().sum::<u64>() + others
}

/// Bytes copied to a slot, descriptors included.
pub(crate) fn copied_bytes(rows: &[RowSegment<'_>], found: &Found) -> u64 {
    head_bytes(rows) + data_bytes(rows, found)
}

/// Bytes of chunks that are copied.
pub(super) fn data_bytes(rows: &[RowSegment<'_>], found: &Found) -> u64 {
    let travelling = chunks(rows).filter(|chunk| !found.contains_key(&chunk.travels_as()));
    travelling.map(|chunk| room(chunk.copied_bytes())).sum()
}

/// Bytes of a slot for the descriptors of row segments.
pub(crate) fn head_bytes(rows: &[RowSegment<'_>]) -> u64 {
    descriptor_bytes(rows).map(aligned).iter().sum()
}

/// Bytes of a slot for `bytes` bytes of data.
pub(super) fn room(bytes: u64) -> u64 {
    aligned(padded(bytes))
}

/// Bytes of a slot for the segment that the device decompresses a chunk to, and for its expanded form.
pub(super) fn made_bytes(chunk: &Chunk) -> [u64; 2] {
    [chunk.decompressed_bytes().map_or(0, room), chunk.expanded.map_or(0, |expanded| room(expanded.bytes))]
}

/// Number of kinds of descriptors.
pub(super) const KINDS: usize = 6;

/// Bytes of the descriptors of columns, row counts, expansions, compressed chunks, Parquet columns, and Parquet pages for the vendor's library.
pub(super) fn descriptor_bytes(rows: &[RowSegment<'_>]) -> [u64; KINDS] {
    let count = |which: fn(&Chunk) -> bool| chunks(rows).filter(|chunk| which(chunk)).count();
    let expansions = count(|chunk| chunk.expanded.is_some()) * EXPANSION;
    let compressed = count(|chunk| chunk.for_device().is_some()) * COMPRESSED;
    let parquet = count(Chunk::is_pages) * parquet::TASK;
    let pages = chunks(rows).map(|chunk| chunk.pages_of_batch().0 as usize).sum::<usize>();
    let columns = rows.iter().map(|row| row.columns.len() * row.spans.len()).sum::<usize>() * DESCRIPTOR;
    let spans: usize = rows.iter().map(|row| row.spans.len()).sum();
    let (counts, pages) = (4 * spans, pages * PAGE_ENTRY);
    [columns, counts, expansions, compressed, parquet, pages].map(|bytes| bytes as u64)
}

/// Offsets in a slot of all kinds of descriptors but the first.
pub(crate) fn places_in_head(rows: &[RowSegment<'_>]) -> [usize; KINDS - 1] {
    let bytes = descriptor_bytes(rows).map(|bytes| aligned(bytes) as usize);
    std::array::from_fn(|kind| bytes[..=kind].iter().sum())
}

/// Blocks and pages that the vendor's library decompresses, summed by format.
pub(super) fn wanted_of(rows: &[RowSegment<'_>]) -> Vec<Wanted> {
    wanted(chunks(rows).filter_map(|chunk| chunk.batch()))
}

/// Chunks in their order in a slot. For page-locked memory the order is by column: data that programs with common columns read stays one range, long
/// enough for the link's full bandwidth. In files, too, chunks of a column are neighbours.
pub(super) fn in_order<'a>(rows: &'a [RowSegment<'_>], source: DataSource) -> Vec<&'a Arc<Chunk>> {
    if !matches!(source, DataSource::Pinned | DataSource::Disk) {
        return chunks(rows).collect();
    }
    let columns = rows.iter().map(|row| row.columns.len()).max().unwrap_or(0);
    let column = |number: usize| rows.iter().filter_map(move |row| row.columns.get(number));
    (0..columns).flat_map(column).collect()
}

/// Assigns places in a slot at `at` to all chunks that were not `found`, and records the addresses of readable data in `places`. Returns the copied
/// parts, and all chunks with the addresses of their stored bytes.
pub(crate) fn place<'r>(
    rows: &'r [RowSegment<'_>],
    (source, found): (DataSource, &Found),
    at: DevicePtr,
    places: &mut KeyMap<DevicePtr>,
) -> (Vec<Part>, Vec<(&'r Arc<Chunk>, DevicePtr)>) {
    let mut offset = head_bytes(rows);
    let count = chunks(rows).count();
    let (mut parts, mut stored) = (vec![], Vec::with_capacity(count));
    places.reserve(count);
    for chunk in in_order(rows, source) {
        let there = found.get(&chunk.travels_as()).copied();
        if there.is_none() {
            parts.push(Part { offset, chunk: chunk.clone() });
        }
        let from = there.unwrap_or(at + offset);
        places.insert(chunk.key(), from);
        stored.push((chunk, from));
        offset += if there.is_none() { room(chunk.copied_bytes()) } else { 0 };
    }
    for chunk in chunks(rows) {
        let [decompressed, expanded] = made_bytes(chunk);
        if decompressed > 0 {
            places.insert(chunk.key(), at + offset);
        }
        if expanded > 0 {
            places.insert(chunk.expanded_key(), at + offset + decompressed);
        }
        offset += decompressed + expanded;
    }
    (parts, stored)
}

/// The descriptors of expansions, and the vectors of all of them.
pub(crate) fn expansions(stored: &[(&Arc<Chunk>, DevicePtr)], places: &KeyMap<DevicePtr>) -> Result<(Vec<u8>, u32)> {
    let (mut image, mut vectors) = (vec![], 0);
    for (chunk, _) in stored {
        vectors += describe_expansion(chunk, places, vectors, &mut image)?;
    }
    Ok((image, vectors))
}

/// Chunks that are decompressed together, by the vendor's library or by Warpmill's kernel.
pub(crate) struct Group {
    pub chunks: u32,
    pub wanted: Option<Wanted>,
    /// Number of blocks for Warpmill's kernel; 0 for the library.
    pub own: u32,
}

/// The descriptors of chunks that the device decompresses, in groups: those for Warpmill's kernel, then those for the library by format.
pub(crate) fn compressed(
    stored: &[(&Arc<Chunk>, DevicePtr)],
    places: &KeyMap<DevicePtr>,
) -> Result<(Vec<u8>, Vec<Group>)> {
    let (mut image, mut groups) = (vec![], vec![]);
    if stored.iter().all(|(chunk, _)| chunk.for_device().is_none()) {
        return Ok((image, groups));
    }
    for format in std::iter::once(None).chain(BatchFormat::ALL.map(Some)) {
        let (mut blocks, mut chunks, mut largest) = (0, 0, 0);
        let own =
            |(chunk, _): &&(&Arc<Chunk>, DevicePtr)| chunk.for_device().is_some() && chunk.batch_format() == format;
        for (chunk, at) in stored.iter().filter(own) {
            blocks += describe_compressed(chunk, *at, places, blocks, &mut image)?;
            largest = u64::max(largest, chunk.batch().map_or(0, |wanted| wanted.largest));
            chunks += 1;
        }
        if chunks > 0 {
            let wanted = format.map(|format| Wanted { format, count: blocks.into(), largest });
            groups.push(Group { chunks, wanted, own: if format.is_none() { blocks } else { 0 } });
        }
    }
    Ok((image, groups))
}

/// The entries of pages for the library: per format four arrays of u64 (address, stored bytes, decompressed bytes, destination).
pub(crate) fn batched_pages(
    stored: &[(&Arc<Chunk>, DevicePtr)],
    places: &KeyMap<DevicePtr>,
) -> Result<(Vec<u8>, Vec<Wanted>)> {
    let pages = || stored.iter().filter(|(chunk, _)| chunk.pages().is_some());
    let formats = wanted(pages().filter_map(|(chunk, _)| chunk.batch()));
    let mut image = vec![];
    for Wanted { format, .. } in &formats {
        let mut arrays: [Vec<u64>; 4] = Default::default();
        for (chunk, at) in pages().filter(|(chunk, _)| chunk.batch_format() == Some(*format)) {
            let Some(slice) = chunk.pages() else { continue };
            let work = segments::place(places, chunk.key())?;
            for page in slice.batch_pages() {
                let entry = [at + page.stored.0, page.stored.1, page.made.1, work + page.made.0];
                arrays.iter_mut().zip(entry).for_each(|(array, word)| array.push(word));
            }
        }
        arrays.iter().flatten().for_each(|word| image.extend_from_slice(&word.to_le_bytes()));
    }
    Ok((image, formats))
}

/// Sums requests by format.
pub(super) fn wanted(all: impl Iterator<Item = Wanted>) -> Vec<Wanted> {
    let mut formats: Vec<Wanted> = vec![];
    for own in all {
        match formats.iter_mut().find(|other| other.format == own.format) {
            Some(sum) => (sum.count, sum.largest) = (sum.count + own.count, sum.largest.max(own.largest)),
            None => formats.push(own),
        }
    }
    formats
}
