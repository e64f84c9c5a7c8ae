//! Policies of mirrored data: the choice of the segments that the caching region has copies of (Yogatama, thesis section 4.1).
//!
//! A policy ranks the segments, or whole columns, by their history; the highest ranked are mirrored as far as there is room. A policy is a file of
//! this folder, and a variant of [`Policy`] with its lines in [`Policy::ALL`] and `parts`.

mod history;
mod lfu;
mod lru;
mod lru2;
pub(crate) mod roles;
pub(crate) mod semantic;

pub(crate) use history::{AGING, History};

/// The unit that a policy ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// All segments of a column that queries have used.
    Column,
    /// Each segment by itself.
    Segment,
}

/// Rank of a unit by its history and bytes: the highest are mirrored first.
type Rank = fn(&History, u64) -> f64;

/// A policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Least recently used, by column.
    LruColumn,
    /// Least frequently used, by column.
    LfuColumn,
    /// Least recently used but one, by column.
    Lru2Column,
    /// Least recently used, by segment.
    LruSegment,
    /// Least frequently used, by segment.
    LfuSegment,
    /// Least recently used but one, by segment.
    Lru2Segment,
    /// Weighted frequency by segment: the time that a copy saves (Algorithm 2).
    #[default]
    Semantic,
}

impl Policy {
    /// All policies, with their names in settings.
    pub const ALL: [(&'static str, Policy); 7] = [
        ("lru_column", Policy::LruColumn),
        ("lfu_column", Policy::LfuColumn),
        ("lru2_column", Policy::Lru2Column),
        ("lru_segment", Policy::LruSegment),
        ("lfu_segment", Policy::LfuSegment),
        ("lru2_segment", Policy::Lru2Segment),
        ("semantic", Policy::Semantic),
    ];

    /// The unit that the policy ranks, and its rank function.
    pub(crate) fn parts(self) -> (Unit, Rank) {
        match self {
            Policy::LruColumn => (Unit::Column, lru::rank),
            Policy::LfuColumn => (Unit::Column, lfu::rank),
            Policy::Lru2Column => (Unit::Column, lru2::rank),
            Policy::LruSegment => (Unit::Segment, lru::rank),
            Policy::LfuSegment => (Unit::Segment, lfu::rank),
            Policy::Lru2Segment => (Unit::Segment, lru2::rank),
            Policy::Semantic => (Unit::Segment, semantic::rank),
        }
    }
}
