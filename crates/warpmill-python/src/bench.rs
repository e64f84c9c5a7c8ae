//! Benchmark suites: queries, data for other systems, and measurements of the back ends.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warpmill_bench::codecs;
use warpmill_bench::compaction::{CompactionOptions, Experiment, compaction as measure_compaction};
use warpmill_bench::device::{self, Options, Report, Suite};
use warpmill_datagen::{DatagenError, Stream, expected_rows, schema, stream};
use warpmill_engine::warpmill_gpu::device::cuda::CudaDevice;
use warpmill_engine::warpmill_gpu::device::sim::{SimDevice, SimOptions};
use warpmill_engine::warpmill_gpu::device::{Device, DeviceError};

use warpmill_format::Table;

use crate::errors::{Error, ExecutionError, IOError, InterruptError, format_error, guarded};
use crate::run::{Reporter, at_once, run};
use crate::write::{parquet_properties, partial_name};

pub(crate) fn datagen_error(error: DatagenError) -> PyErr {
    Error::new_err(error.to_string())
}

/// (name, SQL text) of every query of a suite.
#[pyfunction]
pub(crate) fn queries(suite: &str) -> PyResult<Vec<(&'static str, &'static str)>> {
    let suite: warpmill_datagen::Suite = suite.parse().map_err(datagen_error)?;
    Ok(warpmill_datagen::queries(suite).iter().map(|query| (query.name, query.sql)).collect())
}

/// The table names of a suite.
#[pyfunction]
pub(crate) fn tables(suite: &str) -> PyResult<Vec<&'static str>> {
    let suite: warpmill_datagen::Suite = suite.parse().map_err(datagen_error)?;
    Ok(warpmill_datagen::tables(suite).to_vec())
}

/// The rows of a benchmark table: their number, schema, and generated batches.
pub(crate) fn generated(
    suite: warpmill_datagen::Suite,
    table: &str,
    sf: f64,
    threads: usize,
) -> PyResult<(u64, SchemaRef, Stream)> {
    let rows = || -> Result<_, DatagenError> {
        let total = expected_rows(suite, table, sf)?;
        Ok((total, schema(suite, table)?, stream(suite, table, sf, threads)?))
    };
    rows().map_err(datagen_error)
}

/// Writes one benchmark table as a Parquet file; the name appears when the file is complete.
#[pyfunction]
#[pyo3(signature = (suite, table, sf, path, threads, progress_callback=None))]
pub(crate) fn generate_parquet(
    py: Python<'_>,
    suite: &str,
    table: &str,
    sf: f64,
    path: PathBuf,
    threads: usize,
    progress_callback: Option<Py<PyAny>>,
) -> PyResult<()> {
    let suite: warpmill_datagen::Suite = suite.parse().map_err(datagen_error)?;
    let reporter = Reporter::new(progress_callback);
    let (total, schema, batches) = guarded(|| generated(suite, table, sf, threads))?;
    reporter.progress.total.store(total, Ordering::Relaxed);
    let stop = Arc::new(AtomicBool::new(false));
    let (counters, stopped) = (Arc::clone(&reporter.progress), Arc::clone(&stop));
    run(py, &reporter, at_once(|| stop.store(true, Ordering::Relaxed)), move || -> PyResult<()> {
        let failed =
            |error: &dyn std::fmt::Display| IOError::new_err(format!("cannot write {}: {error}", path.display()));
        let partial = partial_name(&path);
        let file = File::create(&partial).map_err(|error| failed(&error))?;
        let mut writer =
            ArrowWriter::try_new(file, schema, Some(parquet_properties())).map_err(|error| failed(&error))?;
        for batch in batches {
            if stopped.load(Ordering::Relaxed) {
                let _ = fs::remove_file(&partial);
                return Err(InterruptError::new_err("cancelled"));
            }
            writer.write(&batch).map_err(|error| failed(&error))?;
            counters.done.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        }
        writer.close().map_err(|error| failed(&error))?;
        fs::rename(&partial, &path).map_err(|error| failed(&error))
    })
}

/// The experiments of the chunk compaction micro-benchmark.
#[pyfunction]
pub(crate) fn compaction_experiments() -> Vec<String> {
    Experiment::ALL.iter().map(experiment_name).collect()
}

/// Measures one experiment of the chunk compaction micro-benchmark. Returns its rows as JSON.
#[pyfunction]
pub(crate) fn compaction(py: Python<'_>, experiment: &str, rows: usize, runs: usize) -> PyResult<String> {
    let found = Experiment::ALL.into_iter().find(|known| experiment_name(known) == experiment);
    let unknown = || PyValueError::new_err(format!("unknown experiment '{experiment}'"));
    let options = CompactionOptions { rows, runs, experiments: vec![found.ok_or_else(unknown)?] };
    // An experiment takes seconds and cannot be stopped: Ctrl-C is heard when it ends.
    run(py, &Reporter::new(None), at_once(|| ()), move || -> PyResult<String> {
        let rows = measure_compaction(&options).map_err(|error| ExecutionError::new_err(error.to_string()))?;
        serde_json::to_string(&rows).map_err(|error| Error::new_err(error.to_string()))
    })
}

/// Reads column `column` of the tables in `directories`, which have the same rows: seconds of every run over plain memory of the same size, and over
/// each table's column.
#[pyfunction]
pub(crate) fn scan_column(
    py: Python<'_>,
    directories: Vec<PathBuf>,
    column: usize,
    runs: usize,
    threads: usize,
) -> PyResult<(Vec<f64>, Vec<Vec<f64>>)> {
    run(py, &Reporter::new(None), at_once(|| ()), move || -> PyResult<(Vec<f64>, Vec<Vec<f64>>)> {
        let open = |path: &PathBuf| Table::open(path)?.snapshot();
        let snapshots: Result<Vec<_>, _> = directories.iter().map(open).collect();
        let times = snapshots.and_then(|snapshots| codecs::scan(&snapshots, column, runs, threads));
        times.map(|times| (times.plain, times.scans)).map_err(|error| format_error(&error))
    })
}

/// Runs a suite of device benchmarks (`decode`, `join`, `groupby`, `sort`, `like`) on the first GPU, or on the simulated device. Returns the report,
/// with the device, as JSON.
#[pyfunction]
pub(crate) fn device_bench(
    py: Python<'_>,
    suite: &str,
    simulated: bool,
    scale: f64,
    runs: usize,
    tune: bool,
) -> PyResult<String> {
    let found = Suite::from_name(suite).ok_or_else(|| PyValueError::new_err(format!("unknown suite '{suite}'")))?;
    let options = Options { scale, runs, tune };
    // A suite takes seconds and cannot be stopped: Ctrl-C is heard when it ends.
    run(py, &Reporter::new(None), at_once(|| ()), move || -> PyResult<String> {
        let failed = |error: DeviceError| ExecutionError::new_err(error.to_string());
        let opened: Arc<dyn Device> = match simulated {
            true => Arc::new(SimDevice::new(SimOptions::default()).map_err(failed)?),
            false => CudaDevice::open(0).map_err(failed)?,
        };
        let mut report = Report::default();
        device::run(&opened, found, &options, &mut report).map_err(failed)?;
        let report = serde_json::json!({
            "device": opened.properties(),
            "floor_bytes_per_s": device::FLOOR_BYTES_PER_SECOND,
            "measurements": report.measurements,
        });
        Ok(report.to_string())
    })
}

fn experiment_name(experiment: &Experiment) -> String {
    let name = serde_json::to_value(experiment).expect("a unit variant serializes");
    name.as_str().expect("as a string").to_owned()
}
