//! Hash builds and probes.
//!
//! A build collects key and payload columns densely ([`HashBuildSink`]), then picks the cheapest table that its data allow ([`HashTable`]):
//!
//! - all key columns pack into one integer (`keys`): a **direct-address** array where the range is dense enough
//!   (`direct`), open addressing on the integer otherwise;
//! - otherwise (strings, wide ranges): open addressing on 64-bit hashes, keys compared column by column (`slots`).
//!
//! Repeated keys do not form chains: rows of one key are stored next to each other, so that a lookup returns a *range* of build rows with any table.
//! Rows that match nothing because a key is NULL come last and are in no table; outer joins and `NOT IN` find them there.
//!
//! An ASOF join finds the range of a key in the same way, whose rows are sorted, and then one row in it (`asof`).
//!
//! Rows beyond the memory limit are spilled by key hash, on both sides (`spill`, `resume`).
//!
//! A probe ([`ProbeOperator`]) looks up a whole chunk, then emits pairs in chunks that copy no values: the input's column groups under composed
//! selections, and one more group for the payload (chunk compaction paper, section 5.2).

use std::sync::Arc;

use crate::vector::Vector;

mod asof;
mod build;
mod direct;
mod filter;
mod hash;
mod keys;
mod output;
mod pairs;
mod probe;
mod resume;
mod slots;
mod spill;
mod table;
#[cfg(test)]
mod tests;

pub use build::HashBuildSink;
pub use filter::{KeyFilter, count_rows};
pub use probe::ProbeOperator;
pub use table::{HashTable, SpilledBlock};

/// The name of ASOF joins in errors about memory: they need all rows of a key in memory together.
pub(crate) const ASOF: &str = "hash build of an ASOF join";

/// Columns of equal length.
type Columns = Vec<Arc<Vector>>;

/// The build rows that match each row of a chunk. For tables of distinct keys `lens` is empty and `starts` holds the row or
/// [`crate::vector::NULL_ROW`]; otherwise rows `starts[i] .. starts[i] + lens[i]` match.
#[derive(Debug, Default)]
struct Matches {
    starts: Vec<u32>,
    lens: Vec<u32>,
}

impl Matches {
    fn clear(&mut self) {
        self.starts.clear();
        self.lens.clear();
    }

    /// Fills `lens` where a table of distinct keys left it empty.
    fn with_lens(&mut self) -> &mut Self {
        if self.lens.len() != self.starts.len() {
            self.lens.extend(self.starts.iter().map(|&start| u32::from(start != crate::vector::NULL_ROW)));
        }
        self
    }
}
