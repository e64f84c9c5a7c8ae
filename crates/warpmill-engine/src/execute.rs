//! From a program and its inputs to Arrow batches.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use warpmill_cpu::compaction::Compaction;
use warpmill_cpu::context::{CancelToken, ExecError, QueryContext, Settings};
use warpmill_cpu::source::InputStream;
use warpmill_plan::Program;

use crate::profile::QueryProfile;

/// How to run a program.
#[derive(Debug, Clone)]
pub struct ExecutionContext {
    /// Worker threads; 0: all cores.
    pub threads: usize,
    /// Bytes that the query may hold in pipeline breakers.
    pub memory_limit: usize,
    /// Rows of a full chunk: a power of two from 2 to 2048.
    pub chunk_rows: usize,
    /// When small chunks are copied together.
    pub compaction: Compaction,
    /// Whether joins and aggregations look up everything by hash, and all hashes are equal (for tests of collisions).
    pub equal_hashes: bool,
    /// Stops the query from another thread.
    pub cancel: CancelToken,
}

impl Default for ExecutionContext {
    fn default() -> Self {
        Self {
            threads: 0,
            memory_limit: usize::MAX,
            chunk_rows: warpmill_cpu::CHUNK_ROWS,
            compaction: Compaction::default(),
            equal_hashes: false,
            cancel: CancelToken::default(),
        }
    }
}

/// Why a program could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The back end's error.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// No worker threads could be started.
    #[error("cannot start worker threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// A program's result.
#[derive(Debug)]
pub struct QueryOutput {
    /// In the program's schema; at least one batch, which may be empty.
    pub batches: Vec<RecordBatch>,
    /// What happened.
    pub profile: QueryProfile,
}

/// Runs `program` to its end.
///
/// # Errors
/// A value error of the SQL semantics, memory beyond the limit, cancellation, unreadable data, or a failing input. Nothing
/// of a failed query's result is given.
pub fn execute(
    program: &Program,
    inputs: Vec<InputStream>,
    context: &ExecutionContext,
) -> Result<QueryOutput, EngineError> {
    let started = Instant::now();
    let threads = match context.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let pool = pool(threads)?;
    let settings = Settings {
        threads,
        memory_limit: context.memory_limit,
        chunk_rows: context.chunk_rows,
        compaction: context.compaction,
        equal_hashes: context.equal_hashes,
    };
    let query = Arc::new(QueryContext::new(settings, context.cancel.clone()));
    let (rows, pipelines) = warpmill_cpu::pipeline::execute(program, inputs, &query, &pool)?;
    let fields = program.sinks.last().map(|sink| sink.fields()).unwrap_or_default();
    let batches = warpmill_cpu::arrow::to_batches(rows, fields, &program.schema)?;
    let profile = QueryProfile {
        bytes_read: pipelines.iter().map(|pipeline| pipeline.counter("bytes_read")).sum(),
        pipelines,
        peak_memory: query.memory_peak() as u64,
        wall_nanos: started.elapsed().as_nanos() as u64,
        device: "cpu",
    };
    Ok(QueryOutput { batches, profile })
}

/// The process's pool of `threads` workers: started once, shared by all queries that ask for as many.
fn pool(threads: usize) -> Result<Arc<rayon::ThreadPool>, rayon::ThreadPoolBuildError> {
    static POOLS: LazyLock<Mutex<HashMap<usize, Arc<rayon::ThreadPool>>>> = LazyLock::new(Mutex::default);
    let mut pools = POOLS.lock();
    if let Some(pool) = pools.get(&threads) {
        return Ok(pool.clone());
    }
    let builder = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("warpmill-{i}"));
    let pool = Arc::new(builder.build()?);
    pools.insert(threads, pool.clone());
    Ok(pool)
}
