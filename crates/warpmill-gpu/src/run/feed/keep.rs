//! Lookup and retention of streamed chunks in the caching region.

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

/// A chunk that this run has copied into the caching region.
struct Fresh {
    at: DevicePtr,
    owner: Owner,
    /// The position of its column, and its bytes.
    column: (usize, u64),
}

/// Keeps chunks that a run copies for later runs.
pub(super) struct Keeper<'a> {
    shared: &'a Shared,
    /// Columns of the program's scans, each with the bytes that it must leave to others.
    columns: Vec<(ColumnId, u64)>,
    /// Position of the first column of each pipeline.
    first: HashMap<usize, usize>,
    /// Kept chunks that other programs cannot find yet, as their copies may not have completed.
    fresh: KeyMap<Fresh>,
    /// Addresses of string segments whose host originals are recorded.
    mirrored: HashSet<DevicePtr>,
    /// Bytes of chunks that needed no copy.
    pub found: u64,
    /// Bytes of newly kept chunks.
    pub kept: u64,
}

impl<'a> Keeper<'a> {
    /// A new instance for a run of `prepared`.
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

    /// The addresses of chunks of these row segments in the caching region: kept ones, and segments of fully cached programs. Host originals of
    /// strings are added to `mirrors`, as rows may refer to them.
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

    /// Queues copies into the caching region of the `parts` for which there is room. They are in the slot at `slot`, and columns of row segments
    /// `rows` of `pipeline`.
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

    /// Makes the kept chunks available to other programs. All queued work is done.
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
