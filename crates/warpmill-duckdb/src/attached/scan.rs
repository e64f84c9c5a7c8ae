//! Rows of tables on their way to DuckDB.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::filter;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use warpmill_format::{Segment, TableSnapshot};

use super::Failed;
use super::bounds::{Bound, kept_rows};
use super::table::OwnTable;

/// Largest number of rows that a thread takes at once: many vectors, but few enough for several threads to share a row segment.
const UNIT_ROWS: usize = 1 << 17;

/// Consecutive rows of a table.
pub struct Rows {
    /// The position of the unit among all units of the scan.
    pub place: usize,
    /// The number of the first row in the table, deleted rows left out.
    pub first: u64,
    /// The rows.
    pub batch: RecordBatch,
}

/// A scan of some columns, shared by threads: each takes the next rows.
pub struct Scan {
    table: Arc<TableSnapshot>,
    columns: Vec<usize>,
    /// The columns as the table stores them, and as the scan returns them.
    stored: SchemaRef,
    given: SchemaRef,
    sources: Vec<Source>,
    units: Vec<Unit>,
    next: AtomicUsize,
    finished: AtomicUsize,
}

/// A row segment that the scan reads.
struct Source {
    segment: usize,
    /// The number of its first row in the table, deleted rows left out.
    first: u64,
    /// Number of its units that have not been read yet.
    left: AtomicUsize,
    /// The segments of its columns while it is being read; some of them are decompressed copies.
    opened: Mutex<Option<Arc<[Arc<Segment>]>>>,
}

/// Rows that a thread takes at once.
struct Unit {
    source: usize,
    rows: Range<usize>,
}

impl Scan {
    /// A scan of the columns at these positions. It leaves out rows that cannot be within `bounds`.
    ///
    /// # Errors
    /// A position that the table does not have; damage.
    pub fn new(table: &OwnTable, columns: Vec<usize>, bounds: &[Bound]) -> Result<Self, Failed> {
        let table = Arc::clone(table.snapshot());
        let stored: SchemaRef = Arc::new(table.schema().project(&columns)?);
        let given = warpmill::given_schema(&stored, warpmill::Form::Extension);
        // Columns whose values are stored in parts are decoded by whole row segments.
        let is_divided = !stored.fields().iter().any(|field| Segment::has_parts(field.data_type()));
        let (mut sources, mut units, mut first) = (vec![], vec![], 0);
        for (segment, kept) in kept_rows(&table, bounds)?.into_iter().enumerate() {
            let begun = units.len();
            let kept = match is_divided {
                true => kept,
                false => kept.first().map(|_| 0..table.segment_rows(segment)).into_iter().collect(),
            };
            for rows in kept {
                let most = if is_divided { UNIT_ROWS } else { rows.len().max(1) };
                let starts = rows.clone().step_by(most);
                let source = sources.len();
                units.extend(starts.map(|start| Unit { source, rows: start..(start + most).min(rows.end) }));
            }
            if units.len() > begun {
                let left = AtomicUsize::new(units.len() - begun);
                sources.push(Source { segment, first, left, opened: Mutex::default() });
            }
            first += table.kept_rows(segment) as u64;
        }
        let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Ok(Self { table, columns, stored, given, sources, units, next, finished })
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.given
    }

    /// The number of units that threads take one by one.
    pub fn parts(&self) -> usize {
        self.units.len()
    }

    /// The number of units that have been read.
    pub fn finished(&self) -> usize {
        self.finished.load(Ordering::Relaxed)
    }

    /// The next rows; there may be none of a unit whose rows are deleted.
    ///
    /// # Errors
    /// Damage.
    pub fn next_rows(&self) -> Result<Option<Rows>, Failed> {
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(Unit { source, rows }) = self.units.get(place) else { return Ok(None) };
        let source = &self.sources[*source];
        let opened = self.open(source)?;
        let (mut first, mut count) = (source.first + rows.start as u64, rows.len());
        let kept = self.table.kept(source.segment)?.map(|kept| {
            first -= kept.slice(0, rows.start).false_count() as u64;
            kept.slice(rows.start, rows.len())
        });
        let columns = self.columns.iter().zip(&*opened).map(|(&column, opened)| {
            let array = self.table.array_rows(opened, column, rows.clone())?;
            match &kept {
                Some(kept) => Ok::<_, Failed>(filter(&array, kept)?),
                None => Ok(array),
            }
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        count -= kept.map_or(0, |kept| kept.false_count());
        if source.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            *source.opened.lock() = None;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.stored), columns, &options)?;
        let batch = warpmill::with_schema(batch, &self.given)?;
        if self.finished.fetch_add(1, Ordering::AcqRel) + 1 == self.units.len() {
            self.table.check_files()?;
        }
        Ok(Some(Rows { place, first, batch }))
    }

    fn open(&self, source: &Source) -> Result<Arc<[Arc<Segment>]>, Failed> {
        let mut opened = source.opened.lock();
        if let Some(opened) = &*opened {
            return Ok(Arc::clone(opened));
        }
        let columns = self.columns.iter().map(|&column| self.table.segment(source.segment, column));
        let columns: Arc<[Arc<Segment>]> = columns.collect::<Result<_, _>>()?;
        *opened = Some(Arc::clone(&columns));
        Ok(columns)
    }
}
