//! Ingest of Parquet, CSV and Arrow streams into tables.
//!
//! Files are decoded on worker threads in pieces (row groups, runs of CSV records), which are passed to the writer in order; the number of pieces
//! decoded ahead is limited. Every function takes the writer and commits it: an error drops the writer with everything written, and the table is
//! unchanged.

use std::path::Path;
use std::sync::Arc;

use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use crate::{FormatError, Result, TableSnapshot, TableWriter};

mod csv_records;
mod from_csv;
mod from_parquet;
mod infer_csv;
mod parallel;
#[cfg(test)]
mod tests;

pub use from_csv::{CsvOptions, ingest_csv};
pub use from_parquet::{ParquetOptions, ingest_parquet, parquet_schema};
pub use infer_csv::{CsvColumns, csv_schema};

/// The progress of an ingest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progressed {
    /// Rows handed to the writer.
    pub rows: u64,
    /// Bytes of input read for them; for Arrow batches, bytes in memory.
    pub bytes: u64,
    /// Bytes of all input, if known.
    pub total_bytes: Option<u64>,
}

/// Receives the progress of an ingest after every piece, on the thread that called it.
pub trait Progress {
    /// Called with growing numbers; the last call says where the input ended.
    fn update(&mut self, progressed: Progressed);
}

/// Ignores progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn update(&mut self, _: Progressed) {}
}

impl<F: FnMut(Progressed)> Progress for F {
    fn update(&mut self, progressed: Progressed) {
        self(progressed)
    }
}

/// Writes all batches and commits. Errors name the number of the batch at fault, counted from 0.
pub fn ingest_batches(
    mut writer: TableWriter,
    batches: impl IntoIterator<Item = std::result::Result<RecordBatch, ArrowError>>,
    progress: &mut dyn Progress,
) -> Result<Arc<TableSnapshot>> {
    let mut done = Progressed::default();
    for (number, batch) in batches.into_iter().enumerate() {
        let batch = batch.map_err(|e| input("Arrow input", format!("batch {number}"), e.to_string()))?;
        writer.write(&batch).map_err(|e| locate(e, "Arrow input", &format!("batch {number}")))?;
        done.rows += batch.num_rows() as u64;
        done.bytes += batch.get_array_memory_size() as u64;
        progress.update(done);
    }
    writer.commit()
}

/// An error at a place of the input.
fn input(source: impl Into<String>, location: impl Into<Option<String>>, detail: impl Into<String>) -> FormatError {
    FormatError::Input { source_name: source.into(), location: location.into(), detail: detail.into() }
}

/// Adds source and position to the error of a column that does not fit.
fn locate(error: FormatError, source: &str, place: &str) -> FormatError {
    match error {
        FormatError::Schema { column, detail } => input(source, format!("{place}, column {column:?}"), detail),
        FormatError::NotNull { column } => {
            input(source, format!("{place}, column {column:?}"), "a null in a column that is NOT NULL")
        }
        other => other,
    }
}

/// The name of a file in errors.
fn name(path: &Path) -> String {
    path.display().to_string()
}
