//! Making metadata while a table is written.

use hashbrown::HashSet;

use super::bloom::{self, BLOOM_BYTES, BLOOM_ROWS, MOST_DISTINCT};
use super::zones::{HEADER_BYTES, MAGIC, VERSION};
use super::{Binning, HISTOGRAM_BINS, Metadata, float_rank, integer_hash, string_hash, string_rank};
use crate::{Segment, StrView};

/// What is kept of one zone of a column.
#[derive(Debug, Clone)]
pub(crate) struct Zone {
    /// Least and greatest rank; `None`: all rows are null.
    pub bounds: Option<(i128, i128)>,
    /// Whether there are nulls.
    pub nulls: bool,
    pub histogram: [u64; HISTOGRAM_BINS / 64],
    /// At the first zone of a filter's rows, with how many zones they are.
    pub bloom: Option<(u32, Box<[u8]>)>,
}

/// Ranks of the valid rows of a zone.
enum Ranks {
    Narrow(Vec<i64>),
    Wide(Vec<i128>),
}

impl Zone {
    fn of<T: Copy + Ord + Into<i128>>(ranks: &[T], nulls: bool) -> Self {
        let mut zone = Self { bounds: None, nulls, histogram: [0; 4], bloom: None };
        let Some(&first) = ranks.first() else { return zone };
        let (least, greatest) = ranks.iter().fold((first, first), |(lo, hi), &x| (lo.min(x), hi.max(x)));
        let (least, greatest): (i128, i128) = (least.into(), greatest.into());
        zone.bounds = Some((least, greatest));
        let binning = Binning::of(greatest.abs_diff(least));
        for &rank in ranks {
            let bin = binning.bin(rank.into().abs_diff(least));
            zone.histogram[bin / 64] |= 1 << (bin % 64);
        }
        zone
    }

    /// Whether its histogram says of every value between the bounds whether it is there.
    fn is_exact(&self) -> bool {
        self.bounds.is_none_or(|(lo, hi)| hi.abs_diff(lo) < HISTOGRAM_BINS as u128)
    }
}

/// Collects the hashes of a Bloom filter, as long as they are few.
struct Hashes {
    wanted: bool,
    seen: HashSet<u64>,
}

impl Hashes {
    fn new(wanted: bool) -> Self {
        Self { wanted, seen: HashSet::new() }
    }

    fn add(&mut self, hash: u64) {
        self.seen.insert(hash);
        self.wanted = self.seen.len() <= MOST_DISTINCT;
    }
}

/// The zones of `rows` rows, which `read` gives from a row on: ranks, whether there are nulls among them, and hashes where they are
/// not those of the ranks.
fn zones_of(
    rows: usize,
    zone_rows: usize,
    metadata: Metadata,
    mut read: impl FnMut(usize, usize) -> (Ranks, bool, Option<Vec<u64>>),
) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::with_capacity(rows.div_ceil(zone_rows));
    let group = BLOOM_ROWS.div_ceil(zone_rows).max(1);
    let mut hashes = Hashes::new(metadata.blooms());
    for start in (0..rows).step_by(zone_rows) {
        let (ranks, nulls, own) = read(start, zone_rows.min(rows - start));
        let zone = match &ranks {
            Ranks::Narrow(ranks) => Zone::of(ranks, nulls),
            Ranks::Wide(ranks) => Zone::of(ranks, nulls),
        };
        let at = zones.len();
        zones.push(zone);
        if hashes.wanted {
            let add = |hash: u64| {
                hashes.add(hash);
                hashes.wanted
            };
            let _ = match (&own, &ranks) {
                (Some(own), _) => own.iter().copied().all(add),
                (None, Ranks::Narrow(ranks)) => distinct(ranks).map(|rank| integer_hash(rank.into())).all(add),
                (None, Ranks::Wide(ranks)) => distinct(ranks).map(integer_hash).all(add),
            };
        }
        if (at + 1) % group == 0 || start + zone_rows >= rows {
            let first = at / group * group;
            // Where histograms are exact, they say as much.
            if hashes.wanted && !(metadata.histograms() && zones[first..].iter().all(Zone::is_exact)) {
                let filter = bloom::filter(hashes.seen.iter().copied());
                zones[first].bloom = Some(((at + 1 - first) as u32, filter));
            }
            hashes = Hashes::new(metadata.blooms());
        }
    }
    zones
}

/// `ranks` without direct repetitions, which are cheap to see.
fn distinct<T: Copy + PartialEq>(ranks: &[T]) -> impl Iterator<Item = T> + '_ {
    ranks.iter().enumerate().filter(|&(i, rank)| i == 0 || ranks[i - 1] != *rank).map(|(_, &rank)| rank)
}

/// The zones of a segment, whose codes, if it holds codes, are those that it was encoded with.
pub(crate) fn of_segment(segment: &Segment, zone_rows: usize, metadata: Metadata) -> Vec<Zone> {
    let narrow =
        segment.stats().int_range().is_none_or(|(lo, hi)| i64::try_from(lo).is_ok() && i64::try_from(hi).is_ok());
    zones_of(segment.rows(), zone_rows, metadata, |start, len| {
        let validity = segment.validity(start, len);
        let valid = |row: usize| validity.as_ref().is_none_or(|v| v.get(row));
        let nulls = (0..len).any(|row| !valid(row));
        if segment.is_dictionary() {
            let mut codes = vec![0u32; len];
            segment.decode_codes(start, &mut codes);
            let ranks = kept(codes.into_iter().map(i64::from), valid);
            return (Ranks::Narrow(ranks), nulls, None);
        }
        if segment.is_string() {
            let mut views = vec![StrView::default(); len];
            segment.decode_str(start, &mut views);
            let views = kept(views.into_iter(), valid);
            let hashes = metadata.blooms().then(|| views.iter().map(|v| string_hash(v.as_bytes())).collect());
            return (Ranks::Wide(views.iter().map(|v| string_rank(v.as_bytes())).collect()), nulls, hashes);
        }
        let ranks = if segment.is_float() {
            let mut floats = vec![0f64; len];
            segment.decode_floats(start, &mut floats);
            Ranks::Narrow(kept(floats.into_iter().map(|x| float_rank(x) as i64), valid))
        } else if narrow {
            let mut integers = vec![0i64; len];
            segment.decode_i64(start, &mut integers);
            Ranks::Narrow(kept(integers.into_iter(), valid))
        } else {
            let mut integers = vec![0i128; len];
            segment.decode_i128(start, &mut integers);
            Ranks::Wide(kept(integers.into_iter(), valid))
        };
        (ranks, nulls, None)
    })
}

fn kept<T>(values: impl Iterator<Item = T>, valid: impl Fn(usize) -> bool) -> Vec<T> {
    values.enumerate().filter(|(row, _)| valid(*row)).map(|(_, value)| value).collect()
}

/// The zones of rows that have any number of ranks each: `read` gives those of some rows, from a row on, and whether one of them is null.
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

    /// How many there are.
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

    /// As stored (`docs/format.md`, section 7).
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
