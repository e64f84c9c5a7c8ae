//! Ordered string dictionaries, shared by all segments of a table column.

use std::sync::OnceLock;

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use xxhash_rust::xxh3::xxh3_64;

use crate::encoding::plain::validate_strings;
use crate::segment::bytes::{bytes_of, corrupt};
use crate::{Result, StrView};

/// The rows of a string array of any physical type; `None` for other types.
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
    /// Hash table with open addressing: code + 1, or 0; made at the first use; the size is a power of two.
    index: OnceLock<Vec<u32>>,
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dictionary({} strings, {} bytes)", self.len(), self.bytes.len())
    }
}

impl Dictionary {
    /// A dictionary of `values`, which must be strictly ascending. Panics if they have 4 GiB or more in total.
    pub fn from_sorted<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut dictionary = Self { bytes: Vec::new(), offsets: vec![0], index: OnceLock::new() };
        for value in values {
            debug_assert!(dictionary.is_empty() || dictionary.get(dictionary.len() as u32 - 1) < value);
            dictionary.bytes.extend_from_slice(value.as_bytes());
            dictionary.offsets.push(u32::try_from(dictionary.bytes.len()).expect("a dictionary has less than 4 GiB"));
        }
        dictionary
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Bytes of the strings and of where they begin.
    pub fn plain_bytes(&self) -> u64 {
        (self.bytes.len() + 4 * self.offsets.len()) as u64
    }

    /// Bytes of the strings.
    pub(crate) fn byte_len(&self) -> usize {
        self.bytes.len()
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

    /// The code of `value`, if it is an entry, without an index of all entries unless there is one.
    pub(crate) fn find(&self, value: &str) -> Option<u32> {
        if self.index.get().is_some() {
            return self.code(value);
        }
        let code = self.lower_bound(value);
        ((code as usize) < self.len() && self.get(code) == value).then_some(code)
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

    /// The number of entries below `value`, which is the first code not below it.
    pub fn lower_bound(&self, value: &str) -> u32 {
        let (mut low, mut high) = (0, self.len() as u32);
        while low < high {
            let mid = low + (high - low) / 2;
            if self.get(mid) < value { low = mid + 1 } else { high = mid }
        }
        low
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

#[cfg(test)]
mod tests {
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
