//! GPU-FOR, GPU-DFOR and GPU-RFOR as published (Shanbhag, Yogatama, Yu and Madden, SIGMOD 2022; thesis 3.3 to 3.5).
//!
//! Values are 32-bit words in blocks of 128: the block's minimum (a signed word), one word with four 8-bit widths, then four
//! miniblocks of 32 values, each packed in its own width. An array of block starts counts words of the data section. Four
//! blocks are a tile of 512 values, which decodes alone.
//!
//! - GPU-DFOR packs the deltas inside each tile (the first is 0) and stores the tile's first value in the word before its
//!   first block; starts still point at blocks.
//! - GPU-RFOR cuts runs at blocks of 512 values and packs run values and run lengths as two streams with their own starts.
//!   A block is its minimum, its widths, its number of runs, and four miniblocks of 32 entries, or as many times 32 as four
//!   miniblocks need.
//!
//! Columns wider than 32 bits whose range is not are stored relative to a base, 0 where the values fit as they are. Every
//! stream starts with 4 words (block size, miniblocks, count, first value) and ends with one zero word, because device
//! decoders read one word past a value. The last block is padded with the last value (GPU-FOR) or delta 0 (GPU-DFOR).
//!
//! Sections: base (i128), then starts and data (u32 words) of each stream.

use super::word::{Value, Word};
use crate::segment::bytes::{SectionReader, SectionWriter, View, corrupt};
use crate::{Result, VECTOR_ROWS};

const BLOCK: usize = 128;
const TILE: usize = 512;
const MINIBLOCKS: usize = 4;
const HEADER: usize = 4;

/// The three schemes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    For,
    Delta,
    RunLength,
}

impl Scheme {
    /// Words before a block's miniblocks: reference and widths, and a count of runs.
    fn head(self) -> usize {
        if self == Scheme::RunLength { 3 } else { 2 }
    }
}

/// A column in one of the published schemes.
pub(crate) struct GpuPacked {
    scheme: Scheme,
    base: i128,
    values: Stream,
    /// Run lengths (GPU-RFOR only).
    lengths: Option<Stream>,
}

struct Stream {
    starts: View<u32>,
    data: View<u32>,
}

/// Words being packed.
struct Packer {
    starts: Vec<u32>,
    data: Vec<u32>,
}

impl Packer {
    fn new(block: usize, count: usize, first: i32) -> Self {
        Self { starts: vec![], data: vec![block as u32, MINIBLOCKS as u32, count as u32, first as u32] }
    }

    /// Packs one block: `entries` in miniblocks of `mini` (a multiple of 32), padded with the block's minimum.
    fn block(&mut self, entries: &[i32], mini: usize, counted: bool) {
        self.starts.push(self.data.len() as u32);
        let reference = *entries.iter().min().expect("a block has entries");
        let offsets: Vec<u32> = entries.iter().map(|&x| x.wrapping_sub(reference) as u32).collect();
        let width = |m: &[u32]| 32 - m.iter().fold(0, |all, x| all | x).leading_zeros();
        let widths = offsets.chunks(mini).enumerate().fold(0, |word, (m, chunk)| word | width(chunk) << (8 * m));
        self.data.extend([reference as u32, widths]);
        if counted {
            self.data.push(entries.len() as u32);
        }
        for chunk in offsets.chunks(mini) {
            let (width, mut acc, mut bits) = (width(chunk), 0u64, 0);
            for i in 0..chunk.len().next_multiple_of(32) {
                acc |= u64::from(chunk.get(i).copied().unwrap_or(0)) << bits;
                bits += width;
                if bits >= 32 {
                    self.data.push(acc as u32);
                    (acc, bits) = (acc >> 32, bits - 32);
                }
            }
        }
    }

    fn finish(mut self, out: &mut SectionWriter) {
        self.starts.push(self.data.len() as u32);
        self.data.push(0);
        out.push(&self.starts);
        out.push(&self.data);
    }
}

/// Entries per miniblock of a run-length block of `count` runs.
fn run_miniblock(count: usize) -> usize {
    count.div_ceil(MINIBLOCKS).next_multiple_of(32)
}

/// Unpacks miniblocks of `mini` entries until `out` is full.
fn unpack(reference: i32, widths: u32, mini: usize, mut words: &[u32], out: &mut [i32]) {
    for (m, chunk) in out.chunks_mut(mini).enumerate() {
        let width = (widths >> (8 * m)) & 0xFF;
        let mask = ((1u64 << width) - 1) as u32;
        let (mut acc, mut bits, mut k) = (0u64, 0, 0);
        for x in chunk.iter_mut() {
            if bits < width {
                acc |= u64::from(words[k]) << bits;
                (bits, k) = (bits + 32, k + 1);
            }
            *x = reference.wrapping_add((acc as u32 & mask) as i32);
            (acc, bits) = (acc >> width, bits - width);
        }
        words = &words[chunk.len().div_ceil(32) * width as usize..];
    }
}

impl Stream {
    /// Reads a stream of `blocks` blocks and checks that each is within the data.
    fn read(reader: &mut SectionReader<'_>, blocks: usize, scheme: Scheme, rows: usize) -> Result<Self> {
        let starts = reader.exactly::<u32>(blocks + 1)?;
        let data = reader.any::<u32>()?;
        let stream = Self { starts, data };
        for b in 0..blocks {
            let most = rows.saturating_sub(b * TILE).min(TILE);
            let entries = match scheme {
                Scheme::RunLength => {
                    stream.starts.get(b).and_then(|&s| stream.data.get(s as usize + 2)).map(|&n| n as usize)
                }
                _ => Some(BLOCK),
            };
            let in_tile = scheme != Scheme::RunLength || entries.is_some_and(|n| (1..=most).contains(&n));
            let first_value = scheme != Scheme::Delta || stream.starts[b] > 0;
            if !in_tile || !first_value || !entries.is_some_and(|n| stream.holds(b, n, scheme)) {
                return Err(corrupt(format!("block {b} lies outside its data")));
            }
        }
        Ok(stream)
    }

    /// Whether block `b` with `entries` entries is within the data.
    fn holds(&self, b: usize, entries: usize, scheme: Scheme) -> bool {
        let start = self.starts[b] as usize;
        let Some(&widths) = self.data.get(start + 1) else { return false };
        let mini = if scheme == Scheme::RunLength { run_miniblock(entries) } else { 32 };
        let mut end = start + scheme.head();
        for m in 0..entries.div_ceil(mini) {
            let width = (widths >> (8 * m)) & 0xFF;
            if width > 32 {
                return false;
            }
            end += (entries - m * mini).min(mini).div_ceil(32) * width as usize;
        }
        end <= self.data.len()
    }

    /// Unpacks the entries of a block into the front of `out`.
    #[inline]
    fn block(&self, b: usize, scheme: Scheme, out: &mut [i32]) -> usize {
        let words = &self.data[self.starts[b] as usize..];
        let (entries, mini) = match scheme {
            Scheme::RunLength => (words[2] as usize, run_miniblock(words[2] as usize)),
            _ => (BLOCK, 32),
        };
        unpack(words[0] as i32, words[1], mini, &words[scheme.head()..], &mut out[..entries]);
        entries
    }
}

impl GpuPacked {
    /// Packs `values`; an error where their range exceeds 32 bits.
    pub(crate) fn encode<V: Value>(values: &[V], scheme: Scheme, out: &mut SectionWriter) -> Result<(), String> {
        let low = values.iter().min().copied().unwrap_or_default().to_i128();
        let high = values.iter().max().copied().unwrap_or_default().to_i128();
        let fits = i32::try_from(low).is_ok() && i32::try_from(high).is_ok();
        if !fits && high.checked_sub(low).is_none_or(|span| span > i128::from(u32::MAX)) {
            return Err(format!("values {low} to {high} span more than 32 bits"));
        }
        let base = if fits { 0 } else { low.wrapping_add(1 << 31) };
        let words: Vec<i32> = values.iter().map(|x| x.to_i128().wrapping_sub(base) as i32).collect();
        let first = words.first().copied().unwrap_or(0);
        out.push(&[base]);
        match scheme {
            Scheme::For => {
                let mut packer = Packer::new(BLOCK, words.len(), first);
                for block in words.chunks(BLOCK) {
                    let mut padded = [block[block.len() - 1]; BLOCK];
                    padded[..block.len()].copy_from_slice(block);
                    packer.block(&padded, 32, false);
                }
                packer.finish(out);
            }
            Scheme::Delta => {
                let mut packer = Packer::new(BLOCK, words.len(), first);
                for tile in words.chunks(TILE) {
                    packer.data.push(tile[0] as u32);
                    let mut deltas = [0i32; TILE];
                    for (delta, pair) in deltas[1..].iter_mut().zip(tile.windows(2)) {
                        *delta = pair[1].wrapping_sub(pair[0]);
                    }
                    deltas[..tile.len().next_multiple_of(BLOCK)].chunks(BLOCK).for_each(|b| packer.block(b, 32, false));
                }
                packer.finish(out);
            }
            Scheme::RunLength => {
                let (mut heads, mut lengths) =
                    (Packer::new(TILE, words.len(), first), Packer::new(TILE, words.len(), first));
                for tile in words.chunks(TILE) {
                    let runs: Vec<&[i32]> = tile.chunk_by(|a, b| a == b).collect();
                    let mini = run_miniblock(runs.len());
                    heads.block(&runs.iter().map(|run| run[0]).collect::<Vec<_>>(), mini, true);
                    lengths.block(&runs.iter().map(|run| run.len() as i32).collect::<Vec<_>>(), mini, true);
                }
                heads.finish(out);
                lengths.finish(out);
            }
        }
        Ok(())
    }

    /// Reads the sections of [`GpuPacked::encode`] for `rows` rows.
    pub(crate) fn read(reader: &mut SectionReader<'_>, scheme: Scheme, rows: usize) -> Result<Self> {
        let base = reader.exactly::<i128>(1)?[0];
        let blocks = rows.div_ceil(if scheme == Scheme::RunLength { TILE } else { BLOCK });
        let values = Stream::read(reader, blocks, scheme, rows)?;
        let lengths =
            if scheme == Scheme::RunLength { Some(Stream::read(reader, blocks, scheme, rows)?) } else { None };
        let counts =
            |stream: &Stream| (0..blocks).map(|b| stream.data[stream.starts[b] as usize + 2]).collect::<Vec<u32>>();
        if lengths.as_ref().is_some_and(|lengths| counts(lengths) != counts(&values)) {
            return Err(corrupt("as many run lengths as run values belong in a block"));
        }
        if values.data.len() < HEADER {
            return Err(corrupt("a stream without its header"));
        }
        Ok(Self { scheme, base, values, lengths })
    }

    /// Decodes tile `t` as stored words; rows past the end are unspecified.
    fn tile(&self, t: usize, out: &mut [i32; TILE]) {
        if self.scheme == Scheme::RunLength {
            let (mut heads, mut lengths) = ([0i32; TILE], [0i32; TILE]);
            let n = self.values.block(t, self.scheme, &mut heads);
            let stream = self.lengths.as_ref().expect("run lengths of GPU-RFOR");
            stream.block(t, self.scheme, &mut lengths);
            let mut from = 0;
            for (&head, &length) in heads[..n].iter().zip(&lengths[..n]) {
                // Damaged lengths must not exceed the tile.
                let to = (from + length.max(0) as usize).min(TILE);
                out[from..to].fill(head);
                from = to;
            }
            return;
        }
        let first = t * (TILE / BLOCK);
        let blocks = (self.values.starts.len() - 1 - first).min(TILE / BLOCK);
        for (i, block) in out.chunks_mut(BLOCK).take(blocks).enumerate() {
            self.values.block(first + i, self.scheme, block);
        }
        if self.scheme == Scheme::Delta {
            let mut sum = self.values.data[self.values.starts[first] as usize - 1] as i32;
            for x in out.iter_mut() {
                sum = sum.wrapping_add(*x);
                *x = sum;
            }
        }
    }

    #[inline(always)]
    fn word<T: Word>(&self, stored: i32) -> T {
        T::from_i64(i64::from(stored)).add(T::from_i128(self.base))
    }

    /// Decodes vector `v`, two tiles.
    pub(crate) fn vector<T: Word>(&self, v: usize, out: &mut [T; VECTOR_ROWS]) {
        let mut tile = [0i32; TILE];
        for (i, half) in out.chunks_mut(TILE).enumerate() {
            let t = v * (VECTOR_ROWS / TILE) + i;
            let blocks = if self.scheme == Scheme::RunLength { 1 } else { TILE / BLOCK };
            if t * blocks + 1 < self.values.starts.len() {
                self.tile(t, &mut tile);
                half.iter_mut().zip(&tile).for_each(|(x, &stored)| *x = self.word(stored));
            }
        }
    }

    /// The value of `row`: by random access for GPU-FOR, by decoding its tile for the others.
    pub(crate) fn get<T: Word>(&self, row: usize) -> T {
        if self.scheme != Scheme::For {
            let mut tile = [0i32; TILE];
            self.tile(row / TILE, &mut tile);
            return self.word(tile[row % TILE]);
        }
        let words = &self.values.data[self.values.starts[row / BLOCK] as usize..];
        let (m, i) = (row % BLOCK / 32, row % 32);
        let before: u32 = (0..m).map(|m| (words[1] >> (8 * m)) & 0xFF).sum();
        let width = (words[1] >> (8 * m)) & 0xFF;
        let (bit, at) = (i as u32 * width, self.scheme.head() + before as usize);
        let low = words.get(at + bit as usize / 32).copied().unwrap_or(0);
        let high = words.get(at + bit as usize / 32 + 1).copied().unwrap_or(0);
        let field = (u64::from(low) | u64::from(high) << 32) >> (bit % 32) & ((1u64 << width) - 1);
        self.word((words[0] as i32).wrapping_add(field as i32))
    }
}
