//! Substrait plans in and out (Substrait specification, <https://substrait.io>).
//!
//! A plan of another system runs as a query text does: optimized, on Warpmill where it can, with a profile.
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
//! [`conformance()`] lists what is understood; everything else is refused with an error that names it ([`SubstraitError`]).
//! Names of tables and columns that the session does not have are looked for in any case of letters, and columns may be
//! nullable where the plan says that they are not: both are how plans come from Calcite.

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

/// The logical plan of DataFusion that `plan` means over the tables of `session`.
///
/// # Errors
/// [`SubstraitError`] for what is missing, contradictory or not supported.
pub fn logical_plan(session: &Session, plan: &Plan) -> Result<LogicalPlan> {
    // Plans come from outside. The reader checks what it takes from them; DataFusion's builders trust their callers.
    let read = catch_unwind(AssertUnwindSafe(|| reader::read(session, plan)));
    read.unwrap_or_else(|_| error::invalid("DataFusion cannot build it"))
}

/// Runs a plan to its end.
///
/// # Errors
/// Those of [`logical_plan`], and [`SubstraitError::Session`] where planning or execution fails.
pub fn execute(session: &Session, plan: &Plan) -> Result<QueryResult> {
    let plan = logical_plan(session, plan)?;
    Ok(session.block_on(session.execute_plan(plan))?)
}

/// The logical plan that a plan means, and what [`Session::explain`] says of a query.
///
/// # Errors
/// Those of [`execute`].
pub fn explain(session: &Session, plan: &Plan, analyze: bool) -> Result<String> {
    let plan = logical_plan(session, plan)?;
    let physical = session.block_on(session.explain_plan(&plan, analyze))?;
    Ok(format!("== logical plan ==\n{}\n\n{physical}", plan.display_indent()))
}
