//! Warpmill's own tables inside DuckDB: the engine's side of `ATTACH '...' (TYPE warpmill)`.
//!
//! A transaction of DuckDB's is one of Warpmill's, of a session of its own ([`transaction`]): its commit is atomic, and a statement without
//! BEGIN is a transaction that DuckDB begins and ends. Tables are read by row segments ([`scan`]) and written by the session ([`append`]);
//! rows go both ways through Arrow's C data interface. Accelerated queries read them without that ([`crate::input`]).

pub mod abi;
pub mod append;
pub mod bounds;
pub mod database;
pub mod scan;
pub mod table;
pub mod transaction;

#[cfg(test)]
mod tests;

use warpmill::{Error, FormatError};

use crate::Refused;

/// The class of DuckDB's exception that an error becomes. The numbers are those of `wm_failure` in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Kind {
    /// Invalid values and settings, and all other errors.
    Invalid = 1,
    /// A name that does not exist, or exists already.
    Catalog = 2,
    /// A violated constraint: NOT NULL, a key, or CHECK.
    Constraint = 3,
    /// Files that cannot be read or written, or are damaged.
    Io = 4,
    /// Too little memory.
    Memory = 5,
    /// Cancelled by the host.
    Interrupted = 6,
    /// A conflict with another writer.
    Conflict = 7,
    /// A feature that is not implemented.
    NotImplemented = 8,
    /// A mistake in Warpmill.
    Internal = 9,
}

/// An error on its way to DuckDB.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failed {
    /// The class of the exception.
    pub kind: Kind,
    /// The message.
    pub text: String,
}

impl Failed {
    /// An error of class `kind`.
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Catalog(_) => Kind::Catalog,
            Error::Constraint(_) => Kind::Constraint,
            Error::Io(_) | Error::Remote(_) => Kind::Io,
            Error::OutOfMemory(_) => Kind::Memory,
            Error::Cancelled => Kind::Interrupted,
            Error::NotImplemented(_) | Error::Fallback(_) => Kind::NotImplemented,
            Error::Internal(_) => Kind::Internal,
            Error::Format(error) => match **error {
                FormatError::Io { .. } | FormatError::Corrupt { .. } => Kind::Io,
                FormatError::Locked { .. }
                | FormatError::Replaced { .. }
                | FormatError::Changed { .. }
                | FormatError::Ended => Kind::Conflict,
                FormatError::Schema { .. } => Kind::NotImplemented,
                _ => Kind::Invalid,
            },
            _ => Kind::Invalid,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<FormatError> for Failed {
    fn from(error: FormatError) -> Self {
        Error::from(error).into()
    }
}

impl From<arrow::error::ArrowError> for Failed {
    fn from(error: arrow::error::ArrowError) -> Self {
        Error::from(error).into()
    }
}

impl From<Failed> for Refused {
    fn from(failed: Failed) -> Self {
        Self::new(failed.text)
    }
}

/// Runs `f`; a panic is an internal error.
pub(crate) fn guarded<T>(f: impl FnOnce() -> Result<T, Failed>) -> Result<T, Failed> {
    warpmill::caught(f).unwrap_or_else(|panic| Err(panic.into()))
}
