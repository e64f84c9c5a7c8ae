//! Memory of a device, and of the host where a device reaches it.
//!
//! - [`regions`]: the caching region (segments, dictionaries) and the processing region (a query's tables and rows);
//! - `lane`: what a running program has for itself; [`mapped`]: page-locked memory that kernels reach over the link;
//! - `mirrors`: the host's originals of what is in device memory;
//! - [`error`]: why a program was not run to its end.

pub mod error;
pub(crate) mod lane;
pub mod mapped;
pub(crate) mod mirrors;
pub mod pool;
pub mod regions;
