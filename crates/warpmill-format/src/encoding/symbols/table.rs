//! The symbols of a segment: their stored form, and the tables for decoding.

use super::{CODE_BITS, MAX_SYMBOL_BYTES};
use crate::Result;
use crate::segment::bytes::{SectionReader, SectionWriter, corrupt};

/// Number of codes: more than a table needs.
pub(super) const CODES: usize = 1 << CODE_BITS;

/// A string of whole characters, 1 to [`MAX_SYMBOL_BYTES`] bytes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Symbol {
    /// The bytes, the first one lowest, padded with zeros.
    pub bytes: u128,
    /// Their number.
    pub len: u8,
}

impl Symbol {
    /// The symbol with `bytes`, at most [`MAX_SYMBOL_BYTES`] of them.
    pub fn new(bytes: &[u8]) -> Self {
        let mut all = [0; MAX_SYMBOL_BYTES];
        all[..bytes.len()].copy_from_slice(bytes);
        Self { bytes: u128::from_le_bytes(all), len: bytes.len() as u8 }
    }

    /// This symbol followed by `other`; `None` where they are too long.
    pub fn followed_by(self, other: Self) -> Option<Self> {
        let len = self.len + other.len;
        let fits = usize::from(len) <= MAX_SYMBOL_BYTES;
        fits.then(|| Self { bytes: self.bytes | other.bytes << (8 * u32::from(self.len)), len })
    }
}

/// The bits of the first `len` bytes (1 to 16).
#[inline(always)]
pub(super) fn mask(len: usize) -> u128 {
    u128::MAX >> (128 - 8 * len)
}

/// The text of each code, for decoding. Codes without a symbol have an empty text, so that any codes are valid.
pub(super) struct SymbolTable {
    /// Text of each of the [`CODES`] codes, padded to [`MAX_SYMBOL_BYTES`].
    bytes: Box<[u128]>,
    /// Bytes of each.
    lens: Box<[u8; CODES]>,
}

impl SymbolTable {
    /// Stores `symbols`: a section of lengths (u8), a section of bytes.
    pub fn write(symbols: &[Symbol], out: &mut SectionWriter) {
        out.push_bytes(symbols.iter().map(|symbol| symbol.len).collect());
        let bytes = symbols.iter().flat_map(|s| s.bytes.to_le_bytes().into_iter().take(s.len.into()));
        out.push_bytes(bytes.collect());
    }

    /// Reads and checks the form of [`SymbolTable::write`]: every symbol is whole characters.
    pub fn read(reader: &mut SectionReader<'_>) -> Result<Self> {
        let (stored, text) = (reader.any::<u8>()?, reader.any::<u8>()?);
        if stored.len() > CODES {
            return Err(corrupt(format!("a table of {} symbols, {CODES} are the most", stored.len())));
        }
        let mut table = Self { bytes: vec![0; CODES].into(), lens: Box::new([0; CODES]) };
        let mut rest = &text[..];
        for (code, &len) in stored.iter().enumerate() {
            if !(1..=MAX_SYMBOL_BYTES).contains(&usize::from(len)) {
                return Err(corrupt(format!("a symbol of {len} bytes")));
            }
            let (symbol, behind) =
                rest.split_at_checked(len.into()).ok_or_else(|| corrupt("a table of symbols is cut off"))?;
            std::str::from_utf8(symbol).map_err(|error| corrupt(format!("a symbol is not UTF-8: {error}")))?;
            (table.bytes[code], table.lens[code]) = (Symbol::new(symbol).bytes, len);
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(corrupt("a table of symbols has bytes of no symbol"));
        }
        Ok(table)
    }

    /// The text of the code in the 12 lowest bits of `code`, and its length.
    #[inline(always)]
    pub fn get(&self, code: u64) -> (u128, usize) {
        let code = code as usize % CODES;
        (self.bytes[code], self.lens[code].into())
    }
}
