//! Tests of scans, and the properties of scans that kernel texts depend on.

use warpmill_format::Bitmap;

use crate::data::shape::ColumnShape;

/// A scan predicate that is decided on packed values.
#[derive(Debug, Clone)]
pub enum PackedTest {
    /// Values in `lo ..= hi`.
    Range(i64, i64),
    /// Codes in a set.
    Codes(Bitmap),
}

/// The properties of a test that kernel texts depend on; its constants are parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestShape {
    /// Its position among those of the scan.
    pub number: usize,
    /// The scan's column.
    pub column: usize,
    /// Whether it is a lookup in a code set; otherwise it is a range test.
    pub is_set: bool,
    /// Coarse estimated selectivity.
    pub fraction: f64,
}

/// The properties of a scan that its kernels depend on, besides the lowered program.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanShape {
    /// The tests of packed values.
    pub tests: Vec<TestShape>,
    /// Column shapes of the row segments of each kernel.
    pub kernels: Vec<Vec<ColumnShape>>,
}

/// Rounds a fraction to a power of two. The order of tests depends on the rounded value, so that statements with similar selectivities share kernels.
pub fn coarse(fraction: f64) -> f64 {
    fraction.max(1e-9).log2().round().exp2()
}

/// Fraction of a scan's rows with a partner from which keys are not tested before the join.
const MOST: f64 = 0.6;

/// Coarse selectivity of a key test; `None`: no test.
pub fn coarse_of_keys(fraction: f64) -> Option<f64> {
    (fraction < MOST).then(|| coarse(fraction))
}

/// Threads of a block.
pub const BLOCK: u32 = 256;
