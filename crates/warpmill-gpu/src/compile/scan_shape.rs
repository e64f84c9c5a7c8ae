//! Tests of scans, what kernels' texts depend on of them, and the blocks that run them.

use warpmill_format::Bitmap;

use crate::data::shape::ColumnShape;

/// A scan predicate that packed values decide.
#[derive(Debug, Clone)]
pub enum PackedTest {
    /// Values in `lo ..= hi`.
    Range(i64, i64),
    /// Codes in a set.
    Codes(Bitmap),
}

/// A test as kernels' texts depend on it: its constants are parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestShape {
    /// Its position among those of the scan.
    pub number: usize,
    /// The scan's column.
    pub column: usize,
    /// Whether codes are looked up in a set; otherwise values are compared with the ends of a range.
    pub is_set: bool,
    /// The part of the rows that is expected to pass, as far as kernels depend on it.
    pub fraction: f64,
}

/// All that the kernels of a scan depend on beside the program that lowering sees.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanShape {
    /// The tests of packed values.
    pub tests: Vec<TestShape>,
    /// The encodings of row segments, by kernel.
    pub kernels: Vec<Vec<ColumnShape>>,
}

/// The power of two next to a fraction: what the order of tests is decided by, so that a statement with other constants, which let about
/// as many rows pass, has the same kernels.
pub fn coarse(fraction: f64) -> f64 {
    fraction.max(1e-9).log2().round().exp2()
}

/// Keys that so large a part of a scan's rows is expected to have are not looked for before their join.
const MOST: f64 = 0.6;

/// The part of a scan's rows that a test of keys lets pass, as far as kernels depend on it; `None`: there is no test.
pub fn coarse_of_keys(fraction: f64) -> Option<f64> {
    (fraction < MOST).then(|| coarse(fraction))
}

/// Threads of a block.
pub const BLOCK: u32 = 256;
