//! Rows of tables on their way to DuckDB.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as Order};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use warpmill_format::stats::ColumnStats;
use warpmill_format::{StatValue, TableSnapshot};

use super::Failed;
use super::table::OwnTable;

/// A condition that all rows fulfil which are of any use: what row segments are left out by.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// The position of the column in the table.
    pub column: usize,
    /// The comparison of the column with the value.
    pub comparison: Comparison,
}

/// A comparison with a value, or with NULL.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "SQL's names")]
pub enum Comparison {
    Equal(StatValue),
    Less(StatValue),
    LessOrEqual(StatValue),
    Greater(StatValue),
    GreaterOrEqual(StatValue),
    IsNull,
    IsNotNull,
}

/// The rows of a row segment.
pub struct Rows {
    /// The place of the row segment among those that are read.
    pub place: usize,
    /// The number of its first row in the table.
    pub first: u64,
    /// The rows.
    pub batch: RecordBatch,
}

/// A scan of some columns, shared by threads: each takes the next row segment.
pub struct Scan {
    table: Arc<TableSnapshot>,
    columns: Vec<usize>,
    /// The columns as they are stored, and as they are given away.
    stored: SchemaRef,
    given: SchemaRef,
    /// Row segments that are read, and the numbers of their first rows.
    segments: Vec<(usize, u64)>,
    next: AtomicUsize,
    finished: AtomicUsize,
}

impl Scan {
    /// A scan of the columns at these positions, of row segments that may have rows within `bounds`.
    ///
    /// # Errors
    /// A position beyond the table's columns.
    pub fn new(table: &OwnTable, columns: Vec<usize>, bounds: &[Bound]) -> Result<Self, Failed> {
        let table = Arc::clone(table.snapshot());
        let stored: SchemaRef = Arc::new(table.schema().project(&columns)?);
        let given = warpmill::given_schema(&stored, warpmill::Form::Extension);
        let bounds: Vec<&Bound> = bounds.iter().filter(|bound| has_bounds(&table, bound.column)).collect();
        let may_have = |&segment: &usize| {
            bounds.iter().all(|bound| bound.comparison.may_hold(table.segment_stats(segment, bound.column)))
        };
        let mut first = 0;
        let numbered = (0..table.num_segments()).map(|segment| {
            let numbered = (segment, first);
            first += table.segment_rows(segment) as u64;
            numbered
        });
        let segments = numbered.filter(|(segment, _)| may_have(segment)).collect();
        let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Ok(Self { table, columns, stored, given, segments, next, finished })
    }

    /// The schema of batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.given
    }

    /// Row segments that are read.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Row segments that have been read.
    pub fn finished(&self) -> usize {
        self.finished.load(Order::Relaxed)
    }

    /// The rows of the next row segment.
    ///
    /// # Errors
    /// Damage.
    pub fn next_rows(&self) -> Result<Option<Rows>, Failed> {
        let place = self.next.fetch_add(1, Order::Relaxed);
        let Some(&(segment, first)) = self.segments.get(place) else { return Ok(None) };
        let columns = self.columns.iter().map(|&column| self.table.array(segment, column));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.table.segment_rows(segment)));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.stored), columns, &options)?;
        let batch = warpmill::with_schema(batch, &self.given)?;
        if self.finished.fetch_add(1, Order::AcqRel) + 1 == self.segments.len() {
            self.table.check_files()?;
        }
        Ok(Some(Rows { place, first, batch }))
    }
}

/// Whether bounds of a column mean what DuckDB's values mean: moments with a zone are microseconds there.
fn has_bounds(table: &TableSnapshot, column: usize) -> bool {
    let field = table.schema().fields().get(column);
    field.is_some_and(|field| match field.data_type() {
        DataType::Timestamp(unit, Some(_)) => *unit == TimeUnit::Microsecond,
        ty => !ty.is_nested(),
    })
}

impl Comparison {
    /// Whether a row segment with these statistics may have a row for which it holds.
    pub fn may_hold(&self, stats: &ColumnStats) -> bool {
        use Ordering::{Equal, Greater, Less};
        let least = |value: &StatValue| compare(stats.min.as_ref(), value);
        let most = |value: &StatValue| compare(stats.max.as_ref(), value);
        match self {
            Self::IsNull => return stats.nulls > 0,
            _ if stats.nulls == stats.rows => return false,
            _ => {}
        }
        match self {
            Self::IsNull | Self::IsNotNull => true,
            Self::Equal(value) => least(value) != Some(Greater) && most(value) != Some(Less),
            Self::Less(value) => !matches!(least(value), Some(Greater | Equal)),
            Self::LessOrEqual(value) => least(value) != Some(Greater),
            Self::Greater(value) => !matches!(most(value), Some(Less | Equal)),
            Self::GreaterOrEqual(value) => most(value) != Some(Less),
        }
    }
}

/// The order of a bound and a value; `None` where nothing follows from it.
fn compare(bound: Option<&StatValue>, value: &StatValue) -> Option<Ordering> {
    match (bound?, value) {
        (StatValue::Int(a), StatValue::Int(b)) => Some(a.cmp(b)),
        (StatValue::Float(a), StatValue::Float(b)) => a.partial_cmp(b),
        (StatValue::Str(a), StatValue::Str(b)) => Some(a.cmp(b)),
        _ => None,
    }
}
