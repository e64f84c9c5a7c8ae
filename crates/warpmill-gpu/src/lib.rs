//! The device back end: pipelines become generated CUDA C++ kernels, run on a GPU or on the simulated device.
//!
//! - [`device`]: memory, copies, kernels and streams behind one trait; the real GPU and the simulated device;
//! - [`codegen`]: from pipelines to kernels.

pub mod codegen;
pub mod device;
