//! Substrait plans in and out (Substrait specification, <https://substrait.io>).
//!
//! A plan from another system runs like a query text: it is optimized, accelerated by Warpmill where possible, and profiled.
//!
//! ```no_run
//! # fn main() -> warpmill_substrait::Result<()> {
//! let session = warpmill::Session::builder().database("data/").build()?;
//! let plan = warpmill_substrait::from_bytes(&std::fs::read("plan.bin").unwrap())?;
//! let result = warpmill_substrait::execute(&session, &plan)?;
//! println!("{}", warpmill_substrait::explain(&session, &plan, false)?);
//! let plan = warpmill_substrait::to_plan(&session, "SELECT count(*) FROM orders")?;
//! # Ok(())
//! # }
//! ```
//!
//! [`conformance()`] lists the supported forms; everything else is refused with an error that names it ([`SubstraitError`]). Table and column names
//! that the session lacks are matched ignoring case, and columns may be nullable although the plan declares them as not nullable: both occur in plans
//! from Calcite.

mod conformance;
mod declarations;
mod decode;
mod error;
mod functions;
mod reader;
mod writer;

use std::panic::{AssertUnwindSafe, catch_unwind};

use datafusion::logical_expr::LogicalPlan;
use warpmill::{QueryResult, Session};

pub use conformance::conformance;
pub use datafusion_substrait::substrait::proto;
pub use datafusion_substrait::substrait::proto::Plan;
pub use declarations::WARPMILL_URN;
pub use decode::{from_bytes, from_json, to_bytes, to_json};
pub use error::{FunctionName, Result, SubstraitError};
pub use writer::to_plan;

/// Translates `plan` to a logical plan of DataFusion over the tables of `session`.
///
/// # Errors
/// [`SubstraitError`] for missing, contradictory or unsupported parts.
pub fn logical_plan(session: &Session, plan: &Plan) -> Result<LogicalPlan> {
    // Plans come from outside. The reader checks their values; DataFusion's builders panic on invalid ones.
    let read = catch_unwind(AssertUnwindSafe(|| reader::read(session, plan)));
    read.unwrap_or_else(|_| error::invalid("DataFusion cannot build it"))
}

/// Runs a plan to its end.
///
/// # Errors
/// The errors of [`logical_plan`], and [`SubstraitError::Session`] if planning or execution fails.
pub fn execute(session: &Session, plan: &Plan) -> Result<QueryResult> {
    let plan = logical_plan(session, plan)?;
    Ok(session.block_on(session.execute_plan(plan))?)
}

/// The logical plan of a plan, and its explanation as by [`Session::explain`].
///
/// # Errors
/// The errors of [`execute`].
pub fn explain(session: &Session, plan: &Plan, analyze: bool) -> Result<String> {
    let plan = logical_plan(session, plan)?;
    let physical = session.block_on(session.explain_plan(&plan, analyze))?;
    Ok(format!("== logical plan ==\n{}\n\n{physical}", plan.display_indent()))
}
