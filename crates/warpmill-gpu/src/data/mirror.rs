//! The mirrored part of data that is on the host ([`crate::data::form::DataSource::Mirrored`]): segments of which the caching region has copies,
//! chosen by a policy and replaced every so many queries (Yogatama, thesis sections 4.1 and 4.3.1).
//!
//! What queries read is noted as they run; copies are made and dropped between queries only, when nothing runs that may use them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use warpmill_place::{Replication, Segment, place_segments};

use super::chunks::Chunk;
use super::decoding::Decoding;
use super::kept::ColumnId;
use super::policy::{AGING, History, Policy, Unit};
use super::source::PinnedCopies;
use crate::device::{Device, DevicePtr, Stream};
use crate::memory::error::Result;
use crate::memory::pool::Pool;
use crate::memory::regions::{Key, KeyMap, padded};

/// The way the mirrored part is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MirrorOptions {
    /// The policy.
    pub policy: Policy,
    /// Bytes of copies at most; 0: as many as the caching region may have.
    pub limit: u64,
    /// Queries between replacements.
    pub every: u32,
    /// Bytes of page-locked memory at most, which copies are made from; 0: as many as there are.
    pub pinned_limit: u64,
    /// The rule by which segments that several devices read have copies on all of them.
    pub replication: Replication,
}

impl Default for MirrorOptions {
    fn default() -> Self {
        Self { policy: Policy::default(), limit: 0, every: 16, pinned_limit: 0, replication: Replication::default() }
    }
}

/// Counts since the device was opened.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct MirrorProfile {
    /// Bytes of copies that there are.
    pub bytes: u64,
    /// Segments that queries read of which there was a copy.
    pub hits: u64,
    /// Those of which there was none.
    pub misses: u64,
    /// Bytes of hits.
    pub hit_bytes: u64,
    /// Bytes of misses.
    pub miss_bytes: u64,
    /// Copies that were made.
    pub copies: u64,
    /// Bytes of them.
    pub copied_bytes: u64,
    /// Copies that were dropped.
    pub evictions: u64,
    /// Replacements.
    pub replacements: u64,
    /// Nanoseconds that they took.
    pub nanos: u64,
}

/// A segment that queries have read.
#[derive(Debug)]
struct Known {
    chunk: Arc<Chunk>,
    column: usize,
    segment: usize,
    history: History,
    /// Of what all devices of a group read, as the last query did.
    group: Option<GroupShare>,
}

/// The part of a device in a segment that all devices of a group read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupShare {
    /// The device's number.
    pub own: usize,
    /// Devices of the group.
    pub devices: usize,
    /// The time that the segment takes from another device to this one, in seconds; of what is known of a segment: of all queries, aged.
    pub seconds: f64,
}

/// A copy.
#[derive(Debug)]
struct Here {
    at: DevicePtr,
    bytes: u64,
    /// As long as that lives, its key is of no other segment.
    _original: Arc<Chunk>,
}

/// The copies, and what is known of what could be copied.
#[derive(Debug)]
pub(crate) struct Mirror {
    pool: Pool,
    /// The most that the pool may have.
    most: u64,
    options: MirrorOptions,
    queries: u64,
    known: KeyMap<Known>,
    columns: HashMap<ColumnId, usize>,
    /// Of each column.
    histories: Vec<History>,
    here: KeyMap<Here>,
    due: bool,
    counts: MirrorProfile,
}

/// A segment that a query reads.
pub(crate) struct Read<'a> {
    pub chunk: &'a Arc<Chunk>,
    /// Its column, by number ([`Mirror::number`]).
    pub column: usize,
    pub segment: usize,
    /// Whether there is a copy.
    pub here: bool,
    /// The seconds that a copy would save.
    pub weight: f64,
    /// Where all devices of a group read it.
    pub group: Option<GroupShare>,
}

impl Mirror {
    /// Nothing, of at most `most` bytes.
    pub fn new(device: Arc<dyn Device>, most: u64) -> Self {
        let (queries, known, columns, histories, here, due, counts) = Default::default();
        let options = MirrorOptions::default();
        Self { pool: Pool::new(device, most), most, options, queries, known, columns, histories, here, due, counts }
    }

    /// A query begins under `options`. Where they are others than before, everything is forgotten before the next query that runs alone.
    pub fn begin(&mut self, options: MirrorOptions) {
        if self.options != options {
            self.options = options;
            self.known.clear();
            // Runs that have begun know columns by their numbers.
            self.histories.fill(History::default());
            self.due = true;
        }
        self.queries += 1;
    }

    /// The number of a column, for as long as the device is open.
    pub fn number(&mut self, column: ColumnId) -> usize {
        *self.columns.entry(column).or_insert_with(|| {
            self.histories.push(History::default());
            self.histories.len() - 1
        })
    }

    /// The place of the copy of a segment.
    pub fn get(&self, key: &Key) -> Option<DevicePtr> {
        self.here.get(key).map(|here| here.at)
    }

    /// Notes what the running query reads.
    pub fn note(&mut self, read: &Read<'_>) {
        let &Read { chunk, column, segment, here, weight, group } = read;
        let bytes = chunk.copied_bytes();
        let (counts, queries) = (&mut self.counts, self.queries);
        if here {
            (counts.hits, counts.hit_bytes) = (counts.hits + 1, counts.hit_bytes + bytes);
        } else {
            (counts.misses, counts.miss_bytes) = (counts.misses + 1, counts.miss_bytes + bytes);
        }
        self.histories[column].note(queries, weight);
        let known = self.known.entry(chunk.travels_as()).or_insert_with(|| {
            let (chunk, history) = (chunk.clone(), History::default());
            Known { chunk, column, segment, history, group: None }
        });
        known.history.note(queries, weight);
        let before = known.group.map_or(0.0, |known| known.seconds);
        known.group = group.map(|now| GroupShare { seconds: before + now.seconds, ..now });
    }

    /// A query ends: copies are replaced before the next one, if it is time for that.
    pub fn end(&mut self) {
        self.due |= self.queries.is_multiple_of(u64::from(self.options.every.max(1)));
    }

    /// Whether copies are to be replaced.
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// Bytes of the device's memory.
    pub fn held(&self) -> u64 {
        self.pool.held()
    }

    /// Drops all copies. No queued work may use them.
    pub fn clear(&mut self) {
        self.counts.evictions += self.here.len() as u64;
        self.here.clear();
        self.pool.clear(self.limit());
    }

    /// The counts.
    pub fn profile(&self) -> MirrorProfile {
        MirrorProfile { bytes: self.pool.used(), ..self.counts }
    }

    fn limit(&self) -> u64 {
        if self.options.limit == 0 { self.most } else { self.options.limit.min(self.most) }
    }

    /// The segments that are to have copies, those that rank highest first.
    fn wanted(&self) -> Vec<Key> {
        let (unit, rank) = self.options.policy.parts();
        let room = |known: &Known| crate::memory::regions::aligned(padded(known.chunk.copied_bytes()));
        let mut left = self.limit();
        let mut wanted = vec![];
        let order = |known: &Known| (known.column, known.segment);
        let mut all: Vec<(&Key, &Known)> = self.known.iter().collect();
        all.sort_by_key(|(_, known)| order(known));
        let devices = all.iter().filter_map(|(_, known)| known.group).map(|group| group.devices).max();
        match unit {
            Unit::Segment if self.options.policy == Policy::Semantic && devices.is_some() => {
                return self.wanted_of_group(&all, devices.unwrap_or(1));
            }
            Unit::Segment => {
                let ranked = |known: &Known| rank(&known.history, known.chunk.copied_bytes());
                all.sort_by(|(_, a), (_, b)| ranked(b).total_cmp(&ranked(a)));
                for (key, known) in all {
                    if let Some(rest) = left.checked_sub(room(known)) {
                        left = rest;
                        wanted.push(*key);
                    }
                }
            }
            Unit::Column => {
                let mut columns: Vec<usize> = (0..self.histories.len()).collect();
                let ranked = |column: &usize| rank(&self.histories[*column], 1);
                columns.sort_by(|a, b| ranked(b).total_cmp(&ranked(a)));
                for column in columns {
                    let own: Vec<_> = all.iter().filter(|(_, known)| known.column == column).collect();
                    // A column is there as a whole, or not at all.
                    if let Some(rest) = left.checked_sub(own.iter().map(|(_, known)| room(known)).sum()) {
                        left = rest;
                        wanted.extend(own.into_iter().map(|(key, _)| **key));
                    }
                }
            }
        }
        wanted
    }

    /// The same where some are read by all of so many devices: those that this one has where each device gives its room so (thesis, Algorithm
    /// 4). Others are taken to have as much room as this one.
    fn wanted_of_group(&self, all: &[(&Key, &Known)], devices: usize) -> Vec<Key> {
        let own = all.iter().find_map(|(_, known)| known.group).map_or(0, |group| group.own);
        let segment = |(_, known): &(&Key, &Known)| Segment {
            bytes: crate::memory::regions::aligned(padded(known.chunk.copied_bytes())),
            caching: known.history.weight,
            // Of the copies on all other devices, of which each saves as much as this one's.
            replication: known.group.map_or(0.0, |group| group.seconds * (devices - 1) as f64),
            owner: if known.group.is_some() { known.segment % devices } else { own },
            shared: known.group.is_some(),
        };
        let segments: Vec<Segment> = all.iter().map(segment).collect();
        let placed = place_segments(&segments, &vec![self.limit(); devices], self.options.replication);
        let here = all.iter().zip(placed).filter(|(_, on)| on.contains(&own));
        here.map(|((key, _), _)| **key).collect()
    }

    /// Drops the copies that others deserve the room of, and makes these, on `stream`. Nothing may run that uses them.
    pub fn replace(&mut self, device: &dyn Device, pinned: &PinnedCopies, stream: Stream) {
        let started = Instant::now();
        self.due = false;
        if self.pool.limit() != self.limit() {
            self.clear();
        }
        let wanted = self.wanted();
        let stay: HashSet<&Key> = wanted.iter().collect();
        let gone: Vec<Key> = self.here.keys().filter(|key| !stay.contains(key)).copied().collect();
        for key in gone {
            if let Some(Here { at, bytes, .. }) = self.here.remove(&key) {
                self.pool.free(at, bytes);
                self.counts.evictions += 1;
            }
        }
        let missing: Vec<Key> = wanted.into_iter().filter(|key| !self.here.contains_key(key)).collect();
        for keys in missing.chunks(AT_ONCE) {
            match self.copy(keys, device, pinned, stream) {
                Ok(true) => {}
                Ok(false) => break,
                // Who reads these segments is told what is wrong with them; a device without room has no copies.
                Err(error) => {
                    tracing::warn!(%error, "segments were not copied to the device");
                    keys.iter().for_each(|key| drop(self.known.remove(key)));
                }
            }
        }
        self.histories.iter_mut().for_each(History::age);
        let here = &self.here;
        self.known.retain(|key, known| {
            known.history.age();
            known.group.iter_mut().for_each(|group| group.seconds *= AGING);
            here.contains_key(key) || known.history.uses > FORGOTTEN
        });
        self.counts.replacements += 1;
        self.counts.nanos += started.elapsed().as_nanos() as u64;
    }

    /// Copies segments; whether there was page-locked memory for that.
    fn copy(&mut self, keys: &[Key], device: &dyn Device, pinned: &PinnedCopies, stream: Stream) -> Result<bool> {
        let chunks: Vec<Arc<Chunk>> = keys.iter().map(|key| self.known[key].chunk.clone()).collect();
        let most = Some(if self.options.pinned_limit == 0 { u64::MAX } else { self.options.pinned_limit });
        let Some((copies, _)) = pinned.copies(device, &chunks, &Decoding::default(), most)? else { return Ok(false) };
        let mut queued: Result<()> = Ok(());
        for ((key, chunk), copy) in keys.iter().zip(chunks).zip(&copies) {
            let bytes = padded(chunk.copied_bytes());
            let at = match self.pool.allocate(bytes) {
                Ok(Some(at)) => at,
                // No piece is large enough where what is free is in many.
                Ok(None) => continue,
                Err(error) => {
                    queued = Err(error);
                    break;
                }
            };
            // SAFETY: just allocated with this size; the copies in page-locked memory live until the stream is synchronized.
            if let Err(error) = unsafe { device.copy_to_device(at, copy.through(copy), stream) } {
                self.pool.free(at, bytes);
                queued = Err(error.into());
                break;
            }
            self.here.insert(*key, Here { at, bytes, _original: chunk });
            self.counts.copies += 1;
            self.counts.copied_bytes += bytes;
        }
        device.synchronize(stream)?;
        queued.map(|()| true)
    }
}

/// Copies that are queued before they are waited for.
const AT_ONCE: usize = 256;

/// Aged uses below which nothing is remembered.
const FORGOTTEN: f64 = 1e-3;

#[cfg(test)]
mod tests;
