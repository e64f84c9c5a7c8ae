//! Ordered string dictionaries, shared by all segments of a table column.

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;

use crate::StrView;

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
#[derive(Debug)]
pub struct Dictionary {
    bytes: Vec<u8>,
    offsets: Vec<u32>,
}

impl Dictionary {
    /// A dictionary of `values`, which must be strictly ascending.
    pub fn from_sorted<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut dictionary = Self { bytes: Vec::new(), offsets: vec![0] };
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

    /// The code of `value`, if it is an entry.
    pub fn code(&self, value: &str) -> Option<u32> {
        let (mut lo, mut hi) = (0u32, self.len() as u32);
        while lo < hi {
            let mid = lo + (hi - lo) / 2;
            match self.get(mid).cmp(value) {
                std::cmp::Ordering::Less => lo = mid + 1,
                std::cmp::Ordering::Greater => hi = mid,
                std::cmp::Ordering::Equal => return Some(mid),
            }
        }
        None
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len() as u32).map(|code| self.get(code))
    }
}
