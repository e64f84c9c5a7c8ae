//! Selection of a scan's rows: the planner's pruning with this crate's evaluation of dictionary predicates.

use warpmill_ir::pruning::{self, CodeSet, KeyRanges, Selected};
use warpmill_ir::{Expr, Scan};

use crate::error::Result;
use crate::expr::{PreparedExpr, code_set};

/// The rows of `scan` that metadata leaves. `filters` are its prepared filters; `keys` belong to finished hash builds. `bytes_per_nano` is the speed
/// of the scan in bytes per nanosecond, which limits the time spent on pruning.
///
/// # Errors
/// Unreadable metadata.
pub fn select(scan: &Scan, filters: &[&PreparedExpr], keys: &[KeyRanges], bytes_per_nano: u64) -> Result<Selected> {
    let codes = |expr: &Expr| {
        let position = scan.filters.iter().position(|filter| std::ptr::eq(filter, expr));
        let known = position.and_then(|i| filters.get(i)?.as_code_set());
        match known {
            Some((column, codes)) => Some(CodeSet { column, codes: codes.clone(), null: false }),
            None => code_set(expr),
        }
    };
    Ok(pruning::select(scan, keys, &codes, bytes_per_nano)?)
}
