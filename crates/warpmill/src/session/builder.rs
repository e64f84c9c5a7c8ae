//! The builder of sessions.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::Result as DataFusionResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::expressions::LambdaExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::filters::StopsAboveTotals;
use super::grouping_sets::HidesConstantKeys;
use super::join_keys::KeepsKeys;
use super::limits::SortsAboveLimits;
use super::unions::NullableUnions;
use super::variables::Variables;
use super::whole_tables::OfWholeTables;
use super::{Inner, Session};
use crate::asof::{Planner, PushDownLeftFilters};
use crate::bounded::{BoundedResults, SessionPool};
use crate::catalog::{CATALOG, Catalog, MAIN};
use crate::dialect::{QuantileWindows, Subqueries};
use crate::files::{CheckedArrowFactory, CheckedParquetFactory};
use crate::join_order::{ProviderStatistics, with_join_order};
use crate::offload::WholePlanRule;
use crate::planning::{checked, checked_physical};
use crate::remote::{Remote, RemoteTableFactory};
use crate::settings::WarpmillOptions;
use crate::udf::Functions;
use crate::{Error, Result, dialect};

/// The settings of a session that is being built.
#[derive(Debug, Default, Clone)]
pub struct SessionBuilder {
    database: Option<PathBuf>,
    settings: Vec<(String, String)>,
    no_files: bool,
    no_environment: bool,
    runtime: Option<Arc<RuntimeEnv>>,
}

impl SessionBuilder {
    /// Worker threads; 0, the default: all cores.
    pub fn threads(self, threads: usize) -> Self {
        self.set("warpmill.threads", &threads.to_string())
    }

    /// Bytes that a query may hold in pipeline breakers.
    pub fn memory_limit(self, bytes: usize) -> Self {
        self.set("warpmill.memory_limit", &bytes.to_string())
    }

    /// The directory of stored tables, one sub-directory each. It is created when the first table is.
    pub fn database(mut self, path: impl AsRef<Path>) -> Self {
        self.database = Some(path.as_ref().to_path_buf());
        self
    }

    /// A setting as in `SET key = value`; checked by [`SessionBuilder::build`]. Keys without a prefix are Warpmill's.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_string(), value.to_string()));
        self
    }

    /// Whether quoted paths in place of a table name are local files, and URLs files in object stores and on web servers; the default is true.
    /// Servers set it to false.
    pub fn files_as_tables(mut self, allowed: bool) -> Self {
        self.no_files = !allowed;
        self
    }

    /// Whether `getenv` reads the environment of the process; the default is true. Servers set it to false.
    pub fn environment(mut self, allowed: bool) -> Self {
        self.no_environment = !allowed;
        self
    }

    /// The memory pool and caches of DataFusion's operators; several sessions may share them, each up to its `memory_limit`.
    pub fn runtime_env(mut self, runtime: Arc<RuntimeEnv>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Opens the session.
    ///
    /// # Errors
    /// [`Error::Setting`] for an unknown setting or a bad value, [`Error::Io`] when the database is not a directory.
    pub fn build(self) -> Result<Session> {
        if let Some(path) = self.database.as_ref().filter(|path| path.exists() && !path.is_dir()) {
            return Err(Error::Io(format!("{} is not a directory", path.display())));
        }
        let remote = Arc::new(Remote::new(!self.no_files));
        let catalog = Catalog::new(self.database, Arc::clone(&remote));
        let (runtime, pool) = runtime(self.runtime)?;
        let mut state = dialect::planners(SessionStateBuilder::new())
            .with_config(config())
            .with_analyzer_rule(Arc::new(Subqueries))
            .with_analyzer_rule(Arc::new(QuantileWindows))
            .with_optimizer_rules(optimizer_rules(Optimizer::new().rules))
            .with_physical_optimizer_rules(session_physical_rules())
            .with_query_planner(Arc::new(Planner))
            .with_runtime_env(runtime)
            .build();
        // A type that the first rows have is not yet that of all.
        state.table_options_mut().csv.schema_infer_max_rec = Some(usize::MAX);
        state.table_options_mut().json.schema_infer_max_rec = Some(usize::MAX);
        let context = SessionContext::new_with_state(state);
        for factory in context.state_ref().write().table_factories_mut().values_mut() {
            let (remote, inner) = (Arc::clone(&remote), Arc::clone(factory));
            *factory = Arc::new(RemoteTableFactory { remote, inner });
        }
        context.register_catalog(CATALOG, Arc::clone(&catalog) as _);
        catalog.attach(context.state_weak_ref());
        let parquet = context.state_ref().read().get_file_format_factory("parquet");
        if let Some(parquet) = parquet {
            let checked = Arc::new(CheckedParquetFactory(parquet));
            context.state_ref().write().register_file_format(checked, true)?;
        }
        let arrow = context.state_ref().read().get_file_format_factory("arrow");
        if let Some(arrow) = arrow {
            context.state_ref().write().register_file_format(Arc::new(CheckedArrowFactory(arrow)), true)?;
        }
        super::sequences::functions(&catalog).into_iter().for_each(|function| context.register_udf(function));
        context.register_udf(super::environment::function(!self.no_environment));
        remote.attach(context.state_weak_ref());
        let session = Session { inner: Arc::new(Inner::new(context, catalog, remote, pool)) };
        session.sync_threads()?;
        for (key, value) in &self.settings {
            session.set(key, value)?;
        }
        Ok(session)
    }
}

/// The runtime of a session. Listings of folders are not cached: files come and go, and DataFusion's cache confuses folders of different stores. The
/// session has its share of the memory.
fn runtime(given: Option<Arc<RuntimeEnv>>) -> Result<(Arc<RuntimeEnv>, Arc<SessionPool>)> {
    let given = given.map_or_else(|| RuntimeEnvBuilder::new().build_arc(), Ok)?;
    let pool = Arc::new(SessionPool::new(Arc::clone(&given.memory_pool)));
    let builder = RuntimeEnvBuilder::from_runtime_env(&given).with_memory_pool(Arc::clone(&pool) as _);
    Ok((builder.with_object_list_cache_limit(0).build_arc()?, pool))
}

/// DataFusion's settings where its defaults do not suit programs: no repartitioning between operators (a program has no partitions), plain strings,
/// join order and build sides as the join-order rule left them.
fn config() -> SessionConfig {
    let mut config = SessionConfig::new()
        // The catalog has an information schema of its own.
        .with_information_schema(false)
        .with_default_catalog_and_schema(CATALOG, MAIN)
        .with_create_default_catalog_and_schema(false)
        .with_option_extension(WarpmillOptions::default())
        .with_extension(Arc::new(Functions::default()))
        .with_extension(Arc::new(Variables::default()));
    let options = config.options_mut();
    options.optimizer.enable_dynamic_filter_pushdown = false;
    options.optimizer.enable_join_dynamic_filter_pushdown = false;
    options.optimizer.enable_topk_dynamic_filter_pushdown = false;
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    // The optimization loses groups whose MIN or MAX is NULL.
    options.optimizer.enable_topk_aggregation = false;
    options.optimizer.join_reordering = false;
    options.optimizer.repartition_joins = false;
    options.optimizer.repartition_aggregations = false;
    options.optimizer.repartition_windows = false;
    options.optimizer.repartition_sorts = false;
    options.optimizer.enable_round_robin_repartition = false;
    options.execution.parquet.schema_force_view_types = false;
    // Texts are measured before they are parsed: no text that is parsed nests as deeply.
    options.set("datafusion.sql_parser.recursion_limit", "10000").expect("this is a setting of DataFusion");
    options.sql_parser.map_string_types_to_utf8view = false;
    // As in DuckDB, for both sort directions.
    options.sql_parser.default_null_ordering = "nulls_last".into();
    // 0.06 is a decimal, as in PostgreSQL and DuckDB: comparisons with decimal columns stay exact.
    options.sql_parser.parse_float_as_decimal = true;
    config
}

/// DataFusion's rules plus the join-order rules, which `warpmill.join_order = off` disables; functions have size limits.
pub(crate) fn optimizer_rules(rules: Vec<SharedRule>) -> Vec<SharedRule> {
    let rules = with_join_order(rules, Arc::new(ProviderStatistics));
    let switched = |rule: SharedRule| match rule.name() {
        "join_order" | "outer_joins_below_joins" => Arc::new(IfJoinOrder(rule)) as SharedRule,
        "push_down_filter" => Arc::new(StopsAboveTotals(rule)) as SharedRule,
        "extract_equijoin_predicate" | "eliminate_cross_join" => Arc::new(KeepsKeys(rule)) as SharedRule,
        _ => rule,
    };
    let asof = std::iter::once(Arc::new(PushDownLeftFilters) as SharedRule);
    let rules = asof.chain(rules);
    let bounded = || std::iter::once(Arc::new(BoundedResults) as SharedRule);
    let unions = std::iter::once(Arc::new(NullableUnions) as SharedRule);
    bounded().chain(rules.map(switched)).chain(bounded()).chain(unions).map(checked).collect()
}

/// The physical rules of a session. Aggregates answered from statistics do not become programs; plans that are one program skip all other rules.
fn session_physical_rules() -> Vec<SharedPhysicalRule> {
    let first: [SharedPhysicalRule; 4] = [
        Arc::new(OfWholeTables::default()),
        Arc::new(HidesConstantKeys),
        Arc::new(WholePlanRule),
        Arc::new(SortsAboveLimits),
    ];
    let rules = PhysicalOptimizer::new().rules.into_iter().filter(|rule| rule.name() != first[0].name());
    physical_rules(first.iter().cloned().chain(rules).collect())
}

/// DataFusion's physical rules; rules that find columns by name are skipped for plans with duplicate names or lambdas.
pub(crate) fn physical_rules(rules: Vec<SharedPhysicalRule>) -> Vec<SharedPhysicalRule> {
    let guarded = |rule: SharedPhysicalRule| match rule.name() {
        "FilterPushdown" | "FilterPushdown(Post)" | "ProjectionPushdown" => {
            Arc::new(IfUnambiguous(rule)) as SharedPhysicalRule
        }
        _ => rule,
    };
    rules.into_iter().map(guarded).map(checked_physical).collect()
}

pub(crate) type SharedPhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// A rule that is skipped for plans in which some node has two columns of one name: `FilterPushdown` confuses them below a projection or a filter,
/// and `ProjectionPushdown` below a join. Scans of Warpmill do not depend on these rules.
///
/// Also skipped for plans with lambdas: both rules remap columns to their positions in another input, but not lambda parameters, which are numbered
/// after the columns, so that columns and parameters are confused.
#[derive(Debug)]
struct IfUnambiguous(SharedPhysicalRule);

impl PhysicalOptimizerRule for IfUnambiguous {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        if has_unique_names(&plan) && !has_lambdas(&plan) { self.0.optimize(plan, config) } else { Ok(plan) }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

fn has_unique_names(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let schema = plan.schema();
    let mut seen = HashSet::with_capacity(schema.fields().len());
    schema.fields().iter().all(|field| seen.insert(field.name())) && plan.children().into_iter().all(has_unique_names)
}

fn has_lambdas(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut found = false;
    let looked = plan.apply_expressions(&mut |expr| {
        found |= expr.exists(|part| Ok(part.is::<LambdaExpr>()))?;
        Ok(TreeNodeRecursion::Continue)
    });
    found || looked.is_err() || plan.children().into_iter().any(has_lambdas)
}

pub(crate) type SharedRule = Arc<dyn OptimizerRule + Send + Sync>;

/// A rule that is skipped while `warpmill.join_order` is off.
#[derive(Debug)]
struct IfJoinOrder(SharedRule);

impl OptimizerRule for IfJoinOrder {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> DataFusionResult<Transformed<LogicalPlan>> {
        match WarpmillOptions::of(&config.options()).join_order {
            true => self.0.rewrite(plan, config),
            false => Ok(Transformed::no(plan)),
        }
    }
}
