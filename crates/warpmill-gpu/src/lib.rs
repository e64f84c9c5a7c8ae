//! The device back end: pipelines become generated CUDA C++ kernels, run on a GPU or on the simulated device.
//!
//! - [`device`]: memory, copies, kernels and streams behind one trait; the real GPU and the simulated device;
//! - [`codegen`]: from pipelines to kernels;
//! - [`execute`]: runs a program on a device;
//! - [`kernels`]: hand-written device functions that kernels are composed of;
//! - [`algorithm`]: sort, prefix sums and search with a host side of their own;
//! - [`mod@bench`]: micro-benchmarks of all of these.

pub mod algorithm;
pub mod bench;
pub mod codegen;
pub mod device;
pub mod execute;
pub mod kernels;

pub use codegen::join::JoinStrategy;
pub use execute::error::Failure;
pub use execute::executor::{Executor, default_memory};
pub use execute::form::{DataSource, Pipelines, Representation};
pub use execute::options::Options;
pub use execute::profile::DeviceProfile;
pub use execute::strategy::Strategy;
