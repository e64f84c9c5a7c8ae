//! Reasons why a program did not complete on the device.

use warpmill_eval::ExecError;
use warpmill_ir::Unsupported;

use crate::device::DeviceError;

/// The reason why a program did not complete on the device.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The device back end does not support it.
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
    /// It does not fit the device's memory.
    #[error("{what} needs {requested} bytes of device memory, {available} are left")]
    #[allow(missing_docs, reason = "fields are named in the message")]
    Memory { what: String, requested: u64, available: u64 },
    /// Rows of hash builds exceed the allowed page-locked memory.
    #[error(
        "rows of hash builds need {requested} bytes of page-locked memory, {available} may be used (warpmill.pinned_memory_limit)"
    )]
    #[allow(missing_docs, reason = "fields are named in the message")]
    HostMemory { requested: u64, available: u64 },
    /// Rows handed to the CPU back end exceed its memory limit.
    #[error(
        "rows for the CPU back end take {bytes} bytes, {limit} may be used (warpmill.memory_limit, or half of what the host has free)"
    )]
    #[allow(missing_docs, reason = "fields are named in the message")]
    HostRows { bytes: u64, limit: u64 },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A value raised a SQL error, or needs a feature of the CPU back end, where the program is run to tell.
    #[error("a value needs the CPU back end (code {0})")]
    Value(u32),
    /// Column chunks of a remote file differ from what its footer promises: the file must be read before the program is laid out.
    #[error("a remote file is not what its footer lets expect")]
    Unforeseen,
    /// Another device with a part of the query failed first, or was not admitted: that device has the reason.
    #[error("{0}")]
    Peer(&'static str),
    /// The host's part failed.
    #[error(transparent)]
    Exec(#[from] ExecError),
}

/// The result of running on a device.
pub type Result<T, E = Failure> = std::result::Result<T, E>;
