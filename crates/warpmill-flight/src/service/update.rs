//! Statements that change something: INSERT, CREATE TABLE AS, DROP TABLE, SET and so on.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef, UInt64Type};
use futures::TryStreamExt;
use tonic::{Code, Status};
use warpmill::{CommitGate, Error, FormatError, ScalarValue};

use super::bind::{Data, parameters};
use super::held::Bound;
use super::info::statement;
use crate::answer::{Record, within};
use crate::server::Shared;
use crate::session::{ClientSession, Running};
use crate::statement::{Kind, Statement};
use crate::status;

/// First and longest time to wait for another writer of a table.
const WAIT: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// The result of a statement: a batch with the number of changed rows, or nothing.
pub(super) struct Outcome {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
}

impl Outcome {
    /// Rows changed.
    fn changed(&self) -> i64 {
        let count = |batch: &RecordBatch| {
            let column = batch.columns().first().and_then(|column| column.as_primitive_opt::<UInt64Type>());
            column.map_or(0, |column| column.iter().flatten().sum())
        };
        let changed: u64 = self.batches.iter().map(count).sum();
        i64::try_from(changed).unwrap_or(i64::MAX)
    }
}

/// Runs the text of a statement. Returns the number of changed rows.
pub(super) async fn text(server: &Arc<Shared>, session: &Arc<ClientSession>, sql: &str) -> Result<i64, Status> {
    let statement = statement(server, session, sql).await?;
    if !statement.parameters.is_empty() {
        return Err(Status::invalid_argument("a statement with parameters must be prepared"));
    }
    count(server, session, &statement, &[]).await
}

/// Runs a prepared statement for the rows sent with it, or bound before.
pub(super) async fn prepared(
    server: &Arc<Shared>,
    session: &Arc<ClientSession>,
    handle: &[u8],
    data: Data,
) -> Result<i64, Status> {
    let (session, prepared) = server.sessions.handles.prepared(&session.user, handle)?;
    let statement = &prepared.statement;
    let wanted = statement.parameters.len();
    let bound: Arc<Bound> = match parameters(server, &session, wanted, data).await? {
        Some(bound) => Arc::new(bound),
        None => Arc::clone(&prepared.bound.lock()),
    };
    if wanted > 0 && bound.rows.is_empty() {
        return Err(Status::invalid_argument(format!("the statement has {wanted} parameters, none are bound")));
    }
    count(server, &session, statement, &bound.rows).await
}

async fn count(
    server: &Arc<Shared>,
    session: &Arc<ClientSession>,
    statement: &Statement,
    rows: &[Vec<ScalarValue>],
) -> Result<i64, Status> {
    if matches!(statement.kind, Kind::Query | Kind::Explain) {
        return Err(Status::invalid_argument("the statement has rows: it is a query, not an update"));
    }
    let outcome = run(server, session, statement, rows).await?;
    Ok(if matches!(statement.kind, Kind::Change | Kind::Edit) { outcome.changed() } else { 0 })
}

/// Runs a statement to its end for each row of parameters; once without any.
pub(super) async fn run(
    server: &Arc<Shared>,
    session: &Arc<ClientSession>,
    statement: &Statement,
    rows: &[Vec<ScalarValue>],
) -> Result<Outcome, Status> {
    let running = server.sessions.handles.run(session, None);
    let mut record = Record::new(server, session, statement.kind.name());
    let outcome = async {
        let _room = server.admission.admit(session).await?;
        record.admitted();
        let time = session.options.lock().query_time;
        within_or_committed(server, &running, time, async {
            let rows = if rows.is_empty() || statement.parameters.is_empty() { &[vec![]][..] } else { rows };
            let mut all = Outcome { schema: Arc::new(Schema::empty()), batches: vec![] };
            for parameters in rows {
                let one = when_unlocked(|| once(session, statement, parameters)).await?;
                all.schema = one.schema;
                all.batches.extend(one.batches);
            }
            Ok(all)
        })
        .await
    };
    let outcome = outcome.await;
    record.end(outcome.as_ref().map(drop));
    outcome
}

/// As [`within`], except that work that can no longer be cancelled is waited for, and its outcome returned.
async fn within_or_committed<T>(
    server: &Shared,
    running: &Running,
    time: Duration,
    work: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let (gate, ended) = (CommitGate::default(), AtomicBool::new(false));
    let mut work = pin!(gate.scope(work));
    let outcome = within(server, running, time, async {
        let outcome = work.as_mut().await;
        ended.store(true, Ordering::Relaxed);
        outcome
    });
    let outcome = outcome.await;
    if ended.load(Ordering::Relaxed) || gate.cancel() { outcome } else { work.await }
}

async fn once(session: &ClientSession, statement: &Statement, parameters: &[ScalarValue]) -> Result<Outcome, Error> {
    let planned = session.engine.plan(&statement.sql, parameters).await?;
    let batches = planned.rows()?.try_collect().await?;
    Ok(Outcome { schema: Arc::clone(&planned.schema), batches })
}

/// Runs `work` again as long as another writer has locked its table. A refused attempt has no effect.
async fn when_unlocked<T, F: Future<Output = Result<T, Error>>>(mut work: impl FnMut() -> F) -> Result<T, Status> {
    let mut pause = WAIT.0;
    loop {
        match work().await {
            Err(error) if is_locked(&error) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(WAIT.1);
            }
            outcome => return outcome.map_err(|error| status::of(&error)),
        }
    }
}

/// Whether another writer has locked the table, or has replaced it since the statement was planned.
pub(super) fn is_locked(error: &Error) -> bool {
    matches!(error, Error::Format(error) if matches!(**error, FormatError::Locked { .. } | FormatError::Replaced { .. }))
}

/// The status of work that ended without an answer.
pub(super) fn lost(error: tokio::task::JoinError) -> Status {
    status::new(Code::Internal, format!("the statement was lost: {error}"))
}
