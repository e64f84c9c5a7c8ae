//! The part of data passing through that stays: chunks for which the caching region has room beside what programs have there as a whole.
//!
//! A chunk stays as it travels, so that the next run need not copy it. Every byte that stays saves about the same time whenever its
//! column is read, so columns that are read more often come first. How often that is, is counted in runs in which data passes through,
//! and fades. A column takes no room that columns which are read [`CLEARLY`] more often still want; and what stays is dropped
//! only where something else could have saved [`WORTH_CHANGING`] times the bytes: queries that take turns do not drive each other's data out.

use std::collections::{HashMap, HashSet};

use super::form::Form;
use crate::device::DevicePtr;

use crate::memory::regions::{Cache, Key, Owner, Region};

/// Uses count half after so many runs, and nothing where a column was not used in as many.
const FADES: u64 = 64;

/// Columns that are read so many times as often come first.
const CLEARLY: f64 = 1.5;

/// Chunks that stay make way for others that would save so many times the bytes.
const WORTH_CHANGING: f64 = 2.0;

/// A program that needed the room keeps it for so many runs: it may come again.
const LEAVES_ROOM: u64 = 16;

/// A column in one form; programs tell tables by their names only, which is good enough for counting.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ColumnId {
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// In which form it passes.
    pub form: Form,
}

/// The facts about a column.
#[derive(Debug, Clone, Copy, Default)]
struct Column {
    /// At run `last`.
    uses: f64,
    last: u64,
    /// Bytes of it that travel where nothing stays.
    bytes: u64,
    /// Bytes of it that stay.
    kept: u64,
}

impl Column {
    fn uses(&self, now: u64) -> f64 {
        let runs = now - self.last;
        if runs > FADES { 0.0 } else { self.uses * (-(runs as f64) / FADES as f64).exp2() }
    }
}

/// Chunks that stay, and what is known of their columns.
#[derive(Debug)]
pub struct Kept {
    cache: Cache,
    /// Chunks that programs which run are copying here.
    coming: HashSet<Key>,
    columns: HashMap<ColumnId, Column>,
    /// Runs in which data passed through.
    runs: u64,
    /// Whether something found no room since everything was dropped.
    full: bool,
    /// Whether other columns deserve the room more, by far.
    stale: bool,
    /// Bytes that may stay until a certain run: programs needed the rest.
    most: (u64, u64),
}

impl Kept {
    /// Nothing, in this region.
    pub fn new(region: Region) -> Self {
        let (coming, columns) = Default::default();
        Self { cache: Cache::new(region), coming, columns, runs: 0, full: false, stale: false, most: (u64::MAX, 0) }
    }

    /// The place where a chunk is that stayed.
    pub fn get(&self, key: &Key) -> Option<DevicePtr> {
        self.cache.get(key).map(|(at, _)| *at)
    }

    /// Bytes of device memory.
    pub fn held(&self) -> u64 {
        self.cache.held()
    }

    /// Bytes that stay of a column, in any form.
    pub fn bytes_of(&self, table: &str, column: &str) -> u64 {
        let same = |id: &&ColumnId| id.table == table && id.column == column;
        self.columns.iter().filter(|(id, _)| same(id)).map(|(_, column)| column.kept).sum()
    }

    /// A run begins that reads these columns, of so many bytes. Gives the bytes of room that each leaves to others.
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

    /// Room for `bytes` bytes of a chunk, of `spare` that there are, of which `left` are to be left to others. None where that is too much,
    /// or the chunk is here or on its way.
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
        // A device that has less memory than it said has no room either.
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

    /// The chunk for which there was room is there: others find it.
    pub fn insert(&mut self, key: Key, at: DevicePtr, owner: Owner) {
        self.coming.remove(&key);
        self.cache.insert(key, at, owner);
    }

    /// The chunk for which there was room has not come; its room is lost until everything is dropped.
    pub fn abandon(&mut self, key: &Key, (id, copied): (&ColumnId, u64)) {
        self.coming.remove(key);
        if let Some(column) = self.columns.get_mut(id) {
            column.kept = column.kept.saturating_sub(copied);
        }
    }

    /// A run ends, with `spare` bytes more that could be had: looks whether other columns deserve the room more.
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

    /// Makes way for a program beside which `most` bytes may stay. No queued work may use what is dropped.
    pub fn make_way(&mut self, most: u64) {
        self.clear();
        self.most = (most.min(self.most()), self.runs + LEAVES_ROOM);
    }

    /// Drops everything. No queued work may use it. How often columns were read is not forgotten.
    pub fn clear(&mut self) {
        self.cache.clear();
        self.coming.clear();
        self.columns.values_mut().for_each(|column| column.kept = 0);
        (self.full, self.stale) = (false, false);
    }
}

#[cfg(test)]
mod tests;
