//! Rows of one column in the form in which they are received, before they are divided into row segments.

use std::ops::Range;

use arrow::array::{Array, Int32Array};
use arrow::datatypes::DataType;

use super::interner::Interner;
use super::strings::too_large;
use crate::segment::integer_width;
use crate::{Bitmap, FormatError, Result};

/// Values of one column for some rows. Values of NULL rows are ignored.
#[derive(Debug)]
pub enum Values {
    /// Unscaled integers that fit 64 bits: all integers but `UInt64`, decimals of up to 18 digits, dates, times, booleans as 0 and 1.
    Narrow(Vec<i64>),
    /// Other unscaled integers.
    Wide(Vec<i128>),
    /// `Float32`.
    F32(Vec<f32>),
    /// `Float64`.
    F64(Vec<f64>),
    /// Strings.
    Strings(Strings),
}

/// A sequence of rows of one column.
#[derive(Debug)]
pub struct Piece {
    values: Values,
    /// Validity of all rows; `None`: no NULLs so far.
    valid: Option<Bitmap>,
}

impl Piece {
    /// An empty piece for a column of type `data_type`. `plain`: its strings are known to have too many distinct values for a dictionary.
    ///
    /// Errors: [`FormatError::Schema`] (without the column's name) for a type that is stored as another one.
    pub fn new(data_type: &DataType, plain: bool) -> Result<Self> {
        let values = match data_type {
            DataType::UInt64 | DataType::Decimal128(19.., _) => Values::Wide(vec![]),
            DataType::Float32 => Values::F32(vec![]),
            DataType::Float64 => Values::F64(vec![]),
            DataType::Utf8 => Values::Strings(Strings::new(plain)),
            other if integer_width(other).is_some() => Values::Narrow(vec![]),
            other => return Err(FormatError::schema("", format!("type {other} cannot be stored"))),
        };
        Ok(Self { values, valid: None })
    }

    /// The values, for appending: call [`Piece::added`] afterwards.
    pub fn values(&mut self) -> &mut Values {
        &mut self.values
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets the validity of the last `rows` rows, which have been appended to [`Piece::values`]; `None`: all are valid.
    pub fn added(&mut self, rows: usize, valid: Option<&dyn Fn(usize) -> bool>) {
        match (&mut self.valid, valid) {
            (None, None) => {}
            (Some(bits), None) => bits.extend(&Bitmap::new(rows, true)),
            (Some(bits), Some(valid)) => bits.extend(&Bitmap::from_fn(rows, valid)),
            (none, Some(valid)) => {
                let new = Bitmap::from_fn(rows, valid);
                if !new.all() {
                    let mut bits = Bitmap::new(self.values.len() - rows, true);
                    bits.extend(&new);
                    *none = Some(bits);
                }
            }
        }
    }

    /// Removes the rows, for reuse with the same column: keeps the memory, and the known strings.
    pub(super) fn clear(&mut self) {
        self.valid = None;
        match &mut self.values {
            Values::Narrow(values) => values.clear(),
            Values::Wide(values) => values.clear(),
            Values::F32(values) => values.clear(),
            Values::F64(values) => values.clear(),
            Values::Strings(strings) => strings.clear(),
        }
    }

    pub(super) fn parts(&self) -> (&Values, Option<&Bitmap>) {
        (&self.values, self.valid.as_ref())
    }
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Narrow(values) => values.len(),
            Self::Wide(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Strings(strings) => strings.len(),
        }
    }
}

/// Slots of the strings that were seen last: a column's few different ones all have one, nearly always.
const SLOTS: usize = 1 << 9;
/// Number of distinct strings after which a column is judged to have few repetitions, if they come from at most so many rows.
const PROBED: usize = 1 << 13;
const PROBED_ROWS: usize = PROBED + PROBED / 32;
/// Longest string that fits a slot.
const SLOT_BYTES: usize = 32;

/// A string of at most [`SLOT_BYTES`] bytes as its length and words (overlapping if it is shorter): equal only for equal strings.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Short {
    length: usize,
    words: [u64; 4],
}

impl Short {
    const NONE: Self = Self { length: usize::MAX, words: [0; 4] };

    #[inline(always)]
    fn of(text: &[u8]) -> Option<Self> {
        let n = text.len();
        let word = |at: usize| u64::from_le_bytes(text[at..at + 8].try_into().expect("8 bytes"));
        let half = |at: usize| u64::from(u32::from_le_bytes(text[at..at + 4].try_into().expect("4 bytes")));
        let words = match n {
            0 => [0; 4],
            1..4 => [u64::from(text[0]) | u64::from(text[n / 2]) << 8 | u64::from(text[n - 1]) << 16, 0, 0, 0],
            4..=8 => [half(0) | half(n - 4) << 32, 0, 0, 0],
            9..=16 => [word(0), word(n - 8), 0, 0],
            17..=SLOT_BYTES => [word(0), word(8), word(n - 16), word(n - 8)],
            _ => return None,
        };
        Some(Self { length: n, words })
    }

    #[inline(always)]
    fn slot(&self) -> usize {
        let [a, b, c, d] = self.words;
        let mixed = (a ^ b.rotate_left(23) ^ c.rotate_left(41) ^ d.rotate_left(11) ^ self.length as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> (64 - SLOTS.ilog2())) as usize
    }
}

/// No key: see [`Strings::push_keyed`].
const NO_KEY: u128 = u128::MAX;

fn slot_of_key(key: u128) -> usize {
    let mixed = (key as u64 ^ ((key >> 64) as u64).rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> (64 - SLOTS.ilog2())) as usize
}

/// The code of null rows, which no string has.
const NULL: u32 = u32::MAX;

/// Strings: as codes while few are distinct, otherwise plain.
pub struct Strings {
    known: Interner,
    codes: Vec<u32>,
    recent: Box<[(Short, u32)]>,
    /// Slots by key.
    keyed: Box<[(u128, u32)]>,
    plain: Option<PlainRows>,
    /// Number of rows before the current ones.
    before: usize,
}

impl std::fmt::Debug for Strings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Strings({} rows, {} known)", self.len(), self.known.len())
    }
}

/// Strings one after the other.
#[derive(Debug, Default)]
pub(super) struct PlainRows {
    pub bytes: Vec<u8>,
    /// The end of each string.
    pub ends: Vec<usize>,
}

impl PlainRows {
    fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }
}

impl Strings {
    fn new(plain: bool) -> Self {
        let slots = if plain { 0 } else { SLOTS };
        Self {
            known: Interner::new(),
            codes: vec![],
            recent: vec![(Short::NONE, 0); slots].into(),
            keyed: vec![(NO_KEY, 0); slots].into(),
            plain: plain.then(PlainRows::default),
            before: 0,
        }
    }

    fn len(&self) -> usize {
        self.plain.as_ref().map_or(self.codes.len(), |plain| plain.ends.len())
    }

    fn clear(&mut self) {
        self.before += self.len();
        self.codes.clear();
        if let Some(plain) = &mut self.plain {
            plain.bytes.clear();
            plain.ends.clear();
        }
    }

    /// Whether they are stored as plain strings, because too many are distinct.
    pub(super) fn is_plain(&self) -> bool {
        self.plain.is_some()
    }

    /// Adds a null row.
    #[inline]
    pub fn push_null(&mut self) {
        match &mut self.plain {
            Some(plain) => plain.push(&[]),
            None => self.codes.push(NULL),
        }
    }

    /// Adds a row.
    ///
    /// Errors: invalid UTF-8 (possibly detected only when the column is encoded).
    #[inline]
    pub fn push(&mut self, text: &[u8]) -> Result<()> {
        if let Some(plain) = &mut self.plain {
            plain.push(text);
            return Ok(());
        }
        let Some(short) = Short::of(text) else {
            let code = self.code(text)?;
            return self.add(code);
        };
        let slot = short.slot();
        if self.recent[slot].0 == short {
            self.codes.push(self.recent[slot].1);
            return Ok(());
        }
        let code = self.code(text)?;
        self.recent[slot] = (short, code);
        self.add(code)
    }

    /// Adds a row with text `text()`, which all rows with the same `key` share; `u128::MAX` is not a valid key.
    ///
    /// Errors: those of [`Strings::push`].
    #[inline(always)]
    pub fn push_keyed<'a>(&mut self, key: u128, text: impl FnOnce() -> &'a [u8]) -> Result<()> {
        if self.plain.is_none() {
            let (known, code) = self.keyed[slot_of_key(key)];
            if known == key {
                self.codes.push(code);
                return Ok(());
            }
        }
        self.push_new(key, text())
    }

    /// Adds rows given as codes of `entries` texts.
    ///
    /// Errors: those of [`Strings::push`]; invalid codes.
    pub(super) fn extend_coded<'a>(
        &mut self,
        text: &dyn Fn(usize) -> &'a str,
        entries: usize,
        codes: &Int32Array,
    ) -> Result<()> {
        let unknown = || FormatError::schema("", "a code beyond its dictionary");
        if codes.iter().flatten().any(|code| usize::try_from(code).map_or(true, |code| code >= entries)) {
            return Err(unknown());
        }
        if self.plain.is_some() || entries > codes.len() {
            return codes.iter().try_for_each(|code| match code {
                Some(code) => self.push(text(code as usize).as_bytes()),
                None => {
                    self.push_null();
                    Ok(())
                }
            });
        }
        let known: Vec<u32> = (0..entries).map(|entry| self.known.intern(text(entry))).collect();
        match codes.nulls() {
            None => self.codes.extend(codes.values().iter().map(|&code| known[code as usize])),
            Some(_) => self.codes.extend(codes.iter().map(|code| code.map_or(NULL, |code| known[code as usize]))),
        }
        self.give_up_if_many();
        Ok(())
    }

    #[inline(never)]
    fn push_new(&mut self, key: u128, text: &[u8]) -> Result<()> {
        if let Some(plain) = &mut self.plain {
            plain.push(text);
            return Ok(());
        }
        let code = self.code(text)?;
        self.keyed[slot_of_key(key)] = (key, code);
        self.add(code)
    }

    #[inline(never)]
    fn code(&mut self, text: &[u8]) -> Result<u32> {
        let text = std::str::from_utf8(text);
        Ok(self.known.intern(text.map_err(|_| FormatError::schema("", "text that is not UTF-8"))?))
    }

    fn add(&mut self, code: u32) -> Result<()> {
        self.codes.push(code);
        self.give_up_if_many();
        Ok(())
    }

    /// Switches to plain strings if too many are distinct.
    fn give_up_if_many(&mut self) {
        let known = self.known.len();
        let hardly_repeats = known == PROBED && self.before + self.codes.len() <= PROBED_ROWS;
        if hardly_repeats || too_large(&self.known) {
            let mut plain = PlainRows::default();
            self.codes.iter().for_each(|&code| plain.push(if code == NULL { &[] } else { self.known.bytes(code) }));
            *self = Self { plain: Some(plain), before: self.before, ..Self::new(true) };
        }
    }

    /// Codes of all rows (NULL rows have arbitrary ones), and their strings; `None` if the strings are plain.
    pub(super) fn numbered(&self) -> Option<(&[u32], &Interner)> {
        self.plain.is_none().then_some((&self.codes, &self.known))
    }

    /// Appends rows `range` to contiguous strings with offsets; `None` if they take 4 GiB or more.
    pub(super) fn copy_to(&self, range: Range<usize>, offsets: &mut Vec<u32>, bytes: &mut Vec<u8>) -> Option<()> {
        let base = bytes.len();
        let Some(plain) = &self.plain else {
            for &code in &self.codes[range] {
                bytes.extend_from_slice(if code == NULL { &[] } else { self.known.bytes(code) });
                offsets.push(u32::try_from(bytes.len()).ok()?);
            }
            return Some(());
        };
        let ends = &plain.ends[range.clone()];
        let start = range.start.checked_sub(1).map_or(0, |before| plain.ends[before]);
        let end = ends.last().copied().unwrap_or(start);
        u32::try_from(base + (end - start)).ok()?;
        bytes.extend_from_slice(&plain.bytes[start..end]);
        offsets.extend(ends.iter().map(|end| (base + (end - start)) as u32));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_strings_are_told_apart() {
        let texts: Vec<String> = (0..=SLOT_BYTES)
            .flat_map(|n| {
                let base = "x".repeat(n);
                let changed = (0..n).map(move |i| format!("{}y{}", "x".repeat(i), "x".repeat(n - i - 1)));
                std::iter::once(base).chain(changed)
            })
            .collect();
        for (i, a) in texts.iter().enumerate() {
            for (j, b) in texts.iter().enumerate() {
                assert_eq!(Short::of(a.as_bytes()) == Short::of(b.as_bytes()), i == j, "{a:?} {b:?}");
            }
        }
        assert!(Short::of(&[0; SLOT_BYTES + 1]).is_none());
        assert!(Short::of(b"\0") != Short::of(b"") && Short::of(b"a\0") != Short::of(b"a"));
    }

    #[test]
    fn many_strings_become_plain() {
        let mut strings = Strings::new(false);
        let texts: Vec<String> = (0..70_000).map(|i| format!("{i} {}", "long ".repeat(i % 9))).collect();
        texts.iter().for_each(|text| strings.push(text.as_bytes()).unwrap());
        assert!(strings.is_plain() && strings.len() == texts.len());
        assert_eq!(copied(&strings, 0..texts.len()), texts);
        assert_eq!(copied(&strings, 7..7), [""; 0]);
        assert_eq!(copied(&strings, 69_000..70_000), texts[69_000..]);
    }

    fn copied(strings: &Strings, range: Range<usize>) -> Vec<String> {
        let (mut offsets, mut bytes) = (vec![0], vec![]);
        strings.copy_to(range, &mut offsets, &mut bytes).unwrap();
        let text = |pair: &[u32]| String::from_utf8(bytes[pair[0] as usize..pair[1] as usize].to_vec()).unwrap();
        offsets.windows(2).map(text).collect()
    }

    #[test]
    fn keys_stand_for_their_texts() {
        let mut strings = Strings::new(false);
        let texts: Vec<String> = (0..30_000).map(|i| format!("{}", i % 3000)).collect();
        for (i, text) in texts.iter().enumerate() {
            match i % 3 {
                0 => strings.push(text.as_bytes()).unwrap(),
                _ => strings.push_keyed((i % 3000) as u128, || text.as_bytes()).unwrap(),
            }
        }
        assert!(!strings.is_plain() && strings.numbered().unwrap().1.len() == 3000);
        assert_eq!(copied(&strings, 0..texts.len()), texts);
        // The learnt facts stay, the rows do not.
        strings.clear();
        strings.push_keyed(2999, || unreachable!("it came last")).unwrap();
        strings.push_null();
        assert_eq!(copied(&strings, 0..2), ["2999", ""]);
    }

    #[test]
    fn strings_that_hardly_repeat_are_given_up_early() {
        for (rows, different, given_up) in [(PROBED, PROBED, true), (20_000, 10_000, true), (20_000, 8000, false)] {
            let mut strings = Strings::new(false);
            (0..rows).for_each(|i| strings.push(format!("{}", i % different).as_bytes()).unwrap());
            assert_eq!(strings.is_plain(), given_up, "{different} different ones in {rows} rows");
        }
        // Enough of them repeat.
        let mut strings = Strings::new(false);
        (0..40_000).for_each(|i| strings.push(format!("{}", i / 2).as_bytes()).unwrap());
        assert!(!strings.is_plain());
    }

    #[test]
    fn nulls_may_come_late() {
        let mut piece = Piece::new(&DataType::Int32, false).unwrap();
        for valid in [true, true, false, true] {
            let Values::Narrow(values) = piece.values() else { panic!("integers are narrow") };
            values.extend([1, 2, 3]);
            let some = |row: usize| valid || row == 1;
            piece.added(3, (!valid).then_some(&some));
        }
        let valid = piece.parts().1.unwrap();
        assert_eq!((valid.len(), valid.count_ones(), valid.get(7)), (12, 10, true));
    }

    #[test]
    fn text_is_checked() {
        assert!(Strings::new(false).push(&[0xff]).is_err());
        assert!(Piece::new(&DataType::Null, false).is_err());
    }
}
