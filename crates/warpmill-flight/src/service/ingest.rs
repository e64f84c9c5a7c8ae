//! Bulk ingest: writes a client's batches to a table, all or none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{RecordBatchOptions, new_null_array};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use datafusion::common::TableReference;
use futures::StreamExt;
use tokio::sync::mpsc;
use tonic::Status;
use warpmill::{Error, WriteOptions};

use super::bind::{Data, next};
use super::held::{Ahead, Held, reservation};
use super::no_transactions;
use super::update::{is_locked, lost};
use crate::answer::{Record, within};
use crate::server::Shared;
use crate::session::ClientSession;
use crate::status;

/// How an existing table is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Create,
    Replace,
    Append,
}

/// Number of rows written at a time: a few bytes may represent many rows.
const ROWS_AT_ONCE: usize = 64 << 10;
/// Batches that may wait for the writer.
const BATCHES_AHEAD: usize = 4;
/// Fraction (1 / PART_AHEAD) of a statement's memory for batches not written yet.
const PART_AHEAD: usize = 4;

/// Rows waiting for the writer, with the reservation that they share with the other rows of their batch.
type Sent = (RecordBatch, Arc<Held>);
/// Time between two attempts to write to a locked table.
const PAUSE: Duration = Duration::from_millis(20);

/// Writes the batches; the number of their rows.
pub(super) async fn ingest(
    server: &Arc<Shared>,
    session: &Arc<ClientSession>,
    command: CommandStatementIngest,
    data: Data,
) -> Result<i64, Status> {
    no_transactions(command.transaction_id.as_deref())?;
    let mode = mode(session, &command)?;
    let running = server.sessions.handles.run(session, None);
    let mut record = Record::new(server, session, "ingest");
    let outcome = async {
        let _room = server.admission.admit(session).await?;
        record.admitted();
        let time = session.options.lock().query_time;
        let limits = &server.policy.limits;
        let batches = data.batches(limits.query_memory, reservation(session, "a message of rows"));
        let ahead = Ahead::new((limits.query_memory / PART_AHEAD).max(limits.message_bytes));
        within(server, &running, time, write(session, place(&command), mode, batches, &ahead, time)).await
    };
    let outcome = outcome.await;
    record.end(outcome.as_ref().map(drop));
    outcome
}

/// The table that the command names.
fn place(command: &CommandStatementIngest) -> TableReference {
    match command.schema.as_deref().filter(|schema| !schema.is_empty()) {
        Some(schema) => TableReference::partial(schema, command.table.as_str()),
        None => TableReference::bare(command.table.as_str()),
    }
}

/// The mode of a command, given the existing table.
fn mode(session: &ClientSession, command: &CommandStatementIngest) -> Result<Mode, Status> {
    if let Some(catalog) = command.catalog.as_deref().filter(|name| !name.is_empty() && *name != "datafusion") {
        return Err(Status::not_found(format!("catalog '{catalog}' does not exist")));
    }
    if command.temporary {
        return Err(Status::unimplemented("there are no temporary tables"));
    }
    if command.table.is_empty() {
        return Err(Status::invalid_argument("the table has no name"));
    }
    let options = command.table_definition_options.unwrap_or_default();
    let there = session.engine.context().table_exist(place(command));
    let there = there.map_err(|error| status::of(&error.into()))?;
    let name = &command.table;
    match (there, options.if_exists(), options.if_not_exist()) {
        (true, TableExistsOption::Append, _) => Ok(Mode::Append),
        (true, TableExistsOption::Replace, _) => Ok(Mode::Replace),
        (true, _, _) => Err(Status::already_exists(format!("table '{name}' already exists"))),
        (false, _, TableNotExistOption::Fail) => Err(Status::not_found(format!("table '{name}' not found"))),
        (false, _, _) => Ok(Mode::Create),
    }
}

async fn write(
    session: &Arc<ClientSession>,
    table: TableReference,
    mode: Mode,
    mut batches: FlightRecordBatchStream,
    ahead: &Ahead,
    patience: Duration,
) -> Result<i64, Status> {
    // The schema arrives with the first batch, or alone.
    let first = next(&mut batches).await?;
    let schema = batches.schema().cloned();
    let sent = schema.ok_or_else(|| Status::invalid_argument("the stream has no schema: there are no columns"))?;
    let schema = match mode {
        Mode::Append => {
            let provider = session.engine.context().table_provider(table.clone()).await;
            let schema = provider.map_err(|error| status::of(&error.into()))?.schema();
            check_columns(&sent, &schema)?;
            schema
        }
        Mode::Create | Mode::Replace => sent,
    };
    let (sender, receiver) = mpsc::channel(BATCHES_AHEAD);
    let writer =
        Writer { session: Arc::clone(session), table: table.to_quoted_string(), schema: Arc::clone(&schema), mode };
    let written = tokio::task::spawn_blocking(move || writer.write(receiver, Instant::now() + patience));
    let sending = async {
        let mut rest = futures::stream::iter(first.map(Ok)).chain(batches);
        'sent: while let Some(batch) = next(&mut rest).await? {
            let held = Arc::new(ahead.hold(session, &batch).await?);
            for at in (0..batch.num_rows()).step_by(ROWS_AT_ONCE) {
                let batch = batch.slice(at, ROWS_AT_ONCE.min(batch.num_rows() - at));
                let batch = if mode == Mode::Append { arranged(&batch, &schema)? } else { batch };
                // The writer has failed: its error becomes the status.
                if sender.send(Some((batch, Arc::clone(&held)))).await.is_err() {
                    break 'sent;
                }
            }
        }
        // Only this marks the rows as complete; a client that disconnects does not send it.
        let _ = sender.send(None).await;
        drop(sender);
        Ok::<_, Status>(())
    };
    sending.await?;
    let rows = written.await.map_err(lost)?.map_err(|error| status::of(&error))?;
    Ok(i64::try_from(rows).unwrap_or(i64::MAX))
}

struct Writer {
    session: Arc<ClientSession>,
    table: String,
    schema: SchemaRef,
    mode: Mode,
}

impl Writer {
    /// Writes the rows received. Retries a table that is locked by another writer, as long as no row has been taken.
    fn write(&self, mut receiver: mpsc::Receiver<Option<Sent>>, until: Instant) -> Result<u64, Error> {
        let (mut rows, mut taken) = (0, false);
        // The memory of the rows that are being written.
        let mut writing = None;
        loop {
            let batches = std::iter::from_fn(|| {
                taken = true;
                writing = None;
                match receiver.blocking_recv() {
                    Some(Some((batch, held))) => {
                        rows += batch.num_rows() as u64;
                        writing = Some(held);
                        Some(Ok(batch))
                    }
                    Some(None) => None,
                    None => Some(Err(Error::Cancelled)),
                }
            });
            let engine = &self.session.engine;
            let outcome = match self.mode {
                Mode::Append => engine.append_table(&self.table, batches).map(drop),
                Mode::Create | Mode::Replace => {
                    let (schema, replace) = (Arc::clone(&self.schema), self.mode == Mode::Replace);
                    engine.create_table(&self.table, schema, batches, WriteOptions::default(), replace, None)
                }
            };
            match outcome {
                Err(error) if is_locked(&error) && !taken && Instant::now() < until && !receiver.is_closed() => {
                    std::thread::sleep(PAUSE);
                }
                outcome => return outcome.map(|()| rows),
            }
        }
    }
}

/// Columns are appended by name: each must exist, and those not sent must be nullable.
fn check_columns(sent: &SchemaRef, table: &SchemaRef) -> Result<(), Status> {
    let unknown = sent.fields().iter().find(|field| table.field_with_name(field.name()).is_err());
    if let Some(field) = unknown {
        return Err(Status::invalid_argument(format!("the table has no column {:?}", field.name())));
    }
    let missing =
        |field: &&Arc<arrow::datatypes::Field>| !field.is_nullable() && sent.field_with_name(field.name()).is_err();
    match table.fields().iter().find(missing) {
        Some(field) => {
            Err(Status::invalid_argument(format!("column {:?} is missing and takes no NULLs", field.name())))
        }
        None => Ok(()),
    }
}

/// The batch with the table's columns in their order; the table's writer converts their types.
fn arranged(batch: &RecordBatch, table: &SchemaRef) -> Result<RecordBatch, Status> {
    let columns = table.fields().iter().map(|field| match batch.schema_ref().index_of(field.name()) {
        Ok(at) => (batch.schema_ref().field(at).clone(), Arc::clone(batch.column(at))),
        Err(_) => (field.as_ref().clone(), new_null_array(field.data_type(), batch.num_rows())),
    });
    let (fields, columns): (Vec<_>, Vec<_>) = columns.unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(status::internal)
}
