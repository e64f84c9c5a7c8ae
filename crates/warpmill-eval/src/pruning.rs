//! The rows of a scan that are read: the planner's decision with this crate's way to evaluate predicates of dictionaries.

use warpmill_ir::pruning::{self, CodeSet, KeyRanges, Selected};
use warpmill_ir::{Expr, Scan};

use crate::error::Result;
use crate::expr::{PreparedExpr, code_set};

/// The rows of `scan` that metadata does not rule out. `filters` are its filters, prepared; `keys` are those of finished hash builds. So many
/// bytes of it are read in a nanosecond: what deciding may cost depends on it.
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
