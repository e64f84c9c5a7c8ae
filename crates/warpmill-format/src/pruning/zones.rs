//! Metadata as it is stored, and what it says of values.

use super::bloom::{self, BLOOM_BYTES};
use super::{Binning, HISTOGRAM_BINS};
use crate::segment::SegmentBytes;
use crate::segment::bytes::corrupt;
use crate::{Result, VECTOR_ROWS};

pub(super) const MAGIC: &[u8; 4] = b"WMZN";
pub(super) const VERSION: u8 = 1;
pub(super) const HEADER_BYTES: usize = 64;

/// What metadata says of values within some bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// Some may be there.
    Perhaps,
    /// A Bloom filter rules them out.
    NotInBloom,
    /// The histogram rules them out.
    NotInHistogram,
    /// The bounds rule them out.
    OutOfBounds,
}

/// The zones of one column over the row segments of one write.
#[derive(Debug, Clone)]
pub struct Zones {
    bytes: SegmentBytes,
    rows: usize,
    count: usize,
    base: i128,
    width: usize,
    /// Where in the bytes bounds begin.
    bounds: usize,
    histograms: Option<usize>,
    /// First zone and number of zones of each Bloom filter, and where the filters begin.
    blooms: (Vec<(u32, u32)>, usize),
}

impl Zones {
    /// Reads what [`crate::table`] stores (`docs/format.md`, section 7).
    ///
    /// # Errors
    /// [`crate::FormatError::Corrupt`], without a file, for bytes that are not metadata.
    pub fn from_bytes(bytes: SegmentBytes) -> Result<Self> {
        let header = bytes.get(..HEADER_BYTES).ok_or_else(|| corrupt("pruning metadata is cut off"))?;
        if &header[..4] != MAGIC || header[4] != VERSION {
            return Err(corrupt("not pruning metadata of a version that this build reads"));
        }
        let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes")) as usize;
        let (width, rows, count, filters) = (usize::from(header[5]), number(8), number(12), number(16));
        let base = i128::from_le_bytes(header[32..48].try_into().expect("16 bytes"));
        if !matches!(width, 1 | 2 | 4 | 8 | 16) || rows == 0 || !rows.is_multiple_of(VECTOR_ROWS) || header[6] > 1 {
            return Err(corrupt("the header of pruning metadata is malformed"));
        }
        let bounds = HEADER_BYTES + count;
        let behind = bounds + 2 * width * count;
        let histograms = (header[6] == 1).then_some(behind);
        let starts = behind + if histograms.is_some() { count * HISTOGRAM_BINS / 8 } else { 0 };
        let blooms = starts + 8 * filters;
        if blooms + filters * BLOOM_BYTES != bytes.len() {
            return Err(corrupt("pruning metadata is not as long as its header says"));
        }
        let word = |b: &[u8]| u32::from_le_bytes(b.try_into().expect("4 bytes"));
        let covered: Vec<(u32, u32)> =
            bytes[starts..blooms].chunks_exact(8).map(|b| (word(&b[..4]), word(&b[4..]))).collect();
        let mut free = 0u64;
        for &(first, zones) in &covered {
            if u64::from(first) < free {
                return Err(corrupt("Bloom filters of pruning metadata are out of order"));
            }
            free = u64::from(first) + u64::from(zones);
        }
        if free > count as u64 {
            return Err(corrupt("Bloom filters of pruning metadata are of more zones than there are"));
        }
        Ok(Self { bytes, rows, count, base, width, bounds, histograms, blooms: (covered, blooms) })
    }

    /// Rows of a zone; the last of each row segment may have fewer.
    pub fn zone_rows(&self) -> usize {
        self.rows
    }

    /// How many zones there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether there are histograms.
    pub fn has_histograms(&self) -> bool {
        self.histograms.is_some()
    }

    /// How many Bloom filters there are.
    pub fn blooms(&self) -> usize {
        self.blooms.0.len()
    }

    /// Whether a row of `zone` is null.
    pub fn has_nulls(&self, zone: usize) -> bool {
        self.bytes[HEADER_BYTES + zone] & 1 != 0
    }

    /// Least and greatest rank in `zone`; `None`: all rows are null.
    pub fn bounds(&self, zone: usize) -> Option<(i128, i128)> {
        if self.bytes[HEADER_BYTES + zone] & 2 == 0 {
            return None;
        }
        let rank = |at: usize| {
            let offset = match self.width {
                1 => u128::from(self.offset::<1>(at)),
                2 => u128::from(self.offset::<2>(at)),
                4 => u128::from(self.offset::<4>(at)),
                8 => u128::from(self.offset::<8>(at)),
                _ => {
                    let at = self.bounds + 16 * at;
                    u128::from_le_bytes(self.bytes[at..at + 16].try_into().expect("16 bytes"))
                }
            };
            self.base.wrapping_add_unsigned(offset)
        };
        Some((rank(zone), rank(self.count + zone)))
    }

    /// The `at`-th number of the bounds, of `WIDTH` bytes.
    fn offset<const WIDTH: usize>(&self, at: usize) -> u64 {
        let at = self.bounds + at * WIDTH;
        number::<WIDTH>(self.bytes[at..at + WIDTH].try_into().expect("as many bytes"))
    }

    /// By zone: whether its bounds rule out that a row there has a rank within one of `ranges`, or, with `nulls`, is null. A few
    /// instructions a zone for each range.
    pub fn out_of_bounds(&self, ranges: &[(i128, i128)], nulls: bool) -> Vec<bool> {
        let mut out = vec![true; self.count];
        for &range in ranges {
            match self.width {
                1 => self.disjoint(range, u8::from_le_bytes, &mut out),
                2 => self.disjoint(range, u16::from_le_bytes, &mut out),
                4 => self.disjoint(range, u32::from_le_bytes, &mut out),
                8 => self.disjoint(range, u64::from_le_bytes, &mut out),
                _ => self.disjoint(range, u128::from_le_bytes, &mut out),
            }
        }
        let flags = &self.bytes[HEADER_BYTES..HEADER_BYTES + self.count];
        for (out, flags) in out.iter_mut().zip(flags) {
            *out = (*out | (flags & 2 == 0)) & !(nulls & (flags & 1 != 0));
        }
        out
    }

    /// Clears `out` of zones whose bounds, which `number` reads, reach into `lo ..= hi`.
    fn disjoint<const WIDTH: usize, T: Ord + Copy + TryFrom<u128>>(
        &self,
        (lo, hi): (i128, i128),
        number: impl Fn([u8; WIDTH]) -> T,
        out: &mut [bool],
    ) {
        if hi < self.base {
            return;
        }
        let most = || number([u8::MAX; WIDTH]);
        let hi = T::try_from(hi.abs_diff(self.base)).unwrap_or_else(|_| most());
        let above = if lo < self.base { 0 } else { lo.abs_diff(self.base) };
        let Ok(lo) = T::try_from(above) else { return };
        let (mins, maxs) = self.bytes[self.bounds..self.bounds + 2 * WIDTH * self.count].split_at(WIDTH * self.count);
        for ((out, min), max) in out.iter_mut().zip(mins.as_chunks().0).zip(maxs.as_chunks().0) {
            *out &= (number(*max) < lo) | (number(*min) > hi);
        }
    }

    /// Whether one of the bins from `first` to `last` of the histogram that begins at byte `at` is not empty.
    fn any_bin(&self, at: usize, first: usize, last: usize) -> bool {
        (first / 64..=last / 64).any(|w| {
            let word = u64::from_le_bytes(self.bytes[at + 8 * w..at + 8 * w + 8].try_into().expect("8 bytes"));
            let from = if w == first / 64 { u64::MAX << (first % 64) } else { u64::MAX };
            let to = if w == last / 64 { u64::MAX >> (63 - last % 64) } else { u64::MAX };
            word & from & to != 0
        })
    }

    /// Whether a value within `lo ..= hi` may be in `zone`; with `fine`, histograms and Bloom filters are asked too. `hash` is that of the
    /// only value asked for.
    pub fn find(&self, zone: usize, (lo, hi): (i128, i128), hash: Option<u64>, fine: bool) -> Found {
        let Some((min, max)) = self.bounds(zone) else { return Found::OutOfBounds };
        let (lo, hi) = (lo.max(min), hi.min(max));
        if lo > hi {
            return Found::OutOfBounds;
        }
        if !fine {
            return Found::Perhaps;
        }
        if let Some(at) = self.histograms {
            let binning = Binning::of(max.abs_diff(min));
            let (first, last) = (binning.bin(lo.abs_diff(min)), binning.bin(hi.abs_diff(min)));
            if !self.any_bin(at + zone * HISTOGRAM_BINS / 8, first, last) {
                return Found::NotInHistogram;
            }
        }
        match hash.and_then(|hash| Some((hash, self.bloom(zone)?))) {
            Some((hash, filter)) if !bloom::may_hold(filter, hash) => Found::NotInBloom,
            _ => Found::Perhaps,
        }
    }

    /// The Bloom filter of the rows that those of `zone` are among.
    fn bloom(&self, zone: usize) -> Option<&[u8]> {
        let (covered, at) = &self.blooms;
        let filter = covered.partition_point(|&(first, _)| first as usize <= zone).checked_sub(1)?;
        let (first, zones) = covered[filter];
        if zone - first as usize >= zones as usize {
            return None;
        }
        Some(&self.bytes[at + filter * BLOOM_BYTES..at + (filter + 1) * BLOOM_BYTES])
    }
}

/// A number of up to eight bytes.
fn number<const WIDTH: usize>(bytes: &[u8; WIDTH]) -> u64 {
    let mut word = [0; 8];
    word[..WIDTH].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
