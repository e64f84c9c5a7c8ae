//! The last use but one (LRU-K of O'Neil et al., K = 2).

use super::history::History;

/// The time of the use before the last; what was used once only comes after all else.
pub(super) fn rank(history: &History, _bytes: u64) -> f64 {
    history.before as f64
}
