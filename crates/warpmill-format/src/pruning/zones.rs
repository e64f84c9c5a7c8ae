//! Stored metadata, and tests of values against them.

use std::ops::Range;

use super::bloom::{self, BLOOM_BYTES};
use super::build::Zone;
use super::{Binning, HISTOGRAM_BINS};
use crate::segment::SegmentBytes;
use crate::segment::bytes::corrupt;
use crate::{Result, VECTOR_ROWS};

pub(super) const MAGIC: &[u8; 4] = b"WMZN";
pub(super) const VERSION: u8 = 1;
pub(super) const HEADER_BYTES: usize = 64;

/// The verdict of metadata on values within some bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// A value may be there.
    Perhaps,
    /// A Bloom filter rules them out.
    NotInBloom,
    /// The histogram rules them out.
    NotInHistogram,
    /// The bounds rule them out.
    OutOfBounds,
}

/// The values to search for in zones.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Ascending and apart.
    ranges: Offsets,
    /// The hash of each, if each range is a single value.
    hashes: Option<Box<[u64]>>,
    /// Whether NULLs are wanted, too.
    nulls: bool,
}

/// Ranges relative to the base of zones, in integers as wide as those of their bounds.
#[derive(Debug, Clone)]
enum Offsets {
    Narrow(Vec<(u64, u64)>),
    Wide(Vec<(u128, u128)>),
}

/// A rank above the base.
trait Offset: Copy + Ord + std::ops::Sub<Output = Self> + Into<u128> {
    fn bin(self, binning: Binning) -> usize;
}

impl Offset for u64 {
    #[inline(always)]
    fn bin(self, binning: Binning) -> usize {
        binning.bin64(self)
    }
}

impl Offset for u128 {
    #[inline(always)]
    fn bin(self, binning: Binning) -> usize {
        binning.bin(self)
    }
}

/// The zones of one column over the row segments of one write.
#[derive(Debug, Clone)]
pub struct Zones {
    bytes: SegmentBytes,
    rows: usize,
    count: usize,
    base: i128,
    width: usize,
    /// Offset of the bounds in the bytes.
    bounds: usize,
    histograms: Option<usize>,
    /// First zone and number of zones of each Bloom filter, and the offset of the filters.
    blooms: (Vec<(u32, u32)>, usize),
}

impl Zones {
    /// Parses the stored form (`docs/format.md`, section 7) that [`crate::table`] writes.
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

    /// Number of rows of a zone; the last of each row segment may have fewer.
    pub fn zone_rows(&self) -> usize {
        self.rows
    }

    /// The number of zones.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no zones.
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

    /// The number of Bloom filters.
    pub fn blooms(&self) -> usize {
        self.blooms.0.len()
    }

    /// Whether a row of `zone` is null.
    #[inline]
    pub fn has_nulls(&self, zone: usize) -> bool {
        self.bytes[HEADER_BYTES + zone] & 1 != 0
    }

    /// Least and greatest rank in `zone`; `None`: all rows are NULL.
    pub fn bounds(&self, zone: usize) -> Option<(i128, i128)> {
        let rank = |at: usize| self.base.wrapping_add_unsigned(self.wide(at));
        self.has_values(zone).then(|| (rank(zone), rank(self.count + zone)))
    }

    #[inline]
    fn has_values(&self, zone: usize) -> bool {
        self.bytes[HEADER_BYTES + zone] & 2 != 0
    }

    /// Number `at` of the bounds, of any width.
    #[inline]
    fn wide(&self, at: usize) -> u128 {
        if self.width < 16 {
            return self.narrow(at).into();
        }
        let at = self.bounds + 16 * at;
        u128::from_le_bytes(self.bytes[at..at + 16].try_into().expect("16 bytes"))
    }

    /// The same for up to eight bytes.
    #[inline(always)]
    fn narrow(&self, at: usize) -> u64 {
        match self.width {
            1 => self.offset::<1>(at),
            2 => self.offset::<2>(at),
            4 => self.offset::<4>(at),
            _ => self.offset::<8>(at),
        }
    }

    /// Number `at` of the bounds, of `WIDTH` bytes.
    #[inline(always)]
    fn offset<const WIDTH: usize>(&self, at: usize) -> u64 {
        let at = self.bounds + at * WIDTH;
        number::<WIDTH>(self.bytes[at..at + WIDTH].try_into().expect("as many bytes"))
    }

    /// Per zone, whether its bounds exclude all ranks within `ranges`, and, with `nulls`, NULL. Takes a few instructions per zone and range.
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

    /// Clears `out` for zones whose bounds, read by `number`, overlap `lo ..= hi`.
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
    #[inline]
    fn any_bin(&self, at: usize, first: usize, last: usize) -> bool {
        (first / 64..=last / 64).any(|w| {
            let word = u64::from_le_bytes(self.bytes[at + 8 * w..at + 8 * w + 8].try_into().expect("8 bytes"));
            let from = if w == first / 64 { u64::MAX << (first % 64) } else { u64::MAX };
            let to = if w == last / 64 { u64::MAX >> (63 - last % 64) } else { u64::MAX };
            word & from & to != 0
        })
    }

    /// Prepares a search for the values in `ranges`, ascending and disjoint; `hashes` are their hashes if each is a single value.
    pub fn wanted(&self, ranges: &[(i128, i128)], hashes: Option<&[u64]>, nulls: bool) -> Wanted {
        let above = |rank: i128| if rank < self.base { 0 } else { rank.abs_diff(self.base) };
        // No value of a zone is below the base, or above what the bounds' integers can represent.
        let below = ranges.partition_point(|range| range.1 < self.base);
        let most = if self.width == 16 { u128::MAX } else { u64::MAX.into() };
        let behind = ranges.partition_point(|range| above(range.0) <= most).max(below);
        let offsets = ranges[below..behind].iter().map(|&(lo, hi)| (above(lo), above(hi).min(most)));
        let ranges = match self.width {
            16 => Offsets::Wide(offsets.collect()),
            _ => Offsets::Narrow(offsets.map(|(lo, hi)| (lo as u64, hi as u64)).collect()),
        };
        Wanted { ranges, hashes: hashes.map(|hashes| hashes[below..behind].into()), nulls }
    }

    /// Removes the zones without `wanted` rows, and reports the deciding metadata to `note`; with `fine`, also tests histograms and Bloom filters.
    /// Returns the number of comparisons.
    pub fn rule_out(
        &self,
        zones: &mut Vec<usize>,
        wanted: &Wanted,
        fine: bool,
        mut note: impl FnMut(usize, Found),
    ) -> u64 {
        let mut tests = zones.len() as u64;
        if let Some(at) = self.histograms.filter(|_| fine) {
            // Loads all at once, so that memory accesses overlap.
            let first = zones.iter().map(|zone| self.bytes[at + zone * HISTOGRAM_BINS / 8]);
            std::hint::black_box(first.fold(0, |all, byte| all | byte));
        }
        zones.retain(|&zone| {
            let found = self.test(zone, wanted, fine, &mut tests);
            if found != Found::Perhaps {
                note(zone, found);
            }
            found == Found::Perhaps
        });
        tests
    }

    /// Whether a row of `zone` may be `wanted`; `tests` counts the ranges tested.
    #[inline(always)]
    pub fn test(&self, zone: usize, wanted: &Wanted, fine: bool, tests: &mut u64) -> Found {
        if wanted.nulls && self.has_nulls(zone) {
            return Found::Perhaps;
        }
        if !self.has_values(zone) {
            return Found::OutOfBounds;
        }
        let hashes = wanted.hashes.as_deref();
        match &wanted.ranges {
            Offsets::Narrow(ranges) => {
                let bounds = (self.narrow(zone), self.narrow(self.count + zone));
                self.find(zone, bounds, (ranges, hashes), fine, tests)
            }
            Offsets::Wide(ranges) => {
                let bounds = (self.wide(zone), self.wide(self.count + zone));
                self.find(zone, bounds, (ranges, hashes), fine, tests)
            }
        }
    }

    /// Whether a value in one of `ranges` may be in `zone`, which has these bounds.
    #[inline(always)]
    fn find<T: Offset>(
        &self,
        zone: usize,
        (min, max): (T, T),
        (ranges, hashes): (&[(T, T)], Option<&[u64]>),
        fine: bool,
        tests: &mut u64,
    ) -> Found {
        let first = ranges.partition_point(|range| range.1 < min);
        let mut least = Found::OutOfBounds;
        let near = ranges[first..].iter().take_while(|range| range.0 <= max);
        for (i, &(lo, hi)) in (first..).zip(near) {
            if !fine {
                return Found::Perhaps;
            }
            *tests += 1;
            if let Some(at) = self.histograms {
                let binning = Binning::of((max - min).into());
                let (from, to) = ((lo.max(min) - min).bin(binning), (hi.min(max) - min).bin(binning));
                if !self.any_bin(at + zone * HISTOGRAM_BINS / 8, from, to) {
                    least = least.min(Found::NotInHistogram);
                    continue;
                }
            }
            match hashes.and_then(|hashes| Some((hashes[i], self.bloom(zone)?))) {
                Some((hash, filter)) if !bloom::may_hold(filter, hash) => least = least.min(Found::NotInBloom),
                _ => return Found::Perhaps,
            }
        }
        least
    }

    /// A range of zones, to be stored again; omits Bloom filters that also cover other zones.
    pub(crate) fn part(&self, zones: Range<usize>) -> Vec<Zone> {
        let zone = |zone: usize| {
            let mut histogram = [0; HISTOGRAM_BINS / 64];
            if let Some(at) = self.histograms {
                let bytes = &self.bytes[at + zone * HISTOGRAM_BINS / 8..at + (zone + 1) * HISTOGRAM_BINS / 8];
                let words = bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes")));
                histogram.iter_mut().zip(words).for_each(|(own, word)| *own = word);
            }
            let covered = self.blooms.0.binary_search_by_key(&zone, |&(first, _)| first as usize).ok();
            let bloom =
                covered.map(|filter| self.blooms.0[filter].1).filter(|&count| zone + count as usize <= zones.end);
            let bloom = bloom.and_then(|count| Some((count, self.bloom(zone)?.into())));
            Zone { bounds: self.bounds(zone), nulls: self.has_nulls(zone), histogram, bloom }
        };
        zones.clone().map(zone).collect()
    }

    /// The Bloom filter that covers `zone`.
    #[inline]
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
