//! Ranges of keys that split scans between devices or processes.

use std::ops::Range;

use arrow::datatypes::DataType;
use serde::{Deserialize, Serialize};
use warpmill_format::TableSnapshot;

use crate::{ColType, CompareOp, Expr, ExprKind, Phys, Scalar};

/// A range of integer keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyRange {
    /// The first key.
    pub least: i128,
    /// The last key; less than `least` if the range is empty.
    pub greatest: i128,
}

impl KeyRange {
    /// The range that contains nothing.
    pub const EMPTY: Self = Self { least: 1, greatest: 0 };

    /// Whether values of a column of type `ty` can be keys: integers without NULLs, so that each is in one range.
    pub fn can_hold(ty: &ColType) -> bool {
        matches!(ty.phys, Phys::I32 | Phys::I64) && ty.dictionary.is_none()
    }

    /// A range for each of `cuts`, consecutive ranges of the row segments of `table`: up to the greatest value of `column` in them. The ranges are
    /// adjacent and together contain all numbers, for other tables may have keys outside of this one's type. `None`: bounds are not known.
    pub fn of_segments(table: &TableSnapshot, column: usize, cuts: &[Range<usize>]) -> Option<Vec<Self>> {
        let (mut least, mut ranges) = (i128::MIN, vec![]);
        let (_, all_but_last) = cuts.split_last()?;
        for cut in all_but_last {
            if cut.is_empty() {
                ranges.push(Self::EMPTY);
                continue;
            }
            let (_, last) = table.segment_stats(cut.end - 1, column).int_range()?;
            // With repeated keys a range may be empty.
            let greatest = last.max(least.saturating_sub(1));
            ranges.push(Self { least, greatest });
            least = greatest + 1;
        }
        ranges.push(Self { least, greatest: i128::MAX });
        Some(ranges)
    }

    /// The row segments of `table` that may have values of `column` within the range, and those between them.
    pub fn segments(self, table: &TableSnapshot, column: usize) -> Range<usize> {
        if self.least > self.greatest {
            return 0..0;
        }
        let meets = |&segment: &usize| {
            let bounds = table.segment_stats(segment, column).int_range();
            bounds.is_none_or(|(low, high)| low <= self.greatest && high >= self.least)
        };
        let first = (0..table.num_segments()).find(meets).unwrap_or(0);
        let end = (first..table.num_segments()).rev().find(meets).map_or(first, |last| last + 1);
        first..end
    }

    /// Whether all values between these bounds are in the range.
    pub fn contains(self, (low, high): (i128, i128)) -> bool {
        self.least <= low && high <= self.greatest
    }

    /// The part of the range that a type with values between these bounds can represent; `None` if it is empty.
    pub fn of_type(self, (low, high): (i128, i128)) -> Option<Self> {
        let (least, greatest) = (self.least.max(low), self.greatest.min(high));
        (least <= greatest).then_some(Self { least, greatest })
    }

    /// Conditions for column `column`, of type `ty`, to be within the range: the same number for all ranges, so that all devices have the same
    /// kernels.
    pub fn conditions(self, column: usize, ty: &ColType) -> Vec<Expr> {
        let (low, high): (i128, i128) = match ty.phys {
            Phys::I32 => (i32::MIN.into(), i32::MAX.into()),
            _ => (i64::MIN.into(), i64::MAX.into()),
        };
        // Contradictory bounds: no number satisfies both.
        let Self { least, greatest } = self.of_type((low, high)).unwrap_or(Self { least: high, greatest: low });
        let compare = |op, bound: i128| {
            let bound = Expr::literal(Scalar::Int(bound), ColType { range: Some((bound, bound)), ..ty.clone() });
            let (left, right) = (Box::new(Expr::column(column, ty.clone())), Box::new(bound));
            let truth = ColType {
                logical: DataType::Boolean,
                phys: Phys::Bool,
                nullable: false,
                range: None,
                dictionary: None,
            };
            Expr { kind: ExprKind::Compare { op, left, right }, ty: truth }
        };
        vec![compare(CompareOp::Ge, least), compare(CompareOp::Le, greatest)]
    }
}
