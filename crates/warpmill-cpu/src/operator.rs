//! Interfaces of streaming operators and sinks.

use std::any::Any;
use std::sync::Arc;

use crate::chunk::Chunk;
use crate::context::{ExecError, QueryContext, Result};
use crate::join::HashTable;
use crate::rows::RowSet;
use crate::source::ChunkSource;
use crate::vector::Vector;

/// Emits chunks to the next operator.
pub type Emit<'a> = &'a mut dyn FnMut(Chunk) -> Result<()>;

/// A streaming operator, shared by all workers of a pipeline.
pub trait Operator: Send + Sync {
    /// Name in EXPLAIN ANALYZE.
    fn name(&self) -> String;
    /// Makes the state of one worker.
    fn local(&self, query: &Arc<QueryContext>) -> Box<dyn LocalOperator>;
    /// Counters that EXPLAIN ANALYZE shows beside rows and time: name and value.
    fn counters(&self) -> Vec<(String, u64)> {
        vec![]
    }
    /// Spilled rows to process after all rows that reached this operator: called until it returns `None`.
    fn resume(&self, _query: &Arc<QueryContext>, _pool: &rayon::ThreadPool) -> Result<Option<Resumed>> {
        Ok(None)
    }
    /// Memory that has to outlive the pipeline because rows may have views of its strings.
    fn into_kept(self: Box<Self>) -> Box<dyn Any + Send>;
}

/// Rows that an operator has spilled.
pub struct Resumed {
    /// The rows in the form in which they reached the operator.
    pub source: Box<dyn ChunkSource>,
    /// The operator that processes them instead.
    pub operator: Box<dyn Operator>,
    /// A callback for the end of the rows.
    pub done: Box<dyn FnOnce() + Send>,
}

/// One worker's instance of a streaming operator.
pub trait LocalOperator: Send {
    /// Processes a chunk. Empty chunks are neither passed in nor emitted.
    fn process(&mut self, chunk: Chunk, emit: Emit<'_>) -> Result<()>;

    /// Emits buffered rows, after the last chunk.
    fn finish(&mut self, _emit: Emit<'_>) -> Result<()> {
        Ok(())
    }

    /// The output columns whose strings this operator computes.
    fn made_texts(&self) -> Vec<usize> {
        vec![]
    }

    /// From now on, the strings computed for a chunk may be freed once the chunk has been emitted.
    fn forget_texts(&mut self) {}

    /// Whether values of a chunk may still be referenced after [`LocalOperator::process`] has returned.
    fn holds_rows(&self) -> bool {
        true
    }
}

/// A pipeline breaker, shared by all workers of all pipelines that feed it.
pub trait Sink: Send + Sync {
    /// Name in EXPLAIN ANALYZE.
    fn name(&self) -> String;
    /// Makes the state of one worker of one pipeline.
    fn local(&self, query: &Arc<QueryContext>) -> Box<dyn LocalSink>;
    /// Merges all workers' states, in parallel on `pool` where that pays.
    fn finish(
        &self,
        locals: Vec<Box<dyn LocalSink>>,
        query: &Arc<QueryContext>,
        pool: &rayon::ThreadPool,
    ) -> Result<SinkOutput>;
    /// Counters that EXPLAIN ANALYZE shows beside rows and time, valid after [`Sink::finish`]: name and value.
    fn counters(&self) -> Vec<(String, u64)> {
        vec![]
    }
}

/// One worker's instance of a sink.
pub trait LocalSink: Send {
    /// Adds a chunk (never empty).
    fn consume(&mut self, chunk: Chunk) -> Result<()>;
    /// Asks the sink to copy the strings that it keeps of these columns from now on. Returns whether it does.
    fn copies_texts(&mut self, _columns: &[usize]) -> bool {
        false
    }
    /// Whether the sink can copy strings that it still references after [`LocalSink::consume`] has returned.
    fn can_copy_strings(&self) -> bool {
        false
    }
    /// From now on, copies the strings that the sink keeps.
    fn copy_strings(&mut self) {}
    /// Merges partial results of another site for the same sink: state columns of `rows` groups, in the order of [`warpmill_functions::Partial`].
    fn merge_states(&mut self, _states: &[Arc<Vector>], _rows: usize) -> Result<()> {
        Err(ExecError::Unsupported("states of a sink that has none".into()))
    }
    /// Converts to `Any`, so that [`Sink::finish`] can downcast to its own type.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

/// The contents of a finished sink.
#[derive(Clone)]
pub enum SinkOutput {
    /// Output of `Aggregate`, `Sort`, `Window` and `Collect`.
    Rows(Arc<RowSet>),
    /// Output of `Aggregate` and `Sort` with spilled rows.
    Spilled(Arc<dyn SpilledRows>),
    /// Output of `HashBuild`.
    Hash(Arc<HashTable>),
}

/// Rows of a sink that are merged from temporary files while they are read.
pub trait SpilledRows: Send + Sync {
    /// A source of all rows, from the first.
    fn source(self: Arc<Self>) -> Box<dyn ChunkSource>;
    /// Passes all rows to `give` in order, batch by batch, until it returns false. Only the current batch is in memory.
    fn for_each(&self, query: &Arc<QueryContext>, give: GiveRows<'_>) -> Result<()>;
}

/// Receives the columns and the number of rows of a batch. Returns whether to continue.
pub type GiveRows<'a> = &'a mut dyn FnMut(Vec<Arc<Vector>>, usize) -> Result<bool>;
