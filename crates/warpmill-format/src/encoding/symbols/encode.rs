//! Encodes strings as symbols if that pays.

use super::matcher::Matcher;
use super::table::SymbolTable;
use super::train::{characters, train};
use super::{CODE_BITS, MAX_TEXT_BYTES};
use crate::VECTOR_ROWS;
use crate::encoding::choose;
use crate::encoding::outline::Outline;
use crate::segment::bytes::SectionWriter;

/// Size in bytes of the sample from which symbols are chosen, and number of strings of each of its parts.
const SAMPLE_BYTES: usize = 512 << 10;
const PART_ROWS: usize = 64;
/// Fewer bytes are not worth a table.
const LEAST_BYTES: usize = 16 << 10;
/// Largest size with symbols, in percent of that of plain strings.
const SIZE_SHARE: usize = 75;
/// Smallest average number of bytes per code. Decoding processes at least half a billion codes per second and core, that is 0.9 GB/s and more, and
/// only for rows that filters on other columns have left.
const LEAST_CODE_BYTES: f64 = 1.8;

/// Input strings: row `i` is `bytes[offsets[i]..offsets[i + 1]]`.
#[derive(Clone, Copy)]
pub(crate) struct Strings<'a> {
    pub offsets: &'a [u32],
    pub bytes: &'a [u8],
}

impl<'a> Strings<'a> {
    fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    fn row(&self, row: usize) -> &'a [u8] {
        &self.bytes[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    fn plain_bytes(&self) -> usize {
        self.bytes.len() + 4 * self.offsets.len()
    }

    /// Parts of the rows, evenly spread, in an order in which every prefix is evenly spread, too.
    fn sample(&self) -> Vec<&'a [u8]> {
        let parts = self.rows().div_ceil(PART_ROWS);
        let part_bytes = (self.bytes.len() / parts).max(1);
        let wanted = SAMPLE_BYTES.div_ceil(part_bytes).min(parts);
        // Steps by a number without a common divisor visit every part once.
        let step = (wanted * 5 / 8..).find(|step| gcd(*step, wanted) == 1).unwrap_or(1);
        let start = |i: usize| (i * step % wanted) * parts / wanted * PART_ROWS;
        let rows = |i: usize| start(i)..self.rows().min(start(i) + PART_ROWS);
        let (mut sample, mut left) = (Vec::new(), 2 * SAMPLE_BYTES);
        for row in (0..wanted).flat_map(rows) {
            let text = self.row(row);
            let cut = (0..=text.len().min(left)).rev().find(|&at| text.get(at).is_none_or(|b| b & 0xC0 != 0x80));
            sample.push(&text[..cut.unwrap_or(0)]);
            left -= cut.unwrap_or(0);
        }
        sample
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Encodes `strings`, which are UTF-8, into `out`. Returns false, and writes nothing, if plain strings are better.
pub(crate) fn encode(strings: Strings<'_>, out: &mut SectionWriter) -> bool {
    if !(LEAST_BYTES..=MAX_TEXT_BYTES).contains(&strings.bytes.len()) {
        return false;
    }
    let Some(characters) = std::str::from_utf8(strings.bytes).ok().and_then(characters) else { return false };
    let sample = strings.sample();
    let sampled: usize = sample.iter().map(|text| text.len()).sum();
    let matcher = train(&sample, characters, strings.bytes.len() as f64 / sampled.max(1) as f64);
    pays(&matcher, &sample, sampled) && write(&matcher, strings, out)
}

/// Whether the sample says that symbols pay.
fn pays(matcher: &Matcher, sample: &[&[u8]], bytes: usize) -> bool {
    let mut codes = 0usize;
    let covered = sample.iter().all(|text| matcher.encode(text, |_| codes += 1));
    let plain = bytes + 4 * sample.len();
    let packed = codes * CODE_BITS as usize / 8 + sample.len();
    covered && packed * 100 <= plain * SIZE_SHARE && bytes as f64 >= LEAST_CODE_BYTES * codes as f64
}

fn write(matcher: &Matcher, strings: Strings<'_>, out: &mut SectionWriter) -> bool {
    let rows = strings.rows();
    let vectors = rows.div_ceil(VECTOR_ROWS);
    let (mut starts, mut texts) = (Vec::with_capacity(vectors + 1), Vec::with_capacity(vectors + 1));
    let mut ends: Vec<i32> = Vec::with_capacity(rows);
    let mut packed: Vec<u8> = Vec::with_capacity(strings.bytes.len() / 4);
    let mut codes: Vec<u16> = Vec::new();
    for first in (0..rows).step_by(VECTOR_ROWS) {
        starts.push(packed.len() as u32);
        texts.push(strings.offsets[first]);
        codes.clear();
        for row in first..rows.min(first + VECTOR_ROWS) {
            if !matcher.encode(strings.row(row), |code| codes.push(code)) {
                return false;
            }
            ends.push(codes.len() as i32);
        }
        pack(&codes, &mut packed);
    }
    starts.push(packed.len() as u32);
    texts.push(strings.bytes.len() as u32);
    let mut counts = SectionWriter::default();
    let encoding = choose::encode((&ends, &Outline::of(&ends)), (4, false), None, &mut counts);
    let encoding = encoding.expect("no encoding is forced");
    let mut sections = SectionWriter::default();
    sections.push(&[u32::from(encoding as u8)]);
    SymbolTable::write(matcher.symbols(), &mut sections);
    sections.push_words(starts);
    sections.push_words(texts);
    sections.append(counts);
    sections.push_bytes(packed);
    let pays = sections.size() * 100 <= strings.plain_bytes() * SIZE_SHARE;
    if pays {
        out.append(sections);
    }
    pays
}

/// Appends `codes`, 12 bits each, the first in the lowest bits of the first byte; pads an odd number by half a byte.
fn pack(codes: &[u16], out: &mut Vec<u8>) {
    for pair in codes.chunks(2) {
        let second = pair.get(1).copied().unwrap_or(0);
        let bits = u32::from(pair[0]) | u32::from(second) << CODE_BITS;
        out.extend_from_slice(&bits.to_le_bytes()[..3]);
    }
    if !codes.len().is_multiple_of(2) {
        out.pop();
    }
}
