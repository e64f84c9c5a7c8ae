//! The code generator: a pipeline becomes one CUDA C++ kernel.
//!
//! - [`cpp`]: a typed builder of C++ statements and values;
//! - [`params`]: the kernel's one parameter, a struct whose members are literals, addresses and tables, so that a kernel's
//!   text depends on the shape of a query only;
//! - [`library`]: the hand-written device functions that generated code composes;
//! - [`layout`], [`keys`], [`storage`], [`join`]: how sinks lie in device memory; [`planner`], [`aggregates`], [`estimate`],
//!   [`order`], [`partition`] decide;
//! - [`program`]: from a program to kernels, by way of the [`generator`]: [`scan`], [`source`], [`expr`], [`probe`], [`build`],
//!   [`group`], [`wide`] with [`hashing`], [`top`], [`sort`]; each ends in a [`mod@kernel`].
//!
//! Generated code handles one row per thread. All lanes of a warp stay together: a row that is not there, or that a
//! predicate dropped, runs along with its `active` flag down, so that warp collectives always name the full mask.

pub mod aggregates;
pub mod build;
pub mod cpp;
pub mod estimate;
pub mod expr;
pub mod generator;
pub mod group;
pub mod hashing;
pub mod join;
pub mod kernel;
pub mod keys;
pub mod layout;
pub mod order;
pub mod params;
pub mod partition;
pub mod planner;
pub mod probe;
pub mod program;
pub mod scan;
pub mod scan_shape;
pub mod sort;
pub mod source;
pub mod storage;
pub mod top;
pub mod updates;
pub mod wide;
