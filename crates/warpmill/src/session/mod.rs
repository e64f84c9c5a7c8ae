//! Sessions: SQL in, Arrow batches out.

mod alter;
pub(crate) mod builder;
mod changes;
mod comments;
pub(crate) mod constraints;
mod copy;
pub(crate) mod ddl;
pub(crate) mod describe;
pub(crate) mod duckdb_settings;
mod environment;
mod explain;
mod export;
mod filters;
mod functions;
mod grouping_sets;
mod import;
mod join_keys;
pub(crate) mod key_names;
mod layout;
mod limits;
mod logical;
mod macros;
mod names;
mod pivots;
mod plan;
mod planned;
pub(crate) mod pragma;
mod prepared;
pub(crate) mod query;
mod returning;
mod running;
mod sequences;
mod statements;
mod stored;
mod suggestions;
mod tables;
mod transactions;
mod turns;
mod types;
mod unions;
mod upkeep;
pub(crate) mod variables;
mod whole_tables;
mod written;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use parking_lot::Mutex;
use tokio::runtime::{Handle, Runtime};

pub use builder::SessionBuilder;
pub use explain::ExplainFormat;
pub use logical::Description;
pub use plan::{PlannedStatement, RowStream};
pub use running::CancelHandle;
pub use stored::{column_default, duckdb_type};
pub use tables::{Progress, ProgressFn};

use crate::bounded::SessionPool;
use crate::catalog::Catalog;
use crate::inserts::Inserts;
use crate::pieces::statements;
use crate::plan_cache::PlanCache;
use crate::planning::WORKER_STACK;
use crate::remote::Remote;
use crate::settings::{ProgressMode, WarpmillOptions};
use crate::templates::Templates;
use crate::udf::Functions;
use crate::{Error, QueryProfile, Result, ScalarValue, TableInfo, caught};
use functions::PreparedStatement;
use prepared::PreparedChange;
use running::Running;
use turns::Turns;

/// A session: tables, settings, and statements over them. Clones share all of it; statements of several threads run at
/// the same time.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

struct Inner {
    /// The runtime for callers outside of a runtime; started at the first call.
    runtime: OnceLock<Runtime>,
    context: SessionContext,
    catalog: Arc<Catalog>,
    remote: Arc<Remote>,
    /// The memory pool of DataFusion's operators.
    pool: Arc<SessionPool>,
    running: Running,
    plan_cache: Mutex<PlanCache>,
    templates: Arc<Templates>,
    inserts: Arc<Inserts>,
    settings_changes: AtomicU64,
    /// The user-defined functions.
    functions: Arc<Functions>,
    /// Prepared statements, by name.
    prepared: Mutex<HashMap<String, PreparedStatement>>,
    /// Prepared statements that change rows, by their names in lower case.
    prepared_changes: Mutex<HashMap<String, PreparedChange>>,
    turns: Turns,
}

impl Inner {
    fn new(context: SessionContext, catalog: Arc<Catalog>, remote: Arc<Remote>, pool: Arc<SessionPool>) -> Self {
        let functions = context.copied_config().get_extension::<Functions>().unwrap_or_default();
        Self {
            runtime: OnceLock::new(),
            context,
            catalog,
            remote,
            pool,
            running: Running::default(),
            plan_cache: Mutex::default(),
            templates: Arc::default(),
            inserts: Arc::default(),
            settings_changes: AtomicU64::new(0),
            functions,
            prepared: Mutex::default(),
            prepared_changes: Mutex::default(),
            turns: Turns::default(),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The last clone may be dropped inside a runtime, where waiting for this one is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The rows of a statement.
#[derive(Debug, Clone)]
pub struct QueryResult {
    /// Names and types of the columns.
    pub schema: SchemaRef,
    /// The rows; no batch at all where there are none.
    pub batches: Vec<RecordBatch>,
    /// The profile, if `warpmill.profile` is on.
    pub profile: Option<Arc<QueryProfile>>,
    /// Parts of the statement that were ignored, such as unenforced keys.
    pub notices: Vec<String>,
}

/// The rows of a statement as they come.
pub struct QueryStream {
    /// Names and types of the columns.
    pub schema: SchemaRef,
    session: Session,
    stream: SendableRecordBatchStream,
    query: running::Query,
}

/// DataFusion's setting of the session's time zone, which SQL calls TimeZone.
const TIME_ZONE: &str = "datafusion.execution.time_zone";

/// Whether a name of a time zone is one of UTC.
fn is_utc(zone: &str) -> bool {
    ["", "utc", "etc/utc", "gmt", "etc/gmt", "z", "zulu", "+00", "+00:00"].contains(&zone.to_ascii_lowercase().as_str())
}

impl Session {
    /// A session with settings of its own.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// A session without a database, with default settings.
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// Runs one statement to its end, or several separated by semicolons, and returns the rows of the last. `params` are the values of `$1`, `$2`,
    /// ... of the last one.
    pub fn execute(&self, sql: &str, params: &[ScalarValue]) -> Result<QueryResult> {
        let one = sql.trim_end().trim_end_matches(';');
        if one.contains(';')
            && let [before @ .., last] = &statements(sql)[..]
            && !before.is_empty()
        {
            let mut notices = vec![];
            for sql in before {
                notices.extend(self.execute_one(sql, &[])?.notices);
            }
            let last = self.execute_one(last, params)?;
            notices.extend(last.notices);
            return Ok(QueryResult { notices, ..last });
        }
        self.execute_one(sql, params)
    }

    fn execute_one(&self, sql: &str, params: &[ScalarValue]) -> Result<QueryResult> {
        let mut query = self.inner.running.start();
        query.waited_for = true;
        let result = self.wait(query.until_cancelled(self.run_in_turn(sql, params, &query)));
        // A program on this thread may have ended without checking for cancellation; it has no effects to undo.
        let unseen = query.handle.polled_alone.load(Ordering::Relaxed) && query.handle.cancel.check().is_err();
        if unseen { Err(Error::Cancelled) } else { result }
    }

    /// [`Session::execute`] for asynchronous callers. Dropping the future cancels the statement.
    pub async fn execute_async(&self, sql: &str, params: &[ScalarValue]) -> Result<QueryResult> {
        let query = self.inner.running.start();
        let statement = async { query.until_cancelled(self.run_in_turn(sql, params, &query)).await };
        statement.await
    }

    /// Runs one statement and returns its rows as they are computed. Dropping the stream cancels the statement.
    pub fn query_stream(&self, sql: &str, params: &[ScalarValue]) -> Result<QueryStream> {
        let query = self.inner.running.start();
        let stream = self.wait(query.until_cancelled(self.stream_in_turn(sql, params, &query)))?;
        Ok(QueryStream { schema: stream.schema(), session: self.clone(), stream, query })
    }

    /// Explains a query: DataFusion's plan with the parts that Warpmill runs, their programs, the operators left to DataFusion with reasons, and the
    /// place where each program will run. With `analyze` the query is run, and the text has the actual places and measurements of each operator.
    pub fn explain(&self, sql: &str, analyze: bool) -> Result<String> {
        self.explain_as(sql, analyze, &[ExplainFormat::Text]).map(|mut texts| texts.remove(0))
    }

    /// [`Session::explain`] in each of `formats`, of one plan and one run.
    pub fn explain_as(&self, sql: &str, analyze: bool, formats: &[ExplainFormat]) -> Result<Vec<String>> {
        self.wait(async {
            let query = self.inner.running.start();
            query.until_cancelled(self.explain_in_formats(sql, analyze, formats, &query)).await
        })
    }

    /// The kernels that a query needs on the session's device: labels and source texts. Where that is the CPU, or there is no GPU, the kernels of the
    /// simulated device.
    pub fn explain_kernels(&self, sql: &str) -> Result<String> {
        self.wait(async {
            let query = self.inner.running.start();
            query.until_cancelled(self.kernels_text(sql, &query)).await
        })
    }

    /// Cancels the session's running statements.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.inner.running.handle(self.inner.functions.runs())
    }

    /// The progress of the running statements: rows scanned so far, and the total rows of all scans known so far (0 where unknown). Reading files for
    /// the first time counts as scanning; rows that a device reads do not count.
    pub fn progress(&self) -> (u64, u64) {
        self.inner.running.progress()
    }

    /// When progress is shown.
    pub fn progress_mode(&self) -> ProgressMode {
        self.options().progress
    }

    /// All tables, by name.
    pub fn tables(&self) -> Result<Vec<TableInfo>> {
        self.inner.catalog.infos()
    }

    /// Sets a setting as `SET key = value` does. Keys without a prefix are Warpmill's.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        let key = if key.contains('.') { key.to_string() } else { format!("warpmill.{key}") };
        if key.eq_ignore_ascii_case(TIME_ZONE) && !is_utc(value) {
            return Err(Error::NotImplemented(format!(
                "the time zone {value}: texts, dates and parts of TIMESTAMPTZ are those of UTC; AT TIME ZONE converts one value"
            )));
        }
        let state = self.inner.context.state_ref();
        state.write().config_mut().options_mut().set(&key, value)?;
        self.settings_changed(&key)
    }

    /// All settings: Warpmill's first, then DataFusion's.
    pub fn settings(&self) -> Vec<(String, String)> {
        let config = self.inner.context.copied_config();
        let entries = config.options().entries().into_iter();
        let mut settings: Vec<_> = entries.map(|entry| (entry.key, entry.value.unwrap_or_default())).collect();
        settings.sort_by_key(|(key, _)| (!key.starts_with("warpmill."), key.clone()));
        settings
    }

    /// DataFusion's session, for hosts that register functions or tables of their own. Statements run by it directly do not use Warpmill.
    pub fn context(&self) -> &SessionContext {
        &self.inner.context
    }

    fn options(&self) -> WarpmillOptions {
        WarpmillOptions::of(self.inner.context.copied_config().options())
    }

    /// Plans made before a setting changed are not used again, unless no plan depends on it.
    fn settings_changed(&self, key: &str) -> Result<()> {
        let options = self.options();
        self.inner.remote.update(options.remote);
        self.inner.pool.set_limit(options.memory_limit);
        let for_runs = [
            "warpmill.profile",
            "warpmill.progress",
            "warpmill.placement",
            "warpmill.debug.placement_seed",
            "warpmill.debug.first_runs",
            "warpmill.device_data",
            "warpmill.device_cache_policy",
            "warpmill.device_cache_limit",
            "warpmill.device_cache_every",
            "warpmill.io_bandwidth_limit",
            "warpmill.pinned_memory_limit",
            "warpmill.representation",
            "warpmill.device_partitions",
            "warpmill.device_join",
            "warpmill.device_pipelines",
            "warpmill.device_batch",
            "warpmill.device_overlap",
            "warpmill.device_exchange",
            "warpmill.device_replication",
        ];
        if for_runs.contains(&key) {
            return Ok(());
        }
        self.inner.settings_changes.fetch_add(1, Ordering::AcqRel);
        if key == "warpmill.threads" { self.sync_threads() } else { Ok(()) }
    }

    /// DataFusion reads files with as many threads as Warpmill uses.
    fn sync_threads(&self) -> Result<()> {
        let threads = self.options().worker_threads();
        self.inner.functions.runs().set_threads(threads);
        let state = self.inner.context.state_ref();
        state.write().config_mut().options_mut().execution.target_partitions = threads;
        Ok(())
    }

    /// As [`Session::block_on`], but failing to start a thread is an ordinary error.
    fn wait<T: Send>(&self, future: impl Future<Output = Result<T>> + Send) -> Result<T> {
        caught(|| self.block_on(future))?
    }

    /// Blocks on `future`, which runs on the session's runtime; callable from threads inside and outside of a runtime.
    pub fn block_on<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        let runtime = self.inner.runtime.get_or_init(|| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.enable_all().thread_name("warpmill-io").thread_stack_size(WORKER_STACK);
            builder.build().expect("the system refuses threads")
        });
        if Handle::try_current().is_err() {
            return runtime.block_on(future);
        }
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(WORKER_STACK);
            let thread = thread.spawn_scoped(scope, || runtime.block_on(future)).expect("the system refuses threads");
            match thread.join() {
                Ok(value) => value,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

impl Iterator for QueryStream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        use futures::StreamExt;
        let (session, stream, query) = (&self.session, &mut self.stream, &self.query);
        let next = async { stream.next().await.transpose().map_err(Into::into) };
        session.wait(query.until_cancelled(next)).transpose()
    }
}
