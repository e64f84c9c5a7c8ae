//! Parquet files for devices: column chunks in their stored form, whose pages a device decompresses and decodes.
//!
//! - [`file`](mod@file): an opened file: its footer, its identity, and known facts about its pages;
//! - `check`: consistency checks of a file's claims before they are used;
//! - `damage`: the column chunk that cannot be decoded;
//! - `columns`: columns re-encoded as those of tables;
//! - `distinct`: estimated number of distinct values of a column;
//! - `fixed_bytes`: distinction of UUIDs from other fixed-size byte arrays;
//! - `remote`: files that are read by ranges over a network;
//! - `places`: positions in the data sent to the device and in its work area;
//! - `promise`: columns of remote files before they are read, based on the footer's claims;
//! - `thrift`, `pages`: page headers, and the pages of a column chunk;
//! - `index`: positions and bounds of pages, from the indexes that a file may have;
//! - `index_check`: checks of these indexes against the footer;
//! - [`refine`](mod@refine): a table without the rows that indexes rule out;
//! - `prefixes`: size of prefix-encoded strings;
//! - `types`: columns that a device decodes, and conversion of a row group's statistics;
//! - [`slice`](mod@slice): a column of up to 2^20 rows of a row group: the data sent to the device, and the result there;
//! - `table`: the row groups of some files as a [`crate::TableSnapshot`], for planning and pruning.
//!
//! Files are read with positioned reads, not mapped: a concurrent change or truncation of a file is an error, not a signal. The claims of footers and
//! page headers are checked before use, and again by the device, which accesses nothing outside of a page.

pub mod file;
pub mod refine;
pub mod slice;

mod check;
mod columns;
mod crc;
mod damage;
mod distinct;
mod fixed_bytes;
mod index;
mod index_check;
mod pages;
mod places;
mod prefixes;
mod promise;
mod remote;
mod table;
#[cfg(test)]
mod tests;
mod thrift;
mod types;

pub use check::CheckedFooter;
pub use columns::{Bounds, Outcome, encode_columns};
pub use damage::find_damage;
pub use distinct::distinct_values;
pub use file::ParquetFile;
pub use fixed_bytes::{has_fixed_bytes, with_uuids};
pub use index::PageBounds;
pub use pages::PageCodec;
pub use promise::ParquetPromise;
pub use refine::{FilterTest, FilterValue, LeftOut, PageTest, refine};
pub use remote::{KeptBytes, RangeBytes, RemoteFile};
pub use slice::{BatchPage, PageCodecs, ParquetChunk, ParquetSlice, decompress};
pub(crate) use table::ParquetColumn;
pub use table::{Unreadable, table, table_of};
