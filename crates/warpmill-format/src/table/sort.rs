//! Sorting the rows of a write before they are cut into segments.

use arrow::compute::{SortOptions, interleave_record_batch};
use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, SortField};
use rayon::slice::ParallelSliceMut;

use crate::{FormatError, Result};

/// All rows of a write, held in memory until they can be sorted (at most 2^32 rows).
#[derive(Debug)]
pub(crate) struct SortBuffer {
    columns: Vec<usize>,
    batches: Vec<RecordBatch>,
    rows: u64,
}

impl SortBuffer {
    /// A buffer that sorts by the columns named, ascending, nulls last.
    pub fn new(schema: &Schema, names: &[String]) -> Result<Self> {
        let index = |name: &String| {
            let unknown = |_| FormatError::schema(name, "cannot sort by it: the table has no such column");
            schema.index_of(name).map_err(unknown)
        };
        Ok(Self { columns: names.iter().map(index).collect::<Result<_>>()?, batches: Vec::new(), rows: 0 })
    }

    pub fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        if self.rows > u64::from(u32::MAX) {
            return Err(FormatError::Catalog("cannot sort more than 4294967295 rows in one write".into()));
        }
        self.batches.push(batch);
        Ok(())
    }

    /// Hands the rows to `sink` in stable order, in batches of `batch_rows`.
    pub fn drain(self, batch_rows: usize, mut sink: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let Some(first) = self.batches.first() else { return Ok(()) };
        let schema = first.schema();
        let options = SortOptions { descending: false, nulls_first: false };
        let fields = self.columns.iter().map(|&c| {
            let data_type = schema.field(c).data_type().clone();
            SortField::new_with_options(data_type, options)
        });
        let converter = RowConverter::new(fields.collect())?;
        let mut keys = converter.empty_rows(self.rows as usize, 0);
        let mut places = Vec::with_capacity(self.rows as usize);
        for (b, batch) in self.batches.iter().enumerate() {
            let columns: Vec<_> = self.columns.iter().map(|&c| batch.column(c).clone()).collect();
            converter.append(&mut keys, &columns)?;
            places.extend((0..batch.num_rows()).map(|row| (b, row)));
        }
        let mut order: Vec<u32> = (0..self.rows as u32).collect();
        order.par_sort_unstable_by(|&a, &b| keys.row(a as usize).cmp(&keys.row(b as usize)).then(a.cmp(&b)));
        drop(keys);
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        for rows in order.chunks(batch_rows) {
            let rows: Vec<(usize, usize)> = rows.iter().map(|&row| places[row as usize]).collect();
            sink(interleave_record_batch(&batches, &rows)?)?;
        }
        Ok(())
    }
}
