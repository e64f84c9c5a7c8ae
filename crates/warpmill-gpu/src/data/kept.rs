//! Chunks of streamed data that are kept in the caching region, in the room that fully cached programs leave.
//!
//! A chunk is kept as it is copied, so that the next run need not copy it. Every kept byte saves about the same time at each read of its column, so
//! columns that are read more often come first. Reads are counted in runs with streamed data, and decay. A column takes no room that columns read
//! [`CLEARLY`] times as often still want. Kept chunks are dropped only if others would have saved [`WORTH_CHANGING`] times the bytes: queries that
//! alternate do not evict each other's data.

use std::collections::{HashMap, HashSet};

use super::form::Form;
use crate::device::DevicePtr;

use crate::memory::regions::{Cache, Key, Owner, Region};

/// Use counts halve after this many runs; a column that is unused for as many counts as unused.
const FADES: u64 = 64;

/// Ratio of use counts from which the more used column has precedence.
const CLEARLY: f64 = 1.5;

/// Ratio of saved bytes from which kept chunks are dropped for others.
const WORTH_CHANGING: f64 = 2.0;

/// Number of runs for which room that a program needed is left free: the program may run again.
const LEAVES_ROOM: u64 = 16;

/// A column in one form. Tables are identified by name, which is precise enough for counting.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ColumnId {
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// The form in which it is copied.
    pub form: Form,
}

/// Statistics of a column.
#[derive(Debug, Clone, Copy, Default)]
struct Column {
    /// Decayed uses as of run `last`.
    uses: f64,
    last: u64,
    /// Bytes to copy if nothing is kept.
    bytes: u64,
    /// Bytes that are kept.
    kept: u64,
}

impl Column {
    fn uses(&self, now: u64) -> f64 {
        let runs = now - self.last;
        if runs > FADES { 0.0 } else { self.uses * (-(runs as f64) / FADES as f64).exp2() }
    }
}

/// The kept chunks, and statistics of their columns.
#[derive(Debug)]
pub struct Kept {
    cache: Cache,
    /// Chunks that running programs are copying into reserved room.
    coming: HashSet<Key>,
    columns: HashMap<ColumnId, Column>,
    /// Number of runs with streamed data.
    runs: u64,
    /// Whether a chunk found no room since everything was last dropped.
    full: bool,
    /// Whether other columns would save far more bytes.
    stale: bool,
    /// Byte limit, and the last run for which it holds: programs needed the rest.
    most: (u64, u64),
}

impl Kept {
    /// An empty cache in `region`.
    pub fn new(region: Region) -> Self {
        let (coming, columns) = Default::default();
        Self { cache: Cache::new(region), coming, columns, runs: 0, full: false, stale: false, most: (u64::MAX, 0) }
    }

    /// The address of a kept chunk.
    pub fn get(&self, key: &Key) -> Option<DevicePtr> {
        self.cache.get(key).map(|(at, _)| *at)
    }

    /// Bytes of device memory.
    pub fn held(&self) -> u64 {
        self.cache.held()
    }

    /// Bytes kept of a column, in any form.
    pub fn bytes_of(&self, table: &str, column: &str) -> u64 {
        let same = |id: &&ColumnId| id.table == table && id.column == column;
        self.columns.iter().filter(|(id, _)| same(id)).map(|(_, column)| column.kept).sum()
    }

    /// Begins a run that reads these columns, given with their bytes. Returns for each the bytes of room that it must leave to more used columns.
    pub fn begin(&mut self, read: &[(ColumnId, u64)]) -> Vec<u64> {
        self.runs += 1;
        let now = self.runs;
        for (id, bytes) in read {
            let column = self.columns.entry(id.clone()).or_default();
            (column.uses, column.last) = (column.uses(now) + 1.0, now);
            column.bytes = column.bytes.max(*bytes);
        }
        self.columns.retain(|_, column| column.kept > 0 || column.uses(now) > 0.0);
        let wanted = |uses: f64| -> u64 {
            let first = self.columns.values().filter(|other| other.uses(now) > CLEARLY * uses);
            first.map(|other| other.bytes.saturating_sub(other.kept)).sum()
        };
        read.iter().map(|(id, _)| wanted(self.columns[id].uses(now))).collect()
    }

    /// Reserves `bytes` bytes for a chunk of column `id`, of which `copied` bytes are copied. `spare` bytes are free, of which `left` are for others.
    /// `None` if there is not enough room, or the chunk is here or being copied.
    pub fn reserve(
        &mut self,
        key: Key,
        (id, copied): (&ColumnId, u64),
        bytes: u64,
        (spare, left): (u64, u64),
    ) -> Option<DevicePtr> {
        if self.cache.get(&key).is_some() || self.coming.contains(&key) {
            return None;
        }
        let spare = spare.min(self.most().saturating_sub(self.held()));
        let fits = self.cache.growth(bytes).saturating_add(left) <= spare;
        // A device with less memory than reported has no room either.
        let Some(at) = fits.then(|| self.cache.reserve(bytes).ok()).flatten() else {
            self.full = true;
            return None;
        };
        self.coming.insert(key);
        if let Some(column) = self.columns.get_mut(id) {
            column.kept += copied;
        }
        Some(at)
    }

    /// Makes a chunk whose copy has completed available.
    pub fn insert(&mut self, key: Key, at: DevicePtr, owner: Owner) {
        self.coming.remove(&key);
        self.cache.insert(key, at, owner);
    }

    /// Gives up a reserved chunk whose copy failed; its room is lost until everything is dropped.
    pub fn abandon(&mut self, key: &Key, (id, copied): (&ColumnId, u64)) {
        self.coming.remove(key);
        if let Some(column) = self.columns.get_mut(id) {
            column.kept = column.kept.saturating_sub(copied);
        }
    }

    /// Ends a run with `spare` free bytes: decides whether other columns would save far more.
    pub fn end(&mut self, spare: u64) {
        let (now, spare) = (self.runs, spare.min(self.most().saturating_sub(self.held())));
        let kept: u64 = self.columns.values().map(|column| column.kept).sum();
        let saves: f64 = self.columns.values().map(|column| column.uses(now) * column.kept as f64).sum();
        let mut others: Vec<(f64, u64)> = self
            .columns
            .values()
            .map(|column| (column.uses(now), column.bytes))
            .filter(|other| other.0 > 0.0)
            .collect();
        others.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut room, mut best) = (kept.saturating_add(spare), 0.0);
        for (uses, bytes) in others {
            let taken = bytes.min(room);
            room -= taken;
            best += uses * taken as f64;
        }
        self.stale = self.full && kept > 0 && best > WORTH_CHANGING * saves;
    }

    /// Whether everything should be dropped as soon as nothing runs.
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    fn most(&self) -> u64 {
        let (most, until) = self.most;
        if self.runs <= until { most } else { u64::MAX }
    }

    /// Makes room for a program beside which at most `most` bytes may be kept. No queued work may use the dropped chunks.
    pub fn make_way(&mut self, most: u64) {
        self.clear();
        self.most = (most.min(self.most()), self.runs + LEAVES_ROOM);
    }

    /// Drops all chunks, but keeps the statistics. No queued work may use them.
    pub fn clear(&mut self) {
        self.cache.clear();
        self.coming.clear();
        self.columns.values_mut().for_each(|column| column.kept = 0);
        (self.full, self.stale) = (false, false);
    }
}

#[cfg(test)]
mod tests;
