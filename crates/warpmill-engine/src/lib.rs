//! Runs programs: chooses the back end, provides workers and memory, converts rows to Arrow batches, and reports a profile.

mod background;
mod barren;
mod device;
mod exchange;
mod execute;
mod explain;
mod profile;
mod shared;
mod sites;
mod trials;

pub use background::{Busy, encode_later, end_background, wait_for_background};
pub use device::{
    DeviceChoice, Devices, Gpu, GpuLink, MOST_DEVICES, NvrtcLibrary, Ordinals, clear_device_caches, device_rates,
    devices, has_device, has_open_device,
};
pub use exchange::DeviceExchange;
pub use execute::{DeviceProgram, EngineError, ExecutionContext, FirstRuns, QueryOutput, RowsInFiles, execute};
pub use explain::{Kernels, Placement, SharedPipeline, SiteDecision, kernels, on_device, placement, pruning};
pub use profile::{PredictedTimes, QueryProfile};
pub use warpmill_cpu::compaction::Compaction;
pub use warpmill_cpu::profile::{OperatorProfile, PipelineProfile};
pub use warpmill_cpu::source::InputStream;
pub use warpmill_cpu::spill::SpillSettings;
pub use warpmill_eval::ExecError;
pub use warpmill_eval::cancel::CancelToken;
pub use warpmill_eval::progress::QueryProgress;
/// The device back end, for work with devices rather than with queries: benchmarks, compilers, tests.
pub use warpmill_gpu;
pub use warpmill_gpu::{ClaimUnit, DataSource, JoinStrategy, MirrorOptions, Pipelines, Policy, Representation};
pub use warpmill_place::{Granularity, Replication};
