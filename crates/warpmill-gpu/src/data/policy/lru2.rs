//! Least recently used but one (LRU-K of O'Neil et al., K = 2).

use super::history::History;

/// Ranks by the use before the last; segments that were used once rank lowest.
pub(super) fn rank(history: &History, _bytes: u64) -> f64 {
    history.before as f64
}
