//! Files that may be damaged or hostile: input is checked before DataFusion decodes it, and failures of DataFusion's decoders become errors that name
//! the file.
//!
//! - `arrow`: files and streams of Arrow;
//! - `bounds`: bounds of values in footers of Parquet files, as far as they are reliable;
//! - `format`: footers of Parquet files are checked when a query is planned, before schemas and statistics are taken from them;
//! - `readers`: footers, pages and indexes of Parquet files are checked when they are read;
//! - `guard`: scans whose decoders may fail, or panic: the error names file, row group and column;
//! - `in_order`: rows in the order of the files, decoded by several threads.

mod arrow;
mod bounds;
mod format;
mod guard;
mod in_order;
mod readers;

pub(crate) use arrow::CheckedArrowFactory;
pub use arrow::check_message;
pub(crate) use format::{CheckedParquet, CheckedParquetFactory};
pub(crate) use guard::guarded;
pub(crate) use in_order::{in_file_order, with_file_order};

use datafusion::common::DataFusionError;
use warpmill_format::FormatError;

use crate::Error;

/// Damage of a file as an error of a query.
fn damaged(error: FormatError) -> DataFusionError {
    Error::from(error).into()
}
