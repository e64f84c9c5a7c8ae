//! Runs a program: its pipelines in order, each on as many workers as its source can feed.

mod build;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use warpmill_eval::progress::ScanProgress;
use warpmill_eval::queue::{Arrival, CPU, Pace, SharedScan};
use warpmill_ir::{ExprKind, Operator, Pipeline, Program, Sink, Source};

use crate::context::{ExecError, QueryContext, Result};
use crate::operator::{LocalSink, SinkOutput, SpilledRows};
use crate::profile::PipelineProfile;
use crate::rows::{Placed, RowSet};
use crate::source::{ChunkSource, InputStream, RowsSource};

/// The rows of a program's last sink.
pub enum Output {
    /// The rows in memory.
    Rows(Arc<RowSet>),
    /// The rows in temporary files, which are merged while they are read: these columns in this order, or all columns.
    Spilled(Arc<dyn SpilledRows>, Option<Vec<usize>>),
}

/// Runs `program` to its end. Returns the rows of its last sink and a profile per pipeline. Another back end may run some pipelines: `placed` gives
/// the place of each (pipelines beyond its length run here). Profiles of pipelines elsewhere are empty.
///
/// `Source::Input` reads `inputs` by index. Strings of the result point into memory that `query`, `program` and the tables keep alive: copy the rows
/// before these are dropped.
pub fn execute_placed(
    program: &Program,
    placed: &[Placed],
    inputs: Vec<InputStream>,
    query: &Arc<QueryContext>,
    pool: &rayon::ThreadPool,
) -> Result<(Output, Vec<PipelineProfile>)> {
    let mut run = Run::new(program, inputs, query.clone())?;
    let mut profiles = Vec::with_capacity(program.pipelines.len());
    let shared = placed.iter().find_map(|placed| if let Placed::Shared(shared) = placed { Some(shared) } else { None });
    if let Some(shared) = shared {
        shared.begin(&query.cancel)?;
    }
    let started = Instant::now();
    for index in 0..program.pipelines.len() {
        // Skips pipelines that only the shared one needs once other sites have claimed all of its row segments.
        let below = shared.filter(|shared| shared.below.contains(&index));
        if below.is_some_and(|shared| shared.queue.is_left_out(CPU)) {
            profiles.push(PipelineProfile::default());
            run.scans[index] = None;
            continue;
        }
        profiles.push(match placed.get(index) {
            Some(Placed::Elsewhere) => PipelineProfile::default(),
            Some(Placed::Arrived(rows)) => run.arrived(index, rows, pool)?,
            Some(Placed::Finished(rows)) => {
                run.outputs[program.pipelines[index].sink] = Some(SinkOutput::Rows(rows.clone()));
                PipelineProfile::default()
            }
            Some(Placed::Resumed { rows, operators }) => run.resumed(index, *operators, rows, pool)?,
            Some(Placed::Shared(shared)) => run.shared(index, shared, (started, pool))?,
            Some(Placed::Here) | None => match run.picked(index) {
                // Large outputs from which the last pipeline only drops columns are returned without a copy.
                Some(output) => {
                    query.keep_alive(run.sinks);
                    profiles.push(PipelineProfile::default());
                    return Ok((output, profiles));
                }
                None => run.pipeline(index, below.map(Arc::as_ref), pool)?,
            },
        });
        run.scans[index] = None;
    }
    let output = run.outputs.pop().flatten();
    query.keep_alive(run.sinks);
    match output {
        Some(SinkOutput::Rows(rows)) => Ok((Output::Rows(rows), profiles)),
        Some(SinkOutput::Spilled(rows)) => Ok((Output::Spilled(rows, None), profiles)),
        _ => Err(ExecError::Unsupported("a program whose last sink gives no rows".into())),
    }
}

/// The state of a running program.
struct Run<'a> {
    program: &'a Program,
    inputs: Vec<Option<InputStream>>,
    query: Arc<QueryContext>,
    sinks: Vec<Box<dyn crate::operator::Sink>>,
    /// Workers' states of unfinished sinks.
    locals: Vec<Vec<Box<dyn LocalSink>>>,
    outputs: Vec<Option<SinkOutput>>,
    /// Progress of each pipeline's scan; `None` after its end.
    scans: Vec<Option<ScanProgress>>,
}

impl<'a> Run<'a> {
    fn new(program: &'a Program, inputs: Vec<InputStream>, query: Arc<QueryContext>) -> Result<Self> {
        let sinks = program.sinks.iter().map(|sink| build::sink(sink, &query.settings)).collect::<Result<_>>()?;
        let outputs = program.sinks.iter().map(|_| None).collect();
        let locals = program.sinks.iter().map(|_| Vec::new()).collect();
        let scan = |pipeline: &Pipeline| match &pipeline.source {
            Source::Scan(scan) => Some(query.progress.scan(scan.table.num_rows())),
            _ => None,
        };
        let scans = program.pipelines.iter().map(scan).collect();
        Ok(Self { program, inputs: inputs.into_iter().map(Some).collect(), query, sinks, locals, outputs, scans })
    }

    /// Runs a pipeline. `shared`, if given, is the only scan that needs its rows.
    fn pipeline(
        &mut self,
        index: usize,
        shared: Option<&SharedScan>,
        pool: &rayon::ThreadPool,
    ) -> Result<PipelineProfile> {
        let pipeline = &self.program.pipelines[index];
        let source = build::source(self, &pipeline.source, shared)?;
        let chain = build::chain(self, pipeline)?;
        if build::is_barren(self, pipeline)? {
            // The source is not read; it may have no end.
            chain.done.store(true, Ordering::Relaxed);
        }
        self.run(index, source.as_ref(), chain, pool)
    }

    /// The program's rows if pipeline `index` is the last and only selects columns of spilled rows.
    fn picked(&self, index: usize) -> Option<Output> {
        let (pipeline, before) = self.program.pipelines.split_last()?;
        let is_last = index == before.len() && before.iter().all(|other| other.sink != pipeline.sink);
        let collects = matches!(self.program.sinks[pipeline.sink], Sink::Collect { .. });
        let Source::Rows { sink, .. } = &pipeline.source else { return None };
        let Some(SinkOutput::Spilled(rows)) = self.outputs[*sink].as_ref().filter(|_| is_last && collects) else {
            return None;
        };
        let columns = match &pipeline.operators[..] {
            [] => None,
            [Operator::Project(list)] => Some(list.iter().map(|(_, expr)| match expr.kind {
                ExprKind::Column(column) => Some(column),
                _ => None,
            })),
            _ => return None,
        };
        let columns = match columns {
            None => None,
            Some(columns) => Some(columns.collect::<Option<Vec<_>>>()?),
        };
        Some(Output::Spilled(rows.clone(), columns))
    }

    /// Ends a pipeline that ran elsewhere: adds `rows` to its sink.
    fn arrived(&mut self, index: usize, rows: &Arc<RowSet>, pool: &rayon::ThreadPool) -> Result<PipelineProfile> {
        let source = RowsSource::new("Rows from another back end".into(), rows.clone());
        self.run(index, &source, worker::Chain::empty(), pool)
    }

    /// Runs the rest of a pipeline, after operator `done`, for the rows that another back end has computed with the operators before.
    fn resumed(
        &mut self,
        index: usize,
        done: usize,
        rows: &Arc<RowSet>,
        pool: &rayon::ThreadPool,
    ) -> Result<PipelineProfile> {
        let Pipeline { source, operators, sink } = &self.program.pipelines[index];
        let (before, after) = operators.split_at(done);
        let before = Pipeline { source: source.clone(), operators: before.to_vec(), sink: *sink };
        let source = Source::Values { rows: vec![], fields: before.fields() };
        let chain = build::chain(self, &Pipeline { source, operators: after.to_vec(), sink: *sink })?;
        self.run(index, &RowsSource::new("Rows from another back end".into(), rows.clone()), chain, pool)
    }

    fn run(
        &mut self,
        index: usize,
        source: &dyn ChunkSource,
        chain: worker::Chain,
        pool: &rayon::ThreadPool,
    ) -> Result<PipelineProfile> {
        let profile = self.push(index, source, chain, pool)?;
        self.finish(index, profile, pool)
    }

    /// Runs the pipeline on the row segments that the CPU claims, then merges the results of other sites.
    fn shared(
        &mut self,
        index: usize,
        shared: &SharedScan,
        (started, pool): (Instant, &rayon::ThreadPool),
    ) -> Result<PipelineProfile> {
        let pipeline = &self.program.pipelines[index];
        let mut profile = PipelineProfile::default();
        if !shared.queue.is_left_out(CPU) {
            let begin = started.elapsed();
            let source = build::shared_scan(self, &pipeline.source, shared)?;
            let ruled_out = shared.queue.count(CPU).1;
            let chain = build::chain(self, pipeline)?;
            profile = self.push(index, &source, chain, pool)?;
            if let done @ 1.. = shared.queue.count(CPU).1 - ruled_out {
                let segment = (started.elapsed() - begin) / u32::try_from(done).unwrap_or(u32::MAX);
                *shared.measured.lock() = Some(Pace { begin, segment });
            }
        }
        let mut arrived = vec![];
        for arrival in shared.arrivals(&self.query.cancel)? {
            match arrival {
                Arrival::Rows(rows, owner) => {
                    self.query.keep_alive(owner);
                    let source = RowsSource::new("Rows from another site".into(), rows);
                    self.push(index, &source, worker::Chain::empty(), pool)?;
                }
                Arrival::States(states, owner) => {
                    self.query.keep_alive(owner);
                    arrived.push(states);
                }
                Arrival::Failed => unreachable!("an error of arrivals"),
            }
        }
        let merging = Instant::now();
        let batches: Vec<_> = arrived.iter().flat_map(|states| &states.batches).collect();
        if !batches.is_empty() {
            let locals = worker::merge_states(self.sinks[pipeline.sink].as_ref(), &batches, &self.query, pool)?;
            self.locals[pipeline.sink].extend(locals);
        }
        profile.wall_nanos += merging.elapsed().as_nanos() as u64;
        self.finish(index, profile, pool)
    }

    /// Runs all rows of `source` through `chain` into the sink of pipeline `index`.
    fn push(
        &mut self,
        index: usize,
        source: &dyn ChunkSource,
        chain: worker::Chain,
        pool: &rayon::ThreadPool,
    ) -> Result<PipelineProfile> {
        let sink = self.program.pipelines[index].sink;
        if let Some(progress) = &self.scans[index] {
            source.begin(progress);
        }
        let started = Instant::now();
        let (locals, mut profile) = worker::run(source, &chain, self.sinks[sink].as_ref(), &self.query, pool)?;
        self.locals[sink].extend(locals);
        // Rows in sinks refer to strings that expressions own.
        for operator in chain.operators {
            self.query.keep_alive(operator.into_kept());
        }
        profile.wall_nanos = started.elapsed().as_nanos() as u64;
        Ok(profile)
    }

    /// Finishes the sink of pipeline `index` if no later pipeline feeds it.
    fn finish(
        &mut self,
        index: usize,
        mut profile: PipelineProfile,
        pool: &rayon::ThreadPool,
    ) -> Result<PipelineProfile> {
        let pipeline = &self.program.pipelines[index];
        if self.program.pipelines[index + 1..].iter().any(|later| later.sink == pipeline.sink) {
            return Ok(profile);
        }
        let sink = self.sinks[pipeline.sink].as_ref();
        let started = Instant::now();
        let locals = std::mem::take(&mut self.locals[pipeline.sink]);
        self.outputs[pipeline.sink] = Some(sink.finish(locals, &self.query, pool)?);
        profile.finish_nanos = started.elapsed().as_nanos() as u64;
        if let Some(last) = profile.operators.last_mut() {
            // The name and counters of a sink are final only now.
            last.name = sink.name();
            last.counters = sink.counters();
        }
        self.release_inputs(index);
        Ok(profile)
    }

    /// Drops the outputs that no further pipeline reads.
    fn release_inputs(&mut self, index: usize) {
        let later = &self.program.pipelines[index + 1..];
        for sink in 0..self.outputs.len() - 1 {
            if self.outputs[sink].is_some() && !later.iter().any(|pipeline| build::reads(pipeline, sink)) {
                self.outputs[sink] = None;
            }
        }
    }

    fn rows(&self, sink: usize) -> Result<Box<dyn ChunkSource>> {
        match &self.outputs[sink] {
            Some(SinkOutput::Rows(rows)) => Ok(Box::new(RowsSource::new(format!("Rows of sink {sink}"), rows.clone()))),
            Some(SinkOutput::Spilled(rows)) => Ok(rows.clone().source()),
            _ => Err(ExecError::Unsupported(format!("reading sink {sink} before it has rows"))),
        }
    }

    fn hash(&self, sink: usize) -> Result<Arc<crate::join::HashTable>> {
        match &self.outputs[sink] {
            Some(SinkOutput::Hash(table)) => Ok(table.clone()),
            _ => Err(ExecError::Unsupported(format!("probing sink {sink} before it is built"))),
        }
    }
}

/// Whether a pipeline's input has an order that its sink has to keep.
fn is_ordered(program: &Program, source: &Source) -> bool {
    matches!(source, Source::Rows { sink, .. } if matches!(program.sinks[*sink], Sink::Sort { .. }))
}

#[cfg(test)]
mod tests;
