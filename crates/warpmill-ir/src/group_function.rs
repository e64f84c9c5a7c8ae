//! Functions of all rows of a group that are texts: the host's language, translated to C++ (docs/udf.md).

use std::sync::Arc;

use crate::expr::Expr;
use crate::types::ColType;

/// A translated function. The text depends on its code and on the types of its columns only: constants from outside of it are parameters.
#[derive(Debug, PartialEq)]
pub struct GroupFunction {
    /// The name that it is called by.
    pub name: String,
    /// `namespace udf { ... }` with `run<P>(const Launch&, i64 group)`.
    pub text: Arc<str>,
    /// Constants that are whole numbers or truth values, by their numbers in the text.
    pub whole: Vec<i64>,
    /// Constants that are floats.
    pub floats: Vec<f64>,
}

/// A call of such a function.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCall {
    /// The function.
    pub function: Arc<GroupFunction>,
    /// Its columns over the input columns: truth values, integers of at most 64 bits or floats of 64, as the text has them.
    pub arguments: Vec<Expr>,
    /// The type of the results: a float of 64 bits, an integer of 32 or 64, or a truth value. They may be NULL.
    pub ty: ColType,
}
