//! Sink that collects rows in the source's order.

use std::any::Any;
use std::sync::Arc;

use warpmill_ir::Field;

use crate::chunk::Chunk;
use crate::context::{QueryContext, Result, Share};
use crate::operator::{LocalSink, Sink, SinkOutput};
use crate::rows::RowSet;
use crate::vector::Vector;

/// The dense columns of one chunk.
pub(crate) struct Batch {
    /// Position of the chunk in the source's order.
    pub sequence: u64,
    /// One vector per column.
    pub columns: Vec<Arc<Vector>>,
    /// Number of rows.
    pub rows: usize,
}

/// All workers' batches in the source's order, by sequence; batches of one sequence, which come from one worker, stay in order of arrival.
pub(crate) fn in_order(workers: Vec<Vec<Batch>>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = workers.into_iter().flatten().collect();
    batches.sort_by_key(|batch| batch.sequence);
    batches
}

/// The sink of [`warpmill_ir::Sink::Collect`].
pub struct CollectSink {
    columns: usize,
}

impl CollectSink {
    /// A sink for rows of `fields`.
    pub fn new(fields: &[Field]) -> Self {
        Self { columns: fields.len() }
    }
}

struct LocalCollect {
    query: Arc<QueryContext>,
    columns: usize,
    batches: Vec<Batch>,
}

impl Sink for CollectSink {
    fn name(&self) -> String {
        "Collect".into()
    }

    fn local(&self, query: &Arc<QueryContext>) -> Box<dyn LocalSink> {
        Box::new(LocalCollect { query: query.clone(), columns: self.columns, batches: vec![] })
    }

    fn finish(
        &self,
        locals: Vec<Box<dyn LocalSink>>,
        _query: &Arc<QueryContext>,
        _pool: &rayon::ThreadPool,
    ) -> Result<SinkOutput> {
        let batches = in_order(locals.into_iter().map(|local| downcast::<LocalCollect>(local).batches).collect());
        let batches = batches.into_iter().map(|batch| (batch.columns, batch.rows)).collect();
        Ok(SinkOutput::Rows(Arc::new(RowSet { batches })))
    }
}

/// Converts a local state to the sink's own type.
pub(crate) fn downcast<T: 'static>(local: Box<dyn LocalSink>) -> T {
    *local.into_any().downcast().expect("a sink is finished with the states that it made")
}

impl LocalSink for LocalCollect {
    fn consume(&mut self, chunk: Chunk) -> Result<()> {
        debug_assert_eq!(chunk.columns().len(), self.columns);
        let columns = chunk.to_dense();
        let bytes = columns.iter().map(|column| column.bytes()).sum();
        self.query.reserve_share(Share::Result, "Collect", bytes)?;
        self.batches.push(Batch { sequence: chunk.sequence, columns, rows: chunk.len() });
        Ok(())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
