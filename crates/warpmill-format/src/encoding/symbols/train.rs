//! The choice of symbols, from a sample of the strings.
//!
//! As in FSST (section 4.2 of the paper cited in [`super`]), with many more symbols: starting from single characters, the sample is encoded with the
//! current symbols, and the next generation consists of the symbols and pairs of symbols that cover the most bytes.

use std::collections::HashMap;

use super::matcher::Matcher;
use super::table::{CODES, Symbol};
use crate::Bitmap;

/// Generations: a symbol can double in each.
const GENERATIONS: usize = 7;
/// Times that a pair must be seen.
const LEAST_PAIRS: usize = 3;
/// Largest number of non-ASCII characters with a symbol each: the other codes are for repeated substrings.
const MOST_CHARACTERS: usize = CODES / 2;

/// The characters of `text`, as symbols; `None` if there are too many.
pub(super) fn characters(text: &str) -> Option<Vec<Symbol>> {
    // A bit per code point.
    let mut seen = Bitmap::new(char::MAX as usize + 1, false);
    let mut count = 0;
    for part in text.as_bytes().chunk_by(|a, b| a.is_ascii() == b.is_ascii()) {
        if part[0].is_ascii() {
            part.iter().for_each(|&byte| seen.set(byte.into(), true));
            continue;
        }
        // Only whole characters are between ASCII ones.
        for character in std::str::from_utf8(part).ok()?.chars() {
            count += usize::from(!seen.get(character as usize));
            seen.set(character as usize, true);
        }
        if count > MOST_CHARACTERS {
            return None;
        }
    }
    let seen = ('\0'..=char::MAX).filter(|&character| seen.get(character as usize));
    Some(seen.map(|character| Symbol::new(character.encode_utf8(&mut [0; 4]).as_bytes())).collect())
}

/// Finds symbols for texts like `sample`, whose characters are `characters`. `scale` times as many bytes will be encoded.
pub(super) fn train(sample: &[&[u8]], characters: Vec<Symbol>, scale: f64) -> Matcher {
    let mut matcher = Matcher::new(characters.clone());
    for generation in 1..=GENERATIONS {
        // Early generations need only a part, which has the most frequent substrings.
        let part = sample.len() * generation.min(GENERATIONS / 2) / (GENERATIONS / 2);
        let last = generation == GENERATIONS;
        let gains = gains(&matcher, &sample[..part]);
        let mut best: Vec<(u64, Symbol)> = gains.into_iter().map(|(symbol, gain)| (gain, symbol)).collect();
        if last {
            // A symbol must save more than its entry in the table costs.
            best.retain(|&(gain, symbol)| {
                let uses = gain / u64::from(symbol.len);
                uses as f64 * scale > 2.0 * f64::from(symbol.len)
            });
        }
        best.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let room = CODES - characters.len();
        let found = best.into_iter().take(room).map(|(_, symbol)| symbol);
        matcher = Matcher::new(characters.iter().copied().chain(found).collect());
    }
    matcher
}

/// The bytes of `sample` that each symbol of several characters covers, and that each pair of symbols would cover.
fn gains(matcher: &Matcher, sample: &[&[u8]]) -> HashMap<Symbol, u64> {
    let symbols = matcher.symbols();
    let mut uses = vec![0u64; symbols.len()];
    let mut pairs: Vec<u32> = Vec::new();
    for text in sample {
        let mut before = None;
        matcher.encode(text, |code| {
            uses[usize::from(code)] += 1;
            if let Some(before) = before.replace(code) {
                pairs.push(u32::from(before) << 16 | u32::from(code));
            }
        });
    }
    pairs.sort_unstable();
    let mut gains = HashMap::new();
    for (symbol, uses) in symbols.iter().zip(uses).filter(|(symbol, uses)| *uses > 0 && !is_character(symbol)) {
        gains.insert(*symbol, uses * u64::from(symbol.len));
    }
    for same in pairs.chunk_by(|a, b| a == b).filter(|same| same.len() >= LEAST_PAIRS) {
        let [first, second] = [same[0] >> 16, same[0] & 0xffff].map(|code| symbols[code as usize]);
        if let Some(pair) = first.followed_by(second) {
            *gains.entry(pair).or_default() += same.len() as u64 * u64::from(pair.len);
        }
    }
    gains
}

/// Whether `symbol` is a single character, which keeps its place anyway.
fn is_character(symbol: &Symbol) -> bool {
    let first = symbol.bytes as u8;
    let len = match first {
        0..0x80 => 1,
        0x80..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    };
    symbol.len == len
}
