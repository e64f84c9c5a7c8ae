//! `Session`, the native object behind a Python connection.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{RecordBatch, RecordBatchReader};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::input::AnyRecordBatch;
use warpmill::udf::FunctionDefinition;
use warpmill::{CommitGate, ExplainFormat, Progress, ProgressFn, Session, WriteOptions};
use warpmill_datagen::Suite;

use crate::bench::{datagen_error, generated};
use crate::errors::{EngineError, guarded};
use crate::functions::{self, Calls};
use crate::layout::Layout;
use crate::params;
use crate::result::PyQueryResult;
use crate::run::{Reporter, run};
use crate::values::arrow_error;

/// A session of the engine; safe to use from several threads.
#[pyclass(name = "Session", module = "warpmill._warpmill", frozen)]
pub(crate) struct PySession {
    session: Session,
    calls: Arc<Calls>,
}

impl PySession {
    /// Runs `work` with Ctrl-C bound to this session's cancellation.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        py: Python<'_>,
        reporter: &Reporter,
        work: impl FnOnce(&Session) -> Result<T, EngineError> + Send + 'static,
    ) -> PyResult<T> {
        let (session, handle, gate) = (self.session.clone(), self.session.cancel_handle(), CommitGate::default());
        let shared = gate.clone();
        let interrupt = |look: &mut dyn FnMut() -> PyResult<()>| {
            gate.cancel_if(look).inspect_err(|_| {
                handle.cancel();
                self.calls.interrupt(py);
            })
        };
        run(py, reporter, interrupt, move || shared.scope_sync(|| work(&session)))
    }
}

/// The engine's progress events as counters of `reporter`.
fn progress(reporter: &Reporter) -> Option<ProgressFn> {
    let counters = Arc::clone(&reporter.progress);
    Some(Arc::new(move |progress: Progress| {
        counters.done.store(progress.rows, Ordering::Relaxed);
        if let Some(total) = progress.total {
            counters.total.store(total, Ordering::Relaxed);
        }
    }))
}

#[pymethods]
impl PySession {
    #[new]
    fn new(
        py: Python<'_>,
        database: Option<PathBuf>,
        threads: Option<usize>,
        memory_limit: Option<usize>,
        settings: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let build = || {
            let mut builder = Session::builder();
            if let Some(path) = database {
                builder = builder.database(path);
            }
            if let Some(threads) = threads {
                builder = builder.threads(threads);
            }
            if let Some(bytes) = memory_limit {
                builder = builder.memory_limit(bytes);
            }
            for (key, value) in &settings {
                builder = builder.set(key, value);
            }
            Ok(Self { session: builder.build().map_err(EngineError)?, calls: Arc::default() })
        };
        py.detach(|| guarded(build))
    }

    /// Runs one statement to its end. `params`: None, a sequence, or a dict. `progress_callback(rows, total)` is called at intervals.
    #[pyo3(signature = (sql, params, progress_callback=None))]
    fn execute(
        &self,
        py: Python<'_>,
        sql: String,
        params: &Bound<'_, PyAny>,
        progress_callback: Option<Py<PyAny>>,
    ) -> PyResult<PyQueryResult> {
        guarded(|| {
            let (sql, params) = if params.is_none() { (sql, Vec::new()) } else { params::bind(&sql, params)? };
            let session = self.session.clone();
            let reporter = Reporter::looking(progress_callback, move || session.progress());
            let result = self.run(py, &reporter, move |session| Ok(session.execute(&sql, &params)?))?;
            PyQueryResult::new(result)
        })
    }

    /// Whether BEGIN has begun a transaction that has not ended.
    fn is_in_transaction(&self) -> bool {
        self.session.is_in_transaction()
    }

    /// When progress is shown: "on", "off" or "auto".
    fn progress_mode(&self) -> &'static str {
        self.session.progress_mode().name()
    }

    /// Names of all functions that SQL can call.
    fn function_names(&self) -> PyResult<Vec<String>> {
        guarded(|| Ok(self.session.function_names()))
    }

    /// The plan of a query in each of these formats; with `analyze` the query runs once.
    fn explain_as(&self, py: Python<'_>, sql: String, analyze: bool, formats: Vec<String>) -> PyResult<Vec<String>> {
        self.run(py, &Reporter::new(None), move |session| {
            let formats =
                formats.iter().map(|name| ExplainFormat::named(name)).collect::<warpmill::Result<Vec<_>>>()?;
            Ok(session.explain_as(&sql, analyze, &formats)?)
        })
    }

    fn explain(&self, py: Python<'_>, sql: String, analyze: bool) -> PyResult<String> {
        self.run(py, &Reporter::new(None), move |session| Ok(session.explain(&sql, analyze)?))
    }

    fn explain_kernels(&self, py: Python<'_>, sql: String) -> PyResult<String> {
        self.run(py, &Reporter::new(None), move |session| Ok(session.explain_kernels(&sql)?))
    }

    /// Defines a function by an expression, by code of a kind ("groups", "states", "rows"), by a translator to C++, or by several of them.
    #[pyo3(signature = (name, parameters, returns, is_aggregate, expression, kind, code, translator, reason, is_volatile))]
    #[allow(clippy::too_many_arguments, reason = "Python has as many")]
    fn create_function(
        &self,
        py: Python<'_>,
        name: String,
        parameters: Vec<String>,
        returns: &str,
        is_aggregate: bool,
        expression: Option<String>,
        kind: &str,
        code: Option<Py<PyAny>>,
        translator: Option<Py<PyAny>>,
        reason: String,
        is_volatile: bool,
    ) -> PyResult<()> {
        let implementation = code.map(|code| functions::implementation(kind, code, &self.calls)).transpose()?;
        let returns = functions::returned(returns)?;
        let definition = FunctionDefinition {
            name,
            parameters,
            returns,
            is_aggregate,
            expression,
            implementation,
            translator: translator.map(functions::translator),
            reason,
            is_volatile,
        };
        py.detach(|| guarded(|| Ok(self.session.create_function(definition).map_err(EngineError)?)))
    }

    fn remove_function(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| guarded(|| Ok(self.session.remove_function(name).map_err(EngineError)?)))
    }

    /// Registers an Arrow object as a table, without a copy if its types are the engine's.
    fn register(&self, name: &str, data: &Bound<'_, PyAny>) -> PyResult<()> {
        guarded(|| {
            let reader = data.extract::<AnyRecordBatch>()?.into_reader()?;
            let schema = reader.schema();
            let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>().map_err(arrow_error)?;
            Ok(self.session.register_batches(name, schema, batches).map_err(EngineError)?)
        })
    }

    fn register_parquet(&self, py: Python<'_>, name: String, path: String) -> PyResult<()> {
        self.run(py, &Reporter::new(None), move |session| Ok(session.register_parquet(&name, &path)?))
    }

    fn register_csv(&self, py: Python<'_>, name: String, path: String) -> PyResult<()> {
        self.run(py, &Reporter::new(None), move |session| Ok(session.register_csv(&name, &path)?))
    }

    fn deregister(&self, name: &str) -> PyResult<()> {
        guarded(|| Ok(self.session.deregister(name).map_err(EngineError)?))
    }

    /// Writes an Arrow object into a table; `storage` are settings for this table. `progress(rows, total)` is called from time to time.
    #[pyo3(signature = (name, data, layout, replace, storage, progress_callback=None))]
    #[allow(clippy::too_many_arguments, reason = "Python has as many")]
    fn create_table(
        &self,
        py: Python<'_>,
        name: String,
        data: &Bound<'_, PyAny>,
        layout: Layout,
        replace: bool,
        storage: Vec<(String, String)>,
        progress_callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let reporter = Reporter::new(progress_callback);
        let reader = guarded(|| data.extract::<AnyRecordBatch>()?.into_reader())?;
        let progress = progress(&reporter);
        self.run(py, &reporter, move |session| {
            let options = layout.options(session, &storage)?;
            let schema = reader.schema();
            let batches = reader.map(|batch| batch.map_err(|error| warpmill::Error::Other(error.to_string())));
            Ok(session.create_table(&name, schema, batches, options, replace, progress)?)
        })
    }

    /// Reads Parquet or CSV files into a table; `storage` are settings for this table.
    #[pyo3(signature = (source, table, layout, storage, progress_callback=None))]
    fn import_files(
        &self,
        py: Python<'_>,
        source: String,
        table: String,
        layout: Layout,
        storage: Vec<(String, String)>,
        progress_callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let reporter = Reporter::new(progress_callback);
        let progress = progress(&reporter);
        self.run(py, &reporter, move |session| {
            let options = layout.options(session, &storage)?;
            Ok(session.import(&source, &table, options, progress)?)
        })
    }

    /// Generates a benchmark table into the session's database.
    #[pyo3(signature = (suite, table, sf, threads, progress_callback=None))]
    fn generate(
        &self,
        py: Python<'_>,
        suite: &str,
        table: String,
        sf: f64,
        threads: usize,
        progress_callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let suite: Suite = suite.parse().map_err(datagen_error)?;
        let reporter = Reporter::new(progress_callback);
        let (total, schema, batches) = guarded(|| generated(suite, &table, sf, threads))?;
        reporter.progress.total.store(total, Ordering::Relaxed);
        let counters = Arc::clone(&reporter.progress);
        self.run(py, &reporter, move |session| {
            let counted = batches.map(move |batch| {
                counters.done.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                Ok(batch)
            });
            Ok(session.create_table(&table, schema, counted, WriteOptions::default(), true, None)?)
        })
    }

    /// One dict per table.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let tables = guarded(|| Ok(self.session.tables().map_err(EngineError)?))?;
        tables
            .into_iter()
            .map(|table| {
                let dict = PyDict::new(py);
                dict.set_item("name", table.name)?;
                dict.set_item("schema", table.schema)?;
                dict.set_item("kind", table.kind)?;
                dict.set_item("rows", table.rows)?;
                dict.set_item("stored_bytes", table.stored_bytes)?;
                dict.set_item("plain_bytes", table.plain_bytes)?;
                dict.set_item("pruning_bytes", table.pruning_bytes)?;
                dict.set_item("constraints", table.constraints)?;
                Ok(dict)
            })
            .collect()
    }

    fn set(&self, key: &str, value: &str) -> PyResult<()> {
        guarded(|| Ok(self.session.set(key, value).map_err(EngineError)?))
    }

    fn settings(&self) -> PyResult<Vec<(String, String)>> {
        guarded(|| Ok(self.session.settings()))
    }

    /// Stops the session's work on other threads.
    fn interrupt(&self, py: Python<'_>) {
        self.session.cancel_handle().cancel();
        self.calls.interrupt(py);
    }
}
