//! Plan of streamed data: the cut into batches, and the memory of slots.

use std::ops::Range;
use std::sync::Arc;

use crate::data::batch_spec::Wanted;
use crate::data::chunks::Chunk;
use crate::data::form::{DataSource, Pipelines};
use crate::data::row_segment::RowSegment;
use crate::data::slot::{Found, chunks};
use crate::device::batch::BatchCodec;
use crate::memory::error::Result;
use crate::memory::regions::aligned;

use super::batches::Scratch;
use super::head::{KINDS, data_bytes, head_bytes, made_bytes, parts_of_slot, slot_bytes, together, wanted_of};

/// Batches in flight: one read by a kernel, one being copied, one prepared by the host.
const SLOTS: u64 = 3;

/// Bytes of a slot if memory allows: copies long enough for full bandwidth, short enough to overlap.
const SLOT_BYTES: u64 = 64 << 20;

/// Least number of batches of a scan, if its row segments allow: the first copy overlaps with nothing.
const LEAST_BATCHES: u64 = 8;

/// Most bytes that travel in a batch of a scan shared with other sites: claimed row segments that wait for the link are lost to these.
pub(crate) const SHARED_BATCH_BYTES: u64 = 16 << 20;

/// Least bytes of a read from a disk: the host waits for the slowest request of a batch before it begins the next, so batches of 8 MiB reach three
/// quarters of a disk's rate. Copies are short beside such reads.
const READ_BYTES: u64 = 16 << 20;

/// Bytes of a slot of Parquet pages. A single warp decodes a page of any size, so there must be many at once.
const SLOT_BYTES_OF_PAGES: u64 = 256 << 20;

/// Least number of batches of a scan of Parquet pages.
const LEAST_BATCHES_OF_PAGES: u64 = 3;

/// Descriptors take at most one `DESCRIPTOR_SHARE`th of a slot, unless those of a full batch take more.
const DESCRIPTOR_SHARE: u64 = 8;

/// Largest number of bytes of a slot for expanded data besides copied bytes: of segments found in device memory, one launch reads many.
const MADE_BYTES: u64 = 192 << 20;

/// The plan of a program's streamed data.
#[derive(Debug, Default)]
pub struct StreamPlan {
    /// Number of slots.
    pub slots: u64,
    /// Bytes of each.
    pub slot_bytes: u64,
    /// Largest number of copied bytes of a batch, unless a single row segment has more.
    batch_bytes: u64,
    /// Largest number of descriptor bytes of a batch.
    pub(crate) descriptor_bytes: u64,
    /// Largest number of segments of a batch, without those found in device memory that need no decompression.
    pub(crate) segments: u64,
    /// Number of batches of all scans, if none is pruned.
    pub batches: u64,
    /// Whether segments need to be decompressed or expanded.
    pub(crate) opens: bool,
    /// The vendor library's memory, behind the slots.
    pub(crate) scratch: Scratch,
}

impl StreamPlan {
    /// Plans slots of at most `most` bytes in total for kernels that read these row segments from `source`, with the count and batch size of `asked`,
    /// unless row segments are larger. `library` decompresses the formats that Warpmill's kernels do not.
    ///
    /// # Errors
    /// The library's.
    pub fn new(
        kernels: &[Vec<RowSegment<'_>>],
        source: DataSource,
        most: u64,
        asked: Pipelines,
        library: Option<&dyn BatchCodec>,
    ) -> Result<Self> {
        let nothing = Found::default();
        let sizes = kernels.iter().flatten().map(|row| slot_bytes(std::slice::from_ref(row), &nothing));
        let (least, total) = sizes.fold((0, 0), |(least, total), bytes| (least.max(bytes), total + bytes));
        if total == 0 {
            return Ok(Self::default());
        }
        let all: Vec<Wanted> = kernels.iter().flat_map(|rows| wanted_of(rows)).collect();
        let library = library.filter(|_| !all.is_empty());
        let temp = library.map_or(Ok(0), |library| Scratch::room(library, &all, most))?;
        let most = most.saturating_sub(temp);
        let count_of_slots = if asked.count == 0 { SLOTS } else { asked.count.into() };
        let pages = kernels.iter().any(|rows| chunks(rows).any(|chunk| chunk.is_pages()));
        let wanted = match (asked.batch_bytes, pages) {
            (0, false) if source == DataSource::Disk => (total / 2).clamp(READ_BYTES, SLOT_BYTES).min(total),
            (0, false) => (total / LEAST_BATCHES).min(SLOT_BYTES),
            (0, true) => (total / LEAST_BATCHES_OF_PAGES).min(SLOT_BYTES_OF_PAGES),
            (asked, _) => asked,
        };
        let wanted = wanted.min(most / count_of_slots);
        let batch_bytes = aligned(wanted.max(least));
        let expanded = |chunk: &Arc<Chunk>| made_bytes(chunk)[1];
        let made = kernels.iter().map(|rows| chunks(rows).map(expanded).sum::<u64>());
        let room = (most / count_of_slots).saturating_sub(batch_bytes);
        // No chunk is found in device memory if it is Parquet pages or read from a disk.
        let found = source != DataSource::Disk && !pages;
        let made = if found { made.max().unwrap_or(0).min(MADE_BYTES).min(room) } else { 0 };
        let mut plan = Self { slot_bytes: batch_bytes + made / 256 * 256, batch_bytes, ..Self::default() };
        let mut count = 0;
        let own = |chunk: &Chunk| chunk.for_device().is_some() && chunk.batch_format().is_none();
        let opened = |chunk: &Arc<Chunk>| own(chunk) || chunk.expanded.is_some();
        plan.opens = kernels.iter().any(|rows| chunks(rows).any(opened));
        for rows in kernels {
            for batch in plan.batches(rows, &nothing) {
                let rows = &rows[batch];
                plan.descriptor_bytes = plan.descriptor_bytes.max(head_bytes(rows));
                plan.segments = plan.segments.max(Size::of(rows, &nothing).opened);
                if let Some(library) = library {
                    wanted_of(rows).iter().try_for_each(|wanted| plan.scratch.add(library, wanted, temp))?;
                }
                count += 1;
            }
            if found {
                // Room for one launch over all row segments that need no copies.
                let all = head_bytes(rows).min(plan.slot_bytes / DESCRIPTOR_SHARE);
                plan.descriptor_bytes = plan.descriptor_bytes.max(all);
            }
        }
        plan.slots = (most / plan.slot_bytes).clamp(count_of_slots.min(2), count_of_slots).min(count);
        plan.batches = count;
        Ok(plan)
    }

    /// Bytes of a region for all slots and the scratch memory.
    pub fn bytes(&self) -> u64 {
        self.slots * self.slot_bytes + self.scratch.bytes()
    }

    /// Cuts `rows` into batches that fill slots. Chunks `found` in device memory are not copied.
    pub fn batches(&self, rows: &[RowSegment<'_>], found: &Found) -> Vec<Range<usize>> {
        self.batches_of(u64::MAX, rows, found)
    }

    /// [`StreamPlan::batches`] of at most `most` copied bytes, unless a row segment has more.
    pub fn batches_of(&self, most: u64, rows: &[RowSegment<'_>], found: &Found) -> Vec<Range<usize>> {
        let mut batches: Vec<Range<usize>> = vec![];
        let mut size = Size::default();
        for (position, row) in rows.iter().enumerate() {
            let own = Size::of(std::slice::from_ref(row), found);
            let joined = size.plus(&own);
            match batches.last_mut() {
                Some(last) if joined.travelling <= most && self.holds(&joined) => {
                    (last.end, size) = (position + 1, joined)
                }
                _ => {
                    batches.push(position..position + 1);
                    size = own;
                }
            }
        }
        batches
    }

    /// Whether a batch of this size fits a slot, and the descriptor and mirror memory planned per batch: more of small pruned row segments fit into a
    /// slot than that memory was made for.
    fn holds(&self, size: &Size) -> bool {
        let unknown = self.batches == 0;
        let head: u64 = size.descriptors.map(aligned).iter().sum();
        together((size.descriptors, size.others)) <= self.slot_bytes
            && head + size.travelling <= self.batch_bytes
            && (unknown || (head <= self.descriptor_bytes && size.opened <= self.segments))
    }
}

/// Bytes and counts of row segments in a slot.
#[derive(Default)]
struct Size {
    /// Bytes of descriptors, by kind.
    descriptors: [u64; KINDS],
    /// Bytes of everything else.
    others: u64,
    /// Bytes of copied segments, included in `others`.
    travelling: u64,
    /// Number of segments that are copied, or that the device decompresses.
    opened: u64,
}

impl Size {
    fn of(rows: &[RowSegment<'_>], found: &Found) -> Self {
        let (descriptors, others) = parts_of_slot(rows, found);
        let is_read_there = |chunk: &Chunk| {
            found.contains_key(&chunk.travels_as()) && chunk.decompressed_bytes().is_none() && !chunk.is_pages()
        };
        let opened = chunks(rows).filter(|chunk| !is_read_there(chunk)).count() as u64;
        Self { descriptors, others, travelling: data_bytes(rows, found), opened }
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            descriptors: std::array::from_fn(|kind| self.descriptors[kind] + other.descriptors[kind]),
            others: self.others + other.others,
            travelling: self.travelling + other.travelling,
            opened: self.opened + other.opened,
        }
    }
}
