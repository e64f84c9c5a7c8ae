//! Interfaces of streaming operators and sinks.

use std::any::Any;
use std::sync::Arc;

use crate::chunk::Chunk;
use crate::context::{ExecError, QueryContext, Result};
use crate::join::HashTable;
use crate::rows::RowSet;
use crate::source::ChunkSource;
use crate::vector::Vector;

/// Passes chunks on to the next operator.
pub type Emit<'a> = &'a mut dyn FnMut(Chunk) -> Result<()>;

/// A streaming operator, shared by all workers of a pipeline.
pub trait Operator: Send + Sync {
    /// As EXPLAIN ANALYZE shows it.
    fn name(&self) -> String;
    /// The state of one worker.
    fn local(&self, query: &Arc<QueryContext>) -> Box<dyn LocalOperator>;
    /// The counts that EXPLAIN ANALYZE shows beside rows and time: name and count.
    fn counters(&self) -> Vec<(String, u64)> {
        vec![]
    }
    /// Rows that were put aside, to be gone through after all that reached this operator: called again until there are none.
    fn resume(&self, _query: &Arc<QueryContext>, _pool: &rayon::ThreadPool) -> Result<Option<Resumed>> {
        Ok(None)
    }
    /// The memory that has to outlive the pipeline because rows may view strings in it.
    fn into_kept(self: Box<Self>) -> Box<dyn Any + Send>;
}

/// Rows that an operator has put aside.
pub struct Resumed {
    /// The rows, as they reached the operator.
    pub source: Box<dyn ChunkSource>,
    /// The operator's stand-in.
    pub operator: Box<dyn Operator>,
    /// To be called after the last row.
    pub done: Box<dyn FnOnce() + Send>,
}

/// One worker's instance of a streaming operator.
pub trait LocalOperator: Send {
    /// Processes a chunk; empty chunks are neither passed in nor to be emitted.
    fn process(&mut self, chunk: Chunk, emit: Emit<'_>) -> Result<()>;

    /// Emits what is still held back, after the last chunk.
    fn finish(&mut self, _emit: Emit<'_>) -> Result<()> {
        Ok(())
    }

    /// The output columns whose strings it makes.
    fn made_texts(&self) -> Vec<usize> {
        vec![]
    }

    /// From here on, nothing views the strings of a chunk that it has made once the chunk is emitted.
    fn forget_texts(&mut self) {}

    /// Whether values of a chunk may be held when [`LocalOperator::process`] has returned.
    fn holds_rows(&self) -> bool {
        true
    }
}

/// A pipeline breaker, shared by all workers of all pipelines that feed it.
pub trait Sink: Send + Sync {
    /// As EXPLAIN ANALYZE shows it.
    fn name(&self) -> String;
    /// The state of one worker of one pipeline.
    fn local(&self, query: &Arc<QueryContext>) -> Box<dyn LocalSink>;
    /// Merges all workers' states, in parallel on `pool` where that pays.
    fn finish(
        &self,
        locals: Vec<Box<dyn LocalSink>>,
        query: &Arc<QueryContext>,
        pool: &rayon::ThreadPool,
    ) -> Result<SinkOutput>;
    /// The counts that EXPLAIN ANALYZE shows beside rows and time, once finished: name and count.
    fn counters(&self) -> Vec<(String, u64)> {
        vec![]
    }
}

/// One worker's instance of a sink.
pub trait LocalSink: Send {
    /// Takes in a chunk (never empty).
    fn consume(&mut self, chunk: Chunk) -> Result<()>;
    /// Whether it copies the strings of these columns, as far as it keeps them, from here on.
    fn copies_texts(&mut self, _columns: &[usize]) -> bool {
        false
    }
    /// Whether strings can be copied as far as they are held when [`LocalSink::consume`] has returned.
    fn can_copy_strings(&self) -> bool {
        false
    }
    /// From here on strings that are held are copies.
    fn copy_strings(&mut self) {}
    /// Takes in what another site has made of other rows for the same sink: columns of states, as [`warpmill_functions::Partial`] names
    /// them, of `rows` groups.
    fn merge_states(&mut self, _states: &[Arc<Vector>], _rows: usize) -> Result<()> {
        Err(ExecError::Unsupported("states of a sink that has none".into()))
    }
    /// For [`Sink::finish`] to get its own type back.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

/// The contents of a finished sink.
#[derive(Clone)]
pub enum SinkOutput {
    /// Of `Aggregate`, `Sort`, `Window` and `Collect`.
    Rows(Arc<RowSet>),
    /// Of `Aggregate` and `Sort` that have put rows aside.
    Spilled(Arc<dyn SpilledRows>),
    /// Of `HashBuild`.
    Hash(Arc<HashTable>),
}

/// Rows of a sink that are brought together from temporary files as they are read.
pub trait SpilledRows: Send + Sync {
    /// All rows, from the first.
    fn source(self: Arc<Self>) -> Box<dyn ChunkSource>;
    /// All rows, in order, batch by batch, as long as `give` says that it wants more. Only what is being given is in memory.
    fn for_each(&self, query: &Arc<QueryContext>, give: GiveRows<'_>) -> Result<()>;
}

/// Takes the columns of some rows, and their number; whether it wants more.
pub type GiveRows<'a> = &'a mut dyn FnMut(Vec<Arc<Vector>>, usize) -> Result<bool>;
