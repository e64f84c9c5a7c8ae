//! The connections between processes.

mod channel;
mod errors;
mod token;

pub(crate) use channel::{Access, Channels};
pub(crate) use errors::as_worker_error;
pub(crate) use token::{Token, read_token};

/// Numbers the messages between processes: a change of what they mean makes a new one.
const PROTOCOL: u32 = 1;

/// The header that says which version a process is of.
pub(crate) const VERSION_HEADER: &str = "x-warpmill-version";
/// The header that says which query a task is part of.
pub(crate) const QUERY_HEADER: &str = "x-warpmill-query";
/// The header of the time zone of the session that asks.
pub(crate) const TIME_ZONE_HEADER: &str = "x-warpmill-time-zone";

/// The version of this process. Plans are understood by the same version only.
pub(crate) fn version() -> String {
    format!("{} protocol {PROTOCOL}", env!("CARGO_PKG_VERSION"))
}
