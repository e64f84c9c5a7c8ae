//! Decodes columns of Parquet files and encodes them as those of tables.
//!
//! Row segments are runs of row groups, or parts of large ones: the same for all columns of the same files. A column of a run, or of a large row
//! group, is a task for any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type as Physical;

use super::ParquetFile;
use super::pages::dictionary_header;
use crate::guard::caught;
use crate::table::{ColumnWriter, EncodedColumn};
use crate::{Result, SEGMENT_ROWS};

/// Largest dictionary (values) that is decoded as a dictionary, and smallest average number of rows per value.
const DICTIONARY: (u64, u64) = (1 << 16, 8);

/// A row group of a file.
#[derive(Clone, Copy)]
struct Group<'a> {
    file: &'a Arc<ParquetFile>,
    number: usize,
}

/// Row groups that are decoded together.
struct Run<'a> {
    /// A row group with more rows than a row segment, or several that fit one together.
    groups: Vec<Group<'a>>,
    /// The first row segment that they become.
    segment: usize,
}

/// The bounds of the work on columns.
pub struct Bounds<'a> {
    /// Threads that it uses.
    pub threads: usize,
    /// Limit of the encoded columns, in bytes.
    pub bytes: u64,
    /// Stops it.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// The outcome of encoding columns.
pub enum Outcome {
    /// All columns.
    Columns(Vec<Arc<EncodedColumn>>),
    /// Cancelled.
    Stopped,
    /// The columns exceed the limit.
    TooLarge,
}

/// Encodes the columns `fields`, found by name, of the rows of `files` in their order.
///
/// # Errors
/// Files that cannot be read, have changed or are damaged, missing columns, types that tables do not store in this way.
pub fn encode_columns(files: &[Arc<ParquetFile>], fields: &[FieldRef], bounds: &Bounds<'_>) -> Result<Outcome> {
    let runs = runs(files);
    let writers: Vec<ColumnWriter> =
        fields.iter().map(|field| ColumnWriter::new(Arc::clone(field))).collect::<Result<_>>()?;
    for (writer, field) in writers.iter().zip(fields) {
        // Skips dictionaries if the writer of the files has given them up.
        let is_plain = |group: &Group<'_>| {
            let leaf = group.file.leaf(field.name());
            leaf.is_some_and(|leaf| dictionary_header(group.file, group.number, leaf).is_none())
        };
        if is_text(field) && runs.first().and_then(|run| run.groups.first()).is_some_and(is_plain) {
            writer.make_plain();
        }
    }
    let (stopped, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    let encode = |task: usize| {
        let (column, run) = (task % writers.len(), &runs[task / writers.len()]);
        let mut add = |segment: usize, arrays: &[ArrayRef]| {
            let made = writers[column].encode_arrays(segment, arrays)?;
            bytes.fetch_add(made, Ordering::Relaxed);
            Ok(())
        };
        let stop = || {
            let now = stopped.load(Ordering::Relaxed) || (bounds.stop)();
            stopped.fetch_or(now, Ordering::Relaxed);
            now || bytes.load(Ordering::Relaxed) > bounds.bytes
        };
        encode_run(run, &fields[column], &mut add, &stop)
    };
    in_parallel(bounds.threads, runs.len() * writers.len(), &encode)?;
    if stopped.into_inner() {
        return Ok(Outcome::Stopped);
    }
    if bytes.into_inner() > bounds.bytes {
        return Ok(Outcome::TooLarge);
    }
    let columns = writers.into_iter().map(|writer| Ok(Arc::new(writer.finish()?)));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let made: u64 = columns.iter().map(|column| column.stored_bytes()).sum();
    Ok(if made > bounds.bytes { Outcome::TooLarge } else { Outcome::Columns(columns) })
}

/// Runs `tasks` tasks on up to `threads` threads; the first error ends it.
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
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, run).ok();
        let others: Vec<_> = (1..threads.min(tasks)).map_while(spawn).collect();
        let own = run();
        let joined =
            others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.fold(own, Result::and)
    })
}

/// Groups the row groups of `files`, in order, into runs that are decoded together.
fn runs(files: &[Arc<ParquetFile>]) -> Vec<Run<'_>> {
    let groups =
        files.iter().flat_map(|file| (0..file.metadata().num_row_groups()).map(move |number| Group { file, number }));
    let (mut runs, mut open, mut count, mut segment) = (vec![], vec![], 0, 0);
    for group in groups.filter(|group| group.rows() > 0) {
        let rows = group.rows();
        if count > 0 && count + rows > SEGMENT_ROWS {
            runs.push(Run { groups: std::mem::take(&mut open), segment });
            (count, segment) = (0, segment + 1);
        }
        if rows > SEGMENT_ROWS {
            runs.push(Run { groups: vec![group], segment });
            segment += rows.div_ceil(SEGMENT_ROWS);
        } else {
            open.push(group);
            count += rows;
        }
    }
    if !open.is_empty() {
        runs.push(Run { groups: open, segment });
    }
    runs
}

impl Group<'_> {
    fn rows(&self) -> usize {
        usize::try_from(self.file.metadata().row_group(self.number).num_rows()).unwrap_or(0)
    }
}

/// Decodes a column of a run, and passes the arrays of each row segment to `add`.
fn encode_run(
    run: &Run<'_>,
    field: &FieldRef,
    add: &mut dyn FnMut(usize, &[ArrayRef]) -> Result<()>,
    stop: &dyn Fn() -> bool,
) -> Result<()> {
    let is_large = run.groups.first().is_some_and(|group| group.rows() > SEGMENT_ROWS);
    let (mut segment, mut arrays) = (run.segment, vec![]);
    for group in &run.groups {
        let done = decode(*group, field, &mut |array| {
            if stop() {
                return Ok(false);
            }
            arrays.push(array);
            if is_large {
                add(segment, &std::mem::take(&mut arrays))?;
                segment += 1;
            }
            Ok(true)
        })?;
        if !done {
            return Ok(());
        }
    }
    if is_large { Ok(()) } else { add(segment, &arrays) }
}

/// Decodes a column of a row group, and passes its rows to `give`, [`SEGMENT_ROWS`] at a time, until it returns false. Returns whether all rows were
/// passed.
fn decode(group: Group<'_>, field: &FieldRef, give: &mut dyn FnMut(ArrayRef) -> Result<bool>) -> Result<bool> {
    let Group { file, number } = group;
    let leaf = file.leaf(field.name()).ok_or_else(|| {
        file.corrupt(format!("row group {number}"), format!("it has no column {:?} that is not nested", field.name()))
    })?;
    let place = || file.place(number, leaf);
    let corrupt = |detail: String| file.corrupt(place(), detail);
    if file.metadata().row_group(number).column(leaf).column_type() == Physical::INT96 {
        // DataFusion's scan decodes INT96 to microseconds, this decoder to nanoseconds, which overflow 64 bits.
        return Err(corrupt("it is stored as INT96".into()));
    }
    file.checked().check_chunks(&file.handle(&place)?, number, &[leaf])?;
    // The decoder trusts sizes claimed by damaged pages: its panics become errors of the file.
    let reader = || reader(group, leaf, field).map_err(|error| error.to_string());
    let mut reader = caught(reader).and_then(|reader| reader).map_err(corrupt)?;
    let mut found = 0;
    while let Some(batch) = caught(|| reader.next()).map_err(corrupt)? {
        let batch = batch.map_err(|error| corrupt(error.to_string()))?;
        found += batch.num_rows();
        if !give(Arc::clone(batch.column(0)))? {
            return Ok(false);
        }
    }
    if found == group.rows() { Ok(true) } else { Err(corrupt(format!("{found} rows instead of {}", group.rows()))) }
}

/// The decoder of a column of a row group; texts with a small dictionary are decoded as a dictionary array.
fn reader(
    group: Group<'_>,
    leaf: usize,
    field: &FieldRef,
) -> std::result::Result<ParquetRecordBatchReader, Box<dyn std::error::Error>> {
    let Group { file, number } = group;
    let handle = file.handle(&|| file.place(number, leaf))?;
    let (most, repeated) = DICTIONARY;
    let small = |values: &u64| *values <= most && values * repeated <= group.rows() as u64;
    let metadata = match is_text(field).then(|| dictionary_header(file, number, leaf)).flatten().filter(small) {
        None => file.reader_metadata().clone(),
        Some(_) => with_dictionary(file.reader_metadata(), field.name())?,
    };
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(handle, metadata);
    let mask = ProjectionMask::leaves(builder.parquet_schema(), [leaf]);
    Ok(builder
        .with_row_groups(vec![number])
        .with_projection(mask)
        .with_batch_size(group.rows().min(SEGMENT_ROWS))
        .build()?)
}

fn is_text(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The same metadata with column `name` read as a dictionary and codes.
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
