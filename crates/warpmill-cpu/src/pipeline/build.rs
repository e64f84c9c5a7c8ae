//! Makes executable sources, operators and sinks from those of a program.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use warpmill_eval::queue::SharedScan;
use warpmill_ir::{JoinKind, Operator as PlanOperator, Phys, Pipeline, Scan, Sink as PlanSink, Source};

use super::Run;
use super::worker::Chain;
use crate::aggregate::AggregateSink;
use crate::collect::CollectSink;
use crate::compaction::{Compaction, CompactionOperator};
use crate::context::{ExecError, Result, Settings};
use crate::expr::PreparedExpr;
use crate::functions::FunctionsSink;
use crate::join::{HashBuildSink, ProbeOperator};
use crate::operator::{Operator, Sink};
use crate::rows::values;
use crate::scan::{KeyPrune, TableSource};
use crate::sort::SortSink;
use crate::source::{BuildSource, ChunkSource, InputSource, RowsSource};
use crate::stream::{FilterOperator, LimitOperator, ProjectOperator};
use crate::window::WindowSink;

/// The executable form of a sink.
pub fn sink(sink: &PlanSink, settings: &Settings) -> Result<Box<dyn Sink>> {
    Ok(match sink {
        PlanSink::HashBuild { keys, payload, fields, null_equals_null, track_matches, order } => {
            // The value that orders the rows of a key follows the keys.
            let keys = || keys.iter().chain(order);
            let prepared = keys().map(PreparedExpr::new).collect::<Result<_>>()?;
            let key_types = keys().map(|key| key.ty.phys).collect();
            let types = fields.iter().map(|field| field.ty.phys).collect();
            let (payload, nulls) = (payload.clone(), *null_equals_null);
            let build = HashBuildSink::new(prepared, key_types, payload, types, nulls, *track_matches);
            let build = if order.is_some() { build.with_order() } else { build };
            Box::new(if settings.equal_hashes { build.with_equal_hashes() } else { build })
        }
        PlanSink::Aggregate { groups, aggregates, fields } => {
            let aggregate = AggregateSink::new(groups, aggregates, fields, None)?;
            let bounded = settings.spill.enabled && settings.memory_limit != usize::MAX;
            // Each worker has its own arrays.
            let most = settings.memory_limit / (8 * settings.threads.max(1));
            let aggregate = if bounded { aggregate.with_perfect_bytes(most) } else { aggregate };
            Box::new(if settings.equal_hashes { aggregate.with_equal_hashes() } else { aggregate })
        }
        PlanSink::Functions { .. } => Box::new(FunctionsSink),
        PlanSink::Sort { keys, skip, fetch, fields } => Box::new(SortSink::new(keys, *skip, *fetch, fields)?),
        PlanSink::Window { partition, order, calls, payload, .. } => {
            Box::new(WindowSink::new(partition, order, calls, payload)?)
        }
        PlanSink::Collect { fields } => Box::new(CollectSink::new(fields)),
    })
}

/// The executable form of a source. `shared`, if given, is the only scan that needs the rows.
pub fn source(run: &mut Run<'_>, source: &Source, shared: Option<&SharedScan>) -> Result<Box<dyn ChunkSource>> {
    Ok(match source {
        Source::Scan(scan) => {
            let table = TableSource::new(scan, prunes(run, scan)?)?;
            Box::new(match shared {
                Some(shared) => table.until(shared.queue.clone()),
                None => table,
            })
        }
        Source::Rows { sink, .. } => run.rows(*sink)?,
        Source::Build { sink, rows, fields } => Box::new(BuildSource::new(run.hash(*sink)?, *rows, fields)),
        Source::Input { input, fields } => {
            let stream = run.inputs.get_mut(*input).and_then(Option::take);
            let stream =
                stream.ok_or_else(|| ExecError::Input(format!("input {input} is missing or was read before")))?;
            Box::new(InputSource::new(stream, fields.clone()))
        }
        Source::Values { rows, fields } => Box::new(RowsSource::new("Values".into(), Arc::new(values(rows, fields)))),
    })
}

/// A scan of the row segments that the CPU claims.
pub fn shared_scan(run: &Run<'_>, source: &Source, shared: &SharedScan) -> Result<TableSource> {
    let Source::Scan(scan) = source else {
        return Err(ExecError::Unsupported("a shared pipeline whose source is no table".into()));
    };
    Ok(TableSource::new(scan, prunes(run, scan)?)?.shared(shared.queue.clone(), shared.expected.segment))
}

fn prunes(run: &Run<'_>, scan: &Scan) -> Result<Vec<KeyPrune>> {
    scan.prune
        .iter()
        .map(|prune| {
            let table = run.hash(prune.build)?;
            let integers = matches!(scan.fields[prune.column].ty.phys, Phys::I32 | Phys::I64 | Phys::I128 | Phys::Code);
            let filter = if integers { table.filter(prune.key) } else { None };
            Ok(KeyPrune::new(prune.column, table.key_range(prune.key), filter))
        })
        .collect()
}

/// Whether no row reaches the sink of `pipeline`, and no match flags depend on its rows: an inner or a semi join has an empty build, and no
/// probe before it sets match flags.
pub fn is_barren(run: &Run<'_>, pipeline: &Pipeline) -> Result<bool> {
    for operator in &pipeline.operators {
        let PlanOperator::Probe(probe) = operator else { continue };
        match probe.kind {
            JoinKind::BuildOuter | JoinKind::Full | JoinKind::BuildOnly => return Ok(false),
            JoinKind::Inner | JoinKind::ProbeSemi if run.hash(probe.build)?.is_without_keys() => return Ok(true),
            _ => {}
        }
    }
    Ok(false)
}

/// The executable operators of a pipeline, with compaction after operators that leave few rows per chunk.
pub fn chain(run: &Run<'_>, pipeline: &Pipeline) -> Result<Chain> {
    let done = Arc::new(AtomicBool::new(false));
    let serial = pipeline.operators.iter().any(|operator| matches!(operator, PlanOperator::Limit { .. }));
    // A limit gets each row as it arrives: an input may never end.
    let at_once = serial && matches!(pipeline.source, Source::Input { .. });
    let strategy = match run.query.settings.compaction {
        Compaction::Full | Compaction::Binary | Compaction::Learning if at_once => Compaction::None,
        Compaction::Smart if at_once => Compaction::Logical,
        strategy => strategy,
    };
    let ordered = super::is_ordered(run.program, &pipeline.source);
    let mut operators: Vec<Box<dyn Operator>> = Vec::new();
    let mut fields = pipeline.source.fields().to_vec();
    // The scan's own filters leave few rows per chunk, too.
    let mut reduces =
        matches!(&pipeline.source, Source::Scan(scan) if !scan.filters.is_empty() || !scan.prune.is_empty());
    for operator in &pipeline.operators {
        if std::mem::replace(&mut reduces, false) {
            operators.extend(compaction(strategy, &fields, ordered));
        }
        match operator {
            PlanOperator::Filter(predicate) => {
                operators.push(Box::new(FilterOperator::new(predicate)?));
                reduces = true;
            }
            PlanOperator::Project(list) => {
                operators.push(Box::new(ProjectOperator::new(list)?));
                fields = list.iter().map(|(field, _)| field.clone()).collect();
            }
            PlanOperator::Probe(probe) => {
                let table = run.hash(probe.build)?;
                if ordered && table.has_spilled() {
                    // Spilled rows lose their order.
                    return Err(run.query.out_of_memory("hash build of a join that keeps its input's order"));
                }
                if probe.asof.is_some() && probe.keys.is_empty() && table.has_spilled() {
                    // All rows have the same key, and cannot be partitioned.
                    return Err(run.query.out_of_memory(crate::join::ASOF));
                }
                operators.push(Box::new(ProbeOperator::new(probe, table)?));
                fields = probe.fields.clone();
                reduces = true;
            }
            PlanOperator::Limit { skip, fetch } => {
                operators.push(Box::new(LimitOperator::new(*skip, *fetch, done.clone())));
            }
        }
    }
    Ok(Chain { operators, serial, done })
}

fn compaction(strategy: Compaction, fields: &[warpmill_ir::Field], ordered: bool) -> Option<Box<dyn Operator>> {
    CompactionOperator::for_strategy(strategy, fields, ordered).map(|operator| Box::new(operator) as Box<dyn Operator>)
}

/// Whether `pipeline` reads the output of `sink`.
pub fn reads(pipeline: &Pipeline, sink: usize) -> bool {
    let source = match &pipeline.source {
        Source::Rows { sink: read, .. } | Source::Build { sink: read, .. } => *read == sink,
        Source::Scan(scan) => scan.prune.iter().any(|prune| prune.build == sink),
        Source::Input { .. } | Source::Values { .. } => false,
    };
    source || pipeline.operators.iter().any(|op| matches!(op, PlanOperator::Probe(probe) if probe.build == sink))
}
