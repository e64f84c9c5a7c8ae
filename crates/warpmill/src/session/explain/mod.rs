//! EXPLAIN, EXPLAIN ANALYZE and EXPLAIN KERNELS.

mod document;
mod format;
mod html;
mod mermaid;

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use warpmill_ir::Program;

use document::{Document, Placed, PlanNode, Pruned};
use format::Explain;
pub use format::ExplainFormat;

use super::constraints::Declared;
use super::query::Way;
use super::running::Query;
use super::statements::Taken;
use super::{QueryResult, Session};
use crate::join_order::{ProviderStatistics, with_estimates};
use crate::offload::{ForDevices, Held, WarpmillExec};
use crate::plan_cache::Prepared;
use crate::planning::bound;
use crate::{QueryProfile, Result, ScalarValue};

/// Titles and texts.
type Parts = Vec<(String, String)>;

/// The query of `EXPLAIN KERNELS query`, which DataFusion's parser does not support. `sql` has no comments.
pub(super) fn kernels_statement(sql: &str) -> Option<&str> {
    let (explain, rest) = sql.split_once(' ')?;
    let (kernels, query) = rest.split_once(' ')?;
    (explain.eq_ignore_ascii_case("explain") && kernels.eq_ignore_ascii_case("kernels")).then_some(query)
}

impl Session {
    /// Explains `sql` in each of `formats`.
    pub(super) async fn explain_in_formats(
        &self,
        sql: &str,
        analyze: bool,
        formats: &[ExplainFormat],
        query: &Query,
    ) -> Result<Vec<String>> {
        let plan = bound(&Arc::new(self.inner.context.state()), sql, &[]).await;
        let plan = explained(plan.map_err(|error| self.with_missing_schema(error))?);
        let document = Box::pin(self.document(plan, false, analyze, query)).await?;
        formats.iter().map(|format| document.shown(*format)).collect()
    }

    pub(super) async fn explain_logical(&self, plan: Arc<LogicalPlan>, analyze: bool, query: &Query) -> Result<String> {
        Box::pin(self.document(plan, false, analyze, query)).await?.shown(ExplainFormat::Text)
    }

    /// `EXPLAIN (FORMAT json, ANALYZE) query`, which DataFusion's parser does not support; `sql` has no comments.
    pub(super) async fn explain_statement(&self, sql: &str, params: &[ScalarValue], query: &Query) -> Result<Taken> {
        let Some(Explain { format, analyze, verbose, query: text }) = Explain::parse(sql)? else {
            return Ok(Taken::No);
        };
        let plan = bound(&Arc::new(self.inner.context.state()), text, params).await;
        let plan = explained(plan.map_err(|error| self.with_missing_schema(error))?);
        let document = Box::pin(self.document(plan, verbose, analyze, query)).await?;
        let parts = match format {
            ExplainFormat::Text => document.parts(),
            format => vec![(format.name().to_string(), document.shown(format)?)],
        };
        rows(parts).map(Taken::Done)
    }

    pub(super) async fn kernels_text(&self, sql: &str, query: &Query) -> Result<String> {
        Ok(text(self.kernel_parts(sql, &[], query).await?))
    }

    /// The result of the statement EXPLAIN.
    pub(super) async fn explain_rows(
        &self,
        plan: Arc<LogicalPlan>,
        verbose: bool,
        analyze: bool,
        query: &Query,
    ) -> Result<QueryResult> {
        rows(self.document(plan, verbose, analyze, query).await?.parts())
    }

    /// The result of the statement EXPLAIN KERNELS.
    pub(super) async fn kernels_rows(&self, sql: &str, params: &[ScalarValue], query: &Query) -> Result<QueryResult> {
        rows(self.kernel_parts(sql, params, query).await?)
    }

    async fn document(&self, plan: Arc<LogicalPlan>, verbose: bool, analyze: bool, query: &Query) -> Result<Document> {
        let state = Arc::new(self.inner.context.state());
        let made = made_table(&plan);
        let plan = made.as_ref().map_or(plan, |command| Arc::clone(&command.input));
        let mut logical_plan = None;
        if verbose {
            let optimized = self.optimized(&state, Arc::clone(&plan)).await?;
            logical_plan = Some(with_estimates(&optimized, &ProviderStatistics));
        }
        let start = Instant::now();
        let (prepared, _) =
            self.prepare_for(&state, plan, &self.options(), Way { explains: true, templates: None }).await?;
        let planning_nanos = start.elapsed().as_nanos() as u64;
        query.handle.time_kernels.store(analyze, Ordering::Relaxed);
        // The programs are shown as they ran in the end.
        let mut profile = match (analyze, made) {
            (true, Some(command)) => self.run_making(command, &prepared, query).await?,
            (true, None) => self.run_prepared(&prepared, query).await?.profile,
            (false, _) => None,
        };
        if let Some(profile) = profile.as_mut().and_then(Arc::get_mut) {
            profile.planning_nanos = planning_nanos;
        }
        let Programs { programs, notes, held: _held } = self.programs(&prepared, query).await?;
        // A profile says where programs ran.
        let placed = match &profile {
            Some(_) => vec![],
            None => self.placed(programs.clone(), query).await?,
        };
        let pruned = if profile.is_none() { pruned(programs.clone()).await? } else { vec![] };
        let programs = programs.iter().map(|(program, _)| Arc::clone(program));
        Ok(Document {
            logical_plan,
            plan: PlanNode::of(&prepared.plan, verbose),
            programs: programs.collect(),
            placed,
            pruned,
            fallbacks: prepared.fallbacks.clone(),
            distribution: prepared.parts.clone(),
            notes,
            profile,
        })
    }

    /// Makes the table of `CREATE TABLE ... AS` of rows whose plan is there.
    async fn run_making(
        &self,
        command: CreateMemoryTable,
        prepared: &Arc<Prepared>,
        query: &Query,
    ) -> Result<Option<Arc<QueryProfile>>> {
        let (start, temporary) = (Instant::now(), command.temporary);
        let planned = Some(Arc::clone(prepared));
        Box::pin(self.create_table_from(command, planned, temporary, &Declared::default(), query)).await?;
        Ok(self.profile_of(prepared, start, query))
    }

    /// The place where each program will run, and why.
    async fn placed(&self, programs: Vec<Shown>, query: &Query) -> Result<Vec<Placed>> {
        let context = self.options().execution(query.handle.cancel.clone());
        let place =
            move |(program, inputs): &Shown| Placed::from(warpmill_engine::placement(program, inputs, &context));
        blocking(move || programs.iter().map(place).collect()).await
    }

    /// The programs of a plan in the form that the session's device would run. Reads footers of files.
    async fn programs(&self, prepared: &Arc<Prepared>, query: &Query) -> Result<Programs> {
        let (prepared, options, runtime) = (Arc::clone(prepared), self.options(), self.inner.context.runtime_env());
        let cancel = query.handle.cancel.clone();
        blocking(move || {
            let find = |node: &WarpmillExec| node.for_devices(&options, &runtime, cancel.clone());
            let mut programs = Programs::default();
            collect_programs(&prepared.plan, &find, &mut programs).map(|()| programs)
        })
        .await?
    }

    /// One part per kernel of every program.
    async fn kernel_parts(&self, sql: &str, params: &[ScalarValue], query: &Query) -> Result<Parts> {
        let state = Arc::new(self.inner.context.state());
        let plan = explained(bound(&state, sql, params).await?);
        let (prepared, _) = Box::pin(self.prepare(&state, plan, &self.options())).await?;
        let (options, cancel) = (self.options(), query.handle.cancel.clone());
        // Data that is read meanwhile is kept until kernels are there.
        let Programs { programs, held, .. } = self.programs(&prepared, query).await?;
        let context = options.execution(cancel);
        let lower = move |(i, (program, inputs)): (usize, Shown)| {
            let found = warpmill_engine::kernels(&program, &inputs, &context);
            let mut parts = match found.kernels {
                Ok(kernels) => kernels
                    .into_iter()
                    .map(|(label, text)| (format!("program {i}, {}, {label}", found.device), text))
                    .collect(),
                Err(reason) => vec![(format!("program {i}"), format!("not on the device: {reason}"))],
            };
            let note = |reason| (format!("program {i}"), format!("for the simulated device: {reason}"));
            parts.splice(0..0, found.not_on_gpu.map(note));
            parts
        };
        let mut parts: Parts = blocking(move || programs.into_iter().enumerate().flat_map(lower).collect()).await?;
        drop(held);
        if parts.is_empty() {
            parts.push(("kernels".to_string(), "none: DataFusion runs all of the query".to_string()));
        }
        Ok(parts)
    }
}

/// The rows that scans will skip.
async fn pruned(programs: Vec<Shown>) -> Result<Vec<Pruned>> {
    let reports = move || {
        let all = programs.iter().enumerate().flat_map(|(i, (program, _))| {
            let of = move |(table, report)| Pruned { program: i, table, report };
            warpmill_engine::pruning(program).into_iter().map(of)
        });
        all.filter(|pruned| pruned.report.zones_pruned() > 0).collect()
    };
    blocking(reports).await
}

/// Opens devices and compiles kernels off the threads that run asynchronous work.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    Ok(tokio::task::spawn_blocking(work).await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?)
}

/// The table that a plan makes of a query, if it is `CREATE TABLE ... AS`.
fn made_table(plan: &LogicalPlan) -> Option<CreateMemoryTable> {
    match plan {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(command)) => Some(command.clone()),
        _ => None,
    }
}

/// The plan below EXPLAIN.
fn explained(plan: LogicalPlan) -> Arc<LogicalPlan> {
    match plan {
        LogicalPlan::Explain(explain) => explain.plan,
        LogicalPlan::Analyze(analyze) => analyze.input,
        plan => Arc::new(plan),
    }
}

fn text(parts: Parts) -> String {
    let mut text = String::new();
    for (title, part) in parts {
        let _ = writeln!(text, "== {title} ==\n{}\n", part.trim_end());
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn rows(parts: Parts) -> Result<QueryResult> {
    let (titles, parts): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let text = |name| Field::new(name, DataType::Utf8, false);
    let schema = Arc::new(Schema::new(vec![text("plan_type"), text("plan")]));
    let columns: Vec<ArrayRef> =
        vec![Arc::new(StringArray::from_iter_values(titles)), Arc::new(StringArray::from_iter_values(parts))];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    Ok(QueryResult { schema, batches: vec![batch], ..QueryResult::empty() })
}

/// A program, and the expected rows of its inputs.
type Shown = (Arc<Program>, Vec<u64>);

/// The programs of a plan.
#[derive(Default)]
struct Programs {
    /// Outermost first.
    programs: Vec<Shown>,
    /// Files that the CPU decodes although a device was requested, with reasons.
    notes: Vec<String>,
    /// The cached parts of remote files that programs read.
    held: Vec<Held>,
}

fn collect_programs(
    plan: &Arc<dyn ExecutionPlan>,
    find: &dyn Fn(&WarpmillExec) -> Result<ForDevices>,
    all: &mut Programs,
) -> Result<()> {
    if let Some(node) = plan.downcast_ref::<WarpmillExec>() {
        if let Some(other) = node.instead() {
            return collect_programs(other, find, all);
        }
        let (rows, found) = (node.input_rows(), find(node)?);
        all.notes.extend(found.notes);
        all.held.push(found.held);
        all.programs.push(match found.program {
            Some(other) => (other.program, other.inputs.iter().map(|&input| rows[input]).collect()),
            None => (Arc::clone(node.program()), rows),
        });
    }
    plan.children().into_iter().try_for_each(|child| collect_programs(child, find, all))
}
