//! The native half of the Python package `warpmill`: sessions, results and benchmark data, as the module `warpmill._warpmill`. The user-visible half
//! (types, docstrings, the command line) is in Python, `python/warpmill`.
//!
//! Everything that may take long runs on a separate thread with the interpreter lock released ([`run`]), so that Ctrl-C cancels it and other Python
//! threads continue.

mod bench;
mod errors;
mod functions;
mod hardware;
mod inspect;
mod layout;
mod params;
mod result;
mod run;
mod serve;
mod session;
mod substrait;
mod values;
mod worker;
mod write;

use pyo3::prelude::*;

#[pymodule]
fn _warpmill(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    // DuckDB's extension finds the engine by a symbol of this library, which this reference keeps alive.
    module.add("_duckdb_engine", warpmill_duckdb::engine() as usize)?;
    warpmill_distributed::install();
    module.add_class::<session::PySession>()?;
    module.add_class::<result::PyQueryResult>()?;
    module.add_function(wrap_pyfunction!(bench::queries, module)?)?;
    module.add_function(wrap_pyfunction!(bench::tables, module)?)?;
    module.add_function(wrap_pyfunction!(bench::generate_parquet, module)?)?;
    module.add_function(wrap_pyfunction!(bench::compaction, module)?)?;
    module.add_function(wrap_pyfunction!(bench::compaction_experiments, module)?)?;
    module.add_function(wrap_pyfunction!(bench::device_bench, module)?)?;
    module.add_function(wrap_pyfunction!(bench::scan_column, module)?)?;
    module.add_function(wrap_pyfunction!(inspect::inspect, module)?)?;
    module.add_function(wrap_pyfunction!(inspect::devices, module)?)?;
    module.add_function(wrap_pyfunction!(functions::no_compiler, module)?)?;
    module.add_function(wrap_pyfunction!(hardware::hardware, module)?)?;
    module.add_function(wrap_pyfunction!(hardware::calibrate, module)?)?;
    module.add_function(wrap_pyfunction!(inspect::clear_device_caches, module)?)?;
    // Threads that use a device or its compiler must not outlive the interpreter, after which these are unloaded.
    let end = wrap_pyfunction!(inspect::end_background, module)?;
    module.py().import("atexit")?.call_method1("register", (&end,))?;
    module.add_function(end)?;
    module.add_function(wrap_pyfunction!(inspect::wait_for_background, module)?)?;
    module.add_function(wrap_pyfunction!(substrait::execute_substrait, module)?)?;
    module.add_function(wrap_pyfunction!(substrait::explain_substrait, module)?)?;
    module.add_function(wrap_pyfunction!(substrait::to_substrait, module)?)?;
    module.add_function(wrap_pyfunction!(serve::serve, module)?)?;
    module.add_function(wrap_pyfunction!(serve::hash_password, module)?)?;
    module.add_function(wrap_pyfunction!(worker::worker, module)?)?;
    errors::register(module)
}
