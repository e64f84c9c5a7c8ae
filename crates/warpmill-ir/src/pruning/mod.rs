//! The rows that a scan need not read, from metadata alone: one decision for all back ends.
//!
//! [`select()`] turns a scan's filters into conditions on the ranks of [`warpmill_format::pruning`], and asks the metadata of every
//! row segment and zone whether a row there can satisfy them. It errs on one side only: rows of a zone that is left out satisfy no
//! filter, or find no partner in a join that drops rows without one. The bounds of all zones are tested at once; what is finer stops
//! where it has cost 1% of the scan and half of what it has saved.
//!
//! A filter of another table prunes too, where the scan's rows need a partner there that satisfies it and the scanned table has
//! sideways metadata of just that version of the other ([`SidewaysFilter`], found by [`attach`]).

mod bound;
mod budget;
mod pages;
mod predicate;
mod ranges;
mod select;
mod sideways;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Serialize;
use warpmill_format::parquet_file::LeftOut;
use warpmill_format::{Bitmap, TableSnapshot};

use crate::Expr;

pub use pages::leave_out_pages;
pub use ranges::Ranges;
pub use select::{KeyRanges, Selected, select};
pub use sideways::attach;

/// The metadata by which scans skip rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PruningMode {
    /// Nothing: all rows are read.
    None,
    /// Bounds: of row segments, of zones, of attributes of other tables, and of the keys of joins.
    MinMax,
    /// All there is: histograms, Bloom filters, and which keys joins have as well.
    #[default]
    All,
}

/// Filters of another table that the scan's rows need a partner for.
#[derive(Debug, Clone)]
pub struct SidewaysFilter {
    /// Output column of the scan that refers to the other table.
    pub column: usize,
    /// The other table.
    pub table: Arc<TableSnapshot>,
    /// Its column that is referred to.
    pub key: usize,
    /// Its column by input of `filters`.
    pub columns: Vec<usize>,
    /// Conjuncts, of which a partner satisfies all.
    pub filters: Vec<Expr>,
}

/// The codes for which a predicate of one dictionary column is true.
#[derive(Debug, Clone)]
pub struct CodeSet {
    /// The column.
    pub column: usize,
    /// By code.
    pub codes: Bitmap,
    /// Whether it is true for NULL.
    pub null: bool,
}

/// Evaluates a predicate that reads one column, of dictionary codes, for every code; `None` where that is not possible.
pub type CodeSets<'a> = &'a dyn Fn(&Expr) -> Option<CodeSet>;

/// The pruned parts of a scan, and by what. A zone is counted once, for the first that ruled it out; bounds, also of attributes and by keys, are
/// asked before anything finer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PruningReport {
    /// Row segments.
    pub segments: u64,
    /// Those of which nothing is left.
    pub segments_pruned: u64,
    /// Zones; a row segment without metadata counts as one.
    pub zones: u64,
    /// Zones ruled out by bounds.
    pub by_minmax: u64,
    /// By histograms.
    pub by_histogram: u64,
    /// By Bloom filters.
    pub by_bloom: u64,
    /// By attributes of other tables.
    pub by_sideways: u64,
    /// By the keys of finished hash builds.
    pub by_keys: u64,
    /// Rows.
    pub rows: u64,
    /// Rows of zones that were ruled out.
    pub rows_pruned: u64,
    /// Whether testing stopped because it did not pay.
    pub stopped: bool,
    /// Time of the decision, in nanoseconds.
    pub nanos: u64,
}

impl PruningReport {
    /// Adds what was left out of a table of Parquet files before it was scanned.
    fn add(&mut self, left_out: &LeftOut) {
        self.segments += left_out.segments;
        self.segments_pruned += left_out.segments;
        self.zones += left_out.zones;
        self.by_minmax += left_out.zones - left_out.by_bloom;
        self.by_bloom += left_out.by_bloom;
        self.rows += left_out.rows;
        self.rows_pruned += left_out.rows;
        self.nanos += left_out.nanos;
    }

    /// Notes that the keys of a hash build rule out what was left of a row segment: so many zones and rows.
    pub fn segment_ruled_out_by_keys(&mut self, (zones, rows): (u64, u64)) {
        self.segments_pruned += 1;
        self.by_keys += zones;
        self.rows_pruned += rows;
    }

    /// Zones ruled out.
    pub fn zones_pruned(&self) -> u64 {
        self.by_minmax + self.by_histogram + self.by_bloom + self.by_sideways + self.by_keys
    }
}

impl std::fmt::Display for PruningReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} zones pruned", self.zones_pruned(), self.zones)?;
        let kinds = [
            ("min/max", self.by_minmax),
            ("histogram", self.by_histogram),
            ("Bloom", self.by_bloom),
            ("sideways", self.by_sideways),
            ("build keys", self.by_keys),
        ];
        let kinds: Vec<String> =
            kinds.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{n} by {name}")).collect();
        if !kinds.is_empty() {
            write!(f, " ({})", kinds.join(", "))?;
        }
        if self.stopped {
            f.write_str(", stopped where it did not pay")?;
        }
        write!(f, ", {} of {} row segments, in {:.3} ms", self.segments_pruned, self.segments, self.nanos as f64 / 1e6)
    }
}
