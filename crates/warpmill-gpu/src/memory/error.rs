//! Why a program was not run to its end on the device.

use warpmill_eval::ExecError;
use warpmill_ir::Unsupported;

use crate::device::DeviceError;

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
    /// Another device that has a part of the query failed first, or does not come to its turn: it has the reason.
    #[error("{0}")]
    Peer(&'static str),
    /// The host's part failed.
    #[error(transparent)]
    Exec(#[from] ExecError),
}

/// The result of running on a device.
pub type Result<T, E = Failure> = std::result::Result<T, E>;
