//! Sorts the rows of a write before they are divided into segments.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Decimal128Array};
use arrow::compute::{SortOptions, cast, interleave};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use arrow::row::{RowConverter, Rows, SortField};
use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use crate::pruning::Lookup;
use crate::stats::DistinctCounter;
use crate::{FormatError, Result, VECTOR_ROWS};

/// All rows of a write, held in memory until they can be sorted (at most 2^32 rows).
pub(crate) struct SortBuffer {
    schema: SchemaRef,
    /// `None`: the columns with the fewest distinct values.
    keys: Option<Vec<Key>>,
    lookups: Arc<[Lookup]>,
    batches: Vec<RecordBatch>,
    rows: u64,
}

/// A key that rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Column(usize),
    /// Look-up and attribute.
    Attribute(usize, usize),
}

/// Rows that distinct values are counted in.
const SAMPLE_ROWS: usize = 256 << 10;

impl SortBuffer {
    /// A buffer that sorts by the columns or attributes named, ascending, nulls last.
    pub fn new(schema: &SchemaRef, names: &[String], lookups: Arc<[Lookup]>) -> Result<Self> {
        let attribute = |name: &String| {
            let all = lookups.iter().enumerate().flat_map(|(l, lookup)| {
                lookup.attributes.iter().enumerate().map(move |(a, attribute)| (Key::Attribute(l, a), &attribute.name))
            });
            all.into_iter().find(|(_, other)| *other == name).map(|(key, _)| key)
        };
        let index = |name: &String| {
            let unknown = || FormatError::schema(name, "cannot sort by it: the table has no such column");
            schema.index_of(name).ok().map(Key::Column).or_else(|| attribute(name)).ok_or_else(unknown)
        };
        let keys = Some(names.iter().map(index).collect::<Result<_>>()?);
        Ok(Self { keys, ..Self::clustering(schema, lookups) })
    }

    /// A buffer that sorts by the attributes with the fewest distinct values first, or by the columns if there are no attributes (GOLAP, section
    /// 4.4).
    pub fn clustering(schema: &SchemaRef, lookups: Arc<[Lookup]>) -> Self {
        Self { schema: schema.clone(), keys: None, lookups, batches: Vec::new(), rows: 0 }
    }

    pub fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        if self.rows > u64::from(u32::MAX) {
            return Err(FormatError::Catalog("cannot sort more than 4294967295 rows in one write".into()));
        }
        self.batches.push(batch);
        Ok(())
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Keys in order of their number of distinct values, as far as they matter: once groups are smaller than a vector, further keys have little
    /// effect.
    fn fewest_distinct(&self) -> Result<Vec<Key>> {
        let attributes = self.lookups.iter().enumerate().flat_map(|(l, lookup)| {
            (0..lookup.attributes.len()).map(move |a| (Key::Attribute(l, a), lookup.distinct(a)))
        });
        let mut counted: Vec<(Key, u64)> = attributes.collect();
        if self.lookups.is_empty() {
            let columns = 0..self.schema.fields().len();
            counted = columns.map(|c| Ok((Key::Column(c), self.distinct(c)?))).collect::<Result<_>>()?;
        }
        counted.retain(|(_, distinct)| *distinct > 1);
        counted.sort_by_key(|(_, distinct)| *distinct);
        let mut groups = 1u64;
        let enough = self.rows / VECTOR_ROWS as u64;
        let matters = |(_, distinct): &(Key, u64)| {
            let more = groups <= enough;
            groups = groups.saturating_mul(*distinct);
            more
        };
        Ok(counted.into_iter().take_while(matters).map(|(key, _)| key).collect())
    }

    /// Estimated number of distinct values of column `column`, from a sample.
    fn distinct(&self, column: usize) -> Result<u64> {
        let mut counter = DistinctCounter::hashed();
        let part = (SAMPLE_ROWS as f64 / self.rows.max(1) as f64).min(1.0);
        for batch in &self.batches {
            let rows = (batch.num_rows() as f64 * part).ceil() as usize;
            let sample = batch.column(column).slice(0, rows.min(batch.num_rows()));
            let converter = RowConverter::new(vec![SortField::new(sample.data_type().clone())])?;
            converter.convert_columns(&[sample])?.iter().for_each(|row| counter.add_bytes(row.as_ref()));
        }
        Ok(counter.estimate())
    }

    fn key_array(&self, key: Key, batch: &RecordBatch) -> Result<ArrayRef> {
        let (lookup, attribute) = match key {
            Key::Column(column) => return Ok(batch.column(column).clone()),
            Key::Attribute(lookup, attribute) => (&self.lookups[lookup], attribute),
        };
        let keys = integers(batch.column(lookup.column))?;
        let ranks = lookup.ranks_of(attribute, keys.into_iter());
        Ok(Arc::new(Decimal128Array::from_iter(ranks)))
    }

    /// Hands the rows to `sink` in stable order, in batches of `batch_rows`.
    pub fn drain(self, batch_rows: usize, mut sink: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        if self.batches.is_empty() {
            return Ok(());
        }
        let sort_keys = match &self.keys {
            Some(keys) => keys.clone(),
            None => self.fewest_distinct()?,
        };
        if sort_keys.is_empty() {
            return self.batches.into_iter().try_for_each(sink);
        }
        let options = SortOptions { descending: false, nulls_first: false };
        let fields = sort_keys.iter().map(|key| SortField::new_with_options(key_type(*key, &self.schema), options));
        let converter = RowConverter::new(fields.collect())?;
        let keys = |batch: &RecordBatch| {
            let columns = sort_keys.iter().map(|key| self.key_array(*key, batch)).collect::<Result<Vec<_>>>()?;
            Ok(converter.convert_columns(&columns)?)
        };
        let keys: Vec<Rows> = self.batches.par_iter().map(keys).collect::<Result<_>>()?;
        let places = |(b, batch): (usize, &RecordBatch)| (0..batch.num_rows() as u32).map(move |row| (b as u32, row));
        let mut order: Vec<(u32, u32)> = self.batches.iter().enumerate().flat_map(places).collect();
        let key = |place: &(u32, u32)| keys[place.0 as usize].row(place.1 as usize);
        order.par_sort_unstable_by(|a, b| key(a).cmp(&key(b)).then(a.cmp(b)));
        drop(keys);
        for rows in order.chunks(batch_rows) {
            let rows: Vec<(usize, usize)> = rows.iter().map(|&(b, row)| (b as usize, row as usize)).collect();
            sink(self.gathered(&rows)?)?;
        }
        Ok(())
    }

    /// Gathers rows, given by batch and row; columns in parallel.
    fn gathered(&self, rows: &[(usize, usize)]) -> Result<RecordBatch> {
        let gather = |column: usize| {
            let parts: Vec<&dyn Array> = self.batches.iter().map(|batch| &**batch.column(column)).collect();
            Ok(interleave(&parts, rows)?)
        };
        let columns = (0..self.schema.fields().len()).into_par_iter().map(gather).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(self.batches[0].schema(), columns, &options)?)
    }
}

/// The type that a key is sorted as: ranks of attributes are decimals.
fn key_type(key: Key, schema: &Schema) -> DataType {
    match key {
        Key::Column(column) => schema.field(column).data_type().clone(),
        Key::Attribute(..) => Decimal128Array::builder(0).finish().data_type().clone(),
    }
}

/// Integers, dates and similar values as numbers.
fn integers(array: &ArrayRef) -> Result<Vec<Option<i128>>> {
    let array = match array.data_type() {
        DataType::UInt64 => cast(array, &DataType::Decimal128(20, 0))?,
        data_type if data_type.is_integer() => cast(&cast(array, &DataType::Int64)?, &DataType::Decimal128(20, 0))?,
        DataType::Date32 | DataType::Time32(_) => cast(&cast(array, &DataType::Int32)?, &DataType::Decimal128(20, 0))?,
        _ => cast(&cast(array, &DataType::Int64)?, &DataType::Decimal128(20, 0))?,
    };
    let array = arrow::array::AsArray::as_primitive::<arrow::datatypes::Decimal128Type>(&array);
    Ok(array.iter().collect())
}
