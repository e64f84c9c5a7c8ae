//! Python exceptions, and the mapping of engine errors to them.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use warpmill_format::FormatError;

create_exception!(warpmill, Error, PyException, "Base class of all errors of Warpmill.");
create_exception!(warpmill, ParserError, Error, "The SQL text cannot be parsed.");
create_exception!(warpmill, BinderError, Error, "A name, a type or a parameter in the SQL text does not fit.");
create_exception!(warpmill, CatalogError, Error, "A table does not exist, or exists already.");
create_exception!(
    warpmill,
    ExecutionError,
    Error,
    "A query failed while it ran: overflow, division by zero, bad cast."
);
create_exception!(warpmill, OutOfMemoryError, Error, "A query needs more memory than its limit.");
create_exception!(warpmill, LimitError, Error, "A statement is deeper or larger than what is planned.");
create_exception!(warpmill, FallbackError, Error, "Warpmill cannot run an operator and warpmill.fallback is 'error'.");
create_exception!(warpmill, NotSupportedError, Error, "The SQL text uses a feature that does not exist here.");
create_exception!(warpmill, ConflictError, Error, "Another writer is at work on the table.");
create_exception!(
    warpmill,
    ConstraintError,
    Error,
    "Rows do not fulfil a constraint of their table: a key, NOT NULL, CHECK."
);
create_exception!(warpmill, CorruptDataError, Error, "Stored data does not match its checksum or its format.");
create_exception!(warpmill, IngestError, Error, "A source file or frame cannot be read into a table.");
create_exception!(warpmill, IOError, Error, "The operating system refused a file operation.");
create_exception!(warpmill, WorkerError, Error, "A worker does not answer, or does not belong to the session.");
create_exception!(warpmill, SettingError, Error, "A setting is unknown or its value is not valid.");
create_exception!(
    warpmill,
    InternalError,
    Error,
    "A mistake in Warpmill: nothing was changed, and the session goes on."
);
create_exception!(warpmill, InterruptError, Error, "The query was cancelled.");

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("ParserError", py.get_type::<ParserError>())?;
    module.add("BinderError", py.get_type::<BinderError>())?;
    module.add("CatalogError", py.get_type::<CatalogError>())?;
    module.add("ExecutionError", py.get_type::<ExecutionError>())?;
    module.add("OutOfMemoryError", py.get_type::<OutOfMemoryError>())?;
    module.add("LimitError", py.get_type::<LimitError>())?;
    module.add("FallbackError", py.get_type::<FallbackError>())?;
    module.add("NotSupportedError", py.get_type::<NotSupportedError>())?;
    module.add("ConflictError", py.get_type::<ConflictError>())?;
    module.add("ConstraintError", py.get_type::<ConstraintError>())?;
    module.add("CorruptDataError", py.get_type::<CorruptDataError>())?;
    module.add("IngestError", py.get_type::<IngestError>())?;
    module.add("IOError", py.get_type::<IOError>())?;
    module.add("SettingError", py.get_type::<SettingError>())?;
    module.add("WorkerError", py.get_type::<WorkerError>())?;
    module.add("InternalError", py.get_type::<InternalError>())?;
    module.add("InterruptError", py.get_type::<InterruptError>())
}

/// An engine error on its way to Python.
pub(crate) struct EngineError(pub(crate) warpmill::Error);

impl From<warpmill::Error> for EngineError {
    fn from(error: warpmill::Error) -> Self {
        Self(error)
    }
}

impl From<EngineError> for PyErr {
    fn from(EngineError(error): EngineError) -> Self {
        use warpmill::Error as E;
        let message = error.to_string();
        match error {
            E::Parse(_) => ParserError::new_err(message),
            E::Plan(_) => BinderError::new_err(message),
            E::Catalog(_) => CatalogError::new_err(message),
            E::Constraint(_) => ConstraintError::new_err(message),
            E::Setting(_) => SettingError::new_err(message),
            E::Fallback(_) => FallbackError::new_err(message),
            E::NotImplemented(_) => NotSupportedError::new_err(message),
            E::OutOfMemory(_) => OutOfMemoryError::new_err(message),
            E::Limit(_) => LimitError::new_err(message),
            E::Cancelled => InterruptError::new_err(message),
            E::Format(error) => format_error(&error),
            E::Io(_) | E::Remote(_) => IOError::new_err(message),
            E::Worker { .. } => WorkerError::new_err(message),
            E::Execution(_) => ExecutionError::new_err(message),
            E::Internal(_) => InternalError::new_err(message),
            E::Other(_) => Error::new_err(message),
        }
    }
}

/// Runs the body of a function that Python calls: a panic is an `InternalError`, which `except Exception` catches.
pub(crate) fn guarded<T>(body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    warpmill::caught(body).map_err(EngineError)?
}

/// An error of the format layer on its way to Python.
pub(crate) fn format_error(error: &FormatError) -> PyErr {
    let message = error.to_string();
    match error {
        FormatError::Io { .. } => IOError::new_err(message),
        FormatError::Corrupt { .. } => CorruptDataError::new_err(message),
        FormatError::Input { .. } | FormatError::Schema { .. } => IngestError::new_err(message),
        FormatError::Catalog(_) => CatalogError::new_err(message),
        FormatError::Locked { .. }
        | FormatError::Replaced { .. }
        | FormatError::Changed { .. }
        | FormatError::Ended => ConflictError::new_err(message),
        FormatError::NotNull { .. } | FormatError::Constraint(_) => ConstraintError::new_err(message),
        FormatError::Memory(_) => OutOfMemoryError::new_err(message),
        FormatError::Cancelled => InterruptError::new_err(message),
        FormatError::Codec { .. } => NotSupportedError::new_err(message),
        FormatError::Arrow(_) => Error::new_err(message),
    }
}
