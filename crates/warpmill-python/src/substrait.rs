//! Substrait plans: run, explained, made.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use warpmill_substrait::{Plan, SubstraitError, from_bytes, from_json, to_bytes};

use crate::errors::EngineError;
use crate::result::PyQueryResult;
use crate::run::Reporter;
use crate::session::PySession;

/// A plan from Python: its JSON form, or its bytes.
#[derive(FromPyObject)]
pub(crate) enum Source {
    Text(String),
    Bytes(Vec<u8>),
}

impl Source {
    fn decoded(&self) -> Result<Plan, EngineError> {
        match self {
            Source::Text(text) => from_json(text),
            Source::Bytes(bytes) => from_bytes(bytes),
        }
        .map_err(engine_error)
    }
}

fn engine_error(error: SubstraitError) -> EngineError {
    EngineError(error.into())
}

#[pyfunction]
pub(crate) fn execute_substrait(py: Python<'_>, session: &PySession, plan: Source) -> PyResult<PyQueryResult> {
    let result = session.run(py, &Reporter::new(None), move |session| {
        warpmill_substrait::execute(session, &plan.decoded()?).map_err(engine_error)
    })?;
    PyQueryResult::new(result)
}

#[pyfunction]
pub(crate) fn explain_substrait(py: Python<'_>, session: &PySession, plan: Source, analyze: bool) -> PyResult<String> {
    session.run(py, &Reporter::new(None), move |session| {
        warpmill_substrait::explain(session, &plan.decoded()?, analyze).map_err(engine_error)
    })
}

#[pyfunction]
pub(crate) fn to_substrait<'py>(py: Python<'py>, session: &PySession, sql: String) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = session.run(py, &Reporter::new(None), move |session| {
        warpmill_substrait::to_plan(session, &sql).map(|plan| to_bytes(&plan)).map_err(engine_error)
    })?;
    Ok(PyBytes::new(py, &bytes))
}
