//! Conversion of rows to messages: each statement has a task that runs it, encodes its rows, and ends it when it exceeds its time or size, when it is
//! cancelled, or when the client disconnects, whether or not the client reads.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use arrow_flight::FlightData;
use arrow_flight::encode::{FlightDataEncoder, FlightDataEncoderBuilder, GRPC_TARGET_MAX_FLIGHT_SIZE_BYTES};
use arrow_flight::error::FlightError;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tonic::{Code, Status};
use warpmill::{Form, PlannedStatement, given_schema, with_schema};

use crate::server::Shared;
use crate::session::{ClientSession, Handle, Running, Ticket, Work};
use crate::status;

/// Encoded messages with rows.
pub(crate) type Messages = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// Encoded messages that may wait for the client.
const MESSAGES_AHEAD: usize = 2;

/// A statement's record in the log and the metrics; if its outcome is not set, the client has disconnected.
pub(crate) struct Record {
    server: Arc<Shared>,
    session: Arc<ClientSession>,
    kind: &'static str,
    begun: Instant,
    admitted: Option<Instant>,
    rows: u64,
    bytes: u64,
    ended: bool,
}

impl Record {
    pub(crate) fn new(server: &Arc<Shared>, session: &Arc<ClientSession>, kind: &'static str) -> Self {
        Self {
            server: Arc::clone(server),
            session: Arc::clone(session),
            kind,
            begun: Instant::now(),
            admitted: None,
            rows: 0,
            bytes: 0,
            ended: false,
        }
    }

    pub(crate) fn admitted(&mut self) {
        self.admitted = Some(Instant::now());
    }

    pub(crate) fn end(&mut self, outcome: Result<(), &Status>) {
        self.ended = true;
        let now = Instant::now();
        let admitted = self.admitted.unwrap_or(now);
        let (waited, seconds) = ((admitted - self.begun).as_secs_f64(), (now - admitted).as_secs_f64());
        let code = outcome.map_or_else(Status::code, |()| Code::Ok);
        self.server.metrics.statement(self.kind, code, waited, seconds);
        self.server.metrics.rows.inc_by(self.rows);
        self.server.metrics.bytes.inc_by(self.bytes);
        let (session, user, kind) = (self.session.id, &*self.session.user, self.kind);
        let (rows, bytes) = (self.rows, self.bytes);
        match outcome {
            Ok(()) => tracing::info!(session, user, kind, rows, bytes, waited, seconds, "statement done"),
            Err(status) => {
                // The message may contain values of the statement or of its rows, which belong to the client.
                let code = format!("{:?}", status.code());
                tracing::warn!(session, user, kind, rows, bytes, waited, seconds, code, "statement failed");
            }
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.ended {
            self.end(Err(&Status::cancelled("the client has gone")));
        }
    }
}

/// The outcome of `work`, or the status for a cancellation or a timeout.
pub(crate) async fn within<T>(
    server: &Shared,
    running: &Running,
    time: Duration,
    work: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    tokio::select! {
        biased;
        () = running.stopped() => Err(match server.admission.is_draining() {
            true => Status::unavailable("the server is shutting down"),
            false => Status::cancelled("the statement was cancelled"),
        }),
        result = in_time(time, work) => result,
    }
}

/// The outcome of reading or planning a statement, which may take as long as running one.
pub(crate) async fn planning<T>(
    server: &Shared,
    session: &ClientSession,
    work: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let time = session.options.lock().query_time;
    let planned = async {
        let _place = server.admission.plan().await?;
        work.await
    };
    in_time(time, planned).await
}

async fn in_time<T>(time: Duration, work: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| {
        Err(Status::deadline_exceeded(format!("the statement took longer than {} seconds", time.as_secs_f64())))
    })
}

/// The schema announced to clients: dictionaries are sent as their values, UUIDs as texts.
pub(crate) fn announced(schema: &SchemaRef) -> SchemaRef {
    let encoder = encoder(schema, 1 << 20, futures::stream::empty());
    encoder.known_schema().unwrap_or_else(|| Arc::clone(schema))
}

fn encoder(
    schema: &SchemaRef,
    size: usize,
    batches: impl Stream<Item = Result<RecordBatch, Status>> + Send + 'static,
) -> FlightDataEncoder {
    let schema = given_schema(schema, Form::Texts);
    let given = Arc::clone(&schema);
    let batches = batches.map(move |batch| Ok(with_schema(batch.map_err(FlightError::from)?, &given)?));
    FlightDataEncoderBuilder::new().with_schema(schema).with_max_flight_data_size(size).build(batches)
}

/// The messages of rows that are there already.
pub(crate) fn batch_messages(schema: &SchemaRef, batches: Vec<RecordBatch>) -> Messages {
    let batches = batches.into_iter().filter(|batch| batch.num_columns() > 0).map(Ok);
    let messages =
        encoder(schema, GRPC_TARGET_MAX_FLIGHT_SIZE_BYTES, futures::stream::iter(batches.collect::<Vec<_>>()));
    Box::pin(messages.map_err(of_encoding))
}

/// Runs a statement and sends its rows.
pub(crate) fn answer(
    server: &Arc<Shared>,
    session: Arc<ClientSession>,
    handle: Option<Handle>,
    ticket: Ticket,
) -> Messages {
    if let Work::Done(batches) = ticket.work {
        return batch_messages(&ticket.schema, batches);
    }
    let (sender, mut receiver) = mpsc::channel(MESSAGES_AHEAD);
    let failure = Arc::new(Mutex::new(None));
    let running = server.sessions.handles.run(&session, handle);
    let mut record = Record::new(server, &session, kind_name(&ticket));
    let (server, failed) = (Arc::clone(server), Arc::clone(&failure));
    tokio::spawn(async move {
        let work = async {
            tokio::select! {
                biased;
                () = sender.closed() => Err(Status::cancelled("the client has gone")),
                outcome = run(&server, &session, &running, ticket, &mut record, &sender) => outcome,
            }
        };
        let outcome = AssertUnwindSafe(work).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|panic| Err(status::of_panic(&*panic, "statement")));
        record.end(outcome.as_ref().copied());
        *failed.lock() = outcome.err();
        // The reason why the statement stopped is there before its channel closes.
        drop(sender);
    });
    Box::pin(futures::stream::poll_fn(move |context| {
        receiver.poll_recv(context).map(|message| message.map(Ok).or_else(|| failure.lock().take().map(Err)))
    }))
}

fn kind_name(ticket: &Ticket) -> &'static str {
    ticket.statement.kind.name()
}

async fn run(
    server: &Arc<Shared>,
    session: &Arc<ClientSession>,
    running: &Running,
    ticket: Ticket,
    record: &mut Record,
    sender: &mpsc::Sender<FlightData>,
) -> Result<(), Status> {
    let _room = tokio::select! {
        biased;
        () = running.stopped() => return Err(Status::cancelled("the statement was cancelled")),
        room = server.admission.admit(session) => room?,
    };
    record.admitted();
    let (time, limit) = {
        let options = session.options.lock();
        (options.query_time, options.result_bytes)
    };
    within(server, running, time, send(server, session, ticket, record, sender, limit)).await
}

async fn send(
    server: &Shared,
    session: &ClientSession,
    ticket: Ticket,
    record: &mut Record,
    sender: &mpsc::Sender<FlightData>,
    limit: u64,
) -> Result<(), Status> {
    let Ticket { schema, work, statement } = ticket;
    let plans = match work {
        Work::Plans(plans) => plans,
        Work::Deferred(parameters) => {
            let planned = session.engine.plan(&statement.sql, &parameters).await;
            vec![planned.map_err(|error| status::of(&error))?]
        }
        Work::Done(_) => vec![],
    };
    let most = server.policy.limits.message_bytes;
    let rows = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&rows);
    let counted = batches(plans, &schema).inspect_ok(move |batch| {
        counter.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
    });
    let mut messages = encoder(&schema, GRPC_TARGET_MAX_FLIGHT_SIZE_BYTES.min(most / 2), counted);
    while let Some(message) = messages.next().await {
        let message = message.map_err(of_encoding)?;
        let size = message.data_header.len() + message.data_body.len();
        record.bytes += size as u64;
        record.rows = rows.load(Ordering::Relaxed);
        if size > most {
            return Err(Status::resource_exhausted(format!(
                "a row needs a message of {size} bytes, the limit is {most}"
            )));
        }
        if limit > 0 && record.bytes > limit {
            return Err(Status::resource_exhausted(format!(
                "the result has more than {limit} bytes, which is the limit"
            )));
        }
        if sender.send(message).await.is_err() {
            return Err(Status::cancelled("the client has gone"));
        }
    }
    Ok(())
}

/// The rows of all plans in sequence; each plan begins when the one before has ended.
fn batches(
    plans: Vec<PlannedStatement>,
    schema: &SchemaRef,
) -> impl Stream<Item = Result<RecordBatch, Status>> + Send + use<> {
    let schema = Arc::clone(schema);
    let start = move |plan: PlannedStatement| {
        let same =
            |(a, b): (&Arc<arrow::datatypes::Field>, &Arc<arrow::datatypes::Field>)| a.data_type() == b.data_type();
        let fields = (plan.schema.fields(), schema.fields());
        if fields.0.len() != fields.1.len() || !fields.0.iter().zip(fields.1).all(same) {
            return Err(Status::aborted("the columns of the result are not those that were announced: ask again"));
        }
        let rows = plan.rows().map_err(|error| status::of(&error))?;
        Ok(rows.map_err(|error| status::of(&error)))
    };
    let filled = |batch: &RecordBatch| futures::future::ready(batch.num_columns() > 0);
    futures::stream::iter(plans).map(start).try_flatten().try_filter(filled)
}

fn of_encoding(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        error => status::internal(error),
    }
}
