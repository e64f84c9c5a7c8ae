//! Arrow batches from outside the engine.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use warpmill_ir::Field;

use super::{ChunkSource, LocalSource};
use crate::arrow::from_arrow;
use crate::chunk::{Chunk, Column, Selection, Values};
use crate::context::{ExecError, QueryContext, Result};
use crate::operator::Emit;

/// Batches of an input; an error's text becomes the query's error.
pub type InputStream = Box<dyn Iterator<Item = Result<RecordBatch, String>> + Send>;

/// Chunks over the batches of an input. Workers take turns to pull a batch, and convert and process batches in parallel. Strings are not copied, so
/// batches are kept until the query ends.
pub struct InputSource {
    stream: Mutex<(InputStream, u64)>,
    fields: Vec<Field>,
}

impl InputSource {
    /// A source over `stream`, whose columns are `fields`.
    pub fn new(stream: InputStream, fields: Vec<Field>) -> Self {
        Self { stream: Mutex::new((stream, 0)), fields }
    }
}

impl ChunkSource for InputSource {
    fn name(&self) -> String {
        "Input".into()
    }

    fn parallelism(&self) -> usize {
        usize::MAX
    }

    fn waits(&self) -> bool {
        true
    }

    fn local<'a>(&'a self, query: &Arc<QueryContext>) -> Box<dyn LocalSource + 'a> {
        Box::new(LocalInput { source: self, query: query.clone() })
    }
}

struct LocalInput<'a> {
    source: &'a InputSource,
    query: Arc<QueryContext>,
}

impl LocalSource for LocalInput<'_> {
    fn next_morsel(&mut self, emit: Emit<'_>) -> Result<bool> {
        let (batch, number) = {
            let mut stream = self.source.stream.lock();
            let Some(batch) = stream.0.next() else { return Ok(false) };
            stream.1 += 1;
            (batch.map_err(ExecError::Input)?, stream.1)
        };
        let vectors = batch
            .columns()
            .iter()
            .zip(&self.source.fields)
            .map(|(array, field)| from_arrow(array, &field.ty).map(Arc::new))
            .collect::<Result<Vec<_>>>()?;
        if self.source.fields.iter().any(|field| field.ty.phys == warpmill_ir::Phys::Str) {
            self.query.keep_alive(batch.clone());
        }
        let chunk_rows = self.query.settings.chunk_rows;
        for (i, start) in (0..batch.num_rows()).step_by(chunk_rows).enumerate() {
            let columns = vectors.iter().map(|v| Column { values: Values::Vector(v.clone()), group: 0 }).collect();
            let len = chunk_rows.min(batch.num_rows() - start);
            let mut chunk = Chunk::from_parts(len, columns, vec![Selection::Range { start: start as u32 }]);
            chunk.sequence = number << 32 | i as u64;
            emit(chunk)?;
        }
        Ok(true)
    }
}
