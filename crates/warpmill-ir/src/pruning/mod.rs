//! Pruning: the rows that a scan need not read, from metadata alone, decided once for all back ends.
//!
//! [`select()`] turns a scan's filters into conditions on the ranks of [`warpmill_format::pruning`], and tests the metadata of every row segment and
//! zone against them. It is conservative: rows of a skipped zone satisfy no filter, or have no partner in a join that drops such rows. The bounds of
//! all zones are tested at once; finer tests stop when they have cost 1% of the scan and half of their savings.
//!
//! A filter on another table prunes, too, if the scan's rows need a partner there that satisfies it and the scanned table has sideways metadata of
//! exactly that version of the other table ([`SidewaysFilter`], found by [`attach`]).

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

/// The metadata that scans use for pruning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PruningMode {
    /// None: all rows are read.
    None,
    /// Bounds: of row segments, zones, attributes of other tables, and join keys.
    MinMax,
    /// All metadata: also histograms, Bloom filters, and the sets of join keys.
    #[default]
    All,
}

/// Filters on another table in which the scan's rows need a partner.
#[derive(Debug, Clone)]
pub struct SidewaysFilter {
    /// Output column of the scan that references the other table.
    pub column: usize,
    /// The other table.
    pub table: Arc<TableSnapshot>,
    /// The referenced column of the other table.
    pub key: usize,
    /// Column of the other table for each input of `filters`.
    pub columns: Vec<usize>,
    /// Conjuncts that a partner has to satisfy.
    pub filters: Vec<Expr>,
}

/// The codes for which a predicate of one dictionary column is true.
#[derive(Debug, Clone)]
pub struct CodeSet {
    /// Index of the column.
    pub column: usize,
    /// One bit per code.
    pub codes: Bitmap,
    /// Whether the predicate is true for NULL.
    pub null: bool,
}

/// Evaluates a predicate of a single dictionary column for every code; `None` if that is not possible.
pub type CodeSets<'a> = &'a dyn Fn(&Expr) -> Option<CodeSet>;

/// The pruned parts of a scan, by kind of metadata. A zone counts once, for the first that ruled it out; bounds, including attributes and keys, come
/// before anything finer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PruningReport {
    /// Number of row segments.
    pub segments: u64,
    /// Number of row segments ruled out completely.
    pub segments_pruned: u64,
    /// Number of zones; a row segment without metadata counts as one.
    pub zones: u64,
    /// Number of zones ruled out by bounds.
    pub by_minmax: u64,
    /// Number of zones ruled out by histograms.
    pub by_histogram: u64,
    /// Number of zones ruled out by Bloom filters.
    pub by_bloom: u64,
    /// Number of zones ruled out by attributes of other tables.
    pub by_sideways: u64,
    /// Number of zones ruled out by keys of finished hash builds.
    pub by_keys: u64,
    /// Number of rows.
    pub rows: u64,
    /// Number of rows in zones that were ruled out.
    pub rows_pruned: u64,
    /// Whether tests stopped because they did not pay.
    pub stopped: bool,
    /// Time of pruning, in nanoseconds.
    pub nanos: u64,
}

impl PruningReport {
    /// Adds the parts of a table of Parquet files that were ruled out before the scan.
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

    /// Records that the keys of a hash build rule out the rest of a row segment, with its numbers of zones and rows.
    pub fn segment_ruled_out_by_keys(&mut self, (zones, rows): (u64, u64)) {
        self.segments_pruned += 1;
        self.by_keys += zones;
        self.rows_pruned += rows;
    }

    /// Number of zones ruled out.
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
