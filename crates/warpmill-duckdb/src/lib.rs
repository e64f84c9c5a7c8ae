//! The engine side of the DuckDB extension: a C interface that takes DuckDB's plans and rows and gives back results.
//!
//! The other side is C++ (`duckdb/src`), compiled against one exact DuckDB version: it hands over the bound plan of a
//! SELECT ([`encoding`]), learns whether Warpmill runs it (`plan::Plan::new`: every refusal has a reason), and puts an operator
//! in its place whose children are DuckDB's own scans. When the query runs, the scans hand over their rows as DuckDB's vectors
//! ([`input`]), without the columns that are kept from earlier executions ([`warpmill_format::column_cache`]), and the result is
//! returned in DuckDB's physical layout ([`output`]).
//!
//! A plan is translated into a DataFusion plan with DuckDB's meaning ([`translate`]): operations with a different meaning in
//! DataFusion are expressed in another way, or refused. The table of these cases is in docs/duckdb.md.
//!
//! Databases of Warpmill's own are attached to DuckDB by [`attached`].

pub mod abi;
pub mod attached;
mod depth;
pub mod door;
pub mod encoding;
pub mod execute;
pub mod input;
pub mod output;
pub mod plan;
pub mod rules;
pub mod translate;
pub mod types;

use warpmill_format::column_cache as cache;

/// The reason why DuckDB runs a query and Warpmill does not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    /// A phrase that names the unsupported part.
    pub reason: String,
}

impl Refused {
    /// Refuses for `reason`.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

impl From<datafusion::common::DataFusionError> for Refused {
    fn from(error: datafusion::common::DataFusionError) -> Self {
        Self::new(warpmill::Error::from(error).to_string())
    }
}

impl From<warpmill_format::FormatError> for Refused {
    fn from(error: warpmill_format::FormatError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<warpmill::Error> for Refused {
    fn from(error: warpmill::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// The C interface, for libraries that this crate is linked into: a reference to it keeps its symbol.
pub fn engine() -> *const abi::Engine {
    abi::warpmill_duckdb_engine()
}
