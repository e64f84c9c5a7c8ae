//! An open-addressing table from group keys to dense group ids, and its frozen form.
//!
//! A slot is 8 bytes: 32 bits of the hash and the group id + 1, so that a probe reads keys only where the tag agrees. Keys are rows of `u64` words
//! (see [`super::keys`]) and string columns. A worker's table stays within its cache: a full table is frozen into a run that is ordered by hash
//! partition, and partitions of all runs are merged independently (Leis et al., Morsel-Driven Parallelism, section 4.4).

use super::hash;
use super::text::TextKey;
use crate::context::{Result, Worker};

/// Number of partitions of a frozen run; the topmost bits of the hash select one.
pub(super) const PARTITIONS: usize = 256;
const PARTITION_SHIFT: u32 = 56;
/// The bits of a hash that a slot stores.
const TAG: u64 = !(u32::MAX as u64);

/// Keys in encoded form: `width` words per row, row by row, and string columns.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyRows {
    /// Words per row.
    pub width: usize,
    /// `width` words per row.
    pub words: Vec<u64>,
    /// String columns (NULL is the empty string; its flag is in a word).
    pub strings: Vec<Vec<TextKey>>,
}

impl KeyRows {
    /// No rows.
    pub fn new(width: usize, strings: usize) -> Self {
        Self { width, words: vec![], strings: vec![vec![]; strings] }
    }

    /// The hash of every row.
    pub fn hashes(&self, rows: usize) -> Vec<u64> {
        let mut hashes: Vec<u64> = match self.width {
            0 => vec![0; rows],
            1 => self.words.iter().map(|&word| hash::word(word)).collect(),
            width => self.words.chunks_exact(width).map(hash::words).collect(),
        };
        for column in &self.strings {
            for (hash, string) in hashes.iter_mut().zip(column) {
                *hash = hash::combine(*hash, string.hash());
            }
        }
        hashes
    }

    #[inline(always)]
    fn equal(&self, row: usize, other: &KeyRows, other_row: usize) -> bool {
        // Compares word by word: comparing zero bytes at the dangling address of an empty array can take a processor as long as a cache miss.
        let width = self.width;
        (0..width).all(|word| self.words[row * width + word] == other.words[other_row * width + word])
            && self.strings.iter().zip(&other.strings).all(|(a, b)| a[row] == b[other_row])
    }

    #[inline(always)]
    fn push(&mut self, other: &KeyRows, row: usize) {
        self.words.extend_from_slice(&other.words[row * self.width..(row + 1) * self.width]);
        for (a, b) in self.strings.iter_mut().zip(&other.strings) {
            a.push(b[row]);
        }
    }

    pub fn gather(&self, order: &[u32]) -> Self {
        let width = self.width;
        let mut words = Vec::with_capacity(order.len() * width);
        match width {
            1 => words.extend(order.iter().map(|&row| self.words[row as usize])),
            _ => order.iter().for_each(|&row| words.extend_from_slice(&self.words[row as usize * width..][..width])),
        }
        let strings = self.strings.iter().map(|c| order.iter().map(|&row| c[row as usize]).collect()).collect();
        Self { width, words, strings }
    }

    /// Rows `start .. start + len`.
    pub fn slice(&self, start: usize, len: usize) -> Self {
        Self {
            width: self.width,
            words: self.words[start * self.width..(start + len) * self.width].to_vec(),
            strings: self.strings.iter().map(|c| c[start..start + len].to_vec()).collect(),
        }
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * 8 + self.strings.iter().map(|c| c.capacity() * size_of::<TextKey>()).sum::<usize>()
    }
}

/// The hash table.
#[derive(Debug)]
pub(super) struct Table {
    /// Tag in the upper half, group id + 1 in the lower; 0 is a free slot. The length is a power of two; at most half of the slots are taken.
    slots: Vec<u64>,
    /// The content of each row's first slot, for the current batch.
    first: Vec<u64>,
    /// Hash of every group.
    pub hashes: Vec<u64>,
    /// Key of every group.
    pub keys: KeyRows,
}

impl Table {
    /// An empty table with room for `groups`.
    pub fn new(width: usize, strings: usize, groups: usize) -> Self {
        let slots = vec![0; (groups * 2).next_power_of_two().max(1024)];
        Self { slots, first: vec![], hashes: Vec::with_capacity(groups), keys: KeyRows::new(width, strings) }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        (self.slots.capacity() + self.hashes.capacity()) * 8 + self.keys.bytes()
    }

    /// Writes the group id of every row to `ids`; new keys get new groups.
    pub fn find_or_insert(&mut self, rows: &KeyRows, hashes: &[u64], ids: &mut Vec<u32>) {
        self.reserve(hashes.len());
        ids.clear();
        ids.reserve(hashes.len());
        match (rows.width, rows.strings.len()) {
            (1, 0) => self.probe_words::<1>(rows, hashes, ids),
            (2, 0) => self.probe_words::<2>(rows, hashes, ids),
            _ => self.probe(
                hashes,
                ids,
                |keys, group, row| keys.equal(group, rows, row),
                |keys, row| keys.push(rows, row),
            ),
        }
    }

    fn probe_words<const W: usize>(&mut self, rows: &KeyRows, hashes: &[u64], ids: &mut Vec<u32>) {
        let (input, _) = rows.words.as_chunks::<W>();
        self.probe(
            hashes,
            ids,
            |keys, group, row| keys.words.as_chunks::<W>().0[group] == input[row],
            |keys, row| keys.words.extend_from_slice(&input[row]),
        );
    }

    #[inline(always)]
    fn probe(
        &mut self,
        hashes: &[u64],
        ids: &mut Vec<u32>,
        equal: impl Fn(&KeyRows, usize, usize) -> bool,
        push: impl Fn(&mut KeyRows, usize),
    ) {
        let mask = self.slots.len() - 1;
        // Loads the first slot of every row in a loop without branches, so that the cache misses of many rows overlap.
        self.first.clear();
        self.first.extend(hashes.iter().map(|&hash| self.slots[hash as usize & mask]));
        for (row, (&hash, &first)) in hashes.iter().zip(&self.first).enumerate() {
            let tag = hash & TAG;
            let id = (first as u32).wrapping_sub(1);
            if first != 0 && first & TAG == tag && equal(&self.keys, id as usize, row) {
                ids.push(id);
                continue;
            }
            let mut at = hash as usize & mask;
            let id = loop {
                let slot = self.slots[at];
                if slot == 0 {
                    let id = self.hashes.len() as u32;
                    self.slots[at] = tag | u64::from(id + 1);
                    self.hashes.push(hash);
                    push(&mut self.keys, row);
                    break id;
                }
                let id = (slot as u32).wrapping_sub(1);
                if slot & TAG == tag && equal(&self.keys, id as usize, row) {
                    break id;
                }
                at = (at + 1) & mask;
            };
            ids.push(id);
        }
    }

    /// Copies the strings of groups `first ..`.
    pub fn copy_strings(&mut self, first: usize, worker: &mut Worker) -> Result<()> {
        for key in self.keys.strings.iter_mut().flat_map(|column| &mut column[first..]) {
            key.view = worker.text(key.view.as_str())?;
        }
        Ok(())
    }

    /// Makes room for `more` groups.
    fn reserve(&mut self, more: usize) {
        let needed = (self.len() + more) * 2;
        if needed <= self.slots.len() {
            return;
        }
        let mut slots = vec![0u64; (needed.next_power_of_two()).max(self.slots.len() * 2)];
        let mask = slots.len() - 1;
        for (id, &hash) in self.hashes.iter().enumerate() {
            let mut at = hash as usize & mask;
            while slots[at] != 0 {
                at = (at + 1) & mask;
            }
            slots[at] = hash & TAG | (id as u64 + 1);
        }
        self.slots = slots;
    }

    /// Removes all groups, keeping the allocated memory.
    pub fn clear(&mut self) {
        self.slots.fill(0);
        self.hashes.clear();
        self.keys.words.clear();
        self.keys.strings.iter_mut().for_each(Vec::clear);
    }

    /// The groups ordered by hash partition, and the offset of each partition.
    pub fn partition(&self) -> (Vec<u32>, Vec<u32>) {
        let mut offsets = vec![0u32; PARTITIONS + 1];
        for hash in &self.hashes {
            offsets[(hash >> PARTITION_SHIFT) as usize + 1] += 1;
        }
        for p in 0..PARTITIONS {
            offsets[p + 1] += offsets[p];
        }
        let mut next = offsets.clone();
        let mut order = vec![0u32; self.len()];
        for (id, hash) in self.hashes.iter().enumerate() {
            let at = &mut next[(hash >> PARTITION_SHIFT) as usize];
            order[*at as usize] = id as u32;
            *at += 1;
        }
        (order, offsets)
    }

    /// Keys and hashes of groups `order`.
    pub fn gather(&self, order: &[u32]) -> (KeyRows, Vec<u64>) {
        (self.keys.gather(order), order.iter().map(|&id| self.hashes[id as usize]).collect())
    }
}
