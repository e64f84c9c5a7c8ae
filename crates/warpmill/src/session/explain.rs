//! EXPLAIN, EXPLAIN ANALYZE and EXPLAIN KERNELS.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use warpmill_ir::Program;

use super::running::Query;
use super::{QueryResult, Session};
use crate::join_order::{ProviderStatistics, with_estimates};
use crate::offload::{ForDevices, Held, WarpmillExec};
use crate::plan_cache::Prepared;
use crate::planning::bound;
use crate::{Result, ScalarValue};

/// Titles and texts.
type Parts = Vec<(String, String)>;

/// The query of `EXPLAIN KERNELS query`, which DataFusion's parser does not know. `sql` is without comments.
pub(super) fn kernels_statement(sql: &str) -> Option<&str> {
    let (explain, rest) = sql.split_once(' ')?;
    let (kernels, query) = rest.split_once(' ')?;
    (explain.eq_ignore_ascii_case("explain") && kernels.eq_ignore_ascii_case("kernels")).then_some(query)
}

impl Session {
    pub(super) async fn explain_text(&self, sql: &str, analyze: bool, query: &Query) -> Result<String> {
        let plan = explained(bound(&Arc::new(self.inner.context.state()), sql, &[]).await?);
        Ok(text(Box::pin(self.explain_parts(plan, false, analyze, query)).await?))
    }

    pub(super) async fn explain_logical(&self, plan: Arc<LogicalPlan>, analyze: bool, query: &Query) -> Result<String> {
        Ok(text(Box::pin(self.explain_parts(plan, false, analyze, query)).await?))
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
        rows(self.explain_parts(plan, verbose, analyze, query).await?)
    }

    /// The result of the statement EXPLAIN KERNELS.
    pub(super) async fn kernels_rows(&self, sql: &str, params: &[ScalarValue], query: &Query) -> Result<QueryResult> {
        rows(self.kernel_parts(sql, params, query).await?)
    }

    async fn explain_parts(
        &self,
        plan: Arc<LogicalPlan>,
        verbose: bool,
        analyze: bool,
        query: &Query,
    ) -> Result<Parts> {
        let state = Arc::new(self.inner.context.state());
        let mut parts = Vec::new();
        if verbose {
            let optimized = self.optimized(&state, Arc::clone(&plan)).await?;
            parts.push(("logical plan".to_string(), with_estimates(&optimized, &ProviderStatistics)));
        }
        let start = Instant::now();
        let (prepared, _) = self.prepare_for(&state, plan, &self.options(), true).await?;
        let planning_nanos = start.elapsed().as_nanos() as u64;
        query.handle.time_kernels.store(analyze, Ordering::Relaxed);
        // The programs are shown as they ran in the end.
        let mut profile = if analyze { self.run_prepared(&prepared, query).await?.profile } else { None };
        if let Some(profile) = profile.as_mut().and_then(Arc::get_mut) {
            profile.planning_nanos = planning_nanos;
        }
        let shown = self.programs(&prepared, query).await?;
        parts.extend(plan_parts(&prepared, &shown.programs, verbose));
        // A profile says where programs ran.
        if profile.is_none() {
            parts.extend(self.placement_part(shown.programs.clone(), query).await?);
            parts.extend(pruning_part(shown.programs).await?);
            if !shown.notes.is_empty() {
                parts.push(("decoded by the CPU".to_string(), shown.notes.join("\n")));
            }
        }
        parts.extend(profile.map(|profile| ("profile".to_string(), profile.to_string())));
        Ok(parts)
    }

    /// The place where each program will run, and why not on the device; `None` where there is no program.
    async fn placement_part(&self, programs: Vec<Shown>, query: &Query) -> Result<Option<(String, String)>> {
        let context = self.options().execution(query.handle.cancel.clone());
        if programs.is_empty() {
            return Ok(None);
        }
        let place = move |(i, (program, inputs)): (usize, Shown)| {
            format!("program {i}: {}", warpmill_engine::placement(&program, &inputs, &context))
        };
        let lines: Vec<_> = blocking(move || programs.into_iter().enumerate().map(place).collect()).await?;
        Ok(Some(("runs on".to_string(), lines.join("\n"))))
    }

    /// The programs of a plan, as the session's device runs them. Reads footers of files.
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

/// The rows that scans will skip; `None` where there are none.
async fn pruning_part(programs: Vec<Shown>) -> Result<Option<(String, String)>> {
    let reports = move || {
        let all = programs.iter().enumerate().flat_map(|(i, (program, _))| {
            warpmill_engine::pruning(program).into_iter().map(move |(table, report)| (i, table, report))
        });
        let lines = all.filter(|(.., report)| report.zones_pruned() > 0);
        lines.map(|(i, table, report)| format!("program {i}, {table}: {report}")).collect::<Vec<_>>()
    };
    let lines = blocking(reports).await?;
    Ok((!lines.is_empty()).then(|| ("pruning".to_string(), lines.join("\n"))))
}

/// Opens devices and compiles kernels off the threads that run asynchronous work.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    Ok(tokio::task::spawn_blocking(work).await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?)
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

/// The plan, its programs, and what stays with DataFusion.
fn plan_parts(prepared: &Prepared, programs: &[Shown], verbose: bool) -> Parts {
    let tree = displayable(prepared.plan.as_ref()).indent(verbose).to_string();
    let mut parts = vec![("physical plan".to_string(), tree)];
    let numbered = programs.iter().enumerate();
    parts.extend(numbered.map(|(i, (program, _))| (format!("program {i}"), program.to_string())));
    if !prepared.fallbacks.is_empty() {
        let lines: Vec<_> = prepared.fallbacks.iter().map(ToString::to_string).collect();
        parts.push(("run by DataFusion".to_string(), lines.join("\n")));
    }
    parts.extend(prepared.parts.iter().cloned());
    parts
}

/// A program, and the rows that its inputs are expected to have.
type Shown = (Arc<Program>, Vec<u64>);

/// The programs of a plan.
#[derive(Default)]
struct Programs {
    /// Outermost first.
    programs: Vec<Shown>,
    /// Files that the CPU decodes although a device was asked for, and why.
    notes: Vec<String>,
    /// The parts of remote files that programs read.
    held: Vec<Held>,
}

fn collect_programs(
    plan: &Arc<dyn ExecutionPlan>,
    find: &dyn Fn(&WarpmillExec) -> Result<ForDevices>,
    all: &mut Programs,
) -> Result<()> {
    if let Some(node) = plan.downcast_ref::<WarpmillExec>() {
        if let Some(wide) = node.widened() {
            return collect_programs(wide, find, all);
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
