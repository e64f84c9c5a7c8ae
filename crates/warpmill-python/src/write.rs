//! Query results as files: CSV, JSON lines, Parquet, Arrow's IPC.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::str::FromStr;

use arrow::array::{AsArray, RecordBatch};
use arrow::csv::WriterBuilder;
use arrow::datatypes::{Float32Type, Float64Type, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::{FileWriter, StreamWriter};
use arrow::json::writer::{LineDelimited, WriterBuilder as JsonWriterBuilder};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use warpmill::{Form, given_schema, with_schema};

use crate::errors::IOError;
use crate::values::arrow_error;

/// A file format that results are written in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Format {
    Csv,
    Json,
    Parquet,
    /// Arrow's IPC format of files, which can be read from any batch.
    Arrow,
    /// Arrow's IPC stream format.
    ArrowStream,
}

impl FromStr for Format {
    type Err = PyErr;

    fn from_str(name: &str) -> PyResult<Self> {
        match name {
            "csv" => Ok(Self::Csv),
            "json" => Ok(Self::Json),
            "parquet" => Ok(Self::Parquet),
            "arrow" => Ok(Self::Arrow),
            _ => Err(PyValueError::new_err(format!("unknown format '{name}': csv, json, parquet or arrow"))),
        }
    }
}

/// Properties of written Parquet files, including those for other systems in benchmarks.
pub(crate) fn parquet_properties() -> WriterProperties {
    let level = ZstdLevel::try_new(1).expect("1 is a level of Zstd");
    WriterProperties::builder().set_compression(Compression::ZSTD(level)).build()
}

/// The bytes of a file, or of a stream if the format has a streaming variant.
pub(crate) fn to_bytes(schema: &SchemaRef, batches: &[RecordBatch], format: Format) -> PyResult<Vec<u8>> {
    let mut out = Vec::new();
    let format = if let Format::Arrow = format { Format::ArrowStream } else { format };
    write(schema, batches, format, &mut out).map_err(arrow_error)?;
    Ok(out)
}

/// Writes to a temporary file beside `path` first, so that a failure leaves no partial file. An existing pipe or device is written directly; a link
/// is resolved to the file to replace.
pub(crate) fn to_file(schema: &SchemaRef, batches: &[RecordBatch], format: Format, path: &Path) -> PyResult<()> {
    let there = fs::metadata(path).is_ok();
    let target = if there { fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()) } else { path.to_owned() };
    let is_file = !there || target.is_file();
    let written = if is_file { partial_name(&target) } else { target.clone() };
    let open = if is_file { File::create(&written) } else { File::options().write(true).open(&written) };
    let result = open.map_err(ArrowError::from).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(schema, batches, format, &mut out)?;
        out.flush()?;
        if is_file { Ok(fs::rename(&written, &target)?) } else { Ok(()) }
    });
    result.map_err(|error| {
        if is_file {
            let _ = fs::remove_file(&written);
        }
        IOError::new_err(format!("cannot write {}: {error}", path.display()))
    })
}

/// The name that a file has until it is complete.
pub(crate) fn partial_name(path: &Path) -> std::path::PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    path.with_file_name(name)
}

fn write(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    format: Format,
    out: &mut (impl Write + Send),
) -> Result<(), ArrowError> {
    let form = if matches!(format, Format::Csv | Format::Json) { Form::Texts } else { Form::Extension };
    let schema = &given_schema(schema, form);
    let batches = batches.iter().map(|batch| with_schema(batch.clone(), schema)).collect::<Result<Vec<_>, _>>()?;
    match format {
        Format::Csv => {
            let mut writer = WriterBuilder::new().with_header(true).build(out);
            if batches.is_empty() {
                return writer.write(&RecordBatch::new_empty(schema.clone()));
            }
            batches.iter().try_for_each(|batch| writer.write(batch))
        }
        Format::Json => {
            batches.iter().try_for_each(check_finite)?;
            // Every object has all columns, as in DuckDB's output.
            let mut writer = JsonWriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(out);
            writer.write_batches(&batches.iter().collect::<Vec<_>>())?;
            writer.finish()
        }
        Format::Parquet => {
            let mut writer = ArrowWriter::try_new(out, schema.clone(), Some(parquet_properties()))?;
            for batch in &batches {
                writer.write(batch)?;
            }
            writer.close()?;
            Ok(())
        }
        Format::Arrow => {
            let mut writer = FileWriter::try_new(out, schema)?;
            batches.iter().try_for_each(|batch| writer.write(batch))?;
            writer.finish()
        }
        Format::ArrowStream => {
            let mut writer = StreamWriter::try_new(out, schema)?;
            batches.iter().try_for_each(|batch| writer.write(batch))?;
            writer.finish()
        }
    }
}

/// Refuses numbers that JSON lacks, which its writer would write as null.
fn check_finite(batch: &RecordBatch) -> Result<(), ArrowError> {
    for (column, field) in batch.columns().iter().zip(batch.schema_ref().fields()) {
        let wide = column.as_primitive_opt::<Float64Type>();
        let narrow = column.as_primitive_opt::<Float32Type>();
        let mut values =
            wide.into_iter().flatten().flatten().chain(narrow.into_iter().flatten().flatten().map(f64::from));
        if let Some(value) = values.find(|value| !value.is_finite()) {
            return Err(ArrowError::JsonError(format!("column {:?}: {value} is no number in JSON", field.name())));
        }
    }
    Ok(())
}
