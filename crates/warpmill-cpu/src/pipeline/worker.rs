//! The workers of one pipeline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::chunk::Chunk;
use crate::context::{ExecError, QueryContext, Result};
use crate::operator::{LocalOperator, LocalSink, Operator, Sink};
use crate::profile::{OperatorProfile, PipelineProfile};
use crate::source::ChunkSource;
use crate::vector::Vector;

/// The operators of a pipeline, ready to run.
pub struct Chain {
    /// The operators, in order.
    pub operators: Vec<Box<dyn Operator>>,
    /// Whether only one worker may run (LIMIT).
    pub serial: bool,
    /// Set when no further rows are needed.
    pub done: Arc<AtomicBool>,
}

impl Chain {
    /// A chain without operators.
    pub fn empty() -> Self {
        Self { operators: vec![], serial: false, done: Arc::default() }
    }
}

/// Measurements of one stage (source, operator or sink) for one worker.
#[derive(Clone, Copy, Default)]
struct Stage {
    rows: u64,
    chunks: u64,
    /// Time in the stage, including the stages that it pushed to, in nanoseconds.
    nanos: u64,
}

/// A worker's sink state and stages, at its end.
type Done = (Box<dyn LocalSink>, Vec<Stage>);

type Outcome = Result<Done>;

/// Runs all morsels of `source` through `chain` into `sink`, then the rows that operators have spilled. Returns the workers' sink states.
pub fn run(
    source: &dyn ChunkSource,
    chain: &Chain,
    sink: &dyn Sink,
    query: &Arc<QueryContext>,
    pool: &rayon::ThreadPool,
) -> Result<(Vec<Box<dyn LocalSink>>, PipelineProfile)> {
    let operators: Vec<&dyn Operator> = chain.operators.iter().map(|operator| &**operator).collect();
    let mut stages = vec![Stage::default(); operators.len() + 2];
    let pass = Pass { chain, sink, query, pool };
    let (mut locals, workers) = pass.run(source, &operators, vec![], &mut stages)?;
    if query.spills() {
        // Runs within the pool: passes may be many and short.
        locals = pool.install(|| pass.resume(&operators, locals, &mut stages))?;
    }
    Ok((locals, profile(source, chain, sink, &stages, workers)))
}

/// Merges states of `sink` on all threads; a batch has columns and a number of rows. Returns the workers' sink states.
pub fn merge_states(
    sink: &dyn Sink,
    batches: &[&(Vec<Arc<Vector>>, usize)],
    query: &Arc<QueryContext>,
    pool: &rayon::ThreadPool,
) -> Result<Vec<Box<dyn LocalSink>>> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        let mut local = sink.local(query);
        while let Some((columns, rows)) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
            query.cancel.check()?;
            if stop.load(Ordering::Relaxed) {
                break;
            }
            local.merge_states(columns, *rows).inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
        }
        Ok((local, vec![]))
    };
    // Every worker's groups have to be merged at the end, so few batches get a single worker.
    let workers = batches.len().div_ceil(BATCHES).clamp(1, query.settings.threads);
    let outcomes = if workers == 1 { vec![work()] } else { on_pool(workers, pool, &work) };
    Ok(all_or_error(outcomes)?.into_iter().map(|(local, _)| local).collect())
}

/// Number of batches that justify a worker, whose memory has to be allocated and whose groups have to be merged.
const BATCHES: usize = 16;

/// State shared by all passes of rows through a pipeline.
struct Pass<'a> {
    chain: &'a Chain,
    sink: &'a dyn Sink,
    query: &'a Arc<QueryContext>,
    pool: &'a rayon::ThreadPool,
}

impl Pass<'_> {
    /// Runs the rows that operators have spilled.
    fn resume(
        &self,
        operators: &[&dyn Operator],
        mut locals: Vec<Box<dyn LocalSink>>,
        stages: &mut [Stage],
    ) -> Result<Vec<Box<dyn LocalSink>>> {
        for (index, operator) in operators.iter().enumerate() {
            // Everything before it has finished: no more rows reach the operator and get spilled.
            while !self.chain.done.load(Ordering::Relaxed)
                && let Some(resumed) = operator.resume(self.query, self.pool)?
            {
                let mut rest = operators[index..].to_vec();
                rest[0] = &*resumed.operator;
                let Stage { rows, chunks, .. } = stages[index];
                (locals, _) = self.run(&*resumed.source, &rest, locals, &mut stages[index..])?;
                // The stage before has counted these rows when it spilled them.
                (stages[index].rows, stages[index].chunks) = (rows, chunks);
                (resumed.done)();
            }
        }
        Ok(locals)
    }

    /// Runs all morsels of `source` through `operators` into `locals` (existing sink states) or new ones. Returns all states and the number of
    /// workers.
    fn run(
        &self,
        source: &dyn ChunkSource,
        operators: &[&dyn Operator],
        locals: Vec<Box<dyn LocalSink>>,
        stages: &mut [Stage],
    ) -> Result<(Vec<Box<dyn LocalSink>>, usize)> {
        let Self { chain, sink, query, pool } = *self;
        let workers = if chain.serial { 1 } else { source.parallelism().clamp(1, query.settings.threads) };
        let stop = AtomicBool::new(false);
        let locals = Mutex::new(locals);
        let work = || {
            let local = locals.lock().pop().unwrap_or_else(|| sink.local(query));
            let outcome = Worker::new(operators, local, query).run(source, chain, query, &stop);
            if outcome.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            outcome
        };
        let outcomes = match workers {
            1 => vec![work()],
            _ if source.waits() => on_threads(workers, &work),
            _ => on_pool(workers, pool, &work),
        };
        let mut locals = locals.into_inner();
        for outcome in all_or_error(outcomes)? {
            locals.push(outcome.0);
            for (sum, stage) in stages.iter_mut().zip(outcome.1) {
                sum.rows += stage.rows;
                sum.chunks += stage.chunks;
                sum.nanos += stage.nanos;
            }
        }
        Ok((locals, workers))
    }
}

/// Runs `work` once per worker, on `pool`.
fn on_pool(workers: usize, pool: &rayon::ThreadPool, work: &(impl Fn() -> Outcome + Sync)) -> Vec<Outcome> {
    let slots: Vec<Mutex<Option<Outcome>>> = (0..workers).map(|_| Mutex::new(None)).collect();
    pool.scope(|scope| {
        for slot in &slots {
            scope.spawn(|_| *slot.lock() = Some(work()));
        }
    });
    slots.into_iter().map(|slot| slot.into_inner().expect("every worker leaves an outcome")).collect()
}

/// Runs `work` once per worker, on separate threads: workers may wait for another program, which needs the pool.
fn on_threads(workers: usize, work: &(impl Fn() -> Outcome + Sync)) -> Vec<Outcome> {
    std::thread::scope(|scope| {
        let start = |i| std::thread::Builder::new().name(format!("warpmill-in-{i}")).spawn_scoped(scope, work);
        // Fewer threads than requested do the same work; this thread does it alone if none start.
        let started: Vec<_> = (1..workers).map_while(|i| start(i).ok()).collect();
        let own = work();
        let joined = started.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        std::iter::once(own).chain(joined).collect()
    })
}

/// All outcomes, or the error to report: a cancellation only if there is no other error.
fn all_or_error(outcomes: Vec<Outcome>) -> Result<Vec<Done>> {
    let (good, bad): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    let mut errors: Vec<ExecError> = bad.into_iter().filter_map(Result::err).collect();
    errors.sort_by_key(|error| matches!(error, ExecError::Cancelled));
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(good.into_iter().filter_map(Result::ok).collect()),
    }
}

fn profile(
    source: &dyn ChunkSource,
    chain: &Chain,
    sink: &dyn Sink,
    stages: &[Stage],
    workers: usize,
) -> PipelineProfile {
    let names = std::iter::once(source.name())
        .chain(chain.operators.iter().map(|operator| operator.name()))
        .chain(std::iter::once(sink.name()));
    let mut counters: Vec<Vec<(String, u64)>> = vec![vec![]; stages.len()];
    counters[0] = source.counters().into_iter().map(|(key, value)| (key.to_string(), value)).collect();
    for (operator, counters) in chain.operators.iter().zip(&mut counters[1..]) {
        *counters = operator.counters();
    }
    let operators = names
        .zip(counters)
        .enumerate()
        .map(|(i, (name, counters))| {
            let below = stages.get(i + 1).map_or(0, |next| next.nanos);
            let Stage { rows, chunks, nanos } = stages[i];
            OperatorProfile { name, rows, chunks, nanos: nanos.saturating_sub(below), counters }
        })
        .collect();
    PipelineProfile { operators, workers, ..PipelineProfile::default() }
}

/// One worker: its own instance of every operator and of the sink.
struct Worker {
    operators: Vec<Box<dyn LocalOperator>>,
    sink: Box<dyn LocalSink>,
    stages: Vec<Stage>,
}

impl Worker {
    fn new(operators: &[&dyn Operator], mut sink: Box<dyn LocalSink>, query: &Arc<QueryContext>) -> Self {
        let stages = vec![Stage::default(); operators.len() + 2];
        let mut operators: Vec<_> = operators.iter().map(|operator| operator.local(query)).collect();
        if let Some(last) = operators.last_mut() {
            let made = last.made_texts();
            if !made.is_empty() && sink.copies_texts(&made) {
                last.forget_texts();
            }
        }
        Self { operators, sink, stages }
    }

    fn run(mut self, source: &dyn ChunkSource, chain: &Chain, query: &Arc<QueryContext>, stop: &AtomicBool) -> Outcome {
        let started = Instant::now();
        let mut local = source.local(query);
        let passes = self.operators.iter().all(|operator| !operator.holds_rows());
        if passes && self.sink.can_copy_strings() && local.lend_strings() {
            self.sink.copy_strings();
        }
        loop {
            query.cancel.check()?;
            if stop.load(Ordering::Relaxed) || chain.done.load(Ordering::Relaxed) {
                break;
            }
            let Self { operators, sink, stages } = &mut self;
            let (first, rest) = stages.split_first_mut().expect("the source's stage");
            let more = local.next_morsel(&mut |chunk| {
                query.cancel.check()?;
                if chain.done.load(Ordering::Relaxed) || chunk.is_empty() {
                    return Ok(());
                }
                first.rows += chunk.len() as u64;
                first.chunks += 1;
                push(operators, sink.as_mut(), rest, chunk)
            })?;
            if !more {
                break;
            }
        }
        for i in 0..self.operators.len() {
            let Self { operators, sink, stages } = &mut self;
            let (head, tail) = operators.split_at_mut(i + 1);
            let (before, after) = stages.split_at_mut(i + 2);
            let stage = &mut before[i + 1];
            let started = Instant::now();
            head[i].finish(&mut |chunk| {
                stage.rows += chunk.len() as u64;
                stage.chunks += 1;
                push(tail, sink.as_mut(), after, chunk)
            })?;
            stage.nanos += started.elapsed().as_nanos() as u64;
        }
        self.stages[0].nanos = started.elapsed().as_nanos() as u64;
        Ok((self.sink, self.stages))
    }
}

/// Pushes a chunk through the remaining operators into the sink.
fn push(
    operators: &mut [Box<dyn LocalOperator>],
    sink: &mut dyn LocalSink,
    stages: &mut [Stage],
    chunk: Chunk,
) -> Result<()> {
    if chunk.is_empty() {
        return Ok(());
    }
    let started = Instant::now();
    let (stage, rest) = stages.split_first_mut().expect("a stage per operator and sink");
    match operators.split_first_mut() {
        None => {
            stage.rows += chunk.len() as u64;
            stage.chunks += 1;
            sink.consume(chunk)?;
        }
        Some((operator, later)) => operator.process(chunk, &mut |chunk| {
            stage.rows += chunk.len() as u64;
            stage.chunks += 1;
            push(later, sink, rest, chunk)
        })?,
    }
    stage.nanos += started.elapsed().as_nanos() as u64;
    Ok(())
}
