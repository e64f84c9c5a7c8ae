//! Making metadata while a table is written.

use hashbrown::HashSet;

use super::bloom::{self, BLOOM_BYTES, BLOOM_ROWS, MOST_DISTINCT};
use super::zones::{HEADER_BYTES, MAGIC, VERSION};
use super::{Binning, HISTOGRAM_BINS, Metadata, float_rank, integer_hash, string_hash, string_rank};
use crate::{Bitmap, Segment, StrView};

/// The stored metadata of one zone of a column.
#[derive(Debug, Clone)]
pub(crate) struct Zone {
    /// Least and greatest rank; `None`: all rows are NULL.
    pub bounds: Option<(i128, i128)>,
    /// Whether there are NULLs.
    pub nulls: bool,
    pub histogram: [u64; HISTOGRAM_BINS / 64],
    /// At the first zone of a filter: the number of zones that it covers, and its bytes.
    pub bloom: Option<(u32, Box<[u8]>)>,
}

/// Ranks of the valid rows of a zone.
enum Ranks {
    Narrow(Vec<i64>),
    Wide(Vec<i128>),
}

impl Zone {
    fn of(ranks: &Ranks, nulls: bool, histogram: bool) -> Self {
        let mut zone = Self { bounds: None, nulls, histogram: [0; 4], bloom: None };
        // A byte per bin: bits would wait for each other.
        let mut bins = [0u8; HISTOGRAM_BINS];
        match ranks {
            Ranks::Narrow(ranks) => {
                let Some((least, greatest)) = bounds(ranks) else { return zone };
                zone.bounds = Some((least.into(), greatest.into()));
                let binning = Binning::of(greatest.abs_diff(least).into());
                if histogram {
                    ranks.iter().for_each(|rank| bins[binning.bin64(rank.wrapping_sub(least) as u64)] = 1);
                }
            }
            Ranks::Wide(ranks) => {
                let Some((least, greatest)) = bounds(ranks) else { return zone };
                zone.bounds = Some((least, greatest));
                let binning = Binning::of(greatest.abs_diff(least));
                if histogram {
                    ranks.iter().for_each(|rank| bins[binning.bin(rank.abs_diff(least))] = 1);
                }
            }
        }
        for (bin, &set) in bins.iter().enumerate() {
            zone.histogram[bin / 64] |= u64::from(set) << (bin % 64);
        }
        zone
    }

    /// Whether its histogram says of every value between the bounds whether it is there.
    fn is_exact(&self) -> bool {
        self.bounds.is_none_or(|(lo, hi)| hi.abs_diff(lo) < HISTOGRAM_BINS as u128)
    }
}

/// The least and the greatest rank.
fn bounds<T: Copy + Ord>(ranks: &[T]) -> Option<(T, T)> {
    let &first = ranks.first()?;
    Some(ranks.iter().fold((first, first), |(lo, hi), &x| (lo.min(x), hi.max(x))))
}

/// Collects the hashes of a Bloom filter, up to a limit.
#[derive(Default)]
struct Hashes {
    seen: HashSet<u64>,
    last: Option<u64>,
}

impl Hashes {
    /// Adds a hash; whether they are still few.
    fn add(&mut self, hash: u64) -> bool {
        if self.last.replace(hash) != Some(hash) {
            self.seen.insert(hash);
        }
        self.seen.len() <= MOST_DISTINCT
    }
}

/// The zones of `rows` rows. `read` returns, from a row on, the ranks, whether there are NULLs among the rows, and hashes if they are not those of
/// the ranks.
fn zones_of(
    rows: usize,
    zone_rows: usize,
    metadata: Metadata,
    mut read: impl FnMut(usize, usize) -> (Ranks, bool, Option<Vec<u64>>),
) -> Vec<Zone> {
    let group = BLOOM_ROWS.div_ceil(zone_rows).max(1);
    let starts: Vec<usize> = (0..rows).step_by(zone_rows).collect();
    let mut zones: Vec<Zone> = Vec::with_capacity(starts.len());
    for group in starts.chunks(group) {
        let read: Vec<_> = group.iter().map(|&start| read(start, zone_rows.min(rows - start))).collect();
        let first = zones.len();
        zones.extend(read.iter().map(|(ranks, nulls, _)| Zone::of(ranks, *nulls, metadata.histograms())));
        // Exact histograms make a filter redundant.
        if metadata.blooms() && !(metadata.histograms() && zones[first..].iter().all(Zone::is_exact)) {
            let hashes = read.iter().map(|(ranks, _, own)| (ranks, own.as_deref()));
            zones[first].bloom = filter_of(hashes).map(|filter| (group.len() as u32, filter));
        }
    }
    zones
}

/// A filter of all ranks, or of separate hashes; `None` if there are too many distinct ones.
fn filter_of<'a>(zones: impl Iterator<Item = (&'a Ranks, Option<&'a [u64]>)>) -> Option<Box<[u8]>> {
    let mut hashes = Hashes::default();
    let mut add = |hash: u64| hashes.add(hash);
    for zone in zones {
        let few = match zone {
            (_, Some(own)) => own.iter().copied().all(&mut add),
            (Ranks::Narrow(ranks), None) => distinct(ranks).map(|rank| integer_hash(rank.into())).all(&mut add),
            (Ranks::Wide(ranks), None) => distinct(ranks).map(integer_hash).all(&mut add),
        };
        if !few {
            return None;
        }
    }
    Some(bloom::filter(hashes.seen.iter().copied()))
}

/// `ranks` without direct repetitions, which are cheap to see.
fn distinct<T: Copy + PartialEq>(ranks: &[T]) -> impl Iterator<Item = T> + '_ {
    ranks.iter().enumerate().filter(|&(i, rank)| i == 0 || ranks[i - 1] != *rank).map(|(_, &rank)| rank)
}

/// The zones of a segment; codes, if it has codes, are those of its encoding.
pub(crate) fn of_segment(segment: &Segment, zone_rows: usize, metadata: Metadata) -> Vec<Zone> {
    let narrow =
        segment.stats().int_range().is_none_or(|(lo, hi)| i64::try_from(lo).is_ok() && i64::try_from(hi).is_ok());
    zones_of(segment.rows(), zone_rows, metadata, |start, len| {
        let validity = segment.validity(start, len);
        let nulls = validity.as_ref().is_some_and(|valid| (0..len).any(|row| !valid.get(row)));
        let valid = validity.as_ref().filter(|_| nulls);
        if segment.is_dictionary() {
            let mut codes = vec![0u32; len];
            segment.decode_codes(start, &mut codes);
            let ranks = kept(codes.into_iter().map(i64::from).collect(), valid);
            return (Ranks::Narrow(ranks), nulls, None);
        }
        if segment.is_string() {
            let mut views = vec![StrView::default(); len];
            let mut text = Vec::new();
            segment.decode_str(start, &mut text, &mut views);
            let views = kept(views, valid);
            let hashes = metadata.blooms().then(|| views.iter().map(|v| string_hash(v.as_bytes())).collect());
            return (Ranks::Wide(views.iter().map(|v| string_rank(v.as_bytes())).collect()), nulls, hashes);
        }
        let ranks = if segment.is_float() {
            let mut floats = vec![0f64; len];
            segment.decode_floats(start, &mut floats);
            Ranks::Narrow(kept(floats.into_iter().map(|x| float_rank(x) as i64).collect(), valid))
        } else if narrow {
            let mut integers = vec![0i64; len];
            segment.decode_i64(start, &mut integers);
            Ranks::Narrow(kept(integers, valid))
        } else {
            let mut integers = vec![0i128; len];
            segment.decode_i128(start, &mut integers);
            Ranks::Wide(kept(integers, valid))
        };
        (ranks, nulls, None)
    })
}

/// Zones with bounds only: the bounds of each, `None` if all rows are NULL, and whether there are NULLs.
pub(crate) fn of_bounds(zones: impl Iterator<Item = (Option<(i128, i128)>, bool)>) -> Vec<Zone> {
    zones.map(|(bounds, nulls)| Zone { bounds, nulls, histogram: [0; 4], bloom: None }).collect()
}

/// The values of valid rows; all if there are no NULLs.
fn kept<T>(values: Vec<T>, valid: Option<&Bitmap>) -> Vec<T> {
    match valid {
        Some(valid) => values.into_iter().enumerate().filter(|(row, _)| valid.get(*row)).map(|(_, x)| x).collect(),
        None => values,
    }
}

/// The zones of rows with any number of ranks each: `read` returns the ranks of some rows, from a row on, and whether one of them is NULL.
pub(crate) fn of_ranks(
    rows: usize,
    zone_rows: usize,
    metadata: Metadata,
    mut read: impl FnMut(usize, usize) -> (Vec<i128>, bool),
) -> Vec<Zone> {
    zones_of(rows, zone_rows, metadata, |start, len| {
        let (ranks, nulls) = read(start, len);
        (Ranks::Wide(ranks), nulls, None)
    })
}

/// The zones of a column over the row segments of one write, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct ColumnZones {
    zones: Vec<Zone>,
}

impl ColumnZones {
    pub fn append(&mut self, zones: Vec<Zone>) {
        self.zones.extend(zones);
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.zones.len()
    }

    /// Bytes of the Bloom filters.
    pub fn bloom_bytes(&self) -> u64 {
        self.zones.iter().filter(|zone| zone.bloom.is_some()).count() as u64 * BLOOM_BYTES as u64
    }

    /// Bytes of the histograms.
    pub fn histogram_bytes(&self) -> u64 {
        (self.zones.len() * HISTOGRAM_BINS / 8) as u64
    }

    /// The stored form (`docs/format.md`, section 7).
    pub fn to_bytes(&self, zone_rows: usize, histograms: bool, blooms: bool) -> Vec<u8> {
        let bounds = || self.zones.iter().filter_map(|zone| zone.bounds);
        let base = bounds().map(|(lo, _)| lo).min().unwrap_or(0);
        let span = bounds().map(|(_, hi)| hi.abs_diff(base)).max().unwrap_or(0);
        let width = [1u8, 2, 4, 8].into_iter().find(|width| span >> (8 * u32::from(*width)) == 0).unwrap_or(16);
        let with_filter = |(i, zone): (usize, &'_ Zone)| zone.bloom.as_ref().map(|(count, _)| (i, *count));
        let filters: Vec<(usize, u32)> = match blooms {
            true => self.zones.iter().enumerate().filter_map(with_filter).collect(),
            false => vec![],
        };
        let mut out = vec![0u8; HEADER_BYTES];
        out[..4].copy_from_slice(MAGIC);
        out[4] = VERSION;
        (out[5], out[6]) = (width, u8::from(histograms));
        out[8..12].copy_from_slice(&(zone_rows as u32).to_le_bytes());
        out[12..16].copy_from_slice(&(self.zones.len() as u32).to_le_bytes());
        out[16..20].copy_from_slice(&(filters.len() as u32).to_le_bytes());
        out[32..48].copy_from_slice(&base.to_le_bytes());
        out.extend(self.zones.iter().map(|zone| u8::from(zone.nulls) | u8::from(zone.bounds.is_some()) << 1));
        for pick in [|(lo, _): (i128, i128)| lo, |(_, hi)| hi] {
            for zone in &self.zones {
                let offset = zone.bounds.map_or(0, |bounds| pick(bounds).abs_diff(base));
                out.extend_from_slice(&offset.to_le_bytes()[..width.into()]);
            }
        }
        if histograms {
            self.zones.iter().flat_map(|zone| zone.histogram).for_each(|word| out.extend(word.to_le_bytes()));
        }
        for &(first, count) in &filters {
            out.extend((first as u32).to_le_bytes());
            out.extend(count.to_le_bytes());
        }
        let images = filters.iter().filter_map(|&(first, _)| self.zones[first].bloom.as_ref());
        images.for_each(|(_, filter)| out.extend_from_slice(filter));
        out
    }
}
