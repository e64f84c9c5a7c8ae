//! The connections between processes.

mod channel;
mod errors;
mod token;

pub(crate) use channel::{Access, Channels};
pub(crate) use errors::as_worker_error;
pub(crate) use token::{Token, read_token};

/// Version of the protocol between processes: changes with the meaning of messages.
const PROTOCOL: u32 = 1;

/// The header that says which version a process is of.
pub(crate) const VERSION_HEADER: &str = "x-warpmill-version";
/// The header with the query id of a task.
pub(crate) const QUERY_HEADER: &str = "x-warpmill-query";
/// The header with the time zone of the query's session.
pub(crate) const TIME_ZONE_HEADER: &str = "x-warpmill-time-zone";

/// The version of this process. Plans can only be read by the same version.
pub(crate) fn version() -> String {
    format!("{} protocol {PROTOCOL}", env!("CARGO_PKG_VERSION"))
}
