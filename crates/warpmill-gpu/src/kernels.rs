//! The texts of the hand-written device functions under `kernels/`, composed into kernel sources by concatenation. Each
//! names the ones it needs, which go before it.

pub mod functions;
pub mod library;

/// The lane layout: loading, extracting, random access.
pub const LANE: &str = include_str!("../kernels/lane.cuh");

/// Predicates on packed vectors: range and code-set masks. Needs [`LANE`].
pub const LANE_FILTER: &str = include_str!("../kernels/lane_filter.cuh");

/// Lane-packed deltas. Needs [`LANE`].
pub const LANE_DELTA: &str = include_str!("../kernels/lane_delta.cuh");

/// Segments turned into plain values. Needs [`library::Library::Scan`] and [`LANE_DELTA`].
pub const EXPAND: &str = include_str!("../kernels/expand.cuh");

/// Chunks that went through LZ4 or Snappy. Needs [`library::Library::Value`] and [`LANE`].
pub const DECOMPRESS: &str = include_str!("../kernels/decompress.cuh");

/// Blocks that a library for batches decompresses. Needs [`DECOMPRESS`].
pub const BATCH: &str = include_str!("../kernels/batch.cuh");

/// Whether bytes are UTF-8. Needs [`library::Library::Value`].
pub const UTF8: &str = include_str!("../kernels/utf8.cuh");

/// Integers that pages of Parquet store as differences.
pub const PARQUET_DELTA: &str = include_str!("../kernels/parquet_delta.cuh");

/// Strings of pages of Parquet that are stored as they are. Needs [`DECOMPRESS`] and [`PARQUET_DELTA`].
pub const PARQUET_TEXT: &str = include_str!("../kernels/parquet_text.cuh");

/// Column chunks of Parquet. Needs [`DECOMPRESS`], [`UTF8`], [`PARQUET_DELTA`] and [`PARQUET_TEXT`].
pub const PARQUET: &str = include_str!("../kernels/parquet.cuh");

/// Prefix sums across the tiles of one launch.
pub const LOOK_BACK: &str = include_str!("../kernels/look_back.cuh");

/// Hashes that partitioning and hash tables share.
pub const HASH: &str = include_str!("../kernels/hash.cuh");

/// Radix sort and partitioning. Needs [`LOOK_BACK`] and [`HASH`].
pub const RADIX_SORT: &str = include_str!("../kernels/radix_sort.cuh");

/// The error number of `QueryState` for data that is damaged (kernels/value.cuh).
pub const ERROR_DATA: u32 = 6;

/// The error number of `QueryState` for functions that give a group up (kernels/value.cuh).
pub const ERROR_GROUP: u32 = 7;

/// The error number of `QueryState` for blocks that only the host can say more about (kernels/value.cuh).
pub(crate) const ERROR_HOST: u32 = 5;

#[cfg(test)]
mod tests;
