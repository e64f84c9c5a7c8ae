//! Programs compiled for a device: how their sinks are laid out, and the code generator, by which a pipeline becomes one CUDA C++ kernel.
//!
//! - [`prepared`]: a program lowered and compiled (by [`functions`]), with its [`constants`], and `replay` for launches that were made before;
//!   [`shapes`]: what programs that differ in constants share of it, found by their [`identity`] and what is expected of their [`filters`];
//! - [`buffers`]: what each sink needs in device memory; [`plan`]: in which order it is allocated, and what comes back;
//! - `shares`: how much of it each sink gets where they do not all fit, and which of them are made in parts, over `ranges` of keys;
//!   `joins`: or have their rows on the host instead; `split`: or leave the joins to the CPU back end;
//! - [`defer`]: sorts below joins, moved to the end;
//! - [`cpp`]: a typed builder of C++ statements and values;
//! - [`params`]: the kernel's one parameter, a struct whose members are literals, addresses and tables, so that a kernel's
//!   text depends on the shape of a query only;
//! - [`layout`], [`keys`], [`storage`], [`join`]: how sinks lie in device memory, by [`hints`]; [`planner`], [`aggregates`], [`estimate`],
//!   [`order`], [`partition`] decide;
//! - [`program`]: from a program to kernels, by way of the [`generator`]: [`scan`], [`source`], [`expr`], [`probe`], [`build`],
//!   [`asof`], [`group`], [`grouped`], [`wide`] with [`hashing`], [`top`], [`sort`], [`window`]; each ends in a [`mod@kernel`].
//!
//! Generated code handles one row per thread. All lanes of a warp stay together: a row that is not there, or that a
//! predicate dropped, runs along with its `active` flag down, so that warp collectives always name the full mask.

pub mod aggregates;
pub mod asof;
pub mod buffers;
pub mod build;
pub mod constants;
pub mod cpp;
pub mod defer;
pub mod estimate;
pub mod expr;
pub mod filters;
pub mod functions;
pub mod generator;
pub mod group;
pub mod grouped;
pub mod hashing;
pub mod hints;
pub mod identity;
pub mod join;
pub(crate) mod joins;
pub mod kernel;
pub mod keys;
pub mod layout;
pub mod order;
pub mod params;
pub mod partition;
pub mod plan;
pub mod planner;
pub mod prepared;
pub mod probe;
pub mod program;
pub(crate) mod ranges;
pub(crate) mod replay;
pub mod scan;
pub mod scan_shape;
pub mod shapes;
pub(crate) mod shares;
pub mod sort;
pub mod source;
pub(crate) mod split;
pub mod storage;
pub mod top;
pub mod updates;
pub mod wide;
pub mod window;
