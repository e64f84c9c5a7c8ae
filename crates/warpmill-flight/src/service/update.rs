//! Statements without rows: INSERT, CREATE TABLE AS, DROP TABLE, SET and so on.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use futures::TryStreamExt;
use tonic::{Code, Status};
use warpmill::{Error, FormatError, ScalarValue};

use super::bind::{Data, Rows, parameters};
use super::info::statement;
use crate::answer::{Record, within};
use crate::server::Shared;
use crate::session::ClientSession;
use crate::statement::{Kind, Statement};
use crate::status;

/// How long to wait for another writer of a table, at first and at most.
const WAIT: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// Runs the text of a statement; the number of rows that it changed.
pub(super) async fn text(server: &Arc<Shared>, session: &Arc<ClientSession>, sql: &str) -> Result<i64, Status> {
    let statement = statement(server, session, sql).await?;
    if !statement.parameters.is_empty() {
        return Err(Status::invalid_argument("a statement with parameters must be prepared"));
    }
    run(server, session, &statement, &[vec![]]).await
}

/// Runs a prepared statement for the rows that come with it, or that were bound before.
pub(super) async fn prepared(
    server: &Arc<Shared>,
    session: &Arc<ClientSession>,
    handle: &[u8],
    data: Data,
) -> Result<i64, Status> {
    let (session, prepared) = server.sessions.handles.prepared(&session.user, handle)?;
    let statement = &prepared.statement;
    let wanted = statement.parameters.len();
    let rows: Arc<Rows> = match parameters(server, wanted, data).await? {
        Some(rows) => Arc::new(rows),
        None => Arc::clone(&prepared.rows.lock()),
    };
    match (wanted, rows.is_empty()) {
        (0, _) => run(server, &session, statement, &[vec![]]).await,
        (_, true) => Err(Status::invalid_argument(format!("the statement has {wanted} parameters, none are bound"))),
        _ => run(server, &session, statement, &rows).await,
    }
}

async fn run(
    server: &Arc<Shared>,
    session: &Arc<ClientSession>,
    statement: &Statement,
    rows: &[Vec<ScalarValue>],
) -> Result<i64, Status> {
    if matches!(statement.kind, Kind::Query | Kind::Explain) {
        return Err(Status::invalid_argument("the statement has rows: it is a query, not an update"));
    }
    let running = server.sessions.handles.run(session, None);
    let mut record = Record::new(server, session, statement.kind.name());
    let outcome = async {
        let _room = server.admission.admit(session).await?;
        record.admitted();
        let time = session.options.lock().query_time;
        within(server, &running, time, async {
            let mut changed = 0;
            for parameters in rows {
                changed += when_unlocked(|| once(session, statement, parameters)).await?;
            }
            Ok(changed)
        })
        .await
    };
    let outcome = outcome.await;
    record.add_rows(0);
    record.end(outcome.as_ref().map(drop));
    outcome
}

async fn once(session: &ClientSession, statement: &Statement, parameters: &[ScalarValue]) -> Result<i64, Error> {
    let planned = session.engine.plan(&statement.sql, parameters).await?;
    let batches: Vec<RecordBatch> = planned.rows()?.try_collect().await?;
    let count = |batch: &RecordBatch| {
        let column = batch.columns().first().and_then(|column| column.as_primitive_opt::<UInt64Type>());
        column.filter(|_| statement.kind == Kind::Change).map_or(0, |column| column.iter().flatten().sum())
    };
    let changed: u64 = batches.iter().map(count).sum();
    Ok(i64::try_from(changed).unwrap_or(i64::MAX))
}

/// Runs `work` again while another writer is at work on its table: writers take turns. Nothing of a refused attempt stays.
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

/// Whether another writer was in the way.
pub(super) fn is_locked(error: &Error) -> bool {
    matches!(error, Error::Format(error) if matches!(**error, FormatError::Locked { .. }))
}

/// The status of work that ended without an answer.
pub(super) fn lost(error: tokio::task::JoinError) -> Status {
    status::new(Code::Internal, format!("the statement was lost: {error}"))
}
