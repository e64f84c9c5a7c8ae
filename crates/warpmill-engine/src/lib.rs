//! Runs programs: chooses the back end, gives it workers and memory, turns its rows into Arrow batches, and reports what
//! happened.

mod device;
mod execute;
mod explain;
mod profile;

pub use device::{DeviceChoice, Devices, Gpu, NvrtcLibrary, clear_device_caches, devices, has_device};
pub use execute::{DeviceProgram, EngineError, ExecutionContext, QueryOutput, RowsInFiles, execute};
pub use explain::{Kernels, Placement, kernels, placement, pruning};
pub use profile::QueryProfile;
pub use warpmill_cpu::compaction::Compaction;
pub use warpmill_cpu::profile::{OperatorProfile, PipelineProfile};
pub use warpmill_cpu::source::InputStream;
pub use warpmill_cpu::spill::SpillSettings;
pub use warpmill_eval::ExecError;
pub use warpmill_eval::cancel::CancelToken;
/// The device back end, for what is done with devices rather than with queries: benchmarks, compilers, tests.
pub use warpmill_gpu;
pub use warpmill_gpu::{DataSource, JoinStrategy, Pipelines, Representation};
