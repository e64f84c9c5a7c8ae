//! Python exceptions, and which engine error becomes which.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

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
create_exception!(warpmill, FallbackError, Error, "Warpmill cannot run an operator and warpmill.fallback is 'error'.");
create_exception!(warpmill, CorruptDataError, Error, "Stored data does not match its checksum or its format.");
create_exception!(warpmill, IngestError, Error, "A source file or frame cannot be read into a table.");
create_exception!(warpmill, IOError, Error, "The operating system refused a file operation.");
create_exception!(warpmill, SettingError, Error, "A setting is unknown or its value is not valid.");
create_exception!(warpmill, InterruptError, Error, "The query was cancelled.");

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("ParserError", py.get_type::<ParserError>())?;
    module.add("BinderError", py.get_type::<BinderError>())?;
    module.add("CatalogError", py.get_type::<CatalogError>())?;
    module.add("ExecutionError", py.get_type::<ExecutionError>())?;
    module.add("OutOfMemoryError", py.get_type::<OutOfMemoryError>())?;
    module.add("FallbackError", py.get_type::<FallbackError>())?;
    module.add("CorruptDataError", py.get_type::<CorruptDataError>())?;
    module.add("IngestError", py.get_type::<IngestError>())?;
    module.add("IOError", py.get_type::<IOError>())?;
    module.add("SettingError", py.get_type::<SettingError>())?;
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
        let message = error.to_string();
        match error {
            warpmill::Error::Parse(_) => ParserError::new_err(message),
            warpmill::Error::Catalog(_) => CatalogError::new_err(message),
            warpmill::Error::Fallback(_) => FallbackError::new_err(message),
            warpmill::Error::Cancelled => InterruptError::new_err(message),
            _ => ExecutionError::new_err(message),
        }
    }
}
