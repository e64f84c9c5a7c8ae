//! How a table on disk is stored, and what devices there are.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use warpmill_format::Table;

use crate::errors::{Error, format_error};

/// One dict per column of the table in `directory`: name, type, encodings and their segments, dictionary entries,
/// rows, nulls, distinct values, bytes as stored and as plain columns.
#[pyfunction]
pub(crate) fn inspect(py: Python<'_>, directory: PathBuf) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let columns =
        py.detach(|| Ok(Table::open(&directory)?.snapshot()?.columns())).map_err(|error| format_error(&error))?;
    columns
        .into_iter()
        .map(|column| {
            let dict = PyDict::new(py);
            dict.set_item("name", &column.name)?;
            dict.set_item("type", column.data_type.to_string())?;
            dict.set_item("encodings", &column.encodings)?;
            dict.set_item("dictionary", column.dictionary)?;
            dict.set_item("rows", column.stats.rows)?;
            dict.set_item("nulls", column.stats.nulls)?;
            dict.set_item("distinct", column.stats.distinct)?;
            dict.set_item("stored_bytes", column.stats.stored_bytes)?;
            dict.set_item("plain_bytes", column.stats.plain_bytes)?;
            Ok(dict)
        })
        .collect()
}

/// GPUs, kernel compilers and the simulated device, as JSON.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<String> {
    let found = py.detach(warpmill_engine::devices);
    serde_json::to_string(&found).map_err(|error| Error::new_err(error.to_string()))
}

/// Makes devices forget the data that they keep between queries.
#[pyfunction]
pub(crate) fn clear_device_caches(py: Python<'_>) {
    py.detach(warpmill_engine::clear_device_caches);
}
