//! Sums that may leave 128 bits on their way.

/// A sum that is exact whatever the order of its values: `low + wraps * 2^128`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Wide {
    /// The sum as 128 bits wrap around.
    pub low: i128,
    /// How often it went beyond the greatest 128-bit number, less how often beyond the least.
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

    /// The sum without the values of `other`.
    pub fn without(self, other: Self) -> Self {
        let (low, wrapped) = self.low.overflowing_sub(other.low);
        let wrap = if other.low < 0 { 1 } else { -1 };
        Self { low, wraps: self.wraps - other.wraps + if wrapped { wrap } else { 0 } }
    }

    /// The sum, if 128 bits hold it.
    pub fn exact(self) -> Option<i128> {
        (self.wraps == 0).then_some(self.low)
    }

    /// The nearest float, or nearly.
    pub fn as_f64(self) -> f64 {
        self.low as f64 + self.wraps as f64 * 2f64.powi(128)
    }
}
