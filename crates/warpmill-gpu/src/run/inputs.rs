//! Rows from outside (of DataFusion's operators below) and constant rows, made ready for device memory.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use warpmill_eval::rows::RowSet;
use warpmill_ir::{Program, Source};

use super::rows::{self, HostArray};
use crate::memory::error::Result;

/// The rows of a program's sources that are no scans.
#[derive(Default)]
pub struct Inputs {
    /// The names of each source among the query's buffers, its rows and its arrays.
    pub sources: Vec<(String, u64, Vec<HostArray>)>,
}

impl Inputs {
    /// The rows of `batches`, by number of the input, and the constant rows of `program`.
    ///
    /// # Errors
    /// Values that the program's types cannot hold.
    pub fn encode(program: &Program, batches: &[Vec<RecordBatch>]) -> Result<Self> {
        let mut sources = vec![];
        for (index, pipeline) in program.pipelines.iter().enumerate() {
            let (owner, rows, fields) = match &pipeline.source {
                Source::Input { input, fields } => {
                    let mut rows = RowSet::default();
                    for batch in &batches[*input] {
                        let columns = batch.columns().iter().zip(fields);
                        let vectors = columns
                            .map(|(array, field)| warpmill_eval::arrow::from_arrow(array, &field.ty).map(Arc::new));
                        rows.batches.push((vectors.collect::<Result<_, _>>()?, batch.num_rows()));
                    }
                    (format!("input{input}"), rows, fields)
                }
                Source::Values { rows, fields } => {
                    (format!("values{index}"), warpmill_eval::rows::values(rows, fields), fields)
                }
                _ => continue,
            };
            let arrays = rows::encode(&owner, fields, &rows);
            sources.push((owner, rows.rows() as u64, arrays));
        }
        Ok(Self { sources })
    }

    /// The bytes that they take of a region.
    pub fn allocated(&self) -> u64 {
        self.sources.iter().flat_map(|(_, _, arrays)| arrays).map(HostArray::allocated).sum()
    }
}
