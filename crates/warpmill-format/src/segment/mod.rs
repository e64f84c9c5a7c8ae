//! One column over the rows of a row segment: statistics, validity and encoded values.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use crate::encoding::column::{Integers, Scratch};
use crate::encoding::plain::PlainStrings;
use crate::encoding::symbols::{SymbolAutomaton, SymbolStrings, TextAutomaton};
use crate::encoding::word::{Value, Word};
use crate::{Bitmap, ColumnStats, Dictionary, Result, StrView};

pub(crate) mod arrays;
pub(crate) mod bytes;
pub(crate) mod encode;
mod layout;
mod made;
mod nested;
mod read;

use bytes::View;
pub use bytes::{FilePlace, SEGMENT_ALIGN, SegmentBytes};
pub(crate) use encode::{RankBounds, VectorBounds, integer_width};
pub use layout::{DeltaLayout, LaneLayout, RunsLayout, SegmentLayout, SegmentParts, ValueLayout};
pub(crate) use nested::{PartTypes, UUID_BYTES, is_nested, part_types};
pub(crate) use read::read_integers;

/// The encoding of a segment's values (see [`crate::encoding`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Encoding {
    /// Unencoded values (floats, strings as offsets + bytes, incompressible integers).
    Plain,
    /// All valid rows hold the same value.
    Constant,
    /// Lane-packed frame of reference (the default of integers and dictionary codes).
    LaneFor,
    /// Lane-packed per-lane deltas.
    LaneDelta,
    /// Lane-packed run ends and run values.
    LaneRle,
    /// GPU-FOR as published (thesis 3.3).
    GpuFor,
    /// GPU-DFOR as published (thesis 3.4).
    GpuDfor,
    /// GPU-RFOR as published (thesis 3.5).
    GpuRfor,
    /// Strings as codes of a symbol table.
    Symbols,
    /// Values of nested types as child segments.
    Nested,
}

impl Encoding {
    /// All encodings; the position is the number stored in a segment's header.
    pub const ALL: [Encoding; 10] = [
        Encoding::Plain,
        Encoding::Constant,
        Encoding::LaneFor,
        Encoding::LaneDelta,
        Encoding::LaneRle,
        Encoding::GpuFor,
        Encoding::GpuDfor,
        Encoding::GpuRfor,
        Encoding::Symbols,
        Encoding::Nested,
    ];
}

/// One column over the rows of a row segment, ready to be decoded.
///
/// All `start` arguments are multiples of [`crate::VECTOR_ROWS`]; `start + out.len()` must not exceed `rows()`. NULL rows decode to unspecified
/// values. Integer-like types decode as their unscaled integer into any width that fits the segment's min and max (the caller checks
/// [`Segment::stats`]); dictionary columns decode as codes.
///
/// Panics if a segment is read as a type that it does not have, or outside its rows.
#[derive(Clone)]
pub struct Segment {
    bytes: SegmentBytes,
    rows: usize,
    encoding: Encoding,
    stats: ColumnStats,
    validity: Option<View<u64>>,
    values: Values,
    /// New code by old code, if the table's dictionary has grown since this segment was written.
    remap: Option<Arc<[u32]>>,
}

/// The encoded values by kind.
#[derive(Clone)]
enum Values {
    /// Integer-like values, including booleans.
    Integers(Arc<Integers>),
    /// Dictionary codes.
    Codes(Arc<Integers>),
    F32(View<f32>),
    F64(View<f64>),
    Strings(Arc<PlainStrings>),
    Symbols(Arc<SymbolStrings>),
    Nested(Arc<nested::NestedValues>),
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Segment({:?}, {} rows, {} bytes)", self.encoding, self.rows, self.bytes.len())
    }
}

impl Segment {
    /// Encodes `array` as one segment. Chooses the encoding by size and decode cost unless `forced`. With `dictionary`, which must contain every
    /// value, strings are encoded as codes.
    ///
    /// Errors: a type that cannot be stored, a string that the dictionary lacks, or values that the forced encoding cannot represent. The caller adds
    /// the column's name, which is empty here.
    pub fn encode(array: &ArrayRef, dictionary: Option<&Arc<Dictionary>>, forced: Option<Encoding>) -> Result<Self> {
        encode::encode(array, dictionary.map(|d| &**d), forced)
    }

    /// Encodes unscaled integers of a column of type `data_type`; values of NULL rows are ignored. Also returns the bounds of its vectors if there
    /// are no NULLs.
    pub(crate) fn encode_integers<V: Value>(
        values: &[V],
        nulls: Option<&NullBuffer>,
        data_type: &DataType,
    ) -> Result<(Self, Option<VectorBounds>)> {
        encode::encode_values(values, nulls, data_type)
    }

    /// Encodes strings given as codes of `dictionary`; codes of NULL rows are ignored. Also returns bounds of codes.
    pub(crate) fn encode_codes(
        codes: &[i32],
        nulls: Option<&NullBuffer>,
        dictionary: &Dictionary,
    ) -> Result<(Self, Option<VectorBounds>)> {
        encode::encode_codes(codes, nulls, dictionary)
    }

    /// Encodes strings: row `i` is `bytes[offsets[i]..offsets[i + 1]]`, empty if NULL. Also returns the bounds of the ranks of every `zone_rows`
    /// rows.
    pub(crate) fn encode_plain_strings(
        (offsets, bytes): (Vec<u32>, Vec<u8>),
        nulls: Option<&NullBuffer>,
        zone_rows: usize,
    ) -> Result<(Self, Vec<RankBounds>)> {
        encode::encode_plain_strings((offsets, bytes), nulls, zone_rows)
    }

    /// Encodes plain strings as symbols ([`Encoding::Symbols`]) if a sample shows that this pays; `None` otherwise, and for other values.
    ///
    /// # Errors
    /// None expected: the result is checked as after a read.
    pub fn to_symbols(&self) -> Result<Option<Self>> {
        match &self.values {
            Values::Strings(strings) => encode::to_symbols(self, strings),
            _ => Ok(None),
        }
    }

    /// Reads the segment stored in `bytes`, of a column of type `data_type` with `rows` rows. Every size, position and string is checked: invalid
    /// bytes cause an error (or, if undetected inside packed values, wrong values), never undefined behaviour.
    pub fn from_bytes(bytes: SegmentBytes, data_type: &DataType, rows: usize) -> Result<Self> {
        read::read(bytes, data_type, rows, None)
    }

    /// As [`Segment::from_bytes`], for bytes that are valid only in the ranges passed to `fetch`. The result has checked sizes and positions, but no
    /// values: for [`Segment::layout`] and other properties that do not depend on rows.
    pub(crate) fn sparse(
        bytes: SegmentBytes,
        data_type: &DataType,
        rows: usize,
        fetch: bytes::Fetch<'_>,
    ) -> Result<Self> {
        read::read(bytes, data_type, rows, Some(fetch))
    }

    /// The bytes of the segment, in the form for [`Segment::from_bytes`].
    pub fn as_bytes(&self) -> &SegmentBytes {
        &self.bytes
    }

    /// A copy of the bytes of the segment.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes.to_vec()
    }

    /// This segment, saying in its statistics that it is stored in `bytes` bytes (through a codec).
    pub(crate) fn with_stored_bytes(mut self, bytes: u64) -> Segment {
        self.stats.stored_bytes = bytes;
        self
    }

    /// This segment with its codes translated (`remap[old] = new`) on every read, after the dictionary has grown. The
    /// map must be strictly ascending; panics otherwise.
    pub fn with_remap(&self, remap: Arc<[u32]>) -> Segment {
        assert!(remap.is_sorted_by(|a, b| a < b), "a dictionary remap keeps the order of codes");
        let remap = match &self.remap {
            None => remap,
            Some(first) => first.iter().map(|&code| remap[code as usize]).collect(),
        };
        Segment { remap: Some(remap), ..self.clone() }
    }

    /// Checks that every valid row's code is below `entries`, the size of a dictionary.
    pub fn check_codes(&self, entries: usize) -> Result<()> {
        read::check_codes(self, entries)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Min, max, nulls, distinct estimate and sizes.
    pub fn stats(&self) -> &ColumnStats {
        &self.stats
    }

    /// The encoding of the values.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Whether values are strings, not codes of the column's dictionary.
    pub(crate) fn is_string(&self) -> bool {
        matches!(self.values, Values::Strings(_) | Values::Symbols(_))
    }

    /// Whether reading strings decodes them: the bytes are not in this segment then.
    pub fn decodes_strings(&self) -> bool {
        matches!(self.values, Values::Symbols(_))
    }

    /// Whether values are of a nested type.
    pub(crate) fn is_nested(&self) -> bool {
        matches!(self.values, Values::Nested(_))
    }

    /// The children of nested values; empty for other values. Fields of structs and lengths of lists are separate segments.
    pub(crate) fn parts(&self) -> &[Segment] {
        match &self.values {
            Values::Nested(values) => values.parts(),
            _ => &[],
        }
    }

    /// Whether rows are floats of either width.
    pub(crate) fn is_float(&self) -> bool {
        matches!(self.values, Values::F32(_) | Values::F64(_))
    }

    /// Floats of either width.
    pub(crate) fn decode_floats(&self, start: usize, out: &mut [f64]) {
        match &self.values {
            Values::F32(_) => {
                let mut narrow = vec![0f32; out.len()];
                self.decode_f32(start, &mut narrow);
                out.iter_mut().zip(narrow).for_each(|(wide, x)| *wide = x.into());
            }
            _ => self.decode_f64(start, out),
        }
    }

    /// Whether values of a type are stored in parts, each of which is a segment: those of nested types, bytes, intervals and UUIDs.
    pub fn has_parts(data_type: &DataType) -> bool {
        is_nested(data_type)
    }

    /// Whether the values are dictionary codes.
    pub fn is_dictionary(&self) -> bool {
        matches!(self.values, Values::Codes(_))
    }

    /// Validity of rows `start .. start + len`; `None` if the whole segment has no NULLs.
    pub fn validity(&self, start: usize, len: usize) -> Option<Bitmap> {
        let words = self.validity.as_ref()?;
        self.check(start, len);
        Some(Bitmap::from_words(words[start / 64..(start + len).div_ceil(64)].to_vec(), len))
    }

    /// Validity of rows `rows` (any rows of the segment), or `None` where the whole segment has no nulls.
    pub fn gather_validity(&self, rows: &[u32]) -> Option<Bitmap> {
        let words = self.validity.as_ref()?;
        self.check_rows(rows, rows.len());
        Some(Bitmap::from_fn(rows.len(), |i| words[rows[i] as usize / 64] >> (rows[i] % 64) & 1 != 0))
    }

    #[inline(always)]
    fn check(&self, start: usize, len: usize) {
        assert!(
            start.is_multiple_of(crate::VECTOR_ROWS) && start + len <= self.rows,
            "rows {start} + {len} of {}",
            self.rows
        );
    }

    #[inline(always)]
    fn integers(&self) -> &Integers {
        match &self.values {
            Values::Integers(values) => values,
            _ => panic!("not a segment of integers"),
        }
    }

    #[inline(always)]
    fn codes(&self) -> &Integers {
        match &self.values {
            Values::Codes(values) => values,
            _ => panic!("not a segment of dictionary codes"),
        }
    }

    /// Decodes integer-like values as `i32`.
    pub fn decode_i32(&self, start: usize, out: &mut [i32]) {
        self.check(start, out.len());
        self.integers().decode(start, as_unsigned::<i32, u32>(out));
    }

    /// Decodes integer-like values as `i64`.
    pub fn decode_i64(&self, start: usize, out: &mut [i64]) {
        self.check(start, out.len());
        self.integers().decode(start, as_unsigned::<i64, u64>(out));
    }

    /// Decodes integer-like values as `i128`.
    pub fn decode_i128(&self, start: usize, out: &mut [i128]) {
        self.check(start, out.len());
        self.integers().decode(start, as_unsigned::<i128, u128>(out));
    }

    /// Decodes dictionary codes.
    pub fn decode_codes(&self, start: usize, out: &mut [u32]) {
        self.check(start, out.len());
        self.codes().decode(start, out);
        self.translate(out);
    }

    /// Decodes `Float32` values.
    pub fn decode_f32(&self, start: usize, out: &mut [f32]) {
        let Values::F32(values) = &self.values else { panic!("not a segment of Float32") };
        out.copy_from_slice(&values[start..start + out.len()]);
    }

    /// Decodes `Float64` values.
    pub fn decode_f64(&self, start: usize, out: &mut [f64]) {
        let Values::F64(values) = &self.values else { panic!("not a segment of Float64") };
        out.copy_from_slice(&values[start..start + out.len()]);
    }

    /// Decodes booleans.
    pub fn decode_bool(&self, start: usize, out: &mut [bool]) {
        self.check(start, out.len());
        let mut scratch = [0u32; crate::VECTOR_ROWS];
        for (i, chunk) in out.chunks_mut(crate::VECTOR_ROWS).enumerate() {
            self.integers().decode(start + i * crate::VECTOR_ROWS, &mut scratch[..chunk.len()]);
            chunk.iter_mut().zip(&scratch).for_each(|(bit, &x)| *bit = x != 0);
        }
    }

    /// Views of strings that are not codes. They refer to this segment, or to `text`, whose bytes are replaced if the segment [decodes
    /// strings](Segment::decodes_strings): both must outlive the views, `text` without changes.
    pub fn decode_str(&self, start: usize, text: &mut Vec<u8>, out: &mut [StrView]) {
        self.check(start, out.len());
        match &self.values {
            Values::Strings(strings) => out.iter_mut().zip(start..).for_each(|(view, row)| *view = strings.get(row)),
            Values::Symbols(strings) => strings.decode(start, text, out),
            _ => panic!("not a segment of strings"),
        }
    }

    /// `automaton` for [`Segment::and_text`]; `None` where this segment [decodes no strings](Segment::decodes_strings).
    pub fn text_automaton(&self, automaton: &TextAutomaton) -> Option<SymbolAutomaton> {
        match &self.values {
            Values::Symbols(strings) => Some(strings.automaton(automaton)),
            _ => None,
        }
    }

    /// Clears in `mask` (bit `i` is row `start + i`, least significant first) the rows of `start .. start + len` whose string is not accepted by
    /// `automaton` (if `wanted`; else those whose string is). The automaton must come from [`Segment::text_automaton`] of this segment. NULL rows are
    /// empty strings. Panics for values other than symbol-encoded strings.
    pub fn and_text(&self, start: usize, len: usize, automaton: &SymbolAutomaton, wanted: bool, mask: &mut [u64]) {
        self.check(start, len);
        let Values::Symbols(strings) = &self.values else { panic!("not a segment of symbols") };
        strings.and_text(start, len, automaton, wanted, mask);
    }

    /// Random access: `out[i]` = the value of row `rows[i]` (any rows of the segment).
    pub fn gather_i32(&self, rows: &[u32], out: &mut [i32]) {
        self.gather(self.integers(), rows, as_unsigned::<i32, u32>(out));
    }

    /// Random access, see [`Segment::gather_i32`].
    pub fn gather_i64(&self, rows: &[u32], out: &mut [i64]) {
        self.gather(self.integers(), rows, as_unsigned::<i64, u64>(out));
    }

    /// Random access, see [`Segment::gather_i32`].
    pub fn gather_i128(&self, rows: &[u32], out: &mut [i128]) {
        self.gather(self.integers(), rows, as_unsigned::<i128, u128>(out));
    }

    /// Random access, see [`Segment::gather_i32`].
    pub fn gather_codes(&self, rows: &[u32], out: &mut [u32]) {
        self.gather(self.codes(), rows, out);
        self.translate(out);
    }

    /// Random access, see [`Segment::gather_i32`].
    pub fn gather_f32(&self, rows: &[u32], out: &mut [f32]) {
        let Values::F32(values) = &self.values else { panic!("not a segment of Float32") };
        out.iter_mut().zip(rows).for_each(|(x, &row)| *x = values[row as usize]);
    }

    /// Random access, see [`Segment::gather_i32`].
    pub fn gather_f64(&self, rows: &[u32], out: &mut [f64]) {
        let Values::F64(values) = &self.values else { panic!("not a segment of Float64") };
        out.iter_mut().zip(rows).for_each(|(x, &row)| *x = values[row as usize]);
    }

    /// Random access, see [`Segment::gather_i32`].
    pub fn gather_bool(&self, rows: &[u32], out: &mut [bool]) {
        let mut words = vec![0u32; rows.len()];
        self.gather(self.integers(), rows, &mut words);
        out.iter_mut().zip(&words).for_each(|(bit, &x)| *bit = x != 0);
    }

    /// Random access, see [`Segment::gather_i32`]; views and `text` as in [`Segment::decode_str`].
    pub fn gather_str(&self, rows: &[u32], text: &mut Vec<u8>, out: &mut [StrView]) {
        self.check_rows(rows, out.len());
        match &self.values {
            Values::Strings(strings) => {
                out.iter_mut().zip(rows).for_each(|(view, &row)| *view = strings.get(row as usize));
            }
            Values::Symbols(strings) => strings.gather(rows, text, out),
            _ => panic!("not a segment of strings"),
        }
    }

    fn gather<T: Word>(&self, values: &Integers, rows: &[u32], out: &mut [T]) {
        self.check_rows(rows, out.len());
        values.gather(rows, out);
    }

    fn check_rows(&self, rows: &[u32], len: usize) {
        assert_eq!(rows.len(), len);
        let largest = rows.iter().copied().max();
        assert!(largest.is_none_or(|row| (row as usize) < self.rows), "row {largest:?} of {}", self.rows);
    }

    fn translate(&self, codes: &mut [u32]) {
        if let Some(remap) = &self.remap {
            // A code past the map can only come from damaged bytes.
            codes.iter_mut().for_each(|code| *code = remap.get(*code as usize).copied().unwrap_or(u32::MAX));
        }
    }

    /// Appends to `out` every row `r` of `start .. start + len`, as `r - start`, whose value is in `lo ..= hi` (unscaled integers or codes),
    /// comparing packed values without adding the reference. NULLs are NOT excluded: the caller intersects with [`Segment::validity`].
    pub fn select_range(&self, start: usize, len: usize, lo: i128, hi: i128, out: &mut Vec<u32>) {
        let mut mask = vec![u64::MAX; len.div_ceil(64)];
        self.and_range(start, len, lo, hi, &mut mask);
        mask_rows(&mask, len, out);
    }

    /// As [`Segment::select_range`], for rows whose dictionary code is set in `set` (codes past its end count as not set).
    pub fn select_codes(&self, start: usize, len: usize, set: &Bitmap, out: &mut Vec<u32>) {
        let mut mask = vec![u64::MAX; len.div_ceil(64)];
        self.and_codes(start, len, set, &mut mask);
        mask_rows(&mask, len, out);
    }

    /// Clears in `mask` (bit `i` is row `start + i`, least significant first) the rows of `start .. start + len` whose value is not in `lo ..= hi`;
    /// vectors without a set bit are not read. NULL rows have unspecified results.
    pub fn and_range(&self, start: usize, len: usize, lo: i128, hi: i128, mask: &mut [u64]) {
        self.check(start, len);
        let (values, lo, hi) = match &self.values {
            Values::Integers(values) => (values, lo, hi),
            Values::Codes(values) => match &self.remap {
                None => (values, lo, hi),
                Some(remap) => {
                    let first = remap.partition_point(|&code| i128::from(code) < lo);
                    let end = remap.partition_point(|&code| i128::from(code) <= hi);
                    (values, first as i128, end as i128 - 1)
                }
            },
            _ => panic!("not a segment of integers or codes"),
        };
        let bounds = if self.is_dictionary() { None } else { self.stats.int_range() };
        match bounds {
            _ if lo > hi => mask.fill(0),
            Some((min, max)) if lo <= min && max <= hi => {}
            Some((min, max)) if hi < min || max < lo => mask.fill(0),
            _ => values.and_range(start, len, lo, hi, mask),
        }
    }

    /// As [`Segment::and_range`], for rows whose dictionary code is not set in `set` (codes past its end count as not set).
    pub fn and_codes(&self, start: usize, len: usize, set: &Bitmap, mask: &mut [u64]) {
        self.and_members(start, len, 0, set, mask);
    }

    /// As [`Segment::and_range`], for rows whose value (an unscaled integer of at most 64 bits, or a code) is not `min + i` for a set bit `i` of
    /// `set`, which has at most `i32::MAX` bits, all of them for values of 64 bits.
    pub fn and_members(&self, start: usize, len: usize, min: i64, set: &Bitmap, mask: &mut [u64]) {
        self.check(start, len);
        for (from, words) in (0..len).step_by(crate::VECTOR_ROWS).zip(mask.chunks_mut(crate::VECTOR_ROWS / 64)) {
            if words.iter().all(|&word| word == 0) {
                continue;
            }
            let rows = start + from..start + (from + crate::VECTOR_ROWS).min(len);
            let mut offsets: Scratch<u32> = [0; crate::VECTOR_ROWS];
            let first = self.offsets(rows, min, &mut offsets);
            crate::encoding::select::and_members(&offsets, first, set, words);
        }
    }

    /// Decodes up to a vector of rows into 32 bits. Gives `first`, of which `value - first` modulo 2^32 is the distance from `min` where that is
    /// at least 0 and below 2^31, and otherwise 2^31 or more.
    fn offsets(&self, rows: Range<usize>, min: i64, out: &mut Scratch<u32>) -> u32 {
        let out = &mut out[..rows.len()];
        let near = |bound: i128| (bound - i128::from(min)).unsigned_abs() < 1 << 31;
        match &self.values {
            // Codes are below 2^31, or damaged and past every set.
            Values::Codes(codes) if near(0) && min >= 0 => {
                codes.decode(rows.start, out);
                self.translate(out);
                min as u32
            }
            Values::Integers(values) if self.stats.int_range().is_some_and(|(lo, hi)| near(lo) && near(hi)) => {
                values.decode(rows.start, out);
                min as u32
            }
            Values::Integers(values) => {
                let mut wide: Scratch<u64> = [0; crate::VECTOR_ROWS];
                values.decode(rows.start, &mut wide[..rows.len()]);
                let offset = |value: u64| value.wrapping_sub(min as u64).min(u32::MAX.into()) as u32;
                out.iter_mut().zip(&wide).for_each(|(out, &value)| *out = offset(value));
                0
            }
            Values::Codes(_) => {
                out.fill(u32::MAX);
                0
            }
            _ => panic!("not a segment of integers or codes"),
        }
    }
}

/// Appends the set bits of `mask` among the first `len`, ascending.
pub fn mask_rows(mask: &[u64], len: usize, out: &mut Vec<u32>) {
    crate::encoding::select::append(mask, len, 0, out);
}

/// A slice of signed integers as the unsigned ones of the same size.
fn as_unsigned<S: bytes::Pod, U>(slice: &mut [S]) -> &mut [U] {
    const { assert!(size_of::<S>() == size_of::<U>() && align_of::<S>() == align_of::<U>()) };
    // SAFETY: called with a signed primitive and its unsigned twin only: same layout, every bit pattern valid in both.
    unsafe { std::slice::from_raw_parts_mut(slice.as_mut_ptr().cast(), slice.len()) }
}

#[cfg(test)]
mod tests;
