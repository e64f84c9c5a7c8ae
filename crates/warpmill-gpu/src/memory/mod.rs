//! Memory of a device, and host memory that a device accesses.
//!
//! - [`regions`]: the caching region (segments, dictionaries) and the processing region (a query's tables and rows);
//! - `lane`: resources of a running program; [`mapped`]: page-locked memory that kernels access over the link;
//! - `mirrors`: host originals of strings in device memory;
//! - [`error`]: reasons why a program did not complete.

pub mod error;
pub(crate) mod lane;
pub mod mapped;
pub(crate) mod mirrors;
pub mod pool;
pub mod regions;
