//! Strings as 12-bit codes of up to 4096 symbols: substrings of whole characters, 1 to 16 bytes long, that repeat in the segment's strings.
//!
//! A symbol table as in Boncz, Neumann and Leis, "FSST: Fast Random Access String Compression", VLDB 2020, with longer symbols and wider codes that a
//! decoder still copies in one step: it writes 16 bytes per code and advances by the symbol's length (Gargiulo and Venturini, "OnPair: Short Strings
//! Compression for Fast Random Access", 2025). Every character of a segment is a symbol, so that there are no escapes, and any codes represent valid
//! text: a segment is opened without checking them. Strings are decoded one by one or by vectors.
//!
//! Sections: the encoding of the ends (u32, its number); lengths of the symbols (u8); bytes of the symbols; per vector, the first byte of its codes
//! (u32, vectors + 1); per vector, the bytes of text before it (u32, vectors + 1); the sections of an integer encoding of `rows` values (number of
//! codes of the vector's rows up to and including this one); codes.
//!
//! - `table`: the symbols, in stored form and for decoding; `matcher`: the longest symbol at the beginning of a text;
//! - `train`: the choice of symbols; `encode`: whether they pay, and encoding of strings; `automaton`: tests of strings without decoding.

mod automaton;
mod encode;
mod matcher;
mod table;
mod train;

#[cfg(test)]
mod tests;

pub use automaton::{SymbolAutomaton, TextAutomaton};
pub(crate) use encode::{Strings, encode};
use table::{CODES, SymbolTable};

use super::column::Integers;
use crate::segment::bytes::{SectionReader, View, corrupt};
use crate::segment::{Encoding, read_integers};
use crate::{Result, StrView, VECTOR_ROWS};

/// Bits of a code.
const CODE_BITS: u32 = 12;
/// Largest size of a symbol in bytes: one store instruction.
const MAX_SYMBOL_BYTES: usize = 16;
/// Number of codes that are decoded without checking the remaining room.
const STEP: usize = 8;
/// Their bytes.
const STEP_BYTES: usize = STEP * CODE_BITS as usize / 8;
/// Number of requested rows of a vector from which on a gather decodes all of its ends.
const DENSE_GROUP: usize = 3;
/// Room for the text of a step.
const SLACK: usize = STEP * MAX_SYMBOL_BYTES;
/// Largest size of a segment's text in bytes: positions and slack fit 32 bits.
const MAX_TEXT_BYTES: usize = u32::MAX as usize - 4096;

/// Strings in symbols.
pub(crate) struct SymbolStrings {
    rows: usize,
    table: SymbolTable,
    /// Offset of each vector's codes in bytes, and the total.
    starts: View<u32>,
    /// Bytes of text before each vector, and the total.
    texts: View<u32>,
    /// Number of codes of a vector's rows up to and including each row.
    ends: Integers,
    codes: View<u8>,
}

/// The number of codes in `bytes`.
fn codes_in(bytes: usize) -> usize {
    bytes * 8 / CODE_BITS as usize
}

/// Bytes of `codes` codes.
fn bytes_of_codes(codes: usize) -> usize {
    (codes * CODE_BITS as usize).div_ceil(8)
}

impl SymbolStrings {
    /// Reads the sections of [`encode`] for `rows` rows, and checks sizes, symbols and positions.
    pub(crate) fn read(reader: &mut SectionReader<'_>, rows: usize) -> Result<Self> {
        let vectors = rows.div_ceil(VECTOR_ROWS);
        let number = reader.exactly::<u32>(1)?[0];
        let encoding = usize::try_from(number).ok().and_then(|number| Encoding::ALL.get(number).copied());
        let table = SymbolTable::read(reader)?;
        let (starts, texts) = (reader.exactly::<u32>(vectors + 1)?, reader.exactly::<u32>(vectors + 1)?);
        let ends = match encoding {
            Some(encoding) => read_integers(reader, encoding, rows)?,
            None => return Err(corrupt(format!("encoding {number} does not exist"))),
        };
        let codes = reader.any::<u8>()?;
        let ascend = |places: &[u32]| places.first() == Some(&0) && places.is_sorted();
        if !ascend(&starts) || starts.last().map(|&end| end as usize) != Some(codes.len()) {
            return Err(corrupt("the codes of vectors are not where they belong"));
        }
        // No vector claims more text than its codes can represent: memory is allocated by it.
        let most = |v: usize| codes_in((starts[v + 1] - starts[v]) as usize) * MAX_SYMBOL_BYTES;
        let bounded = ascend(&texts) && (0..vectors).all(|v| (texts[v + 1] - texts[v]) as usize <= most(v));
        if !bounded || texts.last().is_none_or(|&all| all as usize > MAX_TEXT_BYTES) {
            return Err(corrupt("the text of vectors does not fit their codes"));
        }
        let strings = Self { rows, table, starts, texts, ends, codes };
        for v in 0..vectors {
            let last = strings.rows.min((v + 1) * VECTOR_ROWS) - 1;
            if bytes_of_codes(strings.end(last)) != strings.codes(v).len() {
                return Err(corrupt("the codes of a vector are not those of its rows"));
            }
        }
        Ok(strings)
    }

    fn end(&self, row: usize) -> usize {
        let mut end = [0u32];
        self.ends.gather(&[row as u32], &mut end);
        end[0] as usize
    }

    fn codes(&self, v: usize) -> &[u8] {
        // Checked in case a mapped file has been changed, which is detected after the read.
        self.codes.get(self.starts[v] as usize..self.starts[v + 1] as usize).unwrap_or_default()
    }

    /// Decodes the rows from `start` (a multiple of the vector size). Their bytes replace those of `text`, which must outlive the views without
    /// changes.
    pub(crate) fn decode(&self, start: usize, text: &mut Vec<u8>, out: &mut [StrView]) {
        let mut places = Vec::with_capacity(out.len() + 1);
        self.expand(start, out.len(), text, &mut places);
        views(text, &places, out.iter_mut());
    }

    /// Appends the bytes of `rows` rows from `start` on to `text`, and the offset of each, and the end, to `places`.
    pub(crate) fn expand(&self, start: usize, rows: usize, text: &mut Vec<u8>, places: &mut Vec<usize>) {
        text.clear();
        let (first, end) = (start / VECTOR_ROWS, (start + rows).div_ceil(VECTOR_ROWS));
        let bytes = self.texts[end].saturating_sub(self.texts[first]) as usize;
        text.reserve_exact(bytes + SLACK);
        let mut ends = [0u32; VECTOR_ROWS];
        let mut positions: Vec<u32> = Vec::new();
        places.push(0);
        for v in first..end {
            let count = (start + rows - v * VECTOR_ROWS).min(VECTOR_ROWS);
            self.ends.decode(v * VECTOR_ROWS, &mut ends[..count]);
            let codes = self.codes(v);
            let wanted = (ends[count - 1] as usize).min(codes_in(codes.len()));
            positions.clear();
            positions.reserve(wanted + STEP);
            positions.push(text.len() as u32);
            self.append(codes, wanted, text, bytes + SLACK, &mut positions);
            let last = positions.len() - 1;
            places.extend(ends[..count].iter().map(|&end| positions[(end as usize).min(last)] as usize));
        }
        // Damage that nothing else shows: places do not run backwards.
        if !places.is_sorted() {
            places.fill(0);
        }
    }

    /// Appends the text of the first `count` of `codes` to `text`, and the end of each to `positions`. Stops early if `text` would exceed `most`.
    fn append(&self, codes: &[u8], count: usize, text: &mut Vec<u8>, most: usize, positions: &mut Vec<u32>) {
        let most = most.min(text.capacity());
        let mut done = 0;
        positions.reserve(count);
        // The loads of a step stay within its bytes.
        while done + STEP <= count && text.len() + SLACK <= most {
            let step: &[u8; STEP_BYTES] = codes[done / 2 * 3..].first_chunk().expect("the bytes of `count` codes");
            let (low, high) = halves(step);
            let (mut len, target) = (text.len(), text.as_mut_ptr());
            let (ends, before) = (positions.as_mut_ptr(), positions.len());
            for i in 0..STEP {
                let word = if i < 4 { low >> (12 * i) } else { high >> (12 * (i - 4)) };
                let (symbol, bytes) = self.table.get(word);
                // SAFETY: `len` grows by at most 16 in each of 8 steps, and there is room for 128 bytes (`most` is at most the capacity);
                // `positions` has room for `count` entries, and `done + i` of them exist.
                unsafe {
                    target.add(len).cast::<u128>().write_unaligned(symbol);
                    len += bytes;
                    ends.add(before + i).write(len as u32);
                }
            }
            // SAFETY: all bytes up to `len`, which is within the capacity, and all these positions were written.
            unsafe {
                text.set_len(len);
                positions.set_len(before + STEP);
            }
            done += STEP;
        }
        for code in done..count {
            let (symbol, bytes) = self.table.get(code_at(codes, code));
            if text.len() + bytes > most {
                return;
            }
            text.extend_from_slice(&symbol.to_le_bytes()[..bytes]);
            positions.push(text.len() as u32);
        }
    }

    /// `automaton` over the symbols of this segment.
    pub(crate) fn automaton(&self, automaton: &TextAutomaton) -> SymbolAutomaton {
        SymbolAutomaton::new(automaton, &self.table)
    }

    /// Clears in `mask` (bit `i` is row `start + i`, `start` a multiple of the vector size) the rows of `start .. start + len` that `automaton`,
    /// compiled for this segment, does not accept (if `wanted`; else those that it accepts). Vectors without a set bit are not read.
    pub(crate) fn and_text(
        &self,
        start: usize,
        len: usize,
        automaton: &SymbolAutomaton,
        wanted: bool,
        mask: &mut [u64],
    ) {
        let mut ends = [0u32; VECTOR_ROWS];
        let mut unpacked: Vec<u16> = Vec::new();
        for (first, words) in (start..start + len).step_by(VECTOR_ROWS).zip(mask.chunks_mut(VECTOR_ROWS / 64)) {
            if words.iter().all(|&word| word == 0) {
                continue;
            }
            let count = (start + len - first).min(VECTOR_ROWS);
            self.ends.decode(first, &mut ends[..count]);
            unpack(self.codes(first / VECTOR_ROWS), ends[count - 1] as usize, &mut unpacked);
            let mut before = 0;
            for (block, word) in ends[..count].chunks(64).zip(words) {
                for (row, &end) in block.iter().enumerate() {
                    let codes = unpacked.get(before..end as usize).unwrap_or_default();
                    before = end as usize;
                    if *word >> row & 1 != 0 && automaton.accepts(codes) != wanted {
                        *word ^= 1 << row;
                    }
                }
            }
        }
    }

    /// `out[i]` = the string of row `rows[i]`; rows must be in range. `text` as in [`SymbolStrings::decode`].
    pub(crate) fn gather(&self, rows: &[u32], text: &mut Vec<u8>, out: &mut [StrView]) {
        text.clear();
        let mut places = Vec::with_capacity(rows.len() + 1);
        places.push(0);
        let mut ends = [0u32; VECTOR_ROWS];
        for group in rows.chunk_by(|&a, &b| a as usize / VECTOR_ROWS == b as usize / VECTOR_ROWS) {
            let v = group[0] as usize / VECTOR_ROWS;
            let (first, codes) = (v * VECTOR_ROWS, self.codes(v));
            let dense = group.len() >= DENSE_GROUP;
            if dense {
                self.ends.decode(first, &mut ends[..VECTOR_ROWS.min(self.rows - first)]);
            }
            for &row in group {
                // A row begins where the one before it ends; the first of a vector begins with the vector.
                let end = |row: usize| if dense { ends[row - first] as usize } else { self.end(row) };
                let row = row as usize;
                let start = if row == first { 0 } else { end(row - 1) };
                self.append_row(codes, start..end(row), text);
                places.push(text.len());
            }
        }
        views(text, &places, out.iter_mut());
    }

    /// Appends the text of the codes at `range` of `codes`, as far as these exist, to `text`.
    #[inline]
    fn append_row(&self, codes: &[u8], range: std::ops::Range<usize>, text: &mut Vec<u8>) {
        let range = range.start..range.end.min(codes_in(codes.len()));
        text.reserve(range.len() * MAX_SYMBOL_BYTES);
        let (mut len, target) = (text.len(), text.as_mut_ptr());
        for code in range {
            let (symbol, bytes) = self.table.get(code_at(codes, code));
            // SAFETY: there is room for 16 bytes per code, and `len` grows by at most as many for each.
            unsafe { target.add(len).cast::<u128>().write_unaligned(symbol) };
            len += bytes;
        }
        // SAFETY: all bytes up to `len`, which is within the capacity, were written.
        unsafe { text.set_len(len) };
    }
}

/// Code `index` of `codes`, in the lowest bits.
#[inline(always)]
fn code_at(codes: &[u8], index: usize) -> u64 {
    let at = index * CODE_BITS as usize / 8;
    let bits = u32::from(codes[at]) | u32::from(codes[at + 1]) << 8;
    u64::from(bits >> (4 * (index % 2)))
}

/// Replaces `out` by the first `count` codes of `codes`, as far as these exist.
fn unpack(codes: &[u8], count: usize, out: &mut Vec<u16>) {
    let count = count.min(codes_in(codes.len()));
    out.clear();
    out.reserve(count + STEP);
    let (steps, _) = codes.as_chunks::<STEP_BYTES>();
    for step in &steps[..(count / STEP).min(steps.len())] {
        let (low, high) = halves(step);
        let code =
            |i: usize| (if i < 4 { low >> (12 * i) } else { high >> (12 * (i - 4)) }) as u16 & (CODES - 1) as u16;
        out.extend_from_slice(&std::array::from_fn::<u16, STEP, _>(code));
    }
    out.extend((out.len()..count).map(|index| code_at(codes, index) as u16 & (CODES - 1) as u16));
}

/// The first four codes of a step, and the last four, each from the lowest bit on.
#[inline(always)]
fn halves(step: &[u8; STEP_BYTES]) -> (u64, u64) {
    let word = |at: usize| u64::from_le_bytes(step[at..at + 8].try_into().expect("8 bytes"));
    (word(0), word(4) >> 16)
}

/// Makes `out` the strings of `text` between `places`, which ascend and are positions between symbols.
fn views<'a>(text: &[u8], places: &[usize], out: impl Iterator<Item = &'a mut StrView>) {
    for (view, place) in out.zip(places.windows(2)) {
        let string = text.get(place[0]..place[1]).unwrap_or_default();
        // SAFETY: symbols are whole characters, and the positions are between symbols.
        *view = StrView::new(unsafe { std::str::from_utf8_unchecked(string) });
    }
}
