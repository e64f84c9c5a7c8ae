//! Metadata for skipping rows in scans.
//!
//! A **zone** is a fixed number of rows of a row segment ([`WriteOptions::zone_rows`](crate::table::WriteOptions)). For every column and zone a table
//! may store bounds, a histogram of 256 bits over the bounds (a bit per bin: whether it contains a value) and, where useful, a Bloom filter of 1 KiB
//! with 8 hashes per 65536 rows; and the same for attributes of other tables that this table's rows reference (**sideways** metadata). The ideas are
//! GOLAP's (SIGMOD 2024, section 4), with two changes: bins divide a zone's own bounds, so that they are never coarser than a histogram over the
//! column's range, and zones are smaller than the unit of I/O.
//!
//! Values of all types are compared as **ranks**: 128-bit integers in the order of the values. Integers, decimals, dates, timestamps,
//! booleans and dictionary codes are their own rank; floats and strings have [`float_rank`] and [`string_rank`].

mod bloom;
mod build;
mod sideways;
mod zones;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use bloom::{BLOOM_BYTES, BLOOM_HASHES, BLOOM_ROWS, integer_hash, string_hash};
pub(crate) use build::{ColumnZones, Zone, of_bounds, of_segment};
pub use sideways::Sideways;
pub(crate) use sideways::{Lookup, is_key};
pub use zones::{Found, Wanted, Zones};

/// Number of bins of a histogram.
pub const HISTOGRAM_BINS: usize = 256;

/// Default number of rows of a zone.
pub const ZONE_ROWS: usize = 16 << 10;

/// The metadata written with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metadata {
    /// Everything that takes at most about 1% of the data; none for row segments of a single zone.
    #[default]
    Auto,
    /// None (row segments have bounds in any case).
    None,
    /// Bounds.
    MinMax,
    /// Bounds and histograms.
    Histogram,
    /// Bounds and Bloom filters.
    Bloom,
    /// Bounds, histograms and Bloom filters.
    All,
}

impl Metadata {
    /// All kinds by name.
    pub const NAMES: [(&'static str, Metadata); 6] = [
        ("auto", Self::Auto),
        ("none", Self::None),
        ("minmax", Self::MinMax),
        ("histogram", Self::Histogram),
        ("bloom", Self::Bloom),
        ("all", Self::All),
    ];

    /// The one called `name`.
    pub fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, metadata)| *metadata)
    }

    pub(crate) fn histograms(self) -> bool {
        matches!(self, Self::Auto | Self::Histogram | Self::All)
    }

    pub(crate) fn blooms(self) -> bool {
        matches!(self, Self::Auto | Self::Bloom | Self::All)
    }
}

/// The rank of a float: the order of values with -0 equal to 0 and a single NaN above all.
pub fn float_rank(x: f64) -> i128 {
    if x.is_nan() {
        return i64::MAX.into();
    }
    let bits = (x + 0.0).to_bits() as i64;
    (bits ^ ((bits >> 63) as u64 >> 1) as i64).into()
}

/// Number of bytes of a string that determine its rank.
pub const STRING_RANK_BYTES: usize = 15;

/// The rank of a string: its first [`STRING_RANK_BYTES`] bytes. Different strings may have the same rank.
pub fn string_rank(s: &[u8]) -> i128 {
    let mut bytes = [0; 16];
    let len = s.len().min(STRING_RANK_BYTES);
    bytes[1..=len].copy_from_slice(&s[..len]);
    i128::from_be_bytes(bytes)
}

/// The largest rank of a string that begins with `prefix`.
pub fn last_rank_with_prefix(prefix: &[u8]) -> i128 {
    let mut bytes = [0xff; 16];
    bytes[0] = 0;
    let len = prefix.len().min(STRING_RANK_BYTES);
    bytes[1..=len].copy_from_slice(&prefix[..len]);
    i128::from_be_bytes(bytes)
}

/// Maps the values of a zone, whose greatest is `span` above its least, to bins: each value has its own bin if there are enough, otherwise a value
/// `offset` above the least has bin `offset * 256 / (span + 1)`, approximately. Ascends with `offset`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binning {
    /// Offsets are shifted right to at most 56 bits.
    shift: u32,
    /// 2^72 / (span + 1); 0: an offset is its bin.
    factor: u64,
}

impl Binning {
    #[inline]
    pub fn of(span: u128) -> Self {
        if span < HISTOGRAM_BINS as u128 {
            return Self { shift: 0, factor: 0 };
        }
        let shift = (128 - span.leading_zeros()).saturating_sub(56);
        Self { shift, factor: ((1u128 << 72) / ((span >> shift) + 1)) as u64 }
    }

    /// As [`Binning::bin`].
    #[inline(always)]
    pub fn bin64(self, offset: u64) -> usize {
        if self.factor == 0 {
            return offset as usize;
        }
        ((u128::from(offset >> self.shift) * u128::from(self.factor)) >> 64) as usize
    }

    #[inline(always)]
    pub fn bin(self, offset: u128) -> usize {
        if self.factor == 0 {
            return offset as usize;
        }
        (((offset >> self.shift) * u128::from(self.factor)) >> 64) as usize
    }
}
