//! Window functions: calls over the rows of a partition, and their frames.

use crate::expr::{Expr, Scalar};
use crate::program::AggregateFunction;
use crate::types::ColType;

/// A call of a window function.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowCall {
    /// The function.
    pub function: WindowFunction,
    /// The argument, over the input columns (none for functions of positions and for `CountStar`).
    pub argument: Option<Expr>,
    /// The rows that it is computed of; shifts and functions of positions have no use for it.
    pub frame: Frame,
    /// Whether shifts and functions of one row of the frame skip rows with a NULL argument.
    pub ignore_nulls: bool,
    /// The type of the result; functions that return a value of the argument use its representation.
    pub ty: ColType,
}

/// Window functions. Positions and ranks begin with 1.
#[derive(Debug, Clone, PartialEq)]
pub enum WindowFunction {
    /// The position in the partition.
    RowNumber,
    /// The position of the first peer.
    Rank,
    /// The number of the group of peers.
    DenseRank,
    /// The share of the other rows that come before the first peer; 0 for a row alone.
    PercentRank,
    /// The share of rows that come before the row or are its peers.
    CumeDist,
    /// The index of the row's tile, among this many tiles of nearly equal size, larger ones first.
    Ntile(u64),
    /// The argument `back` rows before (after, if negative) in the partition.
    Shift {
        /// The number of rows.
        back: i64,
        /// The value if there is no such row.
        default: Scalar,
    },
    /// The argument of the frame's first row.
    First,
    /// The argument of the frame's last row.
    Last,
    /// The argument of the frame's row of this number, from its end where negative.
    Nth(i64),
    /// An aggregate of the frame; ignores NULLs, as in aggregations.
    Aggregate(AggregateFunction),
}

/// The rows of a partition from one bound to another. A frame whose end precedes its start is empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// The units of the bounds.
    pub units: FrameUnits,
    /// The first row.
    pub start: FrameBound,
    /// The last row.
    pub end: FrameBound,
    /// The rows between these that do not count.
    pub exclude: Exclude,
}

/// Rows that are left out of a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Exclude {
    /// None.
    #[default]
    Nothing,
    /// The current row.
    CurrentRow,
    /// The current row and its peers.
    Group,
    /// The peers of the current row.
    Ties,
}

impl Exclude {
    /// All that leave rows out, with their words in SQL.
    pub const ALL: [(Self, &str); 3] =
        [(Self::CurrentRow, "current row"), (Self::Group, "group"), (Self::Ties, "ties")];
}

/// The units of a frame's bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameUnits {
    /// Rows.
    Rows,
    /// Values of the only order key; the current row includes its peers.
    Range,
    /// Groups of peers.
    Groups,
}

/// A bound of a frame.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameBound {
    /// The partition's first row.
    UnboundedPreceding,
    /// A distance before the current row: a count, or for RANGE a difference of keys, as an unscaled integer or a float.
    Preceding(Scalar),
    /// The current row, or its peers.
    CurrentRow,
    /// A distance after the current row.
    Following(Scalar),
    /// The partition's last row.
    UnboundedFollowing,
}

impl WindowFunction {
    /// Whether the result is an unchanged value of the argument.
    pub fn picks(&self) -> bool {
        use AggregateFunction::{AnyValue, BoolAnd, BoolOr, Max, Min};
        match self {
            Self::Shift { .. } | Self::First | Self::Last | Self::Nth(_) => true,
            Self::Aggregate(function) => matches!(function, Min | Max | BoolAnd | BoolOr | AnyValue),
            _ => false,
        }
    }

    /// Whether the result depends on the frame.
    pub fn has_frame(&self) -> bool {
        matches!(self, Self::First | Self::Last | Self::Nth(_) | Self::Aggregate(_))
    }
}

impl Frame {
    /// The whole partition.
    pub fn whole() -> Self {
        Self {
            units: FrameUnits::Rows,
            start: FrameBound::UnboundedPreceding,
            end: FrameBound::UnboundedFollowing,
            exclude: Exclude::Nothing,
        }
    }

    /// Whether it is the partition of each row.
    pub fn is_whole(&self) -> bool {
        self.start == FrameBound::UnboundedPreceding
            && self.end == FrameBound::UnboundedFollowing
            && self.exclude == Exclude::Nothing
    }

    /// Whether a bound is at some distance of the value of the order key.
    pub fn compares_values(&self) -> bool {
        self.units == FrameUnits::Range
            && [&self.start, &self.end]
                .into_iter()
                .any(|bound| matches!(bound, FrameBound::Preceding(_) | FrameBound::Following(_)))
    }
}
