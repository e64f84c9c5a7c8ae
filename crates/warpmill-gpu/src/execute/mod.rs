//! Runs programs on a device.
//!
//! - [`memory`]: the caching region (segments, dictionaries) and the processing region (a query's tables and rows);
//! - [`chunks`]: columns of row segments as they are stored; [`segments`]: as kernels see them; [`items`]: what of them, and of dictionaries, is copied to the device;
//! - [`buffers`]: what each sink needs in device memory; [`plan`]: in which order it is allocated, and what comes back;
//! - `shares`: how much of it each sink gets where they do not all fit, and which of them are made in parts; `joins`: or have their rows on the host instead ([`mapped`]);
//!   `split`: or leave the joins to the CPU back end, for which `coexecution` runs what is below them;
//! - [`strategy`]: how all of that is expected to turn out;
//! - [`prepared`]: a program lowered and compiled;
//! - [`defer`]: sorts below joins, moved to the end;
//! - [`executor`]: runs programs, again with more room where a size was guessed too small; [`admission`]: which at once;
//!   `load`: their data, [`stream`] where it passes through, from where [`source`] says (`disk`: table files, past the page cache), in the form that [`paths`] chooses, [`mod@parquet`]
//!   where pages of Parquet are decoded then, [`undone`] for what the device decompresses, `kept` for what of it stays; `run`: one run; `launch`: its launches;
//! - [`inputs`], [`rows`]: rows to and from device memory.

pub mod admission;
pub mod buffers;
pub mod chunks;
mod coexecution;
pub mod defer;
mod disk;
pub mod executor;
pub mod inputs;
pub mod items;
mod joins;
mod kept;
mod launch;
mod load;
pub mod mapped;
pub mod memory;
pub mod parquet;
pub mod paths;
pub mod plan;
pub mod prepared;
pub mod profile;
mod prune;
pub mod rows;
mod run;
pub mod segments;
mod shares;
pub mod source;
pub mod spans;
mod split;
pub mod strategy;
pub mod stream;
pub mod undone;

use warpmill_eval::ExecError;
use warpmill_ir::Unsupported;

use crate::device::DeviceError;

pub use crate::codegen::join::{JoinPlan, JoinStrategy, JoinTimes, Side};
pub use crate::codegen::layout::Pipelines;
pub use executor::{DeviceOutput, Executor, Options, default_memory};
pub use paths::{Form, Representation};
pub use profile::{DeviceProfile, KernelProfile, PartProfile, PathProfile, TransferProfile};
pub use source::DataSource;
pub use strategy::Strategy;

/// The reason why a program was not run to its end on the device.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The device back end cannot run it.
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
    /// It does not fit the device's memory.
    #[error("{what} needs {requested} bytes of device memory, {available} are left")]
    #[allow(missing_docs, reason = "fields are named in the message")]
    Memory { what: String, requested: u64, available: u64 },
    /// Rows of hash builds do not fit the page-locked memory that there may be.
    #[error(
        "rows of hash builds need {requested} bytes of page-locked memory, {available} may be used (warpmill.pinned_memory_limit)"
    )]
    #[allow(missing_docs, reason = "fields are named in the message")]
    HostMemory { requested: u64, available: u64 },
    /// The CPU back end is to go on with more rows than it may hold.
    #[error(
        "rows for the CPU back end take {bytes} bytes, {limit} may be used (warpmill.memory_limit, or half of what the host has free)"
    )]
    #[allow(missing_docs, reason = "fields are named in the message")]
    HostRows { bytes: u64, limit: u64 },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A value raised an error of SQL's semantics, or needs what only the CPU has: running the program there tells.
    #[error("a value needs the CPU back end (code {0})")]
    Value(u32),
    /// Column chunks of a remote file are not what its footer lets expect: it has to be read before the program can be laid out.
    #[error("a remote file is not what its footer lets expect")]
    Unforeseen,
    /// The host's part failed.
    #[error(transparent)]
    Exec(#[from] ExecError),
}

/// The result of running on a device.
pub type Result<T, E = Failure> = std::result::Result<T, E>;
