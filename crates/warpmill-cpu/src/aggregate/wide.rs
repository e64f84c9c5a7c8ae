//! Sums whose intermediate values may exceed 128 bits.

/// A sum that is exact in any order of its values: `low + wraps * 2^128`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Wide {
    /// The sum modulo 2^128.
    pub low: i128,
    /// Number of overflows above the greatest 128-bit number minus number of overflows below the least.
    pub wraps: i64,
}

impl Wide {
    /// Adds a value.
    #[inline(always)]
    pub fn add(&mut self, value: i128) {
        let (low, wrapped) = self.low.overflowing_add(value);
        self.low = low;
        if wrapped {
            self.wraps += if value < 0 { -1 } else { 1 };
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: Self) {
        self.add(other.low);
        self.wraps += other.wraps;
    }

    /// The sum minus `other`.
    pub fn without(self, other: Self) -> Self {
        let (low, wrapped) = self.low.overflowing_sub(other.low);
        let wrap = if other.low < 0 { 1 } else { -1 };
        Self { low, wraps: self.wraps - other.wraps + if wrapped { wrap } else { 0 } }
    }

    /// The sum, if it fits 128 bits.
    pub fn exact(self) -> Option<i128> {
        (self.wraps == 0).then_some(self.low)
    }

    /// The nearest float, or one next to it.
    pub fn as_f64(self) -> f64 {
        self.low as f64 + self.wraps as f64 * 2f64.powi(128)
    }
}
