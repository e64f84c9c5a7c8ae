//! Errors of the engine and of Arrow as gRPC statuses.

use std::any::Any;

use arrow_flight::error::FlightError;
use tonic::{Code, Status};
use warpmill::Error;

/// Largest size of a status text: it is sent in headers, whose size clients limit.
const MAX_TEXT: usize = 2048;

/// The status of a failed statement, with the engine's message.
pub(crate) fn of(error: &Error) -> Status {
    let code = match error {
        Error::Parse(_) | Error::Plan(_) | Error::Setting(_) | Error::Execution(_) => Code::InvalidArgument,
        Error::Catalog(text) if text.contains("already exists") => Code::AlreadyExists,
        Error::Catalog(_) => Code::NotFound,
        Error::Constraint(_) => Code::FailedPrecondition,
        Error::Fallback(_) | Error::NotImplemented(_) => Code::Unimplemented,
        Error::OutOfMemory(_) | Error::Limit(_) => Code::ResourceExhausted,
        Error::Cancelled => Code::Cancelled,
        Error::Format(error) => of_format(error),
        Error::Worker { .. } => Code::Unavailable,
        Error::Remote(error) => match error.reason {
            warpmill::RemoteReason::NotFound | warpmill::RemoteReason::Nothing => Code::NotFound,
            warpmill::RemoteReason::Changed => Code::Aborted,
            warpmill::RemoteReason::Forbidden => Code::PermissionDenied,
            warpmill::RemoteReason::BadUrl(_) | warpmill::RemoteReason::NoListing => Code::InvalidArgument,
            _ => Code::Unavailable,
        },
        Error::Io(_) | Error::Internal(_) | Error::Other(_) => Code::Internal,
    };
    new(code, error.to_string())
}

fn of_format(error: &warpmill::FormatError) -> Code {
    use warpmill::FormatError;
    match error {
        FormatError::Locked { .. }
        | FormatError::Replaced { .. }
        | FormatError::Changed { .. }
        | FormatError::Ended => Code::Aborted,
        FormatError::Cancelled => Code::Cancelled,
        FormatError::Corrupt { .. } => Code::DataLoss,
        FormatError::NotNull { .. } | FormatError::Constraint(_) => Code::FailedPrecondition,
        FormatError::Memory(_) => Code::ResourceExhausted,
        FormatError::Input { .. } | FormatError::Schema { .. } => Code::InvalidArgument,
        FormatError::Catalog(_) => Code::NotFound,
        FormatError::Codec { .. } => Code::Unimplemented,
        FormatError::Io { .. } | FormatError::Arrow(_) => Code::Internal,
    }
}

/// A status whose text is truncated to fit a header.
pub(crate) fn new(code: Code, text: impl Into<String>) -> Status {
    let mut text = text.into();
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text.push_str(" ...");
    }
    Status::new(code, text)
}

/// The status of a panic. Its message is not sent to clients, since it may contain other clients' values.
pub(crate) fn of_panic(panic: &(dyn Any + Send), work: &str) -> Status {
    match warpmill::out_of_memory(panic) {
        Some(error) => of(&error),
        None => Status::internal(format!("the server failed at this {work}")),
    }
}

/// The status for a stream of batches that failed.
pub(crate) fn of_stream(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => of_transport(*status),
        error => new(Code::InvalidArgument, format!("the stream of batches is malformed: {error}")),
    }
}

/// tonic says `OUT_OF_RANGE` of messages that are too large; gRPC's own definition is `RESOURCE_EXHAUSTED`.
pub(crate) fn of_transport(status: Status) -> Status {
    match status.code() {
        Code::OutOfRange if status.message().contains("message length too large") => {
            Status::resource_exhausted(status.message())
        }
        _ => status,
    }
}

/// A message that does not decode.
pub(crate) fn malformed(what: &str, error: impl std::fmt::Display) -> Status {
    new(Code::InvalidArgument, format!("{what} is malformed: {error}"))
}

pub(crate) fn internal(error: impl std::fmt::Display) -> Status {
    new(Code::Internal, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lack_of_memory_is_told_of_panics() {
        let error = std::io::ErrorKind::OutOfMemory.into();
        let status = of_panic(&warpmill::NoMemory { bytes: 7, error }, "request");
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("7 bytes"), "{status}");
        let status = of_panic(&"a secret", "request");
        assert_eq!((status.code(), status.message()), (Code::Internal, "the server failed at this request"));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let status = of(&Error::Plan("ä".repeat(5000)));
        assert!(status.message().len() < 2100 && status.message().ends_with("ä ..."));
        assert_eq!(status.code(), Code::InvalidArgument);
    }
}
