//! Parquet files as devices read them: column chunks as they are stored, whose pages a device decompresses and decodes.
//!
//! - [`file`](mod@file): a file that has been opened: its footer, its identity, what has been found out about its pages;
//! - `check`: what a file says of itself, held against each other before anything is read by it;
//! - `damage`: which column chunk does not decode;
//! - `columns`: columns encoded anew, as those of tables;
//! - `distinct`: about how many different values a column has;
//! - `fixed_bytes`: which bytes of a fixed number are UUIDs;
//! - `remote`: files that are read by ranges over a network;
//! - `places`: where everything lies in what travels and in what is made of it;
//! - `promise`: columns of those before they are read: what footers say of them;
//! - `thrift`, `pages`: page headers, and where the pages of a column chunk are;
//! - `index`: where pages are and between which bounds their values lie, by the indexes that a file may have;
//! - `index_check`: whether those that come with a footer fit it;
//! - [`refine`](mod@refine): a table without the rows that these rule out;
//! - `prefixes`: what strings take that are stored as parts of the ones before them;
//! - `types`: which columns a device decodes, and what the statistics of a row group say in terms of this crate;
//! - [`slice`](mod@slice): a column of up to 2^20 rows of a row group: what of it travels, and what is made of it;
//! - `table`: the row groups of some files as a [`crate::TableSnapshot`], by which programs are planned and rows are skipped.
//!
//! Files are read with positioned reads, not mapped: a file that somebody changes or makes shorter is an error, not a signal. What a footer or a page
//! header says is checked before anything is placed by it, and once more by the device, which touches nothing outside of a page.

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
