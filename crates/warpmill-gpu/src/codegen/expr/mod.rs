//! Expressions to C++.

use warpmill_plan::{Expr, Unsupported};

use super::cpp::{Code, Value};
use super::params::Params;

/// What the generator of an expression works with.
pub struct Context<'a> {
    /// Takes the statements.
    pub code: &'a mut Code,
    /// Takes literals and tables.
    pub params: &'a mut Params,
    /// The columns of the operator's input: present (as variables of an enclosing scope) for every column that the
    /// expression reads.
    pub columns: &'a [Option<Value>],
    /// A `bool` operand: whether this thread has a row. Where it is false columns hold anything, nothing may be
    /// reported as an error and no memory be read through what they hold.
    pub guard: String,
}

/// Adds the statements that compute `expr` for the current row, and gives its value.
///
/// # Errors
/// What the device cannot compute.
pub fn emit(expr: &Expr, context: &mut Context<'_>) -> Result<Value, Unsupported> {
    let _ = context;
    Err(Unsupported::new(expr, "no expressions yet"))
}
