//! Warpmill's column format: tables of compressed **segments** that query kernels decode in place.
//!
//! - [`encoding`]: the light encodings (lane-packed FOR / delta / run-length, the published GPU-FOR family, plain), one
//!   file each, and the choice between them;
//! - [`segment`]: one column over up to 2^20 rows: statistics, validity, encoded values, and every way to read them;
//! - [`codec`]: general compression (LZ4, Snappy, Zstd, Deflate, GDeflate) over encoded segments, and the choice of it;
//! - [`dictionary`]: ordered string dictionaries, shared by all segments of a table column;
//! - [`table`]: a table on disk or in memory: manifests, committed versions, snapshots, the writer;
//! - [`parquet_file`]: Parquet files for devices: pages in their stored form;
//! - [`column_cache`]: external columns cached between queries;
//! - [`arrow_ipc`]: validation of Arrow IPC files and streams;
//! - [`pruning`]: metadata for skipping rows in scans;
//! - [`ingest`]: Arrow, Parquet and CSV into tables;
//! - [`enums`]: ENUM types;
//! - [`measure`]: measured rates of this machine, for the hardware profile;
//! - [`guard`]: conversion of panics of libraries that read damaged files.
//!
//! The byte layout is specified in `docs/format.md`.
//!
//! Inside the engine every integer-like logical type (integers, decimals, dates, timestamps) is represented by its *unscaled integer*, with the Arrow
//! [`arrow::datatypes::DataType`] for its meaning.

pub mod arrow_ipc;
pub mod bitmap;
pub mod codec;
pub mod column_cache;
pub mod dictionary;
pub mod encoding;
pub mod enums;
pub mod error;
mod file_access;
mod file_state;
pub mod guard;
pub mod ingest;
mod mapping;
pub mod measure;
pub mod parquet_file;
pub mod pruning;
pub mod segment;
pub mod stats;
pub mod strview;
pub mod table;

pub use bitmap::Bitmap;
pub use codec::{Codec, CodecChoice, CodecConfig, CodecOptions, CompressedChunk, Objective};
pub use dictionary::Dictionary;
pub use encoding::symbols::{SymbolAutomaton, TextAutomaton};
pub use error::{FormatError, Result};
pub use file_access::FileAccess;
pub use file_state::FileState;
pub use mapping::Mapping;
pub use segment::{
    DeltaLayout, Encoding, FilePlace, LaneLayout, RunsLayout, Segment, SegmentBytes, SegmentLayout, SegmentParts,
    ValueLayout, mask_rows,
};
pub use stats::{ColumnStats, StatValue};
pub use strview::StrView;
pub use table::{StoredChunk, Table, TableSnapshot, TableWriter, WithParts};

/// Number of rows of a full segment: the unit of encoding choice, I/O, pruning, caching and placement.
pub const SEGMENT_ROWS: usize = 1 << 20;

/// Number of values of a vector: the unit of bit-packing, decoded by one warp or by SIMD.
pub const VECTOR_ROWS: usize = 1024;
