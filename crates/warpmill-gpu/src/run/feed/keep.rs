//! The data that a run finds in the caching region, and the part of it that stays there.

use std::collections::{HashMap, HashSet};

use crate::compile::prepared::Prepared;
use crate::data::chunks::Chunk;
use crate::data::kept::ColumnId;
use crate::data::row_segment::RowSegment;
use crate::data::slot::{Found, Part, chunks};
use crate::device::{DevicePtr, Stream};
use crate::memory::error::Result;
use crate::memory::mirrors::Mirrors;
use crate::memory::regions::{KeyMap, Owner, padded};
use crate::run::shared::Shared;

use warpmill_format::ValueLayout;

/// A chunk that this run has copied to the caching region.
struct Fresh {
    at: DevicePtr,
    owner: Owner,
    /// Its column's position, and its bytes.
    column: (usize, u64),
}

/// Lets some of what a run brings stay for the next ones.
pub(super) struct Keeper<'a> {
    shared: &'a Shared,
    /// By position among the columns of the program's scans, and what each leaves to others.
    columns: Vec<(ColumnId, u64)>,
    /// The first of them of each pipeline.
    first: HashMap<usize, usize>,
    /// Not known to other programs before it is known to be there.
    fresh: KeyMap<Fresh>,
    /// Strings that the host knows the addresses of.
    mirrored: HashSet<DevicePtr>,
    /// Bytes of chunks that did not travel.
    pub found: u64,
    /// Bytes of chunks that stay from now on.
    pub kept: u64,
}

impl<'a> Keeper<'a> {
    /// For a run of `prepared`.
    pub fn new(shared: &'a Shared, prepared: &Prepared) -> Self {
        let (mut read, mut first) = (vec![], HashMap::new());
        for (position, (column, form)) in prepared.columns.iter().zip(&prepared.forms).enumerate() {
            first.entry(column.pipeline).or_insert(position);
            let (table, column_name) = column.name.clone();
            read.push((ColumnId { table, column: column_name, form: *form }, column.work(*form).copied));
        }
        let left = shared.store.kept.lock().begin(&read);
        let columns = read.into_iter().zip(left).map(|((id, _), left)| (id, left)).collect();
        let (fresh, mirrored) = Default::default();
        Self { shared, columns, first, fresh, mirrored, found: 0, kept: 0 }
    }

    /// The place where chunks of these row segments are in the caching region: those that stayed, and segments of programs whose data is there as
    /// a whole. Rows may refer to strings in them: `mirrors` hears where these are on the host.
    pub fn find(&mut self, rows: &[RowSegment<'_>], mirrors: &mut Mirrors) -> Found {
        let (cache, kept) = (self.shared.store.cache.lock(), self.shared.store.kept.lock());
        let place = |chunk: &Chunk| {
            let key = chunk.travels_as();
            let here = self.fresh.get(&key).map(|fresh| fresh.at).or_else(|| kept.get(&key));
            let whole = || chunk.segment().and_then(|_| cache.get(&key)).map(|(at, _)| *at);
            Some((key, here.or_else(whole)?))
        };
        let mut found = Found::default();
        for chunk in chunks(rows).filter(|chunk| chunk.may_stay()) {
            let Some((key, at)) = place(chunk) else { continue };
            found.insert(key, at);
            if let Some(segment) = chunk.segment()
                && matches!(chunk.layout.values, ValueLayout::Strings { .. })
                && self.mirrored.insert(at)
            {
                mirrors.add(at, segment.as_bytes(), segment.clone());
            }
        }
        found
    }

    /// Queues copies of those of `parts`, which are in the slot at `slot`, for which there is room. They are columns of row segments `rows`
    /// of `pipeline`.
    pub fn keep(
        &mut self,
        (pipeline, rows): (usize, &[RowSegment<'_>]),
        (slot, parts): (DevicePtr, &[Part]),
        stream: Stream,
    ) -> Result<()> {
        let Some(&first) = self.first.get(&pipeline) else { return Ok(()) };
        let shared = self.shared;
        let offsets: KeyMap<u64> = parts.iter().map(|part| (part.chunk.travels_as(), part.offset)).collect();
        let all = rows.iter().flat_map(|row| row.columns.iter().enumerate());
        for (position, chunk) in all.filter(|(_, chunk)| chunk.may_stay()) {
            let (key, bytes) = (chunk.travels_as(), chunk.copied_bytes());
            let Some(offset) = offsets.get(&key) else { continue };
            let Some((id, left)) = self.columns.get(first + position) else { continue };
            let room = shared
                .admission
                .keep(&shared.store, |kept, spare| kept.reserve(key, (id, bytes), bytes, (spare, *left)));
            let Some(at) = room else { continue };
            let column = (first + position, bytes);
            self.fresh.insert(key, Fresh { at, owner: chunk.owner(), column });
            // SAFETY: the slot has the chunk, with the padding behind it, when what was queued before is done; the room was
            // reserved for both.
            unsafe { shared.store.device.copy_on_device(at, slot + offset, padded(bytes), stream)? };
            self.kept += bytes;
        }
        Ok(())
    }

    /// All that was queued is done: other programs find what stays.
    pub fn publish(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        let shared = self.shared;
        shared.admission.keep(&shared.store, |kept, spare| {
            fresh.into_iter().for_each(|(key, fresh)| kept.insert(key, fresh.at, fresh.owner));
            kept.end(spare);
        });
    }
}

impl Drop for Keeper<'_> {
    fn drop(&mut self) {
        let mut kept = self.shared.store.kept.lock();
        for (key, fresh) in &self.fresh {
            let (position, bytes) = fresh.column;
            kept.abandon(key, (&self.columns[position].0, bytes));
        }
    }
}
