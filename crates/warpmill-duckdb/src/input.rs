//! Rows that come in.

use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::ffi::{FFI_ArrowArray, from_ffi_and_data_type};
use parking_lot::Mutex;
use warpmill_format::pruning::Metadata;
use warpmill_format::table::WriteOptions;
use warpmill_format::{Table, TableWriter};

use crate::Refused;
use crate::cache;
use crate::plan::Plan;

/// Rows of one input of one execution.
pub struct Input {
    plan: Arc<Plan>,
    index: usize,
    key: Option<String>,
    cached: Option<Arc<Table>>,
    /// Rows that have come so far; made when the first come.
    writer: Mutex<Option<TableWriter>>,
    error: OnceLock<String>,
}

impl Input {
    /// Input `index` of `plan`; with a key, rows may be known already and are kept.
    pub fn new(plan: Arc<Plan>, index: usize, key: Option<String>) -> Self {
        let cached = key.as_deref().and_then(|key| cache::find(key, &plan.inputs[index].positions));
        Self { plan, index, key, cached, writer: Mutex::default(), error: OnceLock::new() }
    }

    /// Whether no rows need to come.
    pub fn is_cached(&self) -> bool {
        self.cached.is_some()
    }

    /// Why rows were refused.
    pub fn error(&self) -> Option<&str> {
        self.error.get().map(String::as_str)
    }

    /// Takes rows: a struct of the input's columns.
    pub fn push(&self, array: FFI_ArrowArray) -> bool {
        let result = self.batch(array).and_then(|batch| self.write(&batch));
        result.map_err(|error| self.error.get_or_init(|| error.to_string())).is_ok()
    }

    fn schema(&self) -> &SchemaRef {
        &self.plan.inputs[self.index].schema
    }

    fn batch(&self, array: FFI_ArrowArray) -> Result<RecordBatch, Refused> {
        let failed = |error: arrow::error::ArrowError| Refused::new(error.to_string());
        let schema = Arc::clone(self.schema());
        if self.plan.inputs[self.index].columns.is_empty() {
            let rows: ArrayRef = Arc::new(BooleanArray::new_null(array.len()));
            return RecordBatch::try_new(schema, vec![rows]).map_err(failed);
        }
        let ty = DataType::Struct(schema.fields().clone());
        // SAFETY: the shim hands over an array of these columns, made by DuckDB, and does not use it again.
        let data = unsafe { from_ffi_and_data_type(array, ty) }.map_err(failed)?;
        let rows = data.len();
        let columns = StructArray::from(data).into_parts().1;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(failed)
    }

    fn write(&self, batch: &RecordBatch) -> Result<(), Refused> {
        let mut writer = self.writer.lock();
        if writer.is_none() {
            *writer = Some(self.open()?);
        }
        let writer = writer.as_mut().expect("it has just been made");
        Ok(writer.write(batch)?)
    }

    fn open(&self) -> Result<TableWriter, Refused> {
        let table = Table::in_memory(Arc::clone(self.schema()));
        // Rows are in the way of their first query here: bounds are all the metadata that they get.
        let options = WriteOptions { metadata: Metadata::MinMax, ..WriteOptions::default() };
        Ok(table.replace(Arc::clone(self.schema()), options)?)
    }

    /// All rows, once no more come.
    pub fn finish(&self) -> Result<Arc<Table>, Refused> {
        if let Some(error) = self.error() {
            return Err(Refused::new(error));
        }
        if let Some(table) = &self.cached {
            return Ok(Arc::clone(table));
        }
        let writer = self.writer.lock().take();
        let writer = writer.map_or_else(|| self.open(), Ok)?;
        let table = Arc::clone(writer.table());
        writer.commit()?;
        if let Some(key) = &self.key {
            cache::keep(key, &self.plan.inputs[self.index].positions, &table);
        }
        Ok(table)
    }
}
