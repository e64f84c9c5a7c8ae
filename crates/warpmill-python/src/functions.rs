//! User-defined functions in Python: how the engine calls them.
//!
//! The code takes and returns pyarrow arrays; Python (`warpmill.udf.called`) converts them. Exceptions raised there have a text that names the
//! function and the line.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, TimeUnit};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3_arrow::PyArray;
use warpmill::udf::{
    ColumnKind, FunctionCode, GroupFunction, Implementation, MachineCode, RowFunction, StateFunction, States,
    Translation, Translator,
};
use warpmill::{Error, with_texts};

use crate::values::arrow_error;

/// The threads that run Python code for a session now.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<Vec<std::ffi::c_ulong>>);

impl Calls {
    /// Raises `KeyboardInterrupt` in the code that runs.
    pub(crate) fn interrupt(&self, py: Python<'_>) {
        let exception = py.get_type::<PyKeyboardInterrupt>();
        for thread in self.threads().iter() {
            // SAFETY: the interpreter lock is held, as `py` proves, and the exception is a class. Threads that have ended are ignored.
            unsafe { pyo3::ffi::PyThreadState_SetAsyncExc(*thread as _, exception.as_ptr()) };
        }
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, Vec<std::ffi::c_ulong>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that this thread runs Python code until the result is dropped; requires the interpreter lock.
    fn enter(&self) -> Call<'_> {
        // SAFETY: has no preconditions.
        let thread = unsafe { pyo3::ffi::PyThread_get_thread_ident() };
        self.threads().push(thread);
        Call { calls: self, thread }
    }
}

struct Call<'c> {
    calls: &'c Calls,
    thread: std::ffi::c_ulong,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let mut threads = self.calls.threads();
        if let Some(at) = threads.iter().position(|thread| *thread == self.thread) {
            threads.swap_remove(at);
        }
        // SAFETY: the interpreter lock is held wherever a call ends. Clears an interrupt that came too late.
        unsafe { pyo3::ffi::PyThreadState_SetAsyncExc(self.thread as _, std::ptr::null_mut()) };
    }
}

/// A callable of a session.
struct Code {
    callable: Py<PyAny>,
    calls: Arc<Calls>,
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Python code")
    }
}

impl Code {
    /// Runs `work`, which calls Python, with the interpreter lock.
    fn run<T>(&self, work: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>) -> Result<T, Error> {
        Python::attach(|py| {
            let result = {
                let _call = self.calls.enter();
                work(py, self.callable.bind(py))
            };
            result.map_err(|error| failed(py, &error))
        })
    }

    fn array(
        &self,
        work: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<Py<PyAny>>,
    ) -> Result<ArrayRef, Error> {
        self.run(|py, callable| {
            let result = work(py, callable)?;
            let array: PyArray = result.bind(py).extract()?;
            Ok(array.into_inner().0)
        })
    }
}

fn failed(py: Python<'_>, error: &PyErr) -> Error {
    match error.is_instance_of::<PyKeyboardInterrupt>(py) {
        true => Error::Cancelled,
        false => Error::Execution(error.value(py).to_string()),
    }
}

fn pyarrow(py: Python<'_>, array: ArrayRef) -> PyResult<Py<PyAny>> {
    let array = PyArray::from_array_ref(with_texts(&array).map_err(arrow_error)?);
    Ok(array.to_pyarrow(py)?.unbind())
}

fn exported<'py>(py: Python<'py>, columns: &[ArrayRef]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for column in columns {
        list.append(pyarrow(py, Arc::clone(column))?)?;
    }
    Ok(list)
}

fn numbers(py: Python<'_>, values: impl Iterator<Item = i64>) -> PyResult<Py<PyAny>> {
    pyarrow(py, Arc::new(values.collect::<Int64Array>()))
}

impl GroupFunction for Code {
    fn call(&self, columns: &[ArrayRef], offsets: &[i64], _: &DataType) -> Result<ArrayRef, Error> {
        self.array(|py, callable| {
            let args = (exported(py, columns)?, numbers(py, offsets.iter().copied())?);
            Ok(callable.call1(args)?.unbind())
        })
    }
}

impl RowFunction for Code {
    fn call(&self, columns: &[ArrayRef], rows: usize, _: &DataType) -> Result<ArrayRef, Error> {
        self.array(|py, callable| Ok(callable.call1((exported(py, columns)?, rows))?.unbind()))
    }
}

impl StateFunction for Code {
    fn start(&self) -> Result<Box<dyn States>, Error> {
        let states = self.run(|_, callable| Ok(callable.call0()?.unbind()))?;
        Ok(Box::new(Code { callable: states, calls: Arc::clone(&self.calls) }))
    }
}

impl States for Code {
    fn update(&mut self, columns: &[ArrayRef], groups: &[usize], total: usize) -> Result<(), Error> {
        self.run(|py, states| {
            let groups = numbers(py, groups.iter().map(|group| *group as i64))?;
            states.call_method1("update", (exported(py, columns)?, groups, total)).map(drop)
        })
    }

    fn merge(&mut self, other: &ArrayRef, groups: &[usize], total: usize) -> Result<(), Error> {
        self.run(|py, states| {
            let groups = numbers(py, groups.iter().map(|group| *group as i64))?;
            states.call_method1("merge", (pyarrow(py, Arc::clone(other))?, groups, total)).map(drop)
        })
    }

    fn take(&mut self, count: usize) -> Result<ArrayRef, Error> {
        self.array(|_, states| Ok(states.call_method1("take", (count,))?.unbind()))
    }

    fn finish(&mut self, count: usize, _: &DataType) -> Result<ArrayRef, Error> {
        self.array(|_, states| Ok(states.call_method1("finish", (count,))?.unbind()))
    }

    fn copy(&self) -> Result<Box<dyn States>, Error> {
        let states = self.run(|_, states| Ok(states.call_method0("copy")?.unbind()))?;
        Ok(Box::new(Code { callable: states, calls: Arc::clone(&self.calls) }))
    }

    fn size(&self) -> usize {
        self.run(|_, states| states.call_method0("size")?.extract()).unwrap_or(0)
    }
}

/// Code that Numba has compiled (`warpmill.udf.numba`).
struct NumbaCode {
    address: NonZeroUsize,
    /// Numba's object, which holds the code.
    _code: Py<PyAny>,
}

impl fmt::Debug for NumbaCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Numba's code")
    }
}

// SAFETY: `warpmill.udf.numba.machine` makes such a function, whose code the object holds; it catches all exceptions.
unsafe impl MachineCode for NumbaCode {
    fn address(&self) -> NonZeroUsize {
        self.address
    }

    fn compiler(&self) -> &str {
        "Numba"
    }
}

/// A callable that translates a function to C++ (`warpmill.udf.compiled`), or has it compiled.
struct PyTranslator(Py<PyAny>);

impl fmt::Debug for PyTranslator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a translator")
    }
}

/// The result of a translator: the text, integer constants, float constants, and the lines of places.
type Parts = (String, Vec<i64>, Vec<f64>, Vec<u32>);

impl Translator for PyTranslator {
    fn translate(&self, columns: &[ColumnKind]) -> Result<Result<FunctionCode, String>, Error> {
        let types = columns.iter().map(|kind| match kind {
            ColumnKind::Bool => "BOOLEAN",
            ColumnKind::Int => "BIGINT",
            ColumnKind::Float => "DOUBLE",
        });
        let types: Vec<&str> = types.collect();
        Python::attach(|py| {
            let found = self.0.bind(py).call1((types,)).map_err(|error| failed(py, &error))?;
            if let Ok(reason) = found.extract::<String>() {
                return Ok(Err(reason));
            }
            if let Ok((address, code)) = found.extract::<(NonZeroUsize, Py<PyAny>)>() {
                return Ok(Ok(FunctionCode::Machine(Arc::new(NumbaCode { address, _code: code }))));
            }
            let parts: Parts = found.extract().map_err(|error: PyErr| failed(py, &error))?;
            let (text, whole, floats, lines) = parts;
            Ok(Ok(FunctionCode::Text(Translation { text, whole, floats, lines })))
        })
    }
}

/// The translator that `callable` is.
pub(crate) fn translator(callable: Py<PyAny>) -> Arc<dyn Translator> {
    Arc::new(PyTranslator(callable))
}

/// The reason why functions cannot be compiled: no C++ compiler.
#[pyfunction]
pub(crate) fn no_compiler(py: Python<'_>) -> Option<String> {
    py.detach(|| warpmill_engine::warpmill_gpu::device::sim::host_compiler().err().map(|error| error.to_string()))
}

/// The implementation of a function: "groups", "states" or "rows", and a callable.
pub(crate) fn implementation(kind: &str, callable: Py<PyAny>, calls: &Arc<Calls>) -> PyResult<Implementation> {
    let code = Arc::new(Code { callable, calls: Arc::clone(calls) });
    Ok(match kind {
        "groups" => Implementation::Groups(code),
        "states" => Implementation::States(code),
        "rows" => Implementation::Rows(code),
        other => return Err(PyValueError::new_err(format!("a function has no code of kind {other:?}"))),
    })
}

/// The type called `name` of a function's results.
pub(crate) fn returned(name: &str) -> PyResult<DataType> {
    Ok(match name {
        "DOUBLE" => DataType::Float64,
        "BIGINT" => DataType::Int64,
        "INTEGER" => DataType::Int32,
        "BOOLEAN" => DataType::Boolean,
        "VARCHAR" => DataType::Utf8,
        "DATE" => DataType::Date32,
        "TIMESTAMP" => DataType::Timestamp(TimeUnit::Microsecond, None),
        other => return Err(PyValueError::new_err(format!("a function cannot return {other}"))),
    })
}
