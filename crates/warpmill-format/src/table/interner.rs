//! Collects the distinct strings of a column in order of appearance, and sorts them at the end.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use rayon::slice::ParallelSliceMut;

use crate::Dictionary;

/// Distinct strings, numbered in order of appearance.
pub(crate) struct Interner {
    bytes: Vec<u8>,
    /// End of each entry in `bytes`.
    ends: Vec<usize>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

fn entry<'a>(bytes: &'a [u8], ends: &[usize], code: u32) -> &'a [u8] {
    let code = code as usize;
    &bytes[if code == 0 { 0 } else { ends[code - 1] }..ends[code]]
}

impl Interner {
    pub fn new() -> Self {
        Self { bytes: Vec::new(), ends: Vec::new(), table: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }

    /// The code of `value`; a new one if it has not been seen.
    pub fn intern(&mut self, value: &str) -> u32 {
        let Self { bytes, ends, table, hasher } = self;
        let hash = hasher.hash_one(value.as_bytes());
        if let Some(&code) = table.find(hash, |&code| entry(bytes, ends, code) == value.as_bytes()) {
            return code;
        }
        let code = ends.len() as u32;
        bytes.extend_from_slice(value.as_bytes());
        ends.push(bytes.len());
        table.insert_unique(hash, code, |&code| hasher.hash_one(entry(bytes, ends, code)));
        code
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all entries together.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of the string of `code`. Panics when out of range.
    pub fn bytes(&self, code: u32) -> &[u8] {
        entry(&self.bytes, &self.ends, code)
    }

    /// The string of `code`. Panics when out of range.
    pub fn get(&self, code: u32) -> &str {
        std::str::from_utf8(entry(&self.bytes, &self.ends, code)).expect("entries are whole strings")
    }

    /// The sorted entries, and the new position of each code.
    pub fn finish(&self) -> (Dictionary, Vec<u32>) {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.par_sort_unstable_by(|&a, &b| entry(&self.bytes, &self.ends, a).cmp(entry(&self.bytes, &self.ends, b)));
        let mut remap = vec![0; order.len()];
        for (position, &code) in order.iter().enumerate() {
            remap[code as usize] = position as u32;
        }
        (Dictionary::from_sorted(order.iter().map(|&code| self.get(code))), remap)
    }
}
