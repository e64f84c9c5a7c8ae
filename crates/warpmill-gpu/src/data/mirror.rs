//! Mirrored data ([`crate::data::form::DataSource::Mirrored`]): data in page-locked host memory, with copies of some segments in the caching region.
//! A policy chooses the segments, and copies are replaced at fixed intervals of queries (Yogatama, thesis sections 4.1 and 4.3.1).
//!
//! Reads are recorded while queries run; copies are made and dropped between queries only, when nothing runs that may use them.

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

/// Options of mirrored data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MirrorOptions {
    /// Replacement policy.
    pub policy: Policy,
    /// Largest number of bytes of copies; 0: the caching region's limit.
    pub limit: u64,
    /// Number of queries between replacements.
    pub every: u32,
    /// Largest number of bytes of page-locked memory, from which copies are made; 0: no limit.
    pub pinned_limit: u64,
    /// The rule that chooses the segments of which several devices each have a copy.
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
    /// Bytes of current copies.
    pub bytes: u64,
    /// Segment reads with a copy.
    pub hits: u64,
    /// Segment reads without a copy.
    pub misses: u64,
    /// Bytes of hits.
    pub hit_bytes: u64,
    /// Bytes of misses.
    pub miss_bytes: u64,
    /// Copies made.
    pub copies: u64,
    /// Bytes copied.
    pub copied_bytes: u64,
    /// Copies dropped.
    pub evictions: u64,
    /// Replacements.
    pub replacements: u64,
    /// Nanoseconds of all replacements.
    pub nanos: u64,
}

/// A segment that queries have read.
#[derive(Debug)]
struct Known {
    chunk: Arc<Chunk>,
    column: usize,
    segment: usize,
    history: History,
    /// Share of the device group in the segment, if the last query read it on all devices.
    group: Option<GroupShare>,
}

/// A device's share of a segment that all devices of a group read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupShare {
    /// The number of this device.
    pub own: usize,
    /// Number of devices in the group.
    pub devices: usize,
    /// Seconds to copy the segment from another device to this one; in `Known` the sum over queries, aged.
    pub seconds: f64,
}

/// A copy in device memory.
#[derive(Debug)]
struct Here {
    at: DevicePtr,
    bytes: u64,
    /// Keeps the key unique.
    _original: Arc<Chunk>,
}

/// The copies, and the usage history of all segments that could have one.
#[derive(Debug)]
pub(crate) struct Mirror {
    pool: Pool,
    /// Largest limit of the pool in bytes.
    most: u64,
    options: MirrorOptions,
    queries: u64,
    known: KeyMap<Known>,
    columns: HashMap<ColumnId, usize>,
    /// Usage history by column number.
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
    /// Whether it has a copy.
    pub here: bool,
    /// The seconds that a copy would save.
    pub weight: f64,
    /// The share of the device group, if all its devices read the segment.
    pub group: Option<GroupShare>,
}

impl Mirror {
    /// An empty mirror of at most `most` bytes.
    pub fn new(device: Arc<dyn Device>, most: u64) -> Self {
        let (queries, known, columns, histories, here, due, counts) = Default::default();
        let options = MirrorOptions::default();
        Self { pool: Pool::new(device, most), most, options, queries, known, columns, histories, here, due, counts }
    }

    /// Begins a query with `options`. If they have changed, all history is forgotten, and copies are replaced before the next query that runs alone.
    pub fn begin(&mut self, options: MirrorOptions) {
        if self.options != options {
            self.options = options;
            self.known.clear();
            // Running queries hold column numbers, so histories are reset rather than removed.
            self.histories.fill(History::default());
            self.due = true;
        }
        self.queries += 1;
    }

    /// The number of a column, valid while the device is open.
    pub fn number(&mut self, column: ColumnId) -> usize {
        *self.columns.entry(column).or_insert_with(|| {
            self.histories.push(History::default());
            self.histories.len() - 1
        })
    }

    /// The address of a segment's copy.
    pub fn get(&self, key: &Key) -> Option<DevicePtr> {
        self.here.get(key).map(|here| here.at)
    }

    /// Records a segment that the running query reads.
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

    /// Ends a query; schedules a replacement of copies every `MirrorOptions::every` queries.
    pub fn end(&mut self) {
        self.due |= self.queries.is_multiple_of(u64::from(self.options.every.max(1)));
    }

    /// Whether copies are to be replaced.
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// Bytes of device memory held.
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

    /// The segments that are to have copies: the highest ranked that fit.
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
                    // Columns are mirrored completely or not at all.
                    if let Some(rest) = left.checked_sub(own.iter().map(|(_, known)| room(known)).sum()) {
                        left = rest;
                        wanted.extend(own.into_iter().map(|(key, _)| **key));
                    }
                }
            }
        }
        wanted
    }

    /// The same for a group of `devices` devices that read some segments together: the segments placed on this device when each device fills its room
    /// by Algorithm 4 of the thesis. The other devices are assumed to have as much room as this one.
    fn wanted_of_group(&self, all: &[(&Key, &Known)], devices: usize) -> Vec<Key> {
        let own = all.iter().find_map(|(_, known)| known.group).map_or(0, |group| group.own);
        let segment = |(_, known): &(&Key, &Known)| Segment {
            bytes: crate::memory::regions::aligned(padded(known.chunk.copied_bytes())),
            caching: known.history.weight,
            // Summed over the copies on all other devices, each of which saves as much as this one.
            replication: known.group.map_or(0.0, |group| group.seconds * (devices - 1) as f64),
            owner: if known.group.is_some() { known.segment % devices } else { own },
            shared: known.group.is_some(),
        };
        let segments: Vec<Segment> = all.iter().map(segment).collect();
        let placed = place_segments(&segments, &vec![self.limit(); devices], self.options.replication);
        let here = all.iter().zip(placed).filter(|(_, on)| on.contains(&own));
        here.map(|((key, _), _)| **key).collect()
    }

    /// Replaces copies on `stream`: drops those that are no longer wanted, and makes the missing ones. Nothing may run that uses them.
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
                // Programs that read these segments report the damage; a device without room has no copies.
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

    /// Copies segments to the device. Returns whether there was page-locked memory for that.
    fn copy(&mut self, keys: &[Key], device: &dyn Device, pinned: &PinnedCopies, stream: Stream) -> Result<bool> {
        let chunks: Vec<Arc<Chunk>> = keys.iter().map(|key| self.known[key].chunk.clone()).collect();
        let most = Some(if self.options.pinned_limit == 0 { u64::MAX } else { self.options.pinned_limit });
        let Some((copies, _)) = pinned.copies(device, &chunks, &Decoding::default(), most)? else { return Ok(false) };
        let mut queued: Result<()> = Ok(());
        for ((key, chunk), copy) in keys.iter().zip(chunks).zip(&copies) {
            let bytes = padded(chunk.copied_bytes());
            let at = match self.pool.allocate(bytes) {
                Ok(Some(at)) => at,
                // The free room is fragmented: no piece is large enough.
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

/// Largest number of copies queued before a synchronization.
const AT_ONCE: usize = 256;

/// Aged uses below which a segment's history is forgotten.
const FORGOTTEN: f64 = 1e-3;

#[cfg(test)]
mod tests;
