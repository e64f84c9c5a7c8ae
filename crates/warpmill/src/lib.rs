//! Warpmill: analytical SQL over compressed segments.
//!
//! A [`Session`] takes SQL and gives Arrow batches:
//!
//! ```no_run
//! # fn main() -> warpmill::Result<()> {
//! let session = warpmill::Session::builder().database("data/").build()?;
//! session.execute("CREATE TABLE t AS SELECT * FROM 'orders.parquet'", &[])?;
//! let result = session.execute("SELECT status, count(*) FROM t GROUP BY status", &[])?;
//! # Ok(())
//! # }
//! ```
//!
//! A DataFusion `SessionContext` that exists already is accelerated by [`accelerate()`].
//!
//! DataFusion parses, binds and optimizes; [`offload`] replaces the parts of plans that Warpmill runs by [`offload::WarpmillExec`] and leaves the
//! rest to DataFusion; [`join_order`] decides the order of joins.

pub mod accelerate;
mod asof;
mod bounded;
mod calibrate;
pub mod catalog;
mod commit;
mod dialect;
pub mod distribution;
pub mod error;
mod files;
mod inserts;
pub mod join_order;
pub mod offload;
mod once;
mod panics;
pub mod pieces;
pub mod plan_cache;
pub mod planning;
pub mod profile;
pub mod rebuilt;
mod recursion;
pub mod remote;
pub mod session;
pub mod settings;
mod templates;
pub mod udf;
mod visit;

pub use accelerate::{accelerate, accelerated};
pub use calibrate::{Measurement, calibrate};
pub use catalog::{TableInfo, WarpmillTable};
pub use commit::CommitGate;
pub use datafusion::common::ScalarValue;
pub use dialect::{
    Form, column_type, given_schema, is_row, received_schema, schema_without_states, value_text, with_schema,
    with_texts, without_states,
};
pub use error::{Error, Result};
pub use files::check_message;
pub use offload::Fallback;
pub use panics::{caught, caught_async, out_of_memory};
pub use profile::QueryProfile;
pub use remote::{RemoteError, RemoteReason};
pub use session::duckdb_settings::our_name as our_setting;
pub use session::{
    CancelHandle, Description, ExplainFormat, PlannedStatement, Progress, ProgressFn, QueryResult, QueryStream,
    RowStream, Session, SessionBuilder, column_default, duckdb_type,
};
pub use settings::{FallbackMode, ProgressMode, WarpmillOptions, WorkerOptions};
pub use warpmill_engine::{DeviceChoice, Ordinals};
pub use warpmill_eval::memory::NoMemory;
pub use warpmill_format::FormatError;
pub use warpmill_format::column_cache::physical_memory;
pub use warpmill_format::table::WriteOptions;
