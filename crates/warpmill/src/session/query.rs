//! The life of a statement: text, logical plan, physical plan, placement, rows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, TableReference};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, Statement, Values, Volatility, WriteOp};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{collect, execute_stream};
use warpmill_format::Table;

use super::describe::describe;
use super::explain::kernels_statement;
use super::running::Query;
use super::statements::Taken;
use super::transactions::is_order;
use super::turns::is_alone;
use super::written::{WrittenExec, stage};
use super::{QueryResult, Session};
use crate::catalog::Catalog;
use crate::distribution::{self, Distribution, Stages, Workers};
use crate::files::with_file_order;
use crate::offload::{self, UnprovenSums, context_of_program, is_one_program};
use crate::plan_cache::{Basis, Generation, Prepared, Read, Text, normalized, read_by};
use crate::planning::limits::{check_text, reserve};
use crate::planning::{self, bound};
use crate::remote::pin;
use crate::settings::{ProfileMode, WarpmillOptions};
use crate::templates::{Optimized, Templates};
use crate::{Error, QueryProfile, Result, ScalarValue};

/// Aborts the transaction when it is dropped before [`Aborting::done`].
struct Aborting<'a>(Option<&'a Catalog>);

impl Aborting<'_> {
    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Aborting<'_> {
    fn drop(&mut self) {
        if let Some(catalog) = self.0 {
            catalog.abort();
        }
    }
}

/// The last run time up to which a statement may run on the polling thread: too short to be cancelled meanwhile.
const SHORT_NANOS: u64 = 50_000_000;

/// How often a statement is planned again because another one has replaced a table that it writes.
const MOST_OUTDATED: usize = 20;

/// A statement after planning.
pub(super) enum Planned {
    /// Rows to be computed.
    Query { prepared: Arc<Prepared>, cached: bool },
    /// Done already: its rows.
    Done(QueryResult),
}

impl Session {
    /// Runs a top-level statement. If it fails or its future is dropped, the surrounding transaction is aborted.
    pub(super) async fn run_in_turn(&self, sql: &str, params: &[ScalarValue], query: &Query) -> Result<QueryResult> {
        let _turn = self.inner.turns.take(is_alone(sql) || self.executes_alone(sql)).await?;
        let aborting = Aborting(Some(&self.inner.catalog));
        let result = self.run_statement(sql, params, query).await?;
        aborting.done();
        Ok(result)
    }

    /// [`Session::run_in_turn`] for a statement whose rows are streamed.
    pub(super) async fn stream_in_turn(
        &self,
        sql: &str,
        params: &[ScalarValue],
        query: &Query,
    ) -> Result<SendableRecordBatchStream> {
        let _turn = self.inner.turns.take(is_alone(sql) || self.executes_alone(sql)).await?;
        let aborting = Aborting(Some(&self.inner.catalog));
        let rows = self.stream_statement(sql, params, query).await?;
        aborting.done();
        Ok(rows)
    }

    pub(super) async fn run_statement(&self, sql: &str, params: &[ScalarValue], query: &Query) -> Result<QueryResult> {
        for _ in 0..MOST_OUTDATED {
            match self.run_once(sql, params, query).await {
                // It has changed nothing, and is planned again for the current tables.
                Err(error) if error.is_outdated() && query.handle.commit.reopen() => {}
                outcome => return outcome,
            }
        }
        self.run_once(sql, params, query).await
    }

    async fn run_once(&self, sql: &str, params: &[ScalarValue], query: &Query) -> Result<QueryResult> {
        let start = Instant::now();
        let (prepared, cached) = match Box::pin(self.plan_statement(sql, params, query)).await? {
            Planned::Query { prepared, cached } => (prepared, cached),
            Planned::Done(result) => return Ok(result),
        };
        let planning_nanos = start.elapsed().as_nanos() as u64;
        let mut result = self.run_prepared(&prepared, query).await?;
        if let Some(profile) = result.profile.as_mut().and_then(Arc::get_mut) {
            profile.planning_nanos = planning_nanos;
            profile.plan_cached = cached;
            profile.plan_from_template = prepared.from_template && !cached;
            profile.plan_from_text = prepared.from_text && !cached;
        }
        Ok(result)
    }

    pub(super) async fn stream_statement(
        &self,
        sql: &str,
        params: &[ScalarValue],
        query: &Query,
    ) -> Result<SendableRecordBatchStream> {
        match Box::pin(self.plan_statement(sql, params, query)).await? {
            Planned::Query { prepared, .. } => {
                let plan = reset_plan_states(Arc::clone(&prepared.plan))?;
                Ok(execute_stream(plan, self.task_context(query))?)
            }
            Planned::Done(result) => {
                let rows = futures::stream::iter(result.batches.into_iter().map(Ok));
                Ok(Box::pin(RecordBatchStreamAdapter::new(result.schema, rows)))
            }
        }
    }

    /// Runs a plan to its end.
    pub(super) async fn run_prepared(&self, prepared: &Prepared, query: &Query) -> Result<QueryResult> {
        let start = Instant::now();
        // A program keeps no state between runs and calls no functions, unlike DataFusion's operators.
        let one_program = is_one_program(&*prepared.plan);
        let state = self.inner.context.state_ref();
        let (plan, context) = match one_program || prepared.rows_only {
            true => (Arc::clone(&prepared.plan), context_of_program(&state.read(), &query.handle)),
            false => (reset_plan_states(Arc::clone(&prepared.plan))?, self.task_context(query)),
        };
        // Cancelling a statement that may take long has to return to its caller at once.
        let is_short = (1..SHORT_NANOS).contains(&prepared.last_nanos.load(Ordering::Relaxed));
        query.handle.polled_alone.store(one_program && query.waited_for && is_short, Ordering::Relaxed);
        let batches = collect(plan, context).await?;
        let batches: Vec<_> = batches.into_iter().filter(|batch| batch.num_rows() > 0).collect();
        prepared.last_nanos.store(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        let profile = self.profile_of(prepared, start, query);
        Ok(QueryResult { schema: prepared.plan.schema(), batches, profile, notices: vec![] })
    }

    /// The profile of a plan that has run since `start`; `None`: profiles are off.
    pub(super) fn profile_of(&self, prepared: &Prepared, start: Instant, query: &Query) -> Option<Arc<QueryProfile>> {
        if self.options().profile == ProfileMode::Off {
            return None;
        }
        let programs = std::mem::take(&mut *query.handle.profiles.lock());
        Some(Arc::new(QueryProfile {
            bytes_read: programs.iter().map(|program| program.bytes_read).sum(),
            programs,
            widened: query.handle.widened.load(Ordering::Relaxed),
            fallbacks: prepared.fallbacks.iter().map(ToString::to_string).collect(),
            execution_nanos: start.elapsed().as_nanos() as u64,
            ..QueryProfile::default()
        }))
    }

    /// The session and the statement as operators see them.
    pub(super) fn task_context(&self, query: &Query) -> Arc<TaskContext> {
        let state = self.inner.context.state_ref();
        let context = TaskContext::from(&*state.read());
        let config = context.session_config().clone().with_extension(Arc::clone(&query.handle));
        Arc::new(context.with_session_config(config))
    }

    pub(super) async fn plan_statement(&self, sql: &str, params: &[ScalarValue], query: &Query) -> Result<Planned> {
        // Plans that are kept look at each of their tables alone.
        self.inner.catalog.finish_commits()?;
        if !is_order(sql) {
            self.inner.catalog.check_not_aborted()?;
        }
        let options = self.options();
        let settings = self.inner.settings_changes.load(Ordering::Acquire);
        let generation = Generation { catalog: self.inner.catalog.changes(), settings };
        let text = Text { sql: normalized(sql), params: params.to_vec() };
        if options.plan_cache {
            let known = self.inner.plan_cache.lock().get(&text, generation);
            if let Some(prepared) = known
                && distribution::are_the_same(&prepared.workers, &options).await?
            {
                return Ok(Planned::Query { prepared, cached: true });
            }
        }
        if let Some((prepared, read)) = self.planned_by_text(&text, &options, generation).await? {
            self.inner.plan_cache.lock().put(text, Arc::clone(&prepared), Basis { generation, read });
            return Ok(Planned::Query { prepared, cached: false });
        }
        if let Some(prepared) = self.insert_by_text(&text, &options, generation)? {
            return Ok(Planned::Query { prepared, cached: false });
        }
        check_text(&text.sql, &self.inner.context.copied_config().options().sql_parser.dialect)?;
        if let Some(sql) = kernels_statement(&text.sql) {
            return Ok(Planned::Done(self.kernels_rows(sql, params, query).await?));
        }
        let taken = Box::pin(self.take_statement(&text.sql, params, query)).await;
        let instead = match taken.map_err(|error| self.with_missing_schema(error))? {
            Taken::Done(result) => return Ok(Planned::Done(result)),
            Taken::Instead(text) => Some(text),
            Taken::No => None,
        };
        let sql = instead.as_deref().unwrap_or(sql);
        let stored_views = self.inner.catalog.stored_views();
        let state = Arc::new(self.inner.context.state());
        let plan = bound(&state, sql, params).await;
        let plan = with_nullable_rows(plan.map_err(|error| self.with_missing_schema(error))?)?;
        // PREPARE and DEALLOCATE change the meaning of EXECUTE.
        let executes = matches!(plan, LogicalPlan::Statement(Statement::Execute(_)));
        if let LogicalPlan::Statement(Statement::Execute(execute)) = &plan {
            if let Some((text, values)) = self.executed_change(execute)? {
                return Ok(Planned::Done(Box::pin(self.run_statement(&text, &values, query)).await?));
            }
            if let Some((text, values)) = self.executed_query(execute)? {
                return Box::pin(self.plan_statement(&text, &values, query)).await;
            }
            self.prepare_anew(&execute.name).await?;
        }
        let plan = match plan {
            LogicalPlan::Statement(Statement::Execute(_)) => {
                self.inner.context.execute_logical_plan(plan).await?.into_unoptimized_plan()
            }
            plan => plan,
        };
        if let LogicalPlan::Dml(change) = &plan
            && !matches!(change.op, WriteOp::Insert(_))
        {
            let text = format!("{} that is prepared with PREPARE: give parameters with its text", change.op.name());
            return Err(Error::NotImplemented(text));
        }
        if let Some(result) = self.run_command(&plan, query).await? {
            if let LogicalPlan::Statement(Statement::Prepare(prepare)) = &plan {
                self.forget_change(&prepare.name);
                self.note_prepared(&prepare.name, sql)?;
            }
            return Ok(Planned::Done(result));
        }
        // Other sessions may change the text of a stored view at any time.
        let lasting = stored_views == self.inner.catalog.stored_views();
        let immutable = options.plan_cache && lasting && !executes && is_immutable(&plan)?;
        let templates = (immutable && options.plan_templates).then(|| Templating {
            templates: Arc::clone(&self.inner.templates),
            generation,
            text: text.clone(),
        });
        let way = Way { explains: false, templates };
        let plan = Arc::new(plan);
        let (prepared, read) = self.prepare_for(&state, Arc::clone(&plan), &options, way).await?;
        if lasting && !executes && instead.is_none() && learns_inserts(&options) {
            self.learn_insert(text.clone(), plan, generation, &state).await?;
        }
        if let Some(read) = read.filter(|_| immutable) {
            self.inner.plan_cache.lock().put(text, Arc::clone(&prepared), Basis { generation, read });
        }
        Ok(Planned::Query { prepared, cached: false })
    }

    /// The program of a statement whose text differs from earlier ones in constants only, and the data that it reads; skips parsing and planning.
    async fn planned_by_text(
        &self,
        text: &Text,
        options: &WarpmillOptions,
        generation: Generation,
    ) -> Result<Option<(Arc<Prepared>, Read)>> {
        if !(options.plan_cache && options.plan_templates && options.workers.addresses.is_empty()) {
            return Ok(None);
        }
        let Some(found) = self.inner.templates.find(text, generation) else { return Ok(None) };
        let program = if found.is_small() {
            found.program(options)
        } else {
            let options = options.clone();
            planning::run(async move { Ok(found.program(&options)) }).await?
        };
        Ok(program.map(|(program, read)| {
            let (plan, last_nanos) = (Arc::new(program.plan), program.last_nanos);
            (Arc::new(Prepared { from_template: true, from_text: true, last_nanos, ..Prepared::of(plan) }), read)
        }))
    }

    /// The plan of an INSERT of constants whose text differs from earlier ones in constants only; skips parsing and planning.
    fn insert_by_text(
        &self,
        text: &Text,
        options: &WarpmillOptions,
        generation: Generation,
    ) -> Result<Option<Arc<Prepared>>> {
        if !learns_inserts(options) {
            return Ok(None);
        }
        let Some(found) = self.inner.inserts.find(text, generation, |name| self.table_named(name)) else {
            return Ok(None);
        };
        let prepared =
            Prepared { from_template: true, from_text: true, rows_only: true, ..Prepared::of(found.plan()?) };
        Ok(Some(Arc::new(prepared)))
    }

    /// Analyzes an INSERT of constants that has been planned as `plan`, so that the next one of its kind need not be planned.
    async fn learn_insert(
        &self,
        text: Text,
        plan: Arc<LogicalPlan>,
        generation: Generation,
        state: &Arc<SessionState>,
    ) -> Result<()> {
        if !matches!(&*plan, LogicalPlan::Dml(_)) || !self.inner.inserts.wants(&text, generation) {
            return Ok(());
        }
        let (session, inserts, state) = (self.clone(), Arc::clone(&self.inner.inserts), Arc::clone(state));
        planning::run(async move {
            inserts.learn(&text, &plan, |name| session.table_named(name), generation, &state).await;
            Ok(())
        })
        .await
    }

    /// The table of Warpmill that a name means now.
    fn table_named(&self, name: &TableReference) -> Option<Arc<Table>> {
        let (schema, name) = self.place(name).ok()?;
        schema.warpmill_table(&name).ok()?
    }

    /// Runs statements that are not queries; `None` for queries and for writes with a physical plan.
    async fn run_command(&self, plan: &LogicalPlan, query: &Query) -> Result<Option<QueryResult>> {
        let context = &self.inner.context;
        let frame = match plan {
            LogicalPlan::DescribeTable(table) => return describe(&table.schema, &[]).map(Some),
            LogicalPlan::Explain(explain) => {
                return Ok(Some(
                    Box::pin(self.explain_rows(Arc::clone(&explain.plan), explain.verbose, false, query)).await?,
                ));
            }
            LogicalPlan::Analyze(analyze) => {
                return Ok(Some(
                    Box::pin(self.explain_rows(Arc::clone(&analyze.input), analyze.verbose, true, query)).await?,
                ));
            }
            LogicalPlan::Statement(Statement::SetVariable(set))
                if ["schema", "search_path"].contains(&set.variable.to_ascii_lowercase().as_str()) =>
            {
                return self.use_schema(&set.value).map(Some);
            }
            LogicalPlan::Statement(Statement::SetVariable(set)) => {
                if let Some(done) = self.set_as_duckdb(&set.variable, &set.value)? {
                    return Ok(Some(done));
                }
                self.set(&set.variable, &set.value)?;
                return Ok(Some(QueryResult::empty()));
            }
            LogicalPlan::Statement(Statement::ResetVariable(reset)) => {
                let frame = context.execute_logical_plan(plan.clone()).await?;
                self.settings_changed(&reset.variable)?;
                frame
            }
            LogicalPlan::Ddl(ddl) => match self.run_ddl(ddl, query).await? {
                Some(result) => return Ok(Some(result)),
                None => context.execute_logical_plan(plan.clone()).await?,
            },
            LogicalPlan::Statement(_) => context.execute_logical_plan(plan.clone()).await?,
            _ => return Ok(None),
        };
        let schema = Arc::clone(frame.schema().inner());
        let batches = frame.collect().await?;
        Ok(Some(QueryResult { schema, batches, ..QueryResult::empty() }))
    }

    /// The physical plan of a query, and the data that it reads; `None` when changes of that data are not detectable.
    pub(super) async fn prepare(
        &self,
        state: &Arc<SessionState>,
        plan: Arc<LogicalPlan>,
        options: &WarpmillOptions,
    ) -> Result<(Arc<Prepared>, Option<Read>)> {
        self.prepare_for(state, plan, options, Way::default()).await
    }

    /// [`Session::prepare`] in one of several ways.
    pub(super) async fn prepare_for(
        &self,
        state: &Arc<SessionState>,
        plan: Arc<LogicalPlan>,
        options: &WarpmillOptions,
        way: Way,
    ) -> Result<(Arc<Prepared>, Option<Read>)> {
        let workers = distribution::workers_for(&plan, options).await?;
        let (state, options) = (Arc::clone(state), options.clone());
        planning::run(async move {
            match workers.as_deref() {
                Some(workers) => prepared_for_workers(&state, &plan, &options, workers, way.explains).await,
                None => prepared(&state, &plan, &options, way.templates.as_ref()).await,
            }
        })
        .await
    }
}

/// Whether texts of INSERTs are learned, as those of queries are.
fn learns_inserts(options: &WarpmillOptions) -> bool {
    options.plan_cache && options.plan_templates && options.workers.addresses.is_empty()
}

/// The options for preparing a plan.
#[derive(Debug, Default)]
pub(super) struct Way {
    /// Whether all texts for EXPLAIN are made.
    pub explains: bool,
    /// The templates that the optimized plan may come from.
    pub templates: Option<Templating>,
}

/// The session's templates at its current generation, for one statement.
#[derive(Debug)]
pub(super) struct Templating {
    templates: Arc<Templates>,
    generation: Generation,
    text: Text,
}

impl QueryResult {
    /// The result of a statement that has no rows.
    pub(super) fn empty() -> Self {
        let schema = Arc::new(arrow::datatypes::Schema::empty());
        Self { schema, batches: vec![], profile: None, notices: vec![] }
    }
}

/// `plan`, where it writes rows, with nullable input rows: the writer refuses NULLs itself, and names the column.
pub(crate) fn with_nullable_rows(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !matches!(plan, LogicalPlan::Dml(_)) {
        return Ok(plan);
    }
    let nullable = |node: LogicalPlan| match node {
        LogicalPlan::Values(Values { schema, values }) => {
            let field = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
            let fields = schema.iter().map(|(qualifier, of)| (qualifier.cloned(), field(of))).collect();
            let schema = Arc::new(DFSchema::new_with_metadata(fields, schema.metadata().clone())?);
            Ok(Transformed::yes(LogicalPlan::Values(Values { schema, values })))
        }
        node => node.recompute_schema().map(Transformed::yes),
    };
    Ok(plan.transform_up(nullable)?.data)
}

async fn prepared_for_workers(
    state: &SessionState,
    plan: &LogicalPlan,
    options: &WarpmillOptions,
    workers: &dyn Workers,
    explains: bool,
) -> Result<(Arc<Prepared>, Option<Read>)> {
    let memory = reserve(plan, state.runtime_env())?;
    let addresses = workers.addresses();
    match distribution::planned(workers, state, plan, options, explains).await? {
        (Distribution::Stages(Stages { plan, fallbacks, parts }), read) => {
            Ok((Arc::new(Prepared { fallbacks, parts, workers: addresses, ..Prepared::of(plan) }), read))
        }
        (Distribution::Here(reason), _) => {
            drop(memory);
            let (here, read) = prepared(state, plan, options, None).await?;
            let here = Arc::into_inner(here).ok_or_else(|| Error::Other("a plan has two owners".into()))?;
            let parts = vec![("not distributed".to_string(), reason)];
            Ok((Arc::new(Prepared { parts, workers: addresses, ..here }), read))
        }
    }
}

async fn prepared(
    state: &SessionState,
    plan: &LogicalPlan,
    options: &WarpmillOptions,
    templates: Option<&Templating>,
) -> Result<(Arc<Prepared>, Option<Read>)> {
    let _memory = reserve(plan, state.runtime_env())?;
    let staged = stage(plan)?;
    let plan = staged.as_ref().map_or(plan, |(plan, _)| plan);
    let Optimized { plan: optimized, from_template } = match templates.filter(|_| staged.is_none()) {
        Some(Templating { templates, generation, text }) => templates.optimized(plan, text, state, *generation).await?,
        None => Optimized { plan: state.optimize(plan)?, from_template: false },
    };
    let read = read_by(&optimized, state)?;
    let physical = state.query_planner().create_physical_plan(&optimized, state).await?;
    let physical = offload::shown(pin(physical, state.runtime_env())?)?;
    let placement = offload::place(physical, options, UnprovenSums::Narrow)?;
    let (mut plan, fallbacks) = (with_file_order(placement.plan)?, placement.fallbacks);
    if let Some((_, staging)) = staged {
        plan = Arc::new(WrittenExec::new(plan, staging));
    }
    Ok((Arc::new(Prepared { fallbacks, from_template, ..Prepared::of(plan) }), read))
}

/// Whether a plan is a query whose result depends on table contents only.
fn is_immutable(plan: &LogicalPlan) -> Result<bool> {
    let mut immutable = true;
    plan.apply_with_subqueries(|node| {
        if matches!(node, LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::DescribeTable(_)) {
            immutable = false;
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr {
                    immutable &= call.func.signature().volatility == Volatility::Immutable;
                }
                immutable &= !matches!(expr, Expr::ScalarVariable(..) | Expr::Placeholder(_));
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(immutable)
}
