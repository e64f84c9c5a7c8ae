//! Plans: the verdict on a query, and its physical plan.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, LazyLock, OnceLock};

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use warpmill::offload::{self, UnprovenSums, WarpmillExec};
use warpmill::{Session, WarpmillOptions, WarpmillTable};
use warpmill_format::{Table, TableSnapshot};

use crate::encoding::{Statement, VERSION};
use crate::execute::POLL;
use crate::translate::{Source, translate};
use crate::types::Type;
use crate::{Refused, depth, rules};

/// Largest number of verdicts that are remembered, by the text of the plan.
const KNOWN_PLANS: usize = 512;
/// Largest size in bytes of a plan's text whose verdict is remembered.
const LONGEST_KNOWN: usize = 1 << 20;

/// Environment variables for Warpmill's settings `device` (`auto`, `cpu`, `gpu` or `sim`) and `profile` (`kernels`: with the time of
/// each kernel): variable, setting, default value. Read once per process.
const SETTINGS: [(&str, &str, &str); 2] =
    [("WARPMILL_DEVICE", "device", "auto"), ("WARPMILL_PROFILE", "profile", "on")];

/// A plan of DuckDB's that Warpmill runs.
#[derive(Debug)]
pub struct Plan {
    statement: Statement,
    /// The types of the result's columns.
    pub types: Vec<Type>,
    /// The columns to read, for each input.
    pub inputs: Vec<Needed>,
    /// The description of the execution for EXPLAIN.
    pub text: String,
    /// The physical plan of the last execution; it is used again for the same tables.
    prepared: Mutex<Option<Prepared>>,
}

#[derive(Debug)]
struct Prepared {
    /// The versions of the tables that the plan reads.
    versions: Vec<Arc<TableSnapshot>>,
    threads: usize,
    plan: Arc<dyn ExecutionPlan>,
}

/// The columns of an input that a plan reads.
#[derive(Debug)]
pub struct Needed {
    /// The positions of the columns among those of the input.
    pub columns: Vec<u32>,
    /// The positions of the columns in the table.
    pub positions: Vec<u32>,
    /// The types of the columns.
    pub types: Vec<Type>,
    /// The names and types of the columns. Without columns, it has one that only counts rows.
    pub schema: SchemaRef,
}

/// A plan, or the reason why Warpmill does not run it.
pub type Verdict = Result<Arc<Plan>, Refused>;

#[derive(Default)]
struct Known {
    verdicts: HashMap<String, Verdict>,
    oldest: VecDeque<String>,
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(|| {
    crate::cache::on_forget(forget_tables);
    Mutex::default()
});

impl Plan {
    /// The verdict on an encoded plan; `None` if `interrupted` returned true before.
    ///
    /// # Errors
    /// The reason why Warpmill does not run the plan.
    pub fn of(json: &str, interrupted: impl Fn() -> bool) -> Result<Option<Arc<Self>>, Refused> {
        if let Some(verdict) = KNOWN.lock().verdicts.get(json) {
            return verdict.clone().map(Some);
        }
        let text = json.to_string();
        let verdict = match deep(async move { Self::new(&text).await }, interrupted) {
            Ok(None) => return Ok(None),
            Ok(Some(plan)) => Ok(Arc::new(plan)),
            Err(refused) => Err(refused),
        };
        if json.len() > LONGEST_KNOWN {
            return verdict.map(Some);
        }
        let mut known = KNOWN.lock();
        if known.verdicts.insert(json.to_string(), verdict.clone()).is_none() {
            known.oldest.push_back(json.to_string());
        }
        if known.oldest.len() > KNOWN_PLANS
            && let Some(oldest) = known.oldest.pop_front()
        {
            known.verdicts.remove(&oldest);
        }
        verdict.map(Some)
    }

    async fn new(json: &str) -> Result<Self, Refused> {
        let statement: Statement = serde_json::from_str(json)
            .map_err(|error| Refused::new(format!("a plan that the engine does not understand: {error}")))?;
        if statement.version != VERSION {
            return Err(Refused::new(format!("plan encoding {}, not {VERSION}", statement.version)));
        }
        if statement.inputs.is_empty() {
            return Err(Refused::new("a query without tables"));
        }
        rules::check(&statement)?;
        depth::check(&statement)?;
        let types = statement.types.iter().map(|name| Type::parse(name)).collect::<Result<Vec<_>, _>>()?;
        // For the verdict all columns exist: planning tells which of them are needed.
        let empty = statement.inputs.iter().map(|input| {
            let mut columns = vec![None; input.columns.len()];
            let mut fields = Vec::new();
            for (i, (position, _, ty)) in input.columns.iter().enumerate() {
                // Columns of other types are refused if the plan reads them.
                if let Some(ty) = Type::of_column(ty) {
                    columns[i] = Some(fields.len());
                    fields.push(Field::new(column_name(*position), ty.arrow(), true));
                }
            }
            let provider = WarpmillTable::open(input.name.as_str(), Table::in_memory(Arc::new(schema_of(fields))))?;
            Ok(Source { provider: Arc::new(provider), columns })
        });
        let sources = empty.collect::<Result<Vec<_>, Refused>>()?;
        let logical = translate(&statement, &sources)?;
        let session = session(0)?;
        let state = session.context().state();
        let optimized = state.optimize(&logical)?;
        let inputs = needed(&statement, &optimized)?;
        let physical = physical(&session, &state, &optimized).await?;
        let text = displayable(physical.as_ref()).indent(false).to_string();
        Ok(Self { statement, types, inputs, text, prepared: Mutex::default() })
    }

    /// The physical plan over `tables`, one for each input; `None` if `interrupted` returned true before.
    ///
    /// # Errors
    /// The reason why there is no physical plan.
    pub fn physical(
        self: &Arc<Self>,
        tables: &[Arc<Table>],
        threads: usize,
        interrupted: impl Fn() -> bool,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>, Refused> {
        let versions = tables.iter().map(|table| table.snapshot()).collect::<Result<Vec<_>, _>>()?;
        let same = |prepared: &Prepared| {
            prepared.threads == threads && prepared.versions.iter().zip(&versions).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        if let Some(prepared) = self.prepared.lock().as_ref().filter(|prepared| same(prepared)) {
            return Ok(Some(Arc::clone(&prepared.plan)));
        }
        let (own, tables) = (Arc::clone(self), tables.to_vec());
        deep(async move { own.prepare(tables, threads).await }, interrupted)
    }

    async fn prepare(&self, tables: Vec<Arc<Table>>, threads: usize) -> Result<Arc<dyn ExecutionPlan>, Refused> {
        let sources = self.statement.inputs.iter().zip(&self.inputs).zip(&tables).map(|((input, needed), table)| {
            let mut columns = vec![None; input.columns.len()];
            let snapshot = table.snapshot()?;
            for (&column, &position) in needed.columns.iter().zip(&needed.positions) {
                columns[column as usize] = Some(match input.own {
                    true => position as usize,
                    // A cached table may have more columns than this plan reads.
                    false => {
                        let found = snapshot.schema().index_of(&column_name(position));
                        found.map_err(|error| Refused::new(error.to_string()))?
                    }
                });
            }
            let provider = WarpmillTable::open(input.name.as_str(), Arc::clone(table))?;
            Ok(Source { provider: Arc::new(provider), columns })
        });
        let sources = sources.collect::<Result<Vec<_>, Refused>>()?;
        let logical = translate(&self.statement, &sources)?;
        let session = session(threads)?;
        let state = session.context().state();
        let plan = physical(&session, &state, &state.optimize(&logical)?).await?;
        let versions = tables.iter().map(|table| table.snapshot()).collect::<Result<Vec<_>, _>>()?;
        let prepared = Prepared { versions, threads, plan: Arc::clone(&plan) };
        *self.prepared.lock() = Some(prepared);
        Ok(plan)
    }

    /// The description of the execution; after an execution with its programs for the rows of that time.
    pub fn describe(&self) -> String {
        let mut text = self.text.clone();
        if let Some(prepared) = self.prepared.lock().as_ref() {
            add_programs(&prepared.plan, &mut text);
        }
        text
    }

    /// Forgets the physical plan, which holds the tables that it was made for.
    pub fn forget(&self) {
        *self.prepared.lock() = None;
    }
}

/// Runs `work`, which plans, on a thread with a deep stack, which DuckDB's threads do not have. `None` if `interrupted` returned true; the
/// thread then ends at its next step.
fn deep<T: Send + 'static>(
    work: impl Future<Output = Result<T, Refused>> + Send + 'static,
    interrupted: impl Fn() -> bool,
) -> Result<Option<T>, Refused> {
    runtime().block_on(async {
        let mut planning = Box::pin(warpmill::planning::run(async move { Ok(work.await) }));
        loop {
            match tokio::time::timeout(POLL, &mut planning).await {
                Ok(planned) => return planned?.map(Some),
                Err(_) if interrupted() => return Ok(None),
                Err(_) => {}
            }
        }
    })
}

fn add_programs(plan: &Arc<dyn ExecutionPlan>, text: &mut String) {
    if let Some(part) = plan.downcast_ref::<WarpmillExec>() {
        text.push_str(&part.program().to_string());
    }
    plan.children().into_iter().for_each(|child| add_programs(child, text));
}

/// Forgets physical plans, which hold the tables that they were made for.
pub(crate) fn forget_tables() {
    for plan in KNOWN.lock().verdicts.values().flatten() {
        *plan.prepared.lock() = None;
    }
}

/// The name of a table's column in the engine.
fn column_name(position: u32) -> String {
    format!("c{position}")
}

/// A schema of `fields`, or of one column that only counts rows if there are none.
fn schema_of(fields: Vec<Field>) -> Schema {
    match fields.is_empty() {
        true => Schema::new(vec![Field::new("rows", Type::Boolean.arrow(), true)]),
        false => Schema::new(fields),
    }
}

/// The columns that the scans of an optimized plan read.
fn needed(statement: &Statement, plan: &LogicalPlan) -> Result<Vec<Needed>, Refused> {
    let mut read = vec![BTreeSet::<u32>::new(); statement.inputs.len()];
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let name = scan.table_name.table();
            let digits = name.split_once("input").map_or("", |(_, rest)| rest.split('_').next().unwrap_or(""));
            if let Ok(input) = digits.parse::<usize>() {
                let schema = scan.source.schema();
                let columns = scan.projection.clone().unwrap_or_else(|| (0..schema.fields().len()).collect());
                let positions = columns.iter().filter_map(|&i| schema.field(i).name().strip_prefix('c')?.parse().ok());
                read[input].extend(positions.collect::<Vec<u32>>());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let needed = read.into_iter().zip(&statement.inputs).map(|(read, input)| {
        let columns = (0u32..).zip(&input.columns).filter(|(_, (position, ..))| read.contains(position));
        let (columns, described): (Vec<u32>, Vec<_>) = columns.unzip();
        let fields = described
            .iter()
            .map(|(position, _, ty)| Ok(Field::new(column_name(*position), Type::parse(ty)?.arrow(), true)));
        let schema = Arc::new(schema_of(fields.collect::<Result<Vec<_>, Refused>>()?));
        let positions = described.iter().map(|(position, ..)| *position).collect();
        let types = described.iter().map(|(.., ty)| Type::parse(ty)).collect::<Result<_, _>>()?;
        Ok(Needed { columns, positions, types, schema })
    });
    needed.collect()
}

/// The physical plan with the parts that Warpmill runs. DataFusion may run only the last steps, over few rows, and window functions,
/// and nothing that it computes differently from DuckDB.
async fn physical(
    session: &Session,
    state: &SessionState,
    optimized: &LogicalPlan,
) -> Result<Arc<dyn ExecutionPlan>, Refused> {
    let physical = state.query_planner().create_physical_plan(optimized, state).await?;
    let options = WarpmillOptions::of(session.context().copied_config().options());
    let placement = offload::place(physical, &options, UnprovenSums::Narrow)?;
    let first = placement.fallbacks.first();
    check_rest(&placement.plan, first.map(ToString::to_string).as_deref())?;
    Ok(placement.plan)
}

fn check_rest(plan: &Arc<dyn ExecutionPlan>, reason: Option<&str>) -> Result<(), Refused> {
    if plan.is::<WarpmillExec>() {
        return plan.children().into_iter().try_for_each(|child| check_rest(child, reason));
    }
    let simple = [
        "BoundedWindowAggExec",
        "CoalescePartitionsExec",
        "EmptyExec",
        "GlobalLimitExec",
        "LocalLimitExec",
        "PlaceholderRowExec",
        "ProjectionExec",
        "SortExec",
        "SortPreservingMergeExec",
        "UnionExec",
        "WindowAggExec",
    ];
    if !simple.contains(&plan.name()) {
        return Err(Refused::new(reason.unwrap_or(plan.name())));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let wraps = projection.expr().iter().any(|e| has_integer_arithmetic(&e.expr, &projection.input().schema()));
        if wraps {
            return Err(Refused::new(reason.unwrap_or("arithmetic on integers")));
        }
    }
    plan.children().into_iter().try_for_each(|child| check_rest(child, reason))
}

/// Whether an expression has integer arithmetic, which wraps around in DataFusion and fails in DuckDB.
fn has_integer_arithmetic(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let arithmetic = expr.downcast_ref::<BinaryExpr>().is_some_and(|binary| {
        use datafusion::logical_expr::Operator::{Minus, Multiply, Plus};
        matches!(binary.op(), Plus | Minus | Multiply) && expr.data_type(schema).is_ok_and(|ty| ty.is_integer())
    });
    arithmetic || expr.children().into_iter().any(|child| has_integer_arithmetic(child, schema))
}

/// The session for planning with `threads` workers (0: all cores).
pub fn session(threads: usize) -> Result<Session, Refused> {
    static SESSIONS: LazyLock<Mutex<HashMap<usize, Session>>> = LazyLock::new(Mutex::default);
    let mut sessions = SESSIONS.lock();
    if let Some(session) = sessions.get(&threads) {
        return Ok(session.clone());
    }
    let mut builder = Session::builder().threads(threads);
    for (variable, setting, otherwise) in SETTINGS {
        builder = builder.set(setting, &std::env::var(variable).unwrap_or_else(|_| otherwise.to_string()));
    }
    // The verdict refuses unsupported parts one by one: see `check_rest`.
    builder = builder.set("fallback", "allow");
    let session = builder.build()?;
    sessions.insert(threads, session.clone());
    Ok(session)
}

/// The runtime of DataFusion's asynchronous parts.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let builder = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .worker_threads(2)
            .thread_name("warpmill-duckdb")
            .thread_stack_size(warpmill::planning::WORKER_STACK)
            .build();
        builder.expect("threads can be started")
    })
}
