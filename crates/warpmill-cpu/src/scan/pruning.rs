//! The keys of finished hash builds as ranges, which prune scans by metadata.

use warpmill_ir::Scan;
use warpmill_ir::pruning::{KeyRanges, PruningMode, Ranges};

use super::filter::KeyPrune;

/// Largest number of key ranges tested against zone maps.
const MOST_KEY_RANGES: usize = 512;

/// Bytes of a table's columns that a CPU scans per nanosecond at best.
pub const BYTES_PER_NANO: u64 = 4;

/// The ranges of `key` in which rows of `scan` can find partners, if known.
pub fn key_ranges(scan: &Scan, key: &KeyPrune) -> Option<KeyRanges> {
    let (lo, hi) = key.range?;
    let bounds = || Ranges::of(lo, hi);
    // Reading the keys is worth it if they are few compared with the rows that they can rule out.
    let most = scan.table.num_rows() / 256;
    let fine = scan.pruning == PruningMode::All && !scan.table.zone_maps().is_empty();
    let filter = key.filter.as_ref().filter(|_| fine);
    let ranges = filter.and_then(|filter| filter.ranges(most, MOST_KEY_RANGES)).unwrap_or_else(bounds);
    Some(KeyRanges { column: key.column, ranges })
}
