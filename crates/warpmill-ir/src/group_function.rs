//! User-defined functions of all rows of a group, as text: the host's language, translated to C++ (docs/udf.md).

use std::sync::Arc;

use crate::expr::Expr;
use crate::types::ColType;

/// A translated function. The text depends only on the function's code and its columns' types: constants from outside are parameters.
#[derive(Debug, PartialEq)]
pub struct GroupFunction {
    /// The name in calls.
    pub name: String,
    /// `namespace udf { ... }` with `run<P>(const Launch&, i64 group)`.
    pub text: Arc<str>,
    /// Constants that are integers or booleans, by number in the text.
    pub whole: Vec<i64>,
    /// Constants that are floats, by number in the text.
    pub floats: Vec<f64>,
}

/// A call of such a function.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCall {
    /// The function.
    pub function: Arc<GroupFunction>,
    /// The argument columns, over the input columns: booleans, integers of at most 64 bits or 64-bit floats, as in the text.
    pub arguments: Vec<Expr>,
    /// The type of the results: a 64-bit float, an integer of 32 or 64 bits, or a boolean; nullable.
    pub ty: ColType,
}
