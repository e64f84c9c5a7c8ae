//! The explicit door: `FROM warpmill('SELECT ...')`, for processes in which no shim can be loaded.
//!
//! DuckDB's stable C interface lets an extension neither see plans nor run queries in the caller's transaction. SQL does both:
//! `query(text)` puts a text in its own place, and the text's constants are computed while the caller's statement is bound.
//! So a query becomes another one, in steps that all happen inside of the caller's statement (`plan`):
//!
//! 1. `warpmill_plan(q, json_serialize_plan(q), ...)` reads DuckDB's own plan of the query (`serialized`), which has seen the
//!    caller's search path, temporary tables and uncommitted changes of the catalog. Constant expressions in it are written
//!    as SQL again (`constant`), so that a second call gets the values that DuckDB computes.
//! 2. The call returns a SELECT that scans the tables and hands their rows to the aggregate `warpmill_take` ([`rows`]), in
//!    DuckDB's pipelines and in the caller's snapshot: nothing is kept from one statement to the next. `warpmill_run` runs the
//!    query over them ([`answer`]), and `warpmill_get_*` give its columns.
//!
//! If Warpmill does not run a query, the call returns the query's own text, and DuckDB runs it.

pub mod abi;
pub mod answer;
mod constant;
mod expression;
mod proof;
pub mod rows;
mod serialized;
mod text;

pub use text::{Request, Rewritten, first_text, rewrite};

/// The error of a query that its host has stopped. The functions of this door cannot be told to stop, so that it never occurs.
fn stopped() -> crate::Refused {
    crate::Refused::new("the query was stopped")
}
