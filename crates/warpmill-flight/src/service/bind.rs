//! The batches that a client sends, and binding them to the parameters of a prepared statement.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use tonic::{Status, Streaming};
use warpmill::ScalarValue;

use crate::server::Shared;
use crate::session::ClientSession;
use crate::status;

/// Messages of batches, the first of which has been looked at.
pub(super) struct Data {
    first: FlightData,
    rest: Streaming<FlightData>,
}

/// A row of values for each time that a statement is to be run.
pub(super) type Rows = Vec<Vec<ScalarValue>>;

/// The bytes of parameters that may be bound, in messages of the largest size.
const MESSAGES: usize = 8;

impl Data {
    pub(super) fn new(first: FlightData, rest: Streaming<FlightData>) -> Self {
        Self { first, rest }
    }

    /// The batches, whose dictionaries have no more than `limit` bytes. A first message without data names the command
    /// only.
    pub(super) fn batches(self, limit: usize) -> FlightRecordBatchStream {
        let first = (!self.first.data_header.is_empty()).then_some(Ok(self.first));
        let rest = self.rest.map_err(|status| FlightError::from(status::of_transport(status)));
        let mut dictionaries = HashMap::new();
        let all = futures::stream::iter(first).chain(rest);
        let all = all.map(move |message| checked(message?, &mut dictionaries, limit as u64));
        FlightRecordBatchStream::new_from_flight_data(all)
    }

    /// All rows; `None` where there is no batch of columns at all.
    async fn rows(self, limit: usize) -> Result<Option<Rows>, Status> {
        let mut batches = self.batches(limit);
        let (mut rows, mut found) = (Vec::new(), false);
        let mut room = Room { left: limit, limit };
        while let Some(batch) = next(&mut batches).await? {
            room.take(batch.get_array_memory_size())?;
            found |= batch.num_columns() > 0;
            if batch.num_columns() > 0 {
                // Without bytes, or with the same ones in many rows, a few of a message may stand for any number of
                // values.
                let row = size_of::<Vec<ScalarValue>>() + batch.num_columns() * size_of::<ScalarValue>();
                room.take(batch.num_rows().saturating_mul(row))?;
                for row in 0..batch.num_rows() {
                    rows.push(values(&batch, row, &mut room)?);
                }
            }
        }
        Ok(found.then_some(rows))
    }
}

/// The bytes that parameters may still have.
struct Room {
    left: usize,
    limit: usize,
}

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        let limit = self.limit;
        let refused = || Status::resource_exhausted(format!("the parameters have more than {limit} bytes"));
        self.left = self.left.checked_sub(bytes).ok_or_else(refused)?;
        Ok(())
    }
}

/// A message that claims no more than it has: the decoder makes room for what is claimed. Those of `dictionaries` stay.
fn checked(message: FlightData, dictionaries: &mut HashMap<i64, u64>, limit: u64) -> Result<FlightData, FlightError> {
    match warpmill::check_message(&message.data_header, &message.data_body, dictionaries) {
        Ok(()) if dictionaries.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)) > limit => {
            let status = Status::resource_exhausted(format!("the dictionaries have more than {limit} bytes"));
            Err(FlightError::from(status))
        }
        Ok(()) => Ok(message),
        Err(error @ warpmill::Error::OutOfMemory(_)) => Err(FlightError::from(status::of(&error))),
        Err(error) => Err(FlightError::DecodeError(error.to_string())),
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
        // A stream that the client has reset ends as one that is complete does. Whoever answers a reset stream is dropped as
        // soon as it waits, and must not take the rows for all there are before that.
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
pub(super) async fn parameters(server: &Shared, wanted: usize, data: Data) -> Result<Option<Rows>, Status> {
    let limit = server.policy.limits.message_bytes.saturating_mul(MESSAGES);
    let Some(rows) = data.rows(limit).await? else { return Ok(None) };
    match rows.first().map(Vec::len) {
        Some(given) if given != wanted => Err(Status::invalid_argument(format!(
            "the statement has {wanted} parameters, the batch has {given} columns"
        ))),
        _ => Ok(Some(rows)),
    }
}

/// Binds rows to a prepared statement: it is run for each of them.
pub(super) async fn bind(
    server: &Arc<Shared>,
    session: &ClientSession,
    handle: &[u8],
    data: Data,
) -> Result<(), Status> {
    let (_, prepared) = server.sessions.handles.prepared(&session.user, handle)?;
    let rows = parameters(server, prepared.statement.parameters.len(), data).await?;
    *prepared.rows.lock() = Arc::new(rows.unwrap_or_default());
    Ok(())
}
