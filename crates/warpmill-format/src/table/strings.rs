//! String columns while a version is written.
//!
//! The strings of a column's ordered dictionary, and thus the codes, are known only when all rows have been seen. Until then every row segment is
//! kept as provisional codes, in as few bytes per row as the largest needs, with an unordered dictionary of the column; if that grows too large for
//! its rows, the column is stored as plain strings instead.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::buffer::NullBuffer;

use super::interner::Interner;
use crate::segment::VectorBounds;
use crate::{Bitmap, Dictionary, FormatError, Result, Segment, VECTOR_ROWS};

/// Largest number of strings of a dictionary: codes fit 16 bits, predicates are evaluated once per entry.
const MAX_ENTRIES: usize = 1 << 16;
/// Largest size of its strings in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Entries that need no repetition.
const FREE_ENTRIES: usize = 1 << 10;
/// Smallest average number of rows per entry, over the whole column, for larger dictionaries.
const MIN_REPEAT: u64 = 16;
/// Share (1 / MOST_SEARCHED) of a dictionary's entries that is searched for before an index of them is made.
const MOST_SEARCHED: usize = 16;

/// A string column that may become a dictionary column.
pub(crate) struct Candidate {
    /// The base version's dictionary, whose codes are the first provisional codes.
    base: Option<Arc<Dictionary>>,
    /// Other strings, whose codes follow.
    builder: Interner,
    /// Number of strings looked for in the base dictionary.
    searches: usize,
    /// Number of rows whose strings are in the dictionary, including the base version's.
    rows: u64,
    /// Row segments not encoded yet.
    pub held: Vec<HeldCodes>,
}

/// One row segment of a candidate column as codes.
pub(crate) struct HeldCodes {
    /// Position among the row segments being written.
    pub segment: usize,
    codes: NarrowCodes,
    /// The provisional code of each code; `None`: they are equal.
    entries: Option<Vec<u32>>,
    nulls: Option<NullBuffer>,
}

/// The strings of one row segment with separate codes, so that row segments of a column can be processed in parallel.
pub(crate) struct OwnStrings {
    strings: Interner,
    codes: NarrowCodes,
    nulls: Option<NullBuffer>,
}

/// Codes in as few bytes each as the largest needs.
pub(super) enum NarrowCodes {
    One(Vec<u8>),
    Two(Vec<u16>),
    Four(Vec<u32>),
}

impl NarrowCodes {
    /// Room for `rows` codes of at most `most`.
    pub fn with_capacity(most: u32, rows: usize) -> Self {
        match most {
            0..=0xff => Self::One(Vec::with_capacity(rows)),
            0x100..=0xffff => Self::Two(Vec::with_capacity(rows)),
            _ => Self::Four(Vec::with_capacity(rows)),
        }
    }

    /// Appends `entries[c]` for each code `c`; 0 for NULL rows, whose codes may be invalid.
    pub fn extend(&mut self, codes: &[u32], entries: &[u32]) {
        let of = |&code: &u32| entries.get(code as usize).copied().unwrap_or(0);
        match self {
            Self::One(all) => all.extend(codes.iter().map(|code| of(code) as u8)),
            Self::Two(all) => all.extend(codes.iter().map(|code| of(code) as u16)),
            Self::Four(all) => all.extend(codes.iter().map(of)),
        }
    }

    fn new(codes: Vec<u32>) -> Self {
        let entries = 0..codes.iter().max().map_or(0, |most| most + 1);
        let mut narrow = Self::with_capacity(entries.end.saturating_sub(1), codes.len());
        match &mut narrow {
            Self::Four(all) => *all = codes,
            narrow => narrow.extend(&codes, &entries.collect::<Vec<u32>>()),
        }
        narrow
    }

    /// Maps every code `c` to `remap[c]`; codes of NULL rows, which may be invalid, to 0.
    fn translate(&self, remap: &[u32]) -> Vec<i32> {
        let of = |code: usize| remap.get(code).map_or(0, |&code| code as i32);
        match self {
            Self::One(codes) => {
                let all: [i32; 256] = std::array::from_fn(of);
                codes.iter().map(|&c| all[usize::from(c)]).collect()
            }
            Self::Two(codes) => codes.iter().map(|&c| of(c.into())).collect(),
            Self::Four(codes) => codes.iter().map(|&c| of(c as usize)).collect(),
        }
    }

    fn get(&self, row: usize) -> u32 {
        match self {
            Self::One(codes) => codes[row].into(),
            Self::Two(codes) => codes[row].into(),
            Self::Four(codes) => codes[row],
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(codes) => codes.len(),
            Self::Two(codes) => codes.len(),
            Self::Four(codes) => codes.len(),
        }
    }
}

impl Candidate {
    /// A column whose earlier `rows` rows have the strings of `base`: these keep their codes as provisional codes.
    pub fn new(base: Option<&Arc<Dictionary>>, rows: u64) -> Self {
        Self { base: base.cloned(), builder: Interner::new(), searches: 0, rows, held: Vec::new() }
    }

    /// Number of entries of the base dictionary.
    fn known(&self) -> usize {
        self.base.as_ref().map_or(0, |base| base.len())
    }

    /// Number of strings.
    fn len(&self) -> usize {
        self.known() + self.builder.len()
    }

    /// The provisional code of a string.
    fn code(&mut self, value: &str) -> u32 {
        if let Some(base) = &self.base {
            self.searches += 1;
            // An index of all entries pays for many strings only.
            let many = self.searches > base.len() / MOST_SEARCHED;
            let known = if many { base.code(value) } else { base.find(value) };
            if let Some(known) = known {
                return known;
            }
        }
        self.known() as u32 + self.builder.intern(value)
    }

    /// The string of a provisional code.
    fn get(&self, code: u32) -> &str {
        match &self.base {
            Some(base) if (code as usize) < base.len() => base.get(code),
            _ => self.builder.get(code - self.known() as u32),
        }
    }

    /// Takes the rows of row segment `segment`.
    pub fn push(&mut self, segment: usize, own: OwnStrings) {
        let OwnStrings { strings, codes, nulls } = own;
        let entries = (0..strings.len() as u32).map(|code| self.code(strings.get(code))).collect();
        self.rows += codes.len() as u64;
        self.held.push(HeldCodes { segment, codes, entries: Some(entries), nulls });
    }

    /// The provisional codes of strings that are numbered already, in their order.
    pub fn intern(&mut self, own: &Interner) -> Vec<u32> {
        (0..own.len() as u32).map(|code| self.code(own.get(code))).collect()
    }

    /// Adds the rows of row segment `segment`, as provisional codes.
    pub fn hold(&mut self, segment: usize, codes: NarrowCodes, nulls: Option<NullBuffer>) {
        self.rows += codes.len() as u64;
        self.held.push(HeldCodes { segment, codes, entries: None, nulls });
    }

    /// Whether the dictionary has grown too large, whatever rows follow.
    pub fn too_large(&self) -> bool {
        let base = self.base.as_ref().map_or(0, |base| base.byte_len());
        are_too_many(self.len(), base + self.builder.byte_len())
    }

    /// Whether the dictionary does not pay for the rows so far.
    pub fn repeats_too_little(&self) -> bool {
        let entries = self.len();
        entries > FREE_ENTRIES && entries as u64 * MIN_REPEAT > self.rows
    }

    /// The strings of `held`.
    pub fn plain(&self, held: &HeldCodes) -> ArrayRef {
        let mut builder = StringBuilder::with_capacity(held.codes.len(), 0);
        for row in 0..held.codes.len() {
            let valid = held.nulls.as_ref().is_none_or(|n| n.is_valid(row));
            let code = |code: u32| held.entries.as_ref().map_or(code, |entries| entries[code as usize]);
            builder.append_option(valid.then(|| self.get(code(held.codes.get(row)))));
        }
        Arc::new(builder.finish())
    }

    /// The ordered dictionary, its code for each provisional code, and the row segments still to be encoded.
    pub fn finish(self) -> (Arc<Dictionary>, Vec<u32>, Vec<HeldCodes>) {
        let (new, order) = self.builder.finish();
        let Some(base) = self.base else { return (Arc::new(new), order, self.held) };
        let known = base.len() as u32;
        if new.is_empty() {
            return (base, (0..known).collect(), self.held);
        }
        // Both are sorted, and have no string in common.
        let places: Vec<u32> = new.iter().map(|value| base.lower_bound(value)).collect();
        let mut remap = Vec::with_capacity((known + new.len() as u32) as usize);
        let (mut values, mut before) = (Vec::with_capacity(remap.capacity()), 0);
        for code in 0..known {
            while before < places.len() && places[before] <= code {
                values.push(new.get(before as u32));
                before += 1;
            }
            values.push(base.get(code));
            remap.push(code + before as u32);
        }
        values.extend((before as u32..new.len() as u32).map(|code| new.get(code)));
        remap.extend(order.into_iter().map(|sorted| places[sorted as usize] + sorted));
        (Arc::new(Dictionary::from_sorted(values)), remap, self.held)
    }
}

/// Whether there are too many strings for a dictionary.
pub(super) fn too_large(strings: &Interner) -> bool {
    are_too_many(strings.len(), strings.byte_len())
}

fn are_too_many(entries: usize, bytes: usize) -> bool {
    entries > MAX_ENTRIES || bytes > MAX_BYTES
}

impl OwnStrings {
    /// The strings of `arrays`; `None`: too many for a dictionary.
    pub fn of(arrays: &[ArrayRef]) -> Option<Self> {
        let rows = arrays.iter().map(|a| a.len()).sum();
        let mut strings = Interner::new();
        let mut codes: Vec<u32> = Vec::with_capacity(rows);
        let mut valid = Bitmap::new(0, true);
        let any_null = arrays.iter().any(|a| a.null_count() > 0);
        for array in arrays {
            for value in array.as_string::<i32>() {
                codes.push(value.map_or(0, |v| strings.intern(v)));
                if any_null {
                    valid.push(value.is_some());
                }
            }
            if too_large(&strings) {
                return None;
            }
        }
        let nulls = any_null.then(|| NullBuffer::from_iter((0..rows).map(|i| valid.get(i))));
        Some(Self { strings, codes: NarrowCodes::new(codes), nulls })
    }
}

impl HeldCodes {
    /// Encodes the rows as codes of `dictionary`; `remap` maps provisional codes. Also returns the bounds of its vectors if no row is NULL.
    pub fn encode(&self, remap: &[u32], dictionary: &Dictionary) -> Result<(Segment, Option<VectorBounds>)> {
        let own: Option<Vec<u32>> =
            self.entries.as_ref().map(|entries| entries.iter().map(|&code| remap[code as usize]).collect());
        let codes = self.codes.translate(own.as_deref().unwrap_or(remap));
        Segment::encode_codes(&codes, self.nulls.as_ref(), dictionary)
    }
}

/// The strings of a dictionary-encoded segment.
pub(crate) fn strings_of(segment: &Segment, dictionary: &Dictionary) -> ArrayRef {
    let validity = segment.validity(0, segment.rows());
    let mut builder = StringBuilder::with_capacity(segment.rows(), 0);
    let mut codes = [0u32; VECTOR_ROWS];
    for start in (0..segment.rows()).step_by(VECTOR_ROWS) {
        let codes = &mut codes[..VECTOR_ROWS.min(segment.rows() - start)];
        segment.decode_codes(start, codes);
        for (i, &code) in codes.iter().enumerate() {
            let valid = validity.as_ref().is_none_or(|v| v.get(start + i));
            builder.append_option(valid.then(|| dictionary.get(code)));
        }
    }
    Arc::new(builder.finish())
}

/// Concatenates the parts of one column of a row segment.
pub(crate) fn concatenate(arrays: &[ArrayRef], column: &str) -> Result<ArrayRef> {
    if let [only] = arrays {
        return Ok(only.clone());
    }
    let parts: Vec<&dyn Array> = arrays.iter().map(|a| &**a).collect();
    arrow::compute::concat(&parts).map_err(|e| FormatError::schema(column, e.to_string()))
}
