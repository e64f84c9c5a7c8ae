//! Classification of statements, and the checks of what a server permits.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::config::ExtensionOptions;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, Statement as PlanStatement};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast;
use tonic::Status;
use warpmill::{DeviceChoice, Error, Ordinals, WarpmillOptions};

use crate::config::Limits;
use crate::placeholders;
use crate::status;

/// How a statement is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A query: it has rows.
    Query,
    /// Changes rows; its plan returns one row with their number.
    Change,
    /// Changes rows, and is executed as a whole: planning it would execute it.
    Edit,
    /// EXPLAIN in all its forms: rows of text, made when they are read.
    Explain,
    /// Any other statement. It has no rows.
    Command,
}

impl Kind {
    /// The name in logs and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Query => "query",
            Kind::Change | Kind::Edit => "change",
            Kind::Explain => "explain",
            Kind::Command => "command",
        }
    }
}

/// A statement that has passed the checks.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    /// The text, with numbered placeholders.
    pub sql: String,
    /// The names of its parameters.
    pub parameters: Vec<String>,
    /// Its kind.
    pub kind: Kind,
}

/// The rights of clients.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    /// Whether SQL may read and write files of the server's machine.
    pub files: bool,
    /// The server's limits.
    pub limits: Limits,
}

/// A statement and the setting that it changes, if it does.
pub(crate) struct Read {
    pub statement: Statement,
    pub setting: Option<(String, String)>,
}

/// Parses a statement and checks that it may run.
pub(crate) async fn read(session: &warpmill::Session, sql: &str, policy: &Policy) -> Result<Read, Status> {
    if sql.len() > policy.limits.sql_bytes {
        let (length, limit) = (sql.len(), policy.limits.sql_bytes);
        return Err(Status::resource_exhausted(format!("the statement has {length} bytes, the limit is {limit}")));
    }
    let numbered = placeholders::number(sql).map_err(Status::invalid_argument)?;
    let statement = |kind| Statement { sql: numbered.sql.clone(), parameters: numbered.names.clone(), kind };
    // The engine's own form, which DataFusion's parser does not know.
    if let Some(kind) = unparsed(sql, policy)? {
        return Ok(Read { statement: statement(kind), setting: None });
    }
    let policy = policy.clone();
    let read = session
        .with_parsed(&numbered.sql, move |parsed, state| async move { Ok(setting(parsed, &state, &policy).await) });
    let (kind, setting) = read.await.map_err(|error| status::of(&error))??;
    Ok(Read { statement: statement(kind), setting })
}

/// The kind of a statement that DataFusion's parser does not know; `None`: it is none of these.
fn unparsed(sql: &str, policy: &Policy) -> Result<Option<Kind>, Status> {
    let words: Vec<String> = sql.split_whitespace().take(2).map(str::to_ascii_lowercase).collect();
    Ok(match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["explain", "kernels"] => Some(Kind::Explain),
        ["export" | "import", "database"] if !policy.files => {
            return Err(Status::permission_denied(
                "EXPORT DATABASE and IMPORT DATABASE use files of the server's machine: it was not started with --allow-files",
            ));
        }
        ["export" | "import", "database"] | ["comment", "on"] | ["create", "recursive"] => Some(Kind::Command),
        ["optimize", ..] => Some(Kind::Command),
        _ => None,
    })
}

/// The kind of a statement, and the setting that it changes to which value, after the checks that it may.
async fn setting(
    parsed: Parsed,
    state: &SessionState,
    policy: &Policy,
) -> Result<(Kind, Option<(String, String)>), Status> {
    let kind = kind(&parsed, policy)?;
    let mut setting = None;
    if matches!(parsed, Parsed::Reset(_)) || is_set(&parsed) {
        match state.statement_to_plan(parsed).await.map_err(engine_error)? {
            LogicalPlan::Statement(PlanStatement::SetVariable(set)) => {
                setting = Some((full_name(&set.variable), set.value));
            }
            LogicalPlan::Statement(PlanStatement::ResetVariable(reset)) => check_reset(&full_name(&reset.variable))?,
            _ => {}
        }
    }
    if let Some((name, value)) = &setting {
        check_setting(name, value, policy)?;
    }
    Ok((kind, setting))
}

fn engine_error(error: datafusion::common::DataFusionError) -> Status {
    status::of(&Error::from(error))
}

fn is_set(parsed: &Parsed) -> bool {
    matches!(parsed, Parsed::Statement(statement) if matches!(**statement, ast::Statement::Set(_)))
}

fn kind(parsed: &Parsed, policy: &Policy) -> Result<Kind, Status> {
    match parsed {
        Parsed::CopyTo(_) | Parsed::CreateExternalTable(_) if !policy.files => Err(Status::permission_denied(
            "COPY and CREATE EXTERNAL TABLE use files of the server's machine: it was not started with --allow-files",
        )),
        Parsed::CopyTo(_) => Ok(Kind::Change),
        Parsed::CreateExternalTable(_) | Parsed::Reset(_) => Ok(Kind::Command),
        Parsed::Explain(explain) => kind_inside(&explain.statement, policy),
        Parsed::Statement(statement) => Ok(match statement.as_ref() {
            changed if returns(changed) => {
                return Err(Status::unimplemented("RETURNING: a server answers changes with the number of rows"));
            }
            ast::Statement::Query(query) if query.with.iter().any(changes_rows) => {
                return Err(Status::unimplemented("changes among CTEs: a server takes them one by one"));
            }
            ast::Statement::Query(query) if edits(&query.body) => Kind::Edit,
            ast::Statement::Query(_)
            | ast::Statement::ExplainTable { .. }
            | ast::Statement::ShowVariable { .. }
            | ast::Statement::ShowTables { .. }
            | ast::Statement::ShowColumns { .. }
            | ast::Statement::ShowFunctions { .. }
            | ast::Statement::Execute { .. } => Kind::Query,
            ast::Statement::Insert(_) => Kind::Change,
            ast::Statement::Prepare { statement, .. } => match kind(&Parsed::Statement(statement.clone()), policy)? {
                Kind::Edit => {
                    return Err(Status::unimplemented(
                        "PREPARE of changes: clients prepare statements through Flight SQL",
                    ));
                }
                _ => Kind::Command,
            },
            ast::Statement::Pragma { is_eq: true, .. } => {
                return Err(Status::permission_denied("PRAGMA name = value: clients SET what is theirs"));
            }
            // Requests of one client may be executed in sessions shared with others.
            ast::Statement::StartTransaction { .. }
            | ast::Statement::Commit { .. }
            | ast::Statement::Rollback { .. } => {
                return Err(Status::unimplemented("there are no transactions: each statement is one"));
            }
            ast::Statement::Update { .. }
            | ast::Statement::Delete(_)
            | ast::Statement::Merge(_)
            | ast::Statement::Truncate { .. } => Kind::Edit,
            ast::Statement::Explain { .. } => Kind::Explain,
            _ => Kind::Command,
        }),
    }
}

/// Whether a CTE changes rows.
fn changes_rows(with: &ast::With) -> bool {
    with.cte_tables.iter().any(|cte| matches!(*cte.query.body, ast::SetExpr::Insert(_)) || edits(&cte.query.body))
}

/// Whether the statement after the CTEs changes rows.
fn edits(body: &ast::SetExpr) -> bool {
    matches!(body, ast::SetExpr::Delete(_) | ast::SetExpr::Update(_) | ast::SetExpr::Merge(_))
}

/// Whether a statement that changes rows returns some of them.
fn returns(statement: &ast::Statement) -> bool {
    match statement {
        ast::Statement::Insert(insert) => insert.returning.is_some(),
        ast::Statement::Update(update) => update.returning.is_some(),
        ast::Statement::Delete(delete) => delete.returning.is_some(),
        ast::Statement::Query(query) => match query.body.as_ref() {
            ast::SetExpr::Insert(changed) | ast::SetExpr::Update(changed) | ast::SetExpr::Delete(changed) => {
                returns(changed)
            }
            _ => false,
        },
        _ => false,
    }
}

/// The schema of the result of a statement that changes rows.
pub(crate) fn count_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)]))
}

fn kind_inside(explained: &Parsed, policy: &Policy) -> Result<Kind, Status> {
    kind(explained, policy).map(|_| Kind::Explain)
}

/// The columns of every form of EXPLAIN.
pub(crate) fn explain_schema() -> SchemaRef {
    let text = |name| Field::new(name, DataType::Utf8, false);
    Arc::new(Schema::new(vec![text("plan_type"), text("plan")]))
}

/// Names without a prefix are the engine's; some are DuckDB's names of the settings.
pub(crate) fn full_name(name: &str) -> String {
    if name.contains('.') { name.to_string() } else { format!("warpmill.{}", warpmill::our_setting(name)) }
}

/// Settings of DataFusion that change the meaning or the planning of statements, not their limits.
const OPEN_SETTINGS: [&str; 3] = ["datafusion.execution.time_zone", "datafusion.sql_parser.", "datafusion.optimizer."];

/// Exceptions: settings that are limits, or that hide mistakes.
const CLOSED_SETTINGS: [&str; 4] = [
    "datafusion.optimizer.max_passes",
    "datafusion.optimizer.skip_failed_rules",
    "datafusion.sql_parser.collect_spans",
    "datafusion.sql_parser.recursion_limit",
];

/// The engine's settings that clients may change: the meaning and planning of statements, and the storage of tables that they write. Others concern
/// the machine, its devices and files, or are for tests.
const CLIENTS: [&str; 24] = [
    "cluster",
    "codec",
    "codec_block",
    "codec_light",
    "codec_objective",
    "codec_sample",
    "compaction",
    "device",
    "device_fallback",
    "device_join",
    "fallback",
    "join_order",
    "keep_versions",
    "memory_limit",
    "plan_cache",
    "profile",
    "pruning",
    "pruning_metadata",
    "representation",
    "segment_rows",
    "sideways",
    "spill",
    "threads",
    "zone_rows",
];

fn is_open(name: &str) -> bool {
    match name.strip_prefix("warpmill.") {
        // Unknown settings are refused as unknown.
        Some(ours) => CLIENTS.contains(&ours) || !WarpmillOptions::default().entries().iter().any(|it| it.key == name),
        None => OPEN_SETTINGS.iter().any(|open| name.starts_with(open)) && !CLOSED_SETTINGS.contains(&name),
    }
}

/// Whether a client may give a setting this value.
pub(crate) fn check_setting(name: &str, value: &str, policy: &Policy) -> Result<(), Status> {
    let name = &name.to_ascii_lowercase();
    if !is_open(name) {
        return Err(Status::permission_denied(format!("{name} is the server's: clients may not set it")));
    }
    let Some(ours) = name.strip_prefix("warpmill.") else { return Ok(()) };
    let mut options = WarpmillOptions::default();
    options.set(ours, value).map_err(engine_error)?;
    if ours == "device" && options.device == DeviceChoice::Sim {
        return Err(Status::permission_denied("the simulated device is for tests: clients may not choose it"));
    }
    if ours == "device" && options.ordinals != Ordinals::default() {
        return Err(Status::permission_denied("which of the devices queries use is the server's: clients may not say"));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if options.threads > cores {
        return Err(Status::invalid_argument(format!("warpmill.threads is {cores} at most on this server")));
    }
    let memory = policy.limits.memory;
    if ours == "memory_limit" && options.memory_limit > memory {
        return Err(Status::invalid_argument(format!(
            "warpmill.memory_limit is {memory} bytes at most on this server"
        )));
    }
    Ok(())
}

fn check_reset(name: &str) -> Result<(), Status> {
    match name.to_ascii_lowercase().as_str() {
        "warpmill.memory_limit" | "warpmill.threads" | "warpmill.device" => {
            Err(Status::permission_denied(format!("{name} has no default on a server: SET it")))
        }
        name if is_open(name) => Ok(()),
        name => Err(Status::permission_denied(format!("{name} is the server's: clients may not reset it"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn policy() -> Policy {
        let limits = Limits { memory: 1 << 30, query_memory: 1 << 20, sql_bytes: 25_000, ..Limits::default() };
        Policy { files: false, limits }
    }

    async fn kind_of(sql: &str) -> Result<Kind, Code> {
        let session = warpmill::Session::builder().files_as_tables(false).build().unwrap();
        let read = read(&session, sql, &policy()).await;
        read.map(|read| read.statement.kind).map_err(|status| status.code())
    }

    #[tokio::test]
    async fn statements_are_told_apart() {
        for (sql, kind) in [
            ("SELECT 1", Kind::Query),
            ("WITH x AS (SELECT 1) SELECT * FROM x", Kind::Query),
            ("VALUES (?)", Kind::Query),
            ("SHOW TABLES", Kind::Query),
            ("INSERT INTO t VALUES (1)", Kind::Change),
            ("DELETE FROM t", Kind::Edit),
            ("WITH x AS (SELECT 1 AS a) DELETE FROM t WHERE a IN (SELECT a FROM x)", Kind::Edit),
            ("MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE", Kind::Edit),
            ("TRUNCATE t", Kind::Edit),
            ("optimize t", Kind::Command),
            ("EXPLAIN SELECT 1", Kind::Explain),
            ("explain  KERNELS select 1", Kind::Explain),
            ("CREATE TABLE t AS SELECT 1", Kind::Command),
            ("DROP TABLE t", Kind::Command),
            ("SET warpmill.fallback = 'error'", Kind::Command),
            ("RESET warpmill.fallback", Kind::Command),
        ] {
            assert_eq!(kind_of(sql).await, Ok(kind), "{sql}");
        }
    }

    #[tokio::test]
    async fn what_is_not_allowed_is_refused() {
        let long = format!("SELECT '{}'", "x".repeat(30_000));
        let chain = format!("SELECT * FROM t WHERE a IN (SELECT 1{})", "+1".repeat(5000));
        let unions = format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(1000));
        for (sql, code) in [
            ("SELEC 1", Code::InvalidArgument),
            ("", Code::InvalidArgument),
            ("SELECT 1; SELECT 2", Code::Unimplemented),
            (long.as_str(), Code::ResourceExhausted),
            ("BEGIN", Code::Unimplemented),
            ("COMMIT", Code::Unimplemented),
            ("ROLLBACK", Code::Unimplemented),
            ("WITH a AS (INSERT INTO t VALUES (1) RETURNING a) SELECT * FROM a", Code::Unimplemented),
            ("WITH a AS (DELETE FROM t) SELECT 1", Code::Unimplemented),
            ("COPY (SELECT 1) TO '/tmp/x.csv'", Code::PermissionDenied),
            ("EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/x.csv'", Code::PermissionDenied),
            ("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'", Code::PermissionDenied),
            ("SET datafusion.execution.batch_size = 1", Code::PermissionDenied),
            ("SET datafusion.runtime.memory_limit = '1G'", Code::PermissionDenied),
            ("RESET datafusion.runtime.memory_limit", Code::PermissionDenied),
            ("RESET warpmill.memory_limit", Code::PermissionDenied),
            ("RESET max_memory", Code::PermissionDenied),
            ("SET max_memory = '1TB'", Code::InvalidArgument),
            ("SET max_temp_directory_size = '1TB'", Code::PermissionDenied),
            ("PRAGMA memory_limit = '1TB'", Code::PermissionDenied),
            ("PRAGMA temp_directory = '/'", Code::PermissionDenied),
            ("SET warpmill.temp_directory = '/'", Code::PermissionDenied),
            ("RESET warpmill.temp_directory_limit", Code::PermissionDenied),
            ("SET warpmill.s3_endpoint = 'http://elsewhere'", Code::PermissionDenied),
            ("SET allow_http = 'on'", Code::PermissionDenied),
            ("RESET warpmill.http_timeout", Code::PermissionDenied),
            ("SET warpmill.device = 'sim'", Code::PermissionDenied),
            ("SET WARPMILL.DEVICE = 'SIM'", Code::PermissionDenied),
            ("SET warpmill.equal_hashes = on", Code::PermissionDenied),
            ("SET warpmill.chunk_rows = 2", Code::PermissionDenied),
            ("SET warpmill.device_partitions = 64", Code::PermissionDenied),
            ("RESET warpmill.device_data", Code::PermissionDenied),
            ("SET warpmill.gpu_memory_limit = '1TB'", Code::PermissionDenied),
            ("SET datafusion.sql_parser.recursion_limit = 1000000", Code::PermissionDenied),
            ("SET datafusion.SQL_PARSER.RECURSION_LIMIT = 1000000", Code::PermissionDenied),
            ("RESET datafusion.sql_parser.recursion_limit", Code::PermissionDenied),
            ("SET datafusion.optimizer.max_passes = 1000000", Code::PermissionDenied),
            ("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 's3://b/x.parquet'", Code::PermissionDenied),
            (chain.as_str(), Code::ResourceExhausted),
            ("SET memory_limit = 'unlimited'", Code::InvalidArgument),
            ("SET warpmill.threads = 100000", Code::InvalidArgument),
            ("SET warpmill.nothing = 1", Code::InvalidArgument),
        ] {
            assert_eq!(kind_of(sql).await, Err(code), "{sql}");
        }
        for sql in [
            "SET memory_limit = '1GB'",
            "SET warpmill.device = 'cpu'",
            "SET codec = 'zstd'",
            "SET datafusion.sql_parser.default_null_ordering = 'nulls_first'",
        ] {
            assert_eq!(kind_of(sql).await, Ok(Kind::Command), "{sql}");
        }
        assert_eq!(kind_of(&unions).await, Ok(Kind::Query));
        assert_eq!(kind_of("SET TIME ZONE = 'UTC'").await, Ok(Kind::Command));
    }
}
