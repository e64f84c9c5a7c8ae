//! Parquet files, one row group a piece.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatchOptions;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use super::parallel::{ordered, thread_count};
use super::{Progress, Progressed, input, locate, name};
use crate::guard::caught;
use crate::parquet_file::file::whole;
use crate::parquet_file::{CheckedFooter, with_uuids};
use crate::table::{conform_column, stored_schema};
use crate::{FormatError, Result, TableSnapshot, TableWriter};

/// Number of rows of a decoded batch.
const BATCH_ROWS: usize = 1 << 16;

/// Options for reading Parquet.
#[derive(Debug, Clone)]
pub struct ParquetOptions {
    /// Number of decoding threads (0: all cores).
    pub threads: usize,
    /// Approximate limit in bytes for row groups decoded ahead; one always is.
    pub memory_limit: u64,
}

impl Default for ParquetOptions {
    fn default() -> Self {
        Self { threads: 0, memory_limit: 2 << 30 }
    }
}

/// A file with its footer, and the positions of the table's columns in it.
struct Source {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    checked: CheckedFooter,
    /// Position in the file by column of the table.
    columns: Vec<usize>,
}

/// One row group.
struct Piece {
    source: Arc<Source>,
    row_group: usize,
}

/// The schema that a table of the file's rows has.
pub fn parquet_schema(path: &Path) -> Result<SchemaRef> {
    let (metadata, _) = open(path)?;
    let schema = with_uuids(metadata.schema(), &[metadata.metadata()]);
    stored_schema(&schema).map_err(|e| locate(e, &name(path), "schema"))
}

/// Writes the rows of all files, in order, and commits. Columns are matched by name.
///
/// Errors contain file, row group and column: a file that is not a complete Parquet file, columns missing or unknown to the table, values that do not
/// fit, NULLs in a NOT NULL column.
pub fn ingest_parquet<P: AsRef<Path>>(
    mut writer: TableWriter,
    paths: &[P],
    options: &ParquetOptions,
    progress: &mut dyn Progress,
) -> Result<Arc<TableSnapshot>> {
    let schema = writer.schema().clone();
    let sources = paths.iter().map(|path| Source::open(path.as_ref(), &schema).map(Arc::new));
    let sources: Vec<Arc<Source>> = sources.collect::<Result<_>>()?;
    let groups = || sources.iter().flat_map(|s| s.metadata.metadata().row_groups());
    let mut done =
        Progressed { total_bytes: Some(groups().map(|g| bytes(g.compressed_size())).sum()), ..Default::default() };
    // Decoded values take about twice their uncompressed size in the file.
    let largest = groups().map(|g| 2 * bytes(g.total_byte_size())).max().unwrap_or(1).max(1);
    let threads = thread_count(options.threads);
    let window = usize::try_from(options.memory_limit / largest).unwrap_or(usize::MAX).clamp(1, threads + 1);
    let pieces = sources.iter().flat_map(|source| {
        let piece = |row_group| Ok(Piece { source: source.clone(), row_group });
        (0..source.metadata.metadata().num_row_groups()).map(piece)
    });
    let work = |piece: Piece| Ok((piece.read(&schema)?, piece));
    ordered(threads, window, pieces, work, |(batches, piece)| {
        for batch in &batches {
            writer.write(batch)?;
            done.rows += batch.num_rows() as u64;
        }
        done.bytes += bytes(piece.source.metadata.metadata().row_group(piece.row_group).compressed_size());
        progress.update(done);
        Ok(())
    })?;
    writer.commit()
}

/// Sizes in a footer are signed.
fn bytes(size: i64) -> u64 {
    u64::try_from(size).unwrap_or(0)
}

fn open(path: &Path) -> Result<(ArrowReaderMetadata, CheckedFooter)> {
    let file = File::open(path).map_err(FormatError::io("cannot open", path))?;
    let metadata = whole(path, || ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()));
    let metadata = metadata.map_err(as_input)?;
    let checked = CheckedFooter::of_file(Arc::clone(metadata.metadata()), &file, path).map_err(as_input)?;
    Ok((metadata, checked))
}

/// Damage as a mistake of the input.
fn as_input(error: FormatError) -> FormatError {
    match error {
        FormatError::Corrupt { path, segment, detail } => input(name(&path), segment, detail),
        other => other,
    }
}

impl Source {
    fn open(path: &Path, schema: &SchemaRef) -> Result<Self> {
        let (metadata, checked) = open(path)?;
        let found = metadata.schema();
        let at = |column: &str, detail: &str| Err(input(name(path), format!("column {column:?}"), detail));
        let mut columns = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            match found.fields().iter().position(|f| f.name() == field.name()) {
                Some(position) => columns.push(position),
                None => return at(field.name(), "missing in the file"),
            }
        }
        if let Some(unknown) = found.fields().iter().find(|f| schema.index_of(f.name()).is_err()) {
            return at(unknown.name(), "the table has no such column");
        }
        Ok(Self { path: path.to_owned(), metadata, checked, columns })
    }
}

impl Piece {
    fn place(&self) -> String {
        format!("row group {}", self.row_group)
    }

    /// The rows as the table stores them.
    fn read(&self, schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
        let source = name(&self.source.path);
        let file = File::open(&self.source.path).map_err(FormatError::io("cannot open", &self.source.path))?;
        let group = self.source.metadata.metadata().row_group(self.row_group);
        let leaves: Vec<usize> = (0..group.num_columns()).collect();
        self.source.checked.check_chunks(&file, self.row_group, &leaves).map_err(as_input)?;
        let batches = self.decode(None).map_err(|error| {
            let column = (0..self.source.metadata.schema().fields().len()).find(|&c| self.decode(Some(c)).is_err());
            let column = column.map(|c| format!(", column {:?}", self.source.metadata.schema().field(c).name()));
            input(&source, self.place() + &column.unwrap_or_default(), error)
        })?;
        let conform = |batch: RecordBatch| {
            let columns = schema.fields().iter().zip(&self.source.columns);
            let columns = columns.map(|(field, &c)| conform_column(batch.column(c), field)).collect::<Result<_>>();
            let columns = columns.map_err(|e| locate(e, &source, &self.place()))?;
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
        };
        batches.into_iter().map(conform).collect()
    }

    /// Decodes the rows, of one column or of all.
    fn decode(&self, column: Option<usize>) -> Result<Vec<RecordBatch>, String> {
        // Not a clone of a handle: clones share their position, which concurrent readers would change.
        let file = File::open(&self.source.path).map_err(|e| e.to_string())?;
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.source.metadata.clone())
            .with_row_groups(vec![self.row_group])
            .with_batch_size(BATCH_ROWS);
        if let Some(column) = column {
            let mask = ProjectionMask::roots(builder.parquet_schema(), [column]);
            builder = builder.with_projection(mask);
        }
        // The decoder trusts sizes claimed by damaged pages: its panics become errors of the file.
        let decode = || -> Result<Vec<RecordBatch>, String> {
            builder.build().map_err(|e| e.to_string())?.collect::<Result<_, _>>().map_err(|e| e.to_string())
        };
        let batches = caught(decode).and_then(|decoded| decoded)?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let wanted = self.source.metadata.metadata().row_group(self.row_group).num_rows();
        if rows as i64 == wanted { Ok(batches) } else { Err(format!("{rows} rows instead of {wanted}")) }
    }
}
