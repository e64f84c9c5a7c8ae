//! Deleted rows of row segments that are not written anew (deletion vectors): a Boolean column beside the others tells which rows are kept.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, AsArray, BooleanArray};
use arrow::buffer::{BooleanBuffer, Buffer};
use arrow::datatypes::{DataType, Field};

use super::TableSnapshot;
use super::chunk::{Chunk, Source};
use super::manifest::{ChunkEntry, DeletionsEntry};
use super::sink::Sink;
use super::snapshot::extended;
use super::version::RowSegment;
use crate::codec::Stored;
use crate::{Bitmap, ColumnStats, FormatError, Result, Segment};

/// The name of the column in [`TableSnapshot::with_kept`].
const KEPT: &str = "kept";

/// Rows are marked as deleted as long as they are at most one of this many; beyond, their row segment is written anew.
const MOST_MARKED: usize = 2;

/// The deleted rows of a row segment.
#[derive(Debug)]
pub(crate) struct Deletions {
    /// Their number: at least one, and not all.
    pub count: usize,
    /// Whether each row is kept.
    pub kept: Arc<Chunk>,
    /// The deleted rows, once somebody has asked for them.
    rows: OnceLock<Bitmap>,
}

impl Deletions {
    /// The deletions of `entry`, with the chunk for its `kept`.
    pub fn of_entry(entry: &DeletionsEntry, kept: Arc<Chunk>) -> Arc<Self> {
        Arc::new(Self { count: entry.count, kept, rows: OnceLock::new() })
    }

    /// Stores the deleted `rows` of a row segment, which are encoded as `kept`.
    pub fn store(rows: Bitmap, kept: Segment, sink: &mut Sink) -> Result<Arc<Self>> {
        let stored = Stored { segment: kept, compressed: None };
        let light = sink.put_light(&stored, false)?;
        let kept = sink.put(stored, light, None, false)?;
        Ok(Arc::new(Self { count: rows.count_ones(), kept, rows: OnceLock::from(rows) }))
    }

    /// The same in the place of another chunk.
    pub fn moved(&self, kept: Arc<Chunk>) -> Arc<Self> {
        Arc::new(Self { count: self.count, kept, rows: self.rows.clone() })
    }

    /// Whether both are the same as they are stored, and not in memory that has no file yet.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.kept, &other.kept)
            || other.kept.place().is_some_and(|place| self.kept.is_at(place, None) && !place.file.is_pending())
    }

    /// The stored form; `kept` is that of the chunk.
    pub fn entry(&self, kept: ChunkEntry) -> DeletionsEntry {
        DeletionsEntry { count: self.count, kept }
    }
}

/// Whether `deleted` of `rows` rows stay where they are, marked.
pub(super) fn stay_marked(deleted: usize, rows: usize, least_rows: usize) -> bool {
    rows >= least_rows && deleted.saturating_mul(MOST_MARKED) <= rows
}

/// Whether each row is kept: all but those `deleted`.
pub(super) fn kept_mask(deleted: &Bitmap) -> BooleanArray {
    let kept = deleted.not();
    BooleanArray::new(BooleanBuffer::new(Buffer::from_vec(kept.words().to_vec()), 0, kept.len()), None)
}

/// A chunk of which all rows are kept.
fn all_kept(rows: usize) -> Result<Arc<Chunk>> {
    let segment = Segment::marks(&Bitmap::new(rows, true))?;
    let stats = ColumnStats { stored_bytes: segment.as_bytes().len() as u64, ..segment.stats().clone() };
    let encoding = segment.encoding();
    Ok(Chunk::new(stats, encoding, None, Source::Memory(Arc::new(segment)), None))
}

impl TableSnapshot {
    /// Whether some row segments have rows that are deleted.
    pub fn has_deletions(&self) -> bool {
        self.stored_rows() > self.num_rows()
    }

    /// The number of rows in a row segment that are not deleted.
    pub fn kept_rows(&self, segment: usize) -> usize {
        self.parts().segments[segment].kept_rows()
    }

    /// The deleted rows of a row segment; `None`: there are none.
    ///
    /// # Errors
    /// Errors of reading, as of [`TableSnapshot::segment`].
    pub fn deleted(&self, segment: usize) -> Result<Option<&Bitmap>> {
        let Some(deletions) = &self.parts().segments[segment].deletions else { return Ok(None) };
        if let Some(known) = deletions.rows.get() {
            return Ok(Some(known));
        }
        let with = self.with_kept()?.expect("a table with deletions");
        let column = self.schema().fields().len();
        let kept = with.array(segment, column)?;
        let words = kept.as_boolean().values().iter();
        let mut rows = Bitmap::new(kept.len(), false);
        words.enumerate().filter(|(_, kept)| !kept).for_each(|(row, _)| rows.set(row, true));
        if rows.count_ones() != deletions.count {
            let path = deletions.kept.place().map(|place| place.file.path()).unwrap_or_default();
            let (found, said) = (rows.count_ones(), deletions.count);
            return Err(FormatError::corrupt(&path, format!("{found} deleted rows in segment {segment}, not {said}")));
        }
        Ok(Some(deletions.rows.get_or_init(|| rows)))
    }

    /// The rows of a row segment that are kept, for [`arrow::compute::filter`]; `None`: all are.
    ///
    /// # Errors
    /// Errors of reading, as of [`TableSnapshot::segment`].
    pub fn kept(&self, segment: usize) -> Result<Option<BooleanArray>> {
        Ok(self.deleted(segment)?.map(kept_mask))
    }

    /// Whether a row that is not deleted is NULL in a column.
    ///
    /// # Errors
    /// Errors of reading, as of [`TableSnapshot::segment`].
    pub fn has_null(&self, column: usize) -> Result<bool> {
        for segment in 0..self.num_segments() {
            if self.segment_stats(segment, column).nulls == 0 {
                continue;
            }
            let Some(deleted) = self.deleted(segment)? else { return Ok(true) };
            let nulls = self.array(segment, column)?.logical_nulls();
            if nulls.is_some_and(|nulls| (0..nulls.len()).any(|row| nulls.is_null(row) && !deleted.get(row))) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All stored rows, deleted ones among them, with an additional last column "kept": whether a row is kept. `None`: no row is deleted.
    ///
    /// # Errors
    /// Errors of encoding, which are not expected.
    pub fn with_kept(&self) -> Result<Option<Arc<Self>>> {
        if !self.has_deletions() {
            return Ok(None);
        }
        if let Some(known) = self.with_kept.get() {
            return Ok(Some(Arc::clone(known)));
        }
        let mut alike: HashMap<usize, Arc<Chunk>> = HashMap::new();
        let chunks = self.parts().segments.iter().map(|segment| match &segment.deletions {
            Some(deletions) => Ok(Arc::clone(&deletions.kept)),
            None => match alike.get(&segment.rows) {
                Some(known) => Ok(Arc::clone(known)),
                None => {
                    let made = all_kept(segment.rows)?;
                    alike.insert(segment.rows, Arc::clone(&made));
                    Ok(made)
                }
            },
        });
        let chunks = chunks.collect::<Result<Vec<_>>>()?;
        let segments = self.parts().segments.iter().zip(chunks);
        let segments = segments.map(|(segment, chunk)| RowSegment { deletions: None, ..extended(segment, chunk) });
        let made = self.with_column(Field::new(KEPT, DataType::Boolean, false), segments.collect());
        // One snapshot for all statements, so that devices find their copies of it.
        Ok(Some(Arc::clone(self.with_kept.get_or_init(|| made))))
    }
}
