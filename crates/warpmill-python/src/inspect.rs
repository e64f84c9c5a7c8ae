//! Information on stored tables and on devices.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use warpmill_format::codec::Machine;
use warpmill_format::{FormatError, Table};

use crate::errors::{Error, format_error, guarded};

/// One dict per column of the table in `directory`: name, type, encodings and their segments, dictionary entries, stored rows, the deleted ones of
/// these, nulls, distinct values, stored bytes, bytes before the codec (light) and as plain columns; codecs and their segments, block sizes; codecs,
/// bytes and block sizes of additional compressed forms of segments without a codec (heavy); the measured decompression speed of one thread for the
/// column, and the plain bytes per second of a scan in the cost model.
#[pyfunction]
#[pyo3(signature = (directory, storage_bandwidth=None))]
pub(crate) fn inspect(
    py: Python<'_>,
    directory: PathBuf,
    storage_bandwidth: Option<f64>,
) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let default = Machine::default();
    let machine = Machine { storage_bandwidth: storage_bandwidth.unwrap_or(default.storage_bandwidth), ..default };
    let read = || -> Result<_, FormatError> {
        let snapshot = Table::open(&directory)?.snapshot()?;
        let deleted = snapshot.stored_rows() - snapshot.num_rows();
        let columns = snapshot.columns().into_iter().enumerate();
        let columns = columns.map(|(c, column)| Ok((column, snapshot.decompression_rate(c)?)));
        Ok((deleted, columns.collect::<Result<Vec<_>, FormatError>>()?))
    };
    let (deleted, columns) = py.detach(|| guarded(|| read().map_err(|error| format_error(&error))))?;
    columns
        .into_iter()
        .map(|(column, rate)| {
            let mut codecs: BTreeMap<&str, usize> = BTreeMap::new();
            column
                .codecs
                .iter()
                .for_each(|((codec, _), segments)| *codecs.entry(codec.name()).or_default() += segments);
            let blocks: Vec<usize> = column.codecs.keys().filter_map(|(_, block)| *block).collect();
            let mut heavy: BTreeMap<&str, usize> = BTreeMap::new();
            column.heavy.iter().for_each(|((codec, _), segments)| *heavy.entry(codec.name()).or_default() += segments);
            let heavy_blocks: Vec<usize> = column.heavy.keys().map(|(_, block)| *block).collect();
            // A column that is stored without a codec as well is scanned so.
            let predicted = column.predicted_rate(rate.filter(|_| !blocks.is_empty()), &machine);
            let dict = PyDict::new(py);
            dict.set_item("name", &column.name)?;
            dict.set_item("type", column.data_type.to_string())?;
            dict.set_item("encodings", &column.encodings)?;
            dict.set_item("dictionary", column.dictionary)?;
            dict.set_item("rows", column.stats.rows)?;
            dict.set_item("deleted", deleted)?;
            dict.set_item("nulls", column.stats.nulls)?;
            dict.set_item("distinct", column.stats.distinct)?;
            dict.set_item("stored_bytes", column.stats.stored_bytes)?;
            dict.set_item("plain_bytes", column.stats.plain_bytes)?;
            dict.set_item("light_bytes", column.light_bytes)?;
            dict.set_item("codecs", codecs)?;
            dict.set_item("block_bytes", blocks)?;
            dict.set_item("heavy", heavy)?;
            dict.set_item("heavy_bytes", column.heavy_bytes)?;
            dict.set_item("once_bytes", column.once_bytes)?;
            dict.set_item("heavy_block_bytes", heavy_blocks)?;
            dict.set_item("decompress_bytes_per_s", rate)?;
            dict.set_item("predicted_bytes_per_s", predicted)?;
            Ok(dict)
        })
        .collect()
}

/// GPUs, kernel compilers and the simulated device, as JSON.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<String> {
    let found = py.detach(|| guarded(|| Ok(warpmill_engine::devices())))?;
    serde_json::to_string(&found).map_err(|error| Error::new_err(error.to_string()))
}

/// Makes devices forget the data that they keep between queries.
#[pyfunction]
pub(crate) fn clear_device_caches(py: Python<'_>) -> PyResult<()> {
    let clear = || {
        warpmill_engine::clear_device_caches();
        Ok(())
    };
    py.detach(|| guarded(clear))
}

/// Ends background work on devices, at the end of the process.
#[pyfunction]
pub(crate) fn end_background(py: Python<'_>) {
    py.detach(|| warpmill_engine::end_background(std::time::Duration::from_secs(10)));
}

/// Waits for background work on devices for at most `seconds`. Returns whether it has ended.
#[pyfunction]
pub(crate) fn wait_for_background(py: Python<'_>, seconds: u64) -> bool {
    py.detach(|| warpmill_engine::wait_for_background(std::time::Duration::from_secs(seconds)))
}
