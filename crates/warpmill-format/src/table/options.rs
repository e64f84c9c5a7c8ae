//! Options for writing a table.

use crate::codec::CodecOptions;
use crate::pruning::{Metadata, Sideways};

/// Options for writing a table.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Number of rows of a full segment (a multiple of 1024, at most [`crate::SEGMENT_ROWS`]). 0: that number; for sorted rows fewer, so that
    /// metadata can rule out whole segments, with 1024 to 2047 segments of 65536 rows or more.
    pub segment_rows: usize,
    /// Bytes of rows that fill a segment, however few they are: several segments are in memory while they are encoded.
    pub segment_bytes: usize,
    /// Columns by which the input is sorted (ascending, NULLs last, stable) before it is divided into segments, or attributes of
    /// [`WriteOptions::sideways`]. Keeps all rows of the write in memory, at most 2^32 - 1; an append sorts the new rows only.
    pub sort_by: Vec<String>,
    /// Whether to sort by the attributes, or without attributes by the columns, with the fewest distinct values (not with `sort_by`).
    pub cluster: bool,
    /// The metadata by which scans skip rows.
    pub metadata: Metadata,
    /// Number of rows of a zone of metadata: a multiple of 1024.
    pub zone_rows: usize,
    /// Attributes of other tables for which metadata are stored.
    pub sideways: Vec<Sideways>,
    /// Number of worker threads (0: all cores).
    pub threads: usize,
    /// The compression of column chunks; `None`: that of the table's existing columns; new tables have no codec, and strings in
    /// [symbols](crate::Encoding::Symbols) if that pays (as with [`CodecChoice::Auto`](crate::codec::CodecChoice::Auto) if it chooses no codec).
    pub codec: Option<CodecOptions>,
    /// Whether strings may be encoded as symbols.
    pub symbols: bool,
    /// Align all chunks for direct I/O, to 4096 bytes (compressed ones of 64 KiB or more always are).
    pub direct_io: bool,
    /// Number of versions that stay readable, including the new one (1: only the newest, and the one before until the next write).
    pub keep_versions: usize,
    /// Bytes of small chunks of a column that are stored contiguously, at least: the size that a disk reads at full speed.
    pub extent_bytes: usize,
    /// Limit in bytes for the keys of new rows in memory, for tables with keys.
    pub key_bytes: usize,
    /// Number of rows from which on a row segment keeps its deleted rows, marked as such, if they are at most half: all others are written anew.
    pub least_marked: usize,
    /// Whether small changes of a table in a directory are appended to a log: one write and one sync. Tables without codecs only.
    pub log: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            segment_rows: 0,
            segment_bytes: 1 << 30,
            sort_by: Vec::new(),
            cluster: false,
            metadata: Metadata::default(),
            zone_rows: crate::pruning::ZONE_ROWS,
            sideways: Vec::new(),
            threads: 0,
            codec: None,
            symbols: true,
            direct_io: false,
            keep_versions: 1,
            extent_bytes: 4 << 20,
            key_bytes: usize::MAX,
            least_marked: 1 << 14,
            log: false,
        }
    }
}
