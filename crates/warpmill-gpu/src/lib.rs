//! The device back end: pipelines become generated CUDA C++ kernels, run on a GPU or on the simulated device.
//!
//! - [`device`]: memory, copies, kernels and streams behind one trait; the real GPU and the simulated device;
//! - [`codegen`]: from pipelines to kernels;
//! - [`execute`]: runs a program on a device;
//! - [`kernels`]: hand-written device functions that kernels are composed of.

pub mod codegen;
pub mod device;
pub mod execute;
pub mod kernels;
