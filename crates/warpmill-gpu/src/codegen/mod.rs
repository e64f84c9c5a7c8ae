//! The code generator: a pipeline becomes one CUDA C++ kernel.
//!
//! - [`cpp`]: a typed builder of C++ statements and values;
//! - [`params`]: the kernel's one parameter, a struct whose members are literals, addresses and tables, so that a kernel's
//!   text depends on the shape of a query only;
//! - [`library`]: the hand-written device functions that generated code composes;
//! - [`expr`]: expressions.
//!
//! Generated code handles one row per thread. All lanes of a warp stay together: a row that is not there, or that a
//! predicate dropped, runs along with its `active` flag down, so that warp collectives always name the full mask.

pub mod cpp;
pub mod expr;
pub mod library;
pub mod params;

pub use cpp::{CType, Code, Value};
pub use library::Library;
pub use params::{Binding, Params};
