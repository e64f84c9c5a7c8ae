//! Queries over several processes.
//!
//! A session with the setting `warpmill.workers` asks the [`Distributor`] of its process to cut its queries' plans into stages. The implementation is
//! in the crate `warpmill-distributed`, which depends on this one and registers itself by [`install`].

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{AggregateUDF, Expr, LogicalPlan, Volatility};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use warpmill_translate::{excluded, kept};

use crate::bounded::bounded_function;
pub use crate::dialect::MadeFunction;
use crate::dialect::{self, chains, only_row, with_single_rows};
use crate::offload::{self, Fallback, WholePlanRule};
use crate::plan_cache::{Read, read_by};
use crate::rebuilt::rebuilt;
use crate::remote::pin;
use crate::settings::{WarpmillOptions, WorkerOptions};
use crate::{Error, Result, Session};

/// Finds the workers of sessions.
#[async_trait]
pub trait Distributor: Send + Sync + fmt::Debug {
    /// The workers that are reachable now.
    ///
    /// # Errors
    /// [`Error::Worker`] for a worker that no longer answers, has another version, or refuses the token; [`Error::Setting`] for invalid addresses and
    /// files.
    async fn workers(&self, options: &WorkerOptions) -> Result<Arc<dyn Workers>>;
}

/// Workers that answer.
#[async_trait]
pub trait Workers: Send + Sync + fmt::Debug {
    /// The addresses, in the order of the setting.
    fn addresses(&self) -> Vec<String>;

    /// Cuts `plan`, a physical plan without partitions, into stages; `explains`: with texts for EXPLAIN.
    async fn distribute(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        state: &SessionState,
        options: &WarpmillOptions,
        explains: bool,
    ) -> Result<Distribution>;
}

/// The processes that run a plan.
#[derive(Debug)]
pub enum Distribution {
    /// Over workers.
    Stages(Stages),
    /// By this process alone, with the reason.
    Here(String),
}

/// A plan in stages.
#[derive(Debug)]
pub struct Stages {
    /// The plan that runs them.
    pub plan: Arc<dyn ExecutionPlan>,
    /// The operators that DataFusion runs: of all stages for EXPLAIN or where fallbacks are refused, else of this process.
    pub fallbacks: Vec<Fallback>,
    /// Titles and texts for EXPLAIN.
    pub parts: Vec<(String, String)>,
}

/// The longest chain of arithmetic of one type, such as `a + b + c + d`, that other processes know as one function.
const LONGEST_CHAIN: usize = 3;

/// The session in which a process decodes plans of other processes: it has the functions that all sessions have, under unique names.
///
/// # Errors
/// Errors of creating a session.
pub fn common_session() -> Result<Session> {
    let session = Session::new()?;
    let context = session.context();
    let mut bounded = vec![];
    for (name, function) in context.state().scalar_functions() {
        let other = bounded_function(function);
        // By its name, not by others of its names: these may be the names of other functions.
        if name == function.name() && !Arc::ptr_eq(&other, function) {
            bounded.push(other);
        }
    }
    let others = [kept::function(), excluded::function(), Arc::new(only_row())];
    for function in bounded.into_iter().chain(chains(LONGEST_CHAIN)).chain(others) {
        context.register_udf(function.as_ref().clone());
    }
    Ok(session)
}

/// The aggregate functions that sessions have for some types of arguments under the name of another, by names of their own.
pub fn aggregates_of_types() -> Vec<(String, Arc<AggregateUDF>)> {
    dialect::aggregates_of_types()
}

static DISTRIBUTOR: OnceLock<Arc<dyn Distributor>> = OnceLock::new();

/// Registers `distributor` for this process, unless it has one.
pub fn install(distributor: Arc<dyn Distributor>) {
    let _ = DISTRIBUTOR.set(distributor);
}

/// The workers that `plan` may run on; `None` where it is not a query, or the session has no workers.
pub(crate) async fn workers_for(plan: &LogicalPlan, options: &WarpmillOptions) -> Result<Option<Arc<dyn Workers>>> {
    let writes = matches!(plan, LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::DescribeTable(_));
    if options.workers.addresses.is_empty() || writes {
        return Ok(None);
    }
    let Some(distributor) = DISTRIBUTOR.get() else {
        return Err(Error::Setting("warpmill.workers: this program was built without warpmill-distributed".into()));
    };
    distributor.workers(&options.workers).await.map(Some)
}

/// Whether the reachable workers are still those that a plan was made for.
///
/// # Errors
/// As [`Distributor::workers`].
pub(crate) async fn are_the_same(addresses: &[String], options: &WarpmillOptions) -> Result<bool> {
    if addresses.is_empty() && options.workers.addresses.is_empty() {
        return Ok(true);
    }
    let Some(distributor) = DISTRIBUTOR.get() else { return Ok(false) };
    Ok(distributor.workers(&options.workers).await?.addresses() == addresses)
}

/// Plans `plan`, which no optimizer rule has seen yet, over `workers`; also returns the data that it reads, if all changes of that are detectable.
pub(crate) async fn planned(
    workers: &dyn Workers,
    state: &SessionState,
    plan: &LogicalPlan,
    options: &WarpmillOptions,
    explains: bool,
) -> Result<(Distribution, Option<Read>)> {
    let here = |reason: String| Ok((Distribution::Here(reason), None));
    let state = for_workers(state.clone());
    // As joins, subqueries would return several rows where the query has to fail.
    let optimized = state.optimize(&with_single_rows(plan.clone())?)?;
    if let Some(function) = not_immutable(&optimized)? {
        return here(format!("{function} may differ from call to call, or depend on the session"));
    }
    let read = read_by(&optimized, &state)?;
    let physical = state.query_planner().create_physical_plan(&optimized, &state).await?;
    let physical = offload::shown(pin(physical, state.runtime_env())?)?;
    Ok((workers.distribute(physical, &state, options, explains).await?, read))
}

/// `state` for plans that are cut into stages: scalar subqueries become joins, because stages share no state, and operators have one partition, that
/// of a task.
fn for_workers(state: SessionState) -> SessionState {
    let whole = WholePlanRule;
    let rules = state.physical_optimizers().iter().filter(|rule| rule.name() != whole.name()).cloned().collect();
    let id = state.session_id().to_string();
    let mut config = state.config().clone();
    config.options_mut().execution.target_partitions = 1;
    config.options_mut().optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    rebuilt(state).with_session_id(id).with_config(config).with_physical_optimizer_rules(rules).build()
}

/// A function of `plan` whose value does not depend on its arguments alone.
fn not_immutable(plan: &LogicalPlan) -> Result<Option<String>> {
    let mut found = None;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                match expr {
                    Expr::ScalarFunction(call) if call.func.signature().volatility != Volatility::Immutable => {
                        found.get_or_insert_with(|| call.func.name().to_string());
                    }
                    Expr::ScalarVariable(_, names) => {
                        found.get_or_insert_with(|| names.join("."));
                    }
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}
