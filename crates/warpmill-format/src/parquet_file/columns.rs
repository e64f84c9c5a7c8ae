//! Columns of Parquet files, decoded and encoded anew as those of tables.
//!
//! Row segments are runs of row groups, or parts of large ones: the same of all columns of the same files, so that each column of each row
//! segment is a task of its own, for any thread.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};

use super::ParquetFile;
use super::pages::dictionary_header;
use crate::guard::caught;
use crate::table::{ColumnWriter, EncodedColumn};
use crate::{Result, SEGMENT_ROWS};

/// Values of dictionaries that are decoded as such, and the rows that each of them must stand for.
const DICTIONARY: (u64, u64) = (1 << 16, 8);

/// Rows of a row group of a file.
struct Part<'a> {
    file: &'a Arc<ParquetFile>,
    group: usize,
    rows: Range<usize>,
}

/// The columns `fields` of the rows of `files`, in their order, found by name; `None` once `stop` says so. Uses `threads` threads.
///
/// # Errors
/// Files that cannot be read, have changed or are damaged, columns that they do not have, types that are not stored as such.
pub fn encode_columns(
    files: &[Arc<ParquetFile>],
    fields: &[FieldRef],
    threads: usize,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Vec<Arc<EncodedColumn>>>> {
    let segments = segments(files);
    let writers: Vec<ColumnWriter> =
        fields.iter().map(|field| ColumnWriter::new(Arc::clone(field))).collect::<Result<_>>()?;
    for (writer, field) in writers.iter().zip(fields) {
        // Whoever wrote the files has given up a dictionary.
        let is_plain = |part: &Part<'_>| {
            part.file.leaf(field.name()).is_some_and(|leaf| dictionary_header(part.file, part.group, leaf).is_none())
        };
        if is_text(field) && segments.first().and_then(|segment| segment.first()).is_some_and(is_plain) {
            writer.make_plain();
        }
    }
    let tasks = segments.len() * writers.len();
    let stopped = AtomicBool::new(false);
    let encode = |task: usize| {
        let (column, segment) = (task % writers.len(), task / writers.len());
        if stopped.load(Ordering::Relaxed) || stop() {
            stopped.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let mut arrays = vec![];
        for part in &segments[segment] {
            decode(part, &fields[column], &mut |array| arrays.push(array))?;
        }
        writers[column].encode_arrays(segment, &arrays)
    };
    in_parallel(threads, tasks, &encode)?;
    if stopped.into_inner() {
        return Ok(None);
    }
    let columns = writers.into_iter().map(|writer| Ok(Arc::new(writer.finish()?)));
    columns.collect::<Result<_>>().map(Some)
}

/// Does `tasks` tasks on `threads` threads; the first error ends it.
fn in_parallel(threads: usize, tasks: usize, work: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let run = || -> Result<()> {
        while !failed.load(Ordering::Relaxed)
            && let Some(task) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|task| *task < tasks)
        {
            work(task).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(tasks)).map(|_| scope.spawn(run)).collect();
        let own = run();
        let joined =
            others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.fold(own, Result::and)
    })
}

/// The rows of `files`, cut into row segments.
fn segments(files: &[Arc<ParquetFile>]) -> Vec<Vec<Part<'_>>> {
    let (mut segments, mut open, mut count) = (vec![], vec![], 0);
    for file in files {
        for (group, metadata) in file.metadata().row_groups().iter().enumerate() {
            let rows = usize::try_from(metadata.num_rows()).unwrap_or(0);
            if count + rows > SEGMENT_ROWS && count > 0 {
                segments.push(std::mem::take(&mut open));
                count = 0;
            }
            for start in (0..rows).step_by(SEGMENT_ROWS) {
                let part = Part { file, group, rows: start..rows.min(start + SEGMENT_ROWS) };
                if rows > SEGMENT_ROWS {
                    segments.push(vec![part]);
                } else {
                    count += rows;
                    open.push(part);
                }
            }
        }
    }
    if !open.is_empty() {
        segments.push(open);
    }
    segments
}

/// Decodes a column of rows of a row group.
fn decode(part: &Part<'_>, field: &FieldRef, give: &mut dyn FnMut(ArrayRef)) -> Result<()> {
    let Part { file, group, rows } = part;
    let leaf = file.leaf(field.name()).ok_or_else(|| {
        file.corrupt(format!("row group {group}"), format!("it has no column {:?} that is not nested", field.name()))
    })?;
    let corrupt = |detail: String| file.corrupt(file.place(*group, leaf), detail);
    let reader = || reader(part, leaf, field).map_err(|error| error.to_string());
    file.checked().check_chunks(&file.handle(&|| file.place(*group, leaf))?, *group, &[leaf])?;
    // The decoder trusts sizes that a damaged page claims: its panics are errors of the file.
    let mut reader = caught(reader).and_then(|reader| reader).map_err(corrupt)?;
    let mut found = 0;
    while let Some(batch) = caught(|| reader.next()).map_err(corrupt)? {
        let batch = batch.map_err(|error| corrupt(error.to_string()))?;
        found += batch.num_rows();
        give(Arc::clone(batch.column(0)));
    }
    if found == rows.len() { Ok(()) } else { Err(corrupt(format!("{found} rows instead of {}", rows.len()))) }
}

fn is_text(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The decoder of a column of rows of a row group: texts of a small dictionary come as such.
fn reader(
    part: &Part<'_>,
    leaf: usize,
    field: &FieldRef,
) -> std::result::Result<ParquetRecordBatchReader, Box<dyn std::error::Error>> {
    let Part { file, group, rows } = part;
    let handle = file.handle(&|| file.place(*group, leaf))?;
    let (most, repeated) = DICTIONARY;
    let small = |values: &u64| *values <= most && values * repeated <= rows.len() as u64;
    let metadata = match is_text(field).then(|| dictionary_header(file, *group, leaf)).flatten().filter(small) {
        None => file.reader_metadata().clone(),
        Some(_) => with_dictionary(file.reader_metadata(), field.name())?,
    };
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(handle, metadata);
    let mask = ProjectionMask::leaves(builder.parquet_schema(), [leaf]);
    let builder = builder.with_row_groups(vec![*group]).with_projection(mask).with_batch_size(rows.len().max(1));
    Ok(builder.with_offset(rows.start).with_limit(rows.len()).build()?)
}

/// The same metadata, by which column `name` is read as a dictionary and codes.
fn with_dictionary(
    metadata: &ArrowReaderMetadata,
    name: &str,
) -> std::result::Result<ArrowReaderMetadata, Box<dyn std::error::Error>> {
    let fields = metadata.schema().fields().iter().map(|field| match field.name() == name {
        true => {
            let coded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            Arc::new(Field::new(name, coded, field.is_nullable()))
        }
        false => Arc::clone(field),
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    Ok(ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options)?)
}
