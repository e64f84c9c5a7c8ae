//! From GDeflate to bytes.

use std::cell::RefCell;

use super::huffman::Code;
use super::{DISTANCES, DYNAMIC, END, FIXED, LANES, LENGTHS, ORDER, STORED, WORD, fixed_lengths};

thread_local! {
    static CODES: RefCell<Codes> = RefCell::default();
}

/// The codes of a block; reused to avoid allocations.
#[derive(Default)]
struct Codes {
    lengths: Code,
    symbols: Code,
    distances: Code,
}

/// A match whose distance has not been read yet.
#[derive(Clone, Copy, Default)]
struct Match {
    at: usize,
    length: usize,
}

/// The streams of all lanes.
struct Lanes<'a> {
    words: &'a [u8],
    bits: [u64; LANES],
    left: [u32; LANES],
    matches: [Match; LANES],
    lane: usize,
}

impl<'a> Lanes<'a> {
    fn new(words: &'a [u8]) -> Result<Self, String> {
        let mut lanes = Self { words, bits: [0; LANES], left: [0; LANES], matches: [Match::default(); LANES], lane: 0 };
        (0..LANES).try_for_each(|_| lanes.advance())?;
        Ok(lanes)
    }

    /// The next bits of this lane.
    #[inline]
    fn peek(&self) -> u64 {
        self.bits[self.lane % LANES]
    }

    #[inline]
    fn drop(&mut self, bits: u32) {
        // There are always enough: a turn begins with 32 bits, and none takes more.
        self.bits[self.lane % LANES] >>= bits;
        self.left[self.lane % LANES] -= bits;
    }

    #[inline]
    fn take(&mut self, bits: u32) -> u32 {
        let found = (self.peek() & ((1 << bits) - 1)) as u32;
        self.drop(bits);
        found
    }

    /// Loads a word if the lane has room for one.
    #[inline]
    fn refill(&mut self) -> Result<(), String> {
        if self.left[self.lane % LANES] < WORD {
            let Some((word, rest)) = self.words.split_first_chunk() else {
                return Err("the stream ends too early".into());
            };
            self.bits[self.lane % LANES] |= u64::from(u32::from_le_bytes(*word)) << self.left[self.lane % LANES];
            self.left[self.lane % LANES] += WORD;
            self.words = rest;
        }
        Ok(())
    }

    /// Ends this lane's turn.
    #[inline]
    fn advance(&mut self) -> Result<(), String> {
        self.refill()?;
        self.lane = (self.lane + 1) % LANES;
        Ok(())
    }

    #[inline]
    fn symbol(&mut self, code: &Code) -> Result<u32, String> {
        let (symbol, bits) = code.find(self.peek())?;
        self.drop(bits);
        Ok(symbol)
    }
}

/// Decompresses `block` into `out`. Returns the number of bytes written.
///
/// Errors: invalid GDeflate, or output that does not fit.
pub(in crate::codec) fn decompress(block: &[u8], out: &mut [u8]) -> Result<usize, String> {
    CODES.with_borrow_mut(|codes| {
        let (mut lanes, mut at) = (Lanes::new(block)?, 0);
        loop {
            lanes.lane = 0;
            let last = lanes.take(1);
            let kind = lanes.take(2);
            lanes.refill()?;
            match kind {
                STORED => {
                    at = stored(&mut lanes, out, at)?;
                    finish(&mut lanes, codes, out)?;
                }
                FIXED | DYNAMIC => {
                    if kind == FIXED {
                        let (symbols, distances) = fixed_lengths();
                        codes.symbols.set(&symbols)?;
                        codes.distances.set(&distances)?;
                    } else {
                        read_codes(&mut lanes, codes)?;
                    }
                    lanes.lane = 0;
                    at = symbols(&mut lanes, codes, out, at)?;
                    finish(&mut lanes, codes, out)?;
                }
                _ => return Err("a block of no kind".into()),
            }
            if last == 1 {
                break;
            }
        }
        match lanes.words.len() {
            0 => Ok(at),
            left => Err(format!("{left} bytes behind the last block")),
        }
    })
}

fn stored(lanes: &mut Lanes<'_>, out: &mut [u8], at: usize) -> Result<usize, String> {
    let end = at + lanes.take(16) as usize;
    let room = out.get_mut(at..end).ok_or("more bytes than belong there")?;
    for byte in room {
        *byte = lanes.take(8) as u8;
        lanes.advance()?;
    }
    Ok(end)
}

/// The codes of a block that has its own.
fn read_codes(lanes: &mut Lanes<'_>, codes: &mut Codes) -> Result<(), String> {
    let (symbols, distances) = (lanes.take(5) as usize + 257, lanes.take(5) as usize + 1);
    let explicit = lanes.take(4) as usize + 4;
    lanes.refill()?;
    let mut own = [0u8; ORDER.len()];
    for &place in &ORDER[..explicit] {
        own[place] = lanes.take(3) as u8;
        lanes.advance()?;
    }
    codes.lengths.set(&own)?;
    lanes.lane = 0;
    let (mut lengths, mut at) = ([0u8; 288 + 32], 0);
    while at < symbols + distances {
        let (value, times) = match lanes.symbol(&codes.lengths)? {
            16 if at == 0 => return Err("the first code length repeats none".into()),
            16 => (lengths[at - 1], 3 + lanes.take(2)),
            17 => (0, 3 + lanes.take(3)),
            18 => (0, 11 + lanes.take(7)),
            length => (length as u8, 1),
        };
        let end = at + times as usize;
        let run = lengths[..symbols + distances].get_mut(at..end).ok_or("more code lengths than there are codes")?;
        run.fill(value);
        at = end;
        lanes.advance()?;
    }
    codes.symbols.set(&lengths[..symbols])?;
    codes.distances.set(&lengths[symbols..symbols + distances])
}

/// The symbols of a block, up to its end; some matches may still lack their distance.
fn symbols(lanes: &mut Lanes<'_>, codes: &Codes, out: &mut [u8], mut at: usize) -> Result<usize, String> {
    loop {
        if lanes.matches[lanes.lane % LANES].length > 0 {
            copy(lanes, codes, out)?;
        } else {
            match lanes.symbol(&codes.symbols)? {
                END => return Ok(at),
                literal @ 0..END => {
                    *out.get_mut(at).ok_or("more bytes than belong there")? = literal as u8;
                    at += 1;
                }
                symbol => {
                    let known = LENGTHS.get((symbol - END - 1) as usize);
                    let &(least, bits) = known.ok_or("a length of no symbol")?;
                    let length = (least + lanes.take(bits)) as usize;
                    if length > out.len() - at {
                        return Err("more bytes than belong there".into());
                    }
                    lanes.matches[lanes.lane % LANES] = Match { at, length };
                    at += length;
                }
            }
        }
        lanes.advance()?;
    }
}

/// Finishes a block that has ended: matches whose distance comes now.
fn finish(lanes: &mut Lanes<'_>, codes: &Codes, out: &mut [u8]) -> Result<(), String> {
    for _ in 0..LANES {
        if lanes.matches[lanes.lane % LANES].length > 0 {
            copy(lanes, codes, out)?;
        }
        lanes.advance()?;
    }
    Ok(())
}

/// Reads the distance of this lane's match, and copies it.
fn copy(lanes: &mut Lanes<'_>, codes: &Codes, out: &mut [u8]) -> Result<(), String> {
    let Match { at, length } = std::mem::take(&mut lanes.matches[lanes.lane % LANES]);
    let symbol = lanes.symbol(&codes.distances)?;
    let (least, bits) = DISTANCES[symbol as usize];
    let distance = (least + lanes.take(bits)) as usize;
    let Some(from) = at.checked_sub(distance) else { return Err("a match before the first byte".into()) };
    if distance >= length {
        out.copy_within(from..from + length, at);
    } else {
        (0..length).for_each(|i| out[at + i] = out[from + i]);
    }
    Ok(())
}
