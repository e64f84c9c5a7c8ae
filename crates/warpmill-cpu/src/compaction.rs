//! When small chunks are copied together.

/// The compaction strategy of a query (chunk compaction paper, sections 3.4, 4 and 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compaction {
    /// Never.
    None,
    /// Every chunk that is not full.
    Full,
    /// Chunks below a fixed threshold of 128 rows.
    Binary,
    /// Joins accumulate the matches of one probe chunk; nothing is copied.
    Logical,
    /// Thresholds learned per operator while the query runs.
    Learning,
    /// `Logical` and `Learning` together.
    #[default]
    Smart,
}
