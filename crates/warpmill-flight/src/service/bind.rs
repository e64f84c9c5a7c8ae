//! The batches that a client sends, and binding them to the parameters of a prepared statement.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use tonic::{Status, Streaming};
use warpmill::ScalarValue;

use super::held::{Bound, hold, reservation};
use crate::server::Shared;
use crate::session::ClientSession;
use crate::status;

/// Messages of batches; the first one has been inspected.
pub(super) struct Data {
    first: FlightData,
    rest: Streaming<FlightData>,
}

/// Largest size of bound parameters, in messages of the largest size.
const MESSAGES: usize = 8;

impl Data {
    pub(super) fn new(first: FlightData, rest: Streaming<FlightData>) -> Self {
        Self { first, rest }
    }

    /// Decodes the batches; limits dictionaries to `limit` bytes, and reserves them in `memory` together with the message being decoded. A first
    /// message without data only contains the command.
    pub(super) fn batches(self, limit: usize, memory: MemoryReservation) -> FlightRecordBatchStream {
        let first = (!self.first.data_header.is_empty()).then_some(Ok(self.first));
        let rest = self.rest.map_err(|status| FlightError::from(status::of_transport(status)));
        let mut checks = Checks { dictionaries: HashMap::new(), limit: limit as u64, memory };
        let all = futures::stream::iter(first).chain(rest);
        let all = all.map(move |message| checks.checked(message?));
        FlightRecordBatchStream::new_from_flight_data(all)
    }

    /// All rows; `None` if there is no schema at all.
    async fn rows(self, session: &ClientSession, limit: usize) -> Result<Option<Bound>, Status> {
        let mut batches = self.batches(limit, reservation(session, "a message of parameters"));
        let (mut rows, mut found) = (Vec::new(), false);
        let mut room = Room { used: 0, limit, memory: reservation(session, "bound parameters") };
        while let Some(batch) = next(&mut batches).await? {
            room.take(batch.get_array_memory_size())?;
            found |= batch.num_columns() > 0;
            if batch.num_columns() > 0 {
                // Columns without bytes, or with shared bytes, let a few bytes of a message represent any number of values.
                let row = size_of::<Vec<ScalarValue>>() + batch.num_columns() * size_of::<ScalarValue>();
                room.take(batch.num_rows().saturating_mul(row))?;
                for row in 0..batch.num_rows() {
                    rows.push(values(&batch, row, &mut room)?);
                }
            }
        }
        Ok(found.then(|| Bound::new(rows, room.memory)))
    }
}

/// Bytes used by parameters, out of a limit.
struct Room {
    used: usize,
    limit: usize,
    memory: MemoryReservation,
}

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        let limit = self.limit;
        let refused = || Status::resource_exhausted(format!("the parameters have more than {limit} bytes"));
        self.used = self.used.checked_add(bytes).filter(|used| *used <= limit).ok_or_else(refused)?;
        // Rows are many and small: memory is reserved in steps of a megabyte.
        let step = self.used.next_multiple_of(1 << 20);
        if step > self.memory.size() { hold(&self.memory, step) } else { Ok(()) }
    }
}

/// Limits checked for a stream's messages before they are decoded.
struct Checks {
    /// Bytes of the dictionaries, which stay until the stream ends.
    dictionaries: HashMap<i64, u64>,
    /// Largest size of dictionaries, in bytes.
    limit: u64,
    /// The reservation for the dictionaries and one message.
    memory: MemoryReservation,
}

impl Checks {
    /// Checks that a message claims no more bytes than it has, and that memory is available: the decoder allocates what is claimed.
    fn checked(&mut self, message: FlightData) -> Result<FlightData, FlightError> {
        let claimed = warpmill::check_message(&message.data_header, &message.data_body, &mut self.dictionaries);
        let claimed = claimed.map_err(|error| match error {
            warpmill::Error::OutOfMemory(_) => FlightError::from(status::of(&error)),
            error => FlightError::DecodeError(error.to_string()),
        })?;
        let (kept, limit) =
            (self.dictionaries.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)), self.limit);
        if kept > limit {
            let status = Status::resource_exhausted(format!("the dictionaries have more than {limit} bytes"));
            return Err(FlightError::from(status));
        }
        let message_bytes = (message.data_body.len() as u64).saturating_add(claimed);
        let bytes = usize::try_from(kept.saturating_add(message_bytes)).unwrap_or(usize::MAX);
        hold(&self.memory, bytes).map_err(FlightError::from)?;
        Ok(message)
    }
}

/// The next batch of a client's stream.
pub(super) async fn next(
    batches: &mut (impl Stream<Item = Result<RecordBatch, FlightError>> + Unpin),
) -> Result<Option<RecordBatch>, Status> {
    // Damaged buffers can be more than Arrow's reader expects.
    let next = AssertUnwindSafe(batches.next()).catch_unwind().await;
    let next = next.map_err(|_| Status::invalid_argument("the stream of batches is malformed"))?;
    if next.is_none() {
        // A stream that the client has reset ends like a complete one. The handler of a reset stream is dropped at its next await, so yielding here
        // prevents it from taking the rows so far for all.
        tokio::task::yield_now().await;
    }
    next.transpose().map_err(status::of_stream)
}

fn values(batch: &RecordBatch, row: usize, room: &mut Room) -> Result<Vec<ScalarValue>, Status> {
    let value = |column: &ArrayRef| -> Result<ScalarValue, Status> {
        let value = ScalarValue::try_from_array(column, row).map_err(|error| status::of(&error.into()))?;
        // Nested ones share the bytes of their batch.
        if !column.data_type().is_nested() {
            room.take(value.size() - size_of::<ScalarValue>())?;
        }
        Ok(value)
    };
    batch.columns().iter().map(value).collect()
}

/// The rows that a client sends for a statement of `wanted` parameters; `None` where it sends none.
pub(super) async fn parameters(
    server: &Shared,
    session: &ClientSession,
    wanted: usize,
    data: Data,
) -> Result<Option<Bound>, Status> {
    let limit = server.policy.limits.message_bytes.saturating_mul(MESSAGES);
    let Some(bound) = data.rows(session, limit).await? else { return Ok(None) };
    match bound.rows.first().map(Vec::len) {
        Some(given) if given != wanted => Err(Status::invalid_argument(format!(
            "the statement has {wanted} parameters, the batch has {given} columns"
        ))),
        _ => Ok(Some(bound)),
    }
}

/// Binds rows to a prepared statement, which is run for each of them.
pub(super) async fn bind(
    server: &Arc<Shared>,
    session: &ClientSession,
    handle: &[u8],
    data: Data,
) -> Result<(), Status> {
    let (session, prepared) = server.sessions.handles.prepared(&session.user, handle)?;
    // Drops the rows bound before, to free memory for these.
    *prepared.bound.lock() = Arc::default();
    let bound = parameters(server, &session, prepared.statement.parameters.len(), data).await?;
    *prepared.bound.lock() = Arc::new(bound.unwrap_or_default());
    Ok(())
}
