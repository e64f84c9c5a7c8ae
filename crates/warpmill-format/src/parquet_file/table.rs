//! The row groups of Parquet files as a table.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ProjectionMask, parquet_to_arrow_schema};

use super::index::Locations;
use super::pages::PageCodec;
use super::refine::LeftOut;
use super::slice::{PageCodecs, ParquetSlice};
use super::types::StoredType;
use super::{ParquetChunk, ParquetFile};
use crate::guard::caught;
use crate::segment::Encoding;
use crate::table::{RowSegment, Source, Version, VersionChunk, strict_cast};
use crate::{ColumnStats, FormatError, Result, SEGMENT_ROWS, Segment, TableSnapshot};

/// A column of a row segment: some rows of a row group of a file.
#[derive(Debug, Clone)]
pub(crate) struct ParquetColumn {
    pub(super) file: Arc<ParquetFile>,
    pub(super) group: usize,
    /// Index of the file's leaf.
    pub(super) column: usize,
    /// Rows within the row group.
    pub(super) rows: Range<u64>,
    pub(super) ty: StoredType,
    /// Statistics of the row group, or of pages: values are tested against them, because types were narrowed and rows skipped by them.
    pub(super) stats: Arc<ColumnStats>,
    /// Page positions, if only some pages are read.
    pub(super) located: Option<Arc<Locations>>,
}

/// The reason why files are not read as a table of this kind.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// A file is damaged or cannot be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A column that a device does not decode, with the reason.
    #[error("{}: column {column:?}: {reason}", file.display())]
    Column {
        /// The file.
        file: PathBuf,
        /// The column.
        column: String,
        /// The reason.
        reason: String,
    },
}

/// The rows of `files`, in their order, as a table with the columns of `schema`, which are found by name. Each row group, or each 2^20 rows of one,
/// is a row segment with the row group's statistics. Reads only footers that are not cached.
///
/// # Errors
/// Files that cannot be read, and columns that a device does not decode.
pub fn table(files: &[PathBuf], schema: &SchemaRef) -> Result<Arc<TableSnapshot>, Unreadable> {
    let files = files.iter().map(|path| ParquetFile::open(path)).collect::<Result<Vec<_>>>()?;
    table_of(&files, schema)
}

/// [`table`] of files that have been opened.
///
/// # Errors
/// Columns that a device does not decode.
pub fn table_of(files: &[Arc<ParquetFile>], schema: &SchemaRef) -> Result<Arc<TableSnapshot>, Unreadable> {
    let mut segments = vec![];
    for file in files {
        let path = file.path();
        let leaves = file.metadata().file_metadata().schema_descr_ptr();
        let natural = parquet_to_arrow_schema(&leaves, None)
            .map_err(|error| FormatError::corrupt(path, format!("its schema is none: {error}")))?;
        let mut columns = vec![];
        for field in schema.fields() {
            let unreadable =
                |reason: String| Unreadable::Column { file: path.to_owned(), column: field.name().clone(), reason };
            let root = |leaf: usize| leaves.column(leaf).path().parts()[0] == *field.name();
            let leaf = (0..leaves.num_columns()).find(|&leaf| root(leaf));
            let leaf = leaf.ok_or_else(|| unreadable("the file does not have it".into()))?;
            let found = natural.field_with_name(field.name()).map_err(|error| unreadable(error.to_string()))?;
            let ty = StoredType::of(&leaves.column(leaf), found.data_type(), field.data_type()).map_err(unreadable)?;
            columns.push((leaf, ty));
        }
        for group in 0..file.metadata().num_row_groups() {
            segments.extend(row_segments(file, group, &columns)?);
        }
    }
    let version = Version { segments, ..Version::empty(1, schema.clone()) };
    Ok(TableSnapshot::of_parquet(version, LeftOut::default()))
}

/// Divides a row group into row segments.
fn row_segments(file: &Arc<ParquetFile>, group: usize, columns: &[(usize, StoredType)]) -> Result<Vec<RowSegment>> {
    let metadata = file.metadata().row_group(group);
    let rows = u64::try_from(metadata.num_rows())
        .map_err(|_| FormatError::corrupt(file.path(), format!("row group {group} of {} rows", metadata.num_rows())))?;
    let stats: Vec<Arc<ColumnStats>> =
        columns.iter().map(|(column, ty)| Arc::new(ty.stats(metadata.column(*column), rows))).collect();
    let starts = (0..rows).step_by(SEGMENT_ROWS);
    let segment = |first: u64| {
        let rows = first..rows.min(first + SEGMENT_ROWS as u64);
        let chunks = columns.iter().zip(&stats).map(|((column, ty), stats)| {
            let (file, ty, stats) = (file.clone(), ty.clone(), stats.clone());
            let whole = rows == (0..metadata.num_rows() as u64);
            let own = if whole { (*stats).clone() } else { of_part(&stats, rows.end - rows.start) };
            let column = ParquetColumn { file, group, column: *column, rows: rows.clone(), ty, stats, located: None };
            VersionChunk::new(own, Encoding::Plain, None, Source::Parquet(column), None)
        });
        RowSegment { rows: (rows.end - rows.start) as usize, columns: chunks.collect(), deletions: None }
    };
    Ok(starts.map(segment).collect())
}

/// Statistics for `rows` rows of a row group: its bounds, and proportional counts.
pub(super) fn of_part(stats: &ColumnStats, rows: u64) -> ColumnStats {
    let share = |bytes: u64| (u128::from(bytes) * u128::from(rows) / u128::from(stats.rows.max(1))) as u64;
    let (plain_bytes, stored_bytes) = (share(stats.plain_bytes), share(stats.stored_bytes));
    let (rows, nulls) = match stats.nulls {
        0 => (rows, 0),
        all if all == stats.rows => (rows, rows),
        // Only the existence of NULLs is known: some rows, but not all, even for a single row.
        some => (rows.max(2), share(some).clamp(1, rows.max(2) - 1)),
    };
    ColumnStats { rows, nulls, plain_bytes, stored_bytes, ..stats.clone() }
}

impl ParquetColumn {
    /// Whether some values may be NULL.
    pub(super) fn has_nulls(&self) -> bool {
        self.stats.nulls > 0
    }

    /// Between which bounds all integers have to be. Types were narrowed by them.
    pub(super) fn range(&self) -> (i128, i128) {
        if self.ty.range.is_none() {
            return self.ty.widest();
        }
        if self.stats.nulls == self.stats.rows {
            // No values.
            return (1, 0);
        }
        let (least, greatest) = self.ty.widest();
        self.stats.int_range().map_or((least, greatest), |(from, to)| (from.max(least), to.min(greatest)))
    }

    /// The file, and the row group and leaf.
    pub(crate) fn chunk_of(&self) -> (&Arc<ParquetFile>, (usize, usize)) {
        (&self.file, (self.group, self.column))
    }

    /// Upper bound of the byte ranges of the file that are read for it.
    pub(crate) fn wanted_bytes(&self) -> Result<Vec<Range<u64>>> {
        match &self.located {
            Some(locations) => Ok(locations.bytes_of(&self.rows)),
            None => Ok(vec![self.file.chunk_range(self.group, self.column)?]),
        }
    }

    /// The codec of its pages, and their stored and decompressed bytes; for a part of a row group its proportional share.
    pub(crate) fn page_sizes(&self) -> (PageCodec, u64, u64) {
        let group = self.file.metadata().row_group(self.group);
        let (chunk, all) = (group.column(self.column), group.num_rows().max(1) as u128);
        let own = u128::from(self.rows.end - self.rows.start);
        let share = |bytes: i64| (u128::from(bytes.max(0) as u64) * own / all) as u64;
        (PageCodec::of(chunk.compression()), share(chunk.compressed_size()), share(chunk.uncompressed_size()))
    }

    /// The form for a device that decompresses `codecs`.
    pub(crate) fn chunk(&self, codecs: PageCodecs) -> Result<ParquetChunk> {
        ParquetSlice::open(self, codecs)
    }

    /// The rows, decoded by the host.
    ///
    /// Errors: [`FormatError::Corrupt`], naming file, row group and column.
    pub(crate) fn decode(&self, field: &arrow::datatypes::Field) -> Result<Segment> {
        let place = || self.file.place(self.group, self.column);
        let corrupt = |detail: String| self.file.corrupt(place(), detail);
        let rows = (self.rows.end - self.rows.start) as usize;
        if let Some(remote) = self.file.remote() {
            let wanted = self.rows.start as usize..self.rows.end as usize;
            let chunk = (self.group, self.column);
            let batches = remote.file.decode(self.file.reader_metadata(), chunk, wanted);
            let batches = batches.map_err(FormatError::io("cannot read", self.file.path()))?;
            let arrays: Vec<&dyn arrow::array::Array> = batches.iter().map(|batch| &**batch.column(0)).collect();
            let array: ArrayRef = arrow::compute::concat(&arrays).map_err(|error| corrupt(error.to_string()))?;
            return self.encode(&array, field);
        }
        let handle = self.file.handle(&place)?;
        self.file.checked().check_chunks(&handle, self.group, &[self.column])?;
        let read = || {
            let builder =
                ParquetRecordBatchReaderBuilder::new_with_metadata(handle, self.file.reader_metadata().clone());
            let mask = ProjectionMask::leaves(builder.parquet_schema(), [self.column]);
            let reader = builder
                .with_row_groups(vec![self.group])
                .with_projection(mask)
                .with_offset(self.rows.start as usize)
                .with_limit(rows)
                .with_batch_size(rows.max(1))
                .build()
                .map_err(|error| error.to_string())?;
            let batches: Vec<_> = reader.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
            let arrays: Vec<&dyn arrow::array::Array> = batches.iter().map(|batch| &**batch.column(0)).collect();
            arrow::compute::concat(&arrays).map_err(|error| error.to_string())
        };
        // The decoder trusts sizes claimed by damaged pages: its panics become errors of the file.
        let array: ArrayRef = caught(read).and_then(|read| read).map_err(corrupt)?;
        self.encode(&array, field)
    }

    /// The segment of the decoded rows.
    fn encode(&self, array: &ArrayRef, field: &arrow::datatypes::Field) -> Result<Segment> {
        let corrupt = |detail: String| self.file.corrupt(self.file.place(self.group, self.column), detail);
        let rows = (self.rows.end - self.rows.start) as usize;
        if array.len() != rows {
            return Err(corrupt(format!("{} rows instead of {rows}", array.len())));
        }
        // Segments have one string type; other types differ in the writer's annotation, not in their bits.
        let wanted = match field.data_type() {
            DataType::LargeUtf8 | DataType::Utf8View => &DataType::Utf8,
            other => other,
        };
        let array = strict_cast(array, wanted).map_err(|error| corrupt(error.to_string()))?;
        Segment::encode(&array, None, Some(Encoding::Plain))
    }

    /// Checks `segment`, decoded by the host, against the statistics.
    pub(crate) fn check(&self, segment: &Segment) -> Result<()> {
        let corrupt = |detail: &str| Err(self.file.corrupt(self.file.place(self.group, self.column), detail));
        let (least, greatest) = self.range();
        let within = segment.stats().int_range().is_none_or(|(from, to)| from >= least && to <= greatest);
        if self.ty.range.is_some() && !within {
            return corrupt("values outside of their statistics");
        }
        if !self.has_nulls() && segment.stats().nulls > 0 {
            return corrupt("NULLs, of which its statistics say that there are none");
        }
        Ok(())
    }
}
