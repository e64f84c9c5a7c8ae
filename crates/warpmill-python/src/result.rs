//! A finished query: its rows and its profile.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StructArray};
use arrow::datatypes::{Field, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyTuple};
use pyo3_arrow::ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule};
use warpmill::{
    Form, QueryProfile, QueryResult, column_type, given_schema, schema_without_states, with_schema, without_states,
};

use crate::errors::{Error, guarded};
use crate::values::{self, arrow_error};
use crate::write::{self, Format};

/// Rows in Arrow batches; exports them without a copy through the Arrow C stream interface.
#[pyclass(name = "QueryResult", module = "warpmill._warpmill", frozen)]
pub(crate) struct PyQueryResult {
    schema: SchemaRef,
    types: Vec<String>,
    batches: Vec<RecordBatch>,
    profile: Option<Arc<QueryProfile>>,
    notices: Vec<String>,
    /// The form of UUIDs for readers of Arrow.
    form: Form,
}

impl PyQueryResult {
    pub(crate) fn new(result: QueryResult) -> PyResult<Self> {
        let types = result.schema.fields().iter().map(|field| column_type(field.data_type())).collect();
        let schema = Arc::new(schema_without_states(&result.schema));
        let batches = result.batches.into_iter().map(without_states).collect::<Result<_, _>>().map_err(arrow_error)?;
        Ok(Self { schema, types, batches, profile: result.profile, notices: result.notices, form: Form::Texts })
    }

    /// The same rows in another form for readers of Arrow.
    fn of_form(&self, form: Form) -> Self {
        let (schema, types, batches) = (Arc::clone(&self.schema), self.types.clone(), self.batches.clone());
        Self { schema, types, batches, profile: None, notices: vec![], form }
    }

    /// The schema for readers of Arrow.
    fn given(&self) -> SchemaRef {
        given_schema(&self.schema, self.form)
    }
}

#[pymethods]
impl PyQueryResult {
    /// Column names.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Column types, named as in Arrow, except states of aggregates.
    #[getter]
    fn types(&self) -> Vec<String> {
        self.types.clone()
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The query's profile, as JSON.
    #[getter]
    fn profile(&self) -> PyResult<Option<String>> {
        let json = |profile| serde_json::to_string(profile).map_err(|error| Error::new_err(error.to_string()));
        self.profile.as_deref().map(json).transpose()
    }

    /// The parts of the statement that were ignored or changed.
    #[getter]
    fn notices(&self) -> Vec<String> {
        self.notices.clone()
    }

    /// The same rows, with nullable columns in a table created from them.
    fn nullable(&self) -> PyResult<Self> {
        let fields = self.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), self.schema.metadata().clone()));
        let batches = self.batches.iter().map(|batch| batch.clone().with_schema(Arc::clone(&schema)));
        let batches = batches.collect::<Result<_, _>>().map_err(arrow_error)?;
        Ok(Self { schema, types: self.types.clone(), batches, profile: None, notices: vec![], form: Form::Exact })
    }

    /// The same rows, as the source of a table: UUIDs and ENUMs are kept.
    fn exact(&self) -> Self {
        self.of_form(Form::Exact)
    }

    /// The same rows, with UUIDs as the Arrow extension type `arrow.uuid` instead of texts.
    fn with_uuids(&self) -> Self {
        self.of_form(Form::Extension)
    }

    /// Up to `count` rows from row `offset` on.
    fn rows<'py>(&self, py: Python<'py>, offset: usize, count: usize) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        guarded(|| {
            let (mut skip, mut left) = (offset, count);
            let mut rows = Vec::new();
            let shown = given_schema(&self.schema, Form::Values);
            for batch in &self.batches {
                let start = skip.min(batch.num_rows());
                let take = left.min(batch.num_rows() - start);
                let batch = with_schema(batch.slice(start, take), &shown).map_err(arrow_error)?;
                rows.extend(values::rows(py, &batch, 0, take)?);
                skip -= start;
                left -= take;
            }
            Ok(rows)
        })
    }

    /// The rows as CSV, JSON (one object a line) or Parquet: written to `path`, otherwise returned.
    #[pyo3(signature = (kind, path=None))]
    fn write<'py>(&self, py: Python<'py>, kind: &str, path: Option<PathBuf>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let format: Format = kind.parse()?;
        match path {
            Some(path) => {
                py.detach(|| guarded(|| write::to_file(&self.schema, &self.batches, format, &path)))?;
                Ok(None)
            }
            None => {
                let bytes = py.detach(|| guarded(|| write::to_bytes(&self.schema, &self.batches, format)))?;
                Ok(Some(PyBytes::new(py, &bytes)))
            }
        }
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        guarded(|| Ok(to_schema_pycapsule(py, self.given().as_ref())?))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = self.given();
        let field = Field::new_struct("", schema.fields().clone(), false).with_metadata(schema.metadata().clone());
        let arrays =
            self.batches.clone().into_iter().map(move |batch| {
                with_schema(batch, &schema).map(|batch| Arc::new(StructArray::from(batch)) as ArrayRef)
            });
        let rows = Box::new(ArrayIterator::new(arrays, field.into()));
        guarded(|| Ok(to_stream_pycapsule(py, rows, requested_schema)?))
    }
}
