//! The device back end: pipelines become generated CUDA C++ kernels, run on a GPU or on the simulated device.
//!
//! - [`device`]: memory, copies, kernels and streams behind one trait; the real GPU and the simulated device;
//! - [`kernels`]: hand-written device functions that kernels are composed of;
//! - [`memory`], [`data`], [`compile`], [`run`]: device memory, data of programs, compilation, execution; each depends only on those before it.

pub mod compile;
pub mod data;
pub mod device;
pub mod kernels;
pub mod memory;
pub mod run;

pub use compile::functions::end_compiling;
pub use compile::join::JoinStrategy;
pub use data::form::{DataSource, Pipelines, Representation};
pub use data::mirror::{MirrorOptions, MirrorProfile};
pub use data::policy::Policy;
pub use memory::error::Failure;
pub use run::exchange::Lacking;
pub use run::executor::{Executor, default_memory};
pub use run::options::{ClaimUnit, Options, SharedPart};
pub use run::peers::{Origin, PeerGroup, PeerPart, PeerReads, RunExchange};
pub use run::preview::Strategy;
pub use run::profile::DeviceProfile;
pub use run::shuffle::{Shuffle, ShufflePart};
