//! Compilation of programs for a device: layouts of sinks, and the code generator that turns each pipeline into a CUDA C++ kernel.
//!
//! - [`prepared`]: a lowered and compiled program (compilation by [`functions`]), with its [`constants`], and `replay` of earlier launches;
//!   [`shapes`]: parts shared by programs that differ in constants, found by their [`identity`] and the selectivity of their [`filters`];
//! - [`buffers`]: device memory of each sink; [`plan`]: order of allocations, and results;
//! - `shares`: division of memory among sinks that do not all fit, some of which are built in parts, over `ranges` of keys; `joins`: or have their
//!   rows on the host; `split`: or leave the joins to the CPU back end;
//! - [`defer`]: deferral of sorts below joins;
//! - [`cpp`]: a typed builder of C++ statements and values;
//! - [`params`]: the kernel's parameter, a struct of literals, addresses and tables, so that a kernel's text depends only on the shape of a query;
//! - [`layout`], [`keys`], [`storage`], [`join`]: layouts of sinks, influenced by [`hints`]; [`planner`], [`aggregates`], [`estimate`], [`order`],
//!   [`partition`] choose them;
//! - [`program`]: lowers a program to kernels with the [`generator`]: [`scan`], [`source`], [`expr`], [`probe`], [`build`], [`asof`], [`group`],
//!   [`grouped`], [`wide`] with [`hashing`], [`top`], [`sort`], [`window`]; the result is a [`mod@kernel`].
//!
//! Generated code handles one row per thread. All lanes of a warp stay together: a lane without a row, or whose row was filtered out, runs along with
//! its `active` flag down, so that warp collectives always name the full mask.

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
pub mod learnt;
pub mod order;
mod own_groups;
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
