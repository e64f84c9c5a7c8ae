//! Tests of scans, and the blocks that run them.

use warpmill_format::Bitmap;
use warpmill_ir::Expr;

/// A scan predicate that packed values decide.
#[derive(Debug, Clone)]
pub enum PackedTest {
    /// Values in `lo ..= hi`.
    Range(i64, i64),
    /// Codes in a set.
    Codes(Bitmap),
}

/// The predicates of a scan: those that packed values decide, and the rest.
#[derive(Debug, Clone, Default)]
pub struct ScanFilters {
    /// Column and test.
    pub packed: Vec<(usize, PackedTest)>,
    /// Evaluated per row.
    pub rest: Vec<Expr>,
}

/// Threads of a block.
pub const BLOCK: u32 = 256;
