//! Tables: row segments of all columns, in committed versions, on disk or in memory.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

use crate::{ColumnStats, Dictionary, Result, Segment};

/// A table directory (or a table in memory): gives snapshots and takes commits.
pub struct Table {}

/// One committed version of a table: immutable, readable for as long as it is held.
pub struct TableSnapshot {}

/// Writes row segments of a new version; nothing is visible before [`TableWriter::commit`].
pub struct TableWriter {}

/// How a table is written.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Rows of a full segment (a multiple of 1024).
    pub segment_rows: usize,
    /// Columns to sort the input by before it is cut into segments.
    pub sort_by: Vec<String>,
    /// Worker threads (0: all cores).
    pub threads: usize,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { segment_rows: crate::SEGMENT_ROWS, sort_by: Vec::new(), threads: 0 }
    }
}

impl Table {
    /// A new, empty table in directory `path`, which must not exist.
    pub fn create(_path: &Path, _schema: SchemaRef) -> Result<Arc<Self>> {
        todo!()
    }

    /// The table in directory `path`.
    pub fn open(_path: &Path) -> Result<Arc<Self>> {
        todo!()
    }

    /// A table that lives in memory only.
    pub fn in_memory(_schema: SchemaRef) -> Arc<Self> {
        todo!()
    }

    /// The newest committed version.
    pub fn snapshot(&self) -> Result<Arc<TableSnapshot>> {
        todo!()
    }

    /// Starts an append to the newest version.
    pub fn append(self: &Arc<Self>, _options: WriteOptions) -> Result<TableWriter> {
        todo!()
    }

    /// Starts a version that replaces all rows (and may change the schema).
    pub fn replace(self: &Arc<Self>, _schema: SchemaRef, _options: WriteOptions) -> Result<TableWriter> {
        todo!()
    }
}

impl TableWriter {
    /// Adds rows; full segments are encoded on worker threads while more rows arrive.
    pub fn write(&mut self, _batch: &RecordBatch) -> Result<()> {
        todo!()
    }

    /// Encodes what is left, makes the new version durable and visible, and returns it.
    pub fn commit(self) -> Result<Arc<TableSnapshot>> {
        todo!()
    }
}

impl TableSnapshot {
    /// Column names and types.
    pub fn schema(&self) -> &SchemaRef {
        todo!()
    }

    /// The version number, unique within the table and growing with each commit.
    pub fn version(&self) -> u64 {
        todo!()
    }

    /// Rows of all segments.
    pub fn num_rows(&self) -> u64 {
        todo!()
    }

    /// Number of row segments.
    pub fn num_segments(&self) -> usize {
        todo!()
    }

    /// Rows of row segment `segment`.
    pub fn segment_rows(&self, _segment: usize) -> usize {
        todo!()
    }

    /// Statistics of a column over all segments.
    pub fn column_stats(&self, _column: usize) -> &ColumnStats {
        todo!()
    }

    /// Statistics of a column in one row segment (no I/O).
    pub fn segment_stats(&self, _segment: usize, _column: usize) -> &ColumnStats {
        todo!()
    }

    /// The dictionary of a string column: if there is one, every segment of the column decodes to its codes.
    pub fn dictionary(&self, _column: usize) -> Option<&Arc<Dictionary>> {
        todo!()
    }

    /// One column of one row segment, mapped or read, checksum verified on first use, kept by the snapshot.
    pub fn segment(&self, _segment: usize, _column: usize) -> Result<Arc<Segment>> {
        todo!()
    }
}
