//! Ordered string dictionaries, shared by all segments of a table column.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use hashbrown::HashSet;
use xxhash_rust::xxh3::{Xxh3Builder, xxh3_64};

use crate::encoding::plain::validate_strings;
use crate::segment::bytes::{bytes_of, corrupt};
use crate::{Result, StrView};

/// The rows of a string array of any layout; `None` for other types.
pub(crate) fn strings(array: &dyn Array) -> Option<Vec<Option<&str>>> {
    Some(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().collect(),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().collect(),
        DataType::Utf8View => array.as_string_view().iter().collect(),
        _ => return None,
    })
}

/// The distinct strings of a column in ascending byte order: comparing codes compares strings.
pub struct Dictionary {
    bytes: Vec<u8>,
    offsets: Vec<u32>,
    /// Open addressing by string hash: code + 1, or 0; made on first use, a power of two in size.
    index: OnceLock<Vec<u32>>,
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dictionary({} strings, {} bytes)", self.len(), self.bytes.len())
    }
}

/// Two dictionaries made one, and where their codes went.
#[derive(Debug)]
pub struct Merged {
    /// The strings of both.
    pub dictionary: Dictionary,
    /// New code of each code of the first dictionary (ascending), for [`crate::Segment::with_remap`].
    pub first: Arc<[u32]>,
    /// New code of each code of the second dictionary (ascending).
    pub second: Arc<[u32]>,
}

impl Dictionary {
    /// A dictionary of `values`, which must be strictly ascending.
    pub fn from_sorted<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut dictionary = Self { bytes: Vec::new(), offsets: vec![0], index: OnceLock::new() };
        for value in values {
            debug_assert!(dictionary.is_empty() || dictionary.get(dictionary.len() as u32 - 1) < value);
            dictionary.bytes.extend_from_slice(value.as_bytes());
            dictionary.offsets.push(dictionary.bytes.len() as u32);
        }
        dictionary
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The string of `code`. Panics when out of range.
    pub fn get(&self, code: u32) -> &str {
        let (start, end) = (self.offsets[code as usize] as usize, self.offsets[code as usize + 1] as usize);
        // SAFETY: entries are appended as whole `&str`s only, so every slice between offsets is valid UTF-8.
        unsafe { std::str::from_utf8_unchecked(&self.bytes[start..end]) }
    }

    /// A view of the string of `code` (valid while the dictionary is alive).
    #[inline]
    pub fn view(&self, code: u32) -> StrView {
        StrView::new(self.get(code))
    }

    /// The code of `value`, if it is an entry: one hash probe.
    pub fn code(&self, value: &str) -> Option<u32> {
        let index = self.index.get_or_init(|| self.build_index());
        let mask = index.len() - 1;
        let mut slot = xxh3_64(value.as_bytes()) as usize & mask;
        loop {
            let code = index[slot].checked_sub(1)?;
            if self.get(code) == value {
                return Some(code);
            }
            slot = (slot + 1) & mask;
        }
    }

    fn build_index(&self) -> Vec<u32> {
        let mut index = vec![0; (2 * self.len() + 1).next_power_of_two()];
        let mask = index.len() - 1;
        for (code, value) in self.iter().enumerate() {
            let mut slot = xxh3_64(value.as_bytes()) as usize & mask;
            while index[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            index[slot] = code as u32 + 1;
        }
        index
    }

    /// The number of entries below `value`, which is the first code of those that are not.
    pub fn lower_bound(&self, value: &str) -> u32 {
        let (mut low, mut high) = (0, self.len() as u32);
        while low < high {
            let mid = low + (high - low) / 2;
            if self.get(mid) < value { low = mid + 1 } else { high = mid }
        }
        low
    }

    /// A dictionary of the strings of both; the order of codes is kept.
    pub fn merge(&self, other: &Dictionary) -> Merged {
        let mut all: Vec<&str> = self.iter().chain(other.iter()).collect();
        all.sort_unstable();
        all.dedup();
        let dictionary = Dictionary::from_sorted(all.iter().copied());
        let remap = |old: &Dictionary| {
            let mut at = 0;
            let next = |value: &str| {
                at += all[at..].iter().take_while(|entry| **entry != value).count();
                at as u32
            };
            old.iter().map(next).collect()
        };
        let (first, second) = (remap(self), remap(other));
        Merged { dictionary, first, second }
    }

    /// The bytes of the dictionary: number of entries (u64), offsets (u32, entries + 1), string bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = (self.len() as u64).to_le_bytes().to_vec();
        out.extend_from_slice(bytes_of(&self.offsets));
        out.extend_from_slice(&self.bytes);
        out
    }

    /// The dictionary of [`Dictionary::to_bytes`], checked: offsets, UTF-8, strictly ascending order.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let cut = || corrupt("a dictionary is cut off");
        let (len, rest) = bytes.split_first_chunk::<8>().ok_or_else(cut)?;
        let size = usize::try_from(u64::from_le_bytes(*len)).ok().and_then(|n| n.checked_add(1)?.checked_mul(4));
        let (offsets, bytes) = rest.split_at_checked(size.ok_or_else(cut)?).ok_or_else(cut)?;
        let offsets: Vec<u32> = offsets.as_chunks::<4>().0.iter().map(|&b| u32::from_le_bytes(b)).collect();
        validate_strings(&offsets, bytes)?;
        let dictionary = Self { bytes: bytes.to_vec(), offsets, index: OnceLock::new() };
        if !dictionary.iter().is_sorted_by(|a, b| a < b) {
            return Err(corrupt("a dictionary is not in ascending order"));
        }
        Ok(dictionary)
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len() as u32).map(|code| self.get(code))
    }
}

/// Collects the distinct strings of a column, and says when there are too many for a dictionary to be worth it.
///
/// A column keeps a dictionary of up to [`DictionaryBuilder::MAX_ENTRIES`] strings: codes of at most 16 bits, predicates
/// evaluated once per entry. Past [`DictionaryBuilder::FREE_ENTRIES`] it must also repeat: at most one entry per
/// [`DictionaryBuilder::MIN_REPEAT`] rows over the whole column.
#[derive(Debug, Default)]
pub struct DictionaryBuilder {
    distinct: HashSet<Box<str>, Xxh3Builder>,
    rows: u64,
    full: bool,
}

impl DictionaryBuilder {
    /// Most entries of a dictionary.
    pub const MAX_ENTRIES: usize = 1 << 16;
    /// Entries that need no repetition.
    pub const FREE_ENTRIES: usize = 1 << 10;
    /// Rows per entry that a larger dictionary needs.
    pub const MIN_REPEAT: u64 = 16;

    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the strings of an array (`Utf8`, `LargeUtf8` or `Utf8View`). Returns whether a dictionary is still possible: once
    /// it says no, it says no for good and stops collecting. Arrays of other types are not worth a dictionary.
    pub fn add(&mut self, array: &dyn Array) -> bool {
        self.full |= strings(array).is_none();
        if self.full {
            return false;
        }
        self.rows += array.len() as u64;
        let mut last = "";
        for value in strings(array).into_iter().flatten().flatten() {
            if value == last && !self.distinct.is_empty() {
                continue;
            }
            last = value;
            if !self.distinct.contains(value) {
                self.distinct.insert(value.into());
                if self.distinct.len() > Self::MAX_ENTRIES {
                    self.full = true;
                    self.distinct = HashSet::default();
                    return false;
                }
            }
        }
        true
    }

    /// Joins what another builder has seen of the same column. Returns whether a dictionary is still possible.
    pub fn join(&mut self, other: DictionaryBuilder) -> bool {
        self.full |= other.full;
        self.rows += other.rows;
        self.distinct.extend(other.distinct);
        self.full |= self.distinct.len() > Self::MAX_ENTRIES;
        !self.full
    }

    /// The dictionary, or `None` when the column is not worth one.
    pub fn finish(self) -> Option<Dictionary> {
        let entries = self.distinct.len();
        if self.full || (entries > Self::FREE_ENTRIES && entries as u64 * Self::MIN_REPEAT > self.rows) {
            return None;
        }
        let mut values: Vec<&str> = self.distinct.iter().map(|s| &**s).collect();
        values.sort_unstable();
        Some(Dictionary::from_sorted(values))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, StringArray, StringViewArray};

    use super::*;

    #[test]
    fn codes_bounds_and_bytes_agree() {
        let words = ["", "a", "ab", "b", "né", "zz"];
        let dictionary = Dictionary::from_sorted(words);
        let again = Dictionary::from_bytes(&dictionary.to_bytes()).unwrap();
        for (code, word) in words.iter().enumerate() {
            assert_eq!(
                (again.get(code as u32), again.code(word), again.lower_bound(word)),
                (*word, Some(code as u32), code as u32)
            );
        }
        assert_eq!((again.code("c"), again.lower_bound("c"), again.lower_bound("zzz")), (None, 4, 6));
        let empty = Dictionary::from_bytes(&Dictionary::from_sorted([]).to_bytes()).unwrap();
        assert_eq!((empty.len(), empty.code("")), (0, None));
    }

    #[test]
    fn merging_keeps_order_and_maps_both() {
        let (a, b) = (Dictionary::from_sorted(["b", "d", "f"]), Dictionary::from_sorted(["a", "d", "g"]));
        let merged = a.merge(&b);
        assert_eq!(merged.dictionary.iter().collect::<Vec<_>>(), ["a", "b", "d", "f", "g"]);
        assert_eq!((&merged.first[..], &merged.second[..]), (&[1, 2, 3][..], &[0, 2, 4][..]));
        let same = a.merge(&Dictionary::from_sorted([]));
        assert_eq!((&same.first[..], same.dictionary.len()), (&[0, 1, 2][..], 3));
    }

    #[test]
    fn the_builder_gives_up_when_strings_do_not_repeat() {
        let mut builder = DictionaryBuilder::new();
        assert!(builder.add(&StringArray::from(vec![Some("b"), None, Some("a"), Some("b"), Some("")])));
        let mut other = DictionaryBuilder::new();
        assert!(other.add(&StringViewArray::from(vec!["c"])) && builder.join(other));
        assert_eq!(builder.finish().unwrap().iter().collect::<Vec<_>>(), ["", "a", "b", "c"]);
        let unique: StringArray = (0..70_000).map(|i| Some(i.to_string())).collect();
        let mut builder = DictionaryBuilder::new();
        assert!(!builder.add(&unique) && !builder.add(&StringArray::from(vec!["a"])) && builder.finish().is_none());
        let mut builder = DictionaryBuilder::new();
        assert!(builder.add(&unique.slice(0, 5000)) && builder.finish().is_none());
        assert!(!DictionaryBuilder::new().add(&Int32Array::from(vec![1])));
    }

    #[test]
    fn damaged_bytes_are_errors() {
        let good = Dictionary::from_sorted(["a", "né", "z"]).to_bytes();
        for at in 0..good.len() {
            assert!(Dictionary::from_bytes(&good[..at]).is_err());
            for bit in 0..8 {
                let mut bytes = good.clone();
                bytes[at] ^= 1 << bit;
                if let Ok(dictionary) = Dictionary::from_bytes(&bytes) {
                    assert!(dictionary.iter().is_sorted());
                }
            }
        }
    }
}
