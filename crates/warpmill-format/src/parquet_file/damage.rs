//! Finds the column chunk of a file that cannot be decoded, for error messages.

use std::fs::File;
use std::path::Path;

use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};

use super::ParquetFile;
use crate::guard::caught;
use crate::{FormatError, Result};

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 1 << 14;

/// The first column chunk of the local file `path` that cannot be read, among columns whose names `wanted` accepts; `None` if all can. Reads and
/// decodes the file: call it after a failure.
pub fn find_damage(path: &Path, wanted: &dyn Fn(&str) -> bool) -> Option<FormatError> {
    let file = match ParquetFile::open(path) {
        Ok(file) => file,
        Err(error) => return Some(error),
    };
    let leaves = file.metadata().file_metadata().schema_descr_ptr();
    let columns = (0..leaves.num_columns()).filter(|&leaf| wanted(&leaves.column(leaf).path().parts()[0]));
    let columns: Vec<usize> = columns.collect();
    let chunks = (0..file.metadata().num_row_groups()).flat_map(|group| columns.iter().map(move |&leaf| (group, leaf)));
    chunks.into_iter().find_map(|chunk| decode(&file, chunk).err())
}

/// Decodes a column chunk, and drops the result.
fn decode(file: &ParquetFile, (group, leaf): (usize, usize)) -> Result<()> {
    let handle = File::open(file.path()).map_err(FormatError::io("cannot open", file.path()))?;
    file.checked().check_chunks(&handle, group, &[leaf])?;
    let rows = || read_rows(handle, file.reader_metadata().clone(), group, leaf);
    let corrupt = |detail| Err(file.corrupt(file.place(group, leaf), detail));
    let wanted = file.metadata().row_group(group).num_rows() as u64;
    match caught(rows).and_then(|rows| rows) {
        Ok(rows) if rows == wanted => Ok(()),
        Ok(rows) => corrupt(format!("{rows} rows instead of {wanted}")),
        Err(detail) => corrupt(detail),
    }
}

fn read_rows(handle: File, metadata: ArrowReaderMetadata, group: usize, leaf: usize) -> Result<u64, String> {
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(handle, metadata);
    let mask = ProjectionMask::leaves(builder.parquet_schema(), [leaf]);
    let builder = builder.with_row_groups(vec![group]).with_projection(mask).with_batch_size(BATCH_ROWS);
    let reader = builder.build().map_err(|error| error.to_string())?;
    let mut rows = 0;
    for batch in reader {
        rows += batch.map_err(|error| error.to_string())?.num_rows() as u64;
    }
    Ok(rows)
}
