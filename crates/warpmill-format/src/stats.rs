//! What is known of the values of a segment or of a whole column.

use serde::{Deserialize, Serialize};

/// A bound of a column: integer-like types by their unscaled value.
#[derive(Debug, Clone, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum StatValue {
    /// Booleans, integers, decimals (unscaled), dates (days), timestamps (ticks).
    Int(i128),
    /// Floating-point numbers; never NaN (a column with NaN has no bounds).
    Float(f64),
    /// Strings (may be a truncated prefix: a lower bound stays a lower bound, an upper bound is rounded up).
    Str(String),
}

/// Statistics of one segment, or of one column over all its segments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ColumnStats {
    /// Rows, nulls included.
    pub rows: u64,
    /// Rows that are null.
    pub nulls: u64,
    /// A value no larger than any non-null value; `None` when unknown or when all rows are null.
    pub min: Option<StatValue>,
    /// A value no smaller than any non-null value; `None` when unknown or when all rows are null.
    pub max: Option<StatValue>,
    /// Estimated number of distinct non-null values (exact where a dictionary makes it so).
    pub distinct: Option<u64>,
    /// Uncompressed size in bytes (integers at their type's width, strings as bytes + 4 per row).
    pub plain_bytes: u64,
    /// Stored size in bytes.
    pub stored_bytes: u64,
}

impl ColumnStats {
    /// The bounds as unscaled integers, when both are known.
    pub fn int_range(&self) -> Option<(i128, i128)> {
        match (&self.min, &self.max) {
            (Some(StatValue::Int(lo)), Some(StatValue::Int(hi))) => Some((*lo, *hi)),
            _ => None,
        }
    }

    /// Widens these statistics by those of further rows. Distinct counts are merged as the larger of the two and capped
    /// by rows: a lower estimate, refined by the writer where it knows better.
    pub fn merge(&mut self, other: &ColumnStats) {
        fn pick(a: &mut Option<StatValue>, b: &Option<StatValue>, empty: bool, other_empty: bool, less: bool) {
            if other_empty {
                return;
            }
            *a = match (a.take(), b) {
                (_, _) if empty => b.clone(),
                (Some(x), Some(y)) => Some(if (*y < x) == less { y.clone() } else { x }),
                _ => None,
            };
        }
        let (empty, other_empty) = (self.rows == self.nulls, other.rows == other.nulls);
        pick(&mut self.min, &other.min, empty, other_empty, true);
        pick(&mut self.max, &other.max, empty, other_empty, false);
        self.rows += other.rows;
        self.nulls += other.nulls;
        self.distinct = match (self.distinct, other.distinct) {
            (Some(a), Some(b)) => Some(a.max(b).min(self.rows)),
            (a, b) => a.or(b),
        };
        self.plain_bytes += other.plain_bytes;
        self.stored_bytes += other.stored_bytes;
    }
}
