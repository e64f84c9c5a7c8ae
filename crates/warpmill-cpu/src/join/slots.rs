//! Open-addressing tables: one 16-byte slot per distinct key, at most half full, partitioned by the hash's high bits so that partitions build in
//! parallel and in cache. Rows of one key are contiguous.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rayon::prelude::*;

use super::Matches;
use super::keys::MISS;
use crate::vector::NULL_ROW;

/// A distinct key.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// The key's code, or its hash where keys do not pack.
    tag: u64,
    /// The key's first row.
    start: u32,
    /// Number of the key's rows; 0 marks a free slot.
    len: u32,
}

/// Slots of one partition: `base ..= base + mask`.
#[derive(Debug, Clone, Copy)]
struct Part {
    base: usize,
    mask: usize,
}

#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    parts: Vec<Part>,
    /// log2 of the number of partitions.
    bits: u32,
}

/// Result of a build.
pub(super) struct Built {
    pub slots: Slots,
    pub unique: bool,
    /// The row order that the table assumes; `None`: unchanged.
    pub order: Option<Vec<u32>>,
}

/// Rows per partition (24 bytes each during the build: about the size of L2).
const PART_ROWS: usize = 1 << 15;
const MAX_BITS: u32 = 10;
/// Number of lookups between a prefetch and its use.
const AHEAD: usize = 24;
/// Largest size of a table that fits L2 and needs no prefetch.
const PREFETCH_BYTES: usize = 512 << 10;

impl Slots {
    /// Bytes of a table of `rows` rows, including memory for its build.
    pub fn bytes(rows: usize) -> usize {
        rows * (4 * size_of::<Slot>() + 12)
    }

    /// The first row and the number of rows of each repeated key, in row order.
    pub fn runs_of_rows(&self) -> Vec<(u32, u32)> {
        let mut runs: Vec<_> =
            self.slots.iter().filter(|slot| slot.len > 1).map(|slot| (slot.start, slot.len)).collect();
        runs.par_sort_unstable();
        runs
    }

    /// A table of rows with these tags. `hash` returns a tag's hash; `equal` tells whether two rows of equal tags have equal keys.
    pub fn build(tags: &[u64], hash: impl Fn(u64) -> u64 + Sync, equal: impl Fn(usize, usize) -> bool + Sync) -> Built {
        let bits = (tags.len() / PART_ROWS).checked_ilog2().map_or(0, |log| (log + 1).min(MAX_BITS));
        let (rows, bounds) = partition(tags, bits, &hash);
        let mut parts = Vec::with_capacity(bounds.len() - 1);
        let mut base = 0;
        for bound in bounds.windows(2) {
            let capacity = ((bound[1] - bound[0]) * 2).next_power_of_two().max(2);
            parts.push(Part { base, mask: capacity - 1 });
            base += capacity;
        }
        let mut slots = vec![Slot::default(); base];
        let mut slot_of = vec![0u32; rows.len()];
        let unique = regions(&mut slots, &parts, &bounds, &rows, &mut slot_of)
            .into_par_iter()
            .map(|(region, rows, slot_of)| insert(region, rows, slot_of, tags, &hash, &equal))
            .reduce(|| true, |a, b| a && b);
        let order = (!unique).then(|| {
            let mut order = vec![0u32; rows.len()];
            let mut rest = order.as_mut_slice();
            let mut tasks = Vec::with_capacity(parts.len());
            let regions = regions(&mut slots, &parts, &bounds, &rows, &mut slot_of);
            for (region, bound) in regions.into_iter().zip(bounds.windows(2)) {
                let (own, others) = rest.split_at_mut(bound[1] - bound[0]);
                rest = others;
                tasks.push((region, bound[0] as u32, own));
            }
            tasks.into_par_iter().for_each(|((region, rows, slot_of), first, order)| {
                group(region, rows, slot_of, first, order);
            });
            order
        });
        Built { slots: Slots { slots, parts, bits }, unique, order }
    }

    /// Looks up rows by tag ([`MISS`]: no match). `equal(i, row)` tells whether lookup `i` and build row `row`, whose tags are equal, have equal
    /// keys.
    pub fn lookup(
        &self,
        tags: &[u64],
        unique: bool,
        hash: impl Fn(u64) -> u64,
        equal: impl Fn(usize, usize) -> bool,
        positions: &mut Vec<usize>,
        out: &mut Matches,
    ) {
        positions.clear();
        positions.extend(tags.iter().map(|&tag| {
            let hash = hash(tag);
            let part = self.parts[partition_of(hash, self.bits)];
            part.base + (hash as usize & part.mask)
        }));
        let far = self.slots.len() * size_of::<Slot>() > PREFETCH_BYTES;
        for (i, &tag) in tags.iter().enumerate() {
            if far && let Some(&ahead) = positions.get(i + AHEAD) {
                prefetch(&self.slots[ahead]);
            }
            let slot = if tag == MISS { Slot::default() } else { self.find(positions[i], tag, hash(tag), i, &equal) };
            if unique {
                out.starts.push(if slot.len == 0 { NULL_ROW } else { slot.start });
            } else {
                out.starts.push(slot.start);
                out.lens.push(slot.len);
            }
        }
    }

    #[inline(always)]
    fn find(&self, at: usize, tag: u64, hash: u64, i: usize, equal: &impl Fn(usize, usize) -> bool) -> Slot {
        let slot = self.slots[at];
        if slot.len == 0 || (slot.tag == tag && equal(i, slot.start as usize)) {
            return slot;
        }
        let part = self.parts[partition_of(hash, self.bits)];
        let mut offset = at - part.base;
        loop {
            offset = (offset + 1) & part.mask;
            let slot = self.slots[part.base + offset];
            if slot.len == 0 || (slot.tag == tag && equal(i, slot.start as usize)) {
                return slot;
            }
        }
    }
}

#[inline(always)]
fn partition_of(hash: u64, bits: u32) -> usize {
    // The top bit is not part of every hash (see `hash_tags`).
    ((hash << 1) >> 1 >> (63 - bits)) as usize
}

#[inline(always)]
pub(super) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no architectural effect; the address is that of a live reference.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Row numbers by partition, and the partitions' offsets (one more than partitions).
fn partition(tags: &[u64], bits: u32, hash: &(impl Fn(u64) -> u64 + Sync)) -> (Vec<u32>, Vec<usize>) {
    if bits == 0 {
        return ((0..tags.len() as u32).collect(), vec![0, tags.len()]);
    }
    const BLOCK: usize = 1 << 16;
    let count = 1usize << bits;
    let mut cursors: Vec<Vec<u32>> = tags
        .par_chunks(BLOCK)
        .map(|tags| {
            let mut counts = vec![0u32; count];
            tags.iter().for_each(|&tag| counts[partition_of(hash(tag), bits)] += 1);
            counts
        })
        .collect();
    let mut bounds = Vec::with_capacity(count + 1);
    let mut sum = 0u32;
    for part in 0..count {
        bounds.push(sum as usize);
        for cursor in &mut cursors {
            sum += std::mem::replace(&mut cursor[part], sum);
        }
    }
    bounds.push(tags.len());
    let rows: Vec<AtomicU32> = (0..tags.len()).map(|_| AtomicU32::new(0)).collect();
    tags.par_chunks(BLOCK).zip(&mut cursors).enumerate().for_each(|(block, (tags, cursor))| {
        for (i, &tag) in tags.iter().enumerate() {
            let at = &mut cursor[partition_of(hash(tag), bits)];
            rows[*at as usize].store((block * BLOCK + i) as u32, Relaxed);
            *at += 1;
        }
    });
    (rows.into_iter().map(AtomicU32::into_inner).collect(), bounds)
}

/// Each partition's slots, rows, and the slot of each row.
type Region<'a> = (&'a mut [Slot], &'a [u32], &'a mut [u32]);

fn regions<'a>(
    slots: &'a mut [Slot],
    parts: &[Part],
    bounds: &[usize],
    rows: &'a [u32],
    slot_of: &'a mut [u32],
) -> Vec<Region<'a>> {
    let (mut slots, mut slot_of) = (slots, slot_of);
    let mut regions = Vec::with_capacity(parts.len());
    for (part, bound) in parts.iter().zip(bounds.windows(2)) {
        let (own_slots, other_slots) = slots.split_at_mut(part.mask + 1);
        let (own_rows, other_rows) = slot_of.split_at_mut(bound[1] - bound[0]);
        regions.push((own_slots, &rows[bound[0]..bound[1]], own_rows));
        (slots, slot_of) = (other_slots, other_rows);
    }
    regions
}

/// Inserts a partition's rows. Returns whether all keys are distinct.
fn insert(
    slots: &mut [Slot],
    rows: &[u32],
    slot_of: &mut [u32],
    tags: &[u64],
    hash: &impl Fn(u64) -> u64,
    equal: &impl Fn(usize, usize) -> bool,
) -> bool {
    let mask = slots.len() - 1;
    let mut unique = true;
    for (&row, slot_of) in rows.iter().zip(slot_of) {
        let tag = tags[row as usize];
        let mut at = hash(tag) as usize & mask;
        loop {
            let slot = &mut slots[at];
            if slot.len == 0 {
                *slot = Slot { tag, start: row, len: 1 };
                break;
            }
            if slot.tag == tag && equal(slot.start as usize, row as usize) {
                slot.len += 1;
                unique = false;
                break;
            }
            at = (at + 1) & mask;
        }
        *slot_of = at as u32;
    }
    unique
}

/// Assigns each key of a partition a run of positions from `first` on, and orders its rows accordingly.
fn group(slots: &mut [Slot], rows: &[u32], slot_of: &[u32], first: u32, order: &mut [u32]) {
    let mut next = first;
    for slot in slots.iter_mut().filter(|slot| slot.len > 0) {
        slot.start = next;
        next += slot.len;
    }
    for (&row, &slot) in rows.iter().zip(slot_of) {
        let slot = &mut slots[slot as usize];
        order[(slot.start - first) as usize] = row;
        slot.start += 1;
    }
    slots.iter_mut().for_each(|slot| slot.start -= slot.len);
}
