//! The way a program's segments are cut into batches, and what memory those take.

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

/// Batches in flight: one that a kernel reads, one that is copied, one that the host makes ready.
const SLOTS: u64 = 3;

/// Bytes of a slot, where memory allows: long enough copies for full bandwidth, short enough to overlap.
const SLOT_BYTES: u64 = 64 << 20;

/// A scan is cut into so many batches at least, where its row segments allow: the first copy overlaps with nothing.
const LEAST_BATCHES: u64 = 8;

/// The bytes that are read from a disk at once, where there are as many: the host waits for the slowest request of a batch before it begins the next one,
/// so that batches of 8 MiB come at three quarters of a disk's rate. What is copied while nothing is read hardly matters beside.
const READ_BYTES: u64 = 16 << 20;

/// Bytes of a slot of pages of Parquet, each of which a warp goes through from its beginning to its end, however large it is: there have to be
/// many at once.
const SLOT_BYTES_OF_PAGES: u64 = 256 << 20;

/// A scan of pages of Parquet is cut into so many batches at least.
const LEAST_BATCHES_OF_PAGES: u64 = 3;

/// Descriptors take this part of a slot at most, unless those of a batch that fills a slot take more.
const DESCRIPTOR_SHARE: u64 = 8;

/// Bytes of a slot for what segments expand to, beside those that travel: of what was found there, many are read by one launch.
const MADE_BYTES: u64 = 192 << 20;

/// The way a program's segments travel.
#[derive(Debug, Default)]
pub struct StreamPlan {
    /// Slots.
    pub slots: u64,
    /// Bytes of each.
    pub slot_bytes: u64,
    /// Bytes that travel in a batch at most, unless a row segment has more.
    batch_bytes: u64,
    /// Bytes of descriptors that a batch has at most.
    pub(crate) descriptor_bytes: u64,
    /// Segments that a batch has at most, but for those that are found on the device and need not be decompressed.
    pub(crate) segments: u64,
    /// Batches of all scans, where nothing is left out.
    pub batches: u64,
    /// Whether there is something to decompress or to expand when it has arrived.
    pub(crate) opens: bool,
    /// The memory that the vendor's library takes to decompress a batch, behind the slots.
    pub(crate) scratch: Scratch,
}

impl StreamPlan {
    /// For kernels that read these row segments from `source`, with slots of `most` bytes together, where row segments are no larger, and as
    /// many of them as `asked` says. `library` decompresses what kernels of ours do not.
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
        // Pages, and segments that are read from a disk, have no copies on the device.
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
                // One launch for all row segments that have nothing to bring.
                let all = head_bytes(rows).min(plan.slot_bytes / DESCRIPTOR_SHARE);
                plan.descriptor_bytes = plan.descriptor_bytes.max(all);
            }
        }
        plan.slots = (most / plan.slot_bytes).clamp(count_of_slots.min(2), count_of_slots).min(count);
        plan.batches = count;
        Ok(plan)
    }

    /// The bytes that all slots take of a region, and what is behind them.
    pub fn bytes(&self) -> u64 {
        self.slots * self.slot_bytes + self.scratch.bytes()
    }

    /// The row segments that travel together, but for those of their chunks that were found in device memory.
    pub fn batches(&self, rows: &[RowSegment<'_>], found: &Found) -> Vec<Range<usize>> {
        let mut batches: Vec<Range<usize>> = vec![];
        let mut size = Size::default();
        for (position, row) in rows.iter().enumerate() {
            let own = Size::of(std::slice::from_ref(row), found);
            let joined = size.plus(&own);
            match batches.last_mut() {
                Some(last) if self.holds(&joined) => (last.end, size) = (position + 1, joined),
                _ => {
                    batches.push(position..position + 1);
                    size = own;
                }
            }
        }
        batches
    }

    /// Whether a batch may have so much. Where only small row segments are left of some, more of them fit into a slot than the memory beside it was
    /// made for.
    fn holds(&self, size: &Size) -> bool {
        let unknown = self.batches == 0;
        let head: u64 = size.descriptors.map(aligned).iter().sum();
        together((size.descriptors, size.others)) <= self.slot_bytes
            && head + size.travelling <= self.batch_bytes
            && (unknown || (head <= self.descriptor_bytes && size.opened <= self.segments))
    }
}

/// The size of row segments in a slot.
#[derive(Default)]
struct Size {
    /// Bytes of descriptors, by kind.
    descriptors: [u64; KINDS],
    /// Bytes of everything else.
    others: u64,
    /// Bytes of segments that travel; a part of `others`.
    travelling: u64,
    /// Segments that travel, or that the device decompresses.
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
