//! The **pipeline program** that both back ends execute. `warpmill-translate` makes it from DataFusion physical plans.
//!
//! - [`types`]: logical type + physical representation + proven value range of every expression;
//! - [`expr`]: expressions with three-valued logic;
//! - [`recoding`]: strings computed once per combination of dictionary codes;
//! - [`program`]: pipelines (source, streaming operators) and sinks (pipeline breakers);
//! - [`graph`]: the sinks that pipelines feed, read and probe;
//! - [`derived`]: values derived from a program, kept as long as it lives;
//! - [`mod@equal_sinks`]: removal of pipelines that repeat earlier ones;
//! - [`mod@display`]: the text form, printed by `EXPLAIN` and checked by snapshot tests;
//! - [`mod@needed_columns`]: removal of unused columns;
//! - [`pairs`]: aggregates of pairs of numbers;
//! - [`pruning`]: rows that scans need not read, from metadata;
//! - [`route`]: assignment of rows to parts;
//! - [`scalar`]: scalar functions on one value;
//! - [`validate`]: checks of a program's invariants;
//! - [`window`]: window functions and their frames.
//!
//! An operator has one meaning, defined here, and one implementation per back end.

pub mod derived;
pub mod display;
pub mod equal_keys;
pub mod equal_sinks;
pub mod expr;
mod filters;
pub mod graph;
pub mod group_function;
pub mod key_range;
pub mod needed_columns;
pub mod origin;
pub mod pairs;
pub mod program;
pub mod pruning;
pub mod recoding;
pub mod route;
pub mod scalar;
pub mod types;
pub mod validate;
pub mod window;

pub use expr::{ArithOp, CompareOp, Expr, ExprKind, Function, Scalar};
pub use group_function::{FunctionCall, GroupFunction};
pub use pairs::PairFunction;
pub use program::{
    AggregateExpr, AggregateFunction, Asof, Bound, BuildRows, Field, JoinKind, Nearest, Operator, Pipeline, Probe,
    Program, PruneKey, Range, Scan, Sink, SinkId, SortKey, Source,
};
pub use pruning::PruningMode;
pub use recoding::Recoding;
pub use route::Route;
pub use types::{ColType, Phys};
pub use window::{Exclude, Frame, FrameBound, FrameUnits, WindowCall, WindowFunction};

/// The reason why Warpmill cannot run a plan, with the operator or expression at fault.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("{operator}: {reason}")]
pub struct Unsupported {
    /// The DataFusion operator or expression.
    pub operator: String,
    /// The reason.
    pub reason: String,
}

impl Unsupported {
    /// An `Unsupported` from anything printable.
    pub fn new(operator: impl ToString, reason: impl ToString) -> Self {
        Self { operator: operator.to_string(), reason: reason.to_string() }
    }
}
