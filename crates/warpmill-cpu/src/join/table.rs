//! Finished hash builds.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use warpmill_format::Bitmap;
use warpmill_ir::Phys;
use warpmill_ir::program::BuildRows;

use super::asof::Times;
use super::direct::Direct;
use super::filter::KeyFilter;
use super::keys::{PackedKeys, equal_keys, maybe_equal_keys, ordered};
use super::slots::Slots;
use super::spill::SpilledBuild;
use super::{Columns, Matches, hash};
use crate::chunk::{Chunk, Column, Selection, Values};
use crate::context::{Reservation, Result};
use crate::vector::{Data, NULL_ROW, Vector};

/// How rows are looked up.
#[derive(Debug)]
pub(super) enum Index {
    /// No keys: every row matches.
    All,
    /// By code in an array.
    Direct(PackedKeys, Direct),
    /// By code in slots.
    Packed(PackedKeys, Slots),
    /// By hash in slots, comparing keys.
    Hashed(Slots),
}

impl Index {
    /// The first row and the number of rows of each repeated key among the first `keyed` rows, in row order.
    pub fn runs(&self, keyed: usize) -> Vec<(u32, u32)> {
        match self {
            Index::All if keyed > 1 => vec![(0, keyed as u32)],
            Index::All => vec![],
            Index::Direct(_, direct) => direct.runs_of_rows(),
            Index::Packed(_, slots) | Index::Hashed(slots) => slots.runs_of_rows(),
        }
    }
}

/// A finished hash build, shared by all probes of it.
#[derive(Debug)]
pub struct HashTable {
    pub(super) index: Index,
    /// Whether all keys are distinct.
    pub(super) unique: bool,
    pub(super) rows: usize,
    /// Rows `keyed ..` have a NULL key and match nothing.
    pub(super) keyed: usize,
    pub(super) keys: Columns,
    pub(super) payload: Columns,
    pub(super) null_equals_null: bool,
    /// Value ranges of the keyed rows' keys, as words; see [`super::keys::word_range`].
    pub(super) ranges: Vec<Option<(i128, i128)>>,
    pub(super) filters: Vec<OnceLock<Option<Arc<KeyFilter>>>>,
    /// Per row, whether it matched; empty if matches are not tracked.
    pub(super) matched: Vec<AtomicU8>,
    /// Values by which the rows of each key are ordered, for ASOF joins.
    pub(super) times: Option<Times>,
    /// All ones; zero in tests that make all hashes equal.
    pub(super) hash_mask: u64,
    /// Rows in spill files; all other fields describe the rows in memory.
    pub(super) spilled: Option<Arc<SpilledBuild>>,
    /// Memory reservation of the table.
    pub(super) _held: Reservation,
}

/// A block of build rows in a spill file.
#[derive(Debug, Clone, Copy)]
pub struct SpilledBlock {
    partition: usize,
    block: usize,
    first: usize,
}

/// A worker's buffers for lookups.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    tags: Vec<u64>,
    positions: Vec<usize>,
}

impl HashTable {
    /// Number of rows in memory.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether further rows are in spill files.
    pub fn has_spilled(&self) -> bool {
        self.spilled.is_some()
    }

    /// Whether there is no row that could match.
    pub fn is_without_keys(&self) -> bool {
        self.keyed == 0 && !self.has_spilled()
    }

    /// Blocks of rows in files.
    pub fn spilled_blocks(&self) -> Vec<SpilledBlock> {
        let blocks = self.spilled.iter().flat_map(|spilled| spilled.blocks());
        blocks.map(|(partition, block, first)| SpilledBlock { partition, block, first }).collect()
    }

    /// As [`HashTable::build_rows`], for a block of [`HashTable::spilled_blocks`].
    pub fn spilled_rows(
        &self,
        which: BuildRows,
        nulls: &[Phys],
        block: SpilledBlock,
        chunk_rows: usize,
    ) -> Result<Vec<Chunk>> {
        let SpilledBlock { partition, block, first } = block;
        match &self.spilled {
            Some(spilled) => spilled.rows(which, nulls, (partition, block, first), chunk_rows),
            None => Ok(vec![]),
        }
    }

    /// The payload columns.
    pub fn payload(&self) -> &[Arc<Vector>] {
        &self.payload
    }

    /// The table's kind, for EXPLAIN ANALYZE.
    pub fn kind(&self) -> &'static str {
        match (&self.index, self.unique) {
            (Index::All, _) => "all rows",
            (Index::Direct(..), true) => "direct, unique",
            (Index::Direct(..), false) => "direct, runs",
            (Index::Packed(..), true) => "integer hash, unique",
            (Index::Packed(..), false) => "integer hash, runs",
            (Index::Hashed(..), true) => "hash, unique",
            (Index::Hashed(..), false) => "hash, runs",
        }
    }

    /// Inclusive bounds of the values of key `key` that can match; `None` where they are unknown (strings, floats, NULLs that match); `(i128::MAX,
    /// i128::MIN)` if nothing can match.
    pub fn key_range(&self, key: usize) -> Option<(i128, i128)> {
        if self.has_spilled() {
            return None;
        }
        if self.keyed == 0 {
            return Some((i128::MAX, i128::MIN));
        }
        let column = &self.keys[key];
        if !ordered(column.data.phys()) || self.nulls_match(key) {
            return None;
        }
        self.ranges[key]
    }

    /// A filter for values of key `key` (`I32`, `I64` and `Code`), built at the first request; `None` if there is none or it would drop too few rows
    /// to pay.
    pub fn filter(&self, key: usize) -> Option<Arc<KeyFilter>> {
        self.filters[key]
            .get_or_init(|| {
                if self.nulls_match(key) || self.has_spilled() {
                    return None;
                }
                KeyFilter::build(&self.keys[key].data, self.keyed, self.ranges[key]?).map(Arc::new)
            })
            .clone()
    }

    fn nulls_match(&self, key: usize) -> bool {
        self.null_equals_null && self.keys[key].validity.is_some()
    }

    /// Finds the build rows that match `rows` rows of `keys`.
    pub(super) fn lookup(&self, keys: &[Arc<Vector>], rows: usize, scratch: &mut Scratch, out: &mut Matches) {
        out.clear();
        scratch.tags.resize(rows, 0);
        let mask = self.hash_mask;
        match &self.index {
            Index::All => {
                out.starts.resize(rows, 0);
                // Rows with a NULL order value come last.
                out.lens.resize(rows, self.keyed as u32);
            }
            Index::Direct(packed, direct) => {
                if let (Some(min), [key]) = (packed.single(), keys) {
                    match &key.data {
                        _ if key.validity.is_some() => {}
                        Data::I32(v) => return direct.lookup_values(v, min, out),
                        Data::I64(v) => return direct.lookup_values(v, min, out),
                        Data::Code(v) => return direct.lookup_values(v, min, out),
                        _ => {}
                    }
                }
                packed.encode(keys, 0, &mut scratch.tags);
                direct.lookup_codes(&scratch.tags, out);
            }
            Index::Packed(packed, slots) => {
                packed.encode(keys, 0, &mut scratch.tags);
                let hash = |tag| hash::mix(tag) & mask;
                slots.lookup(&scratch.tags, self.unique, hash, |_, _| true, &mut scratch.positions, out);
            }
            Index::Hashed(slots) => {
                hash_tags(keys, 0, &mut scratch.tags, self.null_equals_null, mask);
                let (tags, positions) = (&scratch.tags, &mut scratch.positions);
                match (keys, self.keys.as_slice()) {
                    ([probe], [build]) if probe.validity.is_none() && build.validity.is_none() => {
                        let (Data::Str(probe), Data::Str(build)) = (&probe.data, &build.data) else {
                            let equal = |i: usize, row: usize| equal_keys(keys, i, &self.keys, row);
                            return slots.lookup(tags, self.unique, |tag| tag, equal, positions, out);
                        };
                        slots.lookup(tags, self.unique, |tag| tag, |i, row| probe[i] == build[row], positions, out);
                    }
                    _ => {
                        let equal = |i: usize, row: usize| equal_keys(keys, i, &self.keys, row);
                        slots.lookup(tags, self.unique, |tag| tag, equal, positions, out);
                    }
                }
            }
        }
    }

    /// Whether row `i` of `keys` may equal build row `row`, with NULL as "unknown".
    pub(super) fn maybe_equal(&self, keys: &[Arc<Vector>], i: usize, row: usize) -> bool {
        maybe_equal_keys(keys, i, &self.keys, row)
    }

    /// Records that build rows `rows` matched.
    #[inline]
    pub(super) fn set_matched(&self, rows: Range<u32>) {
        for flag in &self.matched[rows.start as usize..rows.end as usize] {
            // Test before the store: a cache line that is only read stays in every core's cache.
            if flag.load(Relaxed) == 0 {
                flag.store(1, Relaxed);
            }
        }
    }

    /// Records that all rows `rows` of one key matched. They are always set together, so the first one's flag tells whether all are set.
    #[inline]
    pub(super) fn set_group_matched(&self, rows: Range<u32>) {
        if !rows.is_empty() && self.matched[rows.start as usize].load(Relaxed) == 0 {
            self.set_matched(rows);
        }
    }

    /// The rows `which` among build rows `range`, after all probes, in chunks of up to `chunk_rows`: the payload, then all-NULL columns of types
    /// `nulls`, then (for `Marked`) the mark. Workers share a table by disjoint ranges.
    pub fn build_rows(&self, which: BuildRows, nulls: &[Phys], range: Range<usize>, chunk_rows: usize) -> Vec<Chunk> {
        assert!(self.matched.len() == self.rows, "the build does not track matches");
        let is_matched = |row: &u32| self.matched[*row as usize].load(Relaxed) != 0;
        let rows: Vec<u32> = (range.start as u32..range.end.min(self.rows) as u32)
            .filter(|row| match which {
                BuildRows::Matched => is_matched(row),
                BuildRows::Unmatched => !is_matched(row),
                BuildRows::Marked => true,
            })
            .collect();
        rows.chunks(chunk_rows)
            .map(|rows| {
                let mut columns = payload_columns(&self.payload, 0);
                let mut groups = vec![Selection::Rows(Arc::new(rows.to_vec()))];
                let mut dense = |vector: Vector| {
                    groups.push(Selection::Range { start: 0 });
                    columns.push(Column { values: Values::Vector(Arc::new(vector)), group: groups.len() - 1 });
                };
                nulls.iter().for_each(|&phys| dense(Vector::nulls(phys, rows.len())));
                if which == BuildRows::Marked {
                    dense(Vector::new(Data::Bool(rows.iter().map(is_matched).collect())));
                }
                let mut chunk = Chunk::from_parts(rows.len(), columns, groups);
                chunk.sequence = u64::from(rows[0]);
                chunk
            })
            .collect()
    }
}

/// The payload as chunk columns of group `group`.
pub(super) fn payload_columns(payload: &[Arc<Vector>], group: usize) -> Vec<Column> {
    payload.iter().map(|vector| Column { values: Values::Vector(vector.clone()), group }).collect()
}

/// The hashes of rows `start .. start + out.len()`; [`super::keys::MISS`] only for rows that match nothing because a key is NULL.
pub(super) fn hash_tags(keys: &[Arc<Vector>], start: usize, out: &mut [u64], null_equals_null: bool, mask: u64) {
    hash::hash_rows(keys, start, out);
    // The top bit is cleared so that no hash equals MISS.
    out.iter_mut().for_each(|tag| *tag &= mask & (u64::MAX >> 1));
    if null_equals_null {
        return;
    }
    for validity in keys.iter().filter_map(|key| key.validity.as_ref()) {
        for (i, out) in out.iter_mut().enumerate() {
            if !validity.get(start + i) {
                *out = super::keys::MISS;
            }
        }
    }
}

/// A bitmap of the rows of `keys` without a NULL key; `None` if no key is NULL.
pub(super) fn null_keys(keys: &[Arc<Vector>]) -> Option<Bitmap> {
    let mut valid: Option<Bitmap> = None;
    for validity in keys.iter().filter_map(|key| key.validity.as_ref()) {
        match &mut valid {
            Some(valid) => valid.and_assign(validity),
            None => valid = Some(validity.clone()),
        }
    }
    valid.map(|valid| valid.not()).filter(|nulls| nulls.count_ones() > 0)
}

/// Whether `rows` has an entry that stands for "no row".
pub(super) fn has_null_row(rows: &[u32]) -> bool {
    rows.contains(&NULL_ROW)
}
