//! Conversion of Deflate to GDeflate: the same symbols and codes, with their bits distributed over lanes.

use super::huffman::Code;
use super::{DISTANCES, DYNAMIC, END, FIXED, LANES, LENGTHS, ORDER, STORED, WORD, fixed_lengths};

/// Bits that stay together.
#[derive(Clone, Copy, Default)]
struct Bits {
    value: u64,
    count: u32,
}

/// A stream of Deflate.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// At least 32 bits from the current position; zeros after the end.
    fn peek(&self) -> u64 {
        let first = self.at / 8;
        let mut word = [0; 8];
        let there = self.bytes.get(first..).unwrap_or_default();
        let count = there.len().min(8);
        word[..count].copy_from_slice(&there[..count]);
        u64::from_le_bytes(word) >> (self.at % 8)
    }

    fn take(&mut self, count: u32) -> Result<Bits, String> {
        let value = self.peek() & ((1 << count) - 1);
        self.at += count as usize;
        if self.at > 8 * self.bytes.len() { Err("Deflate ended too early".into()) } else { Ok(Bits { value, count }) }
    }

    /// Reads the next symbol of `code`, with its bits.
    fn symbol(&mut self, code: &Code) -> Result<(usize, Bits), String> {
        let (symbol, count) = code.find(self.peek())?;
        Ok((symbol as usize, self.take(count)?))
    }
}

impl Bits {
    /// Appends `more` to these bits.
    fn then(self, more: Bits) -> Self {
        Self { value: self.value | more.value << self.count, count: self.count + more.count }
    }
}

/// The streams of all lanes.
struct Lanes {
    /// The words of each lane, and bits that do not fill a word yet.
    words: [Vec<u32>; LANES],
    open: [Bits; LANES],
    /// Bits that a decoder has of each.
    left: [u32; LANES],
    /// The lane that takes each word.
    order: Vec<u8>,
    /// Distances that come with the lane's next turn.
    distances: [Bits; LANES],
    lane: usize,
}

impl Lanes {
    fn new() -> Self {
        let (words, open, distances) = Default::default();
        let mut lanes = Self { words, open, left: [0; LANES], order: vec![], distances, lane: 0 };
        (0..LANES).for_each(|_| lanes.advance());
        lanes
    }

    fn put(&mut self, bits: Bits) {
        let lane = self.lane;
        debug_assert!(bits.count <= self.left[lane]);
        self.left[lane] -= bits.count;
        let mut open = self.open[lane].then(bits);
        if open.count >= WORD {
            self.words[lane].push(open.value as u32);
            open = Bits { value: open.value >> WORD, count: open.count - WORD };
        }
        self.open[lane] = open;
    }

    /// Loads words in the order of a decoder.
    fn refill(&mut self) {
        if self.left[self.lane] < WORD {
            self.left[self.lane] += WORD;
            self.order.push(self.lane as u8);
        }
    }

    fn advance(&mut self) {
        self.refill();
        self.lane = (self.lane + 1) % LANES;
    }

    /// Writes pending distances of lanes, until one has a turn for a symbol.
    fn settle(&mut self) {
        while self.distances[self.lane].count > 0 {
            let distance = std::mem::take(&mut self.distances[self.lane]);
            self.put(distance);
            self.advance();
        }
    }

    /// Ends with a turn for every lane, which writes pending distances.
    fn finish(&mut self) {
        for _ in 0..LANES {
            let distance = std::mem::take(&mut self.distances[self.lane]);
            self.put(distance);
            self.advance();
        }
    }

    /// All words in the order in which a decoder reads them.
    fn into_bytes(mut self) -> Vec<u8> {
        let mut next = [0; LANES];
        for lane in 0..LANES {
            self.words[lane].push(self.open[lane].value as u32);
        }
        let word = |&lane: &u8| {
            let lane = usize::from(lane);
            let word = self.words[lane].get(next[lane]).copied().unwrap_or(0);
            next[lane] += 1;
            word.to_le_bytes()
        };
        self.order.iter().flat_map(word).collect()
    }
}

/// Converts `deflate`, which is raw Deflate, to GDeflate.
///
/// Errors: invalid Deflate.
pub(in crate::codec) fn lay_out(deflate: &[u8]) -> Result<Vec<u8>, String> {
    let (mut reader, mut lanes) = (Reader { bytes: deflate, at: 0 }, Lanes::new());
    let (mut symbols, mut distances) = (Code::default(), Code::default());
    loop {
        lanes.lane = 0;
        let (last, kind) = (reader.take(1)?, reader.take(2)?);
        lanes.put(last.then(kind));
        lanes.refill();
        match kind.value as u32 {
            STORED => stored(&mut reader, &mut lanes)?,
            FIXED | DYNAMIC => {
                if kind.value as u32 == FIXED {
                    let (own, far) = fixed_lengths();
                    symbols.set(&own)?;
                    distances.set(&far)?;
                } else {
                    codes(&mut reader, &mut lanes, &mut symbols, &mut distances)?;
                }
                lanes.lane = 0;
                block(&mut reader, &mut lanes, &symbols, &distances)?;
            }
            _ => return Err("a block of no kind".into()),
        }
        lanes.finish();
        if last.value == 1 {
            return Ok(lanes.into_bytes());
        }
    }
}

fn stored(reader: &mut Reader<'_>, lanes: &mut Lanes) -> Result<(), String> {
    reader.at = reader.at.next_multiple_of(8);
    let length = reader.take(16)?;
    // Deflate stores it twice.
    reader.take(16)?;
    lanes.put(length);
    for _ in 0..length.value {
        let byte = reader.take(8)?;
        lanes.put(byte);
        lanes.advance();
    }
    Ok(())
}

/// Copies the codes of a block with dynamic codes.
fn codes(reader: &mut Reader<'_>, lanes: &mut Lanes, symbols: &mut Code, distances: &mut Code) -> Result<(), String> {
    let counts = [reader.take(5)?, reader.take(5)?, reader.take(4)?];
    lanes.put(counts[0].then(counts[1]).then(counts[2]));
    lanes.refill();
    let [own, far, explicit] = counts.map(|bits| bits.value as usize);
    let mut of_lengths = [0u8; ORDER.len()];
    for &place in &ORDER[..explicit + 4] {
        let length = reader.take(3)?;
        of_lengths[place] = length.value as u8;
        lanes.put(length);
        lanes.advance();
    }
    let mut code = Code::default();
    code.set(&of_lengths)?;
    lanes.lane = 0;
    let (own, all) = (own + 257, own + 257 + far + 1);
    let mut lengths: Vec<u8> = vec![];
    while lengths.len() < all {
        let (symbol, bits) = reader.symbol(&code)?;
        let (value, least, more) = match symbol {
            16 => (*lengths.last().ok_or("the first code length repeats none")?, 3, 2),
            17 => (0, 3, 3),
            18 => (0, 11, 7),
            length => (length as u8, 1, 0),
        };
        let more = reader.take(more)?;
        lanes.put(bits.then(more));
        lanes.advance();
        lengths.resize(lengths.len() + least + more.value as usize, value);
    }
    if lengths.len() > all {
        return Err("more code lengths than there are codes".into());
    }
    symbols.set(&lengths[..own])?;
    distances.set(&lengths[own..])
}

/// Copies the symbols of a block.
fn block(reader: &mut Reader<'_>, lanes: &mut Lanes, symbols: &Code, distances: &Code) -> Result<(), String> {
    loop {
        lanes.settle();
        let (symbol, bits) = reader.symbol(symbols)?;
        if symbol as u32 == END {
            lanes.put(bits);
            return Ok(());
        }
        if (symbol as u32) < END {
            lanes.put(bits);
            lanes.advance();
            continue;
        }
        let position = symbol - END as usize - 1;
        let &(least, more) = LENGTHS.get(position).ok_or("a length of no symbol")?;
        // Deflate's last symbol is one length, which Deflate64's has bits for.
        let more = match position + 1 == LENGTHS.len() {
            true => Bits { value: u64::from(258 - least), count: more },
            false => reader.take(more)?,
        };
        lanes.put(bits.then(more));
        let (distance, bits) = reader.symbol(distances)?;
        let more = reader.take(DISTANCES[distance].1)?;
        lanes.distances[lanes.lane] = bits.then(more);
        lanes.advance();
    }
}
