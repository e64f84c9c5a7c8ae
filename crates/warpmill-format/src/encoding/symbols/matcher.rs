//! The longest symbol that a text begins with.

use super::table::{Symbol, mask};
use super::{CODE_BITS, MAX_SYMBOL_BYTES};

/// log2 of the number of slots of the hash table, of which at most a quarter are used.
const SLOT_BITS: u32 = CODE_BITS + 2;
/// Kinds of beginnings.
const KIND_BITS: u32 = CODE_BITS + 2;
/// A slot without a symbol.
const FREE: u16 = u16::MAX;
/// Symbols shorter than this are looked up by their first byte, those shorter than [`LONGER`] by this many, longer ones by [`LONGER`] bytes.
const LONG: usize = 4;
const LONGER: usize = 8;

/// Finds symbols in texts. The lengths of symbols with the same beginning determine the lookups.
pub(super) struct Matcher {
    symbols: Vec<Symbol>,
    /// Codes by hash of the whole symbol: open addressing.
    slots: Box<[u16]>,
    /// Lengths below [`LONG`] by first byte: bit `n` for `n` bytes.
    short: Box<[u32; 256]>,
    /// Lengths below [`LONGER`] by a hash of the first four bytes.
    long: Box<[u32]>,
    /// Other lengths by a hash of the first eight bytes.
    longer: Box<[u32]>,
}

fn kind(beginning: u64) -> usize {
    (beginning.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - KIND_BITS)) as usize
}

/// Hashes of a text's first four bytes and of its first eight.
fn kinds(text: u128) -> [usize; 2] {
    [kind(u64::from(text as u32)), kind(text as u64)]
}

fn slot_of(symbol: Symbol) -> usize {
    let (low, high) = (symbol.bytes as u64, (symbol.bytes >> 64) as u64);
    let mixed = low.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ high.wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    let mixed = (mixed ^ u64::from(symbol.len)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    (mixed >> (64 - SLOT_BITS)) as usize
}

impl Matcher {
    /// A matcher for distinct `symbols`; the position is the code.
    pub fn new(symbols: Vec<Symbol>) -> Self {
        let slots = vec![FREE; 1 << SLOT_BITS].into();
        let [long, longer] = [0, 0].map(|none| vec![none; 1 << KIND_BITS].into());
        let mut matcher = Self { symbols, slots, short: Box::new([0; 256]), long, longer };
        for code in 0..matcher.symbols.len() {
            let symbol = matcher.symbols[code];
            let lengths = match usize::from(symbol.len) {
                LONGER.. => &mut matcher.longer[kinds(symbol.bytes)[1]],
                LONG.. => &mut matcher.long[kinds(symbol.bytes)[0]],
                _ => &mut matcher.short[usize::from(symbol.bytes as u8)],
            };
            *lengths |= 1 << symbol.len;
            let mut slot = slot_of(symbol);
            while matcher.slots[slot] != FREE {
                slot = (slot + 1) % matcher.slots.len();
            }
            matcher.slots[slot] = code as u16;
        }
        matcher
    }

    /// The symbols, by code.
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    fn find(&self, symbol: Symbol) -> Option<u16> {
        let mut slot = slot_of(symbol);
        loop {
            match self.slots[slot] {
                FREE => return None,
                code if self.symbols[usize::from(code)] == symbol => return Some(code),
                _ => slot = (slot + 1) % self.slots.len(),
            }
        }
    }

    /// The code of the longest symbol at the beginning of `text`.
    fn longest(&self, text: &[u8]) -> Option<u16> {
        let word = match text.first_chunk::<MAX_SYMBOL_BYTES>() {
            Some(&word) => u128::from_le_bytes(word),
            None => Symbol::new(text).bytes,
        };
        let left = text.len().min(MAX_SYMBOL_BYTES);
        let [long, longer] = kinds(word);
        let mut lengths = self.short[usize::from(word as u8)] | self.long[long] | self.longer[longer];
        lengths &= (2 << left) - 1;
        while lengths != 0 {
            let len = 31 - lengths.leading_zeros();
            if let Some(code) = self.find(Symbol { bytes: word & mask(len as usize), len: len as u8 }) {
                return Some(code);
            }
            lengths ^= 1 << len;
        }
        None
    }

    /// Calls `take` with the code of each symbol of `text` in order. Returns whether the symbols cover all of it.
    pub fn encode(&self, mut text: &[u8], mut take: impl FnMut(u16)) -> bool {
        while !text.is_empty() {
            let Some(code) = self.longest(text) else { return false };
            take(code);
            text = &text[usize::from(self.symbols[usize::from(code)].len)..];
        }
        true
    }
}
