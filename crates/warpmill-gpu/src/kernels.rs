//! The texts of the hand-written device functions under `kernels/`, composed into kernel sources by concatenation. Each
//! names the ones it needs, which go before it.

/// The lane layout: loading, extracting, random access.
pub const LANE: &str = include_str!("../kernels/lane.cuh");

/// Predicates on packed vectors: range and code-set masks. Needs [`LANE`].
pub const LANE_FILTER: &str = include_str!("../kernels/lane_filter.cuh");
