//! The rows of a scan that are read: the planner's decision with this crate's way to evaluate predicates of dictionaries.

use warpmill_ir::pruning::{self, CodeSet, KeyRanges, PruningMode, Ranges, Selected};
use warpmill_ir::{Expr, Scan};

use super::filter::KeyPrune;
use crate::context::Result;
use crate::expr::{PreparedExpr, code_set};

/// Ranges of a build's keys that zones are asked for.
const MOST_KEY_RANGES: usize = 512;

/// Bytes of a table's columns that a CPU scans in a nanosecond at best.
pub const BYTES_PER_NANO: u64 = 4;

/// The rows of `scan` that metadata does not rule out. `filters` are its filters, prepared. So many bytes of it are read in a nanosecond:
/// what deciding may cost depends on it.
///
/// # Errors
/// Unreadable metadata.
pub fn select(scan: &Scan, filters: &[&PreparedExpr], keys: &[KeyPrune], bytes_per_nano: u64) -> Result<Selected> {
    let codes = |expr: &Expr| {
        let position = scan.filters.iter().position(|filter| std::ptr::eq(filter, expr));
        let known = position.and_then(|i| filters.get(i)?.as_code_set());
        match known {
            Some((column, codes)) => Some(CodeSet { column, codes: codes.clone(), null: false }),
            None => code_set(expr),
        }
    };
    let keys: Vec<KeyRanges> = keys.iter().filter_map(|key| key_ranges(scan, key)).collect();
    Ok(pruning::select(scan, &keys, &codes, bytes_per_nano)?)
}

fn key_ranges(scan: &Scan, key: &KeyPrune) -> Option<KeyRanges> {
    let (lo, hi) = key.range?;
    let bounds = || Ranges::of(lo, hi);
    // Going through the keys is worth it where they are few beside the rows that they may rule out.
    let most = scan.table.num_rows() / 256;
    let fine = scan.pruning == PruningMode::All && !scan.table.zone_maps().is_empty();
    let filter = key.filter.as_ref().filter(|_| fine);
    let ranges = filter.and_then(|filter| filter.ranges(most, MOST_KEY_RANGES)).unwrap_or_else(bounds);
    Some(KeyRanges { column: key.column, ranges })
}
