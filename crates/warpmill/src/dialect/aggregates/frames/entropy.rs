//! The entropy of a frame.

use std::collections::HashMap;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use arrow::row::{OwnedRow, RowConverter};
use datafusion::common::{Result, ScalarValue};

use super::{Frame, converter, keys, present};

/// How often each value of a frame is there, without NULLs.
#[derive(Debug)]
pub(super) struct Entropy {
    rows: RowConverter,
    /// By key; equal values have equal keys.
    counts: HashMap<OwnedRow, u64>,
    count: u64,
    /// The sum of n log2 n over the counts, and the number of its changes since it was computed from them.
    sum: f64,
    changes: usize,
}

impl Entropy {
    pub(super) fn new(ty: &DataType) -> Result<Self> {
        Ok(Self { rows: converter(ty)?, counts: HashMap::new(), count: 0, sum: 0.0, changes: 0 })
    }

    /// Changes the count of each key.
    fn change(&mut self, values: &ArrayRef, is_added: bool) -> Result<()> {
        for key in present(&self.rows, &keys(values))? {
            let count = self.counts.entry(key).or_default();
            let before = *count;
            *count = if is_added { before + 1 } else { before - 1 };
            self.sum += weighted(*count) - weighted(before);
            self.count = if is_added { self.count + 1 } else { self.count - 1 };
            self.changes += 1;
        }
        if !is_added {
            self.forget();
        }
        Ok(())
    }

    /// Drops the keys that are not there any more, and rounding errors, in a time that the changes before have taken anyway.
    fn forget(&mut self) {
        if self.changes >= self.counts.len() {
            self.counts.retain(|_, count| *count > 0);
            self.sum = self.counts.values().map(|count| weighted(*count)).sum();
            self.changes = 0;
        }
    }
}

fn weighted(count: u64) -> f64 {
    if count == 0 { 0.0 } else { count as f64 * (count as f64).log2() }
}

impl Frame for Entropy {
    fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.change(&columns[0], true)
    }

    fn remove(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.change(&columns[0], false)
    }

    fn value(&mut self) -> Result<ScalarValue> {
        let count = self.count as f64;
        let entropy = if self.count == 0 { 0.0 } else { count.log2() - self.sum / count };
        // Values that are all equal leave a rounding error.
        Ok(ScalarValue::Float64(Some(if entropy < 1e-12 { 0.0 } else { entropy })))
    }

    fn size(&self) -> usize {
        self.counts.capacity() * size_of::<(OwnedRow, u64)>()
    }
}
